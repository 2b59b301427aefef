// SPDX-License-Identifier: Apache-2.0
//! What sequences give: `nextval`, `currval`, `lastval`, `setval`, and the values of the columns they feed.

use super::expressions::sequence_name;
use super::lookup;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use coeval_store::{ColumnType, ObjectRef, SequenceDef, SequenceId, SetValue, Value};
use std::sync::Arc;

/// The sequence that a text like `public."My_seq"` names.
///
/// # Errors
/// 42P01 if there is none, 42809 if it is something else, 42602 if it is no name.
pub(crate) fn named(context: &StatementContext<'_>, text: &str) -> Result<Arc<SequenceDef>, SqlError> {
    let Some((schema, name)) = sequence_name(text) else {
        return Err(SqlError::new(SqlState::InvalidName, format!("invalid name syntax: \"{text}\"")));
    };
    match lookup::find(context, schema.as_deref(), &name) {
        Some((_, ObjectRef::Sequence(id))) => by_id(context, id),
        Some((name, _)) => Err(lookup::wrong_kind(&name, "sequence")),
        None => {
            let message = format!("relation \"{text}\" does not exist");
            Err(SqlError::new(SqlState::UndefinedTable, message))
        }
    }
}

/// The sequence with this number.
///
/// # Errors
/// XX000 if it is not there: a column that it feeds goes before it.
pub(crate) fn by_id(context: &StatementContext<'_>, id: SequenceId) -> Result<Arc<SequenceDef>, SqlError> {
    let sequence = context.transaction.catalog().sequence(id);
    sequence.cloned().ok_or_else(|| SqlError::internal(format!("sequence {id} is lost")))
}

fn refuse_read_only(context: &StatementContext<'_>, function: &str) -> Result<(), SqlError> {
    if context.transaction.is_read_only() {
        let message = format!("cannot execute {function}() in a read-only transaction");
        return Err(SqlError::new(SqlState::ReadOnlySqlTransaction, message));
    }
    Ok(())
}

/// `nextval`.
///
/// # Errors
/// 2200H at the end of the sequence, 25006 in a read-only transaction.
pub(crate) fn next(context: &mut StatementContext<'_>, sequence: &SequenceDef) -> Result<i64, SqlError> {
    refuse_read_only(context, "nextval")?;
    let value = context.engine.store().next_value(sequence)?;
    context.sequences.note(sequence.id, value);
    Ok(value)
}

/// `nextval` of the sequence with this number.
///
/// # Errors
/// As [`next`].
pub(crate) fn next_by_id(context: &mut StatementContext<'_>, id: SequenceId) -> Result<i64, SqlError> {
    let sequence = by_id(context, id)?;
    next(context, &sequence)
}

/// `currval`.
///
/// # Errors
/// 55000 if this session has taken no value from the sequence.
pub(crate) fn current(context: &StatementContext<'_>, sequence: &SequenceDef) -> Result<i64, SqlError> {
    context.sequences.current.get(&sequence.id).copied().ok_or_else(|| {
        let message =
            format!("currval of sequence \"{}\" is not yet defined in this session", sequence.name.name);
        SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
    })
}

/// `lastval`.
///
/// # Errors
/// 55000 if this session has taken no value from any sequence.
pub(crate) fn last(context: &StatementContext<'_>) -> Result<i64, SqlError> {
    context.sequences.last.ok_or_else(|| {
        let message = "lastval is not yet defined in this session";
        SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
    })
}

/// `setval`; returns the value.
///
/// # Errors
/// 22003 if the value is outside the sequence's bounds, 25006 in a read-only transaction.
pub(crate) fn set(
    context: &mut StatementContext<'_>,
    sequence: &SequenceDef,
    value: i64,
    how: SetValue,
) -> Result<i64, SqlError> {
    refuse_read_only(context, "setval")?;
    if value < sequence.min || value > sequence.max {
        let message = format!(
            "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
            sequence.name.name, sequence.min, sequence.max
        );
        return Err(SqlError::new(SqlState::NumericValueOutOfRange, message));
    }
    context.engine.store().set_value(sequence, value, how)?;
    if how == SetValue::Used {
        context.sequences.current.insert(sequence.id, value);
    }
    Ok(value)
}

/// Lets a sequence give this value next.
///
/// # Errors
/// If the log cannot be written.
pub(super) fn restart(
    context: &StatementContext<'_>,
    sequence: &SequenceDef,
    value: i64,
) -> Result<(), SqlError> {
    Ok(context.engine.store().set_value(sequence, value, SetValue::Next)?)
}

/// The value as a column of an integer type takes it.
///
/// # Errors
/// 22003 if it does not fit.
pub(crate) fn as_column(value: i64, ty: ColumnType) -> Result<Value, SqlError> {
    let fitted = match ty {
        ColumnType::SmallInt => i16::try_from(value).ok().map(Value::Int16),
        ColumnType::Int => i32::try_from(value).ok().map(Value::Int32),
        _ => Some(Value::Int64(value)),
    };
    fitted.ok_or_else(|| SqlError::new(SqlState::NumericValueOutOfRange, format!("{ty} out of range")))
}
