// SPDX-License-Identifier: Apache-2.0
//! Write skew that would break a constraint: what a check relied on must still hold at commit.

use crate::script::Expected::{Done, Fails, Rows, Tag};
use crate::script::{CONFLICT, run};

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
const FAMILY: &[&str] = &[
    "CREATE TABLE parent (id int PRIMARY KEY, name text)",
    "CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)",
    "CREATE TABLE pet (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE)",
    "INSERT INTO parent VALUES (1, 'one'), (2, 'two')",
];
const ORPHANS: &str = "SELECT c.id FROM child c LEFT JOIN parent p ON p.id = c.parent WHERE p.id IS NULL";

#[test]
fn a_parent_deleted_while_a_child_is_inserted_leaves_no_orphan() {
    run(
        FAMILY,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "INSERT INTO child VALUES (10, 1)", Tag("INSERT 0 1")),
            ("b", "DELETE FROM parent WHERE id = 1", Tag("DELETE 1")),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
            ("b", ORPHANS, Rows(&[])),
        ],
    );
}

#[test]
fn a_child_inserted_while_its_parent_is_deleted_is_refused() {
    run(
        FAMILY,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "INSERT INTO child VALUES (10, 1)", Tag("INSERT 0 1")),
            ("b", "DELETE FROM parent WHERE id = 1", Tag("DELETE 1")),
            ("b", "COMMIT", Done),
            ("a", "COMMIT", CONFLICT),
            ("a", ORPHANS, Rows(&[])),
        ],
    );
}

#[test]
fn a_child_moved_to_a_parent_that_changes_its_key_is_refused() {
    run(
        FAMILY,
        &[
            ("a", "INSERT INTO child VALUES (10, 2)", Done),
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "UPDATE child SET parent = 1 WHERE id = 10", Tag("UPDATE 1")),
            ("b", "UPDATE parent SET id = 7 WHERE id = 1", Tag("UPDATE 1")),
            ("b", "COMMIT", Done),
            ("a", "COMMIT", CONFLICT),
            ("a", ORPHANS, Rows(&[])),
        ],
    );
}

#[test]
fn a_cascade_that_did_not_see_a_new_child_is_refused() {
    run(
        FAMILY,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "INSERT INTO pet VALUES (1, 1)", Tag("INSERT 0 1")),
            ("b", "DELETE FROM parent WHERE id = 1", Tag("DELETE 1")),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
            ("b", "SELECT id FROM pet", Rows(&["1"])),
        ],
    );
}

/// As with PostgreSQL's FOR KEY SHARE: only the parent's key matters to its children.
#[test]
fn an_update_of_another_column_of_the_parent_does_not_disturb_new_children() {
    run(
        FAMILY,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "INSERT INTO child VALUES (10, 1)", Done),
            ("b", "UPDATE parent SET name = 'uno' WHERE id = 1", Tag("UPDATE 1")),
            ("b", "COMMIT", Done),
            ("a", "COMMIT", Done),
        ],
    );
}

#[test]
fn two_children_of_one_parent_do_not_disturb_each_other() {
    run(
        FAMILY,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "INSERT INTO child VALUES (10, 1)", Done),
            ("b", "INSERT INTO child VALUES (11, 1)", Done),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", Done),
        ],
    );
}

#[test]
fn two_owners_of_a_primary_key_are_prevented() {
    run(
        FAMILY,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "INSERT INTO parent VALUES (3, 'a')", Done),
            ("b", "INSERT INTO parent VALUES (3, 'b')", Done),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
            ("b", "INSERT INTO parent VALUES (3, 'b')", Fails("23505")),
        ],
    );
}

const NAMES: &[&str] = &[
    "CREATE TABLE person (id int PRIMARY KEY, name text UNIQUE, age int)",
    "INSERT INTO person VALUES (1, 'ada', 36), (2, 'bob', 40)",
];

#[test]
fn two_owners_of_a_unique_key_are_prevented() {
    run(
        NAMES,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "INSERT INTO person VALUES (3, 'cy', 1)", Done),
            ("b", "INSERT INTO person VALUES (4, 'cy', 2)", Done),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
            ("b", "SELECT id FROM person WHERE name = 'cy'", Rows(&["3"])),
        ],
    );
}

#[test]
fn two_updates_that_take_one_unique_key_are_prevented() {
    run(
        NAMES,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "UPDATE person SET name = 'eve' WHERE id = 1", Done),
            ("b", "UPDATE person SET name = 'eve' WHERE id = 2", Done),
            ("b", "COMMIT", Done),
            ("a", "COMMIT", CONFLICT),
            ("a", "SELECT id FROM person WHERE name = 'eve'", Rows(&["2"])),
        ],
    );
}

#[test]
fn a_unique_key_that_another_transaction_frees_is_not_free_yet() {
    run(
        NAMES,
        &[
            ("a", BEGIN, Done),
            ("a", "DELETE FROM person WHERE id = 1", Done),
            ("b", "INSERT INTO person VALUES (3, 'ada', 1)", Fails("23505")),
            ("a", "COMMIT", Done),
            ("b", "INSERT INTO person VALUES (3, 'ada', 1)", Done),
        ],
    );
}

/// An upsert that found the row missing must not overwrite, nor ignore, the one that came meanwhile.
#[test]
fn an_upsert_beside_an_insert_of_the_same_key_is_refused_not_lost() {
    run(
        NAMES,
        &[
            ("a", BEGIN, Done),
            ("a", "SELECT count(*) FROM person", Rows(&["2"])),
            ("b", "INSERT INTO person VALUES (3, 'cy', 1)", Done),
            (
                "a",
                "INSERT INTO person VALUES (3, 'cy', 2) ON CONFLICT (id) DO UPDATE SET age = excluded.age",
                Done,
            ),
            ("a", "COMMIT", CONFLICT),
            ("a", "SELECT age FROM person WHERE id = 3", Rows(&["1"])),
        ],
    );
}
