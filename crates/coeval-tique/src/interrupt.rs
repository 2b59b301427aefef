// SPDX-License-Identifier: Apache-2.0
//! Waits for other transactions, and work of engines, that end when their statement is to end.
//!
//! Who calls a session says on its own thread when a wait there is to end ([`interruptible`]). The waits look at it every [`LOOK`]. What
//! the engine does is not such a wait. But somebody may stop waiting for the outcome of a statement of a block ([`abandonable`],
//! [`Abandonment::abandon`]), and then it ends as soon as its engine lets it:
//!
//! | what the statement does | how it ends |
//! |---|---|
//! | a query of Coeval's own engine | it looks where it waits for its threads |
//! | a call of a driver that can cancel ([`stoppable`]) | a thread of its own asks the driver, again and again until the call has ended |
//! | between two calls, between two batches of rows, a wait for other statements | it looks |
//! | any other call | not before its end |
//!
//! The driver is asked more than once because a request may come just before the engine begins its work, and have no effect then.
//! What has to be done however the statement ends, such as a ROLLBACK, is [done to its end](to_its_end), and so is what the leader of a
//! commit does for all who commit with it.

use parking_lot::{Condvar, Mutex};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, LocalKey};
use std::time::Duration;

/// How often who waits looks whether that is to end.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// The longest time between two requests to a call that does not end. The first is made at once, the second after [`LOOK`], and each
/// later time is twice the one before: most calls hear the first one, and a server is not to be kept busy with requests.
const ASK_AGAIN_MAX: Duration = Duration::from_secs(1);

/// Whether waits are to end.
pub type Interrupt = Arc<dyn Fn() -> bool + Send + Sync>;

/// Asks a call to end, from any thread; `Break` if it is of no use to ask again.
type Stop = Box<dyn Fn() -> ControlFlow<()> + Send + Sync>;

thread_local! {
    static INTERRUPT: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
    static ABANDONED: RefCell<Option<Abandonment>> = const { RefCell::new(None) };
}

/// A statement that somebody waits for, until it is abandoned. Clones are the same statement.
#[derive(Clone, Default)]
pub struct Abandonment {
    state: Arc<State>,
}

/// # Locking
/// `running` is held for moments, and by the thread that asks a call to end while it asks: the call's end waits for that, since what is
/// asked is there no longer then. `is_set` is set before `running` is looked at, and looked at after `running` was set: so either the call
/// is not begun, or whoever abandons it finds it.
#[derive(Default)]
struct State {
    is_set: AtomicBool,
    /// How to ask the call that runs to end.
    running: Mutex<Option<Stop>>,
    ended: Condvar,
}

impl Abandonment {
    /// Nobody waits for the statement any more: it ends as soon as its engine lets it, with any error. Returns at once; the engine is
    /// asked by another thread, which ends with the statement's call.
    pub fn abandon(&self) {
        if self.state.is_set.swap(true, Ordering::SeqCst) || self.state.running.lock().is_none() {
            return;
        }
        let state = Arc::clone(&self.state);
        // If the system gives no thread, the call runs to its end.
        drop(thread::Builder::new().name("tique-cancel".to_owned()).spawn(move || state.ask_until_it_ends()));
    }

    fn is_set(&self) -> bool {
        self.state.is_set.load(Ordering::SeqCst)
    }
}

impl State {
    fn ask_until_it_ends(&self) {
        let (mut running, mut pause) = (self.running.lock(), LOOK);
        loop {
            match running.as_ref().map(|stop| stop()) {
                Some(ControlFlow::Continue(())) => {}
                Some(ControlFlow::Break(())) | None => return,
            }
            self.ended.wait_for(&mut running, pause);
            pause = (pause * 2).min(ASK_AGAIN_MAX);
        }
    }
}

/// A call that can be asked to end, until this is dropped.
struct Running {
    state: Arc<State>,
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.state.running.lock() = None;
        self.state.ended.notify_all();
    }
}

/// Does this; what it waits for on this thread, it waits for until `interrupt` says that it is to end: 57014, and nothing took effect, or
/// 08007 of a commit that has happened and is not seen yet.
pub fn interruptible<T>(interrupt: Option<Interrupt>, work: impl FnOnce() -> T) -> T {
    let _back = Before { place: &INTERRUPT, before: INTERRUPT.replace(interrupt) };
    work()
}

/// Runs a statement of a block, which ends with any error once it is abandoned: the block can only be rolled back then.
pub fn abandonable<T>(statement: &Abandonment, work: impl FnOnce() -> T) -> T {
    let _back = Before { place: &ABANDONED, before: ABANDONED.replace(Some(statement.clone())) };
    work()
}

