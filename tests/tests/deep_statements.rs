// SPDX-License-Identifier: Apache-2.0
//! Statements whose syntax tree is deep: run where the stack is large enough, refused where it is not.
#![allow(clippy::unwrap_used)]

use coeval::{Database, Error, STATEMENT_STACK_BYTES, SqlState};
use std::time::{Duration, Instant};

/// Chains that lean to the left, of this many operators, and the rows each of them gives.
fn chains(operators: usize) -> Vec<String> {
    let chain = |first: &str, next: &str| format!("{first}{}", next.repeat(operators));
    vec![
        chain("SELECT 1", " + 1"),
        chain("SELECT 1 FROM t WHERE n = 1", " OR n = 1"),
        chain("SELECT 'a'", " || 'b'"),
        chain("UPDATE t SET n = n", " - 1"),
    ]
}

/// Runs each statement on a thread with a stack of this size.
fn run(stack_bytes: usize, statements: Vec<String>) -> Vec<Result<u64, Error>> {
    let on_thread = move || {
        let db = Database::in_memory().unwrap();
        let mut session = db.session();
        session.execute("CREATE TABLE t (n bigint PRIMARY KEY)").unwrap();
        session.execute("INSERT INTO t VALUES (1)").unwrap();
        statements.iter().map(|statement| session.execute(statement)).collect()
    };
    std::thread::Builder::new().stack_size(stack_bytes).spawn(on_thread).unwrap().join().unwrap()
}

#[test]
fn a_long_chain_runs_on_a_thread_for_statements() {
    for outcome in run(STATEMENT_STACK_BYTES, chains(300)) {
        assert_eq!(outcome.unwrap(), 1);
    }
}

/// `n - 3 + 5 - 3 + 5 ...` of this many operators, and what it adds to `n`.
fn seesaw(operators: usize) -> (String, i64) {
    let terms = ["- 3", "+ 5"].into_iter().cycle().take(operators);
    let sum = [-3, 5].into_iter().cycle().take(operators).sum();
    (format!("n {}", terms.collect::<Vec<_>>().join(" ")), sum)
}

#[test]
fn a_chain_gives_the_same_however_long_it_is() {
    for operators in [1, 2, 15, 16, 17, 18, 33, 100, 1_000] {
        let (chain, sum) = seesaw(operators);
        // Once of a constant, once of a column.
        let statements = vec![
            format!("SELECT 1 FROM (VALUES (CAST(7 AS bigint))) v(n) WHERE {chain} = {}", 7 + sum),
            format!("SELECT 1 FROM t WHERE {chain} = {}", 1 + sum),
        ];
        for outcome in run(STATEMENT_STACK_BYTES, statements) {
            assert_eq!(outcome.unwrap(), 1, "{operators} operators");
        }
    }
}

#[test]
fn a_long_chain_overflows_where_a_short_one_does() {
    let (chain, sum) = seesaw(101);
    let almost = i64::MAX - sum.max(0);
    let statement = |n: i64| format!("SELECT 1 FROM (SELECT n + {n} AS n FROM t) t WHERE {chain} > 0");
    let outcomes = run(STATEMENT_STACK_BYTES, vec![statement(almost - 10), statement(almost)]);
    assert_eq!(*outcomes[0].as_ref().unwrap(), 1);
    assert_eq!(outcomes[1].as_ref().unwrap_err().state(), SqlState::NumericValueOutOfRange);
}

#[test]
fn a_chain_that_is_too_long_for_any_thread_is_refused() {
    for outcome in run(STATEMENT_STACK_BYTES, chains(100_000)) {
        assert_eq!(outcome.unwrap_err().state(), SqlState::StatementTooComplex);
    }
}

