// SPDX-License-Identifier: Apache-2.0
//! What a statement works on ends soon after it is cancelled.

use super::{ALONE, copied, engine_with, session};
use coeval_sql::{Execution, Session, SqlError, SqlState};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// What is promised is 100 ms, for a program that is compiled as it is released, on a machine that has nothing else to do: `tests/long
/// stops` checks that. One that is compiled with less optimization, as CI has it, has taken nine times as much, on a machine that others
/// use; a slower one takes some times that.
const WORK_MS: u64 = 4_000;

/// By the clock it is longer where threads wait for a core. What nobody ends runs for minutes.
const SOON_MS: u64 = 10_000;

/// What `COEVAL_STOP_MS` says, or this.
fn told_or(ms: u64) -> Duration {
    let told = std::env::var("COEVAL_STOP_MS").ok().map(|text| text.parse().unwrap());
    Duration::from_millis(told.unwrap_or(ms))
}

/// How long a statement may go on after it was asked to end, by the clock.
static SOON: LazyLock<Duration> = LazyLock::new(|| told_or(SOON_MS));

/// The same as processor time of each thread.
static WORK: LazyLock<Duration> = LazyLock::new(|| told_or(WORK_MS));

/// What runs for long if nobody ends it, of each kind. Some of it changes rows: it goes last.
const LONG: &[&str] = &[
    // One batch of each side has more pairs than anybody waits for.
    "SELECT count(*) FROM a x, a y WHERE x.v < y.v",
    "SELECT count(*) FROM a x, a y WHERE x.v || y.v = 'nothing'",
    "SELECT count(*) FROM a x JOIN a y ON x.g = y.g JOIN a z ON y.g = z.g",
    "SELECT count(*) FROM a x JOIN a y ON x.g = y.g AND x.v || y.v = 'nothing' JOIN a z ON x.g = z.g",
    "WITH v AS (SELECT x.g, count(*) AS c FROM a x, a y WHERE x.v < y.v GROUP BY x.g) \
     SELECT p.g, q.c FROM v p JOIN v q ON p.g = q.g",
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
    "SELECT regexp_count(repeat('ab', 20000000), 'a(?=b)')",
    "SELECT length(regexp_replace(repeat('ab', 20000000), '(a|ab)(c|bcd)*', '', 'g'))",
    r"SELECT (repeat('a', 20001) || 'c') ~ '^(.+)(.+)\1\2c$'",
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
    "SELECT count(factorial(12000 + n % 7)) FROM generate_series(1, 8000) s(n)",
    "SELECT count(exp((-3000 - n % 7)::text::numeric)) FROM generate_series(1, 8000) s(n)",
    "SELECT sum((n || 'e131060')::numeric) FROM generate_series(1, 8000) s(n)",
    "SELECT variance((n || 'e65000')::numeric) FROM generate_series(1, 8000) s(n)",
    "SELECT log(('1.' || repeat('0', 8000) || '1')::numeric, 7)",
    "SELECT repeat('1', 50000000)::numeric(10,2)",
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
    while since.elapsed() < QUIET && begun.elapsed() < 2 * *SOON + Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(10));
        let now = ticks();
        if now > last {
            (last, since) = (now, Instant::now());
        }
    }
    since
}

/// Waits until nothing goes on any more.
pub(super) fn wait_until_idle() {
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
        if answer > *SOON || end > *SOON || work > *WORK * threads {
            self.0.push(shown);
            // What still works would be taken for work of what runs next.
            wait_until_idle();
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