/// Does this whether or not its statement is to end: others rely on it.
pub(crate) fn to_its_end<T>(work: impl FnOnce() -> T) -> T {
    let _abandoned = Before { place: &ABANDONED, before: ABANDONED.take() };
    let _interrupt = Before { place: &INTERRUPT, before: INTERRUPT.take() };
    work()
}

/// Makes a call of an engine, which `stop` asks to end once the statement that runs on this thread is abandoned. `stop` is not called
/// behind the call's end. `None` if the statement has been abandoned: the call was not made.
pub(crate) fn stoppable<T>(
    stop: impl Fn() -> ControlFlow<()> + Send + Sync + 'static,
    call: impl FnOnce() -> T,
) -> Option<T> {
    let Some(statement) = ABANDONED.with_borrow(Clone::clone) else { return Some(call()) };
    if statement.is_set() {
        return None;
    }
    *statement.state.running.lock() = Some(Box::new(stop));
    let _running = Running { state: Arc::clone(&statement.state) };
    if statement.is_set() { None } else { Some(call()) }
}

struct Before<T: 'static> {
    place: &'static LocalKey<RefCell<Option<T>>>,
    before: Option<T>,
}

impl<T: 'static> Drop for Before<T> {
    fn drop(&mut self) {
        self.place.set(self.before.take());
    }
}

/// Whether nobody waits for the outcome of the statement that runs on this thread.
pub(crate) fn is_abandoned() -> bool {
    ABANDONED.with_borrow(|statement| statement.as_ref().is_some_and(Abandonment::is_set))
}

/// Whether what waits on this thread is to end.
pub(crate) fn is_interrupted() -> bool {
    INTERRUPT.with_borrow(|interrupt| interrupt.as_ref().is_some_and(|is_set| is_set()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    /// A call that ends when it was asked so often, and how often it was asked.
    fn ends_after(
        requests: usize,
    ) -> (Arc<AtomicUsize>, impl Fn() -> ControlFlow<()>, impl FnOnce() -> usize) {
        let asked = Arc::new(AtomicUsize::new(0));
        let (count, seen) = (Arc::clone(&asked), Arc::clone(&asked));
        let stop = move || {
            count.fetch_add(1, Ordering::SeqCst);
            ControlFlow::Continue(())
        };
        let call = move || {
            let began = Instant::now();
            while seen.load(Ordering::SeqCst) < requests {
                assert!(began.elapsed() < Duration::from_secs(20), "it is not asked to end");
                thread::sleep(Duration::from_millis(1));
            }
            seen.load(Ordering::SeqCst)
        };
        (asked, stop, call)
    }

    #[test]
    fn a_call_is_asked_to_end_until_it_does_and_not_behind_its_end() {
        let statement = Abandonment::default();
        let (asked, stop, call) = ends_after(3);
        let theirs = statement.clone();
        let working = thread::spawn(move || {
            let first = abandonable(&theirs, || stoppable(stop, call));
            // It was abandoned, so no further call is made; what has to be done is.
            let second = abandonable(&theirs, || stoppable(|| ControlFlow::Continue(()), || ()));
            let third =
                abandonable(&theirs, || to_its_end(|| stoppable(|| ControlFlow::Continue(()), is_abandoned)));
            (first.is_some(), second, third)
        });
        while statement.state.running.lock().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        statement.abandon();
        statement.abandon();
        assert_eq!(working.join().unwrap(), (true, None, Some(false)));
        let count = asked.load(Ordering::SeqCst);
        thread::sleep(LOOK * 5);
        assert_eq!(asked.load(Ordering::SeqCst), count);
        assert!(!is_abandoned());
    }

    #[test]
    fn a_call_that_hears_nothing_is_asked_once() {
        let statement = Abandonment::default();
        let theirs = statement.clone();
        let (asked, continuing, call) = ends_after(1);
        let stop = move || {
            let _ = continuing();
            ControlFlow::Break(())
        };
        let (go_on, wait) = channel::<()>();
        let call = move || {
            call();
            // Until it was looked at, for which it takes somebody whom it does not keep waiting.
            let _ = wait.recv_timeout(Duration::from_secs(20));
            thread::sleep(LOOK * 10);
        };
        let working = thread::spawn(move || abandonable(&theirs, || stoppable(stop, call)));
        while statement.state.running.lock().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        statement.abandon();
        assert!(!working.is_finished(), "who abandons a statement does not wait for it");
        go_on.send(()).unwrap();
        assert_eq!(working.join().unwrap(), Some(()));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}
