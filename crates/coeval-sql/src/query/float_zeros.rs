// SPDX-License-Identifier: Apache-2.0
//! `0` and `-0`, which are equal, among the constants that floats are compared with.
//!
//! | DataFusion | here |
//! |---|---|
//! | makes one list of two, joined by AND or OR, by the bits of their members | a constant `-0` is written as `0` before |
//! | looks for a value in a list by its bits | a list that has one zero gets the other one, once the plan is optimized |
//! | compares what a CASE is about by its bits, `CASE f WHEN 0` | `0` is added to it, which makes `0` of `-0`, and to what is no constant behind WHEN |
//!
//! Chains of comparisons become such lists, too.

use super::rewriting::has_concern;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Case, Cast, Expr, ExprSchemable, LogicalPlan, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::iter::once;

/// `0` in the place of a constant that is written `-0`; `None` of anything else.
pub(super) fn without_sign(operand: &Expr) -> Option<Expr> {
    let is_signed_zero = |number: f64| number == 0.0 && number.is_sign_negative();
    match operand {
        Expr::Literal(ScalarValue::Float32(Some(number)), _) if is_signed_zero(f64::from(*number)) => {
            Some(lit(0.0_f32))
        }
        Expr::Literal(ScalarValue::Float64(Some(number)), _) if is_signed_zero(*number) => Some(lit(0.0_f64)),
        Expr::Cast(Cast { expr, field }) => {
            let text = expr.as_literal()?.try_as_str().flatten()?.trim();
            // A number that is too small for a float is read as zero as well, and is an error.
            let is_zero = !text.contains(|letter: char| matches!(letter, '1'..='9'))
                && text.parse::<f64>().is_ok_and(is_signed_zero);
            match field.data_type() {
                DataType::Float32 if is_zero => Some(lit(0.0_f32)),
                DataType::Float64 if is_zero => Some(lit(0.0_f64)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The operands of a comparison without constants `-0`; `None` if they are right as they are.
pub(super) fn pair_without_signs(left: &Expr, right: &Expr) -> Option<(Expr, Expr)> {
    match (without_sign(left), without_sign(right)) {
        (None, None) => None,
        (new_left, new_right) => {
            Some((new_left.unwrap_or_else(|| left.clone()), new_right.unwrap_or_else(|| right.clone())))
        }
    }
}

/// What a CASE compares without signs of zeros; whether something may have had one.
pub(super) fn compare_without_signs(case: &mut Case, schema: &DFSchema) -> bool {
    let Some(operand) = &mut case.expr else { return false };
    let candidates = case.when_then_expr.iter_mut().map(|(candidate, _)| candidate);
    let mut is_changed = false;
    for compared in once(operand).chain(candidates) {
        if let Some(without) = float_without_sign(compared, schema) {
            **compared = without;
            is_changed = true;
        }
    }
    is_changed
}

/// A float of which no value is `-0`, and all others are what they were; `None` if that is so of what is given.
fn float_without_sign(compared: &Expr, schema: &DFSchema) -> Option<Expr> {
    if let Some(zero) = without_sign(compared) {
        return Some(zero);
    }
    if compared.as_literal().is_some() {
        return None;
    }
    match compared.get_type(schema) {
        Ok(DataType::Float32) => Some(compared.clone() + lit(0.0_f32)),
        Ok(DataType::Float64) => Some(compared.clone() + lit(0.0_f64)),
        Ok(_) | Err(_) => None,
    }
}

/// Gives lists of floats that have a zero both of them.
#[derive(Debug, Default)]
pub(crate) struct BothZeros;

impl OptimizerRule for BothZeros {
    fn name(&self) -> &'static str {
        "coeval_both_zeros"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_concern(&plan, lacks_zero)? {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expression| {
            let name = names.save(&expression);
            let done = expression.transform_up(|part| Ok(with_both_zeros(part)))?;
            Ok(if done.transformed { done.update_data(|expression| name.restore(expression)) } else { done })
        })
    }
}

fn lacks_zero(part: &Expr) -> bool {
    matches!(part, Expr::InList(list) if missing_zero(list).is_some())
}

fn with_both_zeros(part: Expr) -> Transformed<Expr> {
    match part {
        Expr::InList(mut list) => match missing_zero(&list) {
            Some(zero) => {
                list.list.push(Expr::Literal(zero, None));
                Transformed::yes(Expr::InList(list))
            }
            None => Transformed::no(Expr::InList(list)),
        },
        other => Transformed::no(other),
    }
}

/// The zero that is not in a list which has the other one.
fn missing_zero(list: &InList) -> Option<ScalarValue> {
    let mut others = list.list.iter().filter_map(|member| match member.as_literal()? {
        ScalarValue::Float32(Some(zero)) if *zero == 0.0 => Some(ScalarValue::Float32(Some(-zero))),
        ScalarValue::Float64(Some(zero)) if *zero == 0.0 => Some(ScalarValue::Float64(Some(-zero))),
        _ => None,
    });
    let is_there = |zero: &ScalarValue| list.list.iter().any(|member| member.as_literal() == Some(zero));
    others.find(|zero| !is_there(zero))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Field, Schema};
    use datafusion::logical_expr::{cast, col};

    #[test]
    fn a_list_gets_the_zero_that_it_lacks_once() {
        let list = |members: Vec<f64>| col("f").in_list(members.into_iter().map(lit).collect(), false);
        let both = |members| with_both_zeros(list(members)).data;
        assert_eq!(both(vec![7.0, 0.0]), list(vec![7.0, 0.0, -0.0]));
        assert_eq!(both(vec![-0.0, 7.0]), list(vec![-0.0, 7.0, 0.0]));
        assert!(!with_both_zeros(list(vec![0.0, -0.0])).transformed);
        assert!(!with_both_zeros(list(vec![1.0, 2.0])).transformed);
        assert!(!with_both_zeros(col("i").in_list(vec![lit(0), lit(7)], false)).transformed);
    }

    #[test]
    fn a_zero_loses_its_sign_and_nothing_else_changes() {
        let read = |text: &str| cast(lit(text), DataType::Float64);
        assert_eq!(without_sign(&lit(-0.0_f64)), Some(lit(0.0_f64)));
        assert_eq!(without_sign(&lit(-0.0_f32)), Some(lit(0.0_f32)));
        assert_eq!(without_sign(&read(" -0.00 ")), Some(lit(0.0_f64)));
        for other in [lit(0.0_f64), lit(-1.0_f64), lit(0), read("0"), read("-1e-400"), read("-0.x"), col("f")]
        {
            assert_eq!(without_sign(&other), None, "{other}");
        }
        assert_eq!(pair_without_signs(&col("f"), &lit(-0.0_f64)), Some((col("f"), lit(0.0_f64))));
        assert_eq!(pair_without_signs(&col("f"), &lit(1.0_f64)), None);
    }

    #[test]
    fn a_case_of_floats_compares_no_signs_of_zeros() {
        let fields = [("f", DataType::Float64), ("i", DataType::Int64)];
        let fields = fields.map(|(name, ty)| Field::new(name, ty, true));
        let schema = DFSchema::try_from(Schema::new(fields.to_vec())).unwrap();
        let case = |operand: Expr, candidate: Expr| {
            let branch = (Box::new(candidate), Box::new(lit(true)));
            Case::new(Some(Box::new(operand)), vec![branch], None)
        };
        let without = |operand: Expr, candidate: Expr| {
            let mut compared = case(operand, candidate);
            compare_without_signs(&mut compared, &schema).then_some(compared)
        };
        let f = || col("f") + lit(0.0_f64);
        assert_eq!(without(col("f"), lit(-0.0_f64)), Some(case(f(), lit(0.0_f64))));
        assert_eq!(without(lit(7_i64), col("f")), Some(case(lit(7_i64), f())));
        assert_eq!(without(col("i"), lit(1.0_f64)), None);
    }
}
