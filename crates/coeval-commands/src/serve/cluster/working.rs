// SPDX-License-Identifier: Apache-2.0
//! What statements have a node do, on threads of its own.
//!
//! Why: whoever waits for it may be polled by any thread, of no runtime or of one whose threads are busy with queries; and a node waits
//! by the clock of a runtime.

use super::errors::not_there;
use coeval::SqlError;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Work that is under way. If nobody waits for it any more, it is given up.
#[derive(Debug)]
pub(super) struct Working<T>(JoinHandle<Result<T, SqlError>>);

/// Begins some work.
pub(super) fn begin<T: Send + 'static>(
    threads: &Handle,
    work: impl Future<Output = Result<T, SqlError>> + Send + 'static,
) -> Working<T> {
    Working(threads.spawn(work))
}

impl<T> Future for Working<T> {
    type Output = Result<T, SqlError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = |error: tokio::task::JoinError| {
            if error.is_panic() { SqlError::internal(error.to_string()) } else { not_there("it has ended") }
        };
        Pin::new(&mut self.0).poll(context).map(|done| done.unwrap_or_else(|error| Err(ended(error))))
    }
}

impl<T> Drop for Working<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    /// Says when it is dropped.
    struct Noticed(Arc<AtomicBool>);

    impl Drop for Noticed {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    /// To break it: leave out that dropping ends it. A load whose statement was cancelled goes on then.
    #[test]
    fn work_that_nobody_waits_for_is_given_up() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let is_gone = Arc::new(AtomicBool::new(false));
        let noticed = Noticed(Arc::clone(&is_gone));
        let working = begin(runtime.handle(), async move {
            let _noticed = noticed;
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(())
        });
        drop(working);
        let begun = std::time::Instant::now();
        while !is_gone.load(Ordering::SeqCst) {
            assert!(begun.elapsed() < Duration::from_secs(30), "it goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// To break it: run it where it is waited for. There is no clock then.
    #[test]
    fn work_is_waited_for_without_a_runtime() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let working = begin(runtime.handle(), async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(7)
        });
        assert_eq!(futures::executor::block_on(working), Ok(7));
        let late = begin(runtime.handle(), std::future::pending::<Result<(), SqlError>>());
        runtime.shutdown_background();
        assert_eq!(futures::executor::block_on(late).unwrap_err().state, coeval::SqlState::CannotConnectNow);
    }
}
