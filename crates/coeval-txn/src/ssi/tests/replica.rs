// SPDX-License-Identifier: Apache-2.0
//! A replica that follows the log of a history, in every way that it may, and in some that it must not.
//!
//! What it hands out is judged by the history as it was in the end ([`Pipeline::violation_by`]). A history runs to its end
//! before the replica begins: edges are never lost, and what the replica knows is the part of the log it has read, so it
//! is every replica that reads that part at whatever time.

use super::super::rules::Rules;
use super::super::{FollowedSnapshots, Member as SafeMember, SafeSnapshot};
use super::history::Set;
use super::pipeline::{Pipeline, Violation};
use crate::Version;

/// A record of the log.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The boundary when it was written.
    pub(super) boundary: Version,
    /// The published version then, which is not in the log.
    pub(super) published: Version,
    /// The batch, if it is no heartbeat.
    pub(super) batch: Option<Batch>,
}

/// A commit batch in the log.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) version: Version,
    /// Those of its transactions that have an out-edge.
    pub(super) obscure: Vec<SafeMember<usize>>,
}

/// How a replica goes about it. The bits of a set of steps are used again behind the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// The version of the base copy.
    begin: Version,
    /// The versions at which it has a world: what lies between is applied together.
    worlds: u32,
    /// By so many records what it notes is ahead of what it applies.
    ahead: usize,
    /// Which heartbeats there are, by their place in the log.
    heartbeats: u32,
    /// At which steps it asks for a safe snapshot.
    asks: u32,
    waiting_max: usize,
    is_boundary_noted_first: bool,
}

/// What is shown where everything is.
const EVERYTHING: Version = Version::new(u64::MAX);

const ALL: u32 = !0;
const EVERY_OTHER: u32 = 0x5555_5555;

impl Way {
    /// One of the ways to follow a log with versions up to `last`.
    fn sample(number: u64, last: u64) -> Self {
        // SplitMix64.
        let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        random = (random ^ random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        random = (random ^ random >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        random ^= random >> 31;
        let mut draw = |count: u64| {
            let drawn = random % count;
            random /= count;
            drawn
        };
        // Half of them from the empty database on, and half ask whenever they can.
        let begin = if draw(2) == 0 { 0 } else { draw(last + 1) };
        let ahead = [0, 0, 1, 2, usize::MAX][draw(5) as usize];
        let asks = if draw(2) == 0 { ALL } else { draw(1 << 8) as u32 * 0x0101_0101 };
        let heartbeats = [0, ALL, draw(1 << 8) as u32 * 0x0101_0101][draw(3) as usize];
        Self {
            begin: Version::new(begin),
            worlds: if draw(4) == 0 { ALL } else { draw(1 << 16) as u32 * 0x0001_0001 },
            ahead,
            heartbeats,
            asks,
            waiting_max: 2 + draw(2) as usize,
            is_boundary_noted_first: draw(2) == 0,
        }
    }

    /// Every choice of base copy and worlds, each read in several ways.
    fn all(last: u64) -> Vec<Self> {
        let mut all = Vec::new();
        for begin in 0..=last {
            for worlds in (0..1_u32 << (last - begin)).map(|worlds| worlds << (begin + 1)) {
                for ahead in [0, 1, usize::MAX] {
                    for heartbeats in [0, ALL, EVERY_OTHER] {
                        for (asks, waiting_max) in [(ALL, 2), (EVERY_OTHER, 64), (!EVERY_OTHER, 2)] {
                            let begin = Version::new(begin);
                            let is_boundary_noted_first = heartbeats == EVERY_OTHER;
                            let way = Self {
                                begin,
                                worlds,
                                ahead,
                                heartbeats,
                                asks,
                                waiting_max,
                                is_boundary_noted_first,
                            };
                            all.push(way);
                        }
                    }
                }
            }
        }
        all
    }
}

fn has(steps: u32, step: u64) -> bool {
    steps >> (step % 32) & 1 != 0
}

/// What a replica does wrong, or the log that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Nothing,
    /// It takes its newest world for safe.
    NewestIsSafe,
    /// It takes the world of a safe snapshot for the whole of it.
    BareWorldIsSafe,
    /// It does not count first out-edges in the version of the snapshot.
    StrictMembers,
    /// The log lacks `first_out`.
    FirstOutNotLogged,
    /// The published version is logged as the boundary.
    PublishedLogged,
    /// The newest boundary overtakes the batches before it.
    BoundaryOvertakes,
    /// What lies within the boundary counts as within the snapshot.
    DropsWithinBoundary,
    /// The members of the boundary's safe snapshot are put on top of an older world.
    MembersOfBoundary,
    /// A base copy counts as safe: its version as a boundary.
    TrustsBaseCopy,
    /// Nothing, but the log is not as it should be.
    OfThePrimary,
}

/// What a replica has handed out.
#[derive(Debug, Default)]
pub(super) struct HandedOut {
    /// Each boundary, and the transactions that wrote something in it.
    pub(super) snapshots: Vec<(Version, Set)>,
    /// Whether [`FollowedSnapshots`] would have stopped at the log: a commit that points within a noted boundary.
    pub(super) is_noticed: bool,
}

/// What was seen, over many replicas: a test in which one of these is none tests less than it says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplicaCounts {
    pub(super) replicas: u64,
    pub(super) handed_out: u64,
    /// With commits from beyond the boundary.
    pub(super) with_members: u64,
    /// Made from an older world than that of the noted boundary.
    pub(super) behind: u64,
    /// With members that lie within the noted boundary.
    pub(super) with_members_within: u64,
    /// By a base copy.
    pub(super) of_copies: u64,
    /// Worlds that were dropped because too many waited.
    pub(super) thinned: u64,
}

