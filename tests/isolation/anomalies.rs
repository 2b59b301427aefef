// SPDX-License-Identifier: Apache-2.0
//! The classic anomalies at REPEATABLE READ: which are prevented, and the one that is allowed.

use crate::script::Expected::{Done, Rows, Tag, Waits};
use crate::script::{CONFLICT, THEN, run};

const ACCOUNTS: &[&str] = &[
    "CREATE TABLE account (id int PRIMARY KEY, balance int)",
    "INSERT INTO account VALUES (1, 100), (2, 100)",
];
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
const ALL: &str = "SELECT id, balance FROM account ORDER BY id";

#[test]
fn a_lost_update_is_prevented() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "SELECT balance FROM account WHERE id = 1", Rows(&["100"])),
            ("b", "SELECT balance FROM account WHERE id = 1", Rows(&["100"])),
            ("a", "UPDATE account SET balance = 110 WHERE id = 1", Tag("UPDATE 1")),
            ("b", "UPDATE account SET balance = 120 WHERE id = 1", Tag("UPDATE 1")),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
            ("b", ALL, Rows(&["1 110", "2 100"])),
        ],
    );
}

#[test]
fn a_lost_update_through_a_condition_on_another_column_is_prevented() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "UPDATE account SET balance = balance + 1 WHERE balance >= 100", Tag("UPDATE 2")),
            ("b", "DELETE FROM account WHERE balance = 100", Tag("DELETE 2")),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
            ("a", ALL, Rows(&["1 101", "2 101"])),
        ],
    );
}

#[test]
fn a_dirty_write_is_prevented() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "UPDATE account SET balance = 1", Tag("UPDATE 2")),
            ("b", "UPDATE account SET balance = 2", Tag("UPDATE 2")),
            ("b", "COMMIT", Done),
            ("a", "COMMIT", CONFLICT),
            ("a", ALL, Rows(&["1 2", "2 2"])),
        ],
    );
}

#[test]
fn a_dirty_read_is_prevented() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("a", "UPDATE account SET balance = 0 WHERE id = 1", Done),
            ("a", "INSERT INTO account VALUES (3, 300)", Done),
            ("b", ALL, Rows(&["1 100", "2 100"])),
            ("a", ALL, Rows(&["1 0", "2 100", "3 300"])),
            ("a", "ROLLBACK", Done),
            ("b", ALL, Rows(&["1 100", "2 100"])),
        ],
    );
}

#[test]
fn an_intermediate_value_is_never_seen() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("a", "UPDATE account SET balance = 0 WHERE id = 1", Done),
            ("b", BEGIN, Done),
            ("b", ALL, Rows(&["1 100", "2 100"])),
            ("a", "UPDATE account SET balance = 50 WHERE id = 1", Done),
            ("a", "COMMIT", Done),
            ("b", ALL, Rows(&["1 100", "2 100"])),
            ("b", "COMMIT", Done),
            ("b", ALL, Rows(&["1 50", "2 100"])),
        ],
    );
}

#[test]
fn a_non_repeatable_read_is_prevented() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("a", "SELECT balance FROM account WHERE id = 1", Rows(&["100"])),
            ("b", "UPDATE account SET balance = 0 WHERE id = 1", Tag("UPDATE 1")),
            ("b", "DELETE FROM account WHERE id = 2", Tag("DELETE 1")),
            ("a", "SELECT balance FROM account WHERE id = 1", Rows(&["100"])),
            ("a", ALL, Rows(&["1 100", "2 100"])),
            ("a", "COMMIT", Done),
            ("a", ALL, Rows(&["1 0"])),
        ],
    );
}

#[test]
fn read_skew_over_two_rows_is_prevented() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("a", "SELECT balance FROM account WHERE id = 1", Rows(&["100"])),
            ("b", BEGIN, Done),
            ("b", "UPDATE account SET balance = 80 WHERE id = 1", Done),
            ("b", "UPDATE account SET balance = 120 WHERE id = 2", Done),
            ("b", "COMMIT", Done),
            ("a", "SELECT balance FROM account WHERE id = 2", Rows(&["100"])),
            ("a", "COMMIT", Done),
        ],
    );
}

#[test]
fn a_phantom_is_prevented() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("a", "SELECT count(*) FROM account WHERE balance >= 100", Rows(&["2"])),
            ("a", "SELECT id FROM account WHERE id BETWEEN 1 AND 9 ORDER BY id", Rows(&["1", "2"])),
            ("b", "INSERT INTO account VALUES (3, 300)", Tag("INSERT 0 1")),
            ("a", "SELECT count(*) FROM account WHERE balance >= 100", Rows(&["2"])),
            ("a", "SELECT id FROM account WHERE id BETWEEN 1 AND 9 ORDER BY id", Rows(&["1", "2"])),
            ("a", "COMMIT", Done),
            ("a", "SELECT count(*) FROM account WHERE balance >= 100", Rows(&["3"])),
        ],
    );
}

/// Two withdrawals that each look at the sum of both accounts: no serial order lets both pass. Snapshot
/// isolation certifies what was written, and the two wrote different rows.
#[test]
fn plain_write_skew_is_allowed_at_repeatable_read() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "SELECT sum(balance) FROM account", Rows(&["200"])),
            ("b", "SELECT sum(balance) FROM account", Rows(&["200"])),
            ("a", "UPDATE account SET balance = balance - 150 WHERE id = 1", Tag("UPDATE 1")),
            ("b", "UPDATE account SET balance = balance - 150 WHERE id = 2", Tag("UPDATE 1")),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", Done),
            ("a", "SELECT sum(balance) FROM account", Rows(&["-100"])),
        ],
    );
}

/// The way out of write skew before SERIALIZABLE is there: lock what was read.
#[test]
fn write_skew_is_prevented_by_for_update() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "SELECT balance FROM account ORDER BY id FOR UPDATE", Rows(&["100", "100"])),
            ("b", "SELECT balance FROM account ORDER BY id FOR UPDATE", Waits),
            ("a", "UPDATE account SET balance = balance - 150 WHERE id = 1", Done),
            ("a", "COMMIT", Done),
            ("b", THEN, Rows(&["-50", "100"])),
            ("b", "COMMIT", Done),
        ],
    );
}

#[test]
fn an_autocommit_statement_that_meets_no_open_writer_never_fails() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("a", "SELECT count(*) FROM account", Rows(&["2"])),
            ("b", "UPDATE account SET balance = balance + 1", Tag("UPDATE 2")),
            ("c", "UPDATE account SET balance = balance + 1", Tag("UPDATE 2")),
            ("a", "UPDATE account SET balance = 0 WHERE id = 2", Tag("UPDATE 1")),
            ("a", "COMMIT", CONFLICT),
            ("c", ALL, Rows(&["1 102", "2 102"])),
        ],
    );
}

#[test]
fn rows_that_were_rolled_back_conflict_with_nobody() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "SAVEPOINT s", Done),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1", Done),
            ("a", "ROLLBACK TO SAVEPOINT s", Done),
            ("a", "UPDATE account SET balance = 1 WHERE id = 2", Done),
            ("b", "UPDATE account SET balance = 2 WHERE id = 1", Done),
            ("b", "COMMIT", Done),
            ("a", "COMMIT", Done),
            ("a", ALL, Rows(&["1 2", "2 1"])),
        ],
    );
}
