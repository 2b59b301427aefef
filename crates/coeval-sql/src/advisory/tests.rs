// SPDX-License-Identifier: Apache-2.0

use crate::engine::Engine;
use crate::error::SqlState;
use crate::session::Session;
use arrow::array::AsArray;
use coeval_store::{Store, StoreOptions};
use std::thread;

fn two_sessions() -> (Session, Session) {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    (engine.session(), engine.session())
}

/// The one value that a query gives, as text.
fn ask(session: &mut Session, sql: &str) -> String {
    try_ask(session, sql).unwrap()
}

fn try_ask(session: &mut Session, sql: &str) -> Result<String, SqlState> {
    let mut results = session.execute(sql).map_err(|error| error.state)?;
    let rows = results.pop().unwrap().rows.unwrap();
    let batch = rows.batches.iter().find(|batch| batch.num_rows() > 0).unwrap();
    let column = batch.column(0);
    Ok(match column.as_boolean_opt() {
        Some(truth) => if truth.value(0) { "t" } else { "f" }.to_owned(),
        None => column.as_string_view().value(0).to_owned(),
    })
}

fn takes(session: &mut Session, call: &str) -> bool {
    ask(session, &format!("SELECT {call}")) == "t"
}

fn run(session: &mut Session, sql: &str) {
    session.execute(sql).unwrap();
}

#[test]
fn a_session_lock_lasts_for_as_many_unlocks_as_locks_whatever_is_rolled_back() {
    let (mut one, mut other) = two_sessions();
    run(&mut one, "BEGIN");
    assert!(takes(&mut one, "pg_try_advisory_lock(7)"));
    run(&mut one, "ROLLBACK");
    ask(&mut one, "SELECT pg_advisory_lock(7)");
    assert!(!takes(&mut other, "pg_try_advisory_lock(7)"));
    assert!(takes(&mut other, "pg_try_advisory_lock(8)"), "another key is free");
    assert!(takes(&mut one, "pg_advisory_unlock(7)"));
    assert!(!takes(&mut other, "pg_try_advisory_lock(7)"), "it was locked twice");
    assert!(takes(&mut one, "pg_advisory_unlock(7)"));
    assert!(takes(&mut other, "pg_try_advisory_lock(7)"));
    assert!(!takes(&mut one, "pg_advisory_unlock(7)"), "nothing is left to unlock");
}

#[test]
fn a_transaction_lock_ends_with_its_block() {
    for end in ["COMMIT", "ROLLBACK"] {
        let (mut one, mut other) = two_sessions();
        run(&mut one, "BEGIN");
        assert!(takes(&mut one, "pg_try_advisory_xact_lock(1, 2)"));
        assert!(!takes(&mut one, "pg_advisory_unlock(1, 2)"));
        assert!(!takes(&mut other, "pg_try_advisory_lock(1, 2)"));
        assert!(takes(&mut other, "pg_try_advisory_lock(4294967298)"), "a number is no pair");
        run(&mut one, end);
        assert!(takes(&mut other, "pg_try_advisory_lock(1, 2)"), "{end}");
    }
}

#[test]
fn shared_locks_go_with_each_other_and_not_with_an_exclusive_one() {
    let (mut one, mut other) = two_sessions();
    assert!(takes(&mut one, "pg_try_advisory_lock_shared(1)"));
    assert!(takes(&mut other, "pg_try_advisory_lock_shared(1)"));
    assert!(!takes(&mut one, "pg_try_advisory_lock(1)"));
    assert!(takes(&mut other, "pg_advisory_unlock_shared(1)"));
    assert!(takes(&mut one, "pg_try_advisory_lock(1)"));
    assert!(!takes(&mut other, "pg_try_advisory_lock_shared(1)"));
    assert!(takes(&mut one, "pg_advisory_unlock(1)"));
    assert!(takes(&mut other, "pg_try_advisory_lock_shared(1)"), "what is left is shared");
    assert!(!takes(&mut other, "pg_try_advisory_lock(1)"));
}

#[test]
fn a_session_that_ends_or_discards_all_gives_its_locks_back() {
    let (mut one, mut other) = two_sessions();
    assert!(takes(&mut one, "pg_try_advisory_lock(1)"));
    run(&mut one, "DISCARD ALL");
    assert!(takes(&mut other, "pg_try_advisory_lock(1)"));
    drop(other);
    assert!(takes(&mut one, "pg_try_advisory_lock(1)"));
    ask(&mut one, "SELECT pg_advisory_unlock_all()");
    assert!(!takes(&mut one, "pg_advisory_unlock(1)"));
}

#[test]
fn who_waits_gets_the_lock_when_it_is_given_back() {
    let (mut one, mut other) = two_sessions();
    ask(&mut one, "SELECT pg_advisory_lock(1)");
    run(&mut other, "SET lock_timeout = '10ms'");
    assert_eq!(try_ask(&mut other, "SELECT pg_advisory_lock(1)"), Err(SqlState::LockNotAvailable));
    run(&mut other, "SET lock_timeout = 0");
    let waiter = thread::spawn(move || {
        ask(&mut other, "SELECT pg_advisory_lock(1)");
        other
    });
    while one.engine().advisory_locks().waiting_count() == 0 {
        thread::yield_now();
    }
    assert!(takes(&mut one, "pg_advisory_unlock(1)"));
    let _other = waiter.join().unwrap();
    assert!(!takes(&mut one, "pg_try_advisory_lock(1)"));
}

#[test]
fn a_circle_of_waits_is_broken() {
    let (mut one, mut other) = two_sessions();
    for session in [&mut one, &mut other] {
        run(session, "SET deadlock_timeout = '10ms'");
    }
    ask(&mut one, "SELECT pg_advisory_lock(1)");
    ask(&mut other, "SELECT pg_advisory_lock(2)");
    let waiter = thread::spawn(move || try_ask(&mut other, "SELECT pg_advisory_lock(1)"));
    let mine = try_ask(&mut one, "SELECT pg_advisory_lock(2)");
    // The other one may have gone on when this one was the victim, and the other way round.
    drop(one);
    let outcomes = [mine.err(), waiter.join().unwrap().err()];
    assert!(outcomes.contains(&Some(SqlState::DeadlockDetected)), "{outcomes:?}");
}

/// A lock for each of a million rows took memory without a bound, and at their end each lock was searched among all.
#[test]
fn a_session_has_a_bound_of_advisory_locks_which_are_there_again_when_they_are_unlocked() {
    let (mut one, mut other) = two_sessions();
    let take = "SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 20000) AS s(i)";
    assert_eq!(one.execute(take).map_err(|error| error.state).err(), Some(SqlState::ProgramLimitExceeded));
    assert!(one.execute("SELECT pg_try_advisory_lock(-1)").is_err());
    assert!(takes(&mut other, "pg_try_advisory_lock(-1)"), "another session has its own bound");
    run(&mut one, "SELECT pg_advisory_unlock_all()");
    assert_eq!(one.engine().quotas().advisory_locks.used(), 1);
    ask(&mut one, "SELECT pg_advisory_lock(7)");
    assert!(!takes(&mut other, "pg_try_advisory_lock(7)"));
    // What is refused is not counted, whatever is held of the key.
    ask(&mut one, "SELECT pg_advisory_lock_shared(-2)");
    ask(&mut other, "SELECT pg_advisory_lock_shared(-2)");
    assert!(!takes(&mut one, "pg_try_advisory_lock(-2)"));
    assert_eq!(one.engine().quotas().advisory_locks.used(), 4);
    drop(one);
    assert!(takes(&mut other, "pg_try_advisory_lock(7)"));
}
