// SPDX-License-Identifier: Apache-2.0
//! `coeval.priority`: what a transaction accessed that has lost is reserved for its session's next one.

use crate::script::{CONFLICT, Expected, Step, THEN, run};
use Expected::{Done, Rows, Tag, Waits};
use coeval_sql::Engine;
use coeval_store::{Store, StoreOptions};

const SERIALIZABLE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";
const REPEATABLE_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";

const SETUP: &[&str] = &[
    "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)",
    "INSERT INTO account VALUES (1, 0), (2, 0), (3, 0)",
];

/// `p` loses its update of row 1 against `o`.
const LOST: [Step; 6] = [
    ("p", "SET coeval.priority = on", Done),
    ("p", REPEATABLE_READ, Done),
    ("p", "SELECT balance FROM account WHERE id = 1", Rows(&["0"])),
    ("o", "UPDATE account SET balance = balance + 1 WHERE id = 1", Tag("UPDATE 1")),
    ("p", "UPDATE account SET balance = balance + 10 WHERE id = 1", Tag("UPDATE 1")),
    ("p", "COMMIT", CONFLICT),
];

fn lost(rest: &[Step]) {
    run(SETUP, &[&LOST, rest].concat());
}

#[test]
fn others_wait_until_the_next_attempt_has_committed() {
    for begin in [REPEATABLE_READ, SERIALIZABLE] {
        lost(&[
            ("o", "UPDATE account SET balance = balance + 1 WHERE id = 1", Waits),
            ("p", begin, Done),
            ("p", "UPDATE account SET balance = balance + 10 WHERE id = 1", Tag("UPDATE 1")),
            ("p", "COMMIT", Done),
            ("o", THEN, Tag("UPDATE 1")),
            ("o", "SELECT balance FROM account WHERE id = 1", Rows(&["12"])),
            (
                "o",
                "SELECT reason, key, winner_statement IS NULL FROM coeval_conflicts ORDER BY reason DESC",
                Rows(&["write (id)=(1) false", "reserved (id)=(1) true"]),
            ),
        ]);
    }
}

#[test]
fn other_rows_are_free_and_readers_do_not_notice() {
    lost(&[
        ("o", "UPDATE account SET balance = 5 WHERE id = 2", Tag("UPDATE 1")),
        ("o", "SELECT balance FROM account ORDER BY id", Rows(&["1", "5", "0"])),
        ("p", "UPDATE account SET balance = balance + 10 WHERE id = 1", Tag("UPDATE 1")),
        ("o", "UPDATE account SET balance = balance + 1 WHERE id = 1", Tag("UPDATE 1")),
    ]);
}

/// A role that could only read a table kept everybody from writing it, five seconds for each transaction that it let lose.
#[test]
fn what_a_role_may_only_read_is_not_reserved_for_it() {
    let rights = [
        "CREATE ROLE reader",
        "GRANT SELECT ON account TO reader",
        "CREATE TABLE own (id int PRIMARY KEY, n int NOT NULL)",
        "INSERT INTO own VALUES (1, 0)",
        "GRANT SELECT, UPDATE ON own TO reader",
    ];
    run(
        &[SETUP, &rights[..]].concat(),
        &[
            ("p", "SET SESSION AUTHORIZATION reader", Done),
            ("p", "SET coeval.priority = on", Done),
            ("p", SERIALIZABLE, Done),
            ("p", "SELECT count(*) FROM account", Rows(&["3"])),
            ("o", SERIALIZABLE, Done),
            ("o", "SELECT n FROM own", Rows(&["0"])),
            ("o", "UPDATE account SET balance = 7 WHERE id = 3", Tag("UPDATE 1")),
            ("p", "UPDATE own SET n = n + 10", Tag("UPDATE 1")),
            ("o", "COMMIT", Done),
            ("p", "COMMIT", CONFLICT),
            ("o", "UPDATE account SET balance = 8 WHERE id = 3", Tag("UPDATE 1")),
            // What it may change is reserved, read or changed.
            ("o", "UPDATE own SET n = n + 1", Waits),
            ("p", "UPDATE own SET n = n + 10", Tag("UPDATE 1")),
            ("o", THEN, Tag("UPDATE 1")),
        ],
    );
}

