// SPDX-License-Identifier: Apache-2.0
//! Divisors that cannot be zero: other constants, `nullif(b, 0)`, and in a branch of a CASE what its conditions say (`CASE WHEN b <> 0 THEN
//! a / b END`, `CASE b WHEN 0 THEN 0 ELSE a / b END`). They may be NULL: what is divided by that is NULL as well.

use crate::query::arithmetic::checked_operators;
use crate::query::typing::DIVISION;
use crate::stack::with_room;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Case, Expr, Operator};
use std::cmp::Ordering;

/// What is divided, and by what; `None` of what is no division.
pub(super) fn division_of(expression: &Expr) -> Option<(&Expr, &Expr)> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide | Operator::Modulo, right }) => {
            Some((left.as_ref(), right.as_ref()))
        }
        Expr::ScalarFunction(call) => {
            let operators = checked_operators(&call.func);
            let divides = matches!(operators, Some([Operator::Divide | Operator::Modulo]));
            match call.args.as_slice() {
                [dividend, divisor] if divides || call.name() == DIVISION => Some((dividend, divisor)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether a division gives what is left over.
pub(super) fn is_remainder(division: &Expr) -> bool {
    match division {
        Expr::BinaryExpr(binary) => binary.op == Operator::Modulo,
        Expr::ScalarFunction(call) => matches!(checked_operators(&call.func), Some([Operator::Modulo])),
        _ => false,
    }
}

/// Expressions that are known not to be zero where they are divided by. A cast of one is known as well, as far as it cannot fail: then it
/// has room for all digits.
#[derive(Clone, Debug, Default)]
pub(super) struct Divisors<'e>(Vec<&'e Expr>);

/// A branch of a CASE.
pub(super) struct Branch<'e> {
    /// Its condition; ELSE has none.
    pub(super) when: Option<&'e Expr>,
    /// What is known where the condition is computed.
    pub(super) before: Divisors<'e>,
    pub(super) then: &'e Expr,
    /// What is known where the value is computed.
    pub(super) within: Divisors<'e>,
}

impl<'e> Divisors<'e> {
    /// Whether this cannot be zero.
    pub(super) fn has(&self, divisor: &Expr) -> bool {
        with_room(|| match divisor {
            Expr::Literal(value, _) => value.is_null() || sign(value).is_some_and(Ordering::is_ne),
            Expr::Alias(alias) => self.has(&alias.expr),
            Expr::Cast(cast) => self.has(&cast.expr),
            divisor if self.0.contains(&divisor) => true,
            Expr::Case(case) => self.branches(case).iter().all(|branch| branch.within.has(branch.then)),
            Expr::ScalarFunction(call) if call.name() == "nullif" => {
                matches!(call.args.as_slice(), [_, no_value] if is_zero(no_value))
            }
            _ => false,
        })
    }

    /// The branches of a CASE, in their order.
    pub(super) fn branches(&self, case: &'e Case) -> Vec<Branch<'e>> {
        let mut before = self.clone();
        let mut branches = Vec::with_capacity(case.when_then_expr.len() + 1);
        for (when, then) in &case.when_then_expr {
            let (when, then) = (when.as_ref(), then.as_ref());
            let mut within = before.clone();
            if case.expr.is_none() {
                within.add_where(when);
            }
            branches.push(Branch { when: Some(when), before: before.clone(), then, within });
            match &case.expr {
                Some(value) if is_zero(when) => before.0.push(bare(value)),
                Some(_) => {}
                None => before.add_unless(when),
            }
        }
        if let Some(then) = case.else_expr.as_deref() {
            branches.push(Branch { when: None, before: before.clone(), then, within: before });
        }
        branches
    }

    /// Adds what a condition says where it is true.
    fn add_where(&mut self, condition: &'e Expr) {
        let mut waiting = vec![condition];
        while let Some(part) = waiting.pop() {
            let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else { continue };
            if *op == Operator::And {
                waiting.push(left);
                waiting.push(right);
            } else if is_away_from_zero(*op, right) {
                self.0.push(bare(left));
            } else if op.swap().is_some_and(|op| is_away_from_zero(op, left)) {
                self.0.push(bare(right));
            }
        }
    }

    /// Adds what a condition says where it is false or NULL.
    fn add_unless(&mut self, condition: &'e Expr) {
        let mut waiting = vec![condition];
        while let Some(part) = waiting.pop() {
            match part {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                    waiting.push(left);
                    waiting.push(right);
                }
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if is_zero(right) => {
                    self.0.push(bare(left));
                }
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if is_zero(left) => {
                    self.0.push(bare(right));
                }
                _ => {}
            }
        }
    }
}

/// Whether what compares like this with a constant is not zero.
fn is_away_from_zero(operator: Operator, constant: &Expr) -> bool {
    let Some(sign) = sign_of(constant) else { return false };
    match operator {
        Operator::NotEq => sign.is_eq(),
        Operator::Eq => sign.is_ne(),
        Operator::Gt => sign.is_ge(),
        Operator::GtEq => sign.is_gt(),
        Operator::Lt => sign.is_le(),
        Operator::LtEq => sign.is_lt(),
        _ => false,
    }
}

fn is_zero(constant: &Expr) -> bool {
    sign_of(constant).is_some_and(Ordering::is_eq)
}

/// How a constant compares with zero; `None` if it is no number, or none is there.
fn sign_of(constant: &Expr) -> Option<Ordering> {
    match bare(constant) {
        Expr::Literal(value, _) => sign(value),
        _ => None,
    }
}

fn sign(value: &ScalarValue) -> Option<Ordering> {
    match value {
        ScalarValue::Float64(Some(value)) => value.partial_cmp(&0.0),
        ScalarValue::Float32(Some(value)) => value.partial_cmp(&0.0),
        value if value.is_null() || !value.data_type().is_numeric() => None,
        value => value.partial_cmp(&ScalarValue::new_zero(&value.data_type()).ok()?),
    }
}

/// An expression without what gives it another name or type.
pub(super) fn bare(mut expression: &Expr) -> &Expr {
    loop {
        expression = match expression {
            Expr::Alias(alias) => alias.expr.as_ref(),
            Expr::Cast(cast) => cast.expr.as_ref(),
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit, when};

    fn case_of(expression: Expr) -> Case {
        match expression {
            Expr::Case(case) => case,
            other => panic!("{other} is no CASE"),
        }
    }

    /// Whether `b` is known not to be zero where a condition is true.
    fn is_known_where(condition: Expr) -> bool {
        let case = case_of(when(condition, lit(1)).end().unwrap());
        Divisors::default().branches(&case)[0].within.has(&col("b"))
    }

    #[test]
    fn conditions_say_what_is_not_zero_where_they_are_true() {
        for condition in [
            col("b").not_eq(lit(0)),
            col("b").gt(lit(0.0)),
            lit(-1).gt(col("b")),
            col("b").eq(lit(7)),
            col("a").is_null().and(col("b").lt(lit(0))),
        ] {
            assert!(is_known_where(condition.clone()), "{condition}");
        }
        for condition in [
            col("b").not_eq(lit(1)),
            col("b").gt_eq(lit(0)),
            col("b").gt(lit(-1)),
            lit(1).gt(col("b")),
            col("b").lt_eq(lit(-0.0)),
            col("a").not_eq(lit(0)),
            col("b").not_eq(lit(0)).or(col("a").gt(lit(0))),
        ] {
            assert!(!is_known_where(condition.clone()), "{condition}");
        }
    }

    #[test]
    fn later_branches_know_what_was_zero_before() {
        let is_zero_or_missing = col("b").eq(lit(0)).or(col("a").is_null());
        let case = case_of(when(is_zero_or_missing, lit(0)).otherwise(col("b")).unwrap());
        let branches = Divisors::default().branches(&case);
        assert!(!branches[0].within.has(&col("b")));
        assert!(branches[1].within.has(&col("b")));
        assert!(!Divisors::default().has(&Expr::Case(case.clone())), "its first branch is zero");

        let without_zero = when(col("b").eq(lit(0)), lit(ScalarValue::Null)).otherwise(col("b")).unwrap();
        assert!(Divisors::default().has(&without_zero));
        assert!(Divisors::default().has(&lit(3)) && Divisors::default().has(&lit(ScalarValue::Null)));
        assert!(!Divisors::default().has(&lit(0)) && !Divisors::default().has(&lit(-0.0)));
    }
}
