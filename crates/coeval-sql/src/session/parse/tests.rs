// SPDX-License-Identifier: Apache-2.0
//! Tests of the parser's additions.

use super::{Parsed, Utility, parse};

#[test]
fn deferrable_is_a_mode_of_transactions_and_of_nothing_else() {
    for sql in [
        "BEGIN DEFERRABLE",
        "SET TRANSACTION DEFERRABLE",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, DEFERRABLE",
        "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY, DEFERRABLE",
        "BEGIN TRANSACTION NOT DEFERRABLE, READ ONLY",
        "START TRANSACTION READ ONLY NOT DEFERRABLE",
        "SET TRANSACTION READ WRITE, NOT DEFERRABLE",
    ] {
        let parsed = parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let [Parsed::Utility(utility)] = &parsed[..] else { panic!("{sql}") };
        assert!(matches!(&**utility, Utility::DeferrableModes(_)), "{sql}");
    }
    assert!(matches!(parse("SET search_path = deferrable, b").unwrap()[..], [Parsed::Statement(_)]));
    assert_eq!(parse("SET SESSION a = deferrable").unwrap_err().state.code(), "42601");
}

#[test]
fn overriding_goes_with_its_insert() {
    for sql in [
        "INSERT INTO t (a) OVERRIDING SYSTEM VALUE VALUES (1)",
        "INSERT INTO t overriding user value SELECT 1",
        "WITH c AS (SELECT 1) INSERT INTO t OVERRIDING SYSTEM VALUE SELECT * FROM c",
    ] {
        let parsed = parse(sql).unwrap();
        let [Parsed::Statement(statement)] = &parsed[..] else { panic!("one statement") };
        assert!(statement.to_string().contains("overriding = "), "{statement}");
    }
    assert!(parse("SELECT overriding FROM t").is_ok());
}

#[test]
fn options_of_copy_are_on_or_off_in_any_spelling() {
    let options = |sql: &str| match &parse(sql).unwrap()[..] {
        [Parsed::Statement(statement)] => statement.to_string(),
        other => panic!("one statement, not {other:?}"),
    };
    let copy = options("COPY t (header, freeze) FROM '/f' WITH (FREEZE on, header 0, format csv)");
    assert!(copy.contains("FREEZE") && !copy.contains("FREEZE FALSE"), "{copy}");
    assert!(copy.contains("HEADER FALSE") && copy.contains("(header, freeze)"), "{copy}");
    assert!(parse("COPY t FROM '/f' (HEADER maybe)").is_err());
    assert!(parse("SELECT header 1 FROM t").is_err());
}

#[test]
fn statements_are_divided_and_empty_ones_dropped() {
    assert_eq!(parse("SELECT 1;; SELECT ';' ;").unwrap().len(), 2);
    assert_eq!(parse(" -- nothing\n").unwrap().len(), 0);
    assert!(matches!(parse("checkpoint;").unwrap()[..], [Parsed::Checkpoint]));
}

#[test]
fn what_follows_a_statement_is_an_error_with_its_position() {
    let error = parse("SELECT 1 FROM t t2 t3").unwrap_err();
    assert_eq!((error.state.code(), error.position), ("42601", Some(20)));
    assert_eq!(parse("SELEC 1").unwrap_err().position, Some(1));
    assert_eq!(parse("SELECT 'abc").unwrap_err().state.code(), "42601");
}

/// The parser went back over the blanks before a statement, to before its beginning.
#[test]
fn blanks_before_a_statement_are_passed_over() {
    let sql = "\n  ALTER TABLE t ADD COLUMN b int;\n -- more\n ALTER TABLE t DROP COLUMN b; \n ALTER SCHEMA s RENAME TO r";
    assert_eq!(parse(sql).unwrap().len(), 3);
    assert_eq!(parse(" \n GRANT usage, b TO c").unwrap().len(), 1);
}

#[test]
fn table_is_a_query_where_one_may_stand() {
    let shown = |sql: &str| match &parse(sql).unwrap()[..] {
        [Parsed::Statement(statement)] => statement.to_string(),
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(shown("TABLE t"), "SELECT * FROM t");
    assert_eq!(shown("table s.\"T\" ORDER BY 1"), "SELECT * FROM s.\"T\" ORDER BY 1");
    assert_eq!(shown("SELECT 1 UNION ALL TABLE t"), "SELECT 1 UNION ALL SELECT * FROM t");
    assert_eq!(shown("SELECT (TABLE t)"), "SELECT (SELECT * FROM t)");
    assert_eq!(shown("CREATE VIEW v AS TABLE t"), "CREATE VIEW v AS SELECT * FROM t");
    assert_eq!(shown("DROP TABLE t"), "DROP TABLE t");
    assert_eq!(shown("SELECT a FROM ONLY t JOIN ONLY u ON true"), "SELECT a FROM t JOIN u ON true");
    assert!(parse("TABLE").is_err());
}

#[test]
fn fetch_is_another_word_for_limit() {
    let query = |sql: &str| match &parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))[..] {
        [Parsed::Statement(statement)] => statement.to_string(),
        _ => panic!("{sql}"),
    };
    for (sql, expected) in [
        ("SELECT 1 FETCH FIRST 3 ROWS ONLY", "SELECT 1 LIMIT 3"),
        ("SELECT 1 OFFSET 2 ROWS FETCH NEXT ROW ONLY", "SELECT 1 LIMIT 1 OFFSET 2 ROWS"),
        ("SELECT 1 FETCH FIRST ($1 + (2)) ROW ONLY FOR UPDATE", "SELECT 1 LIMIT ($1 + (2)) FOR UPDATE"),
        (
            "SELECT (SELECT a FETCH FIRST ROW ONLY) FETCH NEXT $1 ROWS ONLY",
            "SELECT (SELECT a LIMIT 1) LIMIT $1",
        ),
        ("SELECT 1 FETCH FIRST 3 ROWS WITH TIES", "SELECT 1 FETCH FIRST 3 ROWS WITH TIES"),
        (
            "SELECT 1 FETCH FIRST (1 + 2) ROWS WITH TIES",
            "SELECT 1 LIMIT coeval_with_ties(CAST((1 + 2) AS BIGINT))",
        ),
    ] {
        assert_eq!(query(sql), expected, "{sql}");
    }
    for sql in ["FETCH FIRST FROM c", "FETCH NEXT c"] {
        assert!(matches!(&parse(sql).unwrap()[..], [Parsed::Utility(_)]), "{sql}");
    }
    // The word is no name in PostgreSQL either: what is selected has ended before it.
    for sql in [
        "SELECT 1 FETCH FIRST",
        "SELECT 1 FETCH FIRST )",
        "SELECT 1 FETCH FIRST (1 ROWS ONLY",
        "SELECT fetch FROM first",
    ] {
        assert_eq!(parse(sql).err().unwrap().state.code(), "42601", "{sql}");
    }
}
