// SPDX-License-Identifier: Apache-2.0
//! `INSERT ... ON CONFLICT` at SERIALIZABLE: those who want the same key wait for each other, as those who update the
//! same row do, and go on behind the one before.

use crate::script::{CONFLICT, Expected, Step, THEN, run};
use Expected::{Done, Rows, Tag, Waits};

const SERIALIZABLE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";

const SETUP: &[&str] = &[
    "CREATE TABLE counter (id int PRIMARY KEY, name text UNIQUE, hits int NOT NULL)",
    "INSERT INTO counter VALUES (1, 'one', 10), (2, 'two', 20)",
    "CREATE TABLE source (id int PRIMARY KEY, hits int NOT NULL)",
    "INSERT INTO source VALUES (1, 1), (9, 1)",
];

const OLD: &str =
    "INSERT INTO counter VALUES (1, 'x', 1) ON CONFLICT (id) DO UPDATE SET hits = counter.hits + 1";
const NEW: &str =
    "INSERT INTO counter VALUES (9, 'nine', 1) ON CONFLICT (id) DO UPDATE SET hits = counter.hits + 1";
const NAMED: &str =
    "INSERT INTO counter VALUES (9, 'nine', 1) ON CONFLICT (name) DO UPDATE SET hits = counter.hits + 1";
const SEVERAL: &str = "INSERT INTO counter VALUES (1, 'x', 1), (9, 'nine', 1) \
                       ON CONFLICT (id) DO UPDATE SET hits = counter.hits + 1";
const SELECTED: &str = "INSERT INTO counter SELECT id, 'nine', hits FROM source ORDER BY id DESC LIMIT 1 \
                        ON CONFLICT (id) DO UPDATE SET hits = counter.hits + 1";

/// Each with the row that it is about, and what two of them make of it.
const UPSERTS: &[(&str, &str, &str)] = &[
    (OLD, "SELECT hits FROM counter WHERE id = 1", "12"),
    (NEW, "SELECT hits FROM counter WHERE id = 9", "2"),
    (NAMED, "SELECT hits FROM counter WHERE name = 'nine'", "2"),
    (SEVERAL, "SELECT sum(hits) FROM counter WHERE id <> 2", "14"),
    (SELECTED, "SELECT hits FROM counter WHERE id = 9", "2"),
];

/// The same on both ways that a statement may take.
fn on_both_paths(steps: &[Step]) {
    run(SETUP, steps);
    let off = [("a", "SET coeval.point_path = off", Done), ("b", "SET coeval.point_path = off", Done)];
    run(SETUP, &[&off[..], steps].concat());
}

#[test]
fn the_second_waits_and_goes_on_behind_the_first() {
    for (upsert, look, result) in UPSERTS {
        println!("{upsert}");
        let result: &'static [&'static str] = Box::leak(Box::new([*result]));
        on_both_paths(&[
            ("a", SERIALIZABLE, Done),
            ("b", SERIALIZABLE, Done),
            ("b", "SELECT hits FROM counter WHERE id = 2", Rows(&["20"])),
            ("a", upsert, Done),
            ("b", upsert, Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Done),
            ("b", "COMMIT", Done),
            ("b", look, Rows(result)),
        ]);
    }
}

#[test]
fn after_a_rollback_the_second_is_the_first() {
    on_both_paths(&[
        ("a", SERIALIZABLE, Done),
        ("b", SERIALIZABLE, Done),
        ("a", NEW, Tag("INSERT 0 1")),
        ("b", NEW, Waits),
        ("a", "ROLLBACK", Done),
        ("b", THEN, Tag("INSERT 0 1")),
        ("b", "COMMIT", Done),
        ("b", "SELECT hits FROM counter WHERE id = 9", Rows(&["1"])),
    ]);
}

#[test]
fn get_or_create_finds_what_the_other_has_created() {
    on_both_paths(&[
        ("a", SERIALIZABLE, Done),
        ("b", SERIALIZABLE, Done),
        ("a", "INSERT INTO counter VALUES (9, 'a', 1) ON CONFLICT DO NOTHING", Tag("INSERT 0 1")),
        ("b", "INSERT INTO counter VALUES (9, 'b', 2) ON CONFLICT DO NOTHING", Waits),
        ("a", "COMMIT", Done),
        ("b", THEN, Tag("INSERT 0 0")),
        ("b", "SELECT name FROM counter WHERE id = 9", Rows(&["a"])),
        ("b", "COMMIT", Done),
    ]);
}

/// Who has read the row cannot begin later; it is told who was first.
#[test]
fn one_that_has_read_the_row_is_refused() {
    on_both_paths(&[
        ("b", SERIALIZABLE, Done),
        ("b", "SELECT hits FROM counter WHERE id = 1", Rows(&["10"])),
        ("a", SERIALIZABLE, Done),
        ("a", OLD, Done),
        ("b", OLD, Waits),
        ("a", "COMMIT", Done),
        ("b", THEN, CONFLICT),
        ("b", "ROLLBACK", Done),
        (
            "a",
            "SELECT reason, key, winner_statement FROM coeval_conflicts",
            Rows(&[
                "overtaken (id)=(1) INSERT INTO counter VALUES (1, 'x', 1) ON CONFLICT (id) DO UPDATE SET hits = counter.hits + 1",
            ]),
        ),
    ]);
}

/// Both wait for each other: nobody is a victim, and the second to commit finds that it came second.
#[test]
fn upserts_in_opposite_order_are_no_deadlock() {
    let two = "INSERT INTO counter VALUES (2, 'x', 1) ON CONFLICT (id) DO UPDATE SET hits = counter.hits + 1";
    on_both_paths(&[
        ("a", SERIALIZABLE, Done),
        ("b", SERIALIZABLE, Done),
        ("a", OLD, Done),
        ("b", two, Done),
        ("a", two, Waits),
        ("b", OLD, Done),
        ("b", "COMMIT", Done),
        ("a", THEN, CONFLICT),
        ("a", "ROLLBACK", Done),
        ("a", "SELECT hits FROM counter ORDER BY id", Rows(&["11", "21"])),
    ]);
}
