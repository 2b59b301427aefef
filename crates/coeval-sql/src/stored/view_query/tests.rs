// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::stored::parse_query;

fn names(sql: &str) -> Vec<String> {
    let found = relations(&parse_query(sql).unwrap());
    found.into_iter().map(|(schema, name)| format!("{}.{name}", schema.unwrap_or_default())).collect()
}

#[test]
fn relations_are_found_in_joins_and_subqueries_but_not_common_table_expressions() {
    let sql = "WITH c AS (SELECT * FROM a) SELECT * FROM c JOIN s.b ON true WHERE x IN (SELECT y FROM d)";
    assert_eq!(names(sql), [".a", ".d", "s.b"]);
}

#[test]
fn a_common_table_expression_is_meant_where_the_scope_of_sql_has_it() {
    let same = "WITH a AS (SELECT * FROM a) SELECT * FROM a";
    assert_eq!(names(same), [".a"]);
    let later = "WITH b AS (SELECT * FROM c), c AS (SELECT * FROM b) SELECT * FROM c";
    assert_eq!(names(later), [".c"]);
    let itself = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r";
    assert_eq!(names(itself), [""; 0]);
    let beside = "SELECT * FROM (WITH a AS (SELECT 1 AS n) SELECT * FROM a) x, a";
    assert_eq!(names(beside), [".a"]);
    let inner = "WITH a AS (WITH b AS (SELECT * FROM b) SELECT * FROM b) SELECT * FROM a, b WHERE x IN (SELECT y FROM a)";
    assert_eq!(names(inner), [".b"]);
    let outer = "WITH a AS (SELECT 1 AS n) SELECT (WITH b AS (SELECT * FROM a) SELECT n FROM b) FROM c";
    assert_eq!(names(outer), [".c"]);
}

#[test]
fn a_renamed_relation_keeps_its_old_name_as_alias() {
    let mut query = parse_query("SELECT t.a FROM s.t JOIN s.u AS v ON t.a = v.a").unwrap();
    rename_relations(&mut query, |_, name| match name {
        "t" => Some(QualifiedName::new("s", "Order")),
        "u" => Some(QualifiedName::new("r", "u")),
        _ => None,
    });
    assert_eq!(query.to_string(), "SELECT t.a FROM s.\"Order\" AS t JOIN r.u AS v ON t.a = v.a");
}

#[test]
fn identifiers_are_quoted_where_they_must_be() {
    let shown = |name: &str| quoted(name).to_string();
    assert_eq!(shown("plain_1"), "plain_1");
    assert_eq!(shown("Upper"), "\"Upper\"");
    assert_eq!(shown("1st"), "\"1st\"");
    assert_eq!(shown("select"), "\"select\"");
}
