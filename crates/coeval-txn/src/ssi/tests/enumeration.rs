// SPDX-License-Identifier: Apache-2.0
//! All histories of a few transactions over a few items.
//!
//! A history is, for each transaction in the order in which they ask to commit, the batch it asks in, the
//! batches its snapshot holds, and what it reads and writes. Another order of names is the same history, so is
//! another order of items. Two transactions that overtake each other are left out: one of them is refused by
//! first committer wins, and the history without it is there as well.
//!
//! With `COEVAL_ENUMERATE=full` in the environment the large ones are run too; `--nocapture` shows counts.

use std::ops::ControlFlow;
use std::time::Instant;

use super::super::SsiRule;
use super::history::Items;
use super::pipeline::{Beside, Ending, Event, Pipeline, Role, Setup, Spec, Style, Violation};
use super::replica::{ReplicaCounts, Replicas, Way};

/// What is counted over many histories.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) histories: u64,
    pub(super) committed: u64,
    pub(super) refused: [u64; SsiRule::ALL.len()],
    /// Refusals without which what committed would still have a serial order.
    pub(super) needless: [u64; SsiRule::ALL.len()],
    /// Those of them without which safe readers of every boundary would have their place in it as well.
    pub(super) needless_for_all: u64,
    pub(super) replicas: ReplicaCounts,
}

impl Counts {
    pub(super) fn add(&mut self, pipeline: &Pipeline<'_>) {
        self.histories += 1;
        for (index, ending) in pipeline.endings().enumerate() {
            match ending {
                Ending::Committed(_) => self.committed += 1,
                Ending::Refused(rule) => {
                    self.refused[rule as usize] += 1;
                    let is_needless = pipeline.has_place_for(index, Beside::Transactions);
                    let is_needless_for_all = pipeline.has_place_for(index, Beside::SafeReaders);
                    self.needless[rule as usize] += u64::from(is_needless);
                    self.needless_for_all += u64::from(is_needless && is_needless_for_all);
                }
                _ => {}
            }
        }
    }

    pub(super) fn refused_count(&self) -> u64 {
        self.refused.iter().sum()
    }

    pub(super) fn needless_count(&self) -> u64 {
        self.needless.iter().sum()
    }

    pub(super) fn print(&self, what: &str, since: Instant) {
        let of_rule = |rule: SsiRule| {
            format!("{rule:?} {}/{}", self.refused[rule as usize], self.needless[rule as usize])
        };
        let rules = SsiRule::ALL.map(of_rule);
        println!(
            "{what}: {} histories, {} commits, {} refused ({}), {} needlessly, {} of those beside safe readers too; \
             {:?}; {:.1} s",
            self.histories,
            self.committed,
            self.refused_count(),
            rules.join(", "),
            self.needless_count(),
            self.needless_for_all,
            self.replicas,
            since.elapsed().as_secs_f64()
        );
    }
}

