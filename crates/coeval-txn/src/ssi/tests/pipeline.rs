// SPDX-License-Identifier: Apache-2.0
//! Runs histories through the real code in the way the commit pipeline will, and judges what came out.

use std::ops::Bound;
use std::time::{Duration, Instant};

use super::super::rules::Rules;
use super::super::{
    Boundary, BoundaryGuard, Member as SafeMember, ReadLimits, ReadSet, SafeSnapshot, SafeSnapshots,
    SessionFloor, Ssi, SsiLimits, SsiRule, Written,
};
use super::history::{Graph, Items, Member, Read, Set, bits};
use super::replica::{Batch, Record};
use crate::{ActiveSnapshots, CommitOrder, SnapshotGuard, TransactionId, Version};

/// How a transaction takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Read-write at SERIALIZABLE: holds the boundary.
    Serializable,
    /// Declared read-only at SERIALIZABLE, on the current world.
    Reader,
    /// Reads nothing that counts: a blind writer, or one below SERIALIZABLE.
    Blind,
}

/// How reads are noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Keys,
    /// Neighbouring items as a range, a whole space as such.
    Ranges,
}

/// A transaction of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) reads: Items,
    /// Read after [`Event::Refresh`].
    pub(super) late_reads: Items,
    pub(super) writes: Items,
    pub(super) role: Role,
    /// It has been running for longer than the bound on the age of safe snapshots.
    pub(super) is_old: bool,
    pub(super) style: Style,
}

/// One step of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The transaction takes the published world.
    Begin(usize),
    /// The transaction takes the applied world, which may not be published yet.
    BeginApplied(usize),
    /// It moves its snapshot to the published world, if it may; otherwise it goes on.
    Refresh(usize),
    Commit(usize),
    Rollback(usize),
    /// The batch being formed is closed; its version is applied.
    Close,
    /// All but the newest so many applied versions are published.
    Publish {
        lag: u64,
    },
}

/// What the caller of the real code does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Negligence {
    Nothing,
    /// Nothing, but a rule is not as it should be.
    RulesBroken,
    /// Nobody who is active holds anything back: versions are registered only at commit.
    RegistersLate,
    /// Write marks are forgotten once the boundary has passed them.
    PrunesByBoundary,
    /// Key reads are not recorded.
    ForgetsKeys,
    /// Range reads are not recorded.
    ForgetsRanges,
    /// Transactions that wrote nothing are certified and not recorded.
    ForgetsReaders,
    /// Transactions that wrote nothing are not certified.
    TrustsReaders,
    /// The boundary passes old transactions, and certification does not hear of it.
    IgnoresPassing,
    /// A transaction ends when it is certified, not when it is published.
    EndsAtCertification,
}

/// How a history is run.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) rules: Rules,
    pub(super) limits: SsiLimits,
    pub(super) read_limits: ReadLimits,
    pub(super) negligence: Negligence,
    pub(super) item_count: u32,
}

impl Setup {
    pub(super) fn new(item_count: u32) -> Self {
        // Marks are forgotten as soon as they may be.
        let limits = SsiLimits { generation_min: 0, ..SsiLimits::default() };
        let read_limits = ReadLimits::default();
        Self { rules: Rules::ALL_RIGHT, limits, read_limits, negligence: Negligence::Nothing, item_count }
    }

    /// With so little memory that nearly every answer is coarse.
    pub(super) fn coarse(item_count: u32) -> Self {
        let limits = SsiLimits {
            commits_max: 1,
            keys_max: 1,
            marks_max: 1,
            generation_min: 0,
            examined_max: 2,
            ..SsiLimits::default()
        };
        let read_limits =
            ReadLimits { keys_max: 1, ranges_max: 1, joins_max: 1, spaces_max: 1, ..ReadLimits::default() };
        Self { limits, read_limits, ..Self::new(item_count) }
    }

    /// Whether certification refuses those that the design does, and nobody else.
    fn is_exact(&self) -> bool {
        !self.is_faulty() && self.limits.commits_max > 1
    }

