// SPDX-License-Identifier: Apache-2.0
//! Anomalies by name, and the examples of the papers.

use std::time::Instant;

use super::super::SsiRule;
use super::history::{Items, bits};
use super::pipeline::{Ending, Event, Pipeline, Role, Setup, Spec, Style, Violation};
use crate::Version;
use Event::{Begin, Close, Commit};

const PUBLISH: Event = Event::Publish { lag: 0 };

fn spec(reads: Items, writes: Items) -> Spec {
    let role = if writes == 0 { Role::Reader } else { Role::Serializable };
    Spec { reads, late_reads: 0, writes, role, is_old: false, style: Style::Keys }
}

/// Runs a history of which each commit is a batch of its own.
fn endings(specs: &[Spec], events: &[Event]) -> (Vec<Ending>, Option<Violation>) {
    let setup = Setup::new(8);
    let each = events.iter().flat_map(|event| match event {
        Commit(_) => vec![*event, Close, PUBLISH],
        _ => vec![*event],
    });
    let pipeline = Pipeline::run(&setup, specs, &each.collect::<Vec<_>>(), Instant::now());
    (pipeline.endings().collect(), pipeline.violation())
}

fn refusals(specs: &[Spec], events: &[Event]) -> Vec<(usize, SsiRule)> {
    let (endings, violation) = endings(specs, events);
    assert_eq!(violation, None);
    let refused = endings.iter().enumerate().filter_map(|(index, ending)| match ending {
        Ending::Refused(rule) => Some((index, *rule)),
        _ => None,
    });
    refused.collect()
}

#[test]
fn write_skew_is_refused_at_the_second_commit() {
    let doctors = [spec(0b11, 0b01), spec(0b11, 0b10)];
    let events = [Begin(0), Begin(1), Commit(0), Commit(1)];
    assert_eq!(refusals(&doctors, &events), [(1, SsiRule::Pivot)]);
    let one_after_the_other = [Begin(0), Commit(0), Begin(1), Commit(1)];
    assert_eq!(refusals(&doctors, &one_after_the_other), []);
}

#[test]
fn write_skew_through_a_range_is_refused() {
    // Each counts the entries of a range and adds one that was not there: 0b01 and 0b10 are in the range.
    let phantoms = [spec(0b11, 0b01), spec(0b11, 0b10)].map(|spec| Spec { style: Style::Ranges, ..spec });
    assert_eq!(refusals(&phantoms, &[Begin(0), Begin(1), Commit(0), Commit(1)]), [(1, SsiRule::Pivot)]);
}

#[test]
fn one_antidependency_alone_refuses_nobody() {
    let chain = [spec(0b0010, 0b0001), spec(0b0100, 0b0010), spec(0b1000, 0b0100)];
    let events = [Begin(0), Begin(1), Begin(2), Commit(0), Commit(1), Commit(2)];
    assert_eq!(refusals(&chain, &events), [], "each is overwritten by nobody who committed before");
}

#[test]
fn two_antidependencies_in_a_row_refuse_the_source_if_the_last_committed_first() {
    let chain = [spec(0b001, 0b1000), spec(0b010, 0b001), spec(0b100, 0b010)];
    let begin = [Begin(0), Begin(1), Begin(2)];
    let events = [begin.as_slice(), &[Commit(2), Commit(1), Commit(0)]].concat();
    assert_eq!(refusals(&chain, &events), [(0, SsiRule::Source)]);
    let events = [begin.as_slice(), &[Commit(1), Commit(2), Commit(0)]].concat();
    assert_eq!(refusals(&chain, &events), [], "the last committed second: no cycle can close");
}