/// What it read is reserved as well: nothing it depends on changes before it commits.
#[test]
fn at_serializable_what_it_read_is_reserved_too() {
    run(
        SETUP,
        &[
            ("p", "SET coeval.priority = on", Done),
            ("p", SERIALIZABLE, Done),
            ("p", "SELECT balance FROM account WHERE id = 2", Rows(&["0"])),
            ("o", SERIALIZABLE, Done),
            ("o", "SELECT balance FROM account WHERE id = 1", Rows(&["0"])),
            ("o", "UPDATE account SET balance = 1 WHERE id = 2", Tag("UPDATE 1")),
            ("p", "UPDATE account SET balance = 1 WHERE id = 1", Tag("UPDATE 1")),
            ("o", "COMMIT", Done),
            ("p", "COMMIT", CONFLICT),
            ("o", "UPDATE account SET balance = 2 WHERE id = 2", Waits),
            ("p", SERIALIZABLE, Done),
            ("p", "SELECT balance FROM account WHERE id = 2", Rows(&["1"])),
            ("p", "UPDATE account SET balance = 1 WHERE id = 1", Tag("UPDATE 1")),
            ("p", "COMMIT", Done),
            ("o", THEN, Tag("UPDATE 1")),
        ],
    );
}

/// One that has lost at a statement, too.
#[test]
fn a_statement_that_is_overtaken_reserves_what_was_read() {
    run(
        SETUP,
        &[
            ("p", "SET coeval.priority = on", Done),
            ("p", SERIALIZABLE, Done),
            ("p", "SELECT balance FROM account WHERE id = 1", Rows(&["0"])),
            ("p", "UPDATE account SET balance = 1 WHERE id = 3", Tag("UPDATE 1")),
            ("o", "UPDATE account SET balance = balance + 1 WHERE id = 1", Tag("UPDATE 1")),
            ("p", "UPDATE account SET balance = balance + 10 WHERE id = 1", CONFLICT),
            ("p", "ROLLBACK", Done),
            ("o", "UPDATE account SET balance = balance + 1 WHERE id = 1", Waits),
            ("p", SERIALIZABLE, Done),
            ("p", "SELECT balance FROM account WHERE id = 1", Rows(&["1"])),
            ("p", "UPDATE account SET balance = balance + 10 WHERE id = 1", Tag("UPDATE 1")),
            ("p", "COMMIT", Done),
            ("o", THEN, Tag("UPDATE 1")),
            ("o", "SELECT balance FROM account WHERE id = 1", Rows(&["12"])),
        ],
    );
}

#[test]
fn a_wait_for_one_with_priority_ends_with_the_lock_timeout() {
    lost(&[
        ("o", "SET lock_timeout = '50ms'", Done),
        ("o", "UPDATE account SET balance = balance + 1 WHERE id = 1", Expected::Fails("55P03")),
        ("o", SERIALIZABLE, Done),
        ("o", "UPDATE account SET balance = balance + 1 WHERE id = 1", Tag("UPDATE 1")),
        ("o", "COMMIT", Expected::Fails("55P03")),
        ("p", "UPDATE account SET balance = balance + 10 WHERE id = 1", Tag("UPDATE 1")),
        ("o", "SELECT balance FROM account WHERE id = 1", Rows(&["11"])),
    ]);
}

#[test]
fn a_wait_for_one_with_priority_can_be_cancelled() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let (mut priority, mut other) = (engine.session(), engine.session());
    SETUP.iter().for_each(|sql| drop(other.execute(sql).unwrap()));
    for (name, sql, expected) in &LOST {
        let session = if *name == "p" { &mut priority } else { &mut other };
        let state = session.execute(sql).err().map(|error| error.state.code());
        assert_eq!(state.is_some(), matches!(expected, Expected::Fails(_)), "{sql}: {state:?}");
    }
    let cancel = other.cancel_handle();
    let waits = std::thread::spawn(move || other.execute("UPDATE account SET balance = 7 WHERE id = 1"));
    while engine.store().waiting_for_reservations() == 0 {
        std::thread::yield_now();
    }
    cancel.cancel();
    let error = waits.join().unwrap().unwrap_err();
    assert_eq!(
        (error.state.code(), error.message.as_str()),
        ("57014", "canceling statement due to user request")
    );
    assert_eq!(engine.store().waiting_for_reservations(), 0);
    priority.execute("UPDATE account SET balance = 3 WHERE id = 1").unwrap();
}

#[test]
fn a_session_that_gives_its_priority_up_gives_up_what_is_reserved() {
    lost(&[
        ("o", "UPDATE account SET balance = balance + 1 WHERE id = 1", Waits),
        ("p", "SET coeval.priority = off", Done),
        ("p", "SELECT count(*) FROM account", Rows(&["3"])),
        ("o", THEN, Tag("UPDATE 1")),
    ]);
}