    fn is_faulty(&self) -> bool {
        self.negligence != Negligence::Nothing
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Open,
    RolledBack,
    /// First committer wins.
    Overtaken,
    Refused(SsiRule),
    /// At its place if it wrote something.
    Committed(Option<CommitOrder>),
}

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// What committed, with safe readers of every boundary, has no serial order.
    Cycle,
    /// Somebody outside of the safe snapshot of this boundary must come before somebody within it.
    NotClosed(Version),
    /// A safe snapshot that was handed out is not what the definition says in the end.
    Changed(Version),
    /// A safe snapshot was handed out with a member that was not published.
    Unpublished(Version),
}

/// A transaction on its way.
struct Running {
    begin: Version,
    reads: Vec<Read>,
    read_set: ReadSet<u8, u8>,
    guard: Option<SnapshotGuard>,
    boundary_guard: Option<BoundaryGuard<Version>>,
    first_out: Option<CommitOrder>,
    /// Its place among all that asked to commit, and the version it has or would have had.
    moment: usize,
    version: Version,
    ending: Ending,
}

/// The real code and the worlds around it.
pub(super) struct Pipeline<'a> {
    setup: &'a Setup,
    specs: &'a [Spec],
    ssi: Ssi<u8, u8>,
    all: ActiveSnapshots,
    boundary: Boundary<Version>,
    safe: SafeSnapshots<usize>,
    running: Vec<Running>,
    /// The transactions in the world of each version.
    worlds: Vec<Set>,
    published: Version,
    forming: Vec<usize>,
    /// Certified, and not published yet.
    waiting: Vec<usize>,
    moment: usize,
    handed_out: Vec<(Version, Set)>,
    /// For those who follow.
    log: Vec<Record>,
    is_unpublished_handed_out: Option<Version>,
    start: Instant,
}

/// The space and key of an item: two spaces, so that both whole spaces and many spaces occur.
fn place_of(item: usize) -> (u8, u8) {
    ((item / 2) as u8, item as u8)
}

fn items(mask: Items) -> impl Iterator<Item = usize> + Clone {
    (0..Items::BITS as usize).filter(move |item| mask & (1 << item) != 0)
}

const HOUR: Duration = Duration::from_secs(3600);

impl<'a> Pipeline<'a> {
    pub(super) fn run(setup: &'a Setup, specs: &'a [Spec], events: &[Event], start: Instant) -> Self {
        let running = |_| Running {
            begin: Version::ZERO,
            reads: Vec::new(),
            read_set: ReadSet::with_limits(setup.read_limits),
            guard: None,
            boundary_guard: None,
            first_out: None,
            moment: usize::MAX,
            version: Version::ZERO,
            ending: Ending::Open,
        };
        let mut pipeline = Self {
            setup,
            specs,
            ssi: Ssi::with_rules(setup.limits, setup.rules),
            all: ActiveSnapshots::new(),
            boundary: Boundary::new(Version::ZERO),
            safe: SafeSnapshots::with_rules(Version::ZERO, setup.rules),
            running: (0..specs.len()).map(running).collect(),
            worlds: vec![0],
            published: Version::ZERO,
            forming: Vec::new(),
            waiting: Vec::new(),
            moment: 0,
            handed_out: Vec::new(),
            log: Vec::new(),
            is_unpublished_handed_out: None,
            start,
        };
        for event in events {
            pipeline.step(*event);
            // Heartbeats are written whether or not somebody has moved the boundary before.
            pipeline.write_heartbeat();
            pipeline.advance();
            pipeline.write_heartbeat();
            pipeline.prune();
        }
        pipeline
    }

    pub(super) fn endings(&self) -> impl Iterator<Item = Ending> {
        self.running.iter().map(|running| running.ending)
    }

    /// The safe snapshots so far: each boundary, and the transactions that wrote something in it.
    pub(super) fn handed_out(&self) -> &[(Version, Set)] {
        &self.handed_out
    }

    /// What was logged: batches, and a heartbeat whenever the boundary was further than the log had it.
    pub(super) fn log(&self) -> &[Record] {
        &self.log
    }

