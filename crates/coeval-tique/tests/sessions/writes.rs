// SPDX-License-Identifier: Apache-2.0
//! INSERT, UPDATE, DELETE, ON CONFLICT, RETURNING.

use crate::skipping::needed;
use crate::{all_options, database, default_database, error, is_monetdb, is_sqlite, rows, state, tag};
use coeval_tique::{Options, SqlState};

const BOTH: &str = "SELECT k, v FROM t ORDER BY k";

#[test]
fn every_form_of_write_says_what_it_did_and_does_it() {
    for options in all_options() {
        let database = database(options);
        let mut session = database.session().unwrap();
        session.execute("CREATE TABLE t (k int PRIMARY KEY, v text DEFAULT 'd'); CREATE TABLE s (k int PRIMARY KEY, v text)").unwrap();
        assert_eq!(tag(&mut session, "INSERT INTO t (v, k) VALUES ('a', 1), (DEFAULT, 2)"), "INSERT 0 2");
        assert_eq!(tag(&mut session, "INSERT INTO t (k) SELECT k + 2 FROM t"), "INSERT 0 2");
        assert_eq!(rows(&mut session, BOTH), ["1|a", "2|d", "3|d", "4|d"], "{options:?}");
        session.execute("INSERT INTO s SELECT k, 'from ' || v FROM t WHERE k < 3").unwrap();
        assert_eq!(tag(&mut session, "UPDATE t SET v = s.v FROM s WHERE s.k = t.k"), "UPDATE 2");
        assert_eq!(
            tag(&mut session, "UPDATE t AS x SET (k, v) = (x.k + 10, DEFAULT) WHERE x.k > 2"),
            "UPDATE 2"
        );
        assert_eq!(rows(&mut session, BOTH), ["1|from a", "2|from d", "13|d", "14|d"], "{options:?}");
        assert_eq!(tag(&mut session, "DELETE FROM t USING s WHERE s.k = t.k AND s.k = 1"), "DELETE 1");
        assert_eq!(tag(&mut session, "DELETE FROM t WHERE k > 13"), "DELETE 1");
        database.checkpoint().unwrap();
        assert_eq!(rows(&mut session, BOTH), ["2|from d", "13|d"], "{options:?}");
        assert_eq!(tag(&mut session, "UPDATE t SET v = 'none' WHERE k = 99"), "UPDATE 0");
    }
}

