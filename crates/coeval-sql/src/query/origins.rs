// SPDX-License-Identifier: Apache-2.0
//! What is known of a query's outputs and parameters beside their types: the columns of tables that outputs are, and the
//! parameters that are arrays.

use crate::catalog::{column_oids, set_origin};
use crate::provider::CoevalTable;
use crate::types::column_type_of_arrow;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use coeval_store::ColumnType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use std::sync::Arc;

/// How deep an output is followed.
const DEPTH_MAX: usize = 64;

/// The shown columns, each with the column of a table that it is, if it is one.
pub(super) fn with_origins(columns: &SchemaRef, plan: &LogicalPlan) -> SchemaRef {
    let fields = columns.fields().iter().enumerate().map(|(place, field)| {
        let field = field.as_ref().clone();
        match origin(plan, place, 0) {
            Some((table, column)) => set_origin(field, table, column),
            None => field,
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The ids of table and column that the output at this place is.
fn origin(plan: &LogicalPlan, place: usize, depth: usize) -> Option<(i32, i16)> {
    if depth > DEPTH_MAX {
        return None;
    }
    let below = |plan: &LogicalPlan, place: usize| origin(plan, place, depth + 1);
    match plan {
        LogicalPlan::Projection(projection) => {
            let column = plain_column(projection.expr.get(place)?)?;
            below(&projection.input, projection.input.schema().maybe_index_of_column(column)?)
        }
        LogicalPlan::SubqueryAlias(alias) => below(&alias.input, place),
        LogicalPlan::Filter(filter) => below(&filter.input, place),
        LogicalPlan::Sort(sort) => below(&sort.input, place),
        LogicalPlan::Limit(limit) => below(&limit.input, place),
        LogicalPlan::Aggregate(aggregate) => {
            let column = plain_column(aggregate.group_expr.get(place)?)?;
            below(&aggregate.input, aggregate.input.schema().maybe_index_of_column(column)?)
        }
        // Its own columns come after those of its input.
        LogicalPlan::Window(window) if place < window.input.schema().fields().len() => {
            below(&window.input, place)
        }
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            if join.schema.fields().len() != left + join.right.schema().fields().len() {
                return None;
            }
            if place < left { below(&join.left, place) } else { below(&join.right, place - left) }
        }
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            let table = provider.downcast_ref::<CoevalTable>()?;
            let name = scan.projected_schema.field(place).name();
            column_oids(table.def(), table.def().column_index(name)?)
        }
        _ => None,
    }
}

/// The column that an expression is, whatever it is called.
fn plain_column(expression: &Expr) -> Option<&Column> {
    match expression {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => plain_column(&alias.expr),
        _ => None,
    }
}

/// For each parameter the type of its elements, if the query reads it as an array.
pub(super) fn list_parameters(plan: &LogicalPlan, count: usize) -> Vec<Option<ColumnType>> {
    let mut lists = vec![None; count];
    // The walk itself never fails.
    let _ = plan.apply_with_subqueries(|node| {
        let mut schema = DFSchema::empty();
        for input in node.inputs() {
            schema.merge(input.schema());
        }
        node.apply_expressions(|expression| {
            expression.apply(|inner| {
                if let Some((place, element)) = list_parameter(inner, &schema)
                    && let Some(list) = lists.get_mut(place)
                {
                    *list = Some(element);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    lists
}

/// The parameter that a function reads as an array, with the type of its elements.
fn list_parameter(expression: &Expr, schema: &DFSchema) -> Option<(usize, ColumnType)> {
    let Expr::ScalarFunction(function) = expression else { return None };
    if !matches!(function.name(), "coeval_array" | "coeval_array_like") {
        return None;
    }
    let Expr::Placeholder(placeholder) = without_casts(function.args.first()?) else { return None };
    let place = placeholder.id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)?;
    let DataType::List(element) = expression.get_type(schema).ok()? else { return None };
    Some((place, column_type_of_arrow(element.data_type())?))
}

fn without_casts(expression: &Expr) -> &Expr {
    match expression {
        Expr::Cast(cast) => without_casts(&cast.expr),
        Expr::Alias(alias) => without_casts(&alias.expr),
        other => other,
    }
}
