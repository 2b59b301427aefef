// SPDX-License-Identifier: Apache-2.0
//! No query keeps the threads for queries from the others, however long it works at a time.
//!
//! There are as many of these threads as cores, and each gives others a turn after some milliseconds, between two batches of rows
//! ([`turns`](crate::turns)). But one row may take a second, and a batch has thousands. With as many such queries as threads, no other
//! query would begin. So a separate thread watches: while all threads for queries are busy, it queues a small task for them every
//! [`BETWEEN`]. If none has run the task by the next time, it asks for a thread. A thread sees this request where it checks whether its
//! statement was told to end ([`hand_over_if_wanted`]). If its piece of work has lasted for so long, too, it gives its place to another
//! thread, finishes its batch without a place, and goes back to the reserve. How the cores are shared then is left to the operating
//! system.
//!
//! The watch waits without a clock while some thread for queries has nothing to do.
//!
//! # Locking
//! The watch's thread is woken by `unpark`, which is remembered if it is not parked yet; nothing else is shared but numbers.

use crate::turns::{piece_time, uncounted};
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, RuntimeFlavor};

/// Time between two errands.
const BETWEEN: Duration = Duration::from_millis(50);

/// How long a thread that gives up its place waits for another one to take it; without the wait it might take the place back itself.
/// A fixed time, as tokio does not tell when a place is taken.
const TAKING: Duration = Duration::from_millis(5);

/// The number of the request for a thread; 0 if none is wanted. One for the whole process, as the code that looks does not know
/// the engine. Each thread answers a request once: a thread that has no place to give, because it has just given it, loses some
/// milliseconds and leaves the request to the others.
static WANTED: AtomicU64 = AtomicU64::new(0);

/// The number of the last request.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_FOR_QUERIES: Cell<bool> = const { Cell::new(false) };
    static ANSWERED: Cell<u64> = const { Cell::new(0) };
}

/// Lets another thread have this one's place among those for queries, if one is wanted. To be called where it is looked whether a
/// statement is to end.
#[inline]
pub(crate) fn hand_over_if_wanted() {
    let request = WANTED.load(Ordering::Relaxed);
    if request != 0 {
        hand_over(request);
    }
}

#[cold]
fn hand_over(request: u64) {
    // The clock comes last: this is asked for each row.
    let is_asked = IS_FOR_QUERIES.get() && ANSWERED.get() != request;
    // A piece of work that is not long ends by itself.
    if !is_asked || piece_time().is_some_and(|time| time < BETWEEN) {
        return;
    }
    ANSWERED.set(request);
    tokio::task::block_in_place(|| thread::sleep(TAKING));
}

/// Runs what waits, or belongs to no query. If this thread serves others too, as one of a runtime of several, they go on with
/// another one meanwhile.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    uncounted(|| with_place_given(work))
}

/// As [`aside`], for what a query takes its time for: that counts as its own.
pub(crate) fn with_place_given<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(work)
        }
        Ok(_) | Err(_) => work(),
    }
}

/// What the threads tell the watch.
#[derive(Debug, Default)]
struct Threads {
    /// Those that wait for work.
    idle: AtomicUsize,
    /// The watch waits until none is idle.
    is_watch_waiting: AtomicBool,
    watch: OnceLock<Thread>,
    is_over: AtomicBool,
}

impl Threads {
    fn note_work(&self) {
        // In one order with what the watch does: either it sees that none is idle, or it is seen to wait.
        let is_last = self.idle.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && self.is_watch_waiting.swap(false, Ordering::SeqCst) {
            self.wake_watch();
        }
    }

    fn wake_watch(&self) {
        if let Some(watch) = self.watch.get() {
            watch.unpark();
        }
    }

    /// Waits until no thread is idle, or the watch is over.
    fn wait_for_work(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            self.is_watch_waiting.store(true, Ordering::SeqCst);
            if self.idle.load(Ordering::SeqCst) == 0 {
                return;
            }
            thread::park();
        }
    }
}

/// The watch over the threads of a runtime. It ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Watch(Arc<Threads>);