#[test]
fn keys_may_change_places_within_a_statement() {
    let database = database(Options::default());
    let mut session = database.session().unwrap();
    session
        .execute(
            "CREATE TABLE t (k int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        )
        .unwrap();
    session.execute("UPDATE t SET k = k + 1").unwrap();
    assert_eq!(rows(&mut session, BOTH), ["2|a", "3|b", "4|c"]);
    assert_eq!(state(&mut session, "UPDATE t SET k = 4 WHERE k = 2"), SqlState::UniqueViolation);
    assert_eq!(state(&mut session, "UPDATE t SET k = 7"), SqlState::UniqueViolation);
    session.execute("BEGIN; DELETE FROM t WHERE k = 2; INSERT INTO t VALUES (2, 'again'); COMMIT").unwrap();
    assert_eq!(rows(&mut session, BOTH), ["2|again", "3|b", "4|c"]);
}

#[test]
fn on_conflict_skips_or_updates() {
    for options in all_options() {
        let database = database(options);
        let mut session = database.session().unwrap();
        session
            .execute(
                "CREATE TABLE t (k int PRIMARY KEY, v text, n int UNIQUE); INSERT INTO t VALUES (1, 'a', 10)",
            )
            .unwrap();
        let sql = "INSERT INTO t VALUES (1, 'x', 11), (2, 'b', 12), (3, 'c', 10) ON CONFLICT DO NOTHING";
        assert_eq!(tag(&mut session, sql), "INSERT 0 1");
        let sql = "INSERT INTO t AS o VALUES (1, 'y', 13), (4, 'd', 14) \
                   ON CONFLICT (k) DO UPDATE SET v = o.v || excluded.v, n = excluded.n RETURNING k, v";
        assert_eq!(rows(&mut session, sql).len(), 2);
        let all = "SELECT k, v, n FROM t ORDER BY k";
        assert_eq!(rows(&mut session, all), ["1|ay|13", "2|b|12", "4|d|14"], "{options:?}");
        let sql = "INSERT INTO t VALUES (7, 'z', 12) ON CONFLICT (n) DO UPDATE SET v = 'by n' WHERE t.k = 2";
        session.execute(sql).unwrap();
        let sql = "INSERT INTO t VALUES (7, 'z', 12) ON CONFLICT ON CONSTRAINT t_n_key DO UPDATE SET v = 'no' WHERE t.k = 1";
        assert_eq!(tag(&mut session, sql), "INSERT 0 0");
        assert_eq!(rows(&mut session, all), ["1|ay|13", "2|by n|12", "4|d|14"]);
        let twice = "INSERT INTO t VALUES (8, 'a', 1), (8, 'b', 2) ON CONFLICT (k) DO UPDATE SET v = 'x'";
        assert_eq!(state(&mut session, twice), SqlState::CardinalityViolation);
        let unknown = "INSERT INTO t VALUES (8, 'a', 1) ON CONFLICT (v) DO NOTHING";
        assert_eq!(state(&mut session, unknown), SqlState::InvalidColumnReference);
        let skipped = "INSERT INTO t VALUES (NULL, 'a', 12) ON CONFLICT DO NOTHING";
        assert_eq!(state(&mut session, skipped), SqlState::NotNullViolation, "{options:?}");
        session.execute("BEGIN; INSERT INTO t VALUES (5, 'own', 50)").unwrap();
        session
            .execute("INSERT INTO t VALUES (5, '+', 50) ON CONFLICT (k) DO UPDATE SET v = t.v || excluded.v")
            .unwrap();
        assert_eq!(rows(&mut session, "SELECT v FROM t WHERE k = 5"), ["own+"], "{options:?}");
        session.execute("ROLLBACK").unwrap();
        assert_eq!(rows(&mut session, "SELECT count(*) FROM t"), ["3"]);
    }
}

#[test]
fn returning_gives_the_rows_after_the_statement() {
    let database = database(Options::default());
    let mut session = database.session().unwrap();
    if is_sqlite() {
        session.execute("CREATE TABLE t (k int PRIMARY KEY, v text)").unwrap();
        assert_eq!(rows(&mut session, "INSERT INTO t VALUES (1, 'it''s') RETURNING *, k + 1"), ["1|it's|2"]);
        assert_eq!(rows(&mut session, "DELETE FROM t RETURNING v || '!'"), ["it's!"]);
        return;
    }
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v text, at date, price decimal(8,2))").unwrap();
    let sql = "INSERT INTO t VALUES (1, 'it''s', '2024-02-29', 1.5) RETURNING *, k + 1";
    assert_eq!(rows(&mut session, sql), ["1|it's|2024-02-29|1.50|2"]);
    assert_eq!(
        rows(&mut session, "UPDATE t AS u SET v = NULL, price = price * 2 RETURNING u.v, price"),
        ["|3.00"]
    );
    assert_eq!(rows(&mut session, "DELETE FROM t WHERE k = 9 RETURNING k"), [""; 0]);
    assert_eq!(rows(&mut session, "DELETE FROM t RETURNING at"), ["2024-02-29"]);
}

