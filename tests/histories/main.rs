// SPDX-License-Identifier: Apache-2.0
//! Histories of concurrent clients, judged by what each was told and by nothing else.
//!
//! Eight clients append to lists and read them; the checker of `coeval-bench` infers from the lists who came before whom,
//! and looks for cycles. What the threads of the clients do in between differs from run to run. `COEVAL_HISTORY=100000` in the
//! environment says how many transactions a level gets, and `tests/long histories` asks for many; `COEVAL_HISTORY_DIR` says
//! where to keep the records, in Elle's format.

// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

mod tique;

use coeval::{Database, Isolation};
use coeval_bench::histories::{Anomaly, History, Levels, anomalies};
use coeval_store::{Store, StoreOptions, Trials};
use coeval_tique::{Certification, Layout, Options, Trials as TiqueTrials, Writes};
use std::collections::BTreeMap;

const CLIENTS: usize = 8;

const SEED: u64 = 7;

/// Up to so many histories in which something is broken are recorded, each half as long as one in which nothing is. Most show it
/// in the first.
const BROKEN_HISTORIES: usize = 4;

/// What is wrong with a history, with examples.
type Found = BTreeMap<Anomaly, String>;

/// The transactions of a history in which nothing is broken: twice as many as show what is broken.
fn size() -> usize {
    given_size().unwrap_or(6_000)
}

/// As [`size`], of TiQuE's, each of which takes twenty times as long.
fn tique_size() -> usize {
    given_size().unwrap_or(800)
}

fn given_size() -> Option<usize> {
    std::env::var("COEVAL_HISTORY").ok().and_then(|count| count.parse().ok())
}

/// Says what there is, writes it down if asked, and sees that it is enough. What is written is read again as it was.
fn keep(name: &str, history: &History) {
    let edn = history.to_edn();
    if let Ok(dir) = std::env::var("COEVAL_HISTORY_DIR") {
        std::fs::write(format!("{dir}/{name}.edn"), &edn).unwrap();
    }
    assert_eq!(History::from_edn(&edn).unwrap().to_edn(), edn);
    let (committed, all) = (history.committed(), history.transactions.len());
    println!("{name}: {committed} of {all} committed");
    assert!(committed > all / 4, "{name}: too few to say anything");
}

/// Something is broken: histories of half as many transactions are recorded, each with another seed, until one shows what is asked
/// for.
#[track_caller]
fn see(size: usize, find: impl Fn(usize, u64) -> Found, is_it: impl Fn(&Found) -> bool) {
    let mut found = Found::new();
    let is_seen = (0..BROKEN_HISTORIES).any(|place| {
        found = find(size / 2, SEED + place as u64);
        is_it(&found)
    });
    assert!(is_seen, "{found:#?}");
}

/// The anomalies of a recorded history.
fn recorded(name: &str, isolation: Isolation) -> Found {
    let history = Levels::of(isolation).record(CLIENTS, size(), SEED).unwrap();
    keep(name, &history);
    anomalies(&history)
}

#[test]
fn what_commits_at_serializable_has_a_serial_order_safe_readers_included() {
    let found = recorded("serializable", Isolation::Serializable);
    assert!(found.is_empty(), "{found:#?}");
}

/// The anomalies at SERIALIZABLE, a third of the transactions declared read-only, with something broken.
fn recorded_on_trial(name: &str, trials: Trials, transactions: usize, seed: u64) -> Found {
    let store = Store::in_memory_on_trial(StoreOptions::default(), trials);
    let db = Database::with_store(store).unwrap();
    let history = Levels::of(Isolation::Serializable).record_in(&db, CLIENTS, transactions, seed).unwrap();
    keep(name, &history);
    anomalies(&history)
}

#[test]
fn without_the_rules_of_certification_there_is_write_skew_at_serializable() {
    let trials = Trials { rules_are_off: true, ..Trials::default() };
    let find = |transactions, seed| recorded_on_trial("serializable_uncertified", trials, transactions, seed);
    see(size(), find, |found| found.contains_key(&Anomaly::WriteSkew));
}

/// The checker sees what safe snapshots prevent.
#[test]
fn on_the_newest_world_instead_of_a_safe_one_readers_are_in_cycles() {
    let trials = Trials { safe_is_newest: true, ..Trials::default() };
    let find = |transactions, seed| recorded_on_trial("serializable_unsafe", trials, transactions, seed);
    see(size(), find, |found| !found.is_empty());
}

