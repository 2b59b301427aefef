// SPDX-License-Identifier: Apache-2.0
//! Statements of several parts beside others: what one part has written goes when the statement runs again.

use crate::script::Expected::{Done, Rows, Tag, Waits};
use crate::script::{THEN, run};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const SERIALIZABLE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";
const TABLES: &[&str] = &[
    "CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)",
    "CREATE TABLE entry (id serial PRIMARY KEY, counter int NOT NULL, seen int)",
    "INSERT INTO counter VALUES (1, 0), (2, 0)",
];
const COUNT: &str = "WITH e AS (INSERT INTO entry (counter, seen) SELECT id, n FROM counter WHERE id = 1 RETURNING counter) \
                     UPDATE counter SET n = n + 1 FROM e WHERE counter.id = e.counter";

#[test]
fn a_part_that_wrote_before_the_wait_writes_once() {
    for level in [BEGIN, SERIALIZABLE] {
        run(
            TABLES,
            &[
                ("a", BEGIN, Done),
                ("b", level, Done),
                ("a", "UPDATE counter SET n = 10 WHERE id = 1", Tag("UPDATE 1")),
                ("b", COUNT, Waits),
                ("a", "COMMIT", Done),
                ("b", THEN, Tag("UPDATE 1")),
                ("b", "SELECT n FROM counter ORDER BY id", Rows(&["11", "0"])),
                ("b", "SELECT seen FROM entry", Rows(&["10"])),
                ("b", "COMMIT", Done),
                ("a", "SELECT seen FROM entry", Rows(&["10"])),
            ],
        );
    }
}

#[test]
fn what_the_transaction_wrote_before_stays_when_a_part_runs_again() {
    run(
        TABLES,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("b", "INSERT INTO entry (counter, seen) VALUES (2, 99)", Tag("INSERT 0 1")),
            ("b", "UPDATE counter SET n = 7 WHERE id = 2", Tag("UPDATE 1")),
            ("a", "UPDATE counter SET n = 10 WHERE id = 1", Tag("UPDATE 1")),
            ("b", COUNT, Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Tag("UPDATE 1")),
            ("b", "COMMIT", Done),
            ("a", "SELECT n FROM counter ORDER BY id", Rows(&["11", "7"])),
            ("a", "SELECT seen FROM entry ORDER BY seen", Rows(&["10", "99"])),
        ],
    );
}

/// The ways in which workers write that they take the next row that nobody has.
const WAYS: [&str; 4] = [
    "WITH next AS (SELECT id FROM counter ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) \
     UPDATE counter SET n = n + 1 FROM next WHERE counter.id = next.id RETURNING counter.id",
    "UPDATE counter SET n = n + 1 WHERE id = (SELECT id FROM counter ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) \
     RETURNING id",
    "UPDATE counter SET n = n + 1 WHERE id IN (SELECT id FROM counter ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) \
     RETURNING id",
    "UPDATE counter SET n = n + 1 FROM (SELECT id FROM counter ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) AS next \
     WHERE counter.id = next.id RETURNING counter.id",
];

#[test]
fn workers_take_different_rows() {
    for take in WAYS {
        run(
            TABLES,
            &[
                ("a", BEGIN, Done),
                ("b", BEGIN, Done),
                ("a", take, Rows(&["1"])),
                ("b", take, Rows(&["2"])),
                ("a", "COMMIT", Done),
                ("b", "COMMIT", Done),
                ("a", "SELECT n FROM counter ORDER BY id", Rows(&["1", "1"])),
            ],
        );
    }
}

#[test]
fn workers_who_find_their_rows_by_key_read_no_others() {
    for take in &WAYS[1..3] {
        run(
            TABLES,
            &[
                ("a", SERIALIZABLE, Done),
                ("b", SERIALIZABLE, Done),
                ("a", take, Rows(&["1"])),
                ("b", take, Rows(&["2"])),
                ("a", "COMMIT", Done),
                // It has read the first one as it was before, and the first worker has read nothing that this one wrote.
                ("b", "COMMIT", Done),
            ],
        );
    }
}

#[test]
fn a_merge_that_waited_looks_at_the_newest_row() {
    run(
        TABLES,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "DELETE FROM counter WHERE id = 1", Tag("DELETE 1")),
            (
                "b",
                "MERGE INTO counter c USING (VALUES (1), (2)) AS s(id) ON c.id = s.id \
                 WHEN MATCHED THEN UPDATE SET n = n + 1 WHEN NOT MATCHED THEN INSERT VALUES (s.id, 100)",
                Waits,
            ),
            ("a", "COMMIT", Done),
            ("b", THEN, Tag("MERGE 2")),
            ("b", "COMMIT", Done),
            ("a", "SELECT n FROM counter ORDER BY id", Rows(&["100", "1"])),
        ],
    );
}
