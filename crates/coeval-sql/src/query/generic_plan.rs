// SPDX-License-Identifier: Apache-2.0
//! The optimized plan of a query with parameters that is right for all their values.
//!
//! It is optimized with the parameters in it, each of its type. Whoever runs it [puts the values into it](with_values). So nothing that
//! the rules have done depends on a value: an outer join stays one, though a value may show that no row is without a partner.
//! What values decide besides comes later:
//!
//! - constants are folded with the values, in the nodes that name parameters alone;
//! - a count of LIMIT is pushed down once it is known;
//! - constants that become columns are counted ([`CountSpreading`]) once they are known: that rule is left out before, where a node names
//!   parameters;
//! - where a value decides a whole condition, a plan for these values alone is better: it may have no rows to read at all. Where one
//!   decides the type of a call, as the digits of `round(x, $1)` do, only such a plan is right: operands were cast for another type.
//!
//! How many rows pass a condition is estimated with the values of the execution during which the plan is made ([`SampleValues`]).
//!
//! Rules that take two parameters for two values would make a wrong plan where the values are the same, and offsets of window frames are
//! values in plans: see [`is_for_all_values`].

use super::frame_offsets::keeps_offset;
use super::spreading::{CountSpreading, schema_of_filters};
use crate::carried::Carry;
use crate::parameters::parameter_field;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ParamValues, Result, internal_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Values,
};
use datafusion::optimizer::push_down_limit::PushDownLimit;
use datafusion::optimizer::simplify_expressions::{ExprSimplifier, SimplifyExpressions};
use datafusion::optimizer::{Optimizer, OptimizerRule};
use std::sync::Arc;

/// What came of comparing a plan for all values with one for the values of an execution.
pub(super) enum ForAllValues {
    /// None was made.
    NotMade,
    /// It does more, or there is none.
    Worse,
    /// It does the same.
    AsGood(Arc<LogicalPlan>),
}

/// The values for which the rules estimate, while a plan for all values is made.
#[derive(Clone, Debug)]
pub(super) struct SampleValues(ParamValues);

impl Carry for SampleValues {
    const NAME: &'static str = "coeval_sample_values";
}

impl SampleValues {
    /// The expression with these values.
    ///
    /// # Errors
    /// If a parameter has no value here: a bug.
    pub(super) fn within(&self, expression: Expr) -> Result<Expr> {
        valued(expression, &self.0).map(|done| done.data)
    }
}

/// Whether the rules make a plan of this query that is right for all values of its parameters.
///
/// Of two lists that one operand is looked for in, DataFusion keeps the members that are in both, as they are written: `$1` and `$2` are
/// two members to it, though their values may be the same. It makes lists of `v = 1 OR v = 2`, too, and of what becomes that below NOT.
pub(super) fn is_for_all_values(plan: &LogicalPlan) -> bool {
    let (mut lists, mut has_parameters, mut has_offsets) = (0_usize, false, false);
    let mut look = |part: &Expr| -> Result<TreeNodeRecursion> {
        has_offsets |= keeps_offset(part) && part.exists(|inner| Ok(is_parameter(inner)))?;
        let members = match part {
            Expr::InList(list) => &list.list,
            // A list to be, once an array is looked into.
            Expr::ScalarFunction(call) if call.func.name() == "make_array" => &call.args,
            Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) | Expr::Not(_) => {
                lists += 1;
                return Ok(TreeNodeRecursion::Continue);
            }
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        lists += 1;
        for member in members {
            has_parameters |= member.exists(|part| Ok(is_parameter(part)))?;
        }
        Ok(TreeNodeRecursion::Continue)
    };
    let looked =
        plan.apply_with_subqueries(|node| node.apply_expressions(|expression| expression.apply(&mut look)));
    looked.is_ok() && !has_offsets && (lists < 2 || !has_parameters)
}

/// The plan of a query, optimized for all values of its parameters. `values` are those of now: they give the types, and rules estimate
/// with them.
///
/// # Errors
/// If a rule cannot do without the values.
pub(super) fn for_all_values(
    logical: &LogicalPlan,
    values: &ParamValues,
    state: &SessionState,
) -> Result<LogicalPlan> {
    let mut state = state.clone();
    SampleValues(values.clone()).carry_in(state.config_mut().options_mut());
    let typed = with_types(logical.clone(), values)?;
    let analyzed = state.analyzer().execute_and_check(typed, state.config_options(), |_, _| {})?;
    let rules = state.optimizer().rules.iter().filter(|rule| rule.name() != CountSpreading.name());
    let optimizer = Optimizer::with_rules(rules.cloned().collect());
    let optimized = optimizer.optimize(analyzed, &state, |_, _| {})?;
    let counted = |node: LogicalPlan| -> Result<Transformed<LogicalPlan>> {
        if has_parameters(&node)? { Ok(Transformed::no(node)) } else { CountSpreading.rewrite(node, &state) }
    };
    optimized.transform_up_with_subqueries(counted).map(|done| done.data)
}

