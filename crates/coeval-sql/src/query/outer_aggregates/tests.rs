// SPDX-License-Identifier: Apache-2.0
//! Queries before and behind the change.

use super::computed_outside;
use crate::error::{SqlError, SqlState};
use crate::parse::parse_query;
use datafusion::execution::SessionStateBuilder;

/// The query with its aggregates where they belong; no table of it is known.
fn changed(sql: &str) -> Result<String, SqlError> {
    let functions = SessionStateBuilder::new().with_default_features().build();
    let mut query = parse_query(sql)?;
    computed_outside(&mut query, &|_| None, &functions)?;
    Ok(query.to_string())
}

fn written(sql: &str) -> String {
    parse_query(sql).expect("a query").to_string()
}

#[test]
fn an_aggregate_goes_to_the_innermost_query_with_one_of_its_columns() {
    for (sql, wanted) in [
        (
            "SELECT (SELECT max(o.a)) FROM t o",
            r#"SELECT "coeval_groups_0"."c0" AS "max"
                FROM (SELECT max(o.a) AS "c0" FROM t o) AS "coeval_groups_0""#,
        ),
        (
            "SELECT o.b AS b FROM t o GROUP BY o.b HAVING EXISTS (SELECT 1 FROM u WHERE u.x = sum(o.a)) ORDER BY o.b",
            r#"SELECT "coeval_groups_0"."c0" AS b
                FROM (SELECT o.b AS "c0", sum(o.a) AS "c1" FROM t o GROUP BY o.b) AS "coeval_groups_0"
                WHERE EXISTS (SELECT 1 FROM u WHERE u.x = "coeval_groups_0"."c1") ORDER BY "coeval_groups_0"."c0""#,
        ),
        (
            "SELECT (SELECT (SELECT max(o.a) FROM v) FROM u) AS m FROM t o",
            r#"SELECT (SELECT (SELECT "coeval_groups_0"."c0" FROM v) FROM u) AS m
                FROM (SELECT max(o.a) AS "c0" FROM t o) AS "coeval_groups_0""#,
        ),
    ] {
        assert_eq!(changed(sql).expect("it is correct"), written(wanted), "{sql}");
    }
}

#[test]
fn other_aggregates_stay_where_they_are() {
    for sql in [
        "SELECT (SELECT max(u.x) FROM u) FROM t o",
        "SELECT (SELECT max(u.x + o.a) FROM u) FROM t o",
        "SELECT (SELECT count(*) FROM u WHERE u.x = o.a) FROM t o",
        // `a` may be a column of `u`.
        "SELECT (SELECT max(a) FROM u) FROM t o",
    ] {
        assert_eq!(changed(sql).expect("it is correct"), written(sql));
    }
}

#[test]
fn there_are_no_aggregates_where_rows_are_chosen() {
    for sql in [
        "SELECT 1 FROM t o WHERE EXISTS (SELECT max(o.a))",
        "SELECT 1 FROM t o JOIN u ON (SELECT max(o.a)) = u.x",
        "SELECT 1 FROM t o GROUP BY (SELECT max(o.a))",
    ] {
        assert_eq!(changed(sql).expect_err(sql).state, SqlState::GroupingError);
    }
}
