// SPDX-License-Identifier: Apache-2.0
//! What SERIALIZABLE adds: anomalies by name that REPEATABLE READ allows, through every kind of statement that reads,
//! and declared read-only transactions, which read safe snapshots.

use crate::script::{CONFLICT, Expected, Step, THEN, run};
use Expected::{Done, Fails, Rows, Tag, Waits};

const SERIALIZABLE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";
const REPEATABLE_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
const READ_ONLY: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY";

const SETUP: &[&str] = &[
    "CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, balance int NOT NULL)",
    "CREATE INDEX account_balance ON account (balance)",
    "CREATE UNIQUE INDEX account_owner ON account (owner)",
    "INSERT INTO account VALUES (1, 'ann', 100), (2, 'bob', 100)",
    "CREATE TABLE flag (id int PRIMARY KEY, value int NOT NULL)",
    "INSERT INTO flag VALUES (1, 0), (2, 0)",
    "CREATE TABLE log (id int PRIMARY KEY, value bigint)",
    "CREATE VIEW rich AS SELECT id FROM account WHERE balance >= 100",
];

/// A statement that reads accounts, and one of somebody else that changes what it finds.
const READS: &[(&str, &str)] = &[
    ("SELECT balance FROM account WHERE id = 2", "UPDATE account SET balance = 0 WHERE id = 2"),
    ("SELECT balance FROM account WHERE id = 3", "INSERT INTO account VALUES (3, 'cleo', 1)"),
    ("SELECT id FROM account WHERE id BETWEEN 2 AND 9", "INSERT INTO account VALUES (5, 'cleo', 1)"),
    ("SELECT id FROM account WHERE owner = 'cleo'", "INSERT INTO account VALUES (5, 'cleo', 1)"),
    ("SELECT id FROM account WHERE balance > 50", "UPDATE account SET balance = 0 WHERE id = 1"),
    ("SELECT id FROM account ORDER BY id DESC LIMIT 1", "INSERT INTO account VALUES (5, 'cleo', 1)"),
    ("SELECT max(balance) FROM account", "INSERT INTO account VALUES (5, 'cleo', 900)"),
    ("SELECT sum(balance) FROM account", "UPDATE account SET balance = 0 WHERE id = 1"),
    ("SELECT count(*) FROM account", "DELETE FROM account WHERE id = 1"),
    ("SELECT id FROM account WHERE owner LIKE '%o%'", "INSERT INTO account VALUES (5, 'cleo', 1)"),
    (
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM account WHERE balance > 500)",
        "INSERT INTO account VALUES (5, 'cleo', 900)",
    ),
    ("SELECT a.id FROM account a JOIN flag f ON a.id = f.id + 1", "DELETE FROM account WHERE id = 2"),
    ("SELECT id FROM rich", "UPDATE account SET balance = 0 WHERE id = 1"),
    ("INSERT INTO log SELECT 1, sum(balance) FROM account", "UPDATE account SET balance = 0 WHERE id = 1"),
    (
        "UPDATE flag SET value = 3 FROM account a WHERE a.id = flag.id AND a.balance > 500",
        "UPDATE account SET balance = 900 WHERE id = 2",
    ),
    ("DELETE FROM log WHERE id IN (SELECT id FROM account)", "INSERT INTO account VALUES (5, 'cleo', 1)"),
    // Of joins and subqueries by keys, also those that find nothing.
    (
        "SELECT f.id, a.balance FROM flag f LEFT JOIN account a ON a.id = f.id + 6 WHERE f.id = 2",
        "INSERT INTO account VALUES (8, 'cleo', 1)",
    ),
    (
        "SELECT id FROM flag WHERE id = 2 AND NOT EXISTS (SELECT 1 FROM account WHERE owner = 'cleo')",
        "INSERT INTO account VALUES (5, 'cleo', 1)",
    ),
    (
        "SELECT id FROM flag WHERE id IN (SELECT a.id FROM account a WHERE a.owner = 'cleo')",
        "INSERT INTO account VALUES (5, 'cleo', 1)",
    ),
    (
        "SELECT (SELECT count(*) FROM account WHERE balance > 500) FROM flag WHERE id = 2",
        "INSERT INTO account VALUES (5, 'cleo', 900)",
    ),
    (
        "UPDATE flag SET value = 3 FROM account a WHERE flag.id = 2 AND a.id = flag.id + 6",
        "INSERT INTO account VALUES (8, 'cleo', 1)",
    ),
    (
        "DELETE FROM log USING account a WHERE a.id = 8 AND log.id = a.id",
        "INSERT INTO account VALUES (8, 'cleo', 1)",
    ),
    ("UPDATE account SET balance = 1 WHERE id = 7", "INSERT INTO account VALUES (7, 'cleo', 1)"),
    ("INSERT INTO account VALUES (2, 'bea', 1) ON CONFLICT DO NOTHING", "DELETE FROM account WHERE id = 2"),
    (
        "INSERT INTO account VALUES (9, 'bob', 1) ON CONFLICT (owner) DO NOTHING",
        "DELETE FROM account WHERE id = 2",
    ),
    ("DECLARE c CURSOR FOR SELECT id FROM account", "INSERT INTO account VALUES (5, 'cleo', 1)"),
    ("SELECT balance FROM account WHERE id = 2 FOR KEY SHARE", "UPDATE account SET balance = 0 WHERE id = 2"),
    ("SELECT count(*) FROM pg_class WHERE relname = 'later'", "CREATE TABLE later (id int PRIMARY KEY)"),
];

