// SPDX-License-Identifier: Apache-2.0
//! `coeval.priority`: what a transaction accessed that has lost is reserved for its session's next one.

use crate::script::{CONFLICT, Expected, Step, THEN, run};
use Expected::{Done, Rows, Tag, Waits};

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
fn a_session_that_gives_its_priority_up_gives_up_what_is_reserved() {
    lost(&[
        ("o", "UPDATE account SET balance = balance + 1 WHERE id = 1", Waits),
        ("p", "SET coeval.priority = off", Done),
        ("p", "SELECT count(*) FROM account", Rows(&["3"])),
        ("o", THEN, Tag("UPDATE 1")),
    ]);
}
