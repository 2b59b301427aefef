// SPDX-License-Identifier: Apache-2.0
//! Changes of many rows by a range of keys: they end when they are told to, and what they keep is counted.

use super::{code, run};
use crate::engine::Engine;
use crate::memory::{QUERY_MEMORY_MIN, QueryMemory};
use crate::session::Session;
use coeval_store::{Store, StoreOptions};

/// A session with `many(id, v, c)`, of so many rows, at a level at which no row is locked before it is changed: locks are looked at by
/// themselves.
fn with_many(rows: usize) -> Session {
    let memory = QueryMemory { bytes: Some(QUERY_MEMORY_MIN), ..QueryMemory::default() };
    let engine = Engine::with_memory(Store::in_memory(StoreOptions::default()), &memory).unwrap();
    let mut session = engine.session();
    run(&mut session, "SET default_transaction_isolation = 'repeatable read'").unwrap();
    run(&mut session, "CREATE TABLE many (id int PRIMARY KEY, v int, c text)").unwrap();
    // Not all at once: that would not be in the budget.
    for first in (1..rows).step_by(1_000) {
        let ids = format!("generate_series({first}, {}) s(i)", first + 999);
        run(&mut session, &format!("INSERT INTO many SELECT i, 1, repeat('x', 1000) FROM {ids}")).unwrap();
    }
    session
}

/// Whether it runs by keys.
fn is_by_keys(session: &mut Session, statement: &str) -> bool {
    run(session, &format!("EXPLAIN {statement}")).unwrap().starts_with("Point path")
}

#[test]
fn a_change_by_keys_ends_when_it_is_told_to() {
    let mut session = with_many(2_000);
    for statement in [
        // While it looks for rows, of which it finds none.
        "UPDATE many SET v = 2 WHERE id BETWEEN 1 AND 50000 AND v = 2",
        "DELETE FROM many WHERE id BETWEEN 1 AND 50000 AND v = 2",
        // Before it has looked at so many that it would ask: while it writes them.
        "UPDATE many SET v = 2 WHERE id BETWEEN 1 AND 10",
        "DELETE FROM many WHERE id BETWEEN 1 AND 10",
        "UPDATE many SET v = 2 WHERE id BETWEEN 1 AND 50000",
        "DELETE FROM many WHERE id BETWEEN 1 AND 50000",
    ] {
        assert!(is_by_keys(&mut session, statement), "{statement}");
        let prepared = session.prepare(statement).unwrap();
        // Whoever stops a session stops the statements to come: this one is told so before it begins.
        let handle = session.cancel_handle();
        handle.stop();
        let ended = session.run(&prepared, &[]).map(drop);
        assert_eq!(ended.map_err(|error| error.state.code()), Err("57014"), "{statement}");
        handle.go_on();
    }
    assert_eq!(run(&mut session, "SELECT count(*), sum(v) FROM many").unwrap(), "2000|2000");
}

#[test]
fn rows_that_an_update_by_keys_has_found_are_counted_until_they_are_written() {
    let mut session = with_many(20_000);
    let update = "UPDATE many SET v = v + 1 WHERE id BETWEEN 1 AND 50000";
    assert!(is_by_keys(&mut session, update));
    run(&mut session, "BEGIN").unwrap();
    let refused = session.execute(update).map(drop).unwrap_err();
    assert_eq!(refused.state.code(), "53200");
    let detail = refused.detail.unwrap_or_default();
    assert!(detail.contains("the rows that a statement changes"), "{detail}");
    run(&mut session, "ROLLBACK").unwrap();

    // What was kept has been given back: one that needs a part of it has room, as often as it is asked for.
    let smaller = "UPDATE many SET v = v + 1 WHERE id BETWEEN 1 AND 3000";
    for _ in 0..4 {
        assert_eq!(run(&mut session, smaller).unwrap(), "UPDATE 3000");
    }
    assert_eq!(code(&mut session, update), "53200");
}

#[test]
fn numbers_of_a_sequence_are_taken_once_for_each_row_however_many_there_are() {
    let mut session = with_many(3_000);
    run(&mut session, "CREATE SEQUENCE numbers").unwrap();
    let update = "UPDATE many SET v = nextval('numbers') WHERE id BETWEEN 1 AND 50000";
    assert!(is_by_keys(&mut session, update));
    assert_eq!(run(&mut session, update).unwrap(), "UPDATE 3000");
    assert_eq!(run(&mut session, "SELECT count(*) FROM many WHERE v = id").unwrap(), "3000");
}

#[test]
fn numbers_that_a_query_takes_are_taken_once_and_in_its_order() {
    let mut session = Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session();
    run(&mut session, "CREATE SEQUENCE numbers; CREATE SEQUENCE sorted; CREATE SEQUENCE joined").unwrap();
    run(&mut session, "CREATE TABLE many (id int PRIMARY KEY, v int)").unwrap();
    run(&mut session, "CREATE TABLE others (id int PRIMARY KEY)").unwrap();
    run(&mut session, "INSERT INTO many SELECT i, 1 FROM generate_series(1, 12000) s(i)").unwrap();
    run(&mut session, "INSERT INTO others SELECT id FROM many").unwrap();
    // So many rows are left to the general path.
    let all = "SELECT nextval('numbers') FROM many WHERE id BETWEEN 1 AND 50000";
    let selected = run(&mut session, all).unwrap();
    assert!(selected.starts_with("1 2 3 "), "{:?}", selected.get(..20));
    assert_eq!(run(&mut session, "SELECT nextval('numbers')").unwrap(), "12001");
    let sorted = "SELECT id, nextval('sorted') FROM many WHERE id BETWEEN 1 AND 3 ORDER BY v, id DESC";
    assert_eq!(run(&mut session, sorted).unwrap(), "3|1 2|2 1|3");

    let joined = "UPDATE many m SET v = nextval('joined') FROM others o WHERE m.id > 0 AND o.id = m.id";
    assert_eq!(run(&mut session, joined).unwrap(), "UPDATE 12000");
    assert_eq!(run(&mut session, "SELECT min(v), max(v) FROM many").unwrap(), "1|12000");
    run(&mut session, "CREATE SEQUENCE asked").unwrap();
    let asked = "DELETE FROM others WHERE id BETWEEN 1 AND 50000 AND nextval('asked') <= 1500";
    assert_eq!(run(&mut session, asked).unwrap(), "DELETE 1500");
}
