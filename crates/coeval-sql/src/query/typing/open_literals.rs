// SPDX-License-Identifier: Apache-2.0
//! Literals in quotes, which have no type by themselves, where their place says what they are: `sqrt('4')`, `NOT 'f'`, `x ^ '2'`. They
//! are what a parameter would be there. Beside a value they have its type, which is known only while operators are planned
//! ([`super::operators`]).

use super::literals::to_numeric;
use crate::error::SqlError;
use crate::names::fold;
use crate::parameters::arguments_of;
use crate::select::cast;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    ObjectNamePart, UnaryOperator, Value,
};

/// Casts such literals among the operands and arguments of an expression.
///
/// # Errors
/// `22P02` for a text that is to be a `numeric` and is none, `22003` for one of too many digits.
pub(super) fn read(expression: &mut Expr) -> Result<(), SqlError> {
    match expression {
        Expr::Function(function) if function.over.is_none() => read_arguments(function),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => read_as(expr, ColumnType::Boolean),
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            read_as(left, ColumnType::Boolean)?;
            read_as(right, ColumnType::Boolean)
        }
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } => {
            read_as(left, ColumnType::Double)?;
            read_as(right, ColumnType::Double)
        }
        _ => Ok(()),
    }
}

fn read_arguments(function: &mut Function) -> Result<(), SqlError> {
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
    let (Some(name), FunctionArguments::List(list)) = (name, &mut function.args) else { return Ok(()) };
    let types = arguments_of(&name, list.args.len());
    for (argument, ty) in list.args.iter_mut().zip(types) {
        if let (FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)), Some(ty)) = (argument, ty) {
            read_as(argument, *ty)?;
        }
    }
    Ok(())
}

/// A literal as a number or a truth value. What takes other types reads texts by itself.
fn read_as(literal: &mut Expr, ty: ColumnType) -> Result<(), SqlError> {
    if !is_open(literal) {
        return Ok(());
    }
    let ty = match ty {
        ColumnType::Boolean => DataType::Boolean,
        ColumnType::Int => DataType::Int(None),
        ColumnType::BigInt => DataType::BigInt(None),
        ColumnType::Double => DataType::DoublePrecision,
        ColumnType::Numeric { .. } | ColumnType::AnyNumeric => {
            *literal = to_numeric(literal)?;
            return Ok(());
        }
        _ => return Ok(()),
    };
    *literal = cast(literal.clone(), ty);
    Ok(())
}

fn is_open(expression: &Expr) -> bool {
    match expression {
        Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_)),
        Expr::Nested(inner) => is_open(inner),
        _ => false,
    }
}
