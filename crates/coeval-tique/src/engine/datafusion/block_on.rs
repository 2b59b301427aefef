// SPDX-License-Identifier: Apache-2.0
//! Runs a future to its end on the thread that asks for it.
//!
//! The executors of `futures` and `tokio` panic when one of them is entered inside another, and an application may call the
//! engine from wherever it likes. This one is no executor: it polls one future and parks in between.

use crate::interrupt::{LOOK, is_abandoned};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What the future gives. Blocks the thread. `None` once nobody waits for the outcome any more ([`abandonable`](crate::abandonable)):
/// the future is dropped then, with what it has spawned. That is noticed where the future waits.
pub(super) fn unless_abandoned<T>(future: impl Future<Output = T>) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        if is_abandoned() {
            return None;
        }
        std::thread::park_timeout(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::{Abandonment, abandonable};
    use std::time::Duration;

    #[test]
    fn what_nobody_waits_for_any_more_ends_also_if_nothing_wakes_it() {
        let statement = Abandonment::default();
        let leaving = statement.clone();
        let leaves = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            leaving.abandon();
        });
        let outcome = abandonable(&statement, || unless_abandoned(std::future::pending::<()>()));
        assert_eq!(outcome, None);
        leaves.join().unwrap();
        assert_eq!(unless_abandoned(async { 7 }), Some(7));
    }

    #[test]
    fn it_may_be_called_inside_of_executors_and_of_itself() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let sent = std::thread::spawn(move || sender.send(7));
        let inner = async { unless_abandoned(async { unless_abandoned(receiver) }) };
        assert_eq!(runtime.block_on(inner), Some(Some(Ok(7))));
        assert_eq!(sent.join().unwrap(), Ok(()));
    }
}