struct Replica<'a> {
    way: Way,
    fault: Fault,
    worlds: &'a [Set],
    followed: FollowedSnapshots<Set, usize>,
    noted: Vec<SafeMember<usize>>,
    /// The versions at which it has had a world.
    made: Vec<Version>,
    has_thinned: bool,
    asked: u64,
    handed_out: HandedOut,
    counts: &'a mut ReplicaCounts,
}

impl Replica<'_> {
    fn follow(&mut self, log: &[Record]) {
        if self.fault == Fault::TrustsBaseCopy {
            self.followed.note_boundary(self.way.begin);
        }
        if self.fault == Fault::BoundaryOvertakes {
            log.iter().for_each(|record| self.followed.note_boundary(record.boundary));
        }
        self.ask();
        let ahead = self.way.ahead.min(log.len());
        for step in 0..log.len() + ahead {
            if let Some(record) = log.get(step)
                && (record.batch.is_some() || has(self.way.heartbeats, step as u64))
            {
                self.note(record);
            }
            let applied = step.checked_sub(ahead).and_then(|step| log.get(step));
            if let Some(batch) = applied.and_then(|record| record.batch.as_ref())
                && has(self.way.worlds, batch.version.get())
            {
                self.note_world(batch.version);
            }
        }
    }

    fn note(&mut self, record: &Record) {
        let boundary = match self.fault {
            Fault::PublishedLogged => record.published,
            _ => record.boundary,
        };
        if self.way.is_boundary_noted_first {
            self.followed.note_boundary(boundary);
            self.ask();
        }
        for commit in record.batch.iter().flat_map(|batch| &batch.obscure) {
            let is_noticed = commit.first_out.version <= self.followed.boundary();
            if self.fault == Fault::Nothing || !is_noticed && self.fault != Fault::FirstOutNotLogged {
                self.followed.note_commit(*commit);
            }
            self.handed_out.is_noticed |= is_noticed;
            self.noted.push(*commit);
        }
        self.followed.note_boundary(boundary);
        self.ask();
    }

    fn note_world(&mut self, version: Version) {
        let count_before = self.followed.world_count();
        self.followed.note_world(version, self.worlds[version.get() as usize]);
        self.made.push(version);
        if version > self.followed.boundary() && self.followed.world_count() == count_before {
            self.has_thinned = true;
            self.counts.thinned += 1;
        }
        self.ask();
    }

    /// Asks for a safe snapshot, if it is to now; forgets all that may be forgotten.
    fn ask(&mut self) {
        self.followed.forget_unreachable();
        self.asked += 1;
        if !has(self.way.asks, self.asked) {
            return;
        }
        if self.fault == Fault::NewestIsSafe {
            let newest = *self.made.last().expect("it begins with one");
            if self.last_handed_out().is_none_or(|last| last < newest) {
                self.hand_out(newest, self.worlds[newest.get() as usize]);
            }
        } else if let Some((safe, world)) = self.followed.advance(EVERYTHING) {
            assert_eq!(world, self.worlds[safe.boundary.get() as usize], "the snapshot has its world");
            assert!(self.followed.advance(EVERYTHING).is_none(), "each is handed out once");
            let held = world | self.members_of(&safe);
            self.count(&safe);
            self.hand_out(safe.boundary, held);
        }
        if self.fault == Fault::Nothing && !self.has_thinned {
            let ready = self.made.iter().rfind(|made| **made <= self.followed.boundary());
            assert_eq!(self.last_handed_out(), ready.copied(), "it has the newest that it may have");
        }
    }

    fn last_handed_out(&self) -> Option<Version> {
        self.handed_out.snapshots.last().map(|last| last.0)
    }

    fn hand_out(&mut self, boundary: Version, held: Set) {
        assert!(self.last_handed_out().is_none_or(|last| last < boundary), "what is handed out gets newer");
        self.handed_out.snapshots.push((boundary, held));
    }

    fn members_of(&self, safe: &SafeSnapshot<usize>) -> Set {
        assert!(safe.members.is_sorted_by_key(|member| member.order));
        let boundary = self.followed.boundary();
        let is_of_boundary = |commit: &&SafeMember<usize>| {
            commit.order.version > safe.boundary && commit.first_out.version <= boundary
        };
        let set_of = |set, member: &SafeMember<usize>| set | 1 << member.writes;
        match self.fault {
            Fault::DropsWithinBoundary => {
                let beyond = safe.members.iter().filter(|member| member.order.version > boundary);
                beyond.fold(0, set_of)
            }
            Fault::MembersOfBoundary => self.noted.iter().filter(is_of_boundary).fold(0, set_of),
            _ => safe.members.iter().fold(0, set_of),
        }
    }

    fn count(&mut self, safe: &SafeSnapshot<usize>) {
        let boundary = self.followed.boundary();
        let is_within = |member: &SafeMember<usize>| member.order.version <= boundary;
        self.counts.handed_out += 1;
        self.counts.with_members += u64::from(!safe.members.is_empty());
        self.counts.behind += u64::from(safe.boundary < boundary);
        self.counts.with_members_within += u64::from(safe.members.iter().any(is_within));
        self.counts.of_copies += u64::from(self.way.begin > Version::ZERO);
    }
}

