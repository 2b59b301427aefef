// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::ddl::values::parse_query;

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
