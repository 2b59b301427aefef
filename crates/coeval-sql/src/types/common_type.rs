// SPDX-License-Identifier: Apache-2.0
//! The one type of several expressions, of which one gives the value: results of CASE, arguments of `coalesce`, columns of UNION and
//! VALUES, elements of an array, the two columns that `JOIN ... USING` makes one. Nothing else decides it.
//!
//! 1. Literals without a type, NULLs and parameters say nothing: callers leave them out.
//! 2. All types are of one category, or it is an error (42804).
//! 3. From the left, the next type is taken if the one so far is cast to it implicitly, and not the other way round.
//! 4. Each type is cast implicitly to the one that is left, or it is an error (42846).
//!
//! These are PostgreSQL's rules. Ours are two more: a `numeric` has the digits that all of them need, beside one without digits it has none, and of texts with several lengths
//! the type is `text`, under which their values are the same, and of bit strings with several lengths one without; it is `bit varying`
//! where one of them is, which PostgreSQL prefers.
//!
//! Operands of an operator have another rule: a `real` is compared with an `integer` as a `double precision`.

use super::casts::{CastContext, has_cast, is_text};
use super::facts::category;
use super::names::{column_type_of_arrow, type_name};
use super::numeric::{decimal_shape, of_digits};
use crate::error::{SqlError, SqlState};
use arrow::datatypes::DataType;
use coeval_store::{ColumnType, ElementType};

/// The one type of values of two types; `None` if there is none.
pub(crate) fn common_type(left: ColumnType, right: ColumnType) -> Option<ColumnType> {
    if left == right {
        return Some(left);
    }
    if category(left) != category(right) {
        return None;
    }
    match (left, right) {
        (ColumnType::Array(left), ColumnType::Array(right)) => {
            let element = common_type(left.column_type(), right.column_type())?;
            ElementType::of(element).map(ColumnType::Array)
        }
        (left, right) if is_text(left) && is_text(right) => Some(ColumnType::Text),
        (ColumnType::Bit(_), ColumnType::Bit(_)) => Some(ColumnType::Bit(None)),
        (left, right) if left.is_bits() && right.is_bits() => Some(ColumnType::Varbit(None)),
        (left, right) => {
            let taken = if gives_way(left, right) { right } else { left };
            match taken {
                ColumnType::Numeric { .. } => with_digits_of_both(left, right),
                _ if is_implicit(left, taken) && is_implicit(right, taken) => Some(taken),
                _ => None,
            }
        }
    }
}

/// The one Arrow type of values of these; `None` if there is none, or nothing says which. NULLs say nothing.
pub(crate) fn common_arrow_type<'t>(types: impl IntoIterator<Item = &'t DataType>) -> Option<DataType> {
    let types: Vec<&DataType> = types.into_iter().filter(|ty| says_something(ty)).collect();
    let (first, others) = types.split_first()?;
    if others.iter().all(|ty| ty == first) {
        return Some(DataType::clone(first));
    }
    let first = column_type_of_arrow(first)?;
    let mut others = others.iter();
    others.try_fold(first, |so_far, ty| common_type(so_far, column_type_of_arrow(ty)?)).map(ColumnType::arrow)
}

/// Whether PostgreSQL takes the next one of two types in the place of the one so far.
pub(crate) fn arrow_type_gives_way(so_far: &DataType, next: &DataType) -> bool {
    let both = (column_type_of_arrow(so_far), column_type_of_arrow(next));
    matches!(both, (Some(so_far), Some(next)) if gives_way(so_far, next))
}

/// Refuses expressions of these types that have none in common. A construct is what PostgreSQL calls it: CASE, UNION.
///
/// # Errors
/// `42804` for types of several categories, `42846` for two that are not cast implicitly.
pub(crate) fn require_common_type<'t>(
    construct: &str,
    types: impl IntoIterator<Item = &'t DataType>,
) -> Result<(), SqlError> {
    let known = types.into_iter().filter(|ty| says_something(ty)).filter_map(column_type_of_arrow);
    let mut so_far = None;
    for next in known {
        so_far = Some(match so_far {
            None => next,
            Some(known) => type_of_both(construct, known, next)?,
        });
    }
    Ok(())
}

/// The one type of values of two types; an error of this construct if there is none.
///
/// # Errors
/// `42804` for types of two categories, `42846` for two that are not cast implicitly.
pub(crate) fn type_of_both(
    construct: &str,
    known: ColumnType,
    next: ColumnType,
) -> Result<ColumnType, SqlError> {
    common_type(known, next).ok_or_else(|| mismatch(construct, known, next))
}

fn mismatch(construct: &str, known: ColumnType, next: ColumnType) -> SqlError {
    let (first, second) = (type_name(known), type_name(next));
    if category(known) != category(next) {
        let message = format!("{construct} types {first} and {second} cannot be matched");
        return SqlError::new(SqlState::DatatypeMismatch, message);
    }
    // What ELSE gives is looked at first, so it is never what is not cast.
    let construct = if construct == "CASE" { "CASE/WHEN" } else { construct };
    let message = format!("{construct} could not convert type {second} to {first}");
    SqlError::new(SqlState::CannotCoerce, message)
}

/// Whether an expression's type is known: an array of nothing but NULLs has none.
fn says_something(ty: &DataType) -> bool {
    match ty {
        DataType::List(element) => !element.data_type().is_null(),
        ty => !ty.is_null(),
    }
}

fn gives_way(so_far: ColumnType, next: ColumnType) -> bool {
    is_implicit(so_far, next) && !is_implicit(next, so_far)
}

fn is_implicit(from: ColumnType, to: ColumnType) -> bool {
    has_cast(from, to, CastContext::Implicit)
}

/// The `numeric` in which two exact numbers keep all their digits.
fn with_digits_of_both(left: ColumnType, right: ColumnType) -> Option<ColumnType> {
    let ((left_precision, left_scale), (right_precision, right_scale)) =
        (decimal_shape(left)?, decimal_shape(right)?);
    let scale = left_scale.max(right_scale);
    let whole = (left_precision - left_scale).max(right_precision - right_scale);
    Some(of_digits(whole + scale, scale))
}

#[cfg(test)]
mod tests;
