// SPDX-License-Identifier: Apache-2.0
//! `coeval_conflicts`: who was refused, against whom, where and why.

use crate::script::{CONFLICT, Expected, run};
use Expected::{Done, Rows};

const SETUP: &[&str] = &[
    "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)",
    "INSERT INTO account VALUES (1, 100), (2, 100)",
];

const SERIALIZABLE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";
const REPEATABLE_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";

#[test]
fn a_second_writer_is_listed_with_both_statements() {
    let listed = "SELECT reason, isolation, table_name, key, statement, winner_statement, declared_read_only \
                  FROM coeval_conflicts";
    run(
        SETUP,
        &[
            ("a", REPEATABLE_READ, Done),
            ("b", REPEATABLE_READ, Done),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1", Done),
            ("b", "UPDATE account SET balance = 2 WHERE id = 1", Done),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
            (
                "a",
                listed,
                Rows(&[
                    "write repeatable read account (id)=(1) UPDATE account SET balance = 2 WHERE id = 1 \
                        UPDATE account SET balance = 1 WHERE id = 1 false",
                ]),
            ),
        ],
    );
}

#[test]
fn rules_of_serializability_have_their_names() {
    let listed = "SELECT reason, table_name, winner_statement, declared_read_only FROM coeval_conflicts";
    run(
        SETUP,
        &[
            ("a", SERIALIZABLE, Done),
            ("b", SERIALIZABLE, Done),
            ("a", "SELECT balance FROM account WHERE id = 2", Done),
            ("b", "SELECT balance FROM account WHERE id = 1", Done),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1", Done),
            ("b", "UPDATE account SET balance = 1 WHERE id = 2", Done),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
            ("a", listed, Rows(&["pivot account UPDATE account SET balance = 1 WHERE id = 1 false"])),
        ],
    );
}

/// Fekete, O'Neil and O'Neil (2004), with a declared reader that insists on the current world.
#[test]
fn a_declared_reader_in_the_structure_is_told() {
    let listed = "SELECT reason, winner_statement, declared_read_only FROM coeval_conflicts";
    run(
        SETUP,
        &[
            ("w", SERIALIZABLE, Done),
            ("w", "SELECT sum(balance) FROM account", Done),
            ("d", "UPDATE account SET balance = balance + 20 WHERE id = 2", Done),
            ("w", "UPDATE account SET balance = balance - 190 WHERE id = 1", Done),
            ("r", "SET coeval.read_only_snapshot = 'current'", Done),
            ("r", "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY", Done),
            ("r", "SELECT balance FROM account ORDER BY id", Rows(&["100", "120"])),
            ("r", "COMMIT", Done),
            ("w", "COMMIT", CONFLICT),
            ("d", listed, Rows(&["pivot of a reader SELECT balance FROM account ORDER BY id true"])),
            ("d", COUNTED, Rows(&["1 1 1"])),
        ],
    );
}

const COUNTED: &str =
    "SELECT conflicts, conflicts_dangerous, conflicts_declared_read_only FROM coeval_safe_snapshots";

#[test]
fn conflicts_are_counted_by_what_took_part_in_them() {
    run(
        SETUP,
        &[
            ("a", REPEATABLE_READ, Done),
            ("b", REPEATABLE_READ, Done),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1", Done),
            ("b", "UPDATE account SET balance = 2 WHERE id = 1", Done),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
            ("a", COUNTED, Rows(&["1 0 0"])),
            ("a", SERIALIZABLE, Done),
            ("b", SERIALIZABLE, Done),
            ("a", "SELECT balance FROM account WHERE id = 2", Done),
            ("b", "SELECT balance FROM account WHERE id = 1", Done),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1", Done),
            ("b", "UPDATE account SET balance = 1 WHERE id = 2", Done),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
            ("a", COUNTED, Rows(&["2 1 0"])),
        ],
    );
}

#[test]
fn a_snapshot_that_could_not_move_is_told_with_the_row() {
    run(
        SETUP,
        &[
            ("b", SERIALIZABLE, Done),
            ("b", "SELECT balance FROM account WHERE id = 1", Done),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1", Done),
            ("b", "UPDATE account SET balance = 2 WHERE id = 1", CONFLICT),
            ("b", "ROLLBACK", Done),
            (
                "a",
                "SELECT reason, key, winner_statement FROM coeval_conflicts",
                Rows(&["overtaken (id)=(1) UPDATE account SET balance = 1 WHERE id = 1"]),
            ),
        ],
    );
}