    /// The transactions in the world of each version.
    pub(super) fn worlds(&self) -> &[Set] {
        &self.worlds
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Begin(index) => self.begin(index, self.published),
            Event::BeginApplied(index) => self.begin(index, self.applied()),
            Event::Refresh(index) => self.refresh(index),
            Event::Commit(index) => self.commit(index),
            Event::Rollback(index) => self.end(index, Ending::RolledBack),
            Event::Close => self.close(),
            Event::Publish { lag } => {
                self.published = self.published.max(Version::new(self.applied().get().saturating_sub(lag)));
                let published = self.published;
                let is_published = |running: &Running| match running.ending {
                    Ending::Committed(Some(order)) => order.version <= published,
                    _ => true,
                };
                for index in std::mem::take(&mut self.waiting) {
                    if is_published(&self.running[index]) {
                        self.release(index);
                    } else {
                        self.waiting.push(index);
                    }
                }
            }
        }
    }

    fn applied(&self) -> Version {
        Version::new(self.worlds.len() as u64 - 1)
    }

    fn world(&self, version: Version) -> Set {
        self.worlds[version.get() as usize]
    }

    fn begin(&mut self, index: usize, version: Version) {
        let spec = self.specs[index];
        let running = &mut self.running[index];
        running.begin = version;
        if self.setup.negligence != Negligence::RegistersLate {
            let since = if spec.is_old { self.start } else { self.start + HOUR };
            let mut guard = None;
            if spec.role == Role::Serializable {
                running.boundary_guard = Some(self.boundary.register(id_of(index), since, || {
                    (guard.insert(self.all.register(|| version)).version(), version)
                }));
            }
            running.guard = Some(guard.unwrap_or_else(|| self.all.register(|| version)));
        }
        self.read(index, spec.reads);
    }

    /// Reads items of the transaction's snapshot and notes it as its style says.
    fn read(&mut self, index: usize, mask: Items) {
        let (spec, world) = (self.specs[index], self.world(self.running[index].begin));
        if spec.role == Role::Blind || mask == 0 {
            return;
        }
        let running = &mut self.running[index];
        running.reads.push(Read { sees: world, items: mask });
        let negligence = self.setup.negligence;
        for space in 0..self.setup.item_count.div_ceil(2) as u8 {
            let keys: Vec<u8> = items(mask).map(place_of).filter(|at| at.0 == space).map(|at| at.1).collect();
            let (Some(first), Some(last)) = (keys.first(), keys.last()) else { continue };
            if spec.style == Style::Ranges {
                let is_whole = keys.len() == 2 && mask & 1 != 0;
                match negligence {
                    Negligence::ForgetsRanges => {}
                    _ if is_whole => running.read_set.read_space(space),
                    _ => running.read_set.read_range(space, Bound::Included(first), Bound::Included(last)),
                }
            } else if negligence != Negligence::ForgetsKeys {
                keys.iter().for_each(|key| running.read_set.read_key(space, key));
            }
        }
    }

    fn refresh(&mut self, index: usize) {
        let target = self.published;
        let begin = self.running[index].begin;
        let is_overtaken = self.is_overtaken(index);
        if self.running[index].ending != Ending::Open || begin > target {
            return;
        }
        let running = &mut self.running[index];
        let overwrite = self.ssi.first_overwrite(begin, &running.read_set);
        if !is_overtaken && overwrite.is_none_or(|commit| commit.version > target) {
            running.begin = target;
            if let Some(guard) = &mut running.boundary_guard {
                guard.refresh(target, target, Instant::now());
            }
            running.guard = Some(self.all.register(|| target));
        }
        let late = self.specs[index].late_reads;
        self.read(index, late);
    }

    /// Whether somebody it does not see has written what it writes.
    fn is_overtaken(&self, index: usize) -> bool {
        let sees = self.world(self.running[index].begin);
        let committed = bits(self.committed() & !sees);
        committed.into_iter().any(|other| self.specs[other].writes & self.specs[index].writes != 0)
    }

    fn committed(&self) -> Set {
        let is_committed = |index: &usize| matches!(self.running[*index].ending, Ending::Committed(_));
        (0..self.running.len()).filter(is_committed).fold(0, |set, index| set | 1 << index)
    }

    fn commit(&mut self, index: usize) {
        self.running[index].moment = self.moment;
        self.running[index].version = self.applied().next();
        self.moment += 1;
        if self.is_overtaken(index) {
            return self.end(index, Ending::Overtaken);
        }
        let negligence = self.setup.negligence;
        let written: Vec<(u8, u8)> = items(self.specs[index].writes).map(place_of).collect();
        let writes = || written.iter().map(|(space, key)| (*space, Written::Key(key)));
        let running = &mut self.running[index];
        let mut passed = running.boundary_guard.as_ref().and_then(BoundaryGuard::enter_certification);
        if negligence == Negligence::IgnoresPassing {
            passed = None;
        }
        running.read_set.settle();
        let is_reader = written.is_empty();
        let none = ReadSet::new();
        let is_trusted = is_reader && negligence == Negligence::TrustsReaders;
        let reads = if is_trusted { &none } else { &running.read_set };
        let verdict = self.ssi.certify(running.begin, reads, writes(), passed);
        if self.setup.is_exact() {
            let expected = self.is_refused_by_design(index, passed);
            assert_eq!(verdict.is_err(), expected, "{index}: {verdict:?}, {:?}", self.specs);
        }
        let running = &mut self.running[index];
        match verdict {
            Err(conflict) => self.end(index, Ending::Refused(conflict.rule)),
            Ok(certified) if is_reader => {
                if negligence != Negligence::ForgetsReaders {
                    self.ssi.admit_reader(id_of(index), &running.read_set, certified);
                }
                self.end(index, Ending::Committed(None));
            }
            Ok(certified) => {
                let version = Version::new(self.worlds.len() as u64);
                let order = CommitOrder { version, position: self.forming.len() as u32 };
                running.first_out = certified.first_out();
                self.ssi.admit(order, id_of(index), &running.read_set, writes(), certified);
                running.ending = Ending::Committed(Some(order));
                if !self.setup.is_faulty()
                    && let Some(commit) = self.obscure(index)
                {
                    self.safe.note_commit(commit);
                }
                self.forming.push(index);
                if negligence == Negligence::EndsAtCertification {
                    self.release(index);
                } else {
                    self.waiting.push(index);
                }
            }
        }
    }

    /// The rules in their own words, over everything that ever committed.
    fn is_refused_by_design(&self, index: usize, passed: Option<Version>) -> bool {
        let mine = &self.running[index];
        let reads_of =
            |index: usize| self.running[index].reads.iter().fold(0, |items, read| items | read.items);
        let writes_of = |index: usize| self.specs[index].writes;
        let committed = || {
            (0..self.running.len())
                .filter(|other| matches!(self.running[*other].ending, Ending::Committed(_)))
        };
        let order_of = |other: &usize| match self.running[*other].ending {
            Ending::Committed(order) => order,
            _ => None,
        };
        let is_out_edge = |other: &usize| {
            order_of(other).is_some_and(|order| order.version > mine.begin)
                && writes_of(*other) & reads_of(index) != 0
        };
        let out_edges: Vec<usize> = committed().filter(is_out_edge).collect();
        let Some(first_out) = out_edges.iter().filter_map(order_of).min() else { return false };
        let writes_something = writes_of(index) != 0;
        let mut first_outs = out_edges.iter().filter_map(|other| self.running[*other].first_out);
        let is_source = first_outs.any(|out| writes_something || out.version <= mine.begin);
        let is_pivot = committed().any(|other| {
            let is_in_edge = reads_of(other) & writes_of(index) != 0;
            is_in_edge
                && match order_of(&other) {
                    Some(order) => order.version > mine.begin && first_out <= order,
                    None => first_out.version <= self.running[other].begin,
                }
        });
        let is_late = writes_something && passed.is_some_and(|boundary| first_out.version <= boundary);
        is_source || is_pivot || is_late
    }

    fn close(&mut self) {
        if !self.forming.is_empty() {
            let before = self.world(self.applied());
            let formed = std::mem::take(&mut self.forming);
            let version = self.applied().next();
            let obscure = formed.iter().filter_map(|index| self.obscure(*index)).collect();
            let record = Record { batch: Some(Batch { version, obscure }), ..self.heartbeat() };
            self.log.push(record);
            self.worlds.push(formed.iter().fold(before, |set, index| set | 1 << *index));
        }
    }

    /// A commit as safe snapshots want it, if it has an out-edge.
    fn obscure(&self, index: usize) -> Option<SafeMember<usize>> {
        let Running { ending: Ending::Committed(Some(order)), first_out: Some(first_out), .. } =
            self.running[index]
        else {
            return None;
        };
        Some(SafeMember { order, transaction: id_of(index), first_out, writes: index })
    }

    fn heartbeat(&self) -> Record {
        let published = self.published;
        Record { boundary: self.boundary.final_version(|| published), published, batch: None }
    }

    fn write_heartbeat(&mut self) {
        let record = self.heartbeat();
        if record.boundary > self.log.last().map_or(Version::ZERO, |last| last.boundary) {
            self.log.push(record);
        }
    }

    fn end(&mut self, index: usize, ending: Ending) {
        self.running[index].ending = ending;
        self.release(index);
    }

    fn release(&mut self, index: usize) {
        self.running[index].guard = None;
        self.running[index].boundary_guard = None;
    }

    /// Moves the boundary, and hands out a safe snapshot if it moved.
    fn advance(&mut self) {
        let published = self.published;
        let moved = self.boundary.advance(self.start + HOUR, Some(HOUR / 2), || (published, published));
        let Some(moved) = moved else { return };
        assert_eq!(moved.boundary, moved.world, "the boundary's world comes with it");
        let held = self.definition(moved.boundary) & self.makers();
        if !self.setup.is_faulty() {
            let safe = self.safe.advance(moved.boundary);
            let members = safe.members.iter().fold(0, |set, member| set | 1 << member.writes);
            assert_eq!(
                self.world(moved.boundary) | members,
                held,
                "the safe snapshot is what its definition says"
            );
            assert!(safe.members.is_sorted_by_key(|member| member.order));
            self.check_floors(&safe, held);
        }
        if held & !self.world(published) != 0 {
            self.is_unpublished_handed_out = Some(moved.boundary);
        }
        self.handed_out.push((moved.boundary, held));
    }

    /// Sessions find in a safe snapshot that their floor admits what they must, and in no other.
    fn check_floors(&self, safe: &SafeSnapshot<usize>, held: Set) {
        for index in 0..self.running.len() {
            if let Ending::Committed(Some(order)) = self.running[index].ending {
                let mut floor = SessionFloor::default();
                floor.note_commit(order);
                assert_eq!(floor.admits(safe), held & (1 << index) != 0, "{order}, {safe:?}");
            }
        }
        for version in (0..self.worlds.len() as u64).map(Version::new) {
            let mut floor = SessionFloor::default();
            floor.note_snapshot(version);
            assert!(!floor.admits(safe) || self.world(version) & !held == 0, "{version}, {safe:?}");
        }
        let is_held = |before: &(Version, Set)| before.1 & !held == 0;
        assert!(self.handed_out.iter().all(is_held), "a later safe snapshot holds what an earlier one does");
    }

    fn prune(&mut self) {
        let published = self.published;
        let boundary = self.boundary.clone();
        self.safe.forget_unreachable(published, |first, end| boundary.may_rest_in(first, end));
        let oldest = self.all.oldest_or(|| published);
        let oldest_serializable = self.boundary.oldest_or(|| published);
        match self.setup.negligence {
            // The real code would notice; so it is made to forget without being told up to where.
            Negligence::RegistersLate | Negligence::PrunesByBoundary => {
                self.ssi.spaces.forget_through(self.boundary.version());
                self.ssi.readers.forget_through(self.boundary.version());
            }
            _ => self.ssi.prune(oldest, oldest_serializable),
        }
    }

    /// Those that made versions.
    fn makers(&self) -> Set {
        bits(self.committed())
            .filter(|index| self.specs[*index].writes != 0)
            .fold(0, |set, index| set | 1 << index)
    }

    /// The safe snapshot of this boundary among what has committed so far, by its definition. A transaction
    /// that wrote nothing stands where its snapshot does.
    fn definition(&self, boundary: Version) -> Set {
        let is_member = |index: &usize| {
            let running = &self.running[*index];
            match running.ending {
                Ending::Committed(Some(order)) => {
                    order.version <= boundary
                        || running.first_out.is_some_and(|out| (self.setup.rules.is_member)(out, boundary))
                }
                Ending::Committed(None) => running.begin <= boundary,
                _ => false,
            }
        };
        (0..self.running.len()).filter(is_member).fold(0, |set, index| set | 1 << index)
    }

    fn members(&self) -> Vec<Member> {
        let member = |(running, spec): (&Running, &Spec)| Member {
            reads: running.reads.clone(),
            writes: spec.writes,
            moment: running.moment,
        };
        self.running.iter().zip(self.specs).map(member).collect()
    }

    /// The graph of the transactions, of a safe reader of everything for each boundary up to the present
    /// one, and of readers of everything in what else was handed out.
    fn graph(&self, handed_out: &[(Version, Set)]) -> Graph {
        let mut members = self.members();
        let (mut all, everything) = (self.committed(), !0 >> (Items::BITS - self.setup.item_count));
        let safe =
            (0..=self.boundary.version().get()).map(|boundary| self.definition(Version::new(boundary)));
        for sees in safe.chain(handed_out.iter().map(|(_, held)| *held)) {
            all |= 1 << members.len();
            let reads = vec![Read { sees, items: everything }];
            members.push(Member { reads, writes: 0, moment: usize::MAX });
        }
        Graph::of(&members, all, self.setup.item_count)
    }

    /// Those that have written something in this version, each with whether it has an out-edge.
    pub(super) fn writers_of(&self, version: Version) -> Vec<(usize, bool)> {
        let writers = self.running.iter().enumerate().filter_map(|(index, running)| match running.ending {
            Ending::Committed(Some(order)) if order.version == version => {
                Some((index, running.first_out.is_some()))
            }
            _ => None,
        });
        writers.collect()
    }

    /// The graph of what committed and of a safe reader of everything for each boundary, if all that only read have read loads of
    /// other nodes too: of these loads, as many as `seen` says for the version of the reader's rows. Some are one with a transaction; the
    /// others have read nothing.
    pub(super) fn graph_with_loads(
        &self,
        loads: &[Option<usize>],
        mut seen: impl FnMut(Version) -> u32,
    ) -> Graph {
        let item_count = self.setup.item_count + u32::try_from(loads.len()).unwrap();
        let everything = Items::MAX >> (Items::BITS - self.setup.item_count);
        let bricks = (Items::MAX >> (Items::BITS - item_count)) & !everything;
        let (mut members, mut all) = (self.members(), self.committed());
        let first = members.len();
        let member_of = |load: usize| loads[load].unwrap_or(first + load);
        let mut loads_at = |version: Version| {
            let count = seen(version) as usize;
            Read { sees: (0..count).fold(0, |set: Set, load| set | 1 << member_of(load)), items: bricks }
        };
        for index in bits(all) {
            let Running { ending, begin, .. } = self.running[index];
            if ending == Ending::Committed(None) && self.specs[index].role != Role::Blind {
                members[index].reads.push(loads_at(begin));
            }
        }
        let boundaries = (0..=self.boundary.version().get()).map(Version::new);
        let safe = boundaries.map(|boundary| {
            let reads = vec![Read { sees: self.definition(boundary), items: everything }, loads_at(boundary)];
            Member { reads, writes: 0, moment: usize::MAX }
        });
        let safe: Vec<Member> = safe.collect();
        let items = (self.setup.item_count..item_count).map(|item| 1 << item);
        let mut alone = Vec::new();
        for (item, transaction) in items.zip(loads) {
            let of_its_own: Items = if let Some(index) = transaction {
                members[*index].writes |= item;
                0
            } else {
                item
            };
            alone.push(Member { reads: Vec::new(), writes: of_its_own, moment: 0 });
        }
        for member in alone.into_iter().chain(safe) {
            all |= 1 << members.len();
            members.push(member);
        }
        Graph::of(&members, all, item_count)
    }

    /// The first thing that is wrong with the history.
    pub(super) fn violation(&self) -> Option<Violation> {
        if let Some(version) = self.is_unpublished_handed_out {
            return Some(Violation::Unpublished(version));
        }
        for (boundary, held) in &self.handed_out {
            if self.definition(*boundary) & self.makers() != *held {
                return Some(Violation::Changed(*boundary));
            }
        }
        let graph = self.graph(&[]);
        for boundary in (0..=self.boundary.version().get()).map(Version::new) {
            // Safe readers of this boundary and earlier ones stand within it.
            let readers = (0..=boundary.get())
                .fold(0, |set: Set, number| set | 1 << (self.specs.len() as u64 + number));
            if graph.points_into(self.definition(boundary) | readers) {
                return Some(Violation::NotClosed(boundary));
            }
        }
        (!graph.is_acyclic()).then_some(Violation::Cycle)
    }

    /// The first thing that is wrong with what somebody else has handed out: each boundary, and the transactions
    /// that wrote something in it.
    pub(super) fn violation_by(&self, handed_out: &[(Version, Set)]) -> Option<Violation> {
        let final_boundary = self.boundary.version();
        let is_as_defined = |(boundary, held): &(Version, Set)| {
            *boundary <= final_boundary && self.definition(*boundary) & self.makers() == *held
        };
        if handed_out.iter().all(is_as_defined) {
            // `violation` judges a reader of each of these.
            return None;
        }
        let graph = self.graph(handed_out);
        if !graph.is_acyclic() {
            return Some(Violation::Cycle);
        }
        let first_safe = self.specs.len() as u64;
        let first_other = first_safe + final_boundary.get() + 1;
        for (boundary, held) in handed_out {
            let safe = (0..=boundary.get().min(final_boundary.get())).map(|number| first_safe + number);
            let others = (first_other..).zip(handed_out).filter(|(_, other)| other.0 <= *boundary);
            let readers =
                safe.chain(others.map(|(place, _)| place)).fold(0, |set: Set, place| set | 1 << place);
            let without_writes = self.definition(*boundary) & !self.makers();
            if graph.points_into(held | without_writes | readers) {
                return Some(Violation::NotClosed(*boundary));
            }
        }
        let changed = handed_out.iter().find(|handed_out| !is_as_defined(handed_out))?;
        Some(Violation::Changed(changed.0))
    }

    /// Whether a transaction that was refused could have committed beside all that did, if those who began
    /// behind it had seen it.
    pub(super) fn has_place_for(&self, refused: usize, beside: Beside) -> bool {
        let mut members = self.members();
        let version = self.running[refused].version;
        for (member, running) in members.iter_mut().zip(&self.running) {
            if running.begin >= version {
                member.reads.iter_mut().for_each(|read| read.sees |= 1 << refused);
            }
        }
        let mut all = self.committed() | 1 << refused;
        if beside == Beside::SafeReaders {
            let first_out = self.first_out_of_refused(refused);
            for boundary in 0..=self.boundary.version().get() {
                let is_member =
                    version.get() <= boundary || first_out.is_some_and(|out| out.version.get() <= boundary);
                let sees = self.definition(Version::new(boundary)) | Set::from(is_member) << refused;
                all |= 1 << members.len();
                let reads = vec![Read { sees, items: Items::MAX }];
                members.push(Member { reads, writes: 0, moment: usize::MAX });
            }
        }
        Graph::of(&members, all, self.setup.item_count).is_acyclic()
    }

    /// The earliest commit before it that overwrote what a refused transaction read.
    fn first_out_of_refused(&self, refused: usize) -> Option<CommitOrder> {
        let overwrote = |other: &usize| {
            let is_overwritten =
                |read: &Read| read.sees & (1 << *other) == 0 && read.items & self.specs[*other].writes != 0;
            self.running[refused].reads.iter().any(is_overwritten)
        };
        let orders =
            (0..self.running.len()).filter(overwrote).filter_map(|other| match self.running[other] {
                Running { ending: Ending::Committed(order), moment, .. }
                    if moment < self.running[refused].moment =>
                {
                    order
                }
                _ => None,
            });
        orders.min()
    }
}

/// Beside whom a refused transaction is given a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Transactions,
    /// And safe readers of every boundary.
    SafeReaders,
}

pub(super) fn id_of(index: usize) -> TransactionId {
    TransactionId::new(index as u64 + 1)
}
