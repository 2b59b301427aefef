// SPDX-License-Identifier: Apache-2.0
//! The values of columns that sequences feed, and sequences that begin anew.

use super::dependents::columns_fed_by;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::sequences::Sequences;
use coeval_store::{CatalogChange, ColumnType, SequenceDef, SequenceId, SetValue, TableDef, Value};
use std::sync::Arc;

/// The sequence with this number.
///
/// # Errors
/// XX000 if it is not there: a column that it feeds goes before it.
pub(super) fn by_id(context: &StatementContext<'_>, id: SequenceId) -> Result<Arc<SequenceDef>, SqlError> {
    let sequence = context.transaction.catalog().sequence(id);
    sequence.cloned().ok_or_else(|| SqlError::internal(format!("sequence {id} is lost")))
}

/// The next value of a sequence.
///
/// # Errors
/// As [`Sequences::next`].
pub(super) fn next(context: &mut StatementContext<'_>, sequence: &SequenceDef) -> Result<i64, SqlError> {
    Sequences::of(context).next(sequence)
}

/// The next value of the sequence with this number.
///
/// # Errors
/// As [`Sequences::next`].
pub(super) fn next_by_id(context: &mut StatementContext<'_>, id: SequenceId) -> Result<i64, SqlError> {
    let sequence = by_id(context, id)?;
    next(context, &sequence)
}

/// Lets a sequence give this value next. The numbers that are handed out stand outside transactions, so that it gets
/// a new identity which starts there: if the transaction rolls back, the old one goes on where it stood.
///
/// # Errors
/// 22023 for a value outside its bounds; if the log cannot be written.
pub(super) fn restart(
    context: &mut StatementContext<'_>,
    sequence: &SequenceDef,
    value: i64,
) -> Result<(), SqlError> {
    let outside = |how: &str, bound: &str, limit: i64| {
        let message = format!("RESTART value ({value}) cannot be {how} than {bound} ({limit})");
        SqlError::new(SqlState::InvalidParameterValue, message)
    };
    if value < sequence.min {
        return Err(outside("less", "MINVALUE", sequence.min));
    }
    if value > sequence.max {
        return Err(outside("greater", "MAXVALUE", sequence.max));
    }
    let store = context.engine.store();
    let fresh = SequenceDef { id: store.new_sequence_id(), ..sequence.clone() };
    store.set_value(&fresh, value, SetValue::Next)?;
    if let Some(current) = context.sequences.current.get(&sequence.id).copied() {
        context.sequences.current.insert(fresh.id, current);
    }
    if context.sequences.last == Some(sequence.id) {
        context.sequences.last = Some(fresh.id);
    }
    // Those that it feeds, whether one of them owns it or not.
    let fed = columns_fed_by(context, sequence);
    let new = fresh.id;
    context.transaction.change_catalog(CatalogChange::RemoveSequence(sequence.id))?;
    context.transaction.change_catalog(CatalogChange::PutSequence(fresh))?;
    let mut changed: Vec<TableDef> = Vec::new();
    for (def, column) in fed {
        if changed.last().is_none_or(|last| last.id != def.id) {
            changed.push(def.as_ref().clone());
        }
        let def = changed.last_mut().expect("one was just put there");
        def.columns[column].sequence = Some(new);
    }
    for def in changed {
        context.transaction.change_catalog(CatalogChange::PutTable(Box::new(def)))?;
    }
    Ok(())
}

/// The value as a column of an integer type takes it.
///
/// # Errors
/// 22003 if it does not fit.
pub(super) fn as_column(value: i64, ty: ColumnType) -> Result<Value, SqlError> {
    let fitted = match ty {
        ColumnType::SmallInt => i16::try_from(value).ok().map(Value::Int16),
        ColumnType::Int => i32::try_from(value).ok().map(Value::Int32),
        _ => Some(Value::Int64(value)),
    };
    fitted.ok_or_else(|| SqlError::new(SqlState::NumericValueOutOfRange, format!("{ty} out of range")))
}
