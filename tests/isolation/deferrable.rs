// SPDX-License-Identifier: Apache-2.0
//! `READ ONLY DEFERRABLE`: a reader that waits until a safe snapshot has all that was there when it began.

use crate::script::{CONFLICT, Expected, Step, THEN, run};
use Expected::{Done, Fails, Rows, Tag, Waits};
use coeval_sql::{CancelReason, Engine};
use coeval_store::{Store, StoreOptions};

const SERIALIZABLE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";
const DEFERRABLE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE";

const SETUP: &[&str] = &[
    "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)",
    "INSERT INTO account VALUES (1, 0), (2, 0)",
];

/// A transaction that holds the boundary, and a commit beyond it.
const HELD: [Step; 3] = [
    ("w", SERIALIZABLE, Done),
    ("w", "SELECT balance FROM account WHERE id = 1", Rows(&["0"])),
    ("u", "UPDATE account SET balance = 20 WHERE id = 2", Tag("UPDATE 1")),
];

fn held(rest: &[Step]) {
    run(SETUP, &[&HELD, rest].concat());
}

/// The later one holds the boundary behind `u` and before `w`.
#[test]
fn it_waits_for_those_who_began_before_the_newest_commit_and_for_no_later_ones() {
    held(&[
        ("r", DEFERRABLE, Done),
        ("r", "SELECT balance FROM account ORDER BY id", Waits),
        ("later", SERIALIZABLE, Done),
        ("later", "UPDATE account SET balance = 30 WHERE id = 2", Tag("UPDATE 1")),
        ("w", "UPDATE account SET balance = 10 WHERE id = 1", Tag("UPDATE 1")),
        ("w", "COMMIT", Done),
        ("r", THEN, Rows(&["0", "20"])),
        ("later", "COMMIT", Done),
        ("r", "SELECT balance FROM account ORDER BY id", Rows(&["0", "20"])),
        ("r", "COMMIT", Done),
    ]);
}

/// Without the wait the reader gets what was there before both.
#[test]
fn without_the_word_it_reads_an_older_snapshot_at_once() {
    held(&[
        ("r", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY NOT DEFERRABLE", Done),
        ("r", "SELECT balance FROM account ORDER BY id", Rows(&["0", "0"])),
        ("r", "COMMIT", Done),
        ("w", "COMMIT", Done),
    ]);
}

#[test]
fn only_declared_readers_at_serializable_wait() {
    for begin in [
        "BEGIN ISOLATION LEVEL SERIALIZABLE, READ WRITE, DEFERRABLE",
        "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY, DEFERRABLE",
        "BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY, DEFERRABLE",
    ] {
        held(&[
            ("r", begin, Done),
            ("r", "SELECT balance FROM account ORDER BY id", Rows(&["0", "20"])),
            ("r", "COMMIT", Done),
            ("w", "COMMIT", Done),
        ]);
    }
}

/// It sees its own session's commit, because that is older than its BEGIN.
#[test]
fn it_finds_what_its_session_has_committed() {
    held(&[
        ("r", "UPDATE account SET balance = 21 WHERE id = 2", Tag("UPDATE 1")),
        ("r", DEFERRABLE, Done),
        ("r", "SELECT balance FROM account WHERE id = 2", Waits),
        ("w", "ROLLBACK", Done),
        ("r", THEN, Rows(&["21"])),
        ("r", "COMMIT", Done),
    ]);
}

/// A version is waited for, not a moment: nobody holds back what was current when it began.
#[test]
fn it_does_not_wait_for_one_that_began_with_the_newest_commit() {
    run(
        SETUP,
        &[
            ("w", SERIALIZABLE, Done),
            ("w", "UPDATE account SET balance = 10 WHERE id = 1", Tag("UPDATE 1")),
            ("r", DEFERRABLE, Done),
            ("r", "SELECT balance FROM account ORDER BY id", Rows(&["0", "0"])),
            ("w", "COMMIT", Done),
            ("r", "COMMIT", Done),
        ],
    );
}

/// What it waits for is fixed by BEGIN, or by SET TRANSACTION behind it.
#[test]
fn modes_may_be_set_until_the_first_query() {
    held(&[
        ("r", "BEGIN", Done),
        ("r", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE", Done),
        ("r", "SHOW transaction_deferrable", Rows(&["on"])),
        ("r", "SET transaction_deferrable = off", Done),
        ("r", "SELECT balance FROM account WHERE id = 2", Rows(&["0"])),
        ("r", "SET TRANSACTION DEFERRABLE", Fails("25001")),
        ("r", "ROLLBACK", Done),
        ("r", "SHOW transaction_deferrable", Rows(&["off"])),
        ("r", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, DEFERRABLE", Done),
        ("r", "SHOW default_transaction_deferrable", Rows(&["on"])),
        ("r", "SELECT balance FROM account WHERE id = 2", Waits),
        ("w", "COMMIT", Done),
        ("r", THEN, Rows(&["20"])),
        ("r", "SET default_transaction_deferrable = sometimes", Fails("22023")),
    ]);
}

#[test]
fn it_does_not_wait_for_one_that_may_be_passed() {
    held(&[
        ("u", "SET coeval.safe_snapshot_max_lag = '1ms'", Done),
        ("r", DEFERRABLE, Done),
        ("r", "SELECT balance FROM account WHERE id = 2", Rows(&["20"])),
        ("r", "COMMIT", Done),
        ("w", "SELECT balance FROM account WHERE id = 2", Rows(&["0"])),
        ("w", "UPDATE account SET balance = 10 WHERE id = 1", Tag("UPDATE 1")),
        ("w", "COMMIT", CONFLICT),
    ]);
}

#[test]
fn a_wait_is_cancelled_and_the_block_failed() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).expect("threads can be started");
    let mut writer = engine.session();
    SETUP.iter().for_each(|sql| drop(writer.execute(sql).unwrap()));
    writer.execute(SERIALIZABLE).unwrap();
    writer.execute("SELECT balance FROM account").unwrap();
    engine.session().execute("UPDATE account SET balance = 20 WHERE id = 2").unwrap();
    for reason in [CancelReason::Request, CancelReason::StatementTimeout] {
        let mut reader = engine.session();
        let cancel = reader.cancel_handle();
        let wait = std::thread::spawn(move || {
            reader.execute(DEFERRABLE).unwrap();
            let error = reader.execute("SELECT balance FROM account").unwrap_err();
            (error, reader.execute("SELECT 1").unwrap_err().state.code())
        });
        while engine.store().waiting_for_safe_snapshots() == 0 {
            std::thread::yield_now();
        }
        cancel.cancel_for(reason);
        let (error, afterwards) = wait.join().unwrap();
        assert_eq!((error.to_string(), afterwards), (reason.error().to_string(), "25P02"));
        assert_eq!(engine.store().waiting_for_safe_snapshots(), 0);
    }
}
