// SPDX-License-Identifier: Apache-2.0
//! Temporary tables whose commit ended without its outcome.

use coeval::{Database, Session};
use std::time::{Duration, Instant};

fn run(session: &mut Session, sql: &str) {
    for statement in sql.split("; ") {
        session.run(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn count(session: &mut Session) -> i64 {
    let batches = session.query("SELECT count(*) FROM passing").unwrap();
    let text = arrow::util::display::array_value_to_string(batches[0].column(0), 0).unwrap();
    text.parse().unwrap()
}

/// The commit that made the table waited for replicas and was cancelled (`08007`): nobody sees the table until they have it. The session's
/// next transaction did not see it either, and forgot what is to happen to it: its rows stayed for ever then. Fails if
/// `Transaction::may_have_table` does not look at the newest applied world.
#[test]
fn what_happens_to_a_table_on_commit_is_remembered_behind_a_commit_of_unknown_outcome() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let mut other = database.session();
    run(&mut other, "SET synchronous_standby_names = 'nobody'");
    let mut session = database.session();
    let cancel = session.cancel_handle();
    let before = database.store().applied_version();
    let making = std::thread::spawn(move || {
        run(&mut session, "BEGIN; CREATE TEMP TABLE passing (n int PRIMARY KEY) ON COMMIT DELETE ROWS");
        let state = session.run("COMMIT").map(drop).expect_err("it is cancelled").state();
        (session, state)
    });
    until("it does not commit", || database.store().applied_version() > before);
    cancel.cancel();
    let (mut session, state) = making.join().unwrap();
    assert_eq!(state.code(), "08007");
    assert!(session.run("SELECT * FROM passing").is_err(), "it is not seen yet");

    // Both of what looks for tables that are gone: another table, and a commit.
    run(&mut session, "BEGIN; CREATE TEMP TABLE second (n int PRIMARY KEY) ON COMMIT DELETE ROWS; ROLLBACK");
    run(&mut session, "BEGIN; SELECT 1; COMMIT");
    run(&mut other, "SET synchronous_standby_names = ''");
    until("it is not seen", || session.run("SELECT * FROM passing").is_ok());
    run(&mut session, "BEGIN; INSERT INTO passing VALUES (1), (2)");
    assert_eq!(count(&mut session), 2);
    run(&mut session, "COMMIT");
    assert_eq!(count(&mut session), 0);
}
