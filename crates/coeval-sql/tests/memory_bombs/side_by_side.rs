// SPDX-License-Identifier: Apache-2.0
//! Many queries at once, each of which holds much that it has not asked for.

use super::{ALONE, BESIDE, BUDGET, MIB, engine, peak, session};
use coeval_sql::SqlState;
use std::sync::Barrier;

const QUERIES: usize = 24;

/// What each may hold in any case: 4 MiB, and a value while it is copied.
const EACH: usize = 8 * MIB;

/// Copies a text of 3 MB in each batch, and keeps the copies until it has a batch of them.
const HOLDS: &str =
    "SELECT max(length(v)) FROM long_texts JOIN generate_series(1, 100000000) g ON n * 8192 = g % 24576";

/// Each query held 64 MiB before anybody was asked, so these held 1.5 GiB with a budget of 64 MiB. Fails if `beyond` (`memory/beside.rs`)
/// leaves each query what is free for all.
#[test]
fn what_many_queries_hold_without_asking_has_one_bound_and_small_ones_go_on() {
    let _alone = ALONE.lock();
    let engine = engine();
    let mut small = session(&engine);
    small
        .execute(
            "CREATE TABLE long_texts AS SELECT n, repeat('x', 3000000) AS v FROM generate_series(0, 2) s(n)",
        )
        .unwrap();
    let begin = Barrier::new(QUERIES + 1);
    let run = || {
        let mut session = engine.session();
        begin.wait();
        session.execute(HOLDS).map(drop)
    };
    let (outcomes, bytes) = peak(|| {
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..QUERIES).map(|_| scope.spawn(run)).collect();
            begin.wait();
            while running.iter().any(|query| !query.is_finished()) {
                small.execute("SELECT count(*) FROM generate_series(1, 1000)").unwrap();
            }
            running.into_iter().map(|query| query.join().unwrap()).collect::<Vec<_>>()
        })
    });
    for outcome in outcomes {
        let error = outcome.expect_err("it holds more than there is");
        assert_eq!(error.state, SqlState::OutOfMemory, "{error}");
    }
    let bound = BUDGET + BESIDE + QUERIES * EACH;
    assert!(bytes <= bound, "{} MiB at the peak, of {}", bytes / MIB, bound / MIB);
    // What was held is nobody's now.
    small
        .execute("SELECT count(*) FROM (SELECT n FROM generate_series(1, 100000) s(n) ORDER BY -n) s")
        .unwrap();
}
