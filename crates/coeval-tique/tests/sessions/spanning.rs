// SPDX-License-Identifier: Apache-2.0
//! Transactions that somebody else decides about: prepared, decided, committed; killed at each step.

use crate::kills::{AFTER, BEFORE, CHANGE, CONTENTS, End, check_alive, is_one_change, prepare};
use crate::{all_options, database, kill_options, rows};
use coeval_tique::{Database, Decision, Options, SqlState};
use std::path::Path;
use std::sync::atomic::Ordering;

fn change() -> &'static str {
    CHANGE.strip_suffix("; COMMIT").expect("the change ends with it")
}

fn open_decided(directory: &Path, options: Options, decided: &[Decision]) -> Database {
    let engine = crate::persistent(directory);
    Database::open_decided(engine, options, decided).unwrap()
}

/// Whoever decides has the decision or not; nothing else counts, however far the engine came.
#[test]
fn killed_at_any_step_the_decision_counts_and_nothing_else() {
    for options in kill_options() {
        for end in [End::Before, End::After] {
            let (mut committed, mut aborted) = (0, 0);
            for step in 1..40 {
                let directory = tempfile::tempdir().unwrap();
                let (database, left) = prepare(directory.path(), end, options);
                let mut session = database.session().unwrap();
                left.store(step, Ordering::SeqCst);
                let mut decided = None;
                let is_over = session.execute(change()).is_ok()
                    && match session.prepare() {
                        Ok(prepared) => {
                            let prepared = prepared.unwrap();
                            decided = Some(prepared.decision());
                            prepared.commit().is_ok()
                        }
                        Err(_) => false,
                    };
                drop((session, database));
                let decided: Vec<_> = decided.into_iter().collect();
                // Twice: whoever opens it may be killed before the decision is forgotten.
                drop(open_decided(directory.path(), options, &decided));
                let database = open_decided(directory.path(), options, &decided);
                let mut session = database.session().unwrap();
                let expected = if decided.is_empty() { BEFORE } else { AFTER };
                assert_eq!(rows(&mut session, CONTENTS), expected, "step {step} with {options:?}");
                let others = if decided.is_empty() { "0" } else { "1" };
                assert_eq!(rows(&mut session, "SELECT count(*) FROM u"), [others], "step {step}");
                if decided.is_empty() {
                    aborted += 1
                } else {
                    committed += 1
                }
                check_alive(&database);
                if is_over {
                    break;
                }
                assert!(step < 39, "a spanning commit has fewer steps");
            }
            let least = if is_one_change(options) { 2 } else { 3 };
            assert!(
                aborted >= least && committed > 1,
                "{aborted} aborted, {committed} committed, {options:?}"
            );
        }
    }
}

#[test]
fn a_prepared_transaction_is_seen_by_nobody_and_refuses_others_until_it_ends() {
    for options in all_options() {
        let database = database(options);
        let mut sessions: Vec<_> = (0..3).map(|_| database.session().unwrap()).collect();
        sessions[0]
            .execute("CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0)")
            .unwrap();
        for ending in ["commit", "abort"] {
            sessions[0].execute("BEGIN; UPDATE t SET v = v + 1 WHERE k = 1").unwrap();
            sessions[1].execute("BEGIN; UPDATE t SET v = v + 1 WHERE k = 1").unwrap();
            let prepared = sessions[0].prepare().unwrap().unwrap();
            assert!(!sessions[0].is_in_block());
            let before = rows(&mut sessions[2], "SELECT v FROM t WHERE k = 1");
            let refused = sessions[1].prepare().map(drop).unwrap_err();
            assert_eq!(refused.state, SqlState::SerializationFailure, "{options:?}");
            database.checkpoint().unwrap();
            assert_eq!(rows(&mut sessions[2], "SELECT v FROM t WHERE k = 1"), before, "{options:?}");
            match ending {
                "commit" => prepared.commit().unwrap(),
                _ => drop(prepared),
            }
            assert_eq!(rows(&mut sessions[2], "SELECT v FROM t WHERE k = 1"), ["1"], "{ending}, {options:?}");
            // The start timestamp has passed it.
            sessions[1].execute("UPDATE t SET v = v + 1 WHERE k = 2").unwrap();
        }
        assert_eq!(rows(&mut sessions[1], "SELECT v FROM t ORDER BY k"), ["1", "2"], "{options:?}");
        assert!(sessions[1].execute("BEGIN").is_ok() && sessions[1].prepare().unwrap().is_none());
    }
}

#[test]
fn an_undecided_transaction_stops_commits_and_is_settled_by_who_opens_again() {
    for is_decided in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { checkpoint_at: 0, ..Options::default() };
        let (database, _) = prepare(directory.path(), End::Before, options);
        let mut session = database.session().unwrap();
        session.execute(change()).unwrap();
        let prepared = session.prepare().unwrap().unwrap();
        let decision = prepared.decision();
        prepared.leave_to_recovery("nobody knows");
        let refused = session.execute("INSERT INTO u VALUES (5)").map(drop).unwrap_err();
        assert_eq!(refused.state, SqlState::CannotConnectNow);
        drop((session, database));
        let decided = [decision];
        let database = open_decided(directory.path(), options, if is_decided { &decided } else { &[] });
        let expected = if is_decided { AFTER } else { BEFORE };
        assert_eq!(rows(&mut database.session().unwrap(), CONTENTS), expected);
        check_alive(&database);
    }
}
