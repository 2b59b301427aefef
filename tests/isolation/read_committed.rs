// SPDX-License-Identifier: Apache-2.0
//! READ COMMITTED: a snapshot for each statement, and rows that are looked at again after a wait.

use crate::script::Expected::{Done, Fails, Rows, Tag, Waits};
use crate::script::{CONFLICT, THEN, run};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
const ACCOUNTS: &[&str] = &[
    "CREATE TABLE account (id text PRIMARY KEY, balance int NOT NULL)",
    "INSERT INTO account VALUES ('checking', 600), ('savings', 600)",
];

#[test]
fn each_statement_sees_what_was_committed_before_it() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("a", "SHOW transaction_isolation", Rows(&["read committed"])),
            ("a", "SELECT balance FROM account WHERE id = 'checking'", Rows(&["600"])),
            ("b", "UPDATE account SET balance = 1 WHERE id = 'checking'", Tag("UPDATE 1")),
            ("a", "SELECT balance FROM account WHERE id = 'checking'", Rows(&["1"])),
            ("a", "SELECT sum(balance) FROM account", Rows(&["601"])),
            ("a", "COMMIT", Done),
        ],
    );
}

#[test]
fn an_update_that_waited_adds_to_the_newest_row() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "UPDATE account SET balance = balance - 200 WHERE id = 'checking'", Tag("UPDATE 1")),
            ("b", "UPDATE account SET balance = balance + 450 WHERE id = 'checking'", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Tag("UPDATE 1")),
            ("b", "SELECT balance FROM account WHERE id = 'checking'", Rows(&["850"])),
            ("b", "COMMIT", Done),
            ("a", "SELECT balance FROM account ORDER BY id", Rows(&["850", "600"])),
        ],
    );
}

/// The whole statement begins again: PostgreSQL looks at the new row alone, and reads other tables as they were.
#[test]
fn other_tables_are_read_again_after_a_wait() {
    let mut setup = ACCOUNTS.to_vec();
    setup.push("CREATE TABLE fee (account text PRIMARY KEY, amount int NOT NULL)");
    setup.push("INSERT INTO fee VALUES ('checking', 10)");
    for path in ["SET coeval.point_path = on", "SET coeval.point_path = off"] {
        let charge = "UPDATE account SET balance = balance - f.amount FROM fee f \
                      WHERE f.account = account.id AND account.id = 'checking'";
        let close = "DELETE FROM account WHERE id = 'savings' \
                     AND NOT EXISTS (SELECT 1 FROM fee f WHERE f.account = account.id)";
        run(
            &setup,
            &[
                ("b", path, Done),
                ("a", BEGIN, Done),
                ("b", BEGIN, Done),
                ("a", "UPDATE account SET balance = 500 WHERE id = 'checking'", Tag("UPDATE 1")),
                ("b", charge, Waits),
                ("a", "UPDATE fee SET amount = 20", Tag("UPDATE 1")),
                ("a", "COMMIT", Done),
                ("b", THEN, Tag("UPDATE 1")),
                ("b", "COMMIT", Done),
                ("a", "SELECT balance FROM account WHERE id = 'checking'", Rows(&["480"])),
                ("a", BEGIN, Done),
                ("b", BEGIN, Done),
                ("a", "UPDATE account SET balance = 500 WHERE id = 'savings'", Tag("UPDATE 1")),
                ("b", close, Waits),
                ("a", "INSERT INTO fee VALUES ('savings', 1)", Done),
                ("a", "COMMIT", Done),
                ("b", THEN, Tag("DELETE 0")),
                ("b", "COMMIT", Done),
            ],
        );
    }
}

#[test]
fn the_condition_is_looked_at_again_after_a_wait() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "UPDATE account SET balance = 100 WHERE id = 'checking'", Tag("UPDATE 1")),
            ("b", "UPDATE account SET balance = balance - 300 WHERE balance >= 300", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Tag("UPDATE 1")),
            ("b", "COMMIT", Done),
            ("a", "SELECT balance FROM account ORDER BY id", Rows(&["100", "300"])),
        ],
    );
}

#[test]
fn an_update_goes_on_with_the_old_row_if_the_other_rolls_back() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "UPDATE account SET balance = 0", Tag("UPDATE 2")),
            ("b", "UPDATE account SET balance = balance + 1 WHERE id = 'savings'", Waits),
            ("a", "ROLLBACK", Done),
            ("b", THEN, Tag("UPDATE 1")),
            ("b", "COMMIT", Done),
            ("a", "SELECT balance FROM account ORDER BY id", Rows(&["600", "601"])),
        ],
    );
}

#[test]
fn a_row_that_vanished_is_passed_over() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "DELETE FROM account WHERE id = 'checking'", Tag("DELETE 1")),
            ("b", "UPDATE account SET balance = 7 WHERE id = 'checking'", Waits),
            ("c", BEGIN, Done),
            ("c", "DELETE FROM account", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Tag("UPDATE 0")),
            ("b", "COMMIT", Done),
            ("c", THEN, Tag("DELETE 1")),
            ("c", "COMMIT", Done),
            ("a", "SELECT count(*) FROM account", Rows(&["0"])),
        ],
    );
}

