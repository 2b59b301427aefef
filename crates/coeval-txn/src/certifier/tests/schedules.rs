// SPDX-License-Identifier: Apache-2.0
//! All interleavings of a few transactions, and random ones of more, judged by the checker of [`history`].
//!
//! [`history`]: super::history

use std::ops::ControlFlow;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::faulty::{Fault, FaultyCertifier};
use super::history::{Ending, Member, SmallKey, Violation, id_of, violation};
use crate::{Access, ActiveSnapshots, CommitOrder, SnapshotGuard, Version};

/// One step of a schedule.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The transaction takes its snapshot: the newest batch that is published.
    Begin(usize),
    /// The transaction takes its snapshot: the newest batch that is closed, published or not.
    BeginApplied(usize),
    /// The transaction asks to commit.
    Commit(usize),
    /// The batch being formed is closed; its version is applied.
    Close,
    /// Everything closed is published.
    Publish,
    /// The certifier is pruned by the oldest active snapshot.
    Prune,
}

/// When to prune, besides at [`Event::Prune`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pruning {
    AfterEachEvent,
    Never,
}

/// Runs schedules the way the commit pipeline does.
struct Pipeline {
    certifier: FaultyCertifier<SmallKey>,
    snapshots: ActiveSnapshots,
    guards: Vec<Option<SnapshotGuard>>,
    members: Vec<Member>,
    /// Members of the batch being formed, one bit each.
    forming: u64,
    applied: (Version, u64),
    published: (Version, u64),
    ending_count: usize,
}

impl Pipeline {
    fn new(fault: Fault, footprints: &[Vec<(SmallKey, Access)>]) -> Self {
        assert!(footprints.len() <= 64);
        let member = |accesses: &Vec<_>| Member { accesses: accesses.clone(), sees: 0, ending: Ending::Open };
        Self {
            certifier: FaultyCertifier::new(fault),
            snapshots: ActiveSnapshots::new(),
            guards: footprints.iter().map(|_| None).collect(),
            members: footprints.iter().map(member).collect(),
            forming: 0,
            applied: (Version::ZERO, 0),
            published: (Version::ZERO, 0),
            ending_count: 0,
        }
    }

    fn run(mut self, events: &[Event], pruning: Pruning) -> Vec<Member> {
        for event in events {
            self.step(*event);
            if pruning == Pruning::AfterEachEvent {
                self.step(Event::Prune);
            }
        }
        drop(self.guards);
        assert_eq!(self.snapshots.count(), 0);
        self.members
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Begin(index) => self.begin(index, self.published),
            Event::BeginApplied(index) => self.begin(index, self.applied),
            Event::Commit(index) => self.commit(index),
            Event::Close if self.forming != 0 => {
                self.applied = (self.applied.0.next(), self.applied.1 | self.forming);
                self.forming = 0;
                self.certifier.close_batch(self.applied.0);
            }
            Event::Close => {}
            Event::Publish => self.published = self.applied,
            Event::Prune => self.certifier.prune(self.snapshots.oldest_or(|| self.published.0)),
        }
    }

    fn begin(&mut self, index: usize, (version, sees): (Version, u64)) {
        self.members[index].sees = sees;
        self.guards[index] = Some(self.snapshots.register(|| version));
    }

    fn commit(&mut self, index: usize) {
        let guard = self.guards[index].take().expect("a transaction begins before it commits");
        let moment = self.ending_count;
        self.ending_count += 1;
        let member = &mut self.members[index];
        match self.certifier.certify(guard.version(), &member.accesses) {
            Ok(()) => {
                let order =
                    CommitOrder { version: self.applied.0.next(), position: self.forming.count_ones() };
                self.certifier.admit(order, id_of(index), &member.accesses);
                self.forming |= 1 << index;
                member.ending = Ending::Committed { moment };
            }
            Err(conflict) => member.ending = Ending::Refused { moment, conflict },
        }
    }
}

/// What a schedule does with a batch that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Publication {
    /// Publishes it at once, so that applied and published are one.
    AtOnce,
    /// Publishes it at any time later or never; transactions begin from either world.
    Later,
}

/// Every order of begins, commits, closes and publications of a number of transactions. Transactions begin
/// in the order of their index: another order is the same with other names.
fn all_schedules(transaction_count: usize, publication: Publication) -> Vec<Vec<Event>> {
    let mut enumeration =
        Enumeration { transaction_count, publication, schedule: Vec::new(), all: Vec::new() };
    enumeration.extend(State { begun: 0, active: 0, is_forming: false, is_unpublished: false });
    enumeration.all
}

struct Enumeration {
    transaction_count: usize,
    publication: Publication,
    schedule: Vec<Event>,
    all: Vec<Vec<Event>>,
}

/// What the next event of a schedule depends on.
#[derive(Clone, Copy)]
struct State {
    begun: usize,
    active: u64,
    is_forming: bool,
    is_unpublished: bool,
}

