// SPDX-License-Identifier: Apache-2.0
//! Statements that run at the same time share the threads for queries.

use coeval::{Database, Outcome, SqlState};
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until it is so, or for longer than anybody needs; whether it is.
fn becomes(is_so: impl Fn() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while !is_so() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    is_so()
}

#[test]
fn a_query_whose_client_does_not_read_holds_nobody_up() {
    let db = Database::in_memory().unwrap();
    let statements = || db.engine().query_turns().statements;
    let mut silent = db.session();
    let Outcome::Rows(mut rows) =
        silent.start("SELECT g FROM generate_series(1, 1000000000000) AS g").unwrap()
    else {
        panic!("it has rows")
    };
    rows.next().unwrap().unwrap();
    assert_eq!(statements(), 1);
    let sum = db.session().query("SELECT sum(g % 7) FROM generate_series(1, 700000) AS g").unwrap();
    assert_eq!(sum[0].num_rows(), 1);
    assert!(becomes(|| statements() == 1), "the other one has ended");
    drop(rows);
    assert!(becomes(|| statements() == 0));
}

#[test]
fn statements_that_never_end_wait_for_each_other_in_turn_and_end_when_they_are_cancelled() {
    let db = Database::in_memory().unwrap();
    std::thread::scope(|scope| {
        let running = [1, 2, 3].map(|rest| {
            let mut session = db.session();
            let handle = session.cancel_handle();
            let running = scope.spawn(move || {
                let series = "generate_series(1, 1000000::bigint)";
                session.query(&format!(
                    "SELECT count(*) FROM {series} AS g, {series} AS h WHERE (g * h) % 7 = {rest}"
                ))
            });
            (handle, running)
        });
        assert!(becomes(|| db.engine().query_turns().statements == 3));
        let before = db.engine().query_turns().waits;
        assert!(becomes(|| db.engine().query_turns().waits > before + 10));
        // Another one comes in between.
        db.session().query("SELECT count(*) FROM generate_series(1, 100000) AS g WHERE g % 3 = 0").unwrap();
        for (handle, running) in running {
            handle.cancel();
            let error = running.join().unwrap().unwrap_err();
            assert_eq!(error.state(), SqlState::QueryCanceled);
        }
    });
    assert!(becomes(|| db.engine().query_turns().statements == 0));
}

#[test]
#[cfg(target_os = "linux")]
fn a_database_opens_with_a_share_for_transactions() {
    let db = Database::options().transactions_share(75).in_memory().unwrap();
    let rows = db.session().query("SELECT sum(g) FROM generate_series(1, 1000) AS g").unwrap();
    assert_eq!(rows[0].num_rows(), 1);
}
