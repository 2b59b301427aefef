// SPDX-License-Identifier: Apache-2.0
//! Which columns of tables the fields of a plan are.

use super::{Origin, origins_of};
use crate::query::typing::any_of_group;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, col, lit, table_scan};

/// A table with the columns `x` and `name`.
fn table(name: &str) -> LogicalPlanBuilder {
    let fields = vec![Field::new("x", DataType::Int64, false), Field::new("name", DataType::Utf8View, true)];
    table_scan(Some(name), &Schema::new(fields), None).unwrap()
}

fn joined(kind: JoinType) -> LogicalPlan {
    let b = table("b").build().unwrap();
    table("a").join(b, kind, (vec!["a.x"], vec!["b.x"]), None).unwrap().build().unwrap()
}

/// The names of the columns that a field is, and how many constants. `None` if it is something else.
fn origins(plan: &LogicalPlan, field: usize) -> Option<Vec<String>> {
    let named = |origin: Origin<'_>| match origin {
        Origin::Field(table, field) => table.schema().columns()[field].flat_name(),
        Origin::Constants(count) => count.to_string(),
    };
    Some(origins_of(plan, field)?.into_iter().map(named).collect())
}

fn are(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn what_is_selected_under_a_name_is_the_column_and_what_is_computed_is_something_else() {
    let selected = [col("a.name").alias("n"), lit(7), col("a.x") + lit(1_i64)];
    let plan = table("a").project(selected).unwrap().build().unwrap();
    assert_eq!(origins(&plan, 0), are(&["a.name"]));
    assert_eq!(origins(&plan, 1), are(&["1"]));
    assert_eq!(origins(&plan, 2), None);
}

#[test]
fn groups_have_the_columns_that_they_go_by() {
    let grouped = table("a").aggregate([col("a.x"), col("a.name")], [count(col("a.x"))]).unwrap();
    let filtered = grouped.alias("t").unwrap().filter(col("t.x").gt(lit(1_i64))).unwrap();
    let sorted = filtered.sort([col("t.name").sort(true, false)]).unwrap().limit(0, Some(5)).unwrap();
    let plan = sorted.distinct().unwrap().build().unwrap();
    assert_eq!(origins(&plan, 0), are(&["a.x"]));
    assert_eq!(origins(&plan, 1), are(&["a.name"]));
    assert_eq!(origins(&plan, 2), None);
}

#[test]
fn what_is_shown_of_a_group_told_by_a_key_is_the_column() {
    let any = any_of_group(col("a.name")).alias("any");
    let plan = table("a").aggregate([col("a.x")], [any, count(lit(1))]).unwrap().build().unwrap();
    assert_eq!(origins(&plan, 1), are(&["a.name"]));
    assert_eq!(origins(&plan, 2), None);
}

#[test]
fn tables_have_their_fields_themselves_under_other_names_and_filters() {
    let filtered = table("a").filter(col("a.x").gt(lit(1_i64))).unwrap();
    let plan = filtered.alias("c").unwrap().build().unwrap();
    assert_eq!(origins(&plan, 1), are(&["c.name"]));
}

#[test]
fn joins_have_the_columns_of_the_sides_that_they_give() {
    for kind in [JoinType::Inner, JoinType::Left, JoinType::Right, JoinType::Full] {
        assert_eq!(origins(&joined(kind), 1), are(&["a.name"]), "{kind}");
        assert_eq!(origins(&joined(kind), 3), are(&["b.name"]), "{kind}");
    }
    assert_eq!(origins(&joined(JoinType::LeftSemi), 1), are(&["a.name"]));
    assert_eq!(origins(&joined(JoinType::RightSemi), 1), are(&["b.name"]));
    assert_eq!(origins(&joined(JoinType::LeftMark), 2), None, "whether there is a partner");
}

#[test]
fn unions_have_the_columns_of_all_parts() {
    let part = |name: &str, kind: &str| {
        let column = col(format!("{name}.name")).alias("name");
        table(name).project([column, lit(kind).alias("kind")]).unwrap()
    };
    let union = part("a", "shop").union(part("b", "web").build().unwrap()).unwrap().build().unwrap();
    assert_eq!(origins(&union, 0), are(&["a.name", "b.name"]));
    assert_eq!(origins(&union, 1), are(&["1", "1"]));
}