/// The plan for these values. `None` if a value decides a condition or a type.
///
/// # Errors
/// If the plan is for values of other types.
pub(super) fn with_values(
    plan: LogicalPlan,
    values: &ParamValues,
    state: &SessionState,
) -> Result<Option<LogicalPlan>> {
    let (mut decides, mut has_counts, mut has_new_columns) = (false, false, false);
    let put = |node: LogicalPlan| -> Result<Transformed<LogicalPlan>> {
        if !has_parameters(&node)? {
            return Ok(Transformed::no(node));
        }
        has_counts |= matches!(node, LogicalPlan::Limit(_));
        let columns = Arc::clone(node.schema());
        let types = types_of_calls(&node)?;
        let valued = node_with_values(node, values)?;
        decides |= types_of_calls(&valued)? != types;
        let counted = CountSpreading.rewrite(folded(valued, state)?, state)?.data.recompute_schema()?;
        decides |= has_constant_condition(&counted);
        has_new_columns |= *counted.schema() != columns;
        Ok(Transformed::yes(counted))
    };
    let mut plan = plan.transform_up_with_subqueries(put)?.data;
    if decides {
        return Ok(None);
    }
    if has_new_columns {
        let renewed = |node: LogicalPlan| node.recompute_schema().map(Transformed::yes);
        plan = plan.transform_up_with_subqueries(renewed)?.data;
    }
    if has_counts {
        let pushing = Optimizer::with_rules(vec![Arc::new(PushDownLimit::new())]);
        plan = pushing.optimize(plan, state, |_, _| {})?;
    }
    Ok(Some(plan))
}

fn is_parameter(part: &Expr) -> bool {
    matches!(part, Expr::Placeholder(_))
}

