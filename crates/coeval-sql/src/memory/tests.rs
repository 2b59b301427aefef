// SPDX-License-Identifier: Apache-2.0
//! Queries that want more memory than there is: they spill or fail, and the others go on.

use super::*;
use crate::engine::Engine;
use crate::error::SqlState;
use crate::opening::template::session_state;
use crate::session::Session;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use coeval_store::{Store, StoreOptions};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::functions_aggregate::expr_fn::count_distinct;
use datafusion::prelude::{SessionContext, col};
use std::path::Path;
use std::time::Duration;

const MIB: usize = 1 << 20;

fn engine(bytes: usize, spill_directory: Option<&Path>) -> Arc<Engine> {
    let spill_directory = spill_directory.map(Path::to_path_buf);
    let memory = QueryMemory { bytes: Some(bytes), spill_directory, give_back: None };
    Engine::with_memory(Store::in_memory(StoreOptions::default()), &memory).unwrap()
}

/// Rows of about a hundred bytes, keys in no order.
fn fill(session: &mut Session, rows: usize) {
    session.execute("CREATE TABLE t (k bigint PRIMARY KEY, v bigint, text text)").unwrap();
    // In parts: what a statement adds is in the budget too.
    for first in (1..=rows).step_by(10_000) {
        let last = rows.min(first + 9_999);
        let sql = format!(
            "INSERT INTO t SELECT i, i::bigint * 7919 % 1000003, repeat('x', 80) || i
             FROM generate_series({first}, {last}) AS s(i)"
        );
        session.execute(&sql).unwrap();
    }
}

fn number(session: &mut Session, sql: &str) -> i64 {
    number_of(&session.execute(sql).unwrap())
}

fn number_of(results: &[crate::StatementResult]) -> i64 {
    let rows = results[0].rows.as_ref().unwrap();
    let column = rows.batches[0].column(0);
    column.as_any().downcast_ref::<arrow::array::Int64Array>().unwrap().value(0)
}

fn is_empty(engine: &Engine) -> bool {
    let taken = engine.queries.budget.taken.lock();
    taken.bytes == 0 && taken.large_queries == 0
}

