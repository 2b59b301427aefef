// SPDX-License-Identifier: Apache-2.0
//! The safe snapshots of whoever follows a log: a replica (`README.md` beside this file has the proof).
//!
//! The log has each commit's `first_out`, and with each batch, and now and then alone, the *boundary* that the primary
//! had reached when it was written. Up to the last boundary `b` that is noted, every safe snapshot is final, and all
//! its members have been noted:
//!
//! ```text
//! worlds that are kept    b'        b'' | b      w1    w2        w3 = newest
//!                         dropped   used |       wait for the boundary
//! commits with an         o-----U        |             f is its first out-edge: U is a member at any world
//! out-edge                f     version(U)             from f on that does not have U
//! ```
//!
//! A follower has worlds at some versions only: it applies several batches at once, and drops worlds that wait for too
//! long. So it takes the newest that it has at or below `b`, and hands out the safe snapshot of *that* version: older
//! than it might be, and right. A commit between that version and `b` may be a member of it, so commits are kept by
//! the versions of worlds, not by `b`.
//!
//! # Memory
//! However long a writer on the primary holds the boundary: [`WAITING_MAX`] worlds, one more that is ready, and the
//! commits that can be members at one of these. Such a commit was under way on the primary when that world was
//! made, so there are at most as many as transactions were active then, for each world; and those noted since the newest world.
//!
//! # Cost
//! A push for each commit with an out-edge, and amortized one search among the worlds; a step for each world that waits,
//! when there are too many of them.

use super::rules::Rules;
use super::safe_snapshots::{Member, SafeSnapshot, SafeSnapshots};
use crate::Version;

/// As many worlds wait for the boundary. What is used instead of one that was dropped is then about a quarter older at
/// most, if a million versions wait (the 63rd root of a million is 1.25); a world that shares nearly everything with
/// its neighbours is cheap, but not free.
const WAITING_MAX: usize = 64;

/// The safe snapshots of whoever follows a log. `S` is a world at a version, `W` a write set or what finds it again.
#[derive(Debug)]
pub struct FollowedSnapshots<S, W> {
    /// Its boundary is the version of the last snapshot that was returned.
    snapshots: SafeSnapshots<W>,
    /// The last noted boundary.
    boundary: Version,
    /// What other readers were seen to have, when a safe snapshot was last asked for.
    shown: Version,
    /// Worlds that were not returned, in order; at most one of them is ready.
    worlds: Vec<Kept<S>>,
    /// The version of the last noted world, kept or not.
    newest: Version,
    waiting_max: usize,
    rules: Rules,
}

#[derive(Debug)]
struct Kept<S> {
    version: Version,
    world: S,
}

impl<S, W: Clone> FollowedSnapshots<S, W> {
    /// Of a copy that begins with the contents of version `begin`, whose world is `world`. No safe snapshot until a
    /// boundary at or beyond `begin` is noted; only that of [`Version::ZERO`], which is empty, needs none.
    #[must_use]
    pub fn new(begin: Version, world: S) -> Self {
        Self::with_rules(begin, world, WAITING_MAX, Rules::ALL_RIGHT)
    }

    pub(crate) fn with_rules(begin: Version, world: S, waiting_max: usize, rules: Rules) -> Self {
        assert!(waiting_max >= 2, "the oldest and the newest world that wait are kept");
        Self {
            // Nothing is known of a boundary yet, so commits that point below `begin` may still come.
            snapshots: SafeSnapshots::with_rules(Version::ZERO, rules),
            boundary: Version::ZERO,
            shown: Version::ZERO,
            worlds: vec![Kept { version: begin, world }],
            newest: begin,
            waiting_max,
            rules,
        }
    }

    /// Notes a commit of the log that has an out-edge (others need not be noted), in log order, each before a
    /// world that has it is noted.
    ///
    /// # Panics
    /// If it is not later than those noted; if a noted world, or the one begun with, has it already; or if its first
    /// out-edge lies at or below the noted boundary: the log would have said of a safe snapshot that it was final, and it
    /// was not.
    pub fn note_commit(&mut self, commit: Member<W>) {
        assert!(
            commit.order.version > self.newest,
            "{} comes behind its world {}",
            commit.order,
            self.newest
        );
        assert!(
            !(self.rules.is_member)(commit.first_out, self.boundary),
            "{} would change a safe snapshot up to {}",
            commit.order,
            self.boundary
        );
        self.snapshots.note_commit(commit);
    }

