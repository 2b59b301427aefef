// SPDX-License-Identifier: Apache-2.0
//! Statements that make much of little: each ends with its error, in bounded memory, and soon after it is cancelled.
#![allow(clippy::unwrap_used)]

use coeval_sql::{Engine, Execution, QueryMemory, Session, SqlError, SqlState};
use coeval_store::{CountingAllocator, Store, StoreOptions};
use parking_lot::Mutex;
use std::alloc::System;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// As the program's does: what nobody asks for is seen.
#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator(System);

const MIB: usize = 1 << 20;

/// What all queries may have.
const BUDGET: usize = 64 * MIB;

/// What a statement may take beyond its budget: batches on their way, copies of a value while it is made.
const BESIDE: usize = 192 * MIB;

/// What is promised is 100 ms, for a program that is compiled as it is released, on a machine that has nothing else to do. One that
/// is compiled with less optimization, as CI has it, on a machine that others use, has taken nine times as much.
const STOP_MS: u64 = 1_000;

/// How long a statement may go on after it was asked to end, by the clock and as processor time of each thread: `STOP_MS`, or
/// what `COEVAL_STOP_MS` says.
static SOON: LazyLock<Duration> = LazyLock::new(|| {
    let told = std::env::var("COEVAL_STOP_MS").ok().map(|text| text.parse().unwrap());
    Duration::from_millis(told.unwrap_or(STOP_MS))
});

/// Held by each test: the memory of the process is measured, and there is to be no work of others in it.
static ALONE: Mutex<()> = Mutex::new(());

fn engine() -> Arc<Engine> {
    engine_with(BUDGET)
}

