// SPDX-License-Identifier: Apache-2.0
//! The simulation of failovers with chains, with changes of the list of synchronous replicas and with slots, one after the other and
//! all together; and the rules that no other test of it breaks. Which rule is broken by what: `docs/trust.md`, Replicas.

use super::cluster::{Broken, Clients, Cluster, Counts, Extra, Happened};
use super::inserts::Inserts;
use super::lists::{Lists, Rule};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// So many seeds of each; `COEVAL_FAILOVERS` and `COEVAL_LIST_FAILOVERS` ask for more.
const SEEDS: u64 = 10;

/// So many steps apart are the seeds: every one is of five machines, since the lists of three are all one.
const FIVE_MACHINES: u64 = 3;

fn asked_for(variable: &str) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

/// Runs seeds of clients that insert. What has happened, if that was as many as averages need.
fn run_inserts(extra: Extra) -> Option<Happened> {
    let seeds = asked_for("COEVAL_FAILOVERS");
    let (mut counts, mut happened, mut acknowledged) = (Counts::default(), Happened::default(), 0);
    let apart = if extra == Extra::Most { 1 } else { FIVE_MACHINES };
    for seed in 0..seeds {
        let mut cluster = Cluster::with(seed * apart, Broken::Nothing, Inserts::default(), extra);
        let outcome = catch_unwind(AssertUnwindSafe(|| cluster.run()));
        assert!(outcome.is_ok(), "{extra:?}, seed {seed}");
        assert_eq!(cluster.lost, None, "{extra:?}, seed {seed}");
        assert_eq!(cluster.two_terms, None, "{extra:?}, seed {seed}");
        counts += cluster.counts;
        happened += cluster.happened();
        acknowledged += cluster.clients.acknowledged();
    }
    println!("{extra:?}, {seeds} seeds: {acknowledged} acknowledged, {counts:?}, {happened:?}");
    // With many machines that are asked for, and lists that change, nobody can say how much is acknowledged.
    let is_enough = seeds >= SEEDS && extra != Extra::MostChanges;
    let seeds = seeds as usize;
    // So many are seldom there at once.
    let has_acknowledged = 3 * acknowledged > if extra == Extra::Most { 0 } else { seeds };
    assert!(!is_enough || (2 * counts.failovers > seeds && has_acknowledged), "too little has happened");
    is_enough.then_some(happened)
}

#[test]
fn nothing_acknowledged_or_shown_is_lost_where_replicas_follow_replicas() {
    if let Some(happened) = run_inserts(Extra::Chains) {
        assert!(happened.chained > 10 * SEEDS as usize, "too few chains");
    }
}

#[test]
fn nothing_acknowledged_or_shown_is_lost_while_the_list_of_replicas_changes() {
    if let Some(happened) = run_inserts(Extra::Changes) {
        assert!(happened.changes > 2 * SEEDS as usize, "too few changes");
    }
}

/// Half of the machines or more are asked for: candidates may each be promoted by few, to timelines of one number.
#[test]
fn nothing_acknowledged_or_shown_is_lost_where_few_have_to_promise() {
    run_inserts(Extra::Most);
}

#[test]
fn nothing_acknowledged_or_shown_is_lost_where_few_have_to_promise_while_the_list_changes() {
    run_inserts(Extra::MostChanges);
}

/// Of three machines each may be promoted by itself; here to one and the same timeline.
#[test]
fn candidates_that_are_all_one_are_seen() {
    let found = (0..TRIES).find_map(|seed| {
        let mut cluster = Cluster::with(seed, Broken::OneCandidate, Inserts::default(), Extra::Most);
        // The product may find out by itself, and stops, behind what is looked for or before it.
        let _ = catch_unwind(AssertUnwindSafe(|| cluster.run()));
        Some((seed, seen(&cluster)?))
    });
    println!("{found:?}");
    assert!(found.is_some(), "nothing was seen");
}

/// And what a slot says that it keeps is there.
#[test]
fn nothing_acknowledged_or_shown_is_lost_where_followers_have_slots() {
    if let Some(happened) = run_inserts(Extra::Slots) {
        assert!(happened.kept > 2 * SEEDS as usize, "too few came back");
    }
}

/// A commit that asks for less is seen behind those before it that ask for more.
#[test]
fn nothing_acknowledged_or_shown_is_lost_where_other_commits_ask_for_less() {
    run_inserts(Extra::Levels);
}

#[test]
fn nothing_acknowledged_or_shown_is_lost_with_chains_changes_and_slots() {
    run_inserts(Extra::Everything);
}

