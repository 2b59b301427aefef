// SPDX-License-Identifier: Apache-2.0
//! Runs a future to its end on the thread that asks for it.
//!
//! The executors of `futures` and `tokio` panic when one of them is entered inside another, and an application may call the
//! engine from wherever it likes. This one is no executor: it polls one future and parks in between.

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

/// What the future gives. Blocks the thread.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        // Returns at once if the waker was called since the poll; a wake-up without a reason costs one more poll.
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_may_be_called_inside_of_executors_and_of_itself() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let sent = std::thread::spawn(move || sender.send(7));
        assert_eq!(runtime.block_on(async { block_on(async { block_on(receiver) }) }), Ok(7));
        assert_eq!(sent.join().unwrap(), Ok(()));
    }
}