#[test]
fn too_many_operators_before_one_operand_are_refused_as_too_deep() {
    for operator in ["NOT ", "- ", "+ ", "~ "] {
        for operators in [150, 199, 400, 6_000] {
            let statement = format!("SELECT {}n FROM t", operator.repeat(operators));
            let outcome = run(STATEMENT_STACK_BYTES, vec![statement]).pop().unwrap();
            let error = outcome.unwrap_err();
            assert_eq!(error.state(), SqlState::StatementTooComplex, "{operators} x {operator}: {error}");
        }
    }
}

#[test]
fn on_a_small_stack_a_chain_is_refused_before_it_overflows() {
    for operators in [100, 200, 300, 3_200] {
        for outcome in run(2 << 20, chains(operators)) {
            match outcome {
                Ok(rows) => assert_eq!(rows, 1),
                Err(error) => assert_eq!(error.state(), SqlState::StatementTooComplex, "{error}"),
            }
        }
    }
}

#[test]
fn long_lists_are_not_deep() {
    let list: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let statement = format!("SELECT n FROM t WHERE n IN ({})", list.join(", "));
    let values: Vec<String> = (2..20_000).map(|number| format!("({number} + 1)")).collect();
    let insert = format!("INSERT INTO t VALUES {}", values.join(", "));
    let outcomes = run(2 << 20, vec![statement, insert]);
    let rows: Vec<u64> = outcomes.into_iter().map(Result::unwrap).collect();
    assert_eq!(rows, [1, 19_998]);
}

/// A statement with something nested so deep.
fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("SELECT {}{inner}{}", open.repeat(depth), close.repeat(depth))
}

/// Far less than what these statements took: each level doubled it.
const SOON: Duration = Duration::from_secs(10);

