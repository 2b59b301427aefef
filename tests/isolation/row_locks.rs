// SPDX-License-Identifier: Apache-2.0
//! `SELECT ... FOR UPDATE` and its weaker forms: who waits for whom, and what they see afterwards.

use crate::script::Expected::{Done, Fails, Rows, Tag, Waits};
use crate::script::{CONFLICT, THEN, run};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
const JOBS: &[&str] = &[
    "CREATE TABLE job (id int PRIMARY KEY, state text)",
    "INSERT INTO job VALUES (1, 'new'), (2, 'new'), (3, 'done')",
];

#[test]
fn the_second_who_locks_a_row_waits_for_the_first() {
    for begin in [BEGIN, SNAPSHOT] {
        run(
            JOBS,
            &[
                ("a", begin, Done),
                ("b", begin, Done),
                ("a", "SELECT id FROM job WHERE id = 1 FOR UPDATE", Rows(&["1"])),
                ("b", "SELECT id, state FROM job WHERE id = 1 FOR UPDATE", Waits),
                ("a", "UPDATE job SET state = 'taken' WHERE id = 1", Tag("UPDATE 1")),
                ("a", "COMMIT", Done),
                ("b", THEN, Rows(&["1 taken"])),
                ("b", "UPDATE job SET state = 'done' WHERE id = 1", Tag("UPDATE 1")),
                ("b", "COMMIT", Done),
            ],
        );
    }
}

#[test]
fn a_first_statement_that_waited_takes_its_snapshot_after_the_wait() {
    run(
        JOBS,
        &[
            ("a", SNAPSHOT, Done),
            ("b", SNAPSHOT, Done),
            ("a", "SELECT id FROM job WHERE id = 1 FOR UPDATE", Rows(&["1"])),
            ("b", "SELECT state FROM job WHERE id = 1 FOR UPDATE", Waits),
            ("a", "UPDATE job SET state = 'x' WHERE id = 2", Done),
            ("a", "COMMIT", Done),
            ("b", THEN, Rows(&["new"])),
            ("b", "SELECT state FROM job WHERE id = 2", Rows(&["x"])),
            ("b", "COMMIT", Done),
        ],
    );
}

#[test]
fn a_later_statement_on_a_snapshot_fails_if_the_row_was_changed() {
    run(
        JOBS,
        &[
            ("a", BEGIN, Done),
            ("b", SNAPSHOT, Done),
            ("b", "SELECT count(*) FROM job", Rows(&["3"])),
            ("a", "UPDATE job SET state = 'x' WHERE id = 1", Done),
            ("b", "UPDATE job SET state = 'y' WHERE id = 1", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, CONFLICT),
            ("b", "ROLLBACK", Done),
        ],
    );
}

#[test]
fn two_who_lock_the_row_that_stands_for_a_rule_do_not_both_break_it() {
    run(
        JOBS,
        &[
            ("a", SNAPSHOT, Done),
            ("b", SNAPSHOT, Done),
            ("a", "SELECT count(*) FROM job WHERE state = 'new'", Rows(&["2"])),
            ("b", "SELECT count(*) FROM job WHERE state = 'new'", Rows(&["2"])),
            ("a", "SELECT id FROM job WHERE id = 3 FOR UPDATE", Rows(&["3"])),
            ("b", "SELECT id FROM job WHERE id = 3 FOR UPDATE", Waits),
            ("a", "UPDATE job SET state = 'done' WHERE id = 1", Done),
            ("a", "COMMIT", Done),
            ("b", THEN, Rows(&["3"])),
            ("b", "UPDATE job SET state = 'done' WHERE id = 2", Done),
            ("b", "COMMIT", CONFLICT),
        ],
    );
}

#[test]
fn the_four_strengths_wait_for_each_other_as_in_postgresql() {
    let strengths = ["KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE"];
    let waits = [
        [false, false, false, true],
        [false, false, true, true],
        [false, true, true, true],
        [true, true, true, true],
    ];
    let text = |strength: &str, end: &str| -> &'static str {
        format!("SELECT id FROM job WHERE id = 1 FOR {strength} {end}").leak()
    };
    for (held, row) in strengths.iter().zip(waits) {
        for (wanted, waits) in strengths.iter().zip(row) {
            let second = if waits { Fails("55P03") } else { Rows(&["1"]) };
            let general = if waits { Fails("55P03") } else { Rows(&["1"]) };
            run(
                JOBS,
                &[
                    ("a", BEGIN, Done),
                    ("a", text(held, ""), Rows(&["1"])),
                    ("b", text(wanted, "NOWAIT"), second),
                    ("b", "SET coeval.point_path = off", Done),
                    ("b", text(wanted, "OF job NOWAIT"), general),
                    ("a", "COMMIT", Done),
                    ("b", text(wanted, "NOWAIT"), Rows(&["1"])),
                ],
            );
        }
    }
}

#[test]
fn a_deadlock_has_one_victim_and_the_other_goes_on() {
    run(
        JOBS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "UPDATE job SET state = 'a' WHERE id = 1", Done),
            ("b", "UPDATE job SET state = 'b' WHERE id = 2", Done),
            ("a", "UPDATE job SET state = 'a' WHERE id = 2", Waits),
            ("b", "UPDATE job SET state = 'b' WHERE id = 1", Fails("40P01")),
            ("b", "ROLLBACK", Done),
            ("a", THEN, Tag("UPDATE 1")),
            ("a", "COMMIT", Done),
            ("b", "SELECT state FROM job ORDER BY id", Rows(&["a", "a", "done"])),
        ],
    );
}