#[test]
fn the_read_only_anomaly_is_refused_whoever_commits_last() {
    // Fekete, O'Neil, O'Neil 2004: x and y are accounts. 0 withdraws from x and sees both, 1 deposits to y,
    // 2 reports both after the deposit and before the withdrawal.
    let bank = [spec(0b11, 0b01), spec(0b10, 0b10), spec(0b11, 0)];
    let reported_first = [Begin(0), Begin(1), Commit(1), Begin(2), Commit(2), Commit(0)];
    assert_eq!(refusals(&bank, &reported_first), [(0, SsiRule::PivotOfReader)]);
    let withdrawn_first = [Begin(0), Begin(1), Commit(1), Begin(2), Commit(0), Commit(2)];
    assert_eq!(refusals(&bank, &withdrawn_first), [(2, SsiRule::ReadingSource)]);
    let reported_before = [Begin(0), Begin(1), Begin(2), Commit(1), Commit(0), Commit(2)];
    assert_eq!(refusals(&bank, &reported_before), [], "a report from before both is harmless");
    // The same with the report on a safe snapshot: nobody is refused, and the history with safe readers at
    // every boundary is serializable.
    let without_report = [Begin(0), Begin(1), Commit(1), Commit(0)];
    assert_eq!(refusals(&bank[..2], &without_report), []);
}

#[test]
fn the_receipt_of_a_closed_batch_is_refused_only_if_the_report_has_been_read() {
    // Ports and Grittner 2012: item 0 is the number of the open batch, item 1 the receipts of batch 7.
    // 0 enters a receipt for the open batch, 1 closes it, 2 reports the receipts of the last closed batch.
    let desk = [spec(0b01, 0b10), spec(0b01, 0b01), spec(0b11, 0)];
    let reported = [Begin(0), Begin(1), Commit(1), Begin(2), Commit(2), Commit(0)];
    assert_eq!(refusals(&desk, &reported), [(0, SsiRule::PivotOfReader)]);
    assert_eq!(refusals(&desk[..2], &[Begin(0), Begin(1), Commit(1), Commit(0)]), []);
}

/// Shioi et al., Figure 2: 0, 1, 2 and 5 are clear when 7 is the oldest that is active, 3, 4 and 6 are not.
/// The paper's T1 to T8 are 0 to 7.
#[test]
fn the_papers_second_figure_has_the_members_it_shows() {
    let specs = [
        spec(0b0000_0000, 0b0000_0001),
        spec(0b0000_0001, 0b0000_0010),
        spec(0b0000_0010, 0b0000_0100),
        // T4 read what T3 overwrote: obscure, and a member.
        spec(0b0000_0100, 0b0000_1000),
        // T5 has an edge to nobody clear: obscure, and no member.
        spec(0b0100_0000, 0b0001_0000),
        spec(0b0000_0000, 0b0010_0000),
        // T7 read what T8 is about to overwrite.
        spec(0b1000_0000, 0b0100_0000),
        spec(0b0000_0000, 0b1000_0000),
    ];
    let serializable = specs.map(|spec| Spec { role: Role::Serializable, ..spec });
    let setup = Setup::new(8);
    let step = |index| [Commit(index), Close, PUBLISH];
    let events = [
        [Begin(0)].as_slice(),
        &step(0),
        &[Begin(1)],
        &step(1),
        &[Begin(3), Begin(2)],
        &step(2),
        &[Begin(5)],
        &step(5),
        &[Begin(4), Begin(6), Begin(7)],
        &step(3),
        &step(6),
        &step(4),
    ]
    .concat();
    let pipeline = Pipeline::run(&setup, &serializable, &events, Instant::now());
    assert_eq!(pipeline.violation(), None);
    let (boundary, held) = *pipeline.handed_out().last().expect("the boundary has moved");
    assert_eq!(boundary, Version::new(4), "the world that T5, T7 and T8 began with");
    assert_eq!(bits(held).collect::<Vec<_>>(), [0, 1, 2, 3, 5], "T1, T2, T3, T6 are clear, T4 points to T3");
}

#[test]
fn an_early_member_of_a_batch_counts_as_committed_before_a_later_one() {
    let setup = Setup::new(8);
    // 0 and 1 commit in one batch, 0 first, and 0 reads what 1 writes; 2 is concurrent with both, read what 0
    // writes, and writes what 1 read. So 2 -> 0 -> 1 -> 2.
    let specs = [spec(0b010, 0b001), spec(0b100, 0b010), spec(0b001, 0b100)];
    let events =
        [Begin(0), Begin(1), Begin(2), Commit(0), Commit(1), Close, PUBLISH, Commit(2), Close, PUBLISH];
    let pipeline = Pipeline::run(&setup, &specs, &events, Instant::now());
    assert_eq!(pipeline.violation(), None);
    assert_eq!(pipeline.endings().nth(2), Some(Ending::Refused(SsiRule::Pivot)));
}