impl Enumeration {
    fn extend(&mut self, state: State) {
        if state.begun == self.transaction_count && state.active == 0 {
            self.all.push(self.schedule.clone());
            return;
        }
        if state.begun < self.transaction_count {
            let next = State { begun: state.begun + 1, active: state.active | 1 << state.begun, ..state };
            self.with(Event::Begin(state.begun), next);
            if state.is_unpublished {
                self.with(Event::BeginApplied(state.begun), next);
            }
        }
        for index in (0..state.begun).filter(|index| state.active & (1 << index) != 0) {
            let active = state.active & !(1 << index);
            self.with(Event::Commit(index), State { active, is_forming: true, ..state });
        }
        if state.is_forming {
            self.with(Event::Close, State { is_forming: false, is_unpublished: true, ..state });
        }
        if state.is_unpublished && self.publication == Publication::Later {
            self.with(Event::Publish, State { is_unpublished: false, ..state });
        }
    }

    /// All schedules that go on with this event.
    fn with(&mut self, event: Event, mut next: State) {
        let length = self.schedule.len();
        self.schedule.push(event);
        if matches!(event, Event::Close) && self.publication == Publication::AtOnce {
            self.schedule.push(Event::Publish);
            next.is_unpublished = false;
        }
        self.extend(next);
        self.schedule.truncate(length);
    }
}

/// Which accesses one transaction may have to one key.
#[derive(Clone, Copy, Debug)]
enum PerKey {
    /// None or one.
    AtMostOne,
    /// Any set of them.
    AnySet,
}

/// Every footprint over the keys `0..key_count`.
fn all_footprints(key_count: SmallKey, per_key: PerKey) -> Vec<Vec<(SmallKey, Access)>> {
    let sets: Vec<Vec<Access>> = (0..1_u8 << Access::ALL.len())
        .map(|bits| Access::ALL.into_iter().filter(|access| bits & (1 << access.index()) != 0).collect())
        .filter(|set: &Vec<Access>| matches!(per_key, PerKey::AnySet) || set.len() <= 1)
        .collect();
    let mut footprints = vec![Vec::new()];
    for key in 0..key_count {
        let with_key = |footprint: &Vec<(SmallKey, Access)>| {
            let footprint = footprint.clone();
            sets.iter()
                .map(move |set| {
                    [footprint.clone(), set.iter().map(|access| (key, *access)).collect()].concat()
                })
                .collect::<Vec<_>>()
        };
        footprints = footprints.iter().flat_map(with_key).collect();
    }
    footprints
}

/// Runs every schedule with every choice of footprints; stops at the first violation.
fn first_violation(
    fault: Fault,
    schedules: &[Vec<Event>],
    transaction_count: usize,
    footprints: &[Vec<(SmallKey, Access)>],
) -> Option<Violation> {
    let mut chosen = vec![Vec::new(); transaction_count];
    let found = for_each_choice(footprints, &mut chosen, 0, &mut |chosen| {
        for schedule in schedules {
            let members = Pipeline::new(fault, chosen).run(schedule, Pruning::AfterEachEvent);
            if let Some(violation) = violation(&members) {
                return ControlFlow::Break(violation);
            }
        }
        ControlFlow::Continue(())
    });
    found.break_value()
}

fn for_each_choice<T: Clone, B>(
    options: &[T],
    chosen: &mut [T],
    next: usize,
    visit: &mut impl FnMut(&[T]) -> ControlFlow<B>,
) -> ControlFlow<B> {
    if next == chosen.len() {
        return visit(chosen);
    }
    for option in options {
        chosen[next] = option.clone();
        for_each_choice(options, chosen, next + 1, visit)?;
    }
    ControlFlow::Continue(())
}

/// Asserts that every history of these transactions over these keys is right.
fn check_all(transaction_count: usize, publication: Publication, key_count: SmallKey, per_key: PerKey) {
    let schedules = all_schedules(transaction_count, publication);
    let footprints = all_footprints(key_count, per_key);
    assert_eq!(first_violation(Fault::None, &schedules, transaction_count, &footprints), None);
}

#[test]
fn every_history_of_two_transactions_and_three_keys_is_right() {
    check_all(2, Publication::Later, 3, PerKey::AtMostOne);
    check_all(2, Publication::Later, 2, PerKey::AnySet);
}

#[test]
fn every_history_of_three_transactions_and_two_keys_is_right() {
    check_all(3, Publication::Later, 2, PerKey::AtMostOne);
}

#[test]
fn every_history_of_three_transactions_and_any_accesses_to_one_key_is_right() {
    check_all(3, Publication::Later, 1, PerKey::AnySet);
}

#[test]
fn every_history_of_four_transactions_and_one_key_is_right() {
    check_all(4, Publication::AtOnce, 1, PerKey::AtMostOne);
}

