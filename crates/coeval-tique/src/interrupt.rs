// SPDX-License-Identifier: Apache-2.0
//! Waits for other transactions that end when their statement is to end.
//!
//! Who calls a session says on its own thread when a wait there is to end ([`interruptible`]). The waits look at it every [`LOOK`]. What
//! the engine does is not a wait, and is not interrupted. But a statement of a block whose outcome nobody waits for any more may say so
//! ([`abandonable`]), and an engine that can end it does.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::LocalKey;
use std::time::Duration;

/// How often who waits looks whether that is to end.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Whether waits are to end.
pub type Interrupt = Arc<dyn Fn() -> bool + Send + Sync>;

thread_local! {
    static INTERRUPT: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
    static ABANDONED: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
}

/// Does this; what it waits for on this thread, it waits for until `interrupt` says that it is to end: 57014, and nothing took effect, or
/// 08007 of a commit that has happened and is not seen yet.
pub fn interruptible<T>(interrupt: Option<Interrupt>, work: impl FnOnce() -> T) -> T {
    let _back = Before { place: &INTERRUPT, before: INTERRUPT.replace(interrupt) };
    work()
}

/// Runs a statement of a block, which an engine may end with any error once nobody waits for its outcome.
pub fn abandonable<T>(is_abandoned: Interrupt, work: impl FnOnce() -> T) -> T {
    let _back = Before { place: &ABANDONED, before: ABANDONED.replace(Some(is_abandoned)) };
    work()
}

struct Before {
    place: &'static LocalKey<RefCell<Option<Interrupt>>>,
    before: Option<Interrupt>,
}

impl Drop for Before {
    fn drop(&mut self) {
        self.place.set(self.before.take());
    }
}

/// Whether nobody waits for the outcome of the statement that runs on this thread.
pub(crate) fn is_abandoned() -> bool {
    ABANDONED.with_borrow(|abandoned| abandoned.as_ref().is_some_and(|is_set| is_set()))
}

/// Whether what waits on this thread is to end.
pub(crate) fn is_interrupted() -> bool {
    INTERRUPT.with_borrow(|interrupt| interrupt.as_ref().is_some_and(|is_set| is_set()))
}
