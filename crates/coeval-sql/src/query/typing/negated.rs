// SPDX-License-Identifier: Apache-2.0
//! A sign in front of what is no literal, and `~`.
//!
//! DataFusion asks for the operand's type as soon as it reads such a sign, and knows no number but those of Arrow. So the dialect writes an
//! operator of its own in its place, with nothing on the left, for which the planner asks us. On the left of what stands for `~` is an
//! integer, whose type a parameter takes.

use super::bits;
use super::exact_types::is_any_numeric;
use crate::types::{no_prefix_operator, type_in_words};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as AstExpr, Value};

/// A sign.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::query) enum Sign {
    Minus,
    Plus,
    /// `~`, which turns all bits.
    Not,
}

impl Sign {
    /// The operator, as it is also written where a part of a statement is read again: `OPERATOR(coeval.negated)`.
    const fn operator(self) -> [&'static str; 2] {
        match self {
            Self::Minus => ["coeval", "negated"],
            Self::Plus => ["coeval", "unchanged"],
            Self::Not => ["coeval", "turned"],
        }
    }

    /// What stands in the place of the sign in front of this operand.
    pub(in crate::query) fn before(self, operand: &AstExpr) -> AstExpr {
        let left = if self == Self::Not { Value::Number("1".to_owned(), false) } else { Value::Null };
        let left = Box::new(AstExpr::Value(left.into()));
        let op = BinaryOperator::PGCustomBinaryOperator(self.operator().map(str::to_owned).to_vec());
        AstExpr::BinaryOp { left, op, right: Box::new(operand.clone()) }
    }

    /// The sign that such an operator stands for.
    pub(super) fn of(operator: &BinaryOperator) -> Option<Self> {
        let BinaryOperator::PGCustomBinaryOperator(parts) = operator else { return None };
        [Self::Minus, Self::Plus, Self::Not].into_iter().find(|sign| *parts == sign.operator())
    }

    /// The operand with this sign.
    ///
    /// # Errors
    /// `42883` for a type that has no such sign.
    pub(super) fn planned(self, operand: Expr, schema: &DFSchema) -> Result<Expr> {
        if self == Self::Not {
            return bits::turned(operand, schema);
        }
        // What else is wrong with the operand is said where it is typed.
        if let Ok(ty) = operand.get_type(schema)
            && !self.is_of(&ty)
        {
            let sign = if self == Self::Minus { "-" } else { "+" };
            return Err(no_prefix_operator(&sign, &type_in_words(&ty)).into());
        }
        Ok(match self {
            Self::Minus => Expr::Negative(Box::new(operand)),
            Self::Plus | Self::Not => operand,
        })
    }

    fn is_of(self, ty: &DataType) -> bool {
        let is_number = ty.is_numeric() || ty.is_null() || is_any_numeric(ty);
        is_number || (self == Self::Minus && matches!(ty, DataType::Interval(_)))
    }
}