/// What a replica hands out that follows a history's log in this way.
pub(super) fn follow(
    pipeline: &Pipeline<'_>,
    way: Way,
    fault: Fault,
    counts: &mut ReplicaCounts,
) -> HandedOut {
    let rules = match fault {
        Fault::BareWorldIsSafe => Rules { is_member: |_, _| false, ..Rules::ALL_RIGHT },
        Fault::StrictMembers => {
            Rules { is_member: |first_out, boundary| first_out.version < boundary, ..Rules::ALL_RIGHT }
        }
        _ => Rules::ALL_RIGHT,
    };
    let worlds = pipeline.worlds();
    let world = worlds[way.begin.get() as usize];
    let followed = FollowedSnapshots::with_rules(way.begin, world, way.waiting_max, rules);
    counts.replicas += 1;
    let mut replica = Replica {
        way,
        fault,
        worlds,
        followed,
        noted: Vec::new(),
        made: vec![way.begin],
        has_thinned: false,
        asked: 0,
        handed_out: HandedOut::default(),
        counts,
    };
    let is_before = |record: &Record| record.batch.as_ref().is_some_and(|batch| batch.version <= way.begin);
    let from = pipeline.log().iter().rposition(is_before).map_or(0, |position| position + 1);
    replica.follow(&pipeline.log()[from..]);
    replica.handed_out
}

/// Which replicas follow a history.
#[derive(Clone, Copy, Debug)]
pub(super) enum Replicas {
    /// So many, of all ways; others for each history.
    Some(u64),
    Each,
}

impl Replicas {
    pub(super) fn ways(self, pipeline: &Pipeline<'_>, history: u64) -> Vec<Way> {
        let last = pipeline.worlds().len() as u64 - 1;
        match self {
            Self::Some(count) => {
                (0..count).map(|number| Way::sample(history * count + number, last)).collect()
            }
            Self::Each => Way::all(last),
        }
    }

    /// The first thing that is wrong with what any of them hands out.
    pub(super) fn violation(
        self,
        pipeline: &Pipeline<'_>,
        history: u64,
        counts: &mut ReplicaCounts,
    ) -> Option<(Violation, Way)> {
        self.ways(pipeline, history).into_iter().find_map(|way| {
            let handed_out = follow(pipeline, way, Fault::Nothing, counts);
            assert!(!handed_out.is_noticed, "the log is as it should be: {way:?}");
            pipeline.violation_by(&handed_out.snapshots).map(|violation| (violation, way))
        })
    }
}
