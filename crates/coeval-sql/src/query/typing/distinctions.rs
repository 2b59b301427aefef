// SPDX-License-Identifier: Apache-2.0
//! `IS DISTINCT FROM`, which DataFusion plans without asking anybody.
//!
//! It asks for the type of the comparison at once where that is selected or negated, and has none for what only we compare: a `numeric`
//! without digits beside another number, a literal beside an interval. So the dialect writes an operator of its own in its place, for which
//! the planner asks us.

use datafusion::logical_expr::Operator;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

/// Which of the two it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::query) enum Distinction {
    /// `IS DISTINCT FROM`
    Distinct,
    /// `IS NOT DISTINCT FROM`
    Same,
}

impl Distinction {
    /// The operator, as it is also written where a part of a statement is read again: `OPERATOR(coeval.distinct)`.
    const fn name(self) -> [&'static str; 2] {
        match self {
            Self::Distinct => ["coeval", "distinct"],
            Self::Same => ["coeval", "same"],
        }
    }

    /// What stands in the place of the comparison of these two. It binds closer than the comparison.
    pub(in crate::query) fn between(self, left: &Expr, right: &Expr) -> Expr {
        let nested = |side: Expr| Expr::Nested(Box::new(side));
        let side = |side: &Expr| Box::new(nested(side.clone()));
        let op = BinaryOperator::PGCustomBinaryOperator(self.name().map(str::to_owned).to_vec());
        nested(Expr::BinaryOp { left: side(left), op, right: side(right) })
    }

    /// The comparison that such an operator stands for.
    pub(super) fn of(operator: &BinaryOperator) -> Option<Self> {
        let BinaryOperator::PGCustomBinaryOperator(parts) = operator else { return None };
        [Self::Distinct, Self::Same].into_iter().find(|distinction| *parts == distinction.name())
    }

    /// DataFusion's operator.
    pub(super) const fn operator(self) -> Operator {
        match self {
            Self::Distinct => Operator::IsDistinctFrom,
            Self::Same => Operator::IsNotDistinctFrom,
        }
    }
}