/// Each of two reads what the other writes.
fn skew(begin: &'static str, read: &'static str, write: &'static str, second: Expected) -> Vec<Step> {
    vec![
        ("a", begin, Done),
        ("b", begin, Done),
        ("a", read, Done),
        ("a", "UPDATE flag SET value = 1 WHERE id = 1", Tag("UPDATE 1")),
        ("b", "SELECT value FROM flag WHERE id = 1", Rows(&["0"])),
        ("b", write, Done),
        ("a", "COMMIT", Done),
        ("b", "COMMIT", second),
    ]
}

#[test]
fn write_skew_is_prevented_through_every_statement_that_reads() {
    for (read, write) in READS {
        println!("{read} / {write}");
        run(SETUP, &skew(SERIALIZABLE, read, write, CONFLICT));
    }
}

#[test]
fn the_same_is_allowed_at_repeatable_read() {
    for (read, write) in READS {
        println!("{read} / {write}");
        run(SETUP, &skew(REPEATABLE_READ, read, write, Done));
    }
}

#[test]
fn the_point_path_and_datafusion_note_the_same() {
    for (read, write) in READS {
        println!("{read} / {write}");
        let mut steps =
            vec![("a", "SET coeval.point_path = off", Done), ("b", "SET coeval.point_path = off", Done)];
        steps.extend(skew(SERIALIZABLE, read, write, CONFLICT));
        run(SETUP, &steps);
    }
}

/// Two withdrawals that each look at the sum of both accounts.
#[test]
fn an_overdraft_by_two_withdrawals_is_prevented() {
    run(
        SETUP,
        &[
            ("a", SERIALIZABLE, Done),
            ("b", SERIALIZABLE, Done),
            ("a", "SELECT sum(balance) FROM account", Rows(&["200"])),
            ("b", "SELECT sum(balance) FROM account", Rows(&["200"])),
            ("a", "UPDATE account SET balance = balance - 150 WHERE id = 1", Tag("UPDATE 1")),
            ("b", "UPDATE account SET balance = balance - 150 WHERE id = 2", Tag("UPDATE 1")),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
            ("b", SERIALIZABLE, Done),
            ("b", "SELECT sum(balance) FROM account", Rows(&["50"])),
            ("b", "ROLLBACK", Done),
        ],
    );
}

