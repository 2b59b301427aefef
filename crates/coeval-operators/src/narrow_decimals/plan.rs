// SPDX-License-Identifier: Apache-2.0
//! Puts the expression into plans: into what projections compute, what filters ask, and what aggregates are given.
//!
//! A node tells others in which order its rows are, and which of its columns are the same, in terms of its expressions. The expression
//! is not equal to the one that it stands for, so a node that tells less with it stays as it is.

use super::NarrowDecimals;
use super::inlined::inlined;
use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;

/// The plan with the expression in the place of each one that it can stand for, where rows are projected, filtered, or aggregated by a
/// first step.
///
/// # Errors
///
/// Those of the plan's own expressions, when their types are asked for.
pub fn with_narrow_decimals(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let narrowed = plan.transform_up(|node| {
        let narrowed = if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            of_projection(projection)?
        } else if let Some(filter) = node.downcast_ref::<FilterExec>() {
            of_filter(filter)?
        } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            let over_rows = inlined(aggregate)?;
            let narrowed = of_aggregate(over_rows.as_ref().unwrap_or(aggregate))?;
            narrowed.or_else(|| over_rows.map(|aggregate| Arc::new(aggregate) as _))
        } else {
            None
        };
        Ok(narrowed.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    Ok(narrowed.data)
}

fn of_projection(projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let input = projection.input();
    let (input_schema, mut is_changed) = (input.schema(), false);
    let outputs = projection.expr().iter().map(|output| {
        let narrowed = narrowed(&output.expr, &input_schema)?;
        is_changed |= narrowed.is_some();
        let expression = narrowed.unwrap_or_else(|| Arc::clone(&output.expr));
        Ok(ProjectionExpr::new(expression, output.alias.clone()))
    });
    let outputs = outputs.collect::<Result<Vec<_>>>()?;
    if !is_changed {
        return Ok(None);
    }
    let schema = projection.schema();
    let made = ProjectionExec::try_new_with_schema_metadata(outputs, Arc::clone(input), &schema)?;
    Ok(tell_the_same(projection, &made).then(|| Arc::new(made) as _))
}

/// Whether others know the same about the rows of both nodes.
fn tell_the_same(old: &ProjectionExec, new: &ProjectionExec) -> bool {
    let (old, new) = (old.properties(), new.properties());
    let (old_known, new_known) = (old.equivalence_properties(), new.equivalence_properties());
    old_known.oeq_class() == new_known.oeq_class()
        && old_known.to_string() == new_known.to_string()
        && old.output_partitioning().to_string() == new.output_partitioning().to_string()
}

fn of_filter(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema = filter.input().schema();
    // What a filter equates, others take for the same.
    for part in split_conjunction(filter.predicate()) {
        let is_equation = part.downcast_ref::<BinaryExpr>().is_some_and(|part| *part.op() == Operator::Eq);
        if is_equation && narrowed(part, &schema)?.is_some() {
            return Ok(None);
        }
    }
    let Some(predicate) = narrowed(filter.predicate(), &schema)? else { return Ok(None) };
    Ok(Some(Arc::new(FilterExecBuilder::from(filter).with_predicate(predicate).build()?)))
}

fn of_aggregate(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if aggregate.mode().input_mode() != AggregateInputMode::Raw {
        return Ok(None);
    }
    let (schema, mut is_changed) = (aggregate.input().schema(), false);
    let functions = aggregate.aggr_expr().iter().map(|function| {
        let narrowed = of_function(function, &schema)?;
        is_changed |= narrowed.is_some();
        Ok(narrowed.map_or_else(|| Arc::clone(function), Arc::new))
    });
    let functions = functions.collect::<Result<Vec<_>>>()?;
    if let Some(filtered) = with_narrow_filters(aggregate, &functions, &schema)? {
        return Ok(Some(Arc::new(filtered)));
    }
    Ok(is_changed.then(|| Arc::new(aggregate.with_new_aggr_exprs(functions)) as _))
}

/// The aggregate of these functions with other filters; `None` if there are none for it.
fn with_narrow_filters(
    aggregate: &AggregateExec,
    functions: &[Arc<AggregateFunctionExpr>],
    schema: &Schema,
) -> Result<Option<AggregateExec>> {
    let mut is_changed = false;
    let filters = aggregate.filter_expr().iter().map(|filter| {
        let Some(filter) = filter else { return Ok(None) };
        let narrowed = narrowed(filter, schema)?;
        is_changed |= narrowed.is_some();
        Ok(Some(narrowed.unwrap_or_else(|| Arc::clone(filter))))
    });
    let filters = filters.collect::<Result<Vec<_>>>()?;
    // What it tells a scan below of its best values would be lost.
    if !is_changed || !aggregate.dynamic_expressions_produced().is_empty() {
        return Ok(None);
    }
    let made = AggregateExec::try_new(
        *aggregate.mode(),
        aggregate.group_expr().clone(),
        functions.to_vec(),
        filters,
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let made = made.with_limit_options(aggregate.limit_options());
    Ok(Some(made).filter(|made| made.schema() == aggregate.schema()))
}

/// A function of ordered rows stays: it is made anew without saying that its order is reversed.
fn of_function(function: &AggregateFunctionExpr, schema: &Schema) -> Result<Option<AggregateFunctionExpr>> {
    if !function.order_bys().is_empty() || function.is_reversed() {
        return Ok(None);
    }
    let mut is_changed = false;
    let arguments = function.expressions().into_iter().map(|argument| {
        let narrowed = narrowed(&argument, schema)?;
        is_changed |= narrowed.is_some();
        Ok(narrowed.unwrap_or(argument))
    });
    let arguments = arguments.collect::<Result<Vec<_>>>()?;
    Ok(if is_changed { function.with_new_expressions(arguments, Vec::new()) } else { None })
}

/// The expression with others in the place of its parts, or of itself; `None` if there are none for it.
fn narrowed(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let narrow = |part: Arc<dyn PhysicalExpr>| {
        if part.is::<NarrowDecimals>() {
            return Ok(Transformed::new(part, false, TreeNodeRecursion::Jump));
        }
        if let Some(narrow) = NarrowDecimals::in_place_of(&part, schema)? {
            let narrow: Arc<dyn PhysicalExpr> = Arc::new(narrow);
            return Ok(Transformed::new(narrow, true, TreeNodeRecursion::Jump));
        }
        with_narrow_sides(part, schema)
    };
    let done = Arc::clone(expression).transform_down(narrow)?;
    Ok(done.transformed.then_some(done.data))
}

/// An operator shows an operand in parentheses if that is an operator which binds less tightly, by its type; so it does not know when it
/// has to for what stands in its place.
fn with_narrow_sides(
    part: Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    let Some(binary) = part.downcast_ref::<BinaryExpr>() else { return Ok(Transformed::no(part)) };
    let mut is_changed = false;
    let sides = [binary.left(), binary.right()].map(|side| {
        let needs_parentheses = side
            .downcast_ref::<BinaryExpr>()
            .is_some_and(|side| side.op().precedence() < binary.op().precedence());
        let narrow = if needs_parentheses { NarrowDecimals::in_place_of(side, schema)? } else { None };
        is_changed |= narrow.is_some();
        Ok(match narrow {
            Some(narrow) => Arc::new(narrow.in_parentheses()) as Arc<dyn PhysicalExpr>,
            None => Arc::clone(side),
        })
    });
    let sides = sides.into_iter().collect::<Result<Vec<_>>>()?;
    if is_changed { part.with_new_children(sides).map(Transformed::yes) } else { Ok(Transformed::no(part)) }
}
