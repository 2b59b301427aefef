// SPDX-License-Identifier: Apache-2.0
//! Statements that make much of little: each ends with its error, in bounded memory, and soon after it is cancelled.
#![allow(clippy::unwrap_used)]

#[path = "memory_bombs/cancelled.rs"]
mod cancelled;
#[path = "memory_bombs/side_by_side.rs"]
mod side_by_side;

use coeval_sql::{Engine, Execution, QueryMemory, Session, SqlError, SqlState};
use coeval_store::{CountingAllocator, Store, StoreOptions};
use parking_lot::Mutex;
use std::alloc::System;
use std::sync::Arc;

/// As the program's does: what nobody asks for is seen.
#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator(System);

const MIB: usize = 1 << 20;

/// What all queries may have.
const BUDGET: usize = 64 * MIB;

/// What a statement may take beyond its budget: batches on their way, copies of a value while it is made.
const BESIDE: usize = 192 * MIB;

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
        "SELECT sum(length((repeat('7', 131000)::numeric - n)::text)) FROM generate_series(1, 100000) s(n)",
        NO_MEMORY,
    ),
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
    // Of the elements of a long array one set is there at a time: those of all rows together would take 96 MB.
    (
        "SELECT count(*) FROM (SELECT array_agg(n) a FROM generate_series(1, 2000) s(n)) x, generate_series(1, 1000) g WHERE x.a @> ARRAY[1, 2, 3, 4, 5, 6, 7, 8, 9, g % 9 + 1]",
        FINE,
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
    // Rows around a subquery that have its answer in common.
    (
        "SELECT length((SELECT v || 'a' FROM long_texts l WHERE l.n >= o.k ORDER BY l.n LIMIT 1)) FROM (SELECT g % 2 AS k FROM generate_series(1, 100000) g) o",
        NO_MEMORY,
    ),
    (
        "SELECT sum(l.n) FROM (SELECT g % 2 AS k FROM generate_series(1, 100000) g) o, LATERAL (SELECT n, v FROM rows r WHERE r.n > o.k ORDER BY v, n LIMIT 15000) l",
        NO_MEMORY,
    ),
    ("SELECT g IN (SELECT n FROM generate_series(1, 3500000) s(n)) FROM generate_series(1, 10) g", NO_MEMORY),
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
    // Eight rows to a byte.
    ("BEGIN; DECLARE c CURSOR FOR SELECT true FROM generate_series(1, 40000000); MOVE ALL FROM c", FINE),
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
    // With a long text for each row, by keys and without.
    let long = "x".repeat(100_000);
    let returning = format!("RETURNING '{long}' || v");
    let changes = [
        format!("UPDATE rows SET v = 'b' {returning}"),
        format!("UPDATE rows SET v = 'b' WHERE n > 0 {returning}"),
        format!("DELETE FROM rows {returning}"),
        format!("DELETE FROM rows WHERE n > 0 {returning}"),
        format!("INSERT INTO t VALUES {} {returning}", many[..1_000].join(",")),
        format!("INSERT INTO t SELECT n, v FROM rows {returning}"),
    ];
    let update = format!("UPDATE rows SET v = '{long}' WHERE n > 0");
    let result = format!("SELECT '{long}' || v FROM rows WHERE n > 0 AND n < 9000");
    let groups = format!("SELECT max('{long}' || v), count(*) FROM rows WHERE n > 0 AND n < 9000 GROUP BY n");
    let texts = [
        (&*values, NO_MEMORY),
        (&*list, NO_MEMORY),
        (&*update, NO_MEMORY),
        (&*result, EITHER),
        (&*groups, EITHER),
    ];
    let mut wrong = Vec::new();
    let changes = changes.iter().map(|change| (change.as_str(), NO_MEMORY));
    for (sql, states) in BOMBS.iter().copied().chain(texts).chain(changes) {
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

/// A column that is not given has one default for all rows.
#[test]
fn what_is_kept_of_an_insert_grows_with_its_text_and_not_with_the_columns_of_the_table() {
    let _alone = ALONE.lock();
    let engine = engine();
    let mut session = session(&engine);
    let columns: Vec<String> = (0..1_000).map(|n| format!("c{n} int")).collect();
    session.execute(&format!("CREATE TABLE wide (n int PRIMARY KEY, {})", columns.join(", "))).unwrap();
    let insert = |first: usize| {
        let rows: Vec<String> = (first..first + 1_000).map(|n| format!("({n})")).collect();
        format!("INSERT INTO wide (n) VALUES {}", rows.join(", "))
    };
    let (prepared, bytes) = peak(|| {
        let prepared = (0..20).map(|statement| session.prepare(&insert(statement * 1_000)));
        prepared.collect::<Result<Vec<_>, _>>()
    });
    assert_eq!(prepared.unwrap().len(), 20);
    assert!(bytes < 64 * MIB, "{} MiB for twenty statements", bytes / MIB);
    // A value that needs the database: such rows are not made by key.
    let rows: Vec<String> = (30_000..34_000).map(|n| format!("({n})")).collect();
    let insert = format!("INSERT INTO wide (n) VALUES ((SELECT 29999)), {}", rows.join(", "));
    let (inserted, bytes) = peak(|| session.execute(&insert).map(drop));
    inserted.unwrap();
    assert!(bytes < BUDGET + BESIDE, "{} MiB for an INSERT", bytes / MIB);
    // The rows of MERGE have all columns, and are counted.
    let merge = "MERGE INTO wide USING (SELECT n FROM generate_series(100001, 200000) s(n)) g ON wide.n = g.n \
        WHEN NOT MATCHED THEN INSERT (n) VALUES (g.n)";
    let (merged, bytes) = peak(|| session.execute(merge).map(drop));
    assert_eq!(merged.unwrap_err().state, SqlState::OutOfMemory);
    assert!(bytes < BUDGET + BESIDE, "{} MiB for a MERGE", bytes / MIB);
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
    let insert = |n: usize| format!("INSERT INTO t VALUES ({n}, repeat('x', 50000))");
    let define = |n: usize| format!("COMMENT ON TABLE t IS '{n}{}'", "x".repeat(100_000));
    let statements: [&dyn Fn(usize) -> String; 2] = [&insert, &define];
    for statement in statements.repeat(2) {
        session.execute("BEGIN").unwrap();
        let error = (0..100_000).find_map(|n| session.execute(&statement(n)).err());
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

/// Their values are in the messages that say why.
#[test]
fn of_rows_that_a_copy_leaves_out_little_is_kept() {
    let _alone = ALONE.lock();
    let engine = engine();
    let mut session = session(&engine);
    let definition = "CREATE TABLE left_out (g int, m bigint) USING brick PARTITION BY (g CARDINALITY 16)";
    session.execute(definition).unwrap();
    let line = format!("{}\t1\n", "x".repeat(MIB));
    let lines = std::iter::repeat_n(line, 400);
    let (outcome, bytes) =
        peak(|| copied(&mut session, "COPY left_out FROM STDIN (MAX_REJECTED 1000)", lines));
    outcome.unwrap();
    assert!(bytes <= BUDGET + BESIDE, "{} MiB at the peak", bytes / MIB);
    let notices = session.take_notices();
    assert_eq!(notices.len(), 401);
    assert!(notices.iter().all(|notice| notice.message.len() < 1_000));
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
    let fetched = holder.execute("FETCH ALL FROM c").unwrap();
    let (outcome, bytes) = peak(|| holder.execute("FETCH BACKWARD ALL FROM c").map(drop));
    let error = outcome.expect_err("a copy beside it");
    assert_eq!(error.state, SqlState::OutOfMemory, "{error}");
    assert!(bytes < 16 * MIB, "{bytes} bytes of a copy before it is asked for");
    holder.execute("ROLLBACK").unwrap();
    is_refused("fetched rows of a cursor that is closed");
    drop(fetched);
    assert_eq!(other.execute(HALF).unwrap().last().unwrap().rows.as_ref().unwrap().rows(), 300_000);
}

/// Whether they change them or not.
#[test]
fn rows_that_a_transaction_locks_or_relies_on_are_in_the_budget() {
    let _alone = ALONE.lock();
    let engine = engine();
    let mut session = session(&engine);
    for part in 0..4 {
        let (first, last) = (part * 50_000 + 1, (part + 1) * 50_000);
        session
            .execute(&format!("INSERT INTO t SELECT n, 'a' FROM generate_series({first}, {last}) s(n)"))
            .unwrap();
    }
    let upsert = "INSERT INTO t SELECT 1, 'a' FROM generate_series(1, 600000) ON CONFLICT (n) DO UPDATE SET v = 'b' WHERE false";
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        session.execute(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
        let error = session.execute("SELECT n FROM t FOR UPDATE").map(drop).expect_err("locks");
        assert_eq!(error.state, SqlState::OutOfMemory, "{level}: {error}");
        session.execute("ROLLBACK").unwrap();
        // Fewer rows, but again and again.
        session.execute(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
        let again = "SELECT n FROM t WHERE n <= 10000 FOR UPDATE";
        let error = (0..1_000).find_map(|_| session.execute(again).err()).expect("marks");
        assert_eq!(error.state, SqlState::OutOfMemory, "{level}: {error}");
        session.execute("ROLLBACK").unwrap();
        session.execute(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
        session.execute(again).unwrap();
        session.execute("COMMIT").unwrap();
    }
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    let error = session.execute(upsert).map(drop).expect_err("rows that are relied on");
    assert_eq!(error.state, SqlState::OutOfMemory, "{error}");
    session.execute("ROLLBACK").unwrap();
}

/// They name a view: what is kept is not as long as their texts.
#[test]
fn plans_of_prepared_statements_are_in_the_budget_whoever_holds_them() {
    let _alone = ALONE.lock();
    let engine = engine();
    let mut session = session(&engine);
    let columns: Vec<String> = (0..200).map(|n| format!("n + {n} AS c{n}")).collect();
    let arms = vec![format!("SELECT {} FROM t", columns.join(",")); 10];
    session.execute(&format!("CREATE TEMP VIEW wide AS {}", arms.join(" UNION ALL "))).unwrap();
    for _ in 0..2 {
        let error = (0..300)
            .find_map(|n| session.execute(&format!("PREPARE p{n} AS SELECT * FROM wide")).err())
            .expect("plans with a name");
        assert_eq!(error.state, SqlState::OutOfMemory, "{error}");
        assert!(error.hint.is_some_and(|hint| hint.contains("DEALLOCATE")));
        session.execute("DEALLOCATE ALL").unwrap();
        // As portals have them.
        let mut held = Vec::new();
        let error = (0..300).find_map(|_| match session.prepare("SELECT * FROM wide") {
            Ok(prepared) => {
                held.push(prepared);
                None
            }
            Err(error) => Some(error),
        });
        assert_eq!(error.expect("plans without a name").state, SqlState::OutOfMemory);
    }
    session.execute("PREPARE p AS SELECT * FROM wide; EXECUTE p; DEALLOCATE p").unwrap();
}

/// Each has little, but nobody reads what they have made.
#[test]
fn batches_that_wait_for_who_reads_them_are_in_the_budget() {
    let _alone = ALONE.lock();
    let engine = engine_with(16 * MIB);
    // Some 2 MiB for each batch.
    let sql = "SELECT repeat('a', 120) || n, repeat('b', 120) || n FROM generate_series(1, 1000000000) s(n)";
    let start = |session: &mut Session| {
        let statement = session.parse(sql).unwrap().pop().unwrap();
        let Execution::Stream(stream) = session.start(&statement).unwrap() else { panic!("no stream") };
        stream
    };
    let mut sessions: Vec<Session> = (0..20).map(|_| engine.session()).collect();
    let streams: Vec<_> = sessions.iter_mut().map(start).collect();
    // Each makes as many as it may, and then waits.
    cancelled::wait_until_idle();
    let mut refused = 0;
    for mut stream in streams {
        let error = (0..4).find_map(|_| stream.next_blocking().unwrap().err());
        refused += usize::from(error.is_some());
        assert!(error.is_none_or(|error| error.state == SqlState::OutOfMemory));
    }
    assert!(refused > 5, "{refused}");
    // What they had is given back, and who reads what comes is not refused.
    let mut stream = start(&mut sessions[0]);
    for _ in 0..20 {
        stream.next_blocking().unwrap().unwrap();
    }
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
    for from in (20_000..200_000).step_by(20_000) {
        session.execute(&format!("DELETE FROM t WHERE n > {from} AND n <= {from} + 20000")).unwrap();
    }
    session.execute("CREATE INDEX by_v ON t (v)").unwrap();
}