/// Values of each type come back as they were written, by constants and by queries; those that a column cannot hold are
/// refused, whatever the engine would make of them.
#[test]
fn columns_take_what_is_of_their_type() {
    for options in all_options() {
        let database = database(options);
        let mut session = database.session().unwrap();
        let columns =
            "k int PRIMARY KEY, small smallint, big bigint, r double precision, b boolean, v varchar(9)";
        session.execute(&format!("CREATE TABLE t ({columns}, CHECK (small < 100), CHECK (b))")).unwrap();
        session.execute("INSERT INTO t VALUES (1, -7, 9007199254740993, 0.1, true, '-0.0')").unwrap();
        session.execute("INSERT INTO t SELECT k + 1, small, big + 1, r * 2, b, NULL FROM t").unwrap();
        session.execute("INSERT INTO t (k, small) VALUES ('3', '5'); INSERT INTO t (k) VALUES (4)").unwrap();
        let all = "SELECT k, small, big, r, v FROM t ORDER BY k";
        let expected = ["1|-7|9007199254740993|0.1|-0.0", "2|-7|9007199254740994|0.2|", "3|5|||", "4||||"];
        assert_eq!(rows(&mut session, all), expected, "{options:?}");
        assert_eq!(rows(&mut session, "SELECT k FROM t WHERE b ORDER BY k"), ["1", "2"]);
        if !is_monetdb() {
            let descending = rows(&mut session, "SELECT k FROM t ORDER BY small DESC, k");
            assert_eq!(descending, ["4", "3", "1", "2"], "NULL is above all values");
            assert_eq!(rows(&mut session, "SELECT k FROM t ORDER BY small, k LIMIT 3"), ["1", "2", "3"]);
        }
        for (set, expected) in [
            ("small = 40000", None),
            ("k = 'four'", None),
            ("big = 'x' || big", None),
            ("b = false", Some(SqlState::CheckViolation)),
            ("small = '400'", Some(SqlState::CheckViolation)),
        ] {
            let refused = state(&mut session, &format!("UPDATE t SET {set} WHERE k = 1"));
            assert!(expected.is_none_or(|expected| refused == expected), "{set}: {refused:?}");
            let tidy = [SqlState::OutOfRange, SqlState::InvalidText];
            assert!(!is_sqlite() || expected.is_some() || tidy.contains(&refused), "{set}: {refused:?}");
        }
        assert_eq!(rows(&mut session, all), expected, "{options:?}");
        assert_eq!(tag(&mut session, "UPDATE t SET k = k + 10, v = NULL WHERE b"), "UPDATE 2");
        database.checkpoint().unwrap();
        assert_eq!(state(&mut session, "INSERT INTO t (k) VALUES ('11')"), SqlState::UniqueViolation);
        assert_eq!(rows(&mut session, "SELECT k, v FROM t WHERE k = 11"), ["11|"]);
    }
}

#[test]
fn what_an_engine_has_no_type_for_is_refused_by_name() {
    if needed("sqlite", is_sqlite().then_some(())).is_none() {
        return;
    }
    let database = database(Options::default());
    let mut session = database.session().unwrap();
    for kind in ["numeric(8,2)", "date", "time", "timestamp", "timestamptz", "uuid", "json", "bytea"] {
        let refused = error(&mut session, &format!("CREATE TABLE n (k int PRIMARY KEY, v {kind})"));
        assert_eq!(refused.state, SqlState::FeatureNotSupported, "{refused}");
        assert!(refused.message.starts_with("SQLite has no type "), "{refused}");
    }
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v text); INSERT INTO t VALUES (1, '1')").unwrap();
    for sql in ["SELECT v::numeric FROM t", "SELECT * FROM t WHERE v = DATE '2024-02-29'"] {
        assert_eq!(state(&mut session, sql), SqlState::FeatureNotSupported, "{sql}");
    }
    assert_eq!(state(&mut session, "SELECT 'one'::int FROM t"), SqlState::InvalidText);
    // A name in double quotes that is no column's is no text.
    session.execute("CREATE TABLE u (k int PRIMARY KEY, w text)").unwrap();
    assert_eq!(state(&mut session, "SELECT w FROM t"), SqlState::EngineRefused);
    assert_eq!(state(&mut session, "SELECT \"no\" FROM t"), SqlState::EngineRefused);
}

/// ALTER TABLE is refused on every engine, and what its hint says works on every engine.
#[test]
fn a_table_gets_another_definition_by_becoming_another() {
    for options in all_options() {
        let database = database(options);
        let mut session = database.session().unwrap();
        session.execute("CREATE TABLE t (k int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a')").unwrap();
        for sql in ["ADD COLUMN n int", "DROP COLUMN v", "RENAME COLUMN v TO w", "RENAME TO u"] {
            let refused = error(&mut session, &format!("ALTER TABLE t {sql}"));
            assert_eq!(refused.state, SqlState::FeatureNotSupported, "{sql}");
            assert!(refused.hint.is_some_and(|hint| hint.contains("INSERT INTO it SELECT")), "{sql}");
        }
        session.execute("CREATE TABLE u (k int PRIMARY KEY, w text, n int DEFAULT 7)").unwrap();
        session.execute("INSERT INTO u (k, w) SELECT k, v FROM t; DROP TABLE t").unwrap();
        assert_eq!(rows(&mut session, "SELECT * FROM u"), ["1|a|7"], "{options:?}");
        session.execute("CREATE TABLE t (k text PRIMARY KEY)").unwrap();
        assert_eq!(rows(&mut session, "SELECT * FROM t"), [""; 0]);
    }
}