/// Whether the node's own expressions name parameters.
fn has_parameters(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expression| {
        found = expression.exists(|part| Ok(is_parameter(part)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The node with its constants folded.
fn folded(node: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let schema = match &node {
        LogicalPlan::TableScan(scan) => Some(schema_of_filters(scan)?),
        _ => None,
    };
    let Some(schema) = schema else {
        return SimplifyExpressions::new().rewrite(node, state).map(|done| done.data);
    };
    // As that rule does it, but for the columns that are named alone.
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema))
        .with_config_options(Arc::clone(state.config_options()))
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    let simplifier = ExprSimplifier::new(context);
    node.map_expressions(|filter| simplifier.simplify(filter).map(Transformed::yes)).map(|done| done.data)
}

/// The types of the calls in the node's own expressions, in their order.
fn types_of_calls(node: &LogicalPlan) -> Result<Vec<DataType>> {
    let schema = match node {
        LogicalPlan::TableScan(scan) => schema_of_filters(scan)?,
        _ => merge_schema(&node.inputs()),
    };
    let mut types = Vec::new();
    node.apply_expressions(|expression| {
        expression.apply(|part| {
            if matches!(part, Expr::ScalarFunction(_) | Expr::AggregateFunction(_) | Expr::WindowFunction(_))
            {
                types.push(part.get_type(&schema)?);
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(types)
}

/// Whether a condition of the node is the same for all rows.
fn has_constant_condition(node: &LogicalPlan) -> bool {
    let is_constant = |condition: &Expr| matches!(condition, Expr::Literal(..));
    match node {
        LogicalPlan::Filter(filter) => is_constant(&filter.predicate),
        LogicalPlan::TableScan(scan) => scan.filters.iter().any(is_constant),
        LogicalPlan::Join(join) => join.filter.as_ref().is_some_and(is_constant),
        _ => false,
    }
}

/// The plan, whose parameters are of the types of these values.
fn with_types(plan: LogicalPlan, values: &ParamValues) -> Result<LogicalPlan> {
    let typed = |part: Expr| -> Result<Transformed<Expr>> {
        Ok(match part {
            Expr::Placeholder(Placeholder { id, .. }) => {
                let (value, _) = values.get_placeholders_with_values(&id)?.into_inner();
                let field = Some(parameter_field(value.data_type()));
                Transformed::yes(Expr::Placeholder(Placeholder { id, field }))
            }
            part => Transformed::no(part),
        })
    };
    let in_node = |node: LogicalPlan| -> Result<Transformed<LogicalPlan>> {
        node.map_expressions(|expression| expression.transform_up(typed))?.map_data(|node| match node {
            LogicalPlan::Values(Values { values, .. }) => LogicalPlanBuilder::values(values)?.build(),
            node => node.recompute_schema(),
        })
    };
    plan.transform_up_with_subqueries(in_node).map(|done| done.data)
}

/// The node with the values in its own expressions, whose names stay.
fn node_with_values(node: LogicalPlan, values: &ParamValues) -> Result<LogicalPlan> {
    let names = NamePreserver::new(&node);
    let valued = node.map_expressions(|expression| {
        let name = names.save(&expression);
        let done = valued(expression, values)?;
        Ok(if done.transformed { done.update_data(|expression| name.restore(expression)) } else { done })
    });
    valued.map(|done| done.data)
}

/// The expression with the values in it.
fn valued(expression: Expr, values: &ParamValues) -> Result<Transformed<Expr>> {
    expression.transform_up(|part| match part {
        Expr::Placeholder(Placeholder { id, field }) => {
            let (value, metadata) = values.get_placeholders_with_values(&id)?.into_inner();
            if field.is_none_or(|field| *field.data_type() != value.data_type()) {
                return internal_err!("{id} has a value of another type than the plan's");
            }
            Ok(Transformed::yes(Expr::Literal(value, metadata)))
        }
        part => Ok(Transformed::no(part)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::ScalarValue;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::logical_expr::{col, lit};

    fn parameter(id: &str) -> Expr {
        let field = Some(parameter_field(DataType::Int64));
        Expr::Placeholder(Placeholder { id: id.to_owned(), field })
    }

    fn numbers() -> LogicalPlanBuilder {
        LogicalPlanBuilder::values(vec![vec![lit(1_i64)], vec![lit(2_i64)]]).unwrap()
    }

    fn state() -> SessionState {
        SessionStateBuilder::new_with_default_features().build()
    }

    fn of_one(value: ScalarValue) -> ParamValues {
        ParamValues::from(vec![value])
    }

    #[test]
    fn members_of_two_lists_are_not_told_apart_before_they_are_known() {
        let plan = |condition: Expr| numbers().filter(condition).unwrap().build().unwrap();
        let list = |members: Vec<Expr>| col("column1").in_list(members, false);
        let (first, second) = (list(vec![parameter("$1"), lit(5_i64)]), list(vec![lit(6_i64), lit(7_i64)]));
        assert!(is_for_all_values(&plan(first.clone())));
        assert!(is_for_all_values(&plan(second.clone().and(second.clone()))));
        assert!(!is_for_all_values(&plan(first.clone().and(second))));
        // Both become lists.
        let alternatives = col("column1").eq(lit(6_i64)).or(col("column1").eq(lit(7_i64)));
        let others = !(col("column1").not_eq(lit(6_i64)).and(col("column1").not_eq(lit(7_i64))));
        for second in [alternatives.clone(), others, !alternatives] {
            assert!(is_for_all_values(&plan(second.clone())));
            assert!(!is_for_all_values(&plan(first.clone().and(second))));
        }
    }

    #[test]
    fn constants_are_folded_with_the_values() {
        let sum = parameter("$1") + lit(1_i64);
        let plan = numbers().filter(col("column1").gt(sum)).unwrap().build().unwrap();
        let valued = with_values(plan, &of_one(ScalarValue::Int64(Some(1))), &state()).unwrap().unwrap();
        assert!(valued.display_indent().to_string().contains("column1 > Int64(2)"), "{valued}");
    }

    #[test]
    fn a_value_that_decides_a_condition_wants_a_plan_of_its_own() {
        let plan = numbers().filter(col("column1").gt(parameter("$1"))).unwrap().build().unwrap();
        let valued = with_values(plan, &of_one(ScalarValue::Int64(None)), &state()).unwrap();
        assert!(valued.is_none());
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let plan = numbers().filter(col("column1").gt(parameter("$1"))).unwrap().build().unwrap();
        assert!(with_values(plan, &of_one(ScalarValue::Int32(Some(1))), &state()).is_err());
    }

    #[test]
    fn a_count_is_pushed_down_when_it_is_known() {
        let sorted = numbers().sort([col("column1").sort(true, false)]).unwrap();
        let plan = sorted.limit_by_expr(None, Some(parameter("$1"))).unwrap().build().unwrap();
        let valued = with_values(plan, &of_one(ScalarValue::Int64(Some(1))), &state()).unwrap().unwrap();
        assert!(valued.display_indent().to_string().contains("fetch=1"), "{valued}");
    }
}
