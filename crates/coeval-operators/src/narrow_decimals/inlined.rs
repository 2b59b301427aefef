// SPDX-License-Identifier: Apache-2.0
//! Arithmetic of decimals that several aggregates have in common, put back into each of them.
//!
//! DataFusion has what occurs several times computed once, in a projection below:
//!
//! ```text
//! AggregateExec: mode=Partial, gby=[flag], aggr=[sum(x), sum(x * (1 + tax))]
//!   ProjectionExec: expr=[flag, price * (1 - discount) as x, tax]
//! ```
//!
//! There it becomes decimals of 128 bits, of which each aggregate makes 64-bit integers again. To compute it by such integers for each of
//! them takes less time, and leaves nothing for the projection to do: the aggregate reads the rows below it.

use super::NarrowDecimals;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;

/// If more different arguments need what the projection computes, it stays there: it would be computed for each of them.
const READERS_MAX: usize = 4;

/// The first step of GROUP BY over the rows below its projection; `None` if it stays where it is: the projection computes nothing of this
/// kind, or anything else, or something needs it that is no arithmetic of decimals itself.
pub(super) fn inlined(aggregate: &AggregateExec) -> Result<Option<AggregateExec>> {
    let Some(projection) = aggregate.input().downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let group_by = aggregate.group_expr();
    let is_plain = *aggregate.mode() == AggregateMode::Partial
        && group_by.is_single()
        && !group_by.is_empty()
        && aggregate.limit_options().is_none()
        && aggregate.dynamic_expressions_produced().is_empty();
    let outputs = projection.expr();
    let is_known = |output: &ProjectionExpr| output.expr.is::<Column>() || output.expr.is::<NarrowDecimals>();
    let computes = outputs.iter().any(|output| output.expr.is::<NarrowDecimals>());
    if !is_plain || !computes || !outputs.iter().all(is_known) {
        return Ok(None);
    }
    let rows = projection.input();
    let mut inlining = Inlining { outputs, schema: rows.schema(), readers: Vec::new() };
    let mut keys = Vec::new();
    for (key, name) in group_by.expr() {
        let Some(key) = inlining.passed_on(key)? else { return Ok(None) };
        keys.push((key, name.clone()));
    }
    let mut filters = Vec::new();
    for filter in aggregate.filter_expr() {
        let inlined = filter.as_ref().map(|filter| inlining.passed_on(filter)).transpose()?;
        let Some(filter) = inlined.map_or(Some(None), |filter| filter.map(Some)) else { return Ok(None) };
        filters.push(filter);
    }
    let mut functions = Vec::new();
    for function in aggregate.aggr_expr() {
        let Some(function) = inlining.function(function)? else { return Ok(None) };
        functions.push(Arc::new(function));
    }
    let (keys, schema) = (PhysicalGroupBy::new_single(keys), Arc::clone(&inlining.schema));
    let made = AggregateExec::try_new(*aggregate.mode(), keys, functions, filters, Arc::clone(rows), schema)?;
    let is_the_same =
        made.schema() == aggregate.schema() && made.input_order_mode() == aggregate.input_order_mode();
    Ok(is_the_same.then_some(made))
}

/// What becomes of expressions over a projection's rows.
struct Inlining<'a> {
    outputs: &'a [ProjectionExpr],
    /// Of the rows below.
    schema: SchemaRef,
    /// The different arguments so far that need what is computed.
    readers: Vec<Arc<dyn PhysicalExpr>>,
}

impl Inlining<'_> {
    /// Whether an expression needs what the projection computes.
    fn needs_computed(&self, expression: &Arc<dyn PhysicalExpr>) -> bool {
        let is_computed = |column: &Column| self.outputs[column.index()].expr.is::<NarrowDecimals>();
        collect_columns(expression).iter().any(is_computed)
    }

    /// An expression over the rows below.
    fn over_rows(&self, expression: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let put_back = |part: Arc<dyn PhysicalExpr>| {
            let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
            let output = &self.outputs[column.index()].expr;
            let plain = output.downcast_ref::<NarrowDecimals>().map_or(output, |narrow| &narrow.plain);
            Ok(Transformed::new(Arc::clone(plain), true, TreeNodeRecursion::Jump))
        };
        Ok(Arc::clone(expression).transform_down(put_back)?.data)
    }

    /// The same of one that needs only what the projection passes on; `None` of another one.
    fn passed_on(&self, expression: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        if self.needs_computed(expression) { Ok(None) } else { self.over_rows(expression).map(Some) }
    }

    /// A function over the rows below; `None` if it, or an argument of it, stays as it is.
    fn function(&mut self, function: &AggregateFunctionExpr) -> Result<Option<AggregateFunctionExpr>> {
        let mut arguments = Vec::new();
        for argument in function.expressions() {
            let over_rows = self.over_rows(&argument)?;
            if self.needs_computed(&argument) {
                if NarrowDecimals::in_place_of(&over_rows, &self.schema)?.is_none() {
                    return Ok(None);
                }
                if !self.readers.contains(&over_rows) {
                    self.readers.push(Arc::clone(&over_rows));
                }
            }
            arguments.push(over_rows);
        }
        let is_plain = function.order_bys().is_empty() && !function.is_reversed();
        if !is_plain || arguments.is_empty() || self.readers.len() > READERS_MAX {
            return Ok(None);
        }
        let mut builder = AggregateExprBuilder::new(Arc::new(function.fun().clone()), arguments)
            .schema(Arc::clone(&self.schema))
            .alias(function.name())
            .with_distinct(function.is_distinct())
            .with_ignore_nulls(function.ignore_nulls());
        if let Some(shown) = function.human_display() {
            builder = builder.human_display(shown);
        }
        if let Some(alias) = function.human_display_alias() {
            builder = builder.human_display_alias(alias);
        }
        builder.build().map(Some)
    }
}
