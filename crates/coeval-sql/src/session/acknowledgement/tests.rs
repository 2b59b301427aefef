// SPDX-License-Identifier: Apache-2.0
//! `synchronous_commit` through SQL; what it waives survives crashes as `coeval-store` says (`crash_tests/waived.rs`).

use super::*;
use crate::engine::Engine;
use crate::session::Session;
use coeval_store::{Store, StoreOptions};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// Whether somebody has to wait for the disk before these statements are acknowledged.
fn waits(session: &mut Session, statements: &[&str]) -> bool {
    for sql in statements {
        session.execute(sql).unwrap();
    }
    let Some(publication) = session.publication() else { return false };
    let mut publication = std::pin::pin!(publication);
    let began = Instant::now();
    while publication.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        assert!(began.elapsed() < Duration::from_secs(60), "the disk does not answer");
        std::thread::yield_now();
    }
    true
}

#[test]
fn synchronous_commit_says_for_each_transaction_whether_its_commit_waits_for_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("db"), StoreOptions::default()).unwrap();
    let engine = Engine::new(store).unwrap();
    let mut session = engine.session();
    session.execute("CREATE TABLE t (n bigint PRIMARY KEY, v bigint)").unwrap();
    session.set_acknowledgement(Acknowledgement::LeftToCaller);
    let session = &mut session;
    let mut numbers = 0..;
    let mut insert = || format!("INSERT INTO t VALUES ({}, 0)", numbers.next().unwrap_or(0));

    assert!(waits(session, &[&insert()]), "by default");
    for off in ["off", "no", "false", "0"] {
        assert!(!waits(session, &[&format!("SET synchronous_commit = {off}")]));
        assert!(!waits(session, &[&insert()]), "by key, {off}");
        assert!(!waits(session, &["UPDATE t SET v = v + 1 WHERE n + 0 = 0"]), "through a plan, {off}");
        assert!(!waits(session, &["BEGIN", &insert(), &insert(), "COMMIT"]), "a block, {off}");
        assert!(!waits(session, &["CREATE TABLE made (n int PRIMARY KEY)", "DROP TABLE made"]), "{off}");
        assert!(waits(session, &["BEGIN", "SET LOCAL synchronous_commit = on", &insert(), "COMMIT"]));
        assert!(!waits(session, &[&insert()]), "LOCAL ends with its transaction");
    }
    // There are no replicas, so all others wait for the own disk.
    for on in ["on", "local", "remote_write", "remote_apply", "yes", "true", "1"] {
        assert!(!waits(session, &[&format!("SET synchronous_commit = {on}")]));
        assert!(waits(session, &[&insert()]), "{on}");
        assert!(
            !waits(session, &["BEGIN", "SET LOCAL synchronous_commit = off", &insert(), "COMMIT"]),
            "{on}"
        );
    }
}
