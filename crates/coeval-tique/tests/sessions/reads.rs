// SPDX-License-Identifier: Apache-2.0
//! What statements see.

use crate::{all_options, database, default_database, error, is_monetdb, rows, state, tag};
use coeval_tique::{Options, SqlState};

#[test]
fn columns_may_be_named_like_words_of_the_engine() {
    for options in all_options() {
        let database = database(options);
        let mut session = database.session().unwrap();
        session.execute("CREATE TABLE t (pivot int PRIMARY KEY, summarize text, qualify int)").unwrap();
        session.execute("INSERT INTO t (pivot, qualify, summarize) VALUES (1, 2, 'a'), (2, 3, 'b')").unwrap();
        session.execute("UPDATE t SET qualify = qualify + t.pivot WHERE summarize = 'b'").unwrap();
        let sql = "SELECT pivot, x.qualify FROM t AS x WHERE x.summarize >= 'a' ORDER BY qualify, pivot";
        assert_eq!(rows(&mut session, sql), ["1|2", "2|5"], "{options:?}");
        assert_eq!(
            rows(&mut session, "SELECT max(qualify) FROM t GROUP BY summarize HAVING min(pivot) = 2"),
            ["5"]
        );
    }
}

#[test]
fn columns_may_be_named_like_those_of_the_transactions() {
    for options in all_options() {
        let database = database(options);
        let mut session = database.session().unwrap();
        session.execute("CREATE TABLE t (cts int, txid int, entry int, PRIMARY KEY (txid, cts))").unwrap();
        session.execute("INSERT INTO t VALUES (1, 1, 10), (2, 2, 20), (3, 3, 30)").unwrap();
        session.execute("UPDATE t SET entry = entry + cts WHERE txid = 2 AND cts = 2").unwrap();
        session.execute("BEGIN; DELETE FROM t WHERE cts = 3").unwrap();
        let sql = "SELECT cts, txid, entry FROM t WHERE cts <= 3 ORDER BY txid";
        for _ in 0..2 {
            assert_eq!(rows(&mut session, sql), ["1|1|10", "2|2|22"], "{options:?}");
            assert_eq!(rows(&mut session, "SELECT entry FROM t WHERE txid = 2 AND cts = 2"), ["22"]);
            if session.is_in_block() {
                session.execute("COMMIT").unwrap();
                database.checkpoint().unwrap();
            }
        }
        session.execute("INSERT INTO t VALUES (4, 4, 40)").unwrap();
        assert_eq!(rows(&mut session, "SELECT sum(entry) FROM t WHERE txid > 0"), ["72"], "{options:?}");
    }
}

#[test]
fn a_transaction_reads_one_snapshot_and_its_own_writes() {
    for options in all_options() {
        let database = database(options);
        let (mut one, mut two) = (database.session().unwrap(), database.session().unwrap());
        one.execute("CREATE TABLE t (k int PRIMARY KEY, v text)").unwrap();
        one.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')").unwrap();
        one.execute("BEGIN").unwrap();
        assert_eq!(rows(&mut one, "SELECT v FROM t ORDER BY k"), ["a", "b", "c"]);
        two.execute("UPDATE t SET v = 'B' WHERE k = 2").unwrap();
        two.execute("DELETE FROM t WHERE k = 3; INSERT INTO t VALUES (4, 'd')").unwrap();
        assert_eq!(rows(&mut two, "SELECT v FROM t ORDER BY k"), ["a", "B", "d"]);
        assert_eq!(rows(&mut one, "SELECT v FROM t ORDER BY k"), ["a", "b", "c"], "{options:?}");
        one.execute("UPDATE t SET v = v || '1' WHERE k = 1; UPDATE t SET v = v || '2' WHERE k = 1").unwrap();
        one.execute("INSERT INTO t VALUES (9, 'z')").unwrap();
        assert_eq!(rows(&mut one, "SELECT v FROM t ORDER BY k"), ["a12", "b", "c", "z"], "{options:?}");
        assert_eq!(rows(&mut two, "SELECT v FROM t WHERE k IN (1, 9)"), ["a"], "{options:?}");
        one.execute("DELETE FROM t WHERE k = 9").unwrap();
        assert_eq!(rows(&mut one, "SELECT k FROM t WHERE k = 9"), [""; 0]);
        assert_eq!(tag(&mut one, "COMMIT"), "COMMIT");
        for session in [&mut one, &mut two] {
            assert_eq!(
                rows(session, "SELECT k, v FROM t ORDER BY k"),
                ["1|a12", "2|B", "4|d"],
                "{options:?}"
            );
        }
    }
}

