// SPDX-License-Identifier: Apache-2.0
//! What sequences give: `nextval`, `currval`, `lastval`, `setval`, and the values of the columns they feed.

mod functions;

pub(crate) use functions::{SequenceAccess, functions, is_sequence_function};

use crate::context::{SequenceValues, StatementContext};
use crate::error::{SqlError, SqlState};
use crate::names::wrong_kind;
use crate::stored::expressions::sequence_name;
use coeval_store::{
    Catalog, ColumnType, ObjectRef, QualifiedName, SequenceDef, SequenceId, SetValue, Store, Value,
};
use std::sync::Arc;

/// Whether values may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    /// They may.
    Allowed,
    /// The transaction is read-only.
    ReadOnly,
}

/// What the sequence functions of one statement work on.
pub(crate) struct Sequences<'a> {
    pub(crate) store: &'a Store,
    pub(crate) catalog: &'a Catalog,
    pub(crate) path: &'a [String],
    pub(crate) taking: Taking,
    pub(crate) values: &'a mut SequenceValues,
}

impl<'a> Sequences<'a> {
    /// Those of a statement.
    pub(crate) fn of(context: &'a mut StatementContext<'_>) -> Self {
        let taking = if context.transaction.is_read_only() { Taking::ReadOnly } else { Taking::Allowed };
        Self {
            store: context.engine.store(),
            catalog: context.transaction.catalog(),
            path: context.settings.name_path(),
            taking,
            values: context.sequences,
        }
    }

    /// The sequence that a text like `public."My_seq"` names.
    ///
    /// # Errors
    /// 42P01 if there is none, 42809 if it is something else, 42602 if it is no name.
    pub(crate) fn named(&self, text: &str) -> Result<Arc<SequenceDef>, SqlError> {
        let Some((schema, name)) = sequence_name(text) else {
            return Err(SqlError::new(SqlState::InvalidName, format!("invalid name syntax: \"{text}\"")));
        };
        let resolve = |schema: &String| self.catalog.resolve(&QualifiedName::new(schema, &name));
        let found = match &schema {
            Some(schema) => resolve(schema),
            None => self.path.iter().find_map(resolve),
        };
        match found {
            Some(ObjectRef::Sequence(id)) => {
                let sequence = self.catalog.sequence(id);
                sequence.cloned().ok_or_else(|| SqlError::internal(format!("sequence {id} is lost")))
            }
            Some(_) => Err(wrong_kind(&QualifiedName::new("", name), "sequence")),
            None => {
                let message = format!("relation \"{text}\" does not exist");
                Err(SqlError::new(SqlState::UndefinedTable, message))
            }
        }
    }

    fn refuse_read_only(&self, function: &str) -> Result<(), SqlError> {
        if self.taking == Taking::ReadOnly {
            let message = format!("cannot execute {function}() in a read-only transaction");
            return Err(SqlError::new(SqlState::ReadOnlySqlTransaction, message));
        }
        Ok(())
    }

    /// `nextval`.
    ///
    /// # Errors
    /// 2200H at the end of the sequence, 25006 in a read-only transaction.
    pub(crate) fn next(&mut self, sequence: &SequenceDef) -> Result<i64, SqlError> {
        self.refuse_read_only("nextval")?;
        let value = self.store.next_value(sequence)?;
        self.values.note(sequence, value);
        Ok(value)
    }

    /// `currval`.
    ///
    /// # Errors
    /// 55000 if this session has taken no value from the sequence.
    pub(crate) fn current(&self, sequence: &SequenceDef) -> Result<i64, SqlError> {
        self.values.current.get(&sequence.id).copied().ok_or_else(|| {
            let name = &sequence.name.name;
            let message = format!("currval of sequence \"{name}\" is not yet defined in this session");
            SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
        })
    }

    /// `lastval`.
    ///
    /// # Errors
    /// 55000 if this session has taken no value from any sequence.
    pub(crate) fn last(&self) -> Result<i64, SqlError> {
        // What `setval` has said since of the same sequence counts.
        self.values.last.and_then(|sequence| self.values.current.get(&sequence).copied()).ok_or_else(|| {
            let message = "lastval is not yet defined in this session";
            SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
        })
    }

    /// `setval`; returns the value.
    ///
    /// # Errors
    /// 22003 if the value is outside the sequence's bounds, 25006 in a read-only transaction.
    pub(crate) fn set(&mut self, sequence: &SequenceDef, value: i64, how: SetValue) -> Result<i64, SqlError> {
        self.refuse_read_only("setval")?;
        if value < sequence.min || value > sequence.max {
            let message = format!(
                "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                sequence.name.name, sequence.min, sequence.max
            );
            return Err(SqlError::new(SqlState::NumericValueOutOfRange, message));
        }
        self.store.set_value(sequence, value, how)?;
        if how == SetValue::Used {
            self.values.current.insert(sequence.id, value);
        }
        Ok(value)
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

/// The next value of a sequence.
///
/// # Errors
/// As [`Sequences::next`].
pub(crate) fn next(context: &mut StatementContext<'_>, sequence: &SequenceDef) -> Result<i64, SqlError> {
    Sequences::of(context).next(sequence)
}

/// The next value of the sequence with this number.
///
/// # Errors
/// As [`Sequences::next`].
pub(crate) fn next_by_id(context: &mut StatementContext<'_>, id: SequenceId) -> Result<i64, SqlError> {
    let sequence = by_id(context, id)?;
    next(context, &sequence)
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
