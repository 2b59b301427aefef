// SPDX-License-Identifier: Apache-2.0
//! Operators between types that do not go together, while a refused query is planned once more.

use crate::error::{SqlError, own_error};
use crate::query::typing::{ambiguous_operator, no_operator, written};
use crate::types::{no_condition, type_in_words};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Behind all other planners: refuses what none of them has made anything of, and DataFusion has no types for.
#[derive(Debug)]
pub(in crate::query) struct AskedOperators;

impl ExprPlanner for AskedOperators {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if let Some(operator) = meant(&raw.op)
            && let Some(left) = known_type(&raw.left, schema)?
            && let Some(right) = known_type(&raw.right, schema)?
            && let Some(error) = refused(&left, operator, &right)
        {
            return Err(error.into());
        }
        Ok(PlannerResult::Original(raw))
    }
}

/// The type of an operand; `None` if it has none because of what is not known here.
fn known_type(operand: &Expr, schema: &DFSchema) -> Result<Option<DataType>> {
    match operand.get_type(schema) {
        Ok(ty) => Ok(Some(ty)),
        Err(error) if own_error(&error).is_some() => Err(error),
        Err(_) => Ok(None),
    }
}

/// The error for an operator that DataFusion has not for these types.
pub(super) fn refused(left: &DataType, operator: Operator, right: &DataType) -> Option<SqlError> {
    if BinaryTypeCoercer::new(left, &operator, right).get_input_types().is_ok() {
        return None;
    }
    Some(match operator {
        Operator::And | Operator::Or => {
            let wrong = if matches!(left, DataType::Boolean | DataType::Null) { right } else { left };
            no_condition(&operator.to_string(), &type_in_words(wrong))
        }
        Operator::BitwiseAnd | Operator::BitwiseOr | Operator::BitwiseXor
            if left.is_null() && right.is_null() =>
        {
            ambiguous_operator(&written(operator))
        }
        operator => no_operator(left, &written(operator), right),
    })
}

/// The operator of plans that one of the syntax becomes; `None` for those that have no types of their own.
fn meant(operator: &BinaryOperator) -> Option<Operator> {
    Some(match operator {
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Modulo,
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        BinaryOperator::StringConcat => Operator::StringConcat,
        BinaryOperator::BitwiseAnd => Operator::BitwiseAnd,
        BinaryOperator::BitwiseOr => Operator::BitwiseOr,
        BinaryOperator::PGBitwiseXor => Operator::BitwiseXor,
        BinaryOperator::PGBitwiseShiftLeft => Operator::BitwiseShiftLeft,
        BinaryOperator::PGBitwiseShiftRight => Operator::BitwiseShiftRight,
        BinaryOperator::PGRegexMatch => Operator::RegexMatch,
        BinaryOperator::PGRegexIMatch => Operator::RegexIMatch,
        BinaryOperator::PGRegexNotMatch => Operator::RegexNotMatch,
        BinaryOperator::PGRegexNotIMatch => Operator::RegexNotIMatch,
        _ => return None,
    })
}
