// SPDX-License-Identifier: Apache-2.0
//! A new column whose value is another one in each row.

use super::changed_table::put;
use super::generated_columns;
use crate::cancel;
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::values;
use coeval_store::{ColumnDef, Direction, Key, KeyRange, SpaceId, StoreError, TableDef};

/// Adds the column and writes a value of its own into each row; returns the table's number.
///
/// # Errors
/// What is wrong with its expression, and what computing it answers.
pub(super) fn add(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    column: ColumnDef,
) -> Result<SpaceId, SqlError> {
    let index = def.columns.len();
    let mut nullable = def.clone();
    nullable.add_column(ColumnDef { not_null: false, ..column.clone() });
    generated_columns::validate(context, &nullable)?;
    let id = put(context, nullable.clone())?;
    let rows = context.transaction.scan(id, &KeyRange::all(), Direction::Forward)?;
    let key_of = |row: Result<(Key, _), StoreError>| {
        cancel::check()?;
        Ok(row?.0)
    };
    let keys: Vec<Key> = rows.map(key_of).collect::<Result<_, SqlError>>()?;
    for key in keys {
        cancel::check()?;
        let value = values::next_default(context, &column)?;
        let Some(row) = context.transaction.get(id, &key)? else { continue };
        let row = row.with(&[(index, value)]);
        context.transaction.update(id, &key, row)?;
    }
    let mut finished = nullable;
    finished.columns[index] = column;
    put(context, finished)
}