impl Watch {
    /// Has the threads of a runtime tell when they have nothing to do. What else is done when one of them begins, and before it
    /// sleeps, are `begin` and `before_sleep`: a runtime has one place for each.
    pub(crate) fn prepare(
        &self,
        builder: &mut Builder,
        begin: impl Fn() + Send + Sync + 'static,
        before_sleep: impl Fn() + Send + Sync + 'static,
    ) {
        let (parking, unparking) = (Arc::clone(&self.0), Arc::clone(&self.0));
        builder.on_thread_start(move || {
            IS_FOR_QUERIES.set(true);
            begin();
        });
        builder.on_thread_park(move || {
            before_sleep();
            parking.idle.fetch_add(1, Ordering::SeqCst);
        });
        builder.on_thread_unpark(move || unparking.note_work());
    }

    /// Begins to watch over the threads of this runtime.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn begin(&self, runtime: Handle) -> io::Result<()> {
        let threads = Arc::clone(&self.0);
        let watch = thread::Builder::new().name("coeval-watch".to_owned());
        watch.spawn(move || {
            let _ = threads.watch.set(thread::current());
            while !threads.is_over.load(Ordering::SeqCst) {
                threads.wait_for_work();
                watch_errand(&threads, &runtime);
            }
        })?;
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
        self.0.wake_watch();
    }
}

/// Sends an errand, and asks for a thread until it is done.
fn watch_errand(threads: &Threads, runtime: &Handle) {
    let is_done = Arc::new(AtomicBool::new(false));
    let doing = Arc::clone(&is_done);
    runtime.spawn(async move { doing.store(true, Ordering::Relaxed) });
    loop {
        // However soon it is done: the next one is not to come at once.
        thread::sleep(BETWEEN);
        let is_over = threads.is_over.load(Ordering::SeqCst);
        let is_wanted = !is_over && !is_done.load(Ordering::Relaxed);
        let request = if is_wanted { REQUESTS.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
        WANTED.store(request, Ordering::Relaxed);
        if !is_wanted {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::{Turns, in_turns};
    use futures::FutureExt;
    use std::sync::Barrier;
    use std::sync::mpsc::channel;
    use tokio::runtime::Runtime;

    /// A runtime of two threads, which are both at work until this is dropped.
    struct Busy {
        runtime: Runtime,
        _watch: Watch,
        is_over: Arc<AtomicBool>,
    }

    impl Busy {
        fn with(step: fn()) -> Self {
            let watch = Watch::default();
            let mut builder = Builder::new_multi_thread();
            watch.prepare(builder.worker_threads(2), || (), || ());
            let runtime = builder.build().unwrap();
            watch.begin(runtime.handle().clone()).unwrap();
            // They have gone to sleep, and the watch with them.
            thread::sleep(4 * BETWEEN);
            let (is_over, both) = (Arc::<AtomicBool>::default(), Arc::new(Barrier::new(3)));
            for _ in 0..2 {
                let (is_over, both) = (Arc::clone(&is_over), Arc::clone(&both));
                runtime.spawn(async move {
                    both.wait();
                    while !is_over.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                        step();
                    }
                });
            }
            both.wait();
            Self { runtime, _watch: watch, is_over }
        }

        /// Whether somebody else's work is done in this time.
        fn serves_within(&self, time: Duration) -> bool {
            let (answer, answered) = channel();
            self.runtime.spawn(async move { answer.send(()) });
            answered.recv_timeout(time).is_ok()
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_works_for_long_lets_others_begin() {
        let busy = Busy::with(hand_over_if_wanted);
        for _ in 0..3 {
            assert!(busy.serves_within(Duration::from_secs(10)));
        }
    }

    #[test]
    fn a_piece_that_is_not_long_keeps_its_thread() {
        const REQUEST: u64 = u64::MAX;
        let asked = thread::spawn(|| {
            Arc::new(Turns::new(1)).serve_on_this_thread();
            IS_FOR_QUERIES.set(true);
            let piece = in_turns(&Arc::default(), async {
                hand_over(REQUEST);
                ANSWERED.get()
            });
            let within = piece.now_or_never();
            hand_over(REQUEST);
            (within, ANSWERED.get())
        });
        assert_eq!(asked.join().unwrap(), (Some(0), REQUEST));
    }

    #[test]
    fn who_does_not_look_keeps_the_others_out() {
        let busy = Busy::with(|| ());
        assert!(!busy.serves_within(8 * BETWEEN));
        busy.is_over.store(true, Ordering::Relaxed);
        assert!(busy.serves_within(Duration::from_secs(10)));
    }
}
