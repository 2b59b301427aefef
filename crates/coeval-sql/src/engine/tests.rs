// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::thread_priority::TransactionsShare;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

#[test]
fn who_comes_from_elsewhere_begins_after_a_few_pieces_of_a_task_that_is_always_ready() {
    let priority = QueryPriority::beside(TransactionsShare::default()).unwrap();
    let (runtime, _watch) = query_threads(1, priority, &Arc::new(Turns::new(1))).unwrap();
    let pieces = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&pieces);
    runtime.spawn(poll_fn(move |context| {
        counted.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(5));
        context.waker().wake_by_ref();
        Poll::<()>::Pending
    }));
    while pieces.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
    let counted = Arc::clone(&pieces);
    let coming = runtime.spawn(async move { counted.load(Ordering::Relaxed) });
    // Behind that, as this thread may get no core in between; it may have begun by then.
    let after = pieces.load(Ordering::Relaxed);
    let between = runtime.block_on(coming).unwrap().saturating_sub(after);
    assert!(between < 30, "{between} pieces before it began");
}
