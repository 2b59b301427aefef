// SPDX-License-Identifier: Apache-2.0
//! `SELECT ... FOR UPDATE`: rows that were read for update conflict like rows that were written.

use crate::script::Expected::{Done, Rows, Tag};
use crate::script::{CONFLICT, run};

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
const JOBS: &[&str] = &[
    "CREATE TABLE job (id int PRIMARY KEY, state text)",
    "INSERT INTO job VALUES (1, 'new'), (2, 'new'), (3, 'done')",
];

#[test]
fn two_sessions_that_lock_one_row_conflict_without_writing() {
    run(
        JOBS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "SELECT id FROM job WHERE id = 1 FOR UPDATE", Rows(&["1"])),
            ("b", "SELECT id FROM job WHERE id = 1 FOR UPDATE", Rows(&["1"])),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
        ],
    );
}

#[test]
fn rows_found_without_a_key_are_locked_and_others_are_not() {
    run(
        JOBS,
        &[
            ("a", BEGIN, Done),
            ("a", "SELECT id FROM job WHERE state = 'new' ORDER BY id FOR UPDATE", Rows(&["1", "2"])),
            ("b", "UPDATE job SET state = 'old' WHERE id = 3", Tag("UPDATE 1")),
            ("a", "COMMIT", Done),
            ("a", BEGIN, Done),
            ("a", "SELECT id FROM job WHERE state = 'new' ORDER BY id FOR UPDATE", Rows(&["1", "2"])),
            ("b", "UPDATE job SET state = 'old' WHERE id = 2", Tag("UPDATE 1")),
            ("a", "COMMIT", CONFLICT),
        ],
    );
}

#[test]
fn a_lock_that_was_rolled_back_is_gone() {
    run(
        JOBS,
        &[
            ("a", BEGIN, Done),
            ("a", "SAVEPOINT s", Done),
            ("a", "SELECT id FROM job WHERE id = 1 FOR UPDATE", Rows(&["1"])),
            ("a", "ROLLBACK TO SAVEPOINT s", Done),
            ("b", "UPDATE job SET state = 'b' WHERE id = 1", Tag("UPDATE 1")),
            ("a", "UPDATE job SET state = 'a' WHERE id = 2", Tag("UPDATE 1")),
            ("a", "COMMIT", Done),
        ],
    );
}

#[test]
fn a_locked_row_of_a_join_conflicts_with_its_writer() {
    run(
        JOBS,
        &[
            ("a", "CREATE TABLE worker (id int PRIMARY KEY, job int)", Done),
            ("a", "INSERT INTO worker VALUES (7, 1)", Done),
            ("a", BEGIN, Done),
            ("a", "SELECT w.id FROM worker w JOIN job j ON j.id = w.job FOR UPDATE OF j", Rows(&["7"])),
            ("b", "UPDATE worker SET job = 2", Tag("UPDATE 1")),
            ("a", "COMMIT", Done),
            ("a", BEGIN, Done),
            ("a", "SELECT w.id FROM worker w JOIN job j ON j.id = w.job FOR UPDATE", Rows(&["7"])),
            ("b", "UPDATE worker SET job = 1", Tag("UPDATE 1")),
            ("a", "COMMIT", CONFLICT),
        ],
    );
}