/// `abs(abs(...))` was read as `abs(name => value)` first at each level, so that thirty levels took hours, on a thread that
/// serves connections.
#[test]
fn calls_within_each_other_are_read_once() {
    let began = Instant::now();
    for depth in [1, 10, 30, 60] {
        let outcome = run(STATEMENT_STACK_BYTES, vec![nested("abs(", "n", ")", depth) + " FROM t"]);
        assert_eq!(*outcome[0].as_ref().unwrap(), 1, "{depth}");
    }
    // Names are names still.
    let named = "SELECT make_interval(days => abs(abs(abs(1))), hours => 2)".to_owned();
    assert_eq!(*run(STATEMENT_STACK_BYTES, vec![named])[0].as_ref().unwrap(), 1);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn a_mistake_in_the_innermost_of_many_is_found_soon() {
    let began = Instant::now();
    let mistakes = [
        ("NOT (", "a a", ")"),
        ("CAST(", "1", " AS )"),
        ("ARRAY[", "1 1", "]"),
        ("POSITION(", "a", " IN )"),
        ("SUBSTRING(", "a", " FROM )"),
        ("FLOOR(", "a", " TO )"),
        ("OVERLAY(", "a", " PLACING 'a')"),
        ("* FROM ((SELECT ", "1", ") x)"),
    ];
    for (open, inner, close) in mistakes {
        let outcome = run(STATEMENT_STACK_BYTES, vec![nested(open, inner, close, 45)]).pop().unwrap();
        let state = outcome.unwrap_err().state();
        assert!(matches!(state, SqlState::SyntaxError | SqlState::StatementTooComplex), "{open}: {state:?}");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn what_is_nested_too_deeply_is_no_mistake() {
    for (open, close) in [("CASE WHEN true THEN ", " END"), ("abs(", ")"), ("(", ")"), ("ARRAY[", "]")] {
        let outcome = run(STATEMENT_STACK_BYTES, vec![nested(open, "1", close, 260)]).pop().unwrap();
        assert_eq!(outcome.unwrap_err().state(), SqlState::StatementTooComplex, "{open}");
    }
    // A mistake is one, however deep it is.
    let mistake = nested("(", "1 +", ")", 60);
    let outcome = run(STATEMENT_STACK_BYTES, vec![mistake]).pop().unwrap();
    assert_eq!(outcome.unwrap_err().state(), SqlState::SyntaxError);
}

/// DataFusion checks each subquery once more for each one that is around it.
#[test]
fn subqueries_in_each_other_run_or_are_refused_and_are_soon_done() {
    let began = Instant::now();
    for (open, first) in [("(SELECT ", "1"), ("EXISTS (SELECT ", "1"), ("true IN (SELECT ", "true")] {
        for (depth, runs) in [(3, true), (12, true), (30, false), (80, false)] {
            let outcome = run(STATEMENT_STACK_BYTES, vec![nested(open, first, ")", depth)]).pop().unwrap();
            match outcome {
                Ok(rows) => assert!(runs && rows == 1, "{depth} x {open}"),
                Err(error) => {
                    assert!(!runs, "{depth} x {open}: {error}");
                    assert_eq!(error.state(), SqlState::StatementTooComplex, "{error}");
                }
            }
        }
    }
    assert!(began.elapsed() < 3 * SOON, "{:?}", began.elapsed());
}

#[test]
fn a_long_chain_of_conditions_is_as_low_as_can_be() {
    let began = Instant::now();
    let none: Vec<String> = (2..4_800).map(|number| format!("n = {number}")).collect();
    let all: Vec<String> = (2..4_800).map(|number| format!("n <> {number}")).collect();
    let chains = vec![
        format!("SELECT 1 FROM t WHERE {} OR n = 1", none.join(" OR ")),
        format!("SELECT 1 FROM t WHERE {} AND n = 1", all.join(" AND ")),
        // In the order in which they stand: what is asked behind may fail.
        format!("SELECT 1 FROM t WHERE n = 1 OR 1 / (n - 1) = 1 OR {}", none[..100].join(" OR ")),
    ];
    for outcome in run(STATEMENT_STACK_BYTES, chains) {
        assert_eq!(outcome.unwrap(), 1);
    }
    assert!(began.elapsed() < 3 * SOON, "{:?}", began.elapsed());
}

#[test]
fn a_chain_of_more_operators_than_can_be_planned_in_time_is_refused_with_a_hint() {
    for statement in
        [format!("SELECT 1{}", " + 1".repeat(1_001)), format!("SELECT 'a'{}", " || n".repeat(4_800))]
    {
        let outcome = run(STATEMENT_STACK_BYTES, vec![statement]).pop().unwrap();
        let Err(Error::Sql(error)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.state, SqlState::StatementTooComplex);
        assert!(error.hint.is_some_and(|hint| hint.contains("string_agg")));
    }
    // Long ones that are several.
    let many = vec!["(1 + 1)"; 1_000].join(" + ");
    let lists = format!("SELECT {}", vec!["1 + 1 + 1"; 1_000].join(", "));
    for outcome in run(STATEMENT_STACK_BYTES, vec![format!("SELECT {many}"), lists]) {
        assert_eq!(outcome.unwrap(), 1);
    }
}

#[test]
fn many_that_each_stand_on_the_one_before_run_or_are_refused() {
    let with: Vec<String> = (1..2_000).map(|n| format!("c{n} AS (SELECT n FROM c{})", n - 1)).collect();
    let with = format!("WITH c0 AS (SELECT n FROM t), {} SELECT n FROM c1999", with.join(", "));
    let from = nested("* FROM (SELECT ", "1", ") s", 500);
    for outcome in run(STATEMENT_STACK_BYTES, vec![with, from]) {
        match outcome {
            Ok(rows) => assert_eq!(rows, 1),
            Err(error) => assert_eq!(error.state(), SqlState::StatementTooComplex, "{error}"),
        }
    }
    let views = (1..2_000).map(|n| format!("CREATE VIEW v{n} AS SELECT n FROM v{}", n - 1));
    let views = std::iter::once("CREATE VIEW v0 AS SELECT n FROM t".to_owned()).chain(views).collect();
    let outcomes = run(STATEMENT_STACK_BYTES, views);
    let refused = outcomes.iter().find_map(|outcome| outcome.as_ref().err()).unwrap();
    assert_eq!(refused.state(), SqlState::StatementTooComplex, "{refused}");
    assert!(outcomes.iter().take(30).all(Result::is_ok));
}

/// Queries around this one, each of which names the column of the one within it three times.
fn threefold(inner: &str, levels: usize) -> String {
    (0..levels).fold(inner.to_owned(), |inner, _| format!("SELECT c + c - c AS c FROM ({inner}) x"))
}

/// As one expression, forty of them have more parts than any memory holds.
#[test]
fn queries_that_each_name_the_one_before_several_times_run_soon() {
    let began = Instant::now();
    let column = threefold("SELECT n AS c FROM t", 40);
    let groups = (0..20).fold("SELECT n AS c FROM t".to_owned(), |inner, _| {
        format!("SELECT c + c - c AS c FROM ({inner}) x GROUP BY c + c - c")
    });
    let having = groups.replace("GROUP BY c + c - c", "GROUP BY c + c - c HAVING count(*) > 0");
    let filters = (0..40).fold("SELECT t.n AS c".to_owned(), |inner, _| {
        format!("SELECT c + c - c AS c FROM ({inner}) x WHERE c > 0")
    });
    let ids = (0..30).fold("SELECT oid AS c FROM pg_class WHERE relname = 't'".to_owned(), |inner, _| {
        format!("SELECT CASE WHEN c > 5 THEN c ELSE c END AS c FROM ({inner}) x")
    });
    let statements = vec![
        // A condition that goes down, and a bound that a scan is told.
        format!("SELECT c FROM ({column}) x WHERE c = 1"),
        format!("SELECT c FROM ({column}) x ORDER BY c LIMIT 1"),
        format!("SELECT c FROM ({groups}) x WHERE c = 1"),
        format!("SELECT c FROM ({having}) x WHERE c = 1"),
        // LATERAL that reads no table, and one that has a row where there are none.
        format!("SELECT * FROM t, LATERAL ({}) l", threefold("SELECT t.n AS c", 40)),
        format!("SELECT * FROM t, LATERAL ({filters}) l"),
        format!(
            "SELECT * FROM t, LATERAL ({}) l",
            threefold("SELECT count(*) AS c FROM t s WHERE s.n = t.n", 40)
        ),
        ids,
    ];
    for (number, outcome) in run(STATEMENT_STACK_BYTES, statements).into_iter().enumerate() {
        assert_eq!(outcome.unwrap(), 1, "statement {number}");
    }
    assert!(began.elapsed() < 3 * SOON, "{:?}", began.elapsed());
}

/// As PostgreSQL has it, which lets a view select from itself by way of others until it is asked.
#[test]
fn a_view_within_itself_is_refused_where_it_is_read() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.run("CREATE VIEW a AS SELECT 1 AS n; CREATE VIEW b AS SELECT n FROM a").unwrap();
    session.run("CREATE VIEW c AS SELECT n FROM b; CREATE OR REPLACE VIEW a AS SELECT n FROM c").unwrap();
    for (sql, named) in [("TABLE a", "a"), ("TABLE c", "c"), ("SELECT count(*) FROM b x, a y", "b")] {
        let error = session.execute(sql).unwrap_err();
        assert_eq!(error.state(), SqlState::InvalidObjectDefinition, "{sql}: {error}");
        let expected = format!("infinite recursion detected in rules for relation \"{named}\"");
        assert!(error.to_string().contains(&expected), "{sql}: {error}");
    }
    // What is made of other relations goes on, and so does the list of columns, for which no view is planned.
    assert_eq!(session.execute("SELECT count(*) FROM information_schema.columns").unwrap(), 1);
    let columns = "SELECT column_name FROM information_schema.columns WHERE table_name IN ('a', 'b', 'c')";
    assert_eq!(session.execute(columns).unwrap(), 3);
}

/// A short statement that uses large views often, and views that each use the one before twice: both would be planned for
/// minutes, in gigabytes.
#[test]
fn views_that_are_too_large_together_are_refused() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    let text = "x".repeat(1_500_000);
    session.execute(&format!("CREATE VIEW large AS SELECT length('{text}') AS n")).unwrap();
    assert_eq!(session.execute("SELECT 1 FROM large a, large b").unwrap(), 1);
    let error = session.execute("SELECT 1 FROM large a, large b, large c").unwrap_err();
    assert_eq!(error.state(), SqlState::StatementTooComplex, "{error}");
    session.execute("CREATE VIEW twofold AS SELECT a.n FROM large a, large b").unwrap();
    let error = session.execute("SELECT 1 FROM twofold a, twofold b").unwrap_err();
    assert_eq!(error.state(), SqlState::StatementTooComplex, "{error}");
}

/// Each is planned in every place that names it: thirty that name the one before twice filled the memory.
#[test]
fn queries_of_with_that_are_too_large_together_are_refused() {
    let with = |levels: usize, recursive: &str| {
        let level = |n: usize| format!("c{n} AS (SELECT a.n FROM c{0} a, c{0} b)", n - 1);
        let levels: Vec<String> = (1..=levels).map(level).collect();
        let (last, levels) = (levels.len(), levels.join(", "));
        format!("WITH {recursive} c0 AS (SELECT n FROM t), {levels} SELECT n FROM c{last}")
    };
    let began = Instant::now();
    assert_eq!(*run(STATEMENT_STACK_BYTES, vec![with(4, "")])[0].as_ref().unwrap(), 1);
    let too_large = [with(30, ""), with(40, "RECURSIVE"), format!("INSERT INTO t {}", with(30, ""))];
    for outcome in run(STATEMENT_STACK_BYTES, too_large.into()) {
        assert_eq!(outcome.unwrap_err().state(), SqlState::StatementTooComplex);
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

/// Each value of a clause has the conditions of all clauses before it, which were gigabytes for a text of some hundred kilobytes.
#[test]
fn a_merge_of_very_many_clauses_is_refused() {
    let merge = |clauses: usize| {
        let clause = |n: usize| format!("WHEN MATCHED AND s.n = {n} THEN UPDATE SET n = {n}");
        let clauses: Vec<String> = (0..clauses).map(clause).collect();
        format!("MERGE INTO t USING (SELECT 1 AS n) s ON t.n = s.n {}", clauses.join(" "))
    };
    let outcomes = run(STATEMENT_STACK_BYTES, vec![merge(20), merge(3_000)]);
    assert_eq!(*outcomes[0].as_ref().unwrap(), 1);
    assert_eq!(outcomes[1].as_ref().unwrap_err().state(), SqlState::StatementTooComplex);
}

/// What stands for several copies of what is within it was copied with the copies in it.
#[test]
fn what_is_written_several_times_is_refused_where_it_is_deep() {
    let within = |levels: usize, level: fn(&str) -> String| {
        let deep = (0..levels).fold("n".to_owned(), |inner, _| level(&inner));
        format!("SELECT {deep} FROM t")
    };
    let levels: [fn(&str) -> String; 8] = [
        |inner| format!("coalesce({inner} + 1, 0)"),
        |inner| format!("(({inner}) IN (n, 0))::int"),
        |inner| format!("(({inner}) BETWEEN 0 AND 2)::int"),
        |inner| format!("(n BETWEEN SYMMETRIC 0 AND ({inner}))::int"),
        |inner| format!("((n, {inner}) < (2, 3))::int"),
        |inner| format!("(({inner}, n) < (2, 3))::int"),
        |inner| format!("(({inner} * 2, n) IN ((1, 2), (3, 4), (5, 6)))::int"),
        |inner| {
            let date = format!("date '2022-01-01' + ({inner})::int");
            format!("(({date}, date '2022-01-05') OVERLAPS (date '2022-01-02', date '2022-01-03'))::int")
        },
    ];
    let began = Instant::now();
    for (number, level) in levels.into_iter().enumerate() {
        // Rows whose first columns are in the order of a table: what is known of that order is found out for both sides of each OR, which
        // doubles with each level and has no bound yet.
        let most = if number == 4 { 12 } else { 30 };
        let outcomes = run(STATEMENT_STACK_BYTES, vec![within(1, level), within(most, level)]);
        assert_eq!(*outcomes[0].as_ref().unwrap(), 1, "{number}");
        match &outcomes[1] {
            Ok(rows) => assert_eq!(*rows, 1, "{number}"),
            Err(error) => assert_eq!(error.state(), SqlState::StatementTooComplex, "{number}: {error}"),
        }
    }
    assert!(began.elapsed() < 3 * SOON, "{:?}", began.elapsed());
}

/// Each use of a window's name is a copy of the window.
#[test]
fn windows_that_are_too_large_together_are_refused() {
    let query = |keys: usize, uses: usize| {
        let (keys, uses) = (vec!["n"; keys].join(", "), vec!["count(*) OVER w"; uses].join(", "));
        format!("SELECT {uses} FROM t WINDOW v AS (PARTITION BY {keys}), w AS (v ORDER BY n)")
    };
    let outcomes = run(STATEMENT_STACK_BYTES, vec![query(3, 100), query(2_000, 1_000)]);
    assert_eq!(*outcomes[0].as_ref().unwrap(), 1);
    let error = outcomes[1].as_ref().unwrap_err();
    assert_eq!(error.state(), SqlState::StatementTooComplex);
    assert!(error.to_string().contains("windows"), "{error}");
}

/// An output is put in each place of GROUP BY and HAVING that names it.
#[test]
fn outputs_that_are_named_too_often_are_refused() {
    let query = |operators: usize, uses: usize| {
        let (output, uses) = (" + 1".repeat(operators), vec!["x"; uses].join(", "));
        format!("SELECT n{output} AS x FROM t GROUP BY n HAVING 1 + {operators} IN ({uses})")
    };
    let outcomes = run(STATEMENT_STACK_BYTES, vec![query(3, 10), query(500, 20_000)]);
    // PostgreSQL knows no outputs there.
    let state = |outcome: &Result<u64, Error>| outcome.as_ref().err().map(Error::state);
    assert_ne!(state(&outcomes[0]), Some(SqlState::StatementTooComplex));
    assert_eq!(state(&outcomes[1]), Some(SqlState::StatementTooComplex));
}

/// What goes over the words of a text before the parser does goes over them once, whichever word stands at every place. It took minutes
/// with most of these, and heard of no request.
#[test]
fn a_long_text_is_read_soon_whatever_it_repeats() {
    for (begins, repeated, ends) in [
        ("SELECT 1 AS operator", " ", ""),
        ("SELECT )", ") following ", ""),
        ("SELECT )", "row exclude no others)", ""),
        ("SELECT )", "interval(2)'1 day'", ""),
        ("SELECT )", "fetch first x ", ""),
        ("COPY )", "force_quote *,", ""),
        ("INSERT )", ") on conflict ", ""),
        ("INSERT )", "on conflict (a) where ", ""),
        ("SELECT )", "using (a) as b ", ""),
        ("SELECT )", ") cycle a set b using c ", ""),
        ("SELECT )", ") cycle a set b to ", ""),
        ("CREATE TABLE ) (", "a text compression pglz,", ""),
        ("CREATE TABLE ) (", "a,", "a) as"),
    ] {
        let text = format!("{begins}{}{ends}", repeated.repeat(1_000_000 / repeated.len()));
        let began = Instant::now();
        let outcome = run(STATEMENT_STACK_BYTES, vec![text]).pop().unwrap();
        // A million letters take four seconds without optimization, and eleven beside other tests.
        assert!(began.elapsed() < 3 * SOON, "{:?} for {repeated}: {outcome:?}", began.elapsed());
    }
}
