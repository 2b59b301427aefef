// SPDX-License-Identifier: Apache-2.0
//! The threads on which sessions end: a few, however many clients leave at once.
//!
//! The end of a session may take a moment, since it rolls back what was left open, which is many small steps if it was
//! large. Tasks of a runtime cannot do that in the place of their thread: others wait for it. Its blocking threads
//! are not bounded by those who wait for a turn: a turn passes on before its thread is free, and the runtime makes
//! another. So these threads take sessions from a queue. Whoever waits in it still counts as a session.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Threads at most.
const THREADS_MAX: usize = 16;

/// How long a thread waits for somebody else to leave before it ends.
const KEPT_IDLE: Duration = Duration::from_secs(10);

/// See the module. When it is dropped, those who still wait are ended, and then the threads end.
pub(crate) struct Endings {
    queue: Arc<Queue>,
}

/// What a session is here: something that is dropped to end it.
type Leaving = Box<dyn Send>;

/// # Locking
/// `state` is a leaf, held for a step in the queue: nobody is ended and no thread is made under it.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Each session with its number.
    leaving: VecDeque<(i32, Leaving)>,
    threads: usize,
    /// Threads that wait for somebody to leave.
    idle: usize,
    is_closed: bool,
}

impl Endings {
    pub(crate) fn new() -> Self {
        let state = State { leaving: VecDeque::new(), threads: 0, idle: 0, is_closed: false };
        Self { queue: Arc::new(Queue { state: Mutex::new(state), changed: Condvar::new() }) }
    }

    /// Ends a session on one of the threads, soon.
    pub(crate) fn end(&self, pid: i32, session: Leaving) {
        let queue = &self.queue;
        {
            let mut state = queue.state.lock();
            state.leaving.push_back((pid, session));
            if state.leaving.len() <= state.idle || state.threads == THREADS_MAX {
                queue.changed.notify_one();
                return;
            }
            state.threads += 1;
        }
        let work = Arc::clone(queue);
        let builder = thread::Builder::new().name("coeval-ending".into());
        let made = builder.stack_size(coeval::STATEMENT_STACK_BYTES).spawn(move || work.run());
        if let Err(error) = made {
            tracing::warn!(%error, "there is no further thread for sessions to end on");
            queue.without_thread();
        }
    }
}

impl Queue {
    /// Ends those who leave until there is nobody for a while.
    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some((pid, session)) = state.leaving.pop_front() {
                drop(state);
                end_one(pid, session);
                state = self.state.lock();
                continue;
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let waited = self.changed.wait_for(&mut state, KEPT_IDLE);
            state.idle -= 1;
            if waited.timed_out() && state.leaving.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }

    /// Takes back a thread that could not be made. If there is no other, those who leave are ended here.
    fn without_thread(&self) {
        loop {
            let mut state = self.state.lock();
            if state.threads > 1 {
                break;
            }
            let Some((pid, session)) = state.leaving.pop_front() else { break };
            drop(state);
            end_one(pid, session);
        }
        self.state.lock().threads -= 1;
    }
}

impl Drop for Endings {
    fn drop(&mut self) {
        self.queue.state.lock().is_closed = true;
        self.queue.changed.notify_all();
    }
}

fn end_one(pid: i32, session: Leaving) {
    if catch_unwind(AssertUnwindSafe(|| drop(session))).is_err() {
        tracing::error!(pid, "a session's end panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::mpsc::{self, Sender};
    use std::thread::ThreadId;

    /// Takes its time to end, and tells on which thread it did.
    struct Slow(Sender<ThreadId>);

    impl Drop for Slow {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(1));
            self.0.send(thread::current().id()).unwrap();
            assert!(!thread::panicking());
        }
    }

    /// Panics when it ends.
    struct Broken;

    impl Drop for Broken {
        fn drop(&mut self) {
            panic!("broken");
        }
    }

    #[test]
    fn all_end_on_a_bounded_number_of_threads_also_when_the_queue_is_dropped() {
        let endings = Endings::new();
        let (sender, ended) = mpsc::channel();
        for pid in 0..500 {
            endings.end(pid, Box::new(Slow(sender.clone())));
        }
        drop((endings, sender));
        let threads: Vec<ThreadId> = ended.iter().collect();
        assert_eq!(threads.len(), 500);
        let threads: HashSet<ThreadId> = threads.into_iter().collect();
        assert!(threads.len() <= THREADS_MAX && !threads.contains(&thread::current().id()));
    }

    #[test]
    fn a_thread_that_is_idle_takes_the_next() {
        let endings = Endings::new();
        let (sender, ended) = mpsc::channel();
        let mut threads = HashSet::new();
        for pid in 0..20 {
            endings.end(pid, Box::new(Slow(sender.clone())));
            threads.insert(ended.recv().unwrap());
            while endings.queue.state.lock().idle == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(threads.len(), 1);
    }

    #[test]
    fn an_end_that_panics_takes_no_thread_with_it() {
        let endings = Endings::new();
        for pid in 0..THREADS_MAX as i32 + 1 {
            endings.end(pid, Box::new(Broken));
        }
        let (sender, ended) = mpsc::channel();
        endings.end(0, Box::new(Slow(sender)));
        assert!(ended.recv().is_ok());
    }
}
