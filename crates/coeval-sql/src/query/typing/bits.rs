// SPDX-License-Identifier: Apache-2.0
//! Operators on bit strings, which DataFusion takes for bytes, and those on the bits of integers that it does otherwise or has not.
//!
//! | operator | here |
//! |---|---|
//! | `&`, `\|`, `#`, `~`, `<<`, `>>`, `\|\|` of bit strings | a call of the function that does it |
//! | `a # b` of integers | a call of such a function: DataFusion's is zero of `a # a`, also where `a` is NULL |
//! | the same where a type is not known yet | DataFusion's operator, until the types are settled |
//! | `~ a` of an integer | `-1 - a`, which of the least integer of a type is the greatest |

use super::no_operator::no_operator;
use crate::error::{SqlError, SqlState};
use crate::functions::{
    BIGINT_XOR, BITS_AND, BITS_JOINED, BITS_LEFT, BITS_NOT, BITS_OR, BITS_RIGHT, BITS_XOR, INT_XOR,
    SMALLINT_XOR, function,
};
use crate::scalar::cast_function::literal_as;
use crate::types::{no_prefix_operator, type_in_words};
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::fmt::Display;

/// Whether values of this type are bit strings.
fn is_bits(ty: &DataType) -> bool {
    *ty == ColumnType::Bit(None).arrow()
}

/// Whether it is a literal that has the type that its place gives it.
fn is_open(operand: &Expr, ty: &DataType) -> bool {
    matches!(operand, Expr::Literal(..)) && (ty.is_string() || ty.is_null())
}

/// The operation as a call of the function that does it; `None` if neither side is a bit string, or if it is no operation on bits.
///
/// # Errors
/// `42883` if the other side is of a type that there is no such operation with; what is wrong with a literal.
pub(super) fn planned(raw: &RawBinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let name = match raw.op {
        BinaryOperator::BitwiseAnd => BITS_AND,
        BinaryOperator::BitwiseOr => BITS_OR,
        BinaryOperator::PGBitwiseXor => BITS_XOR,
        BinaryOperator::PGBitwiseShiftLeft => BITS_LEFT,
        BinaryOperator::PGBitwiseShiftRight => BITS_RIGHT,
        _ => return Ok(None),
    };
    let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
        return Ok(None);
    };
    if !is_bits(&left) && !is_bits(&right) {
        return Ok(None);
    }
    let refused = || no_operator(&left, &raw.op, &right);
    let as_bits = |operand: &Expr, ty: &DataType| {
        if is_bits(ty) {
            Ok(operand.clone())
        } else if is_open(operand, ty) {
            literal_as(operand.clone(), ColumnType::Bit(None))
        } else {
            Err(refused())
        }
    };
    let as_count = |operand: &Expr, ty: &DataType| match ty {
        DataType::Int16 | DataType::Int32 => Ok(operand.clone()),
        ty if is_open(operand, ty) => literal_as(operand.clone(), ColumnType::Int),
        _ => Err(refused()),
    };
    let one = as_bits(&raw.left, &left)?;
    let other = match name {
        BITS_LEFT | BITS_RIGHT => as_count(&raw.right, &right)?,
        _ => as_bits(&raw.right, &right)?,
    };
    Ok(Some(function(name)?.call(vec![one, other])))
}

/// Two bit strings, one behind the other; `None` if neither side is one, or the other one is a text, which both become then.
///
/// # Errors
/// `42883` if the other side is of another type; what is wrong with a literal.
pub(super) fn joined(
    (left, left_type): (&Expr, &DataType),
    (right, right_type): (&Expr, &DataType),
) -> Result<Option<Expr>> {
    if !is_bits(left_type) && !is_bits(right_type) {
        return Ok(None);
    }
    let mut sides = Vec::with_capacity(2);
    for (side, ty) in [(left, left_type), (right, right_type)] {
        sides.push(match ty {
            ty if is_bits(ty) => side.clone(),
            ty if is_open(side, ty) => literal_as(side.clone(), ColumnType::Varbit(None))?,
            ty if ty.is_string() => return Ok(None),
            _ => return Err(no_operator(left_type, &"||", right_type).into()),
        });
    }
    Ok(Some(function(BITS_JOINED)?.call(sides)))
}