    /// Notes a boundary of the log: that of a batch or a heartbeat. One that is older than the last one changes
    /// nothing.
    ///
    /// All commits of the batches before that record have been noted by then (those of its own batch may come before or
    /// behind it, for they point beyond it); worlds may be far behind.
    pub fn note_boundary(&mut self, boundary: Version) {
        self.boundary = self.boundary.max(boundary);
        self.drop_outdated();
    }

    /// Notes that the contents of `version` are applied, and their world. Nothing changes if that version is the last one
    /// noted.
    ///
    /// # Panics
    /// If a newer version was noted before.
    pub fn note_world(&mut self, version: Version, world: S) {
        assert!(version >= self.newest, "the world goes back from {} to {version}", self.newest);
        if version > self.newest {
            self.newest = version;
            self.worlds.push(Kept { version, world });
            self.drop_outdated();
            self.thin_out();
            let (worlds, next) = (&self.worlds, version.next());
            self.snapshots.review(next, |first, end| has_version_in(worlds, first, end));
        }
    }

    /// If a newer safe snapshot than the last one returned can be made: what it holds, and the world that it is made
    /// from, the newest kept one at or below the noted boundary, whose version is the safe snapshot's boundary. That
    /// world is not kept any longer here. None as long as that world is newer than `shown`, what other readers see: a
    /// boundary may come before the word that what it is about is published.
    ///
    /// Cost: a step for each commit with an out-edge that is kept.
    pub fn advance(&mut self, shown: Version) -> Option<(SafeSnapshot<W>, S)> {
        self.shown = self.shown.max(shown);
        self.drop_outdated();
        if self.ready_count() == 0 {
            return None;
        }
        let Kept { version, world } = self.worlds.remove(0);
        Some((self.snapshots.advance(version), world))
    }

    /// Puts an equal world into the place of each kept one (a checkpoint has replaced chunks).
    pub fn replace_worlds(&mut self, mut change: impl FnMut(&S) -> S) {
        for kept in &mut self.worlds {
            kept.world = change(&kept.world);
        }
    }

    /// The last noted boundary; [`Version::ZERO`] before any.
    #[must_use]
    pub fn boundary(&self) -> Version {
        self.boundary
    }

    /// How many worlds are kept: one that is ready, and those that wait for the boundary.
    #[must_use]
    pub fn world_count(&self) -> usize {
        self.worlds.len()
    }

    /// How many commits are kept that may be members of safe snapshots to come.
    #[must_use]
    pub fn obscure_count(&self) -> usize {
        self.snapshots.obscure_count()
    }

    /// How many kept worlds the boundary has reached and other readers, too.
    fn ready_count(&self) -> usize {
        let ready = self.boundary.min(self.shown);
        self.worlds.partition_point(|kept| kept.version <= ready)
    }

    /// Of the worlds that are ready only the newest is of use.
    fn drop_outdated(&mut self) {
        self.worlds.drain(..self.ready_count().saturating_sub(1));
    }

    /// If too many worlds wait, drops the one whose absence matters least: where the one before it, which is then used
    /// in its place, is older by the smallest factor. So what waits gets sparser with its age, evenly on a scale of
    /// powers. The oldest and the newest stay.
    fn thin_out(&mut self) {
        let waiting = self.ready_count()..self.worlds.len();
        if waiting.len() <= self.waiting_max {
            return;
        }
        let age = |index: usize| u128::from(self.newest.get() - self.worlds[index].version.get());
        // The quotient age(index - 1) / age(index), compared without dividing.
        let least = (waiting.start + 1..waiting.end - 1)
            .min_by(|one, other| (age(one - 1) * age(*other)).cmp(&(age(other - 1) * age(*one))))
            .expect("at least two wait and one more");
        self.worlds.remove(least);
    }

    /// Forgets what [`note_world`](Self::note_world) forgets when it is worth a look.
    #[cfg(test)]
    pub(crate) fn forget_unreachable(&mut self) {
        let (worlds, next) = (&self.worlds, self.newest.next());
        self.snapshots.forget_unreachable(next, |first, end| has_version_in(worlds, first, end));
    }
}

/// Whether one of the worlds has a version in `first..end`.
fn has_version_in<S>(worlds: &[Kept<S>], first: Version, end: Version) -> bool {
    let at = worlds.partition_point(|kept| kept.version < first);
    worlds.get(at).is_some_and(|kept| kept.version < end)
}
