// SPDX-License-Identifier: Apache-2.0
//! LATERAL subqueries that read no table: what they give is computed from the row beside them.
//!
//! ```text
//! FROM t, LATERAL (SELECT t.a + 1 AS k) x        -> Projection: t.*, t.a + 1 AS x.k
//! FROM t, LATERAL (VALUES (t.a), (t.b)) x (v)    -> unnest([t.a, t.b]) beside t, its elements as x.v
//! ```
//! Those with subqueries of their own or with volatile functions are left to [`lateral`](super::lateral), and so are VALUES whose types
//! Arrow does not tell, and queries within each other of which too much would be made ([`Room`]).

use super::dependencies::subquery_of;
use super::substitution::Room;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, NullHandling, Result, UnnestOptions};
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection, Values, cast,
};
use std::sync::Arc;

/// The most rows of VALUES that become arrays.
const ROWS_MAX: usize = 100;

/// How the names of the columns of arrays begin: no names of a user's.
const ARRAY: &str = "\u{1}lateral values ";

/// What a subquery without tables gives, in terms of the row beside it.
struct Given {
    /// The outputs of each row.
    rows: Vec<Vec<Expr>>,
    /// What is to be true for its only row to be there.
    conditions: Vec<Expr>,
}

/// The join of rows with such a subquery, without a join; `None` if it has to be run.
///
/// # Errors
/// What DataFusion finds wrong while it rebuilds the plan.
pub(super) fn computed(join: &Join, subquery: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let Some(Given { rows, conditions }) = given(subquery, &mut Room::default())? else { return Ok(None) };
    let keeps_all = conditions.is_empty() || join.join_type == JoinType::Inner;
    if !keeps_all || rows.len() > ROWS_MAX || rows.iter().flatten().any(Expr::is_volatile) {
        return Ok(None);
    }
    let around = join.left.schema();
    let own = |value: Expr| of_row_around(value, around);
    let mut left = Arc::unwrap_or_clone(Arc::clone(&join.left));
    if let Some(condition) = conjunction(conditions) {
        left = LogicalPlan::Filter(Filter::try_new(own(condition)?, Arc::new(left))?);
    }
    let rows = rows.into_iter().map(|row| row.into_iter().map(own).collect::<Result<Vec<Expr>>>());
    let rows = rows.collect::<Result<Vec<_>>>()?;
    match rows.as_slice() {
        [row] => beside_one(left, row, join.right.schema()).map(Some),
        rows => beside_several(left, rows, join.right.schema()),
    }
}

/// What a plan gives; `None` if it reads a table, does more than to compute and to filter, or gives more than there is room for.
fn given(plan: &LogicalPlan, room: &mut Room) -> Result<Option<Given>> {
    match plan {
        LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
            Ok(Some(Given { rows: vec![Vec::new()], conditions: Vec::new() }))
        }
        LogicalPlan::Values(values) => Ok(of_values(values)),
        LogicalPlan::SubqueryAlias(alias) => given(&alias.input, room),
        LogicalPlan::Projection(projection) => {
            let Some(Given { rows, conditions }) = given(&projection.input, room)? else { return Ok(None) };
            if projection.expr.iter().any(is_run) {
                return Ok(None);
            }
            let schema = projection.input.schema();
            let outputs = |row: &Vec<Expr>| -> Result<Option<Vec<Expr>>> {
                projection.expr.iter().map(|output| within(output, row, schema, room)).collect()
            };
            let rows = rows.iter().map(outputs).collect::<Result<Option<Vec<_>>>>()?;
            Ok(rows.map(|rows| Given { rows, conditions }))
        }
        LogicalPlan::Filter(filter) => {
            let Some(Given { rows, mut conditions }) = given(&filter.input, room)? else { return Ok(None) };
            let ([row], false) = (rows.as_slice(), is_run(&filter.predicate)) else { return Ok(None) };
            // A condition that names a volatile output twice would have two values for it.
            if row.iter().any(Expr::is_volatile) {
                return Ok(None);
            }
            let condition = within(&filter.predicate, row, filter.input.schema(), room)?;
            let Some(condition) = condition else { return Ok(None) };
            conditions.push(condition);
            Ok(Some(Given { rows, conditions }))
        }
        _ => Ok(None),
    }
}