#[test]
fn any_select_is_rewritten_and_both_formulations_agree() {
    let queries = [
        "SELECT o.id, c.name FROM orders o JOIN customers AS c ON c.id = o.customer ORDER BY 1",
        "SELECT c.name, count(o.id), sum(o.total) FROM customers c LEFT JOIN orders o ON o.customer = c.id \
         GROUP BY c.name HAVING count(*) > 0 ORDER BY 1",
        "WITH orders AS (SELECT * FROM orders WHERE total > 5) SELECT count(*) FROM orders",
        "WITH a AS (SELECT id FROM orders), b AS (SELECT id FROM a WHERE id > 10) SELECT * FROM b ORDER BY 1",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n ORDER BY 1",
        "SELECT name FROM customers WHERE id IN (SELECT customer FROM orders WHERE total > 15) ORDER BY 1",
        "SELECT name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders WHERE customer = c.id AND total > 15) ORDER BY 1",
        "SELECT id FROM customers UNION SELECT customer FROM orders EXCEPT SELECT 1 ORDER BY 1",
        "SELECT (SELECT max(total) FROM orders) - total FROM orders ORDER BY id",
        "SELECT * FROM public.customers ORDER BY 1",
        "SELECT c.* FROM customers c, customers d WHERE c.id = d.id AND d.id = 2",
        "SELECT x.id FROM (SELECT id FROM orders) AS x WHERE x.id = 10",
        "SELECT id, rank() OVER (ORDER BY total DESC) FROM orders ORDER BY 1",
        "VALUES (1, 'x')",
    ];
    for options in all_options() {
        let database = database(options);
        let mut session = database.session().unwrap();
        session
            .execute(
                "CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL); \
                 CREATE TABLE orders (id int PRIMARY KEY, customer int, total double precision); \
                 INSERT INTO customers VALUES (1, 'ann'), (2, 'bob'), (3, 'eve'), (4, 'gone'); \
                 INSERT INTO orders VALUES (10, 1, 10.0), (11, 1, 20.0), (12, 3, 5.0)",
            )
            .unwrap();
        database.checkpoint().unwrap();
        session
            .execute("DELETE FROM customers WHERE id = 4; UPDATE orders SET total = 6.0 WHERE id = 12")
            .unwrap();
        session.execute("BEGIN; INSERT INTO orders VALUES (13, 2, 30.0); UPDATE customers SET name = 'Bob' WHERE id = 2").unwrap();
        for query in queries.into_iter().filter(|query| !query.contains("RECURSIVE") || !is_monetdb()) {
            let mut answers = Vec::new();
            for formulation in ["auto", "ranking", "anti_join"] {
                session.execute(&format!("SET tique.formulation = {formulation}")).unwrap();
                answers.push(rows(&mut session, query));
            }
            assert!(!answers[0].is_empty(), "{query} gives rows");
            assert!(
                answers.iter().all(|answer| *answer == answers[0]),
                "{query}: {answers:?} with {options:?}"
            );
        }
        assert_eq!(rows(&mut session, queries[0]), ["10|ann", "11|ann", "12|eve", "13|Bob"]);
        assert_eq!(
            rows(&mut session, queries[2]),
            ["4"],
            "a WITH that has the name of a table reads the table"
        );
        assert_eq!(rows(&mut session, queries[6]), ["eve"]);
    }
}

#[test]
fn what_is_not_there_or_not_supported_is_said_in_the_applications_terms() {
    let database = database(Options::default());
    let mut session = database.session().unwrap();
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v text)").unwrap();
    let cases = [
        ("SELECT * FROM nothing", SqlState::UndefinedTable),
        ("SELECT * FROM t_cache", SqlState::UndefinedTable),
        ("SELECT * FROM t_storage", SqlState::UndefinedTable),
        ("SELECT * FROM tique_committed", SqlState::UndefinedTable),
        ("DELETE FROM tique_committed", SqlState::UndefinedTable),
        ("SELECT * FROM other.t", SqlState::UndefinedTable),
        ("WITH t_cache AS (SELECT 1) SELECT * FROM t", SqlState::ReservedName),
        ("SELECT * FROM t FOR UPDATE", SqlState::FeatureNotSupported),
        ("SELEC 1", SqlState::SyntaxError),
        ("SELECT missing FROM t", SqlState::EngineRefused),
        ("UPDATE t SET missing = 1", SqlState::UndefinedColumn),
        ("INSERT INTO t (k, missing) VALUES (1, 2)", SqlState::UndefinedColumn),
        ("INSERT INTO t (k) VALUES (1, 2)", SqlState::SyntaxError),
        ("TRUNCATE t", SqlState::FeatureNotSupported),
        ("CREATE TABLE t (k int PRIMARY KEY)", SqlState::DuplicateTable),
        ("DROP TABLE nothing", SqlState::UndefinedTable),
    ];
    for (sql, expected) in cases {
        assert_eq!(state(&mut session, sql), expected, "{sql}");
    }
    let refused = error(&mut session, "SELECT missing FROM t");
    assert_eq!(refused.detail.unwrap(), "The statement was: SELECT missing FROM t");
    assert!(!session.is_in_block());
    session.execute("BEGIN").unwrap();
    assert_eq!(state(&mut session, "SELECT missing FROM t"), SqlState::EngineRefused);
    assert_eq!(state(&mut session, "SELECT 1"), SqlState::InFailedTransaction);
    assert_eq!(tag(&mut session, "COMMIT"), "ROLLBACK");
    session.execute("BEGIN READ ONLY").unwrap();
    assert_eq!(state(&mut session, "DELETE FROM t"), SqlState::ReadOnlyTransaction);
    session.execute("ROLLBACK").unwrap();
    assert_eq!(state(&mut session, "BEGIN; CREATE TABLE u (k int PRIMARY KEY)"), SqlState::ActiveTransaction);
}