/// The driver tells a column's type from the first rows of an answer; NULLs tell nothing.
#[test]
fn a_column_whose_first_rows_are_null_is_read() {
    let database = database(Options::default());
    let mut session = database.session().unwrap();
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v text)").unwrap();
    let nulls: Vec<_> = (0..1_500).map(|k| format!("({k}, NULL)")).collect();
    session.execute(&format!("INSERT INTO t VALUES {}, (2000, 'last')", nulls.join(", "))).unwrap();
    let all = rows(&mut session, "SELECT k, v FROM t ORDER BY k");
    assert_eq!((all.len(), all[1_500].as_str()), (1_501, "2000|last"));
    assert_eq!(tag(&mut session, "UPDATE t SET v = v || '!'"), "UPDATE 1501");
    assert_eq!(rows(&mut session, "SELECT v FROM t WHERE k = 2000"), ["last!"]);
}

#[test]
fn a_static_table_is_the_engines_own() {
    let database = default_database(Options::default());
    let mut session = database.session().unwrap();
    session.execute("CREATE TABLE s (k int, v text NOT NULL) WITH (tique = 'static')").unwrap();
    session.execute("BEGIN; INSERT INTO s VALUES (1, 'a'), (1, 'b'); ROLLBACK").unwrap();
    assert_eq!(rows(&mut session, "SELECT v FROM s ORDER BY v"), ["a", "b"]);
    assert_eq!(state(&mut session, "INSERT INTO s VALUES (1, NULL)"), SqlState::NotNullViolation);
    assert_eq!(state(&mut session, "DELETE FROM s"), SqlState::FeatureNotSupported);
    let plan = rows(&mut session, "EXPLAIN SELECT * FROM s").join("\n");
    assert!(!plan.contains("cache") && !plan.contains("Window"), "{plan}");
}

#[test]
fn tables_come_and_go_and_names_that_are_taken_are_refused() {
    let database = database(Options::default());
    let (mut session, mut other) = (database.session().unwrap(), database.session().unwrap());
    session
        .execute("CREATE TABLE p (k int PRIMARY KEY); CREATE TABLE c (k int PRIMARY KEY REFERENCES p)")
        .unwrap();
    session.execute("CREATE TABLE IF NOT EXISTS p (k int PRIMARY KEY); INSERT INTO p VALUES (1)").unwrap();
    assert_eq!(state(&mut session, "DROP TABLE p"), SqlState::ObjectInUse);
    other.execute("BEGIN; SELECT * FROM c").unwrap();
    assert_eq!(state(&mut session, "DROP TABLE c"), SqlState::ObjectInUse);
    other.execute("COMMIT").unwrap();
    session.execute("DROP TABLE c; DROP TABLE p; DROP TABLE IF EXISTS p").unwrap();
    session.execute("CREATE TABLE p (name text PRIMARY KEY)").unwrap();
    assert_eq!(rows(&mut other, "SELECT * FROM p"), [""; 0]);
    let no_parent = error(&mut session, "CREATE TABLE c (a int PRIMARY KEY REFERENCES nothing)");
    assert_eq!(no_parent.state, SqlState::UndefinedTable);
}

#[test]
fn bytes_are_what_their_digits_say_wherever_they_are_written() {
    if is_sqlite() {
        return;
    }
    let database = database(Options { checkpoint_at: 0, ..Options::default() });
    let mut session = database.session().unwrap();
    session.execute("CREATE TABLE t (k int PRIMARY KEY, y bytea, n int)").unwrap();
    session.execute(r"INSERT INTO t VALUES (1, '\xDEADbeef', 1), (2, '\x', 2), (3, NULL, 3)").unwrap();
    session.execute(r"INSERT INTO t VALUES (4, '\xDEADbeef', 2 + 2)").unwrap();
    session.execute(r"UPDATE t SET y = '\x00ff27' WHERE k = 3").unwrap();
    let expected = ["1|deadbeef", "2|", "3|00ff27", "4|deadbeef"];
    for _ in 0..2 {
        assert_eq!(rows(&mut session, "SELECT k, y FROM t ORDER BY k"), expected);
        database.checkpoint().unwrap();
    }
    assert_eq!(rows(&mut session, r"SELECT k FROM t WHERE y = CAST('\x00FF27' AS bytea)"), ["3"]);
}