fn of_values(values: &Values) -> Option<Given> {
    let is_plain = !values.values.iter().flatten().any(is_run);
    is_plain.then(|| Given { rows: values.values.clone(), conditions: Vec::new() })
}

/// Whether a part of an expression makes rows by itself.
fn is_run(expression: &Expr) -> bool {
    let is_run = |part: &Expr| subquery_of(part).is_some() || matches!(part, Expr::Unnest(_));
    expression.exists(|part| Ok(is_run(part))).unwrap_or(true)
}

/// The expression with the outputs of a row, whose columns are those of `schema`, in the places of their columns, if there is room.
fn within(expression: &Expr, row: &[Expr], schema: &DFSchema, room: &mut Room) -> Result<Option<Expr>> {
    Ok(room.put(expression, row, schema)?.map(Expr::unalias))
}

/// The expression as one over the rows that a subquery stands beside, whose columns are those of `schema`.
fn of_row_around(value: Expr, schema: &DFSchema) -> Result<Expr> {
    let put = value.transform_down(|part| {
        Ok(match part {
            Expr::OuterReferenceColumn(_, column) if schema.has_column(&column) => {
                Transformed::yes(Expr::Column(column))
            }
            part => Transformed::no(part),
        })
    });
    put.data()
}

fn columns(schema: &DFSchema) -> impl Iterator<Item = Expr> {
    schema.columns().into_iter().map(Expr::Column)
}

/// Rows beside one that is computed from each of them. Its columns have the names of `names`.
fn beside_one(left: LogicalPlan, row: &[Expr], names: &DFSchema) -> Result<LogicalPlan> {
    let outputs = row.iter().cloned().zip(names.iter());
    let outputs =
        outputs.map(|(value, (qualifier, field))| value.alias_qualified(qualifier.cloned(), field.name()));
    let all = columns(left.schema()).chain(outputs).collect();
    Projection::try_new(all, Arc::new(left)).map(LogicalPlan::Projection)
}

/// Rows, each beside several that are computed from it; `None` if values of one column are of types that only a query makes one.
fn beside_several(left: LogicalPlan, rows: &[Vec<Expr>], names: &DFSchema) -> Result<Option<LogicalPlan>> {
    let name = |place: usize| Column::from_name(format!("{ARRAY}{place}"));
    let around: &DFSchema = left.schema();
    let mut arrays = Vec::with_capacity(names.fields().len());
    for (place, field) in names.fields().iter().enumerate() {
        let mut elements = Vec::with_capacity(rows.len());
        for row in rows {
            let ty = row[place].get_type(around)?;
            let is_close = ty.is_null() || (ty.is_numeric() && field.data_type().is_numeric());
            elements.push(match ty == *field.data_type() {
                true => row[place].clone(),
                false if is_close => cast(row[place].clone(), field.data_type().clone()),
                false => return Ok(None),
            });
        }
        if !field.metadata().is_empty() {
            return Ok(None);
        }
        arrays.push(make_array_udf().call(elements).alias(name(place).name));
    }
    let fields = names.iter().enumerate().map(|(place, (qualifier, field))| {
        Expr::Column(name(place)).alias_qualified(qualifier.cloned(), field.name())
    });
    let left_columns: Vec<Expr> = columns(around).collect();
    let options = UnnestOptions::new().with_null_handling(NullHandling::Drop);
    let plan = LogicalPlanBuilder::from(left)
        .project(left_columns.iter().cloned().chain(arrays))?
        .unnest_columns_with_options((0..names.fields().len()).map(name).collect(), options)?
        .project(left_columns.iter().cloned().chain(fields))?
        .build()?;
    Ok(Some(plan))
}