#[test]
fn who_only_shared_and_both_want_to_write_are_a_deadlock() {
    run(
        JOBS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "SELECT id FROM job WHERE id = 1 FOR SHARE", Rows(&["1"])),
            ("b", "SELECT id FROM job WHERE id = 1 FOR SHARE", Rows(&["1"])),
            ("a", "UPDATE job SET state = 'a' WHERE id = 1", Waits),
            ("b", "UPDATE job SET state = 'b' WHERE id = 1", Fails("40P01")),
            ("b", "ROLLBACK", Done),
            ("a", THEN, Tag("UPDATE 1")),
            ("a", "COMMIT", Done),
        ],
    );
}

#[test]
fn workers_of_a_queue_skip_each_others_jobs() {
    for path in ["SET coeval.point_path = on", "SET coeval.point_path = off"] {
        run(
            JOBS,
            &[
                ("a", path, Done),
                ("b", path, Done),
                ("c", path, Done),
                ("a", BEGIN, Done),
                ("b", BEGIN, Done),
                ("c", BEGIN, Done),
                ("a", "SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED", Rows(&["1"])),
                ("b", "SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED", Rows(&["2"])),
                ("a", "DELETE FROM job WHERE id = 1", Tag("DELETE 1")),
                ("a", "COMMIT", Done),
                ("c", "SELECT id FROM job ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED", Rows(&["3"])),
                ("b", "COMMIT", Done),
                ("a", "SELECT id FROM job ORDER BY id FOR UPDATE SKIP LOCKED", Rows(&["2"])),
            ],
        );
    }
}

#[test]
fn a_query_inside_a_query_locks_its_rows() {
    let queries = [
        "SELECT id FROM (SELECT id FROM job WHERE id = 1 FOR UPDATE) AS j",
        "SELECT id FROM job WHERE id IN (SELECT id FROM job WHERE id = 1 FOR UPDATE)",
        "(SELECT id FROM job WHERE id = 1 FOR UPDATE) UNION ALL SELECT id FROM job WHERE false",
    ];
    for query in queries {
        run(
            JOBS,
            &[
                ("a", BEGIN, Done),
                ("b", BEGIN, Done),
                ("a", query, Rows(&["1"])),
                ("b", "UPDATE job SET state = 'other' WHERE id = 1", Waits),
                ("a", "UPDATE job SET state = 'mine' WHERE id = 1", Tag("UPDATE 1")),
                ("a", "COMMIT", Done),
                ("b", THEN, Tag("UPDATE 1")),
                ("b", "COMMIT", Done),
                (
                    "a",
                    "INSERT INTO job SELECT id + 10, state FROM job WHERE id = 2 FOR UPDATE",
                    Tag("INSERT 0 1"),
                ),
            ],
        );
    }
}

#[test]
fn a_wait_ends_with_lock_timeout() {
    run(
        JOBS,
        &[
            ("a", BEGIN, Done),
            ("a", "SELECT id FROM job WHERE id = 1 FOR UPDATE", Rows(&["1"])),
            ("b", "SET lock_timeout = '5ms'", Done),
            ("b", "SHOW lock_timeout", Rows(&["5ms"])),
            ("b", "SET default_transaction_isolation = 'read committed'", Done),
            ("b", "UPDATE job SET state = 'b' WHERE id = 1", Fails("55P03")),
            ("b", BEGIN, Done),
            ("b", "SELECT id FROM job WHERE id = 1 FOR SHARE", Fails("55P03")),
            ("b", "ROLLBACK", Done),
            ("a", "COMMIT", Done),
            ("b", "UPDATE job SET state = 'b' WHERE id = 1", Tag("UPDATE 1")),
        ],
    );
}

#[test]
fn rows_that_were_not_found_are_not_locked() {
    run(
        JOBS,
        &[
            ("a", BEGIN, Done),
            ("a", "SELECT id FROM job WHERE state = 'new' ORDER BY id FOR UPDATE", Rows(&["1", "2"])),
            ("b", BEGIN, Done),
            ("b", "UPDATE job SET state = 'old' WHERE id = 3", Tag("UPDATE 1")),
            ("b", "UPDATE job SET state = 'old' WHERE id = 2", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Tag("UPDATE 1")),
            ("b", "COMMIT", Done),
        ],
    );
}

#[test]
fn a_join_locks_the_tables_that_are_named() {
    let setup = &[
        JOBS[0],
        JOBS[1],
        "CREATE TABLE worker (id int PRIMARY KEY, job int)",
        "INSERT INTO worker VALUES (7, 1)",
    ];
    run(
        setup,
        &[
            ("a", BEGIN, Done),
            ("a", "SELECT w.id FROM worker w JOIN job j ON j.id = w.job FOR UPDATE OF j", Rows(&["7"])),
            ("b", "SELECT id FROM worker FOR UPDATE NOWAIT", Rows(&["7"])),
            ("b", "SELECT id FROM job WHERE id = 1 FOR UPDATE NOWAIT", Fails("55P03")),
            ("a", "COMMIT", Done),
            ("a", BEGIN, Done),
            ("a", "SELECT w.id FROM worker w, job j WHERE j.id = w.job FOR KEY SHARE OF j, w", Rows(&["7"])),
            ("b", "SELECT id FROM worker FOR UPDATE NOWAIT", Fails("55P03")),
            ("b", "SELECT id FROM job WHERE id = 1 FOR NO KEY UPDATE NOWAIT", Rows(&["1"])),
        ],
    );
}

#[test]
fn a_snapshot_that_writes_waits_while_somebody_holds_the_row() {
    run(
        JOBS,
        &[
            ("a", BEGIN, Done),
            ("a", "UPDATE job SET state = state || '1' WHERE id = 1", Done),
            ("b", "UPDATE job SET state = state || '2' WHERE id = 1", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Tag("UPDATE 1")),
            ("b", "SELECT state FROM job WHERE id = 1", Rows(&["new12"])),
        ],
    );
}
