// SPDX-License-Identifier: Apache-2.0
//! Which types are compared with each other: for which two there is an operator `=`, `<` and so on. Nothing else decides it.
//!
//! Two types are compared if they are one, or if one of them is cast to the other [without being asked for](super::casts):
//!
//! | types | compared with |
//! |---|---|
//! | numbers, texts | numbers, texts, of whatever kind and length |
//! | `date`, `timestamp`, `timestamptz` | each other |
//! | `time` | `interval`, as which it is compared, and `timetz`, as one of today in the session's zone |
//! | arrays | arrays of elements that are compared with theirs |
//! | `json` | nothing, not even itself |
//! | all others | themselves |
//!
//! PostgreSQL refuses arrays of two kinds of numbers, and of two kinds of texts; here they are compared. What has no type by itself, a
//! literal, NULL or a parameter, is of the other side's.
//!
//! Which operands a construct compares is said by `query/typing/comparisons.rs`.

use super::casts::{CastContext, has_cast};
use super::names::type_name;
use crate::error::{SqlError, SqlState};
use coeval_store::ColumnType;
use std::fmt::Display;

/// Refuses to compare values of two types that no operator is for.
///
/// # Errors
/// `42883`.
pub(crate) fn require_comparison(
    left: ColumnType,
    operator: &dyn Display,
    right: ColumnType,
) -> Result<(), SqlError> {
    if are_compared(left, right) {
        return Ok(());
    }
    Err(no_operator(&type_name(left), operator, &type_name(right)))
}

/// `42883` for an operator that there is not between types of these names.
pub(crate) fn no_operator(left: &str, operator: &dyn Display, right: &str) -> SqlError {
    let message = format!("operator does not exist: {left} {operator} {right}");
    SqlError::new(SqlState::UndefinedFunction, message).with_hint(
        "No operator matches the given name and argument types. You might need to add explicit type casts.",
    )
}

/// `42883` for an operator that there is not in front of a type of this name.
pub(crate) fn no_prefix_operator(operator: &dyn Display, operand: &str) -> SqlError {
    let message = format!("operator does not exist: {operator} {operand}");
    SqlError::new(SqlState::UndefinedFunction, message).with_hint(
        "No operator matches the given name and argument type. You might need to add an explicit type cast.",
    )
}

/// Refuses to tell values apart of a type that has no `=`.
///
/// # Errors
/// `42883`.
pub(crate) fn require_equality(ty: ColumnType) -> Result<(), SqlError> {
    if has_order(ty) {
        return Ok(());
    }
    let message = format!("could not identify an equality operator for type {}", type_name(ty));
    Err(SqlError::new(SqlState::UndefinedFunction, message))
}

/// Refuses to order values of a type that has no `<`.
///
/// # Errors
/// `42883`.
pub(crate) fn require_order(ty: ColumnType) -> Result<(), SqlError> {
    if has_order(ty) {
        return Ok(());
    }
    let message = format!("could not identify an ordering operator for type {}", type_name(ty));
    Err(SqlError::new(SqlState::UndefinedFunction, message)
        .with_hint("Use an explicit ordering operator or modify the query."))
}

/// Whether values of a type are equal or not, and in an order: both or neither.
fn has_order(ty: ColumnType) -> bool {
    match ty {
        ColumnType::Json => false,
        ColumnType::Array(element) => has_order(element.column_type()),
        _ => true,
    }
}

fn are_compared(left: ColumnType, right: ColumnType) -> bool {
    let is_cast = |from, to| has_cast(from, to, CastContext::Implicit);
    match (left, right) {
        (ColumnType::Json, _) | (_, ColumnType::Json) => false,
        (left, right) => is_cast(left, right) || is_cast(right, left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_store::ElementType;

    fn array(element: ColumnType) -> ColumnType {
        ColumnType::Array(ElementType::of(element).unwrap())
    }

    /// How PostgreSQL 15 refuses `left = right`; nothing if it does not.
    fn refused(left: ColumnType, right: ColumnType) -> String {
        require_comparison(left, &"=", right).err().map(|error| error.message).unwrap_or_default()
    }

    #[test]
    fn values_of_one_kind_are_compared() {
        let price = ColumnType::Numeric { precision: 10, scale: 2 };
        for kind in [
            vec![ColumnType::SmallInt, ColumnType::Int, ColumnType::BigInt, price, ColumnType::Real],
            vec![ColumnType::Text, ColumnType::Varchar(3), ColumnType::Char(9)],
            vec![ColumnType::Date, ColumnType::Timestamp, ColumnType::TimestampTz],
            vec![ColumnType::Time, ColumnType::Interval],
            vec![ColumnType::Boolean],
            vec![ColumnType::Uuid],
            vec![ColumnType::Jsonb],
            vec![array(ColumnType::Int), array(price)],
        ] {
            for left in &kind {
                for right in &kind {
                    assert_eq!(refused(*left, *right), "", "{left} = {right}");
                }
            }
        }
    }

    #[test]
    fn json_is_neither_told_apart_nor_ordered() {
        for ty in [ColumnType::Json, array(ColumnType::Json)] {
            assert!(require_equality(ty).is_err() && require_order(ty).is_err(), "{ty}");
        }
        for ty in [ColumnType::Jsonb, ColumnType::Text, array(ColumnType::Int)] {
            assert!(require_equality(ty).is_ok() && require_order(ty).is_ok(), "{ty}");
        }
    }

    #[test]
    fn values_of_two_kinds_are_not() {
        let price = ColumnType::Numeric { precision: 10, scale: 2 };
        for (left, right, pair) in [
            (price, ColumnType::Text, "numeric = text"),
            (ColumnType::Varchar(3), ColumnType::Int, "character varying = integer"),
            (ColumnType::Date, ColumnType::Text, "date = text"),
            (ColumnType::Date, ColumnType::Time, "date = time without time zone"),
            (ColumnType::Int, ColumnType::Boolean, "integer = boolean"),
            (ColumnType::Uuid, ColumnType::Bytea, "uuid = bytea"),
            (ColumnType::Jsonb, ColumnType::Json, "jsonb = json"),
            (ColumnType::Json, ColumnType::Json, "json = json"),
            (array(ColumnType::Int), array(ColumnType::Text), "integer[] = text[]"),
            (array(ColumnType::Int), ColumnType::Int, "integer[] = integer"),
        ] {
            assert_eq!(refused(left, right), format!("operator does not exist: {pair}"));
        }
    }
}