/// Which histories.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    pub(super) item_count: u32,
    /// Which transactions write nothing.
    pub(super) readers: Readers,
    pub(super) transaction_count: usize,
    /// A batch is published only when so many later ones are applied.
    pub(super) lag: u64,
    /// Every choice of who has run for too long, instead of nobody.
    pub(super) ages: Ages,
    /// Every choice of when the first transaction moves its snapshot, instead of never.
    pub(super) refresh: Refresh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    /// Each reads or writes as it comes.
    Any,
    /// So many of them.
    Count(usize),
    /// So many of them, and each of those reads all items.
    OfEverything(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ages {
    Young,
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refresh {
    Never,
    Any,
}

impl Space {
    pub(super) const fn of(transaction_count: usize, item_count: u32) -> Self {
        Self {
            item_count,
            readers: Readers::Any,
            transaction_count,
            lag: 0,
            ages: Ages::Young,
            refresh: Refresh::Never,
        }
    }
}

/// When a transaction begins and asks to commit, in batches; and when it moves its snapshot.
#[derive(Clone, Copy, Debug)]
struct Times {
    batch: usize,
    begin: usize,
    refresh: Option<usize>,
}

/// Calls `visit` with every history of the space, until it breaks.
pub(super) fn for_each<B>(
    space: Space,
    mut visit: impl FnMut(&[Spec], &[Event]) -> ControlFlow<B>,
) -> ControlFlow<B> {
    for times in all_times(space) {
        let events = events_of(&times, space.lag);
        let mut masks = Vec::with_capacity(times.len());
        choose(space, &times, &mut masks, &mut |masks| {
            for old in 0..1_u32 << if space.ages == Ages::Any { space.transaction_count } else { 0 } {
                visit(&specs_of(space, masks, &times, old), &events)?;
            }
            ControlFlow::Continue(())
        })?;
    }
    ControlFlow::Continue(())
}

/// Calls `visit` with every choice of reads and writes that begins with `masks` and is worth a run.
fn choose<B>(
    space: Space,
    times: &[Times],
    masks: &mut Vec<u16>,
    visit: &mut impl FnMut(&[u16]) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let next = masks.len();
    if next == times.len() {
        return if is_canonical(space, masks) { visit(masks) } else { ControlFlow::Continue(()) };
    }
    let writes = |mask: u16| reads_and_writes(space.item_count, mask).1;
    let reader_count = masks.iter().filter(|mask| writes(**mask) == 0).count();
    let from = times[next].refresh.unwrap_or(times[next].begin);
    let unseen = (0..next).filter(|other| times[*other].batch >= from);
    let overtaken = unseen.fold(0, |items, other| items | writes(masks[other]));
    let everything = (1 << space.item_count) - 1;
    for mask in 1..1 << (2 * space.item_count) {
        let is_reader = writes(mask) == 0;
        let is_in_space = match space.readers {
            Readers::Any => true,
            Readers::Count(count) | Readers::OfEverything(count) => {
                let rest = times.len() - next - 1;
                let with_this = reader_count + usize::from(is_reader);
                let is_allowed = !is_reader || space.readers == Readers::Count(count) || mask == everything;
                is_allowed && (with_this..=with_this + rest).contains(&count)
            }
        };
        if is_in_space && writes(mask) & overtaken == 0 {
            masks.push(mask);
            choose(space, times, masks, visit)?;
            masks.pop();
        }
    }
    ControlFlow::Continue(())
}

fn all_times(space: Space) -> Vec<Vec<Times>> {
    let mut all = vec![Vec::new()];
    for index in 0..space.transaction_count {
        let with_next = |times: &Vec<Times>| {
            let last = times.last().map_or(0, |last: &Times| last.batch);
            let batches = if times.is_empty() { 0..=0 } else { last..=last + 1 };
            let mut longer = Vec::new();
            for batch in batches {
                for begin in 0..=batch {
                    let refreshes = match space.refresh {
                        Refresh::Any if index > 0 => (begin + 1..=batch).map(Some).collect(),
                        _ => Vec::new(),
                    };
                    for refresh in std::iter::once(None).chain(refreshes) {
                        let mut times = times.clone();
                        times.push(Times { batch, begin, refresh });
                        longer.push(times);
                    }
                }
            }
            longer
        };
        all = all.iter().flat_map(with_next).collect();
    }
    if space.refresh == Refresh::Any {
        all.retain(|times| times.iter().filter(|time| time.refresh.is_some()).count() == 1);
    }
    all
}

fn events_of(times: &[Times], lag: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let batch_count = times.last().map_or(0, |last| last.batch + 1);
    for batch in 0..batch_count {
        for (index, time) in times.iter().enumerate() {
            if time.begin == batch {
                events.push(Event::BeginApplied(index));
            }
            if time.refresh == Some(batch) {
                events.push(Event::Refresh(index));
            }
        }
        let members = times.iter().enumerate().filter(|(_, time)| time.batch == batch);
        events.extend(members.map(|(index, _)| Event::Commit(index)));
        events.extend([Event::Close, Event::Publish { lag }]);
    }
    if lag > 0 {
        events.push(Event::Publish { lag: 0 });
    }
    events
}

fn reads_and_writes(item_count: u32, mask: u16) -> (Items, Items) {
    let items = (1 << item_count) - 1;
    (mask & items, mask >> item_count)
}

/// Whether no other names of items make this choice smaller.
fn is_canonical(space: Space, masks: &[u16]) -> bool {
    let renamed = |one: u32, other: u32| {
        let swap = move |mask: u16| {
            let (low, high) = (mask >> one & 1, mask >> other & 1);
            mask & !(1 << one) & !(1 << other) | low << other | high << one
        };
        let count = space.item_count;
        let rename = move |mask: &u16| {
            let (reads, writes) = reads_and_writes(count, *mask);
            swap(reads) | swap(writes) << count
        };
        masks.iter().map(rename)
    };
    (1..space.item_count).all(|other| masks.iter().copied().le(renamed(other - 1, other)))
}

fn specs_of(space: Space, masks: &[u16], times: &[Times], old: u32) -> Vec<Spec> {
    let salt: u32 = masks.iter().fold(0, |salt, mask| salt * 31 + u32::from(*mask));
    let spec = |index: usize| {
        let (reads, writes) = reads_and_writes(space.item_count, masks[index]);
        let role = match (reads, writes) {
            (_, 0) => Role::Reader,
            (0, _) => Role::Blind,
            _ => Role::Serializable,
        };
        // Every other history reads ranges, and those who move their snapshot read the rest behind that.
        let style = if (salt >> index) & 1 == 0 { Style::Keys } else { Style::Ranges };
        let early = if salt.is_multiple_of(3) { reads & 1 } else { reads & 0b10 };
        let (reads, late_reads) = match times[index].refresh {
            None => (reads, 0),
            Some(_) => (early, reads & !early),
        };
        Spec { reads, late_reads, writes, role, is_old: old & (1 << index) != 0, style }
    };
    (0..masks.len()).map(spec).collect()
}

/// A history that is not right, and how a replica followed it if it was that.
#[derive(Debug)]
#[expect(dead_code, reason = "for the message of a test that fails")]
struct Found {
    violation: Violation,
    specs: Vec<Spec>,
    events: Vec<Event>,
    way: Option<Way>,
}

/// Runs every history of a space, and the replicas behind it; the first violation, or the counts.
fn run_all(setup: &Setup, space: Space, replicas: Replicas) -> Result<Counts, Box<Found>> {
    let start = Instant::now();
    let mut counts = Counts::default();
    let found = for_each(space, |specs, events| {
        let pipeline = Pipeline::run(setup, specs, events, start);
        let by_primary = pipeline.violation().map(|violation| (violation, None));
        let found = by_primary.or_else(|| {
            let by_replica = replicas.violation(&pipeline, counts.histories, &mut counts.replicas);
            by_replica.map(|(violation, way)| (violation, Some(way)))
        });
        match found {
            Some((violation, way)) => {
                let (specs, events) = (specs.to_vec(), events.to_vec());
                ControlFlow::Break(Box::new(Found { violation, specs, events, way }))
            }
            None => {
                counts.add(&pipeline);
                ControlFlow::Continue(())
            }
        }
    });
    found.break_value().map_or(Ok(counts), Err)
}

pub(super) fn is_full() -> bool {
    std::env::var_os("COEVAL_ENUMERATE").is_some_and(|value| value == "full")
}

/// Asserts that every history of a space is right; prints the counts.
fn check(what: &str, setup: &Setup, space: Space) -> Counts {
    check_with(what, setup, space, Replicas::Some(16))
}

fn check_with(what: &str, setup: &Setup, space: Space, replicas: Replicas) -> Counts {
    let start = Instant::now();
    let counts = run_all(setup, space, replicas).unwrap_or_else(|found| panic!("{what}: {found:?}"));
    counts.print(what, start);
    counts
}

#[test]
fn every_history_of_up_to_three_transactions_over_two_items_is_right() {
    let setup = Setup::new(2);
    let pairs = check("2 transactions, 2 items", &setup, Space::of(2, 2));
    // Two transactions are refused for write skew alone: each reads what the other writes.
    assert_eq!(pairs.refused_count(), pairs.refused[SsiRule::Pivot as usize]);
    assert!(pairs.refused_count() > 0 && pairs.needless_count() == 0);
    let triples = check("3 transactions, 2 items", &setup, Space::of(3, 2));
    let seen = [SsiRule::Pivot, SsiRule::PivotOfReader, SsiRule::Source, SsiRule::ReadingSource];
    assert!(seen.iter().all(|rule| triples.refused[*rule as usize] > 0), "{triples:?}");
}

#[test]
fn every_history_of_three_transactions_over_three_items_is_right() {
    check("3 transactions, 3 items", &Setup::new(3), Space::of(3, 3));
}

#[test]
fn every_history_of_four_transactions_over_two_items_is_right() {
    check("4 transactions, 2 items", &Setup::new(2), Space::of(4, 2));
}

#[test]
fn every_history_with_publication_behind_certification_is_right() {
    let setup = Setup::new(2);
    check("3 transactions, 2 items, published late", &setup, Space { lag: 1, ..Space::of(3, 2) });
    check("3 transactions, 2 items, published later", &setup, Space { lag: 2, ..Space::of(3, 2) });
}

#[test]
fn every_history_that_the_boundary_may_pass_is_right() {
    let space = Space { ages: Ages::Any, ..Space::of(3, 2) };
    let counts = check("3 transactions, 2 items, some too old", &Setup::new(2), space);
    assert!(counts.refused[SsiRule::PassedByBoundary as usize] > 0);
    check("3 transactions, 2 items, too old, published late", &Setup::new(2), Space { lag: 1, ..space });
}

#[test]
fn every_history_with_a_moved_snapshot_is_right() {
    let space = Space { refresh: Refresh::Any, ..Space::of(3, 2) };
    check("3 transactions, 2 items, one moves its snapshot", &Setup::new(2), space);
    check("the same, published late", &Setup::new(2), Space { lag: 1, ..space });
}

#[test]
fn every_history_is_right_when_memory_is_short() {
    let coarse = check("3 transactions, 2 items, coarse", &Setup::coarse(2), Space::of(3, 2));
    let exact = check("3 transactions, 2 items", &Setup::new(2), Space::of(3, 2));
    assert!(coarse.refused_count() > exact.refused_count(), "coarse answers refuse more");
    let space = Space { ages: Ages::Any, lag: 1, ..Space::of(3, 2) };
    check("3 transactions, 2 items, coarse, too old, published late", &Setup::coarse(2), space);
}

#[test]
fn every_replica_of_every_history_of_three_transactions_over_two_items_is_right() {
    let counts =
        check_with("3 transactions, 2 items", &Setup::new(2), Space::of(3, 2), Replicas::Each).replicas;
    let seen =
        [counts.with_members, counts.behind, counts.with_members_within, counts.of_copies, counts.thinned];
    assert!(seen.iter().all(|count| *count > 0), "{counts:?}");
    let late = Space { lag: 1, ..Space::of(3, 2) };
    check_with("3 transactions, 2 items, published late", &Setup::new(2), late, Replicas::Each);
}

/// As [`check`], in the full enumeration alone.
fn check_in_full(what: &str, setup: &Setup, space: Space) {
    if is_full() {
        check(what, setup, space);
    }
}

#[test]
fn full_every_replica_of_four_transactions() {
    if is_full() {
        for lag in 0..=2 {
            let space = Space { lag, ..FOUR };
            let what = format!("4 transactions, 2 items, published {lag} batches behind, every replica");
            check_with(&what, &Setup::new(2), space, Replicas::Each);
        }
    }
}

const FOUR: Space = Space::of(4, 2);

#[test]
fn full_four_transactions_published_late() {
    check_in_full("4 transactions, 2 items, published late", &Setup::new(2), Space { lag: 1, ..FOUR });
    check_in_full("4 transactions, 2 items, published later", &Setup::new(2), Space { lag: 2, ..FOUR });
}

#[test]
fn full_four_transactions_some_too_old() {
    let space = Space { ages: Ages::Any, ..FOUR };
    check_in_full("4 transactions, 2 items, some too old", &Setup::new(2), space);
}

#[test]
fn full_four_transactions_some_too_old_published_late() {
    let space = Space { ages: Ages::Any, lag: 1, ..FOUR };
    check_in_full("4 transactions, 2 items, some too old, published late", &Setup::new(2), space);
}

#[test]
fn full_four_transactions_with_little_memory() {
    check_in_full("4 transactions, 2 items, coarse", &Setup::coarse(2), FOUR);
}

#[test]
fn full_four_transactions_with_a_moved_snapshot() {
    let space = Space { refresh: Refresh::Any, ..FOUR };
    check_in_full("4 transactions, 2 items, one moves its snapshot", &Setup::new(2), space);
}

#[test]
fn full_four_transactions_over_three_items() {
    check_in_full("4 transactions, 3 items", &Setup::new(3), Space::of(4, 3));
}

#[test]
fn full_three_writers_and_two_readers() {
    let space = Space { readers: Readers::Count(2), ..Space::of(5, 2) };
    check_in_full("3 writers, 2 readers, 2 items", &Setup::new(2), space);
}

#[test]
fn full_four_writers_and_one_reader() {
    let space = Space { readers: Readers::Count(1), ..Space::of(5, 2) };
    check_in_full("4 writers, 1 reader, 2 items", &Setup::new(2), space);
}

#[test]
fn full_four_writers_and_two_readers_of_everything() {
    let space = Space { readers: Readers::OfEverything(2), ..Space::of(6, 2) };
    check_in_full("4 writers, 2 readers of everything, 2 items", &Setup::new(2), space);
}