#[test]
fn an_update_from_another_table_is_looked_at_again() {
    run(
        ACCOUNTS,
        &[
            ("a", "CREATE TABLE bonus (id text PRIMARY KEY, amount int)", Done),
            ("a", "INSERT INTO bonus VALUES ('checking', 5), ('savings', 7)", Done),
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "UPDATE account SET balance = balance * 2", Tag("UPDATE 2")),
            (
                "b",
                "UPDATE account SET balance = balance + amount FROM bonus \
                 WHERE bonus.id = account.id AND balance > 1000 RETURNING account.id, balance",
                Rows(&[]),
            ),
            (
                "b",
                "UPDATE account SET balance = balance + amount FROM bonus \
                 WHERE bonus.id = account.id RETURNING account.id, balance",
                Waits,
            ),
            ("a", "COMMIT", Done),
            ("b", THEN, Rows(&["checking 1205", "savings 1207"])),
            ("b", "COMMIT", Done),
        ],
    );
}

#[test]
fn returning_shows_the_row_that_was_deleted_and_not_the_one_that_was_found() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "UPDATE account SET balance = 3 WHERE id = 'savings'", Tag("UPDATE 1")),
            ("b", "DELETE FROM account WHERE id = 'savings' RETURNING balance", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Rows(&["3"])),
            ("b", "COMMIT", Done),
        ],
    );
}

#[test]
fn an_inserter_waits_for_another_of_the_same_key_and_then_fails_or_goes_on() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "INSERT INTO account VALUES ('new', 1)", Tag("INSERT 0 1")),
            ("b", "INSERT INTO account VALUES ('new', 2)", Waits),
            ("a", "ROLLBACK", Done),
            ("b", THEN, Tag("INSERT 0 1")),
            ("a", BEGIN, Done),
            ("a", "INSERT INTO account VALUES ('new', 3)", Waits),
            ("b", "COMMIT", Done),
            ("a", THEN, Fails("23505")),
            ("a", "ROLLBACK", Done),
            ("a", "SELECT balance FROM account WHERE id = 'new'", Rows(&["2"])),
        ],
    );
}

#[test]
fn an_inserter_waits_for_a_unique_value_that_another_gives_up() {
    run(
        &[
            "CREATE TABLE person (id int PRIMARY KEY, name text UNIQUE)",
            "INSERT INTO person VALUES (1, 'ann')",
        ],
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "UPDATE person SET name = 'bob' WHERE id = 1", Tag("UPDATE 1")),
            ("b", "INSERT INTO person VALUES (2, 'ann')", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Tag("INSERT 0 1")),
            ("b", "COMMIT", Done),
            ("b", BEGIN, Done),
            ("a", BEGIN, Done),
            ("a", "INSERT INTO person VALUES (3, 'eve')", Tag("INSERT 0 1")),
            ("b", "UPDATE person SET name = 'eve' WHERE id = 2", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Fails("23505")),
        ],
    );
}

#[test]
fn on_conflict_works_on_the_newest_row() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("c", BEGIN, Done),
            ("a", "INSERT INTO account VALUES ('new', 1)", Done),
            (
                "b",
                "INSERT INTO account VALUES ('new', 2) ON CONFLICT (id) DO UPDATE \
                 SET balance = account.balance + 10 * excluded.balance",
                Waits,
            ),
            ("c", "INSERT INTO account VALUES ('new', 3) ON CONFLICT DO NOTHING", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Tag("INSERT 0 1")),
            ("b", "COMMIT", Done),
            ("c", THEN, Tag("INSERT 0 0")),
            ("c", "COMMIT", Done),
            ("a", "SELECT balance FROM account WHERE id = 'new'", Rows(&["21"])),
        ],
    );
}

#[test]
fn on_conflict_of_several_rows_and_of_a_query_works_on_the_newest_rows() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "UPDATE account SET balance = 1 WHERE id = 'savings'", Done),
            (
                "b",
                "INSERT INTO account SELECT id, 5 FROM account ON CONFLICT (id) DO UPDATE \
                 SET balance = account.balance + excluded.balance",
                Waits,
            ),
            ("a", "COMMIT", Done),
            ("b", THEN, Tag("INSERT 0 2")),
            ("b", "COMMIT", Done),
            ("a", "SELECT balance FROM account ORDER BY id", Rows(&["605", "6"])),
        ],
    );
}

#[test]
fn children_of_one_parent_do_not_wait_and_its_other_columns_may_change() {
    run(
        &[
            "CREATE TABLE parent (id int PRIMARY KEY, note text)",
            "CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)",
            "INSERT INTO parent VALUES (1, 'x'), (2, 'y')",
        ],
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("c", BEGIN, Done),
            ("a", "INSERT INTO child VALUES (1, 1)", Done),
            ("b", "INSERT INTO child VALUES (2, 1)", Done),
            ("c", "UPDATE parent SET note = 'z' WHERE id = 1", Tag("UPDATE 1")),
            ("c", "COMMIT", Done),
            ("b", "UPDATE parent SET note = note || '!' WHERE id = 1", Tag("UPDATE 1")),
            ("a", "COMMIT", Done),
            ("b", "COMMIT", Done),
            ("a", "SELECT note FROM parent WHERE id = 1", Rows(&["z!"])),
        ],
    );
}