#[test]
fn what_is_refused_is_shown_where_the_application_wrote_it() {
    for options in all_options() {
        let database = database(options);
        let mut session = database.session().unwrap();
        session.execute("CREATE TABLE t (k int PRIMARY KEY, v text)").unwrap();
        session.execute("INSERT INTO t VALUES (1, 'one')").unwrap();
        let cases = [
            // The parser and we.
            ("SELECT k;\n  SELEC k FROM t", (2, 3)),
            ("SELECT k FROM nothing", (1, 15)),
            ("UPDATE nothing SET v = 'x'", (1, 8)),
            ("DELETE FROM t WHERE k IN (SELECT k FROM nothing)", (1, 41)),
            ("INSERT INTO t SELECT k, v FROM nothing", (1, 32)),
            ("SELECT * FROM other.u", (1, 15)),
            ("UPDATE t SET missing = 'x'", (1, 14)),
            ("INSERT INTO t (k, missing) VALUES (2, 'x')", (1, 19)),
            // The engine.
            ("SELECT missing FROM t", (1, 8)),
            ("SELECT k, v,\n  v || missing FROM t WHERE missing = 'x'", (2, 8)),
            ("SELECT v FROM t WHERE k = 1 AND missing = 'x'", (1, 33)),
            ("SELECT x.k, x.missing FROM t AS x", (1, 13)),
            ("SELECT k FROM t WHERE no_such(v) = 1", (1, 23)),
            ("SELECT 1 UNION ALL SELECT (SELECT max(missing) FROM t)", (1, 39)),
            ("UPDATE t SET v = missing", (1, 18)),
            ("UPDATE t SET v = 'x' WHERE missing = 'x'", (1, 28)),
            ("DELETE FROM t\nWHERE missing IS NULL", (2, 7)),
            ("INSERT INTO t SELECT k + 1, missing FROM t", (1, 29)),
            ("INSERT INTO t VALUES (2, no_such('x'))", (1, 26)),
            ("SELECT 1 AS one; SELECT missing FROM t", (1, 25)),
        ];
        for (sql, (line, column)) in cases {
            let refused = error(&mut session, sql);
            let place = refused.place.map(|place| (place.line, place.column));
            assert_eq!(place, Some((line, column)), "{sql}: {refused}");
            assert!(refused.to_string().contains(&format!("At line {line}, column {column}.")), "{refused}");
            assert!(
                !refused.message.contains("tique_") && !refused.message.contains("t_storage"),
                "{refused}"
            );
        }
        // Of a name that is right elsewhere, the place is the wrong one's or none.
        let cases = [
            ("SELECT x.v FROM t x JOIN t y ON x.k = y.k WHERE k > 0", (1, 49)),
            ("WITH a AS (SELECT v AS w FROM t) SELECT v FROM a", (1, 41)),
        ];
        for (sql, wrong) in cases {
            let refused = error(&mut session, sql);
            let place = refused.place.map(|place| (place.line, place.column));
            assert!(place.is_none_or(|place| place == wrong), "{sql}: {refused}");
        }
    }
}

