// SPDX-License-Identifier: Apache-2.0
use super::{named, of_named, of_parser};
use crate::parse::parse;
use datafusion::sql::sqlparser::ast::{Ident, SelectItem, SetExpr, Statement};
use datafusion::sql::sqlparser::tokenizer::Location;

#[test]
fn a_message_names_what_it_quotes_or_introduces() {
    let cases: [(&str, &[&str]); 10] = [
        ("Referenced column \"Missing\" not found!\nCandidate bindings: \"k\"", &["missing"]),
        ("no such column: missing", &["missing"]),
        ("column t.missing does not exist", &["missing", "t"]),
        ("Schema error: No field named ww. Did you mean 'a.w'?", &["ww"]),
        ("Could not convert string 'count' to INT32", &[]),
        ("Scalar Function with name f does not exist!\nDid you mean \"g\"?", &["f", "with"]),
        ("SELECT: no such operator 'sys'.'f'(int)", &["f", "sys"]),
        ("Ambiguous reference to column name `k`", &["k"]),
        ("a value doesn't fit, and can't be 'kept'", &["kept"]),
        ("", &[]),
    ];
    for (message, expected) in cases {
        assert_eq!(named(message).iter().map(String::as_str).collect::<Vec<_>>(), expected, "{message}");
    }
}

#[test]
fn the_first_name_that_the_message_has_is_where_it_points() {
    let is_of_table = |name: &str| ["t", "k", "v", "v2", "Vv"].contains(&name);
    let cases = [
        ("SELECT 1,\n  foo FROM t WHERE foo = 1", "column \"foo\"", Some((2, 3))),
        ("SELECT x.k, x.foo FROM t x", "Table \"x\" does not have a column named \"foo\"", Some((1, 13))),
        ("SELECT f(k) FROM t", "function f(integer) does not exist", Some((1, 8))),
        ("SELECT k::shape FROM t", "type \"shape\" does not exist", Some((1, 11))),
        ("DELETE FROM t WHERE \"A b\" = 1", "no such column: \"A b\"", Some((1, 21))),
        ("SELECT k FROM t", "division by zero", None),
        ("SELECT a FROM t", "a value is out of range", None),
        // Names that may be right somewhere.
        ("SELECT sum(k), sum(v) FROM t", "function sum(text) does not exist", None),
        ("WITH a AS (SELECT v AS w FROM t) SELECT a.v FROM a", "No field named a.v", None),
        ("SELECT w, t.w FROM (SELECT v AS w FROM t) a, t", "No field named t.w", None),
        (
            "SELECT w, ww FROM (SELECT v AS w FROM t) a",
            "No field named ww. Did you mean 'a.w'?",
            Some((1, 11)),
        ),
        ("SELECT max(\"Vv\") FROM t HAVING \"Vv\" > 1", "column \"t.Vv\" must appear", None),
        ("UPDATE t SET v = 'x' WHERE v = 1", "column \"v\" is of type text", None),
        ("SELECT k, v2 FROM t WHERE k = v", "column \"v2\" does not exist", Some((1, 11))),
        ("SELECT v FROM t", "column \"v\" must appear in GROUP BY", Some((1, 8))),
        ("SELECT v FROM t WHERE v = 1", "column reference \"v\" is ambiguous", None),
        ("SELECT k, w FROM t", "column \"w\" not found (not \"k\")", Some((1, 11))),
    ];
    for (sql, message, expected) in cases {
        let statement = parse(sql).unwrap().remove(0);
        let place = of_named(message, &statement, is_of_table).map(|place| (place.line, place.column));
        assert_eq!(place, expected, "{sql}: {message}");
    }
}

/// Coeval calls the outputs of what it sends as PostgreSQL does.
#[test]
fn a_name_that_was_given_to_an_output_is_no_mention() {
    let mut statement = parse("SELECT no_such(k) FROM t").unwrap().remove(0);
    let Statement::Query(query) = &mut statement else { panic!("{statement}") };
    let SetExpr::Select(select) = &mut *query.body else { panic!("{query}") };
    let Some(SelectItem::UnnamedExpr(expr)) = select.projection.pop() else { panic!("{select}") };
    select.projection.push(SelectItem::ExprWithAlias { expr, alias: Ident::new("no_such") });
    let place = of_named("function no_such(integer) does not exist", &statement, |_| false);
    assert_eq!(place, Some(Location::new(1, 8)));
}

#[test]
fn the_parsers_place_is_behind_what_it_says() {
    let said = "Expected: an expression, found: FROM";
    assert_eq!(of_parser(&format!("{said} at Line: 2, Column: 8")), (said, Some(Location::new(2, 8))));
    assert_eq!(of_parser("nested at Line: too deeply"), ("nested at Line: too deeply", None));
}
