// SPDX-License-Identifier: Apache-2.0
//! Statements that make much of little: each ends with its error, in bounded memory, and soon after it is cancelled.
#![allow(clippy::unwrap_used)]

use coeval_sql::{Engine, QueryMemory, Session, SqlState};
use coeval_store::{Store, StoreOptions};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// What all queries may have.
const BUDGET: usize = 64 * MIB;

/// What a statement may take beyond its budget: batches on their way, copies of a value while it is made.
const BESIDE: usize = 192 * MIB;

/// A statement that was asked to end has ended by then, also on a machine with much to do. The promise is 100 ms.
const SOON: Duration = Duration::from_secs(2);

/// Held by each test: the memory of the process is measured, and there is to be no work of others in it.
static ALONE: Mutex<()> = Mutex::new(());

fn engine() -> Arc<Engine> {
    let memory = QueryMemory { bytes: Some(BUDGET), spill_directory: None };
    Engine::with_memory(Store::in_memory(StoreOptions::default()), &memory).unwrap()
}

/// A line of `/proc/self/status`, in bytes.
fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() << 10
}

/// What this adds to the memory of the process at most, while it runs.
fn peak<T>(run: impl FnOnce() -> T) -> (T, usize) {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS");
    let outcome = run();
    (outcome, status("VmHWM").saturating_sub(before))
}

const TOO_LARGE: &[SqlState] = &[SqlState::ProgramLimitExceeded];
const NO_MEMORY: &[SqlState] = &[SqlState::OutOfMemory];
/// Whichever bound it meets first.
const EITHER: &[SqlState] = &[SqlState::ProgramLimitExceeded, SqlState::OutOfMemory];
const FINE: &[SqlState] = &[];

/// Each with the states that it may end with; none if it is to run.
const BOMBS: &[(&str, &[SqlState])] = &[
    ("SELECT count(*) FROM generate_series(1, 20000000::bigint)", FINE),
    ("SELECT generate_series(1, 100000000::bigint) LIMIT 10", FINE),
    ("SELECT generate_series(1, 9000000000000000000) LIMIT 10", FINE),
    ("SELECT generate_series(1, 100000000.5) LIMIT 10", NO_MEMORY),
    ("SELECT generate_series(timestamp '2022-01-01', timestamp 'infinity', '1 second') LIMIT 10", NO_MEMORY),
    ("SELECT n, generate_series(1, n * 100000000) FROM (VALUES (1)) v(n)", NO_MEMORY),
    ("SELECT repeat('x', 2000000000)", TOO_LARGE),
    ("SELECT repeat('x', 500000000)", NO_MEMORY),
    ("SELECT length(repeat(repeat('x', 1000), 1000000))", NO_MEMORY),
    ("SELECT length(repeat('x', n)) FROM generate_series(1000000, 1008000) s(n)", EITHER),
    ("SELECT lpad('x', 1000000000)", NO_MEMORY),
    ("SELECT lpad('x', 2000000000)", TOO_LARGE),
    ("SELECT rpad('x', 1000000000, 'abc')", NO_MEMORY),
    ("SELECT replace(repeat('a', 100000), 'a', repeat('b', 100000))", TOO_LARGE),
    ("SELECT format('%67000000s', 'x')", NO_MEMORY),
    ("SELECT array_fill(1, ARRAY[100000000])", NO_MEMORY),
    ("SELECT array_fill('a long text that is repeated'::text, ARRAY[100000000])", TOO_LARGE),
    ("SELECT string_to_array(repeat('a,', 20000000), ',')", NO_MEMORY),
    ("SELECT to_char(1, repeat('9', 10000000))", TOO_LARGE),
    ("SELECT to_char(timestamp '2022-01-01', repeat('YYYY', 1000000))", TOO_LARGE),
    ("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 2000000) s(n)", NO_MEMORY),
    (
        "INSERT INTO t SELECT -n, repeat('x', 1000) FROM generate_series(1, 2000000) s(n) RETURNING n",
        NO_MEMORY,
    ),
    ("UPDATE rows SET v = repeat('x', 10000)", NO_MEMORY),
    (
        "BEGIN; DECLARE c CURSOR FOR SELECT n, repeat('x', 100) FROM generate_series(1, 2000000) s(n)",
        NO_MEMORY,
    ),
];

