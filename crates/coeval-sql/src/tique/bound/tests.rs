// SPDX-License-Identifier: Apache-2.0
//! What is bound, to what, and what is not sent. A session had SELECT on `stock` alone, and read `hr.sal` by
//! `SELECT y.* FROM stock s, (WITH hr__sal AS (SELECT 1) SELECT * FROM hr__sal) x, hr__sal y`.

use super::{bind, is_harmless};
use coeval_store::{ColumnDef, ColumnType, ForeignDef, QualifiedName, SpaceId, TableDef};
use datafusion::sql::sqlparser::ast::{ObjectName, Statement};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::sync::Arc;

fn parsed(sql: &str) -> Statement {
    Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().pop().unwrap()
}

/// `stock` and `sal` are there, as `stock_there` and `sal_there`.
fn find(name: &ObjectName) -> Option<Arc<TableDef>> {
    let known = ["stock", "sal"].into_iter().position(|known| name.to_string().to_lowercase() == known)?;
    let called = ["stock", "sal"][known];
    let id = SpaceId::new(u32::try_from(known).unwrap() + 10);
    let columns = vec![ColumnDef::new("a", ColumnType::Int)];
    let mut def = TableDef::new(id, QualifiedName::new("public", called), columns, vec![0]);
    def.foreign = Some(ForeignDef { server: "wh".to_owned(), table: format!("{called}_there") });
    Some(Arc::new(def))
}

/// The tables that a statement names for the server, and what is sent.
fn bound(sql: &str) -> Option<(Vec<String>, String)> {
    let bound = bind(parsed(sql), "postgresql", find)?;
    let names = bound.tables.iter().map(|def| def.name.name.clone()).collect();
    Some((names, bound.statement.to_string()))
}

#[test]
fn every_table_that_is_read_is_among_those_whose_rights_are_checked() {
    let cases: [(&str, &[&str]); 12] = [
        ("SELECT * FROM stock", &["stock"]),
        ("SELECT y.* FROM stock s, (WITH sal AS (SELECT 1) SELECT * FROM sal) x, sal y", &["stock", "sal"]),
        ("WITH sal AS (SELECT * FROM sal) SELECT * FROM sal", &["sal"]),
        ("WITH b AS (SELECT 1), sal AS (SELECT * FROM sal, b) SELECT * FROM sal, b", &["sal"]),
        ("SELECT * FROM stock WHERE a IN (SELECT a FROM SAL)", &["stock", "sal"]),
        (
            "SELECT (WITH sal AS (SELECT 1) SELECT 1 FROM sal), (SELECT max(a) FROM sal) FROM stock",
            &["sal", "stock"],
        ),
        (
            "WITH RECURSIVE sal AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM sal) SELECT * FROM sal, stock",
            &["stock"],
        ),
        ("INSERT INTO stock VALUES (1) RETURNING (SELECT max(a) FROM sal)", &["stock", "sal"]),
        (
            "INSERT INTO stock VALUES (1) ON CONFLICT (a) DO UPDATE SET a = (SELECT max(a) FROM sal)",
            &["stock", "sal"],
        ),
        ("UPDATE stock SET a = (SELECT max(a) FROM sal)", &["stock", "sal"]),
        ("DELETE FROM stock USING sal WHERE stock.a = sal.a", &["stock", "sal"]),
        (
            "SELECT * FROM stock UNION (WITH sal AS (SELECT 1) SELECT * FROM sal) UNION SELECT * FROM sal",
            &["stock", "sal"],
        ),
    ];
    for (sql, tables) in cases {
        assert_eq!(bound(sql).unwrap_or_else(|| panic!("{sql}")).0, tables, "{sql}");
    }
}