#[test]
fn repeatable_read_allows_write_skew_and_nothing_else() {
    let found = recorded("repeatable_read", Isolation::Snapshot);
    let forbidden: Vec<_> = found.iter().filter(|(anomaly, _)| !anomaly.is_allowed_on_snapshots()).collect();
    assert!(forbidden.is_empty(), "{forbidden:#?}");
    assert!(found.contains_key(&Anomaly::WriteSkew), "the same clients show write skew where it is allowed");
}

#[test]
fn read_committed_reads_nothing_that_is_not_committed_or_finished() {
    let found = recorded("read_committed", Isolation::ReadCommitted);
    let forbidden = [
        Anomaly::IncompatibleOrder,
        Anomaly::Internal,
        Anomaly::AbortedRead,
        Anomaly::IntermediateRead,
        Anomaly::WriteCycle,
        Anomaly::CircularInformationFlow,
    ];
    for anomaly in forbidden {
        assert!(!found.contains_key(&anomaly), "{:#?}", found[&anomaly]);
    }
    let snapshots_forbid = |anomaly: &Anomaly| !anomaly.is_allowed_on_snapshots();
    assert!(found.keys().any(snapshots_forbid), "the same clients show what snapshots prevent");
}

/// The anomalies in a history of TiQuE's.
fn found_in_tique(
    name: &str,
    begin: &'static str,
    options: Options,
    transactions: usize,
    seed: u64,
) -> Found {
    let history = tique::record(begin, options, transactions, seed);
    keep(name, &history);
    anomalies(&history)
}

/// The same clients show write skew below.
#[test]
fn what_tique_commits_at_serializable_has_a_serial_order() {
    let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE";
    for (name, options) in [("stamped", Options::default()), ("joined", joined())] {
        let name = format!("tique_serializable_{name}");
        let found = found_in_tique(&name, begin, options, tique_size(), SEED);
        assert!(found.is_empty(), "{name}: {found:#?}");
    }
}

/// Nothing that snapshot isolation forbids, and what it allows.
fn see_snapshot_isolation(name: &str, options: Options) {
    let found = found_in_tique(name, "BEGIN", options, tique_size(), SEED);
    assert!(found.keys().all(|anomaly| anomaly.is_allowed_on_snapshots()), "{name}: {found:#?}");
    assert!(found.contains_key(&Anomaly::WriteSkew), "{name}: the same clients show what is allowed");
}

#[test]
fn tique_gives_snapshot_isolation_and_no_less() {
    see_snapshot_isolation("tique_stamped", Options::default());
}

#[test]
fn tique_gives_snapshot_isolation_by_joins_with_the_transaction_table_too() {
    see_snapshot_isolation("tique_joined", joined());
}

#[test]
fn tique_gives_snapshot_isolation_with_certification_in_process_too() {
    let certification = Certification::InProcess;
    see_snapshot_isolation("tique_in_process", Options { certification, ..Options::default() });
}

#[test]
fn tique_gives_snapshot_isolation_with_writes_sent_at_once_too() {
    see_snapshot_isolation("tique_at_once", Options { writes: Writes::AtOnce, ..joined() });
}

/// 4.1: "if we remove conflict detection and instead commit all transactions, it also fails". Of two who read the same list and
/// appended to it, one is lost: no order has both.
#[test]
fn without_certification_tique_loses_updates() {
    for certification in [Certification::InEngine, Certification::InProcess] {
        let trials = TiqueTrials { certification_is_off: true, ..TiqueTrials::default() };
        let options = Options { trials, certification, ..Options::default() };
        let name = format!("tique_uncertified_{certification:?}");
        let find = |transactions, seed| found_in_tique(&name, "BEGIN", options, transactions, seed);
        see(tique_size(), find, |found| found.contains_key(&Anomaly::IncompatibleOrder));
    }
}

/// 4.1: "if we do not use the transaction's sts for reading but instead rely on the most recent one". Who reads two lists reads one
/// before and the other behind somebody's commit. (Appends read their list, so certification is left to refuse G0 and G1c here.)
#[test]
fn without_its_start_timestamp_tique_reads_states_that_never_were() {
    let trials = TiqueTrials { snapshot_is_off: true, ..TiqueTrials::default() };
    let options = Options { trials, ..Options::default() };
    let find = |transactions, seed| found_in_tique("tique_newest", "BEGIN", options, transactions, seed);
    see(tique_size(), find, |found| found.contains_key(&Anomaly::SingleAntidependency));
}

fn joined() -> Options {
    Options { layout: Layout::Joined, ..Options::default() }
}
