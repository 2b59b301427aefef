// SPDX-License-Identifier: Apache-2.0
//! Panics on purpose, so that tests see what becomes of one in the places that every commit depends on.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Where a test can have a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Step {
    /// The leader has taken the queue.
    Take = 1,
    /// The time is written, and not noted as written.
    Time,
    /// The leader certifies a transaction.
    Certify,
    /// It applies one.
    Apply,
    /// It notes one as committed.
    Admit,
    /// It is about to append the record of a batch.
    Append,
    /// The record is appended, the world not installed.
    Install,
    /// The world is installed, what no transaction can conflict with is not forgotten yet.
    Prune,
    /// The record of a large transaction is appended, but for its body.
    Fill,
    /// The world is installed, nobody has been told.
    Verdicts,
    /// Whoever syncs the log for all has begun.
    Sync,
    /// Worlds are being published.
    Publish,
    /// Worlds are published; those who wait have not been woken.
    Settle,
    /// The keeper has been woken.
    Keep,
    /// It writes down how far safe snapshots may go.
    Beat,
    /// It attests the end of the log, which is not noted.
    Attest,
    /// It lets go of chunks.
    Unload,
    /// It drops worlds.
    Sweep,
    /// It purges brick tables.
    Purge,
    /// A checkpoint holds the leader's lock to begin.
    Freeze,
    /// A checkpoint has merged what it writes.
    Merge,
    /// It has flushed brick tables.
    Flush,
    /// Its manifest is written aside.
    WriteAside,
    /// Its manifest is in place, and not noted.
    Replace,
    /// A checkpoint holds the leader's lock to put its chunks in place.
    PutInPlace,
    /// Its files are about to be removed that nobody needs any more.
    Remove,
    /// The log is about to be removed that nobody needs any more.
    RemoveLog,
    /// A replica has applied records of its primary; its log does not have them.
    Follow,
    /// A replica has appended records to its log, and holds the leader's lock; the world is not installed.
    FollowInstall,
    /// A replica holds what its safe snapshots are made of.
    FollowSafe,
    /// A session has written the files of a bulk load or of new indexes, and not submitted it.
    Load,
    /// A session has its new index take in what others have committed.
    CatchUp,
}

/// At most one panic, at some passage through a step. Never armed outside tests.
#[derive(Debug, Default)]
pub(crate) struct Trap {
    /// The step; 0 for none. Plain: a test arms it before what it wants to see.
    armed: AtomicU8,
    /// So many pass before it springs.
    spared: AtomicU32,
}

impl Trap {
    /// Whoever comes to the step next panics.
    #[cfg(test)]
    pub(crate) fn arm(&self, step: Step) {
        self.arm_behind(step, 0);
    }

    /// So many pass the step, and the next one panics.
    #[cfg(test)]
    pub(crate) fn arm_behind(&self, step: Step, spared: u32) {
        self.spared.store(spared, Ordering::SeqCst);
        self.armed.store(step as u8, Ordering::SeqCst);
    }

    /// Whether somebody is still to come to the step.
    #[cfg(test)]
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::SeqCst) != 0
    }

    /// Panics if it is armed for this step.
    #[inline]
    pub(crate) fn pass(&self, step: Step) {
        if self.armed.load(Ordering::Relaxed) == step as u8 {
            self.spring(step);
        }
    }

    #[cold]
    fn spring(&self, step: Step) {
        let spare = |left: u32| left.checked_sub(1);
        if self.spared.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spare).is_ok() {
            return;
        }
        let is_first = self.armed.compare_exchange(step as u8, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        assert!(!is_first, "a trap was set at {step:?}");
    }
}

/// All steps, grouped by the threads that pass them.
#[cfg(test)]
impl Step {
    /// Whoever commits.
    pub(crate) const OF_COMMITS: [Step; 13] = [
        Step::Take,
        Step::Time,
        Step::Certify,
        Step::Apply,
        Step::Admit,
        Step::Append,
        Step::Install,
        Step::Prune,
        Step::Fill,
        Step::Verdicts,
        Step::Sync,
        Step::Publish,
        Step::Settle,
    ];
    /// The keeper.
    pub(crate) const OF_KEEPER: [Step; 6] =
        [Step::Keep, Step::Beat, Step::Attest, Step::Unload, Step::Sweep, Step::Purge];
    /// Checkpoints, whoever runs them.
    pub(crate) const OF_CHECKPOINTS: [Step; 8] = [
        Step::Freeze,
        Step::Merge,
        Step::Flush,
        Step::WriteAside,
        Step::Replace,
        Step::PutInPlace,
        Step::Remove,
        Step::RemoveLog,
    ];
    /// Replicas.
    pub(crate) const OF_FOLLOWERS: [Step; 3] = [Step::Follow, Step::FollowInstall, Step::FollowSafe];
    /// Sessions, before anything that others depend on.
    pub(crate) const OF_SESSIONS: [Step; 2] = [Step::Load, Step::CatchUp];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_in_one_list() {
        let lists: [&[Step]; 5] = [
            &Step::OF_COMMITS,
            &Step::OF_KEEPER,
            &Step::OF_CHECKPOINTS,
            &Step::OF_FOLLOWERS,
            &Step::OF_SESSIONS,
        ];
        let mut numbers: Vec<u8> = lists.concat().iter().map(|step| *step as u8).collect();
        numbers.sort_unstable();
        // The last one of the type: whoever adds one is asked for its list here.
        assert_eq!(numbers, (1..=Step::CatchUp as u8).collect::<Vec<_>>());
    }
}
