// SPDX-License-Identifier: Apache-2.0
//! DDL beside DML: writers of the changed table are refused, writers of others are not, and an index is
//! built beside writers.

use crate::script::Expected::{Done, Fails, Rows, Tag};
use crate::script::{CONFLICT, run};

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
const TABLES: &[&str] = &[
    "CREATE TABLE changed (id int PRIMARY KEY, v int)",
    "CREATE TABLE other (id int PRIMARY KEY, v int)",
    "INSERT INTO changed VALUES (1, 1), (2, 2)",
    "INSERT INTO other VALUES (1, 1)",
];

#[test]
fn a_writer_of_the_altered_table_is_refused() {
    run(
        TABLES,
        &[
            ("a", BEGIN, Done),
            ("a", "UPDATE changed SET v = 10 WHERE id = 1", Tag("UPDATE 1")),
            ("b", "ALTER TABLE changed ADD COLUMN w int", Done),
            ("a", "COMMIT", CONFLICT),
            ("a", "SELECT * FROM changed ORDER BY id", Rows(&["1 1 NULL", "2 2 NULL"])),
        ],
    );
}

#[test]
fn writers_and_readers_of_other_tables_go_on() {
    run(
        TABLES,
        &[
            ("a", BEGIN, Done),
            ("a", "UPDATE other SET v = 10", Tag("UPDATE 1")),
            ("a", "SELECT count(*) FROM other", Rows(&["1"])),
            ("b", "ALTER TABLE changed ADD COLUMN w int", Done),
            ("a", "COMMIT", Done),
            ("b", "SELECT v FROM other", Rows(&["10"])),
        ],
    );
}

#[test]
fn a_reader_keeps_the_definition_of_its_snapshot() {
    run(
        TABLES,
        &[
            ("a", BEGIN, Done),
            ("a", "SELECT * FROM changed ORDER BY id", Rows(&["1 1", "2 2"])),
            ("b", "ALTER TABLE changed ADD COLUMN w int DEFAULT 5", Done),
            ("a", "SELECT * FROM changed ORDER BY id", Rows(&["1 1", "2 2"])),
            ("a", "COMMIT", Done),
            ("a", "SELECT * FROM changed ORDER BY id", Rows(&["1 1 5", "2 2 5"])),
        ],
    );
}

#[test]
fn a_writer_of_a_dropped_table_is_refused() {
    run(
        TABLES,
        &[
            ("a", BEGIN, Done),
            ("a", "INSERT INTO changed VALUES (3, 3)", Tag("INSERT 0 1")),
            ("b", "DROP TABLE changed", Done),
            ("a", "COMMIT", CONFLICT),
            ("a", "SELECT * FROM changed", Fails("42P01")),
        ],
    );
}

#[test]
fn a_check_cannot_be_passed_by_a_writer_that_did_not_know_it() {
    run(
        TABLES,
        &[
            ("a", BEGIN, Done),
            ("a", "INSERT INTO changed VALUES (3, -3)", Done),
            ("b", "ALTER TABLE changed ADD CONSTRAINT positive CHECK (v > 0)", Done),
            ("a", "COMMIT", CONFLICT),
            ("b", "SELECT count(*) FROM changed WHERE v <= 0", Rows(&["0"])),
        ],
    );
}

#[test]
fn an_altered_table_with_rows_written_meanwhile_refuses_the_alteration() {
    run(
        TABLES,
        &[
            ("a", BEGIN, Done),
            ("a", "ALTER TABLE changed ADD CONSTRAINT positive CHECK (v > 0)", Done),
            ("b", "INSERT INTO changed VALUES (3, -3)", Tag("INSERT 0 1")),
            ("a", "COMMIT", CONFLICT),
            ("b", "SELECT count(*) FROM changed WHERE v <= 0", Rows(&["1"])),
        ],
    );
}

#[test]
fn two_tables_of_one_name_are_prevented() {
    run(
        TABLES,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "CREATE TABLE twin (a int PRIMARY KEY)", Done),
            ("b", "CREATE TABLE twin (b text PRIMARY KEY)", Done),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
            ("b", "SELECT a FROM twin", Rows(&[])),
        ],
    );
}

#[test]
fn a_table_is_not_dropped_while_a_foreign_key_to_it_is_made() {
    run(
        TABLES,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "CREATE TABLE child (id int PRIMARY KEY, changed int REFERENCES changed)", Done),
            ("b", "DROP TABLE changed", Done),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
        ],
    );
}

#[test]
fn an_index_is_built_beside_writers_and_catches_up_with_them() {
    run(
        TABLES,
        &[
            ("a", BEGIN, Done),
            ("a", "CREATE INDEX changed_v ON changed (v)", Done),
            ("b", "INSERT INTO changed VALUES (3, 30)", Tag("INSERT 0 1")),
            ("b", "UPDATE changed SET v = 20 WHERE id = 2", Tag("UPDATE 1")),
            ("b", "DELETE FROM changed WHERE id = 1", Tag("DELETE 1")),
            ("a", "COMMIT", Done),
            ("a", "SELECT id FROM changed WHERE v = 30", Rows(&["3"])),
            ("a", "SELECT id FROM changed WHERE v = 20", Rows(&["2"])),
            ("a", "SELECT id FROM changed WHERE v = 2", Rows(&[])),
            ("a", "SELECT id FROM changed WHERE v = 1", Rows(&[])),
        ],
    );
}

/// The index is made although somebody is writing; it is the writer who began without knowing of it that runs
/// again, as with any other change of the definition.
#[test]
fn a_writer_that_was_open_when_an_index_was_made_runs_again() {
    run(
        TABLES,
        &[
            ("a", BEGIN, Done),
            ("a", "INSERT INTO changed VALUES (3, 30)", Tag("INSERT 0 1")),
            ("b", "CREATE INDEX changed_v ON changed (v)", Done),
            ("a", "COMMIT", CONFLICT),
            ("a", "INSERT INTO changed VALUES (3, 30)", Tag("INSERT 0 1")),
            ("a", "SELECT id FROM changed WHERE v = 30", Rows(&["3"])),
        ],
    );
}
