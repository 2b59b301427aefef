// SPDX-License-Identifier: Apache-2.0
//! Rows and a load that are one transaction, on the primary.

use crate::fake::{Ages, NextCommit, Node, Shared};
use crate::{BOTH, FACTS, LOAD, Nodes, count, refused, refused_with_hint, rows};
use coeval_sql::{Acknowledgement, Engine, SqlState};
use coeval_store::{Store, StoreOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Break: leave `name_load` out of `commit_block`; decide in it; or have `SpreadPart::fail` roll nothing back.
#[test]
fn rows_and_loads_of_the_primary_are_one_transaction() {
    let nodes = Nodes::with_ages(Ages::Named);
    nodes.note_age();
    let mut session = nodes.session(0);
    let both = || rows(&mut nodes.session(0), BOTH);
    for (day, level) in (1..).zip(["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"]) {
        let insert = format!("INSERT INTO done VALUES ({day})");
        session.execute(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
        let [first, second] = if day == 2 { [LOAD, &*insert] } else { [&*insert, LOAD] };
        session.execute(first).unwrap();
        session.execute(second).unwrap();
        assert_eq!(both(), [format!("{0} {0}", day - 1)], "{level}");
        session.execute("COMMIT").unwrap();
        assert_eq!(both(), [format!("{day} {day}")], "{level}");
    }
    session.execute(&format!("BEGIN; INSERT INTO done VALUES (4); {LOAD}; ROLLBACK")).unwrap();
    assert_eq!(both(), ["3 3"]);

    // The rows are refused.
    let reads = "BEGIN; SELECT * FROM done WHERE day = 1";
    session.execute(&format!("{reads}; INSERT INTO done VALUES (4); {LOAD}")).unwrap();
    nodes.session(0).execute("DELETE FROM done WHERE day = 1").unwrap();
    refused_with_hint(&mut session, "COMMIT", SqlState::SerializationFailure);
    assert_eq!(both(), ["3 2"]);
    // So is the load.
    nodes.shared.set_next(NextCommit::RolledBack);
    session.execute(&format!("BEGIN; INSERT INTO done VALUES (4); {LOAD}")).unwrap();
    refused(&mut session, "COMMIT", SqlState::SerializationFailure);
    assert_eq!(both(), ["3 2"]);

    // What was read is one with what is loaded.
    assert_eq!(count(&mut session, "INSERT INTO facts SELECT day, 'a', day, 'x' FROM done"), 2);
    assert_eq!(both(), ["5 2"]);
    drop(session);
    nodes.assert_nothing_is_open();
}

/// Rows are published a moment before their load is decided.
///
/// Break: have `Shown::beside_rows` wait for nothing.
#[test]
fn below_serializable_rows_are_not_seen_without_the_load_that_they_are_one_with() {
    let nodes = Nodes::with_ages(Ages::Named);
    nodes.note_age();
    for (day, level) in (1..).zip(["REPEATABLE READ", "READ COMMITTED"]) {
        nodes.shared.hold_decisions();
        let engine = Arc::clone(&nodes.engines[0]);
        let write = format!("BEGIN; INSERT INTO done VALUES ({day}); {LOAD}; COMMIT");
        let writing = std::thread::spawn(move || engine.session().execute(&write).map(drop));
        let begun = Instant::now();
        while nodes.engines[0].store().world().brick_age().unwrap() <= Some(nodes.shared.newest_age()) {
            assert!(begun.elapsed() < Duration::from_secs(30), "{level}: the rows are not published");
            std::thread::sleep(Duration::from_millis(1));
        }
        let engine = Arc::clone(&nodes.engines[0]);
        let reading = std::thread::spawn(move || {
            let mut session = engine.session();
            session.execute(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
            rows(&mut session, BOTH)
        });
        std::thread::sleep(Duration::from_millis(50));
        nodes.shared.go_on_deciding();
        writing.join().unwrap().unwrap();
        assert_eq!(reading.join().unwrap(), [format!("{day} {day}")], "{level}");
    }
    nodes.assert_nothing_is_open();
}

/// What the commit of its rows has lost to may wait for replicas. Whatever was loaded behind it does not.
///
/// Break: leave `SpreadPart::fail` out of what `commit_block` does with a refusal.
#[test]
fn a_load_whose_rows_are_refused_is_gone_before_anything_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::new(Store::open(dir.path(), StoreOptions::default()).unwrap()).unwrap();
    let shared = Arc::new(Shared::default());
    engine.set_cluster(Node::with_ages(&shared, Ages::Named));
    let (mut session, mut other) = (engine.session(), engine.session());
    session.execute(FACTS).unwrap();
    session.execute("CREATE TABLE done (day int PRIMARY KEY); INSERT INTO done VALUES (1)").unwrap();
    engine.store().note_brick_age(shared.newest_age()).unwrap();
    session.execute(&format!("BEGIN; SELECT * FROM done; INSERT INTO done VALUES (2); {LOAD}")).unwrap();
    other.set_acknowledgement(Acknowledgement::LeftToCaller);
    other.execute("SET synchronous_standby_names = 'nobody'").unwrap();
    other.execute("DELETE FROM done WHERE day = 1").unwrap();
    assert!(other.publication().is_some() && shared.open() > 0);
    let committing = std::thread::spawn(move || session.execute("COMMIT").map(drop));
    let begun = Instant::now();
    while shared.open() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "the load stays open");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(!committing.is_finished());
    other.execute("SET synchronous_standby_names = ''").unwrap();
    assert_eq!(committing.join().unwrap().unwrap_err().state, SqlState::SerializationFailure);
}

/// Break: take one condition out of `SpreadPart::is_spanning_load` or `has_read_what_may_change`.
#[test]
fn what_rows_and_a_load_cannot_do_in_one_transaction_is_refused() {
    let nodes = Nodes::with_ages(Ages::Named);
    nodes.note_age();
    let mut session = nodes.session(0);
    let insert = "INSERT INTO done VALUES (1)";
    let blocks: &[(&str, &[&str], &str)] = &[
        ("REPEATABLE READ", &[insert, LOAD], "SELECT count(*) FROM facts"),
        ("REPEATABLE READ", &[insert, LOAD], "SAVEPOINT s"),
        ("SERIALIZABLE", &["SELECT count(*) FROM facts"], LOAD),
        ("SERIALIZABLE", &["SELECT count(*) FROM facts"], insert),
        ("SERIALIZABLE", &[insert, LOAD], "DELETE FROM facts"),
    ];
    for (level, before, last) in blocks {
        session.execute(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
        for statement in *before {
            session.execute(statement).unwrap();
        }
        refused_with_hint(&mut session, last, SqlState::FeatureNotSupported);
        session.execute("ROLLBACK").unwrap();
    }
    assert_eq!(rows(&mut session, BOTH), ["0 0"]);
}
