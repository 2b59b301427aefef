// SPDX-License-Identifier: Apache-2.0
//! Codes of texts: the same on all nodes, whoever dies.

use crate::nodes::{Cluster, wait_until};
use coeval_cluster::{Code, CodesError, DictionaryError, DictionaryId, Founding, Purpose};
use std::sync::Arc;

/// A dictionary of all nodes, and how many codes it may have.
pub(crate) const CITY: (DictionaryId, u32) = (DictionaryId { table: 1, column: 2 }, 20);

fn ask(cluster: &Cluster, number: u32, purpose: Purpose, texts: &[&str]) -> Vec<Option<Code>> {
    let texts: Vec<Arc<str>> = texts.iter().map(|text| Arc::from(*text)).collect();
    cluster.runtime.block_on(cluster.node(number).codes(CITY.0, purpose, &texts)).unwrap()
}

fn codes(numbers: impl IntoIterator<Item = u32>) -> Vec<Option<Code>> {
    numbers.into_iter().map(|number| Some(Code::new(number))).collect()
}

/// Messages about dictionaries that nodes have sent to others.
pub(crate) fn sent(cluster: &Cluster) -> u64 {
    let statuses = cluster.running().into_iter().filter_map(|node| node.status());
    let sent = statuses.map(|status| {
        let named = status.messages.named().find(|(name, _)| *name == "dictionary");
        named.map_or(0, |(_, counts)| counts.sent)
    });
    sent.sum()
}

#[test]
fn all_nodes_give_the_same_codes_and_known_ones_cost_no_message() {
    let cluster = Cluster::start_patient(3, 2);
    assert_eq!(ask(&cluster, 1, Purpose::Give, &["Bonn", "Oslo"]), codes([0, 1]));
    assert_eq!(ask(&cluster, 2, Purpose::Give, &["Rome", "Oslo", "Bonn"]), codes([2, 1, 0]));
    assert_eq!(ask(&cluster, 3, Purpose::Find, &["Rome", "Lima"]), [Some(Code::new(2)), None]);
    assert!(sent(&cluster) > 0);
    // What is on its way at first, however slow the machine is, has arrived at last.
    wait_until("known ones cost no message", || {
        let before = sent(&cluster);
        for _ in 0..100 {
            assert_eq!(ask(&cluster, 2, Purpose::Give, &["Bonn", "Oslo", "Rome"]), codes([0, 1, 2]));
        }
        sent(&cluster) == before
    });
}

#[test]
fn codes_survive_a_crash_of_all() {
    let mut cluster = Cluster::start(3, 2);
    let mut texts: Vec<String> = Vec::new();
    for round in 0..3 {
        texts.push(format!("city {round}"));
        let all: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(ask(&cluster, round + 1, Purpose::Give, &all), codes(0..=round));
        (1..=3).for_each(|number| cluster.crash(number));
        (1..=3).for_each(|number| cluster.begin(number));
        cluster.start_keeper(Founding::GoOn);
        cluster.settle();
        for number in 1..=3 {
            assert_eq!(ask(&cluster, number, Purpose::Find, &all), codes(0..=round));
        }
    }
}

/// Nodes lose their disks in turn: who comes back has the codes of the dictionaries that it is a holder of, and learns others.
#[test]
fn codes_move_with_their_place() {
    let mut cluster = Cluster::start(3, 2);
    assert_eq!(ask(&cluster, 1, Purpose::Give, &["Bonn", "Oslo"]), codes([0, 1]));
    for number in [2, 3, 2] {
        cluster.crash(number);
        cluster.goes_on_with(2);
        cluster.lose_disk(number);
        cluster.begin(number);
        cluster.settle();
        assert_eq!(ask(&cluster, number, Purpose::Find, &["Bonn", "Oslo"]), codes([0, 1]));
    }
    assert_eq!(ask(&cluster, 3, Purpose::Give, &["Rome"]), codes([2]));
}

#[test]
fn what_cannot_have_a_code_is_said_so() {
    let cluster = Cluster::start_patient(2, 2);
    let texts: Vec<String> = (0..=CITY.1).map(|number| format!("city {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let given = ask(&cluster, 1, Purpose::Give, &texts);
    assert_eq!(given.iter().flatten().count(), CITY.1 as usize, "it is full");

    let long: Arc<str> = Arc::from("x".repeat(5_000));
    let refused = cluster.runtime.block_on(cluster.node(1).codes(CITY.0, Purpose::Give, &[long]));
    let why = DictionaryError::TextTooLong { bytes: 5_000, max: 4_096 };
    assert_eq!(refused, Err(CodesError::Dictionary(why)));
    let other = DictionaryId { table: 9, column: 0 };
    let refused = cluster.runtime.block_on(cluster.node(1).codes(other, Purpose::Give, &[]));
    assert_eq!(refused, Ok(Vec::new()), "nobody is asked for nothing");
    let refused = cluster.runtime.block_on(cluster.node(1).codes(other, Purpose::Give, &[Arc::from("a")]));
    assert_eq!(refused, Err(CodesError::Dictionary(DictionaryError::NotDeclared(other))));
}