fn engine_with(bytes: usize) -> Arc<Engine> {
    let memory = QueryMemory { bytes: Some(bytes), ..QueryMemory::default() };
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
    ("SELECT generate_series(1, 100000000.5) LIMIT 10", FINE),
    ("SELECT generate_series(timestamp '2022-01-01', timestamp 'infinity', '1 second') LIMIT 10", FINE),
    ("SELECT generate_series(timestamp '2022-01-01', 'infinity', '1 month') LIMIT 10", FINE),
    ("SELECT * FROM generate_series(timestamp '2022-01-01', 'infinity', '1 second') LIMIT 10", FINE),
    ("SELECT n, generate_series(1, n * 1000000000000) FROM (VALUES (1)) v(n) LIMIT 10", FINE),
    ("SELECT generate_series(1, 1000000000000), unnest(ARRAY[1, 2]) LIMIT 10", FINE),
    // Its rows are collected for each row before it.
    ("SELECT g FROM (VALUES (1)) v(n), generate_series(n, 1000000000000) g LIMIT 10", NO_MEMORY),
    ("SELECT n FROM (VALUES (1)) v(n) WHERE EXISTS (SELECT FROM generate_series(n, 1000000000000))", FINE),
    ("SELECT count(*) FROM generate_series(timestamp '2022-01-01', '2022-03-01', '1 second') s", FINE),
    ("SELECT ARRAY(SELECT g FROM generate_series(1, 100000000.5) g)", NO_MEMORY),
    ("SELECT array_agg(repeat('x', 10000) || n) FROM generate_series(1, 1000000) s(n)", NO_MEMORY),
    (
        "SELECT n % 3, array_agg(repeat('x', 1000) || n) FROM generate_series(1, 1000000) s(n) GROUP BY 1",
        NO_MEMORY,
    ),
    (
        "SELECT n % 3, string_agg(repeat('x', 1000) || n, '') FROM generate_series(1, 1000000) s(n) GROUP BY 1",
        NO_MEMORY,
    ),
    ("SELECT jsonb_agg(repeat('x', 1000) || n) FROM generate_series(1, 1000000) s(n)", NO_MEMORY),
    ("SELECT json_object_agg(n, repeat('x', 1000) || n) FROM generate_series(1, 1000000) s(n)", NO_MEMORY),
    ("SELECT array_agg(DISTINCT repeat('x', 1000) || n) FROM generate_series(1, 1000000) s(n)", NO_MEMORY),
    ("SELECT array_agg(repeat('x', 1000) || n ORDER BY -n) FROM generate_series(1, 1000000) s(n)", NO_MEMORY),
    (
        "SELECT string_agg(repeat('x', 1000) || n, ',' ORDER BY -n) FROM generate_series(1, 1000000) s(n)",
        NO_MEMORY,
    ),
    ("SELECT sum(n) OVER () FROM generate_series(1, 100000000) s(n)", NO_MEMORY),
    (
        "SELECT count(overlay(repeat('x', 1000000) placing n::text from 5)) FROM generate_series(1, 100000) s(n)",
        NO_MEMORY,
    ),
    ("SELECT repeat('x', 2000000000)", TOO_LARGE),
    ("SELECT repeat('x', 500000000)", NO_MEMORY),
    ("SELECT length(repeat(repeat('x', 1000), 1000000))", NO_MEMORY),
    ("SELECT length(repeat('x', n)) FROM generate_series(1000000, 1008000) s(n)", EITHER),
    ("SELECT lpad('x', 1000000000)", NO_MEMORY),
    ("SELECT lpad('x', 2000000000)", TOO_LARGE),
    ("SELECT rpad('x', 1000000000, 'abc')", NO_MEMORY),
    ("SELECT replace(repeat('a', 100000), 'a', repeat('b', 100000))", NO_MEMORY),
    ("SELECT format('%67000000s', 'x')", NO_MEMORY),
    ("SELECT array_fill(1, ARRAY[100000000])", NO_MEMORY),
    ("SELECT array_fill('a long text that is repeated'::text, ARRAY[100000000])", TOO_LARGE),
    ("SELECT string_to_array(repeat('a,', 20000000), ',')", NO_MEMORY),
    ("SELECT to_char(1, repeat('9', 10000000))", TOO_LARGE),
    ("SELECT to_char(timestamp '2022-01-01', repeat('YYYY', 1000000))", TOO_LARGE),
    ("SELECT string_to_array(repeat('a,', 100000), ',') FROM generate_series(1, 100000000)", TOO_LARGE),
    ("SELECT repeat('x', 1000000) FROM generate_series(1, 100000000)", TOO_LARGE),
    ("SELECT repeat('x', 200000) FROM generate_series(1, 100000000)", NO_MEMORY),
    ("SELECT string_agg(repeat('x', 100000), ',') FROM generate_series(1, 100000)", NO_MEMORY),
    ("SELECT json_agg(repeat('x', 100000)) FROM generate_series(1, 100000)", NO_MEMORY),
    ("SELECT length(repeat('x', 1000000) || 'y') FROM generate_series(1, 100000000)", NO_MEMORY),
    ("SELECT repeat('x', 16000000) || repeat('x', 40000000)", NO_MEMORY),
    ("SELECT count(*) FROM single WHERE length(repeat(v, 16000000) || repeat(v, 40000000)) > 0", NO_MEMORY),
    ("SELECT length(repeat(v, 16000000)::bytea || repeat(v, 40000000)::bytea) FROM single", NO_MEMORY),
    (
        "SELECT v || repeat(v, 16000000) || repeat(v, 40000000), count(*) FROM single GROUP BY ROLLUP (v || repeat(v, 16000000) || repeat(v, 40000000))",
        NO_MEMORY,
    ),
    ("SELECT length(repeat('x', 16000000) || repeat('y', 16000000) || repeat('z', 32000000))", NO_MEMORY),
    ("SELECT length(repeat('x', n) || repeat('y', n)) FROM generate_series(400000, 400100) s(n)", NO_MEMORY),
    ("SELECT length(n || repeat('x', 1000000)) FROM generate_series(1, 100000) s(n)", TOO_LARGE),
    ("SELECT length(concat(n, repeat('x', 1000000))) FROM generate_series(1, 100000) s(n)", TOO_LARGE),
    ("SELECT length(concat_ws(repeat('x', 1000000), n, n)) FROM generate_series(1, 100000) s(n)", TOO_LARGE),
    ("SELECT array_append(array_fill(1, ARRAY[100000]), n) FROM generate_series(1, 100000) s(n)", TOO_LARGE),
    ("SELECT array_fill(1, ARRAY[100000]) || n FROM generate_series(1, 100000) s(n)", TOO_LARGE),
    ("SELECT ARRAY[repeat('x', 1000000), n::text] FROM generate_series(1, 100000) s(n)", TOO_LARGE),
    ("SELECT array_to_string(array_fill('a'::text, ARRAY[100000]), repeat('x', 100000))", NO_MEMORY),
    ("SELECT array_repeat(1, 1000000000)", &[SqlState::UndefinedFunction]),
    ("SELECT range(1, 1000000000)", &[SqlState::UndefinedFunction]),
    ("SELECT regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000), 'g')", NO_MEMORY),
    (r"SELECT regexp_replace(repeat('a', 100000), '(.*)', repeat('\1', 50000))", NO_MEMORY),
    ("SELECT regexp_split_to_array(repeat('a', 10000000), '')", NO_MEMORY),
    (
        "SELECT CASE WHEN n > 5 THEN repeat('x', 1000000) ELSE 'a' END FROM generate_series(1, 100000) s(n)",
        TOO_LARGE,
    ),
    ("SELECT lag(repeat('x', 1000000)) OVER (ORDER BY n) FROM generate_series(1, 100000) s(n)", TOO_LARGE),
    ("SELECT jsonb_build_array(repeat('x', 1000000), n) FROM generate_series(1, 100000) s(n)", TOO_LARGE),
    ("SELECT jsonb_array_elements(('[' || repeat('1,', 3000000) || '2]')::jsonb)", NO_MEMORY),
    ("SELECT v FROM (SELECT repeat('x', 1000000) v) a CROSS JOIN generate_series(1, 100000) b", NO_MEMORY),
    (
        "SELECT count(x.a[1] + g) FROM (SELECT array_agg(n) a FROM generate_series(1, 300000) s(n)) x, generate_series(1, 3000) g",
        NO_MEMORY,
    ),
    (
        "SELECT count(*) FROM (SELECT array_agg(n) a FROM generate_series(1, 300000) s(n)) x JOIN generate_series(1, 3000) g ON x.a[g] = -g",
        FINE,
    ),
    (
        "SELECT count(a[n]) FROM (SELECT a, unnest(a[1:3000]) n FROM (SELECT array_agg(n) a FROM generate_series(1, 300000) s(n)) x) y",
        NO_MEMORY,
    ),
    // Of thousands of batches a row each, which operators copy, or keep, until they have a batch together.
    (
        "SELECT max(length(v)) FROM long_texts JOIN generate_series(1, 100000000) g ON n * 8192 = g % 24576",
        NO_MEMORY,
    ),
    (
        "SELECT max(a[1]) FROM long_arrays JOIN generate_series(1, 100000000) g ON n * 8192 = g % 24576",
        NO_MEMORY,
    ),
    (
        "SELECT max(a[1]) FROM long_arrays JOIN generate_series(1, 100000000) g ON n * 8192 > g % 24576 AND n * 8192 < g % 24576 + 2",
        NO_MEMORY,
    ),
    (
        "SELECT max(length(v)) FROM (SELECT CASE WHEN n % 8192 = 1 THEN repeat('x', 3000000 + (random() * 2)::int) END v FROM generate_series(1, 100000000) s(n)) x WHERE v IS NOT NULL",
        NO_MEMORY,
    ),
    ("SELECT count(*) FROM generate_series(1, 100000) s(n) WHERE n::text = repeat('x', 1000000)", FINE),
    (
        "SELECT n FROM generate_series(1, 1000) s(n) WHERE n = ANY (string_to_array(rtrim(repeat('1,', 100000), ','), ',')::int[])",
        NO_MEMORY,
    ),
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
    session.execute("CREATE TABLE single AS SELECT 'x' AS v").unwrap();
    session.execute("INSERT INTO rows SELECT n, 'a' FROM generate_series(1, 20000) s(n)").unwrap();
    for (name, value) in
        [("long_texts", "repeat('x', 3000000) AS v"), ("long_arrays", "array_fill(n, ARRAY[300000]) AS a")]
    {
        session
            .execute(&format!("CREATE TABLE {name} AS SELECT n, {value} FROM generate_series(0, 2) s(n)"))
            .unwrap();
    }
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

/// What they have made and let go of is many times what a query may have.
#[test]
fn a_query_that_holds_little_is_not_refused_however_much_it_has_made() {
    let _alone = ALONE.lock();
    let engine = engine();
    let mut session = session(&engine);
    let rows = "SELECT n, repeat('x', 40) || n AS v, repeat('y', 40) || n AS w FROM generate_series";
    session.execute(&format!("CREATE TABLE inner_rows AS {rows}(1, 10000) s(n)")).unwrap();
    session.execute(&format!("CREATE TABLE outer_rows AS {rows}(1, 1000) s(n)")).unwrap();
    // Each outer value has a join of its own.
    let correlated = "SELECT count(*) FROM outer_rows o WHERE o.n <= 300 AND EXISTS \
        (SELECT 1 FROM inner_rows a JOIN inner_rows b ON a.v = b.v AND a.w = b.w WHERE a.n < o.n - 299)";
    session.execute(correlated).unwrap();
    // Few rows of each batch find one, and are copied.
    let streamed = "SELECT v || g, w || g, v, w, v || w FROM outer_rows JOIN generate_series(1, 3000000) g ON n = g % 3000";
    let statement = session.parse(streamed).unwrap().pop().unwrap();
    let Execution::Stream(mut stream) = session.start(&statement).unwrap() else { panic!("no stream") };
    let mut count = 0;
    while let Some(batch) = stream.next_blocking() {
        count += batch.unwrap().num_rows();
    }
    assert_eq!(count, 1_000_000);
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

/// Feeds a COPY piece by piece; how it ended.
fn copied(session: &mut Session, sql: &str, pieces: impl Iterator<Item = String>) -> Result<(), SqlError> {
    let statement = session.parse(sql).unwrap().pop().unwrap();
    let Execution::CopyIn(mut copy) = session.start(&statement).unwrap() else { panic!("{sql}: no COPY") };
    for piece in pieces {
        session.feed_copy(&mut copy, piece.as_bytes())?;
    }
    session.finish_copy(*copy).map(drop)
}

/// `coeval.copy_memory` is a setting, which anybody may set: what COPY keeps is in the budget all the same.
#[test]
fn what_copy_keeps_of_rows_and_of_a_record_without_an_end_is_in_the_budget() {
    let _alone = ALONE.lock();
    let engine = engine();
    let mut session = session(&engine);
    session.execute("CREATE TABLE indexed (n bigint PRIMARY KEY, v text)").unwrap();
    session.execute("CREATE INDEX ON indexed (v)").unwrap();
    session.execute("SET coeval.copy_memory = '1TB'").unwrap();
    let row = |n: usize| format!("{n}\t{}\n", "x".repeat(1_000));
    let piece = |first: usize| (0..1_000).map(|n| row(first + n)).collect::<String>();
    let bombs: [(&str, &str, Box<dyn Iterator<Item = String>>); 5] = [
        (
            "rows of a table with indexes",
            "COPY indexed FROM STDIN",
            Box::new((0..500).map(|n| piece(n * 1_000))),
        ),
        ("rows in no order", "COPY t FROM STDIN", Box::new((0..500).map(|n| piece((500 - n) * 1_000)))),
        ("a record without an end", "COPY t FROM STDIN", Box::new((0..10_000).map(|_| "x".repeat(100_000)))),
        (
            "a quote without an end",
            "COPY t FROM STDIN (FORMAT csv)",
            Box::new(std::iter::once("1,\"".to_owned()).chain((0..10_000).map(|_| "x\n".repeat(50_000)))),
        ),
        (
            "another escape, one thread",
            "COPY t FROM STDIN (FORMAT csv, ESCAPE '!')",
            Box::new(std::iter::once("1,\"".to_owned()).chain((0..10_000).map(|_| "x\n".repeat(50_000)))),
        ),
    ];
    for (what, sql, pieces) in bombs {
        let (outcome, bytes) = peak(|| copied(&mut session, sql, pieces));
        let error = outcome.expect_err(what);
        assert_eq!(error.state, SqlState::OutOfMemory, "{what}: {error}");
        assert!(bytes <= BUDGET + BESIDE, "{what}: {} MiB at the peak", bytes / MIB);
        // What was kept is given back.
        copied(&mut session, "COPY t FROM STDIN", std::iter::once("1\tx\n".to_owned())).unwrap();
        session.execute("DELETE FROM t").unwrap();
    }
}

/// Some 35 MiB of rows.
const HALF: &str = "SELECT n, repeat('x', 100) FROM generate_series(1, 300000) s(n)";

#[test]
fn rows_that_nobody_has_let_go_of_are_in_the_budget() {
    let _alone = ALONE.lock();
    let engine = engine();
    let (mut holder, mut other) = (session(&engine), session(&engine));
    let mut is_refused = |what: &str| {
        let error = other.execute(HALF).map(drop).expect_err(what);
        assert_eq!(error.state, SqlState::OutOfMemory, "{what}: {error}");
    };
    let rows = holder.execute(HALF).unwrap();
    is_refused("a result");
    let copy = rows.clone();
    drop(rows);
    is_refused("a copy of a result");
    drop(copy);

    // What is noted when all rows are there collects them.
    let sql = format!("{HALF} WHERE pg_backend_pid() IS NOT NULL");
    let statement = holder.parse(&sql).unwrap().pop().unwrap();
    let Execution::Stream(stream) = holder.start(&statement).unwrap() else { panic!("{sql}: no stream") };
    is_refused("a result that is not sent");
    drop(stream);

    holder.execute(&format!("BEGIN; DECLARE c CURSOR FOR {HALF}")).unwrap();
    is_refused("a cursor");
    let error = holder.execute("FETCH ALL FROM c").map(drop).expect_err("a copy beside it");
    assert_eq!(error.state, SqlState::OutOfMemory, "{error}");
    holder.execute("ROLLBACK").unwrap();
    assert_eq!(other.execute(HALF).unwrap().last().unwrap().rows.as_ref().unwrap().rows(), 300_000);
}

#[test]
fn the_entries_of_an_index_are_in_the_budget_while_it_is_built() {
    let _alone = ALONE.lock();
    let engine = engine();
    let mut session = session(&engine);
    for part in 0..4 {
        let insert = "INSERT INTO t SELECT n, repeat('x', 100) || n FROM generate_series";
        session.execute(&format!("{insert}({}, {}) s(n)", part * 50_000 + 1, (part + 1) * 50_000)).unwrap();
    }
    for sql in ["CREATE INDEX by_v ON t (v)", "ALTER TABLE t ADD UNIQUE (v)"] {
        let error = session.execute(sql).map(drop).expect_err(sql);
        assert_eq!(error.state, SqlState::OutOfMemory, "{sql}: {error}");
    }
    // What fits is built.
    session.execute("DELETE FROM t WHERE n > 20000; CREATE INDEX by_v ON t (v)").unwrap();
}

/// What runs for long if nobody ends it, of each kind. Some of it changes rows: it goes last.
const LONG: &[&str] = &[
    // One batch of each side has more pairs than anybody waits for.
    "SELECT count(*) FROM a x, a y WHERE x.v < y.v",
    "SELECT count(*) FROM a x, a y WHERE x.v || y.v = 'nothing'",
    "SELECT count(*) FROM a x JOIN a y ON x.g = y.g JOIN a z ON y.g = z.g",
    "SELECT count(*) FROM a x JOIN a y ON x.g = y.g AND x.v || y.v = 'nothing' JOIN a z ON x.g = z.g",
    "SELECT * FROM a x, a y ORDER BY x.v || y.v",
    "SELECT x.v || y.n, count(*) FROM a x, a y GROUP BY 1",
    "SELECT count(DISTINCT v || i) FROM a, generate_series(1, 1000000) s(i)",
    "SELECT sum(x) OVER (ORDER BY x) FROM generate_series(1, 500000000) s(x)",
    "SELECT sum(x) OVER () FROM generate_series(1, 5000000) s(x)",
    "SELECT array_agg(n) OVER (ORDER BY n) FROM a",
    "SELECT string_agg(v, ',') OVER (ORDER BY n) FROM a",
    "SELECT count(*) FROM (SELECT generate_series(timestamp '2022-01-01', 'infinity', '1 second')) s",
    "SELECT (SELECT count(*) FROM a y WHERE y.g < x.g) FROM a x",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "SELECT generate_series(timestamp '2022-01-01', timestamp 'infinity', '1 second') LIMIT 10",
    "SELECT generate_series(timestamp '2022-01-01', 'infinity', '1 second') LIMIT 10",
    "SELECT count(*) FROM generate_series(1, 9000000000000000000)",
    "SELECT sum(length(repeat('x', (n % 1000)::int))) FROM generate_series(1, 9000000000000000000) s(n)",
    "SELECT array_fill(1, ARRAY[n]) FROM generate_series(100000000, 100000100) s(n)",
    "SELECT string_to_array(repeat('a,', 100000 + n), ',') FROM generate_series(1, 100000000) s(n)",
    "SELECT array_to_string(array_fill(1, ARRAY[50000000]), ',')",
    r"SELECT regexp_replace(repeat('ab', 10000000), '(a)(b)', '\2\1', 'g')",
    "SELECT regexp_count(repeat('ab', 50000000), 'b')",
    "SELECT count(*) FROM a x, a y WHERE x.v || y.v ~ '(1|2)+.*(3|4)+5*$'",
    "SELECT ('[' || repeat('1,', 100000) || '2]')::jsonb @> ('[' || repeat('1,', 100000) || '3]')::jsonb",
    "SELECT ('[' || repeat('1,', 8000000) || '2]')::jsonb",
    "SELECT jsonb_agg(v) FROM a, generate_series(1, 1000000)",
    "SELECT count(*) FROM a, generate_series(1, 1000000) i WHERE jsonb_build_object('a', n) @> '{\"a\": 0}'",
    "SELECT pg_sleep(100)",
    "CREATE TABLE made AS SELECT x.* FROM a x, generate_series(1, 1000000)",
    "BEGIN; DECLARE c CURSOR FOR SELECT n, v FROM a, generate_series(1, 1000000); FETCH ALL FROM c",
    // Bricks.
    "SELECT count(*) FROM bricks x, bricks y WHERE x.w + y.w = 0.5",
    "SELECT x.g, sum(x.m + y.m) FROM bricks x JOIN bricks y ON x.g = y.g GROUP BY x.g",
    "INSERT INTO bricks SELECT x.g, y.n, x.n FROM a x, a y",
    "DELETE FROM bricks WHERE g = 3",
    "TRUNCATE bricks",
    "INSERT INTO t SELECT x.n, y.v FROM a x, a y",
    "INSERT INTO t SELECT n, v FROM a ON CONFLICT (n) DO UPDATE SET v = 'b'",
    "MERGE INTO t USING a ON t.n = a.n WHEN NOT MATCHED THEN INSERT VALUES (a.n, a.v)",
    "SELECT n FROM a FOR UPDATE",
    "CREATE INDEX by_v ON a (v, g)",
    "ALTER TABLE a ADD CONSTRAINT unique_v UNIQUE (v)",
    "UPDATE parents SET n = n + 1000000",
    "DELETE FROM parents",
    "UPDATE a SET g = g + 1, v = v || 'x'",
    "DELETE FROM a",
];

/// Functions and casts of values that are long, whose work some libraries do without a look at anything: of two long texts in time that
/// grows with the product of both.
const LONG_VALUES: &[&str] = &[
    "SELECT strpos(repeat('a', 40000000), repeat('a', 20000000) || 'b')",
    "SELECT position(repeat('a', 20000000) || 'b' IN repeat('a', 40000000))",
    "SELECT sum(strpos(repeat('a', 20000 + n), repeat('a', 10000) || 'b')) FROM generate_series(1, 8000) s(n)",
    "SELECT length(btrim(repeat('a', 40000000), repeat('b', 1000000) || 'a'))",
    "SELECT length(ltrim(repeat('a', 40000000), repeat('b', 1000000) || 'a'))",
    "SELECT length(trim(trailing repeat('b', 1000000) || 'a' from repeat('a', 40000000)))",
    "SELECT length(replace(repeat('ab', 50000000), 'b', 'c'))",
    "SELECT length(replace(repeat('a', 40000000), repeat('a', 10000000) || 'b', 'c'))",
    "SELECT split_part(repeat('a,', 50000000), ',', 40000000)",
    "SELECT split_part(repeat('a', 40000000), repeat('a', 10000000) || 'b', 2)",
    "SELECT split_part(repeat('a', 40000000), repeat('a', 10000000) || 'b', -2)",
    "SELECT cardinality(string_to_array(repeat('a', 40000000), repeat('a', 10000000) || 'b'))",
    "SELECT cardinality(string_to_array(repeat('a', 20000000), NULL))",
    "SELECT length(translate(repeat('ab', 50000000), 'ab', 'cd'))",
    "SELECT length(lower(repeat('ÀB', 30000000)))",
    "SELECT length(upper(repeat('àb', 30000000)))",
    "SELECT length(initcap(repeat('àb ', 30000000)))",
    "SELECT length(reverse(repeat('ab', 50000000)))",
    "SELECT length(overlay(repeat('ab', 50000000) placing repeat('c', 50000000) from 7))",
    "SELECT length(left(repeat('ab', 50000000), -7))",
    "SELECT length(right(repeat('ab', 50000000), -7))",
    "SELECT length(substr(repeat('éb', 50000000), 40000000))",
    "SELECT length(concat(repeat('ab', 50000000), repeat('ab', 50000000)))",
    "SELECT length(lpad('x', 100000000, 'é'))",
    "SELECT md5(repeat('ab', 50000000))",
    "SELECT sha256(convert_to(repeat('ab', 50000000), 'UTF8'))",
    "SELECT sha512(convert_to(repeat('ab', 50000000), 'UTF8'))",
    "SELECT length(encode(convert_to(repeat('ab', 50000000), 'UTF8'), 'hex'))",
    "SELECT length(encode(convert_to(repeat('ab', 50000000), 'UTF8'), 'base64'))",
    "SELECT length(encode(convert_to(repeat('ab', 50000000), 'UTF8'), 'escape'))",
    "SELECT length(decode(repeat('ab', 50000000), 'hex'))",
    "SELECT length(decode(repeat('ab cd', 20000000), 'hex'))",
    "SELECT length(decode(repeat('abcd', 20000000), 'base64'))",
    "SELECT length(decode(repeat('abcd', 20000000), 'escape'))",
    "SELECT length(quote_literal(repeat('''', 50000000)))",
    "SELECT length(quote_ident(repeat('\"', 50000000)))",
    "SELECT length(format('%L', repeat('''', 50000000)))",
    "SELECT length(format('%I', repeat('\"', 50000000)))",
    "SELECT length(to_jsonb(repeat('\"', 50000000))::text)",
    "SELECT length(json_build_object('a', repeat('\"', 50000000))::text)",
    "SELECT length(to_json(repeat('\"', 50000000))::text)",
    "SELECT set_config('a.b', repeat('\"', 50000000), false) IS NULL",
    "SELECT parse_ident(repeat('a.', 20000000) || 'b') IS NULL",
    r"SELECT length(unistr(repeat('\0041', 10000000)))",
    "SELECT cardinality(regexp_split_to_array(repeat('ab', 20000000), 'b'))",
    "SELECT count(*) FROM regexp_matches(repeat('ab', 20000000), 'b', 'g')",
    "SELECT regexp_instr(repeat('ab', 50000000), 'c')",
    "SELECT length(regexp_replace(repeat('ab', 50000000), 'b', 'c', 'g'))",
    "SELECT repeat('ab', 50000000) LIKE '%b%a%c%'",
    "SELECT repeat('ab', 500000) LIKE repeat('%a_', 2000) || 'c'",
    "SELECT repeat('ab', 50000000) ILIKE '%B%A%C%'",
    "SELECT repeat('ab', 50000000) ~ '(a|b)*c'",
    "SELECT repeat('ab', 50000000) SIMILAR TO '(a|b)*c'",
    "SELECT (SELECT array_agg(n) FROM generate_series(1, 1000000) s(n)) \
     @> (SELECT array_agg(n) FROM generate_series(1000000, 1, -1) s(n))",
    "SELECT (SELECT array_agg(n) FROM generate_series(1, 1000000) s(n)) \
     <@ (SELECT array_agg(n) FROM generate_series(2000000, 1, -1) s(n))",
    "SELECT array_position((SELECT array_agg(n) FROM generate_series(1, 3000000) s(n)), 0)",
    "SELECT cardinality(array_remove((SELECT array_agg(n) FROM generate_series(1, 3000000) s(n)), 7))",
    "SELECT cardinality(array_replace((SELECT array_agg(n) FROM generate_series(1, 3000000) s(n)), 7, 8))",
    r"SELECT length(repeat('\\', 50000000)::bytea)",
    "SELECT repeat('1', 50000000)::numeric",
    "SELECT coalesce(NULL::numeric(10,2), repeat('1', 50000000))",
    "SELECT 1.5 IN (repeat('1', 50000000))",
    "SELECT greatest(1.5, repeat('1', 50000000))",
    "SELECT 1.5 BETWEEN repeat('1', 50000000) AND 2",
    "SELECT nullif(1.5, repeat('1', 50000000))",
    "SELECT 1.5 = ANY (ARRAY[repeat('1', 50000000)])",
    "SELECT repeat('1', 50000000)::double precision",
    "SELECT repeat('1', 50000000)::int",
    "SELECT repeat('1 ', 50000000)::timestamp",
    "SELECT repeat('1 day ', 10000000)::interval",
    "SELECT cardinality(('{' || repeat('1,', 20000000) || '1}')::int[])",
    "SELECT length(('\"' || repeat('ab', 50000000) || '\"')::jsonb::text)",
];

/// What goes through all rows of a big table for a definition. None is committed: each begins a block.
const LONG_DEFINITIONS: &[&str] = &[
    "CREATE INDEX ON big (v, g)",
    "ALTER TABLE big ADD UNIQUE (v)",
    "ALTER TABLE big ADD CHECK (v ~ '^(v|w)+[0-9]*$')",
    "ALTER TABLE big ADD FOREIGN KEY (g) REFERENCES parents",
    "ALTER TABLE big ALTER COLUMN v SET NOT NULL",
    "ALTER TABLE big ALTER COLUMN g TYPE bigint",
    "ALTER TABLE big ALTER COLUMN v TYPE int USING length(v)",
    "ALTER TABLE big ADD COLUMN h text DEFAULT 'x' || random()",
    "ALTER TABLE big ADD COLUMN i int GENERATED ALWAYS AS (n * 2) STORED",
    "ALTER TABLE big DROP CONSTRAINT big_pkey",
    "CREATE INDEX ON big (lower(v))",
    "CREATE INDEX ON big (g) WHERE g > 5",
    "ALTER TYPE mood ADD VALUE 'so so' BEFORE 'sad'",
    "ALTER TYPE mood RENAME VALUE 'glad' TO 'happy'",
    "ALTER TABLE big ALTER COLUMN m TYPE text",
    "TRUNCATE big",
    "DROP TABLE big",
];

/// The same over tables of a server.
const LONG_ON_SERVERS: &[&str] = &[
    "SELECT count(*) FROM far x, far y WHERE x.v || y.v = 'nothing'",
    "SELECT count(*) FROM far x, a y WHERE x.v || y.v = 'nothing'",
    "UPDATE far SET v = v || 'x' || g",
    "DELETE FROM far WHERE n % 2 = 0",
];

/// The processor time that the process has taken, in ticks of 10 ms.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// The same as a time.
fn worked() -> Duration {
    Duration::from_millis(ticks() * 10)
}

/// Waits until no thread works any more; since when that is so.
fn idle_since() -> Instant {
    const QUIET: Duration = Duration::from_millis(50);
    let (mut last, mut since) = (ticks(), Instant::now());
    let begun = since;
    while since.elapsed() < QUIET && begun.elapsed() < 10 * *SOON {
        std::thread::sleep(Duration::from_millis(10));
        let now = ticks();
        if now > last {
            (last, since) = (now, Instant::now());
        }
    }
    since
}

/// What goes on would be taken for work of what runs next.
fn wait_until_idle() {
    let begun = Instant::now();
    while idle_since().elapsed() < Duration::from_millis(50) && begun.elapsed() < Duration::from_secs(60) {}
}

/// A statement that was cancelled in the middle.
struct Cancelled {
    outcome: Result<(), SqlError>,
    asked: Instant,
    /// The processor time until then.
    worked: Duration,
    answered: Instant,
}

/// What becomes of a statement that is cancelled in the middle.
fn cancelled(session: &mut Session, statement: &str, after: Duration) -> Cancelled {
    cancelled_run(session, after, |session| session.execute(statement).map(drop))
}

/// What becomes of anything that a session does and that is cancelled in the middle.
fn cancelled_run(
    session: &mut Session,
    after: Duration,
    run: impl FnOnce(&mut Session) -> Result<(), SqlError> + Send,
) -> Cancelled {
    let handle = session.cancel_handle();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| (run(session), Instant::now()));
        std::thread::sleep(after);
        let (asked, worked) = (Instant::now(), worked());
        // On a busy machine the statement may not have begun.
        while !running.is_finished() {
            handle.cancel();
            std::thread::sleep(Duration::from_millis(10));
        }
        let (outcome, answered) = running.join().unwrap();
        Cancelled { outcome, asked, worked, answered }
    })
}

