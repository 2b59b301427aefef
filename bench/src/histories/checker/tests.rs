// SPDX-License-Identifier: Apache-2.0
//! Each anomaly in the smallest history that has it.

use super::{Anomaly, anomalies};
use crate::histories::history::{Ending, History, Operation, Transaction};

fn append(key: u64, value: u64) -> Operation {
    Operation::Append { key, value }
}

fn read(key: u64, list: &[u64]) -> Operation {
    Operation::Read { key, list: list.to_vec() }
}

fn found(transactions: &[&[Operation]]) -> Vec<Anomaly> {
    ended(transactions, &[])
}

fn ended(transactions: &[&[Operation]], aborted: &[usize]) -> Vec<Anomaly> {
    let of = |(index, operations): (usize, &&[Operation])| Transaction {
        process: index,
        operations: operations.to_vec(),
        ending: if aborted.contains(&index) { Ending::Aborted } else { Ending::Committed },
    };
    let history = History { transactions: transactions.iter().enumerate().map(of).collect() };
    anomalies(&history).into_keys().collect()
}

#[test]
fn a_serial_history_has_none() {
    let history: [&[Operation]; 3] = [
        &[append(1, 1), append(1, 2), read(1, &[1, 2])],
        &[read(1, &[1, 2]), append(1, 3), append(2, 4)],
        &[read(2, &[4]), read(1, &[1, 2, 3])],
    ];
    assert_eq!(found(&history), []);
}

#[test]
fn reads_that_are_no_prefixes_of_one_order() {
    let history: [&[Operation]; 4] =
        [&[append(1, 1)], &[append(1, 2)], &[read(1, &[1, 2])], &[read(1, &[2])]];
    assert!(found(&history).contains(&Anomaly::IncompatibleOrder));
}

#[test]
fn own_appends_that_are_not_found() {
    assert_eq!(found(&[&[append(1, 1), read(1, &[])]]), [Anomaly::Internal]);
}

#[test]
fn a_read_of_what_was_aborted() {
    assert_eq!(ended(&[&[append(1, 1)], &[read(1, &[1])]], &[0]), [Anomaly::AbortedRead]);
}

#[test]
fn a_read_of_what_was_not_finished() {
    let history: [&[Operation]; 2] = [&[append(1, 1), append(1, 2)], &[read(1, &[1])]];
    assert!(found(&history).contains(&Anomaly::IntermediateRead));
}

#[test]
fn writes_in_two_orders() {
    let history: [&[Operation]; 3] =
        [&[append(1, 1), append(2, 2)], &[append(1, 3), append(2, 4)], &[read(1, &[1, 3]), read(2, &[4, 2])]];
    assert!(found(&history).contains(&Anomaly::WriteCycle));
}

#[test]
fn two_that_read_each_others_writes() {
    let history: [&[Operation]; 2] = [&[append(1, 1), read(2, &[2])], &[append(2, 2), read(1, &[1])]];
    assert!(found(&history).contains(&Anomaly::CircularInformationFlow));
}

#[test]
fn a_lost_update() {
    let history: [&[Operation]; 3] =
        [&[read(1, &[]), append(1, 1)], &[read(1, &[]), append(1, 2)], &[read(1, &[1, 2])]];
    assert!(found(&history).contains(&Anomaly::SingleAntidependency));
}

#[test]
fn a_fuzzy_read() {
    let history: [&[Operation]; 3] =
        [&[append(1, 1), append(2, 2)], &[read(1, &[]), read(2, &[2])], &[read(1, &[1])]];
    assert!(found(&history).contains(&Anomaly::SingleAntidependency));
}

#[test]
fn two_writers_seen_in_two_orders_which_no_snapshot_explains() {
    let history: [&[Operation]; 4] =
        [&[append(1, 1)], &[append(2, 2)], &[read(1, &[1]), read(2, &[])], &[read(1, &[]), read(2, &[2])]];
    assert!(found(&history).contains(&Anomaly::NonadjacentAntidependencies));
}

#[test]
fn write_skew_and_nothing_that_snapshots_forbid() {
    let history: [&[Operation]; 3] =
        [&[read(1, &[]), append(2, 2)], &[read(2, &[]), append(1, 1)], &[read(1, &[1]), read(2, &[2])]];
    assert_eq!(found(&history), [Anomaly::WriteSkew]);
}

#[test]
fn a_record_is_written_as_elle_reads_it() {
    let operations = vec![append(1, 2), read(1, &[1, 2])];
    let history =
        History { transactions: vec![Transaction { process: 3, operations, ending: Ending::Committed }] };
    let line = "{:index 0, :type :ok, :process 3, :f :txn, :value [[:append 1 2][:r 1 [1, 2]]]}\n";
    assert_eq!(history.to_edn(), line);
}
