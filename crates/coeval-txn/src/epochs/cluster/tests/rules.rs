// SPDX-License-Identifier: Apache-2.0
//! The protocol holds over random schedules; and not, if a rule is left out.

use super::simulator::{AGES_FROM, Counts, Faults, LOSSES_FROM, ROWS_FROM, simulate};
use crate::epochs::cluster::rules::{Rule, Rules};

/// So many seeds; `COEVAL_CLUSTER_SEEDS` asks for more.
const SEEDS: u64 = 300;

fn run(faults: Faults) -> (u64, Counts) {
    run_from(0, faults)
}

/// The seeds from this one on.
fn run_from(first: u64, faults: Faults) -> (u64, Counts) {
    let seeds =
        std::env::var("COEVAL_CLUSTER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let mut counts = Counts::default();
    for seed in first..first + seeds {
        counts +=
            simulate(seed, faults, Rules::ALL).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
    println!("{seeds} seeds: {counts:?}");
    (seeds, counts)
}

#[test]
fn snapshots_hold_whatever_the_network_does() {
    let (seeds, counts) = run(Faults::Network);
    let seeds = usize::try_from(seeds).unwrap();
    assert!(counts.committed > 5 * seeds && counts.reads > 10 * seeds, "too little has happened");
    assert!(
        counts.deletes > seeds / 5 && counts.declared > 2 * seeds,
        "too few deletes and declared readers"
    );
    assert!(counts.safe > seeds / 5, "LSE has moved too seldom");
    check_texts(seeds, counts);
}

#[test]
fn nothing_acknowledged_or_shown_is_lost_with_machines() {
    let (seeds, counts) = run(Faults::Machines);
    let seeds = usize::try_from(seeds).unwrap();
    assert!(counts.committed > 2 * seeds && counts.reads > 5 * seeds, "too little has happened");
    assert!(counts.crashes > seeds && counts.closed_committed > seeds / 50, "too little has gone wrong");
    assert!(counts.moves > seeds / 20 && counts.losses > seeds / 20, "too few bricks have moved");
    assert!(counts.came > seeds / 10, "too few nodes have come");
    assert!(counts.drained > seeds / 50 && counts.removed > seeds / 50, "too few nodes have gone");
    assert!(counts.keepers > seeds / 4, "too few keepers have come after another one");
    check_texts(seeds, counts);
}

#[test]
fn readers_that_come_with_the_age_of_their_rows_see_all_up_to_it() {
    for faults in [Faults::Network, Faults::Machines] {
        let (seeds, counts) = run_from(AGES_FROM, faults);
        let seeds = usize::try_from(seeds).unwrap();
        assert!(counts.by_age > 2 * seeds, "too few readers have come");
        assert!(counts.safe > seeds / 50, "LSE has moved too seldom");
    }
}

#[test]
fn a_load_is_seen_with_the_rows_that_it_is_one_transaction_with() {
    for faults in [Faults::Network, Faults::Machines] {
        let (seeds, counts) = run_from(ROWS_FROM, faults);
        let seeds = usize::try_from(seeds).unwrap();
        // Where machines fail, most such loads fail with them.
        let least = if faults == Faults::Network { seeds / 4 } else { seeds / 30 };
        assert!(counts.with_rows > least && counts.by_age > seeds / 2, "too little has happened");
        assert!(
            faults == Faults::Network || counts.rows_asked > 0,
            "no keeper has asked what became of rows"
        );
    }
}

#[test]
fn the_others_go_on_without_machines_that_are_lost_for_good() {
    let (seeds, counts) = run_from(LOSSES_FROM, Faults::Machines);
    let seeds = usize::try_from(seeds).unwrap();
    assert!(counts.committed > seeds && counts.reads > 2 * seeds, "too little has happened");
    assert!(counts.gone > seeds / 4, "too few machines are gone");
    assert!(counts.recovered > seeds / 20, "too few keepers have begun without lost nodes");
    assert!(counts.given_up > 0, "no views were given up");
}

/// A keeper that begins behind what the first one to answer has gives up what others have followed.
#[test]
fn a_keeper_that_does_not_hear_all_that_are_left_is_noticed() {
    let rules = Rules::without(Rule::HearsAllLeft);
    let violation = |seed: u64| Some((seed, simulate(LOSSES_FROM + seed, Faults::Machines, rules).err()?));
    let found = (0..SEEDS_TO_NOTICE).find_map(violation);
    println!("{found:?}");
    assert!(found.is_some(), "it was not noticed");
}

/// Enough has happened to dictionaries.
fn check_texts(seeds: usize, counts: Counts) {
    let Counts { answered, asked_nobody, spelled, .. } = counts;
    assert!(answered > 2 * seeds && asked_nobody > 2 * seeds, "too few texts were asked for");
    assert!(spelled > seeds, "too few rows have codes");
}

/// Within so many seeds the lack of a rule has to show.
const SEEDS_TO_NOTICE: u64 = 500;

/// What these are for happens so rarely by chance that scripts show it. Those about keepers are in `succession.rs`.
const BY_SCRIPT: [Rule; 26] = [
    Rule::RowsForLatest,
    Rule::ForgetWhenAway,
    Rule::ForgetForGood,
    Rule::OwnAnswerToDeletes,
    Rule::DeletesWaitForClosing,
    Rule::SafeWaitsForAges,
    Rule::AgesThatHaveEnded,
    Rule::RowsDecide,
    Rule::NamedBehindAll,
    Rule::DeletesWaitForRows,
    Rule::CopyWhatHadEnded,
    Rule::SamePast,
    Rule::AllCodesBeforeServing,
    Rule::HeldByEnough,
    Rule::EachViewHolds,
    Rule::HeldOnDisk,
    Rule::EnoughAnswers,
    Rule::EachViewAnswers,
    Rule::NewestTermFirst,
    Rule::TermsKept,
    Rule::LostDiskCountsNot,
    Rule::NoLaterElsewhere,
    Rule::HearsAllLeft,
    Rule::OneListOfViews,
    Rule::OnlySettledIsFolded,
    Rule::OutcomesStay,
];

/// Few seeds show the lack of these. They are tried from the one on that has shown it last: a change of the protocol moves that.
const SHOWN_BY: [(Rule, u64); 2] = [(Rule::SameView, 76), (Rule::AnswersOfOneView, 443)];

#[test]
fn each_rule_that_is_left_out_is_missed() {
    let mut unnoticed = Vec::new();
    for rule in Rule::ALL.into_iter().filter(|rule| !BY_SCRIPT.contains(rule)) {
        let violation =
            |(seed, faults)| Some((seed, faults, simulate(seed, faults, Rules::without(rule)).err()?));
        let first = SHOWN_BY.iter().find(|(of, _)| *of == rule).map_or(0, |(_, seed)| *seed);
        let seeds = first..first + SEEDS_TO_NOTICE;
        let found =
            seeds.flat_map(|seed| [(seed, Faults::Network), (seed, Faults::Machines)]).find_map(violation);
        println!("{rule:?}: {found:?}");
        if found.is_none() {
            unnoticed.push(rule);
        }
    }
    assert_eq!(unnoticed, [], "whose lack was not noticed");
}