/// The function that does `#` with integers of these types, of which one that is not known is that of the other side; `None` of others.
const fn exclusive_or_of(left: &DataType, right: &DataType) -> Option<&'static str> {
    use DataType::{Int16, Int32, Int64, Null};
    match (left, right) {
        (Null, Null) => None,
        (Int16 | Null, Int16 | Null) => Some(SMALLINT_XOR),
        (Int16 | Int32 | Null, Int16 | Int32 | Null) => Some(INT_XOR),
        (Int16 | Int32 | Int64 | Null, Int16 | Int32 | Int64 | Null) => Some(BIGINT_XOR),
        _ => None,
    }
}

/// `a # b` of integers; `None` of another operation. Each side is there once: it may draw from a sequence, or be such an operation itself,
/// and of many within each other all would become an expression of as many parts as there are subsets of them.
///
/// Of two sides without a type it is none if a parameter is in them, which may get its type from another place.
///
/// # Errors
/// `42883` for other types, `42725` if both sides are without one.
pub(super) fn exclusive_or(raw: &RawBinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    if raw.op != BinaryOperator::PGBitwiseXor {
        return Ok(None);
    }
    let (left, right) = (raw.left.get_type(schema), raw.right.get_type(schema));
    let is_other = |ty: &Result<DataType>| ty.as_ref().is_ok_and(|ty| !ty.is_integer() && !ty.is_null());
    if is_other(&left) || is_other(&right) {
        return Err(no_operator(&left?, &raw.op, &right?).into());
    }
    if let (Ok(left), Ok(right)) = (&left, &right) {
        if left.is_null() && right.is_null() {
            let has_parameter = has_parameter(&raw.left)? || has_parameter(&raw.right)?;
            return if has_parameter { Ok(None) } else { Err(ambiguous_operator(&raw.op).into()) };
        }
        if let Some(name) = exclusive_or_of(left, right) {
            return Ok(Some(function(name)?.call(vec![raw.left.clone(), raw.right.clone()])));
        }
    }
    Ok(Some(binary(raw.left.clone(), Operator::BitwiseXor, raw.right.clone())))
}

fn has_parameter(side: &Expr) -> Result<bool> {
    side.exists(|part| Ok(matches!(part, Expr::Placeholder(_))))
}

/// `42725` for an operator between two sides without a type, which several types have.
pub(in crate::query) fn ambiguous_operator(operator: &dyn Display) -> SqlError {
    let message = format!("operator is not unique: unknown {operator} unknown");
    SqlError::new(SqlState::AmbiguousFunction, message)
        .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts.")
}

/// `a # b` whose types were not known when it was planned and are settled now; `None` if these are no integers.
///
/// # Errors
/// If a side has no type.
pub(in crate::query) fn settled_exclusive_or(
    left: &Expr,
    right: &Expr,
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    let name = exclusive_or_of(&left.get_type(schema)?, &right.get_type(schema)?);
    name.map(|name| Ok(function(name)?.call(vec![left.clone(), right.clone()]))).transpose()
}

/// All bits of an operand turned; a parameter has its type by now.
///
/// # Errors
/// `42883` for a type that has none.
pub(super) fn turned(operand: Expr, schema: &DFSchema) -> Result<Expr> {
    let ones = match operand.get_type(schema)? {
        ty if is_bits(&ty) => return Ok(function(BITS_NOT)?.call(vec![operand])),
        DataType::Int16 => ScalarValue::Int16(Some(-1)),
        DataType::Int64 => ScalarValue::Int64(Some(-1)),
        DataType::Int32 | DataType::Null => ScalarValue::Int32(Some(-1)),
        ty => return Err(no_prefix_operator(&"~", &type_in_words(&ty)).into()),
    };
    Ok(binary(Expr::Literal(ones, None), Operator::Minus, operand))
}

fn binary(left: Expr, operator: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}