/// Statements of different rows by key, as most applications have them, are no reason to fail.
#[test]
fn transactions_on_different_rows_all_commit() {
    run(
        SETUP,
        &[
            ("a", SERIALIZABLE, Done),
            ("b", SERIALIZABLE, Done),
            ("a", "SELECT balance FROM account WHERE id = 1", Rows(&["100"])),
            ("b", "SELECT balance FROM account WHERE id = 2", Rows(&["100"])),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1", Done),
            ("b", "UPDATE account SET balance = 2 WHERE id = 2", Done),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", Done),
        ],
    );
}

/// Fekete, O'Neil and O'Neil (2004): only because of the reader is there no serial order.
const WITHDRAWAL_BESIDE_DEPOSIT: [Step; 6] = [
    ("w", SERIALIZABLE, Done),
    ("w", "SELECT sum(balance) FROM account", Rows(&["200"])),
    ("d", SERIALIZABLE, Done),
    ("d", "UPDATE account SET balance = balance + 20 WHERE id = 2", Done),
    ("d", "COMMIT", Done),
    ("w", "UPDATE account SET balance = balance - 190 WHERE id = 1", Done),
];

fn with_reader(reader: &[Step]) -> Vec<Step> {
    WITHDRAWAL_BESIDE_DEPOSIT
        .iter()
        .chain(reader)
        .map(|(name, sql, expected)| (*name, *sql, expected.clone()))
        .collect()
}

#[test]
fn the_read_only_anomaly_is_prevented_on_the_current_world() {
    run(
        SETUP,
        &with_reader(&[
            ("r", "SET coeval.read_only_snapshot = 'current'", Done),
            ("r", READ_ONLY, Done),
            ("r", "SELECT balance FROM account ORDER BY id", Rows(&["100", "120"])),
            ("r", "COMMIT", Done),
            ("w", "COMMIT", CONFLICT),
        ]),
    );
}

#[test]
fn an_autocommit_query_prevents_it_too() {
    run(
        SETUP,
        &with_reader(&[
            ("r", "SET default_transaction_isolation = 'serializable'", Done),
            ("r", "SELECT balance FROM account ORDER BY id", Rows(&["100", "120"])),
            ("w", "COMMIT", CONFLICT),
        ]),
    );
}

#[test]
fn without_a_reader_both_commit() {
    run(SETUP, &with_reader(&[("w", "COMMIT", Done)]));
}

#[test]
fn a_declared_read_only_transaction_reads_a_safe_snapshot_and_nobody_fails() {
    run(
        SETUP,
        &with_reader(&[
            ("r", READ_ONLY, Done),
            ("r", "SELECT balance FROM account ORDER BY id", Rows(&["100", "100"])),
            ("w", "COMMIT", Done),
            ("r", "SELECT balance FROM account ORDER BY id", Rows(&["100", "100"])),
            ("r", "COMMIT", Done),
            ("r", READ_ONLY, Done),
            ("r", "SELECT balance FROM account ORDER BY id", Rows(&["-90", "120"])),
            ("r", "COMMIT", Done),
        ]),
    );
}

/// How many commits they lack, whether somebody holds them back, who has taken one, and who read the current world
/// because its session had seen more.
const SAFE_SNAPSHOTS: &str =
    "SELECT commits_behind, holder_transaction IS NOT NULL AND age_us > 0, taken, fallbacks_floor
     FROM coeval_safe_snapshots";

