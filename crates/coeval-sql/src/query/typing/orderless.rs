// SPDX-License-Identifier: Apache-2.0
//! Values of a type that has no `=` and no order, `json` that is, where rows are told apart or ordered: DataFusion would go by the text.
//!
//! | where | what is missing |
//! |---|---|
//! | GROUP BY, DISTINCT, UNION, INTERSECT, EXCEPT, PARTITION BY, `count(DISTINCT x)` | an equality operator |
//! | ORDER BY, that of an aggregate and of a window too | an ordering operator |
//!
//! A column of groups that follows from the others of them, as all of a table from its primary key, tells nothing apart.

use super::comparisons::Operand;
use super::group_keys::needed_groups;
use super::set_operations::is_set_operation;
use crate::error::SqlError;
use crate::types::{require_equality, require_order};
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan};

/// Refuses such values in a node that tells its rows apart, or orders them.
///
/// # Errors
/// `42883`.
pub(super) fn refuse_in_node(node: &LogicalPlan) -> Result<()> {
    match node {
        LogicalPlan::Aggregate(aggregate) => refuse_groups(aggregate),
        LogicalPlan::Distinct(Distinct::All(input)) => refuse_rows(input),
        LogicalPlan::Distinct(Distinct::On(first_rows)) => {
            let schema = first_rows.input.schema();
            all_equal(&first_rows.on_expr, schema)?;
            all_ordered(first_rows.sort_expr.as_deref().unwrap_or_default(), schema)
        }
        LogicalPlan::Sort(sort) => all_ordered(&sort.expr, sort.input.schema()),
        LogicalPlan::Join(join) if is_set_operation(join) => {
            refuse_rows(&join.left)?;
            refuse_rows(&join.right)
        }
        _ => Ok(()),
    }
}

/// The same of an aggregate, and of a function over a window.
///
/// # Errors
/// `42883`.
pub(super) fn refuse_in_call(expression: &Expr, schema: &DFSchema) -> Result<()> {
    match expression {
        Expr::AggregateFunction(call) => {
            if call.params.distinct {
                all_equal(&call.params.args, schema)?;
            }
            all_ordered(&call.params.order_by, schema)
        }
        Expr::WindowFunction(call) => {
            all_equal(&call.params.partition_by, schema)?;
            all_ordered(&call.params.order_by, schema)
        }
        _ => Ok(()),
    }
}

fn refuse_groups(aggregate: &Aggregate) -> Result<()> {
    let schema = aggregate.input.schema();
    let Err(error) = all_equal(&aggregate.group_expr, schema) else { return Ok(()) };
    let needed = needed_groups(aggregate).into_iter().filter_map(|place| aggregate.group_expr.get(place));
    let is_needed = needed.map(|value| equal(value, schema)).any(|told| told.is_err());
    if is_needed { Err(error) } else { Ok(()) }
}

fn refuse_rows(plan: &LogicalPlan) -> Result<()> {
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    all_equal(&columns, plan.schema())
}

fn all_equal(values: &[Expr], schema: &DFSchema) -> Result<()> {
    Ok(values.iter().try_for_each(|value| equal(value, schema))?)
}

fn all_ordered(keys: &[Sort], schema: &DFSchema) -> Result<()> {
    Ok(keys.iter().try_for_each(|key| type_of(&key.expr, schema).map_or(Ok(()), require_order))?)
}

fn equal(value: &Expr, schema: &DFSchema) -> Result<(), SqlError> {
    type_of(value, schema).map_or(Ok(()), require_equality)
}

/// The type of a value, as far as it is known for sure.
fn type_of(value: &Expr, schema: &DFSchema) -> Option<ColumnType> {
    match Operand::of(value, schema) {
        Operand::Of(ty) => Some(ty),
        Operand::Open | Operand::TextOrDocument | Operand::Unknown => None,
    }
}