#[test]
fn tables_and_common_table_expressions_get_names_that_nobody_takes_for_each_other() {
    let sent = |sql| bound(sql).unwrap().1;
    assert_eq!(sent("SELECT stock.a FROM stock"), "SELECT stock.a FROM \"stock_there\" AS \"stock\"");
    assert_eq!(
        sent("WITH sal AS (SELECT * FROM sal) SELECT sal.a FROM sal"),
        "WITH \"with 1 sal\" AS (SELECT * FROM \"sal_there\" AS \"sal\") SELECT sal.a FROM \"with 1 sal\" AS \"sal\""
    );
    // An engine that takes the inner name for a table's finds none.
    let recursive = sent("WITH RECURSIVE sal AS (SELECT a FROM sal) SELECT * FROM sal, stock");
    assert!(!recursive.contains("sal_there"), "{recursive}");
}

#[test]
fn what_can_name_anything_else_is_not_sent() {
    for sql in [
        "SELECT * FROM payroll",
        "SELECT * FROM stock, payroll",
        "SELECT * FROM stock, hr.sal",
        "SELECT * FROM stock, pg_catalog.pg_authid",
        "SELECT * FROM stock, information_schema.tables",
        "SELECT * FROM stock, sqlite_master",
        "WITH a AS (SELECT * FROM payroll), payroll AS (SELECT 1) SELECT * FROM a, stock",
        "SELECT * FROM stock UNION TABLE sal",
        "SELECT * FROM stock, read_csv('/etc/passwd')",
        "SELECT * FROM stock, glob('/etc/*')",
        "SELECT * FROM stock, LATERAL generate_series(1, a)",
        "SELECT pg_read_file('/etc/passwd') FROM stock",
        "SELECT pg_catalog.lower('A') FROM stock",
        "SELECT query_to_xml('SELECT * FROM hr', true, true, '') FROM stock",
        "SELECT lo_import('/etc/passwd') FROM stock",
        "SELECT set_config('role', 'postgres', false) FROM stock",
        "SELECT current_setting('data_directory') FROM stock",
        "SELECT getenv('HOME') FROM stock",
        "SELECT load_extension('x') FROM stock",
        "SELECT readfile('/etc/passwd') FROM stock",
        "SELECT nextval('hr_seq') FROM stock",
        "SELECT dblink('', 'SELECT 1') FROM stock",
        "SELECT count(*) FILTER (WHERE pg_sleep(1) IS NULL) FROM stock",
        "SELECT sum(a) OVER (PARTITION BY pg_read_file('x')) FROM stock",
        "SELECT * FROM stock ORDER BY pg_read_file('x')",
        "SELECT * FROM stock LIMIT (SELECT length(pg_read_file('x')))",
        "SELECT current_user FROM stock",
        "SELECT 'sal'::regclass FROM stock",
        "SELECT '{sal}'::regclass[] FROM stock",
        "SELECT CAST('{sal}' AS hr.mood[]) FROM stock",
        "SELECT a OPERATOR(hr.+) 1 FROM stock",
        "SELECT * FROM stock FOR UPDATE",
        "SELECT * INTO copied FROM stock",
        "INSERT INTO payroll SELECT * FROM stock",
        "INSERT INTO stock VALUES (1) RETURNING pg_read_file('x')",
        "UPDATE stock SET a = length(pg_read_file('x'))",
        "DELETE FROM stock WHERE EXISTS (SELECT 1 FROM payroll)",
    ] {
        assert!(bound(sql).is_none(), "{sql}");
    }
}

#[test]
fn a_definition_calls_harmless_functions_and_asks_nothing() {
    let is_harmless = |columns: &str| {
        is_harmless(&mut parsed(&format!("CREATE TABLE t (id int PRIMARY KEY, {columns})")), "postgresql")
    };
    assert!(is_harmless("a int DEFAULT 1 CHECK (abs(a) > 0), b timestamp DEFAULT now()"));
    assert!(is_harmless("a int REFERENCES other (id)"));
    assert!(!is_harmless("a text DEFAULT pg_read_file('/etc/passwd')"));
    assert!(!is_harmless("a int CHECK (a > length(pg_read_file('/etc/passwd')))"));
    assert!(!is_harmless("a int DEFAULT (SELECT 1)"));
    assert!(!is_harmless("a int, CHECK (a IN (SELECT a FROM hr))"));
}
