// SPDX-License-Identifier: Apache-2.0
//! Which casts there are, and where they are made without being asked for: PostgreSQL's `pg_cast`, for the types that there are
//! here, and its rules for what that table does not hold. Nothing else decides it.
//!
//! | cast | made where | how |
//! |---|---|---|
//! | of a pair in the table | as the table says | as the two types say |
//! | of an array to another | as for their elements | element by element |
//! | of anything to a text | it is assigned | it is written |
//! | of a text to anything | it is asked for | it is read |
//!
//! How a cast is done is said by `scalar/cast.rs` for one value, by `scalar/cast_function.rs` for columns, and by `assign.rs` for
//! what goes into a table.

use super::names::type_name;
use crate::error::{SqlError, SqlState};
use coeval_store::ColumnType;

/// Where a cast is made. What is made in one place is made in those that follow, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CastContext {
    /// In any expression: `1 + 1.5`.
    Implicit,
    /// On the way into a column: `INSERT`, `UPDATE`, `ALTER COLUMN ... TYPE` without USING.
    Assignment,
    /// Where the user wrote it.
    Explicit,
}

/// Whether there is a cast from one type to another in this context.
pub(crate) fn has_cast(from: ColumnType, to: ColumnType, context: CastContext) -> bool {
    first_context(from, to).is_some_and(|first| first <= context)
}

/// Refuses a cast that the user wrote, if there is none.
///
/// # Errors
/// `42846`.
pub(crate) fn require_cast(from: ColumnType, to: ColumnType) -> Result<(), SqlError> {
    if has_cast(from, to, CastContext::Explicit) {
        return Ok(());
    }
    Err(cannot_cast(&type_name(from), &type_name(to)))
}

/// `42846` for a cast between types of these names.
pub(crate) fn cannot_cast(from: &str, to: &str) -> SqlError {
    SqlError::new(SqlState::CannotCoerce, format!("cannot cast type {from} to {to}"))
}

/// `42804` for a column that does not take values of a type.
pub(crate) fn cannot_assign(column: &str, ty: ColumnType, from: ColumnType) -> SqlError {
    let (ty, from) = (type_name(ty), type_name(from));
    let message = format!("column \"{column}\" is of type {ty} but expression is of type {from}");
    SqlError::new(SqlState::DatatypeMismatch, message)
        .with_hint("You will need to rewrite or cast the expression.")
}

/// `42804` for what is assigned to a part of a document and is none.
pub(crate) fn no_document(from: ColumnType) -> SqlError {
    let message =
        format!("subscripted assignment requires type jsonb but expression is of type {}", type_name(from));
    SqlError::new(SqlState::DatatypeMismatch, message)
}

/// `42804` for what stands in the place of a condition and is of a type of this name.
pub(crate) fn no_condition(clause: &str, ty: &str) -> SqlError {
    let message = format!("argument of {clause} must be type boolean, not type {ty}");
    SqlError::new(SqlState::DatatypeMismatch, message)
}

/// Whether values of a type are texts and nothing else. A `char(n)` is kept without its trailing blanks, so all of them compare as
/// they are kept.
pub(crate) fn is_text(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_))
}

/// The first context in which a cast is made; `None` if there is none.
fn first_context(from: ColumnType, to: ColumnType) -> Option<CastContext> {
    if from == to {
        return Some(CastContext::Implicit);
    }
    in_table(from, to).or_else(|| match (from, to) {
        (ColumnType::Array(from), ColumnType::Array(to)) => {
            first_context(from.column_type(), to.column_type())
        }
        (_, to) if is_text(to) => Some(CastContext::Assignment),
        (from, _) if is_text(from) => Some(CastContext::Explicit),
        _ => None,
    })
}

/// The rows of `pg_cast`, and of a type to itself with another length or other digits.
fn in_table(from: ColumnType, to: ColumnType) -> Option<CastContext> {
    use ColumnType::{
        AnyNumeric, BigInt, Bit, Boolean, Char, Date, Double, Int, Interval, Json, Jsonb, Numeric, Real,
        SmallInt, Text, Time, TimeTz, Timestamp, TimestampTz, Varbit, Varchar,
    };
    match (from, to) {
        (SmallInt, Int | BigInt | Numeric { .. } | AnyNumeric | Real | Double)
        | (Int, BigInt | Numeric { .. } | AnyNumeric | Real | Double)
        | (BigInt, Numeric { .. } | AnyNumeric | Real | Double)
        | (Numeric { .. }, Numeric { .. } | AnyNumeric | Real | Double)
        | (AnyNumeric, Real | Double)
        | (Real, Double)
        | (Text | Varchar(_) | Char(_), Text | Varchar(_) | Char(_))
        | (Date, Timestamp | TimestampTz)
        | (Timestamp, TimestampTz)
        | (Time, Interval | TimeTz)
        | (Bit(_) | Varbit(_), Bit(_) | Varbit(_)) => Some(CastContext::Implicit),
        (Int, SmallInt)
        | (BigInt, SmallInt | Int)
        | (Numeric { .. }, SmallInt | Int | BigInt)
        // Its digits may have to be rounded, so that the type without digits is the one that both have in common.
        | (AnyNumeric, SmallInt | Int | BigInt | Numeric { .. })
        | (Real, SmallInt | Int | BigInt | Numeric { .. } | AnyNumeric)
        | (Double, SmallInt | Int | BigInt | Numeric { .. } | AnyNumeric | Real)
        | (Boolean, Text | Varchar(_) | Char(_))
        | (Timestamp, Date | Time)
        | (TimestampTz, Date | Time | TimeTz | Timestamp)
        | (TimeTz, Time)
        | (Interval, Time)
        | (Json, Jsonb)
        | (Jsonb, Json) => Some(CastContext::Assignment),
        (Boolean, Int)
        | (Int, Boolean)
        | (Int | BigInt, Bit(_))
        | (Bit(_), Int | BigInt)
        | (Jsonb, Boolean | SmallInt | Int | BigInt | Numeric { .. } | AnyNumeric | Real | Double) => {
            Some(CastContext::Explicit)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
