// SPDX-License-Identifier: Apache-2.0
//! Tests of the module above.

use super::*;
use coeval_txn::cluster::{HolderBody, HolderSays, KeeperPlace, KeeperTerm, ViewChange, WholeView};
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::time::Duration;

fn member(life: u64) -> Member {
    Member { node: NodeId::new(2), incarnation: Incarnation::new(life) }
}

/// What a thread on this directory answers to a keeper that asks. Its node's log has begun in this life.
fn asked(directory: &Path, life: u64, term: u64) -> HolderSays {
    asked_since(directory, (life, life), term)
}

/// The same of a node whose log has begun in the second one of these lives.
fn asked_since(directory: &Path, (life, first): (u64, u64), term: u64) -> HolderSays {
    let (given, taken) = channel();
    let give = Box::new(move |outgoing| given.send(outgoing).unwrap());
    let (node, first) = (member(life), Incarnation::new(first));
    let holding = Holding::start(node, first, directory, KeeperLink::default(), give).unwrap();
    let keeper = KeeperPlace { term: KeeperTerm::new(term, 0), node: NodeId::new(1) };
    holding.put(HoldingInput::Said(KeeperSays::Ask(keeper)));
    let Outgoing::Send(node, frame) = taken.recv_timeout(Duration::from_secs(20)).unwrap() else {
        panic!("nothing is settled newly")
    };
    assert_eq!(node, keeper.node);
    let Frame::Holder(said) = *frame else { panic!("it answers") };
    said
}

/// To break it: have `State::take` answer before `write_held`, and lose what is written then; or leave out `Since`.
#[test]
fn what_is_promised_stays_so_and_the_log_says_since_when() {
    let directory = tempfile::tempdir().unwrap();
    let first = asked(directory.path(), 5, 3);
    assert_eq!(first.log_since, Incarnation::new(5));
    assert!(matches!(first.body, HolderBody::Has { .. }));
    let second = asked(directory.path(), 6, 2);
    assert_eq!(second.log_since, Incarnation::new(5));
    assert_eq!(second.body, HolderBody::Newer(KeeperTerm::new(3, 0)));
    let lost = tempfile::tempdir().unwrap();
    assert_eq!(asked(lost.path(), 7, 2).log_since, Incarnation::new(7));
}

/// To break it: have `ViewHolder::fold` do nothing, or `State::write_held` not look how long the log is.
#[test]
fn ten_thousand_views_leave_a_small_log() {
    let directory = tempfile::tempdir().unwrap();
    let keeper = KeeperPlace { term: KeeperTerm::new(1, 0), node: NodeId::new(1) };
    let (_, first) = ViewKeeper::found(&[member(1)], 2);
    let begins = ViewChange::Keeper(keeper);
    let mut records = vec![first.clone(), ViewRecord { number: first.number.next(), change: begins }];
    for view in 0..10_000_u32 {
        let address = Arc::from(format!("db{view:0>200}:7001"));
        let number = records.last().unwrap().number.next();
        let node = NodeId::new(1 + view % 5);
        records.push(ViewRecord { number, change: ViewChange::Known { node, address, start: None } });
    }
    let (given, taken) = channel();
    let give = Box::new(move |outgoing| drop(given.send(outgoing)));
    let (node, first) = (member(1), Incarnation::new(1));
    let holding = Holding::start(node, first, directory.path(), KeeperLink::default(), give).unwrap();
    let mut after = ViewNumber::default();
    for part in records.chunks(16) {
        let settled = part.last().unwrap().number;
        let (records, recoveries) = (part.to_vec(), BTreeMap::new());
        let said = KeeperSays::Hold { keeper, after, recoveries, records, settled };
        // The queue takes so many, and no more than the thread can do.
        holding.inputs.as_ref().unwrap().send(HoldingInput::Said(said)).unwrap();
        after = settled;
    }
    drop(holding);
    let followed = taken.try_iter().filter(|outgoing| matches!(outgoing, Outgoing::Follow(_))).count();
    assert!(followed > 100);
    let bytes = std::fs::metadata(directory.path().join(LOG_NAME)).unwrap().len();
    assert!(bytes < 1 << 20, "{bytes} bytes");
    let said = asked(directory.path(), 8, 2);
    assert_eq!(said.log_since, Incarnation::new(1));
    let HolderBody::Has { settled, records: held, .. } = said.body else { panic!("it answers") };
    assert_eq!(settled, after);
    assert!(held.len() < 5_000, "{}", held.len());
    assert_eq!(WholeView::of(&held), WholeView::of(&records));
}

/// To break it: have `start` begin the log in the present life. All nodes of a cluster that is older than this log would seem to have lost
/// their disks then, and no keeper could have its first record held by enough of them.
#[test]
fn a_node_that_is_older_than_this_log_has_lost_nothing() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(asked_since(directory.path(), (8, 3), 2).log_since, Incarnation::new(3));
    assert_eq!(asked_since(directory.path(), (9, 9), 3).log_since, Incarnation::new(3));
}

/// To break it: do not look for the former log: the keeper of an older cluster finds none of its records then. Or leave it where it is.
#[test]
fn the_log_of_a_former_keeper_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let (_, first) = ViewKeeper::found(&[member(1)], 2);
    let (mut log, _) = LogFile::open(&directory.path().join(FORMER_LOG_NAME), Durability::Synced).unwrap();
    let mut batch = Batch::new();
    batch.push(&encode(&first));
    log.write(batch).unwrap();
    drop(log);
    for life in [8, 9] {
        let said = asked(directory.path(), life, life);
        assert_eq!(said.log_since, Incarnation::default());
        let HolderBody::Has { settled, records, .. } = said.body else { panic!("it has promised nothing") };
        assert_eq!((settled, records), (ViewNumber::new(1), vec![first.clone()]));
    }
    std::fs::remove_file(directory.path().join(LOG_NAME)).unwrap();
    assert_eq!(asked(directory.path(), 10, 10).log_since, Incarnation::new(10), "it is not taken over twice");
}

/// To break it: have `State::take` write what was followed with what is held next. A keeper that begins without lost nodes does not hear of it
/// then from a node that has been started again, and gives up what that has acknowledged.
#[test]
fn what_a_node_has_followed_it_still_has_when_it_starts_again() {
    let directory = tempfile::tempdir().unwrap();
    let (node, first) = (member(4), Incarnation::new(4));
    let (_, founded) = ViewKeeper::found(&[node], 2);
    let change = ViewChange::Known { node: node.node, address: Arc::from("db2:7001"), start: None };
    let records = vec![founded.clone(), ViewRecord { number: founded.number.next(), change }];
    let (given, _taken) = channel();
    let give = Box::new(move |outgoing| drop(given.send(outgoing)));
    let holding = Holding::start(node, first, directory.path(), KeeperLink::default(), give).unwrap();
    holding.put(HoldingInput::Followed(records.clone()));
    drop(holding);
    let HolderBody::Has { settled, records: held, .. } = asked(directory.path(), 5, 1).body else {
        panic!("it has promised nothing")
    };
    assert_eq!((settled, held), (ViewNumber::new(2), records));
}