#[test]
fn a_session_always_finds_its_own_commits() {
    run(
        SETUP,
        &[
            ("w", SERIALIZABLE, Done),
            ("w", "SELECT sum(balance) FROM account", Rows(&["200"])),
            ("d", "UPDATE account SET balance = balance + 20 WHERE id = 2", Done),
            ("d", READ_ONLY, Done),
            ("d", "SELECT balance FROM account ORDER BY id", Rows(&["100", "120"])),
            ("d", "COMMIT", Done),
            ("r", SAFE_SNAPSHOTS, Rows(&["1 true 0 1"])),
            ("d", "SET coeval.read_only_snapshot = 'safe'", Done),
            ("d", READ_ONLY, Done),
            ("d", "SELECT balance FROM account ORDER BY id", Rows(&["100", "100"])),
            ("d", "COMMIT", Done),
            ("r", SAFE_SNAPSHOTS, Rows(&["1 true 1 1"])),
            ("w", "ROLLBACK", Done),
            ("r", SAFE_SNAPSHOTS, Rows(&["0 false 1 1"])),
            ("r", "SHOW coeval.snapshot_lag", Rows(&["0 commits, 0 ms"])),
        ],
    );
}

#[test]
fn a_read_only_transaction_that_writes_and_a_level_that_changes_too_late_are_refused() {
    run(
        SETUP,
        &[
            ("a", READ_ONLY, Done),
            ("a", "DELETE FROM account", Fails("25006")),
            ("a", "ROLLBACK", Done),
            ("a", SERIALIZABLE, Done),
            ("a", "SELECT 1", Rows(&["1"])),
            ("a", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", Fails("25001")),
            ("a", "ROLLBACK", Done),
        ],
    );
}

#[test]
fn what_was_read_before_a_savepoint_was_rolled_back_to_counts() {
    run(
        SETUP,
        &[
            ("a", SERIALIZABLE, Done),
            ("b", SERIALIZABLE, Done),
            ("a", "SAVEPOINT s", Done),
            ("b", "SAVEPOINT s", Done),
            ("a", "SELECT sum(balance) FROM account", Rows(&["200"])),
            ("b", "SELECT sum(balance) FROM account", Rows(&["200"])),
            ("a", "ROLLBACK TO s", Done),
            ("b", "ROLLBACK TO s", Done),
            ("a", "UPDATE account SET balance = -50 WHERE id = 1", Done),
            ("b", "UPDATE account SET balance = -50 WHERE id = 2", Done),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", CONFLICT),
        ],
    );
}

#[test]
fn a_session_does_not_go_back_behind_what_a_statement_of_read_committed_has_shown() {
    run(
        SETUP,
        &[
            ("r", "BEGIN ISOLATION LEVEL READ COMMITTED", Done),
            ("r", "SELECT value FROM flag WHERE id = 1", Rows(&["0"])),
            ("w", SERIALIZABLE, Done),
            ("w", "SELECT value FROM flag WHERE id = 2", Rows(&["0"])),
            ("d", "UPDATE flag SET value = 5 WHERE id = 1", Done),
            ("r", "SELECT value FROM flag WHERE id = 1", Rows(&["5"])),
            ("r", "COMMIT", Done),
            ("r", READ_ONLY, Done),
            ("r", "SELECT value FROM flag WHERE id = 1", Rows(&["5"])),
            ("r", "COMMIT", Done),
            ("w", "ROLLBACK", Done),
        ],
    );
}

/// What was read before is as it was, so the transaction may as well have begun later.
#[test]
fn a_statement_that_waited_moves_the_snapshot_if_it_can() {
    run(
        SETUP,
        &[
            ("a", SERIALIZABLE, Done),
            ("b", SERIALIZABLE, Done),
            ("b", "SELECT value FROM flag WHERE id = 2", Rows(&["0"])),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1", Done),
            ("a", "COMMIT", Done),
            ("b", "SELECT balance FROM account WHERE id = 1 FOR UPDATE", Rows(&["1"])),
            ("b", "UPDATE account SET balance = balance + 1 WHERE id = 1", Done),
            ("b", "COMMIT", Done),
            ("a", "SELECT balance FROM account WHERE id = 1", Rows(&["2"])),
        ],
    );
}

#[test]
fn it_does_not_move_over_a_change_of_what_was_read() {
    run(
        SETUP,
        &[
            ("a", SERIALIZABLE, Done),
            ("b", SERIALIZABLE, Done),
            ("b", "SELECT balance FROM account WHERE id = 1", Rows(&["100"])),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1", Done),
            ("a", "COMMIT", Done),
            ("b", "SELECT balance FROM account WHERE id = 1 FOR UPDATE", CONFLICT),
            ("b", "ROLLBACK", Done),
        ],
    );
}

#[test]
fn two_updates_of_one_row_wait_for_each_other_and_both_commit() {
    run(
        SETUP,
        &[
            ("a", SERIALIZABLE, Done),
            ("b", SERIALIZABLE, Done),
            ("b", "SELECT value FROM flag WHERE id = 2", Rows(&["0"])),
            ("a", "UPDATE account SET balance = balance + 1 WHERE id = 1", Tag("UPDATE 1")),
            ("b", "UPDATE account SET balance = balance + 10 WHERE id = 1", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Tag("UPDATE 1")),
            ("b", "COMMIT", Done),
            ("a", "SELECT balance FROM account WHERE id = 1", Rows(&["111"])),
        ],
    );
}

#[test]
fn an_update_or_delete_of_a_row_that_is_newer_moves_the_snapshot_if_it_can() {
    for point_path in ["SET coeval.point_path = on", "SET coeval.point_path = off"] {
        run(
            SETUP,
            &[
                ("b", point_path, Done),
                ("b", SERIALIZABLE, Done),
                ("b", "SELECT value FROM flag WHERE id = 2", Rows(&["0"])),
                ("a", "UPDATE account SET balance = 1", Tag("UPDATE 2")),
                ("b", "UPDATE account SET balance = balance + 1 WHERE id = 1", Tag("UPDATE 1")),
                ("b", "SELECT balance FROM account ORDER BY id", Rows(&["2", "1"])),
                ("a", "UPDATE account SET owner = 'bea' WHERE id = 2", Tag("UPDATE 1")),
                ("b", "DELETE FROM account WHERE id = 2", CONFLICT),
                ("b", "ROLLBACK", Done),
                ("b", SERIALIZABLE, Done),
                ("b", "UPDATE account SET balance = 7 WHERE id = 1", Tag("UPDATE 1")),
                ("a", "UPDATE account SET owner = 'bibi' WHERE id = 2", Tag("UPDATE 1")),
                ("b", "DELETE FROM account WHERE id = 2 RETURNING owner", Rows(&["bibi"])),
                ("b", "COMMIT", Done),
            ],
        );
    }
}

#[test]
fn an_update_after_a_wait_is_refused_if_the_row_was_read_before() {
    run(
        SETUP,
        &[
            ("a", SERIALIZABLE, Done),
            ("b", SERIALIZABLE, Done),
            ("b", "SELECT balance FROM account WHERE id = 1", Rows(&["100"])),
            ("a", "UPDATE account SET balance = balance + 1 WHERE id = 1", Tag("UPDATE 1")),
            ("b", "UPDATE account SET balance = 110 WHERE id = 1", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, CONFLICT),
            ("b", "ROLLBACK", Done),
        ],
    );
}

/// The locks of updates are there for speed: who would wait for ever goes on, and the first to commit wins.
#[test]
fn updates_in_opposite_order_are_no_deadlock() {
    run(
        SETUP,
        &[
            ("a", SERIALIZABLE, Done),
            ("b", SERIALIZABLE, Done),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1", Tag("UPDATE 1")),
            ("b", "UPDATE account SET balance = 2 WHERE id = 2", Tag("UPDATE 1")),
            ("a", "UPDATE account SET balance = 3 WHERE id = 2", Waits),
            ("b", "UPDATE account SET balance = 4 WHERE id = 1", Tag("UPDATE 1")),
            ("b", "COMMIT", Done),
            ("a", THEN, CONFLICT),
            ("a", "ROLLBACK", Done),
            ("a", "SELECT balance FROM account ORDER BY id", Rows(&["4", "2"])),
        ],
    );
}