/// Runs a seed of clients that append to lists. What is wrong with its history, and whether the product has stopped by itself.
fn run_lists(seed: u64, broken: Broken, extra: Extra) -> (Cluster<Lists>, bool) {
    let mut cluster = Cluster::with(seed, broken, Lists::new(Rule::AllKept), extra);
    let outcome = catch_unwind(AssertUnwindSafe(|| cluster.run()));
    if outcome.is_ok() && cluster.lost.is_none() {
        Lists::look_for_losses(&mut cluster, "everything");
    }
    (cluster, outcome.is_err())
}

#[test]
fn histories_over_failovers_with_chains_changes_and_slots_are_serializable() {
    let seeds = asked_for("COEVAL_LIST_FAILOVERS");
    let (mut counts, mut happened) = (Counts::default(), Happened::default());
    for seed in 0..seeds {
        let (cluster, has_stopped) = run_lists(seed * FIVE_MACHINES, Broken::Nothing, Extra::Everything);
        assert!(!has_stopped, "seed {seed}");
        assert_eq!(cluster.lost, None, "seed {seed}");
        assert_eq!(cluster.two_terms, None, "seed {seed}");
        counts += cluster.counts;
        happened += cluster.happened();
    }
    println!("{seeds} seeds: {counts:?}, {happened:?}");
}

/// What is seen of a run: something that clients were told of is gone, a slot has not kept its word, or a term has two primaries.
fn seen<C: Clients>(cluster: &Cluster<C>) -> Option<String> {
    cluster.lost.clone().or_else(|| cluster.two_terms.clone())
}

/// Up to so many seeds are tried until a broken rule is seen.
const TRIES: u64 = 400;

fn first_seen(broken: Broken, extra: Extra, from: u64) -> Option<(u64, String)> {
    (from..from + TRIES).find_map(|seed| {
        let mut cluster = Cluster::with(seed * FIVE_MACHINES, broken, Inserts::default(), extra);
        // The product may find out by itself, and stops: another seed shows what it would have come to.
        let has_stopped = catch_unwind(AssertUnwindSafe(|| cluster.run())).is_err();
        // Of a disk that lies there is nothing else to be seen where all of it is found to be damaged.
        let is_damaged = has_stopped && broken == Broken::LyingDisks;
        Some((seed, seen(&cluster).or_else(|| is_damaged.then(|| "it is damaged".to_owned()))?))
    })
}

/// A test for each rule that is broken, and seen to be. Seeds are tried from the one on that has shown it last. A change of what a store does
/// moves that: the test prints with which seed it was seen, which is to stand here if it has become far from the one that does.
macro_rules! seen_to_be_broken {
    ($($name:ident: $broken:ident, $extra:ident, $from:literal;)*) => {$(
        #[test]
        fn $name() {
            let found = first_seen(Broken::$broken, Extra::$extra, $from);
            println!("{found:?}");
            assert!(found.is_some(), "nothing was seen");
        }
    )*};
}

seen_to_be_broken! {
    what_is_shown_before_it_is_published_is_seen: ShownAtOnce, Nothing, 0;
    a_promise_that_is_forgotten_is_seen: PromisesForgotten, Nothing, 279;
    disks_that_lie_are_seen: LyingDisks, Nothing, 0;
    logs_compared_by_places_alone_are_seen: PlacesAlone, Nothing, 27;
    a_list_that_is_waited_for_alone_at_once_is_seen: ListAtOnce, Changes, 0;
    a_list_before_that_is_forgotten_is_seen: ListForgotten, Changes, 45;
    what_a_replica_of_a_replica_shows_before_it_is_published_is_seen: ChainShowsAll, Everything, 598;
    slots_that_keep_nothing_are_seen: SlotsIgnored, Slots, 0;
    slots_that_keep_all_are_seen: SlotsUnbounded, Slots, 0;
}

/// The product itself finds a commit that would change what it has called safe, and stops, or clients see an anomaly.
#[test]
fn a_boundary_that_a_replica_makes_up_for_its_own_is_found_out() {
    // From the one on that has shown it last.
    let found = (30..30 + TRIES).find(|seed| {
        let (cluster, has_stopped) = run_lists(seed * FIVE_MACHINES, Broken::ChainBoundary, Extra::Chains);
        has_stopped || cluster.lost.is_some()
    });
    println!("found out with seed {found:?}");
    assert!(found.is_some(), "nobody has found out");
}