/// Those that did not end in time.
#[derive(Default)]
struct Late(Vec<String>);

impl Late {
    /// Waits until all work of what was cancelled has ended, and notes whether that was late: by the clock, or by what it
    /// worked on after it was asked to end, which others on the machine do not add to.
    fn note(&mut self, session: &mut Session, cancelled: Cancelled, what: &str) {
        let Cancelled { outcome, asked, worked: before, answered } = cancelled;
        let answer = answered.saturating_duration_since(asked);
        // Statements that are short here may have ended before, and some have met their memory's end.
        if let Err(error) = outcome {
            let is_meant = matches!(error.state, SqlState::QueryCanceled | SqlState::OutOfMemory);
            assert!(is_meant, "{what}: {error}");
        }
        // The session's next statement forgets the request; what still works does not.
        let _ = session.execute("ROLLBACK");
        let end = idle_since().saturating_duration_since(asked);
        let work = worked() - before;
        let shown = format!(
            "{:>5} ms to the answer, {:>5} ms to the end, {:>5} ms of work: {what}",
            answer.as_millis(),
            end.as_millis(),
            work.as_millis()
        );
        println!("{shown}");
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        if answer > *SOON || end > *SOON || work > *SOON * threads {
            self.0.push(shown);
        }
    }

    fn assert_none(self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

#[test]
fn all_work_of_a_long_statement_ends_soon_after_it_is_cancelled() {
    let _alone = ALONE.lock();
    let engine = engine_with(1 << 30);
    let mut session = session(&engine);
    for definition in [
        "CREATE TABLE a (n int PRIMARY KEY, g int, v text)",
        "INSERT INTO a SELECT g, g % 10, 'v' || g FROM generate_series(1, 100000) g",
        "CREATE TABLE parents (n int PRIMARY KEY)",
        "INSERT INTO parents SELECT n FROM a",
        "CREATE TABLE children (n int PRIMARY KEY, parent int \
         REFERENCES parents ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE INDEX ON children (parent)",
        "INSERT INTO children SELECT n, n FROM a",
        "CREATE TABLE bricks (g int, m bigint, w double precision) USING brick PARTITION BY (g CARDINALITY 16)",
        "INSERT INTO bricks SELECT g, n, n FROM a",
    ] {
        session.execute(definition).unwrap();
    }
    let files = tempfile::tempdir().unwrap();
    let (path, rows) = (files.path().join("written"), files.path().join("rows"));
    let lines: String = (0..3_000_000).map(|n| format!("{n}\tx{n}\n")).collect();
    std::fs::write(&rows, &lines).unwrap();
    let copies = [
        format!("COPY (SELECT n, 'x' || n FROM generate_series(1, 8000000) s(n)) TO '{}'", path.display()),
        format!("COPY (SELECT n FROM generate_series(1, 9000000) s(n)) TO '{}' (FORMAT csv)", path.display()),
        format!(
            "COPY (SELECT n FROM generate_series(1, 9000000) s(n)) TO '{}' (FORMAT parquet)",
            path.display()
        ),
        format!("COPY t FROM '{}'", rows.display()),
        format!("COPY t FROM '{}' (FORMAT csv, DELIMITER E'\\t')", rows.display()),
    ];
    let mut late = Late::default();
    for statement in copies.iter().map(String::as_str).chain(LONG.iter().copied()) {
        let after = if statement.starts_with("COPY (") { 600 } else { 150 };
        let ended = cancelled(&mut session, statement, Duration::from_millis(after));
        late.note(&mut session, ended, statement);
    }
    late.assert_none();
}

#[test]
fn all_work_on_a_long_value_ends_soon_after_it_is_cancelled() {
    let _alone = ALONE.lock();
    let engine = engine_with(2 << 30);
    let mut session = session(&engine);
    let mut late = Late::default();
    for statement in LONG_VALUES {
        // The values are made first.
        let mut ended = cancelled(&mut session, statement, Duration::from_millis(250));
        // Some are no values of the type, or too long for what they are.
        if ended.outcome.as_ref().is_err_and(|error| ["22", "54"].contains(&&error.state.code()[..2])) {
            ended.outcome = Ok(());
        }
        late.note(&mut session, ended, statement);
        wait_until_idle();
    }
    late.assert_none();
}

#[test]
fn all_work_of_a_definition_ends_soon_after_it_is_cancelled() {
    let _alone = ALONE.lock();
    let engine = engine_with(2 << 30);
    let mut session = session(&engine);
    for definition in [
        "CREATE TYPE mood AS ENUM ('glad', 'sad')",
        "CREATE TABLE parents (n int PRIMARY KEY)",
        "INSERT INTO parents SELECT n FROM generate_series(0, 9) s(n)",
        "CREATE TABLE big (n int PRIMARY KEY, g int, v text, m mood)",
        "INSERT INTO big SELECT n, n % 10, 'v' || n, 'glad' FROM generate_series(1, 400000) s(n)",
    ] {
        session.execute(definition).unwrap();
    }
    let mut late = Late::default();
    for statement in LONG_DEFINITIONS {
        for after in [20, 200].map(Duration::from_millis) {
            let ended = cancelled(&mut session, &format!("BEGIN; {statement}"), after);
            late.note(&mut session, ended, statement);
        }
    }
    late.assert_none();
}

/// Engines look at no request, so what runs there goes on: the answer does not wait for it.
#[test]
fn a_long_statement_over_servers_answers_soon_after_it_is_cancelled() {
    let _alone = ALONE.lock();
    let engine = engine_with(1 << 30);
    let mut session = session(&engine);
    for definition in [
        "SET default_transaction_isolation TO 'repeatable read'",
        "CREATE TABLE a (n int PRIMARY KEY, g int, v text)",
        "INSERT INTO a SELECT g, g % 10, 'v' || g FROM generate_series(1, 100000) g",
        "CREATE SERVER wh ENGINE datafusion",
        "CREATE TABLE far (n int PRIMARY KEY, g int, v text) USING tique SERVER wh",
        "INSERT INTO far SELECT n, g, v FROM a WHERE n <= 20000",
    ] {
        session.execute(definition).unwrap();
    }
    let mut late = Late::default();
    for statement in LONG_ON_SERVERS {
        let Cancelled { outcome, asked, answered, .. } =
            cancelled(&mut session, statement, Duration::from_millis(150));
        let answer = answered.saturating_duration_since(asked);
        println!("{:>5} ms to the answer: {statement}", answer.as_millis());
        // Some are short here, and have ended before.
        if let Err(error) = outcome {
            assert_eq!(error.state, SqlState::QueryCanceled, "{statement}: {error}");
        }
        let _ = session.execute("ROLLBACK");
        if answer > *SOON {
            late.0.push(format!("{statement}: {answer:?}"));
        }
        wait_until_idle();
    }
    late.assert_none();
}

/// COPY with a client looks with each piece, and what it gathered is worked on behind its last piece, too.
#[test]
fn all_work_of_a_copy_with_a_client_ends_soon_after_it_is_cancelled() {
    let _alone = ALONE.lock();
    let engine = engine_with(1 << 30);
    let mut session = session(&engine);
    let mut late = Late::default();
    let lines = |first: usize| (0..10_000).map(|n| format!("{}\tx\n", first + n)).collect::<String>();
    for after in [50, 150, 400].map(Duration::from_millis) {
        for (what, sql, order) in [
            ("rows in order", "COPY t FROM STDIN", 1),
            ("rows in no order", "COPY t FROM STDIN", 7_919),
            ("rows as CSV", "COPY t FROM STDIN (FORMAT csv, DELIMITER E'\\t')", 1),
        ] {
            let pieces = (0..400).map(|n| lines(n * order % 400 * 10_000));
            let ended = cancelled_run(&mut session, after, |session| copied(session, sql, pieces));
            late.note(&mut session, ended, what);
            session.execute("TRUNCATE t").unwrap();
        }
        let ended = cancelled_run(&mut session, after, |session| {
            let sql = "COPY (SELECT n, 'x' || n FROM generate_series(1, 900000000) s(n)) TO STDOUT";
            let statement = session.parse(sql)?.pop().unwrap();
            let Execution::CopyOut(mut copy) = session.start(&statement)? else { panic!("{sql}: no COPY") };
            let handle = session.cancel_handle();
            // Who sends the rows listens for the request, as the server does.
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        biased;
                        reason = handle.cancelled() => return Err(reason.error()),
                        rows = copy.next() => if rows.transpose()?.is_none() { return Ok(()) },
                    }
                }
            })
        });
        late.note(&mut session, ended, "rows to a client");
    }
    late.assert_none();
}

#[test]
fn a_list_of_a_million_values_ends_soon_after_it_is_cancelled() {
    let _alone = ALONE.lock();
    let engine = engine_with(6 << 30);
    let mut session = session(&engine);
    let numbers: Vec<String> = (0..1_000_000).map(|n| n.to_string()).collect();
    for statement in [
        format!("SELECT n FROM t WHERE n IN ({})", numbers.join(",")),
        format!("SELECT * FROM (VALUES ({})) v(n)", numbers[..300_000].join("),(")),
        format!("INSERT INTO t VALUES ({},'')", numbers[..300_000].join(",''),(")),
    ] {
        // Each meets another step of its way.
        for after in [50, 200, 400, 700, 1100].map(Duration::from_millis) {
            let Cancelled { outcome, asked, answered, .. } = cancelled(&mut session, &statement, after);
            let took = answered.saturating_duration_since(asked);
            println!("{:>5} ms to the answer: {}", took.as_millis(), &statement[..60]);
            if let Err(error) = outcome {
                assert_eq!(error.state, SqlState::QueryCanceled);
                assert!(took < *SOON, "{}: {took:?}", &statement[..60]);
            }
            // What was left behind ends too, and gives its memory back.
            idle_since();
        }
    }
}