fn session(engine: &Arc<Engine>) -> Session {
    let mut session = engine.session();
    session.execute("CREATE TABLE IF NOT EXISTS t (n bigint PRIMARY KEY, v text)").unwrap();
    session
}

#[test]
fn a_memory_bomb_ends_with_its_error_in_bounded_memory() {
    let _alone = ALONE.lock();
    let engine = engine();
    let mut session = session(&engine);
    session.execute("CREATE TABLE rows (n bigint PRIMARY KEY, v text)").unwrap();
    session.execute("INSERT INTO rows SELECT n, 'a' FROM generate_series(1, 20000) s(n)").unwrap();
    let many: Vec<String> = (0..300_000).map(|n| format!("({n},'')")).collect();
    let values = format!("INSERT INTO t VALUES {}", many.join(","));
    let listed: Vec<String> = (0..300_000).map(|n| n.to_string()).collect();
    let list = format!("SELECT n FROM t WHERE n IN ({})", listed.join(","));
    let texts = [(&*values, NO_MEMORY), (&*list, NO_MEMORY)];
    let mut wrong = Vec::new();
    for (sql, states) in BOMBS.iter().copied().chain(texts) {
        let (outcome, bytes) = peak(|| session.execute(sql).map(drop));
        // The session goes on, whatever became of it.
        let _ = session.execute("ROLLBACK");
        session.execute("SELECT 1").unwrap();
        let shown = &sql[..sql.len().min(80)];
        let is_right = match &outcome {
            Ok(()) => states.is_empty(),
            Err(error) => states.contains(&error.state),
        };
        if !is_right {
            wrong.push(format!("{shown}: {outcome:?}"));
        }
        if bytes > BUDGET + BESIDE {
            wrong.push(format!("{shown}: {} MiB at the peak", bytes / MIB));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_transaction_of_many_statements_ends_at_the_limit_and_gives_its_memory_back() {
    let _alone = ALONE.lock();
    let engine = engine();
    let mut session = session(&engine);
    for _ in 0..2 {
        session.execute("BEGIN").unwrap();
        let error = (0..100_000)
            .find_map(|n| session.execute(&format!("INSERT INTO t VALUES ({n}, repeat('x', 10000))")).err());
        let error = error.unwrap();
        assert_eq!(error.state, SqlState::OutOfMemory, "{error}");
        session.execute("ROLLBACK").unwrap();
    }
    session.execute("INSERT INTO t VALUES (1, 'a')").unwrap();
}

#[test]
fn a_long_statement_ends_soon_after_it_is_cancelled() {
    let _alone = ALONE.lock();
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = session(&engine);
    for statement in [
        "SELECT generate_series(timestamp '2022-01-01', timestamp 'infinity', '1 second') LIMIT 10",
        "SELECT count(*) FROM generate_series(1, 9000000000000000000)",
        "SELECT sum(length(repeat('x', (n % 1000)::int))) FROM generate_series(1, 9000000000000000000) s(n)",
        "SELECT array_fill(1, ARRAY[n]) FROM generate_series(100000000, 100000100) s(n)",
        "SELECT string_to_array(repeat('a,', 100000 + n), ',') FROM generate_series(1, 100000000) s(n)",
    ] {
        let handle = session.cancel_handle();
        let (outcome, took) = std::thread::scope(|scope| {
            let running = scope.spawn(|| (session.execute(statement).map(drop), Instant::now()));
            // Until it is in the middle of what takes long.
            std::thread::sleep(Duration::from_millis(300));
            let asked = Instant::now();
            handle.cancel();
            let (outcome, ended) = running.join().unwrap();
            (outcome, ended.saturating_duration_since(asked))
        });
        if let Err(error) = outcome {
            assert_eq!(error.state, SqlState::QueryCanceled, "{statement}: {error}");
        }
        assert!(took < SOON, "{statement}: {took:?}");
    }
}