#[test]
fn statements_that_find_rows_by_key_rank_and_others_join() {
    let database = default_database(Options::default());
    let mut session = database.session().unwrap();
    session
        .execute("CREATE TABLE t (a int, b int, v text, PRIMARY KEY (a, b)) WITH (key = 'concatenated')")
        .unwrap();
    session.execute("INSERT INTO t VALUES (1, 1, 'x'), (1, 2, 'y'), (11, 1, 'z')").unwrap();
    let mut plan = |sql: &str| rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
    let point = plan("SELECT v FROM t WHERE a = 1 AND b = 2");
    assert!(point.contains("tique_key = Utf8(\"1.2\")"), "the concatenated key is looked up: {point}");
    assert!(
        point.contains("t_cache") && !point.contains("t_storage"),
        "the version is in the cache: {point}"
    );
    let absent = plan("SELECT v FROM t WHERE a = 1 AND b = 9");
    assert!(absent.contains("t_storage") && !absent.contains("t_cache"), "no version in the cache: {absent}");
    let part = plan("SELECT v FROM t WHERE a = 1");
    assert!(part.contains("t_cache") && part.contains("t_storage"), "{part}");
    assert!(part.contains("LeftAnti"), "there may be many rows: {part}");
    assert!(plan("SELECT count(*) FROM t").contains("LeftAnti"));
    assert!(
        !plan("SELECT v FROM t x JOIN t y USING (v) WHERE x.a = 1 AND x.b = 1")
            .contains("tique_key = Utf8(\"1.1\") AND tique_key")
    );
    assert_eq!(rows(&mut session, "SELECT v FROM t WHERE 2 = b AND a = 1"), ["y"]);
    assert_eq!(rows(&mut session, "SELECT v FROM t AS q WHERE q.a = 11 AND q.b = 1"), ["z"]);
    session.execute("SET tique.formulation = 'ranking'").unwrap();
    let ranked = rows(&mut session, "EXPLAIN SELECT v FROM t WHERE a = 1").join("\n");
    assert!(ranked.contains("rank()") && !ranked.contains("LeftAnti"), "{ranked}");
    session.execute("SET tique.formulation = 'auto'").unwrap();
    database.checkpoint().unwrap();
    // Figure 6c: nothing is left of the cache.
    let stable = rows(&mut session, "EXPLAIN SELECT v FROM t WHERE a = 1").join("\n");
    assert!(stable.contains("t_storage") && !stable.contains("t_cache"), "{stable}");
    assert_eq!(rows(&mut session, "SELECT v FROM t WHERE a = 1 AND b = 2"), ["y"]);
}

/// The engine's own plan has the statement's condition beneath the join of storage and cache, as in 4.2.
#[test]
fn the_engine_pushes_conditions_to_storage_and_cache() {
    let named = |name: &str| std::env::var_os(format!("COEVAL_TIQUE_{name}")).is_some();
    // How an engine shows a condition of a scan. What MonetDB and SQLite are sent has it written out.
    let shown = match () {
        () if named("MONETDB") || named("SQLITE") => return,
        () if named("DUCKDB") => ["n=77", "k>77"],
        () if named("POSTGRESQL") => ["(n = 77)", "(k > 77)"],
        () => ["n@1 = 77", "k@0 > 77"],
    };
    let database = database(Options { checkpoint_at: 0, ..Options::default() });
    let mut session = database.session().unwrap();
    session.execute("CREATE TABLE t (k int PRIMARY KEY, n int)").unwrap();
    for first in [0, 500] {
        let values: Vec<_> = (first..first + 500).map(|k| format!("({k}, {})", k % 100)).collect();
        session.execute(&format!("INSERT INTO t VALUES {}", values.join(", "))).unwrap();
        if first == 0 {
            database.checkpoint().unwrap();
        }
    }
    // Versions are ranked before they are asked for anything but their key: one that does not fit may hide one that does.
    let cases =
        [("anti_join", "n = 77", 10, 1), ("anti_join", "k > 77", 922, 2), ("ranking", "k > 77", 922, 2)];
    for (formulation, condition, count, scans) in cases {
        session.execute(&format!("SET tique.formulation = '{formulation}'")).unwrap();
        let sql = format!("SELECT k FROM t WHERE {condition}");
        assert_eq!(rows(&mut session, &sql).len(), count, "{formulation}");
        let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
        assert!(plan.contains("t_storage") && plan.contains("t_cache"), "{plan}");
        let shown = shown[usize::from(condition.starts_with('k'))];
        assert!(plan.matches(shown).count() >= scans, "{formulation}, {condition}: {plan}");
    }
}

/// An engine would do it, past everything: a plan with ANALYZE is run.
#[test]
fn what_changes_rows_is_not_in_a_query_nor_explained() {
    let database = database(Options::default());
    let mut session = database.session().unwrap();
    session.execute("CREATE TABLE t (k int PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    for sql in [
        "EXPLAIN ANALYZE INSERT INTO t_storage VALUES (2)",
        "EXPLAIN ANALYZE DELETE FROM t",
        "EXPLAIN UPDATE t SET k = 2",
        "WITH made AS (INSERT INTO t_storage VALUES (2) RETURNING k) SELECT k FROM made",
        "EXPLAIN ANALYZE WITH gone AS (DELETE FROM t_storage RETURNING k) SELECT k FROM gone",
    ] {
        let found = state(&mut session, sql);
        assert!(matches!(found, SqlState::FeatureNotSupported | SqlState::SyntaxError), "{sql}: {found:?}");
    }
    assert_eq!(rows(&mut session, "SELECT k FROM t"), ["1"]);
}