#[test]
fn every_unsafe_fault_lets_a_violation_through_and_the_checker_finds_it() {
    let schedules = all_schedules(3, Publication::AtOnce);
    let footprints = all_footprints(2, PerKey::AtMostOne);
    for fault in Fault::UNSAFE {
        let found = first_violation(fault, &schedules, 3, &footprints);
        let is_expected = match fault {
            Fault::IgnoresReferences | Fault::RecordsNoReferences | Fault::ChecksNoReferences => {
                matches!(found, Some(Violation::BrokenReference(_)))
            }
            _ => matches!(found, Some(Violation::LostUpdate(_) | Violation::BrokenReference(_))),
        };
        assert!(is_expected, "{fault:?}: {found:?}");
    }
}

#[test]
fn every_overcautious_fault_refuses_without_reason_and_the_checker_finds_it() {
    let schedules = all_schedules(3, Publication::AtOnce);
    let footprints = all_footprints(2, PerKey::AtMostOne);
    for fault in Fault::OVERCAUTIOUS {
        let found = first_violation(fault, &schedules, 3, &footprints);
        assert!(matches!(found, Some(Violation::RefusedWithoutReason(_))), "{fault:?}: {found:?}");
    }
}

#[test]
fn the_enumeration_covers_batches_of_every_size() {
    // Two transactions one after the other: the batch is closed before the second begins, after that, or
    // not at all (3). Overlapping: they commit in either order, in one batch or in two (4).
    let counts = [1, 2, 3, 4].map(|count| all_schedules(count, Publication::AtOnce).len());
    assert_eq!(counts, [1, 7, 85, 1471]);
    assert_eq!(all_schedules(3, Publication::Later).len(), 557);
    let largest_batch = |schedule: &Vec<Event>| {
        let batches = schedule.split(|event| matches!(event, Event::Close));
        batches.map(|batch| batch.iter().filter(|event| matches!(event, Event::Commit(_))).count()).max()
    };
    let schedules = all_schedules(3, Publication::AtOnce);
    for size in 1..=3 {
        assert!(schedules.iter().any(|schedule| largest_batch(schedule) == Some(size)), "{size}");
    }
    assert_eq!(all_footprints(2, PerKey::AtMostOne).len(), 16);
    assert_eq!(all_footprints(3, PerKey::AnySet).len(), 512);
}

/// A random schedule of up to 64 transactions, some of which begin from an unpublished world.
fn random_case(random: &mut StdRng) -> (Vec<Vec<(SmallKey, Access)>>, Vec<Event>) {
    let transaction_count = random.random_range(2..=64);
    let key_count = random.random_range(1..=12);
    let mut footprint = |_| {
        let access_count = random.random_range(0..=4);
        let mut access = || *Access::ALL.choose(random).expect("there are accesses");
        let accesses: Vec<Access> = (0..access_count).map(|_| access()).collect();
        accesses.into_iter().map(|access| (random.random_range(0..key_count), access)).collect()
    };
    let footprints = (0..transaction_count).map(&mut footprint).collect();
    let (mut events, mut waiting, mut active) =
        (Vec::new(), (0..transaction_count).collect::<Vec<_>>(), vec![]);
    let activity_max = random.random_range(1..=16);
    while !(waiting.is_empty() && active.is_empty()) {
        match random.random_range(0..10) {
            0..3 if active.len() < activity_max => active.extend(waiting.pop().inspect(|index| {
                let is_applied = random.random_bool(0.3);
                events.push(if is_applied { Event::BeginApplied(*index) } else { Event::Begin(*index) });
            })),
            3..6 if !active.is_empty() => {
                let position = random.random_range(0..active.len());
                events.push(Event::Commit(active.swap_remove(position)));
            }
            6..8 => events.push(Event::Close),
            8 => events.push(Event::Publish),
            _ => events.push(Event::Prune),
        }
    }
    (footprints, events)
}

#[test]
fn random_histories_are_right_and_the_same_with_and_without_pruning() {
    let mut refused_count = 0;
    for seed in 0..20_000 {
        let (footprints, events) = random_case(&mut StdRng::seed_from_u64(seed));
        let without: Vec<_> = events.iter().copied().filter(|event| !matches!(event, Event::Prune)).collect();
        let run = |events: &[Event], pruning| Pipeline::new(Fault::None, &footprints).run(events, pruning);
        let expected = run(&without, Pruning::Never);
        assert_eq!(violation(&expected), None, "seed {seed}");
        for members in [run(&events, Pruning::Never), run(&events, Pruning::AfterEachEvent)] {
            for (member, expected) in members.iter().zip(&expected) {
                assert_eq!(member.ending, expected.ending, "seed {seed}");
            }
        }
        refused_count +=
            expected.iter().filter(|member| matches!(member.ending, Ending::Refused { .. })).count();
    }
    assert!(refused_count > 20_000, "the random histories must have conflicts: {refused_count}");
}

#[test]
fn every_fault_shows_in_random_histories() {
    for fault in Fault::UNSAFE.into_iter().chain(Fault::OVERCAUTIOUS) {
        let is_found = (0..2_000).any(|seed| {
            let (footprints, events) = random_case(&mut StdRng::seed_from_u64(seed));
            violation(&Pipeline::new(fault, &footprints).run(&events, Pruning::AfterEachEvent)).is_some()
        });
        assert!(is_found, "{fault:?}");
    }
}