#[test]
fn a_parent_that_goes_waits_for_new_children_and_they_for_it() {
    run(
        &[
            "CREATE TABLE parent (id int PRIMARY KEY, note text)",
            "CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)",
            "INSERT INTO parent VALUES (1, 'x'), (2, 'y')",
        ],
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "INSERT INTO child VALUES (1, 1)", Done),
            ("b", "DELETE FROM parent WHERE id = 1", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Fails("23503")),
            ("b", "ROLLBACK", Done),
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("b", "DELETE FROM parent WHERE id = 2", Tag("DELETE 1")),
            ("a", "INSERT INTO child VALUES (2, 2)", Waits),
            ("b", "COMMIT", Done),
            ("a", THEN, Fails("23503")),
        ],
    );
}

#[test]
fn a_cascade_takes_the_children_that_were_committed_while_it_waited() {
    run(
        &[
            "CREATE TABLE parent (id int PRIMARY KEY)",
            "CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE, n int)",
            "INSERT INTO parent VALUES (1)",
            "INSERT INTO child VALUES (1, 1, 0)",
        ],
        &[
            ("a", BEGIN, Done),
            ("b", BEGIN, Done),
            ("a", "INSERT INTO child VALUES (2, 1, 0)", Done),
            ("a", "UPDATE child SET n = 1 WHERE id = 1", Done),
            ("b", "DELETE FROM parent", Waits),
            ("a", "COMMIT", Done),
            ("b", THEN, Tag("DELETE 1")),
            ("b", "COMMIT", Done),
            ("a", "SELECT count(*) FROM child", Rows(&["0"])),
        ],
    );
}

#[test]
fn locks_end_with_the_savepoint_that_they_were_taken_after() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("a", "SAVEPOINT s", Done),
            ("a", "UPDATE account SET balance = 0 WHERE id = 'checking'", Done),
            ("b", BEGIN, Done),
            ("b", "UPDATE account SET balance = balance + 1 WHERE id = 'checking'", Waits),
            ("a", "ROLLBACK TO SAVEPOINT s", Done),
            ("b", THEN, Tag("UPDATE 1")),
            ("b", "COMMIT", Done),
            ("a", "UPDATE account SET balance = balance + 1 WHERE id = 'checking'", Tag("UPDATE 1")),
            ("a", "COMMIT", Done),
            ("a", "SELECT balance FROM account WHERE id = 'checking'", Rows(&["602"])),
        ],
    );
}

#[test]
fn who_takes_no_locks_is_not_lost_either() {
    run(
        ACCOUNTS,
        &[
            ("a", SNAPSHOT, Done),
            ("a", "UPDATE account SET balance = balance + 1 WHERE id = 'checking'", Tag("UPDATE 1")),
            ("b", BEGIN, Done),
            ("b", "UPDATE account SET balance = balance + 10 WHERE id = 'checking'", Tag("UPDATE 1")),
            ("a", "COMMIT", Done),
            ("b", "SELECT balance FROM account ORDER BY id", Rows(&["610", "600"])),
            ("b", "COMMIT", CONFLICT),
            ("a", "SELECT balance FROM account WHERE id = 'checking'", Rows(&["601"])),
        ],
    );
}

#[test]
fn own_writes_are_kept_while_the_snapshot_moves() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("a", "INSERT INTO account VALUES ('x', 1), ('y', 2)", Done),
            ("a", "DELETE FROM account WHERE id = 'y'", Tag("DELETE 1")),
            ("b", "INSERT INTO account VALUES ('z', 3)", Done),
            ("b", "CHECKPOINT", Done),
            ("a", "UPDATE account SET balance = balance + 1 WHERE balance < 10", Tag("UPDATE 2")),
            ("b", "UPDATE account SET balance = 9 WHERE id = 'savings'", Done),
            (
                "a",
                "SELECT id, balance FROM account ORDER BY id",
                Rows(&["checking 600", "savings 9", "x 2", "z 4"]),
            ),
            ("a", "SELECT sum(balance) FROM account", Rows(&["615"])),
            ("a", "COMMIT", Done),
            ("b", "SELECT sum(balance) FROM account", Rows(&["615"])),
        ],
    );
}

#[test]
fn a_definition_that_others_changed_ends_the_transaction() {
    run(
        ACCOUNTS,
        &[
            ("a", BEGIN, Done),
            ("a", "UPDATE account SET balance = 0 WHERE id = 'checking'", Done),
            ("b", "ALTER TABLE account ADD COLUMN note text", Done),
            ("a", "SELECT * FROM account", CONFLICT),
        ],
    );
}