/// Whether all memory comes back. The tasks of a query that failed are told to end, and have it until they have.
fn becomes_empty(engine: &Engine) -> bool {
    (0..30_000).any(|_| {
        let empty = is_empty(engine);
        if !empty {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        empty
    })
}

/// A session keeps the plan of a text that it may be sent again.
fn forget_plans(session: &mut Session) {
    session.execute("DISCARD PLANS").unwrap();
}

fn pool(budget: &Arc<MemoryBudget>) -> Arc<dyn MemoryPool> {
    Arc::new(QueryPool::new(budget))
}

#[test]
fn a_query_gets_what_there_is_but_for_what_is_left_to_those_that_come() {
    let budget = MemoryBudget::new(160 * MIB);
    let greedy = pool(&budget);
    let reservation = MemoryConsumer::new("join").register(&greedy);
    reservation.try_grow(119 * MIB).unwrap();
    let refused = reservation.try_grow(2 * MIB).unwrap_err();
    assert!(matches!(refused, DataFusionError::ResourcesExhausted(_)));
    assert_eq!(greedy.reserved(), 119 * MIB, "a refusal takes nothing");
    let other = pool(&budget);
    let others = MemoryConsumer::new("join").register(&other);
    others.try_grow(40 * MIB).unwrap();
    assert!(others.try_grow(2 * MIB).is_err());
    others.try_grow(0).unwrap();
    drop(reservation);
    others.try_grow(70 * MIB).unwrap();
    drop(others);
    assert_eq!(budget.taken.lock().bytes, 0);
    assert_eq!(budget.taken.lock().large_queries, 0);
}

#[test]
fn a_query_that_wants_little_gets_it_whatever_others_have() {
    let budget = MemoryBudget::new(16 * MIB);
    let pools: Vec<_> = (0..40).map(|_| pool(&budget)).collect();
    let large: Vec<_> = pools[..20]
        .iter()
        .map(|pool| {
            let reservation = MemoryConsumer::new("join").register(pool);
            while reservation.try_grow(MIB / 4).is_ok() {}
            reservation
        })
        .collect();
    assert!(budget.taken.lock().bytes <= 16 * MIB + 20 * SMALL_BYTES);
    for pool in &pools[20..] {
        MemoryConsumer::new("sort").register(pool).try_grow(SMALL_BYTES).unwrap();
    }
    drop(large);
    assert_eq!(budget.taken.lock().bytes, 0);
}

/// Each query could hold 64 MiB that it had not asked for outside of any budget, so many of them any amount. Fails if `beyond` leaves
/// each query what is free for all, or `take` does not look at `taken_beside_by_others`.
#[test]
fn what_queries_hold_beside_is_free_up_to_a_total_for_all_and_taken_of_the_budget_beyond() {
    let budget = MemoryBudget::new(160 * MIB);
    let (free, little) = (*beside::FREE, beside::LITTLE_BYTES);
    let [first, second, third] = [(); 3].map(|()| QueryPool::new(&budget));
    let note = |pool: &QueryPool, bytes: usize| pool.note_beside(isize::try_from(bytes).unwrap());
    note(&first, free);
    assert!(first.is_beside_free(0) && !first.is_beside_free(1));
    note(&second, little);
    assert!(second.is_beside_free(0), "a query that holds little finds no room for it");
    assert!(!first.is_beside_free(0) && first.room_beside().is_ok());
    note(&first, 96 * MIB);
    assert!(first.room_beside().is_ok(), "there is room for 100 MiB");

    let asking = pool(&budget);
    let asked_for = MemoryConsumer::new("join").register(&asking);
    assert!(asked_for.try_grow(70 * MIB).is_err(), "there are 160 MiB for all, and 100 of them are held");
    asked_for.try_grow(30 * MIB).unwrap();
    note(&third, 40 * MIB);
    assert!(third.room_beside().is_err() && second.room_beside().is_ok());

    first.note_beside(isize::try_from(free + 96 * MIB).unwrap().wrapping_neg());
    assert!(third.is_beside_free(0), "what is let go of is for the others");
    asked_for.try_grow(70 * MIB).unwrap();
}

/// "Decreasing allocation after spilling should succeed": an aggregation that had got nothing put its rows aside, and then
/// asked for its empty tables.
#[test]
fn an_operator_that_has_next_to_nothing_gets_it_whatever_its_query_has() {
    let budget = MemoryBudget::new(16 * MIB);
    let pool = pool(&budget);
    let join = MemoryConsumer::new("join").register(&pool);
    join.grow(16 * MIB);
    let spills = MemoryConsumer::new("aggregation").with_can_spill(true).register(&pool);
    assert!(spills.try_grow(EMPTY_OPERATOR_BYTES + 1).is_err());
    spills.try_resize(EMPTY_OPERATOR_BYTES).unwrap();
    assert!(spills.try_grow(1).is_err());
    drop((spills, join));
    assert_eq!(budget.taken.lock().bytes, 0);
}

#[test]
fn a_sort_that_does_not_fit_spills_to_the_directory_and_leaves_nothing_there() {
    let directory = tempfile::tempdir().unwrap();
    let spill = directory.path().join("spill");
    std::fs::create_dir(&spill).unwrap();
    std::fs::write(spill.join("left by another process"), "x").unwrap();
    let engine = engine(256 * MIB, Some(&spill));
    assert!(!spill.exists());
    let mut session = engine.session();
    fill(&mut session, 300_000);
    let sorted = "SELECT count(*) FROM (SELECT k, lag(v) OVER (ORDER BY text) AS before FROM t) AS s WHERE before IS NULL";
    assert_eq!(number(&mut session, sorted), 1);
    assert!(spill.exists(), "what a scan gives counts with the whole chunks behind it");
    forget_plans(&mut session);
    assert!(is_empty(&engine));
    let inside: Vec<_> = std::fs::read_dir(&spill).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(inside.iter().all(|path| std::fs::read_dir(path).unwrap().count() == 0), "{inside:?}");
    drop(session);
    drop(engine);
    assert_eq!(std::fs::read_dir(&spill).unwrap().count(), 0);
}

#[test]
fn an_aggregation_that_does_not_fit_spills_and_is_right_or_fails() {
    let groups =
        "SELECT count(*) FROM (SELECT text, count(*) AS c, sum(v) FROM t GROUP BY text) AS g WHERE c = 1";
    for bytes in [16 * MIB, 32 * MIB, 64 * MIB, 1_024 * MIB] {
        let engine = engine(bytes, None);
        let mut session = engine.session();
        fill(&mut session, 300_000);
        match session.execute(groups) {
            Ok(results) => assert_eq!(number_of(&results), 300_000),
            Err(error) => {
                assert_eq!(error.state, SqlState::OutOfMemory);
                assert!(bytes < 1_024 * MIB, "it fits there: {error:?}");
            }
        }
        forget_plans(&mut session);
        assert!(becomes_empty(&engine));
    }
}

/// Two threads put batches aside for a third at once, over and over: `ONE_BATCH` in `opening/template.rs`.
#[test]
fn exchanges_that_put_rows_aside_come_to_an_end() {
    let memory = QueryMemory { bytes: Some(QUERY_MEMORY_MIN), ..QueryMemory::default() };
    let environment = QueryEnvironment::new(&memory).unwrap();
    let others = pool(&environment.budget);
    let reservation = MemoryConsumer::new("join").register(&others);
    reservation.grow(QUERY_MEMORY_MIN);
    let session = || {
        let state = session_state(2, environment.query_max(), &Arc::default()).unwrap();
        let config = state.config().clone().with_batch_size(64);
        let state = SessionStateBuilder::new_from_existing(state).with_config(config);
        SessionContext::new_with_state(state.with_runtime_env(environment.of_statement()).build())
    };
    let rows = {
        let groups: Int64Array = (0..40_000).map(|i| i % 13).collect();
        let texts: StringArray = (0..40_000).map(|i| Some(format!("{:032}", i % 337))).collect();
        RecordBatch::try_from_iter([("g", Arc::new(groups) as ArrayRef), ("text", Arc::new(texts))]).unwrap()
    };
    let half = |from| {
        (from..from + 20_000).step_by(64).map(|at| rows.slice(at, 64.min(from + 20_000 - at))).collect()
    };
    let table = Arc::new(MemTable::try_new(rows.schema(), vec![half(0), half(20_000)]).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for _ in 0..300 {
        let groups = session().read_table(Arc::clone(&table) as _).unwrap();
        let groups = groups.aggregate(vec![col("g")], vec![count_distinct(col("text"))]).unwrap();
        let ended =
            runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), groups.count()).await });
        assert_eq!(ended.expect("the query ends").unwrap(), 13);
    }
}

#[test]
fn a_join_that_does_not_fit_fails_alone() {
    let engine = engine(16 * MIB, None);
    let mut session = engine.session();
    fill(&mut session, 300_000);
    let join = "SELECT count(*) FROM t AS a JOIN t AS b ON a.text = b.text";
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| {
            let mut session = engine.session();
            let error = session.execute(join).unwrap_err();
            assert_eq!(error.state, SqlState::OutOfMemory);
            assert_eq!(error.state.code(), "53200");
            assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("--query-memory")), "{error:?}");
        });
        for _ in 0..20 {
            let small = "SELECT count(*) FROM (SELECT v % 100, count(*) FROM t GROUP BY v % 100) AS g";
            assert_eq!(number(&mut session, small), 100);
        }
        joining.join().unwrap();
    });
    forget_plans(&mut session);
    assert!(becomes_empty(&engine));
}
