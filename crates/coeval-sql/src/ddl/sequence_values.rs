// SPDX-License-Identifier: Apache-2.0
//! Sequences that begin anew.

use super::dependents::Users;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use coeval_store::{CatalogChange, SequenceDef, SetValue, TableDef};

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
    require_within(sequence, value)?;
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
    let fed = Users::default().columns_fed_by(context, sequence)?;
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

/// Refuses a number that a sequence cannot go on from.
///
/// # Errors
/// 22023 if it is outside of the bounds.
pub(super) fn require_within(sequence: &SequenceDef, value: i64) -> Result<(), SqlError> {
    let outside = |how: &str, bound: &str, limit: i64| {
        let message = format!("RESTART value ({value}) cannot be {how} than {bound} ({limit})");
        Err(SqlError::new(SqlState::InvalidParameterValue, message))
    };
    if value < sequence.min {
        return outside("less", "MINVALUE", sequence.min);
    }
    if value > sequence.max {
        return outside("greater", "MAXVALUE", sequence.max);
    }
    Ok(())
}
