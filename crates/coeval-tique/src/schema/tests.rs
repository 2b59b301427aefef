// SPDX-License-Identifier: Apache-2.0

use super::*;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

fn definition(sql: &str) -> Result<Definition> {
    match Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().pop() {
        Some(Statement::CreateTable(create)) => Definition::of(&create),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_table_is_read_with_its_constraints() {
    let table = definition(
        "CREATE TABLE \"Line\" (o int, n int DEFAULT 1, item varchar(10) NOT NULL REFERENCES items, \
         qty int CHECK (qty > 0), code text UNIQUE, PRIMARY KEY (o, n), FOREIGN KEY (o) REFERENCES orders (id)) \
         WITH (key = 'concatenated')",
    )
    .unwrap();
    assert_eq!((table.name.as_str(), &table.key), ("Line", &vec![0, 1]));
    assert_eq!(table.columns[2].characters_max(), Some(10));
    let refuses: Vec<_> = table.columns.iter().map(|column| column.nulls == Nulls::Refused).collect();
    assert_eq!(refuses, [true, true, true, false, false]);
    let parents: Vec<_> = table.foreign_keys.iter().map(|key| key.parent.as_str()).collect();
    assert_eq!(parents, ["items", "orders"]);
    assert_eq!((table.uniques[0].name.as_str(), table.checks.len()), ("Line_code_key", 1));
    assert_eq!(table.key_columns, KeyColumns::Concatenated);
}

#[test]
fn what_cannot_be_kept_is_refused_by_name() {
    let cases = [
        ("CREATE TABLE t (a int)", SqlState::InvalidTableDefinition),
        ("CREATE TABLE t_cache (a int PRIMARY KEY)", SqlState::ReservedName),
        ("CREATE TABLE tique_t (a int PRIMARY KEY)", SqlState::ReservedName),
        ("CREATE TABLE t (tique_cts int PRIMARY KEY)", SqlState::ReservedName),
        ("CREATE TABLE t (a int PRIMARY KEY, a int)", SqlState::InvalidTableDefinition),
        ("CREATE TABLE t (a int PRIMARY KEY, PRIMARY KEY (b))", SqlState::UndefinedColumn),
        (
            "CREATE TABLE t (a int PRIMARY KEY, b int REFERENCES p ON DELETE CASCADE)",
            SqlState::FeatureNotSupported,
        ),
        ("CREATE TABLE t (a int PRIMARY KEY) WITH (fillfactor = 70)", SqlState::FeatureNotSupported),
        ("CREATE TABLE t (a int PRIMARY KEY DEFERRABLE)", SqlState::FeatureNotSupported),
        ("CREATE TABLE t (a int PRIMARY KEY, UNIQUE (a) INITIALLY DEFERRED)", SqlState::FeatureNotSupported),
        ("CREATE TABLE t (a int PRIMARY KEY, UNIQUE NULLS NOT DISTINCT (a))", SqlState::FeatureNotSupported),
        ("CREATE TABLE t (a int PRIMARY KEY, b int REFERENCES p DEFERRABLE)", SqlState::FeatureNotSupported),
        (
            "CREATE TABLE t (a int PRIMARY KEY, b int REFERENCES p (a) MATCH FULL)",
            SqlState::FeatureNotSupported,
        ),
        ("CREATE TABLE t (a int PRIMARY KEY, CHECK (a > 0) NOT ENFORCED)", SqlState::FeatureNotSupported),
    ];
    for (sql, state) in cases {
        assert_eq!(definition(sql).unwrap_err().state, state, "{sql}");
    }
    assert_eq!(definition("CREATE TABLE t (a int) WITH (tique = 'static')").unwrap().kind, Kind::Static);
}

#[test]
fn a_column_keeps_the_blanks_that_it_has_room_for() {
    let table = definition(
        "CREATE TABLE t (k text PRIMARY KEY, v varchar(3), c char(3), d character(3), o char, a varchar)",
    )
    .unwrap();
    let kept = |column: usize, text: &'static str| table.columns[column].kept(text);
    for (text, of_varchar, of_char) in [
        ("", "", ""),
        ("   ", "   ", ""),
        ("    ", "   ", ""),
        (" a  ", " a ", " a"),
        ("äöü ", "äöü", "äöü"),
        ("äö   ", "äö ", "äö"),
        // Too long: refused by who counts.
        ("abcd  ", "abcd", "abcd"),
        ("ab c", "ab c", "ab c"),
    ] {
        assert_eq!((kept(1, text), kept(2, text), kept(3, text)), (of_varchar, of_char, of_char), "{text:?}");
        assert_eq!((kept(0, text), kept(4, text), kept(5, text)), (text, of_char, text), "{text:?}");
    }
    assert_eq!(table.columns[4].characters_max(), Some(1));
}
