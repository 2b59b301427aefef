// SPDX-License-Identifier: Apache-2.0
//! A sequence as a relation: the one row that says where it stands.
//!
//! The store keeps the number that comes next and not the last one, which is reckoned from it. So `setval(s, 7, false)`
//! reads as the number before 7, taken: the same number comes next.

use crate::error::SqlError;
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use coeval_store::{SequenceDef, Store};
use datafusion::catalog::{MemTable, TableProvider};
use std::sync::Arc;

/// The columns that every sequence has, with their types in `pg_type`.
pub(super) const COLUMNS: [(&str, &str); 3] =
    [("last_value", "int8"), ("log_cnt", "int8"), ("is_called", "bool")];

/// The number that a sequence gave last, and whether it gave it.
pub(crate) fn standing(store: &Store, sequence: &SequenceDef) -> (i64, bool) {
    let last = match store.upcoming_value(sequence) {
        Some(next) if next == sequence.start => return (next, false),
        Some(next) => {
            let last = next.checked_sub(sequence.increment);
            last.filter(|last| (sequence.min..=sequence.max).contains(last)).ok_or(next)
        }
        None if sequence.increment > 0 => Ok(sequence.max),
        None => Ok(sequence.min),
    };
    match last {
        Ok(last) => (last, true),
        Err(next) => (next, false),
    }
}

/// The relation with that row.
///
/// # Errors
/// If the row is not of the relation's schema: a bug.
pub(crate) fn sequence_row(
    store: &Store,
    sequence: &SequenceDef,
) -> Result<Arc<dyn TableProvider>, SqlError> {
    let (last, is_called) = standing(store, sequence);
    let types = [DataType::Int64, DataType::Int64, DataType::Boolean];
    let fields: Vec<Field> =
        COLUMNS.iter().zip(types).map(|((name, _), ty)| Field::new(*name, ty, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![last])),
        Arc::new(Int64Array::from(vec![0])),
        Arc::new(BooleanArray::from(vec![is_called])),
    ];
    let row = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![row]])?))
}
