// SPDX-License-Identifier: Apache-2.0
//! The table column that a result's column comes from, if it is one unchanged. It is kept with the field, for describing results.

use super::classes::{column_number, column_numbered};
use crate::oids;
use arrow::datatypes::Field;
use coeval_store::{ColumnDef, TableDef};

const TABLE: &str = "coeval.table";
const COLUMN: &str = "coeval.column";

/// The ids of a table and of one of its columns, as the catalog has them.
pub(crate) fn column_oids(def: &TableDef, index: usize) -> Option<(i32, i16)> {
    let number = i16::try_from(column_number(def, index)?).ok()?;
    Some((oids::of_space(def.id), number))
}

/// The field, as that column.
pub(crate) fn set_origin(field: Field, table: i32, column: i16) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(TABLE.to_owned(), table.to_string());
    metadata.insert(COLUMN.to_owned(), column.to_string());
    field.with_metadata(metadata)
}

/// The column of a table that a field of a result is: the object id of the table and the number of the column.
#[must_use]
pub fn origin_of(field: &Field) -> Option<(i32, i16)> {
    let metadata = field.metadata();
    Some((metadata.get(TABLE)?.parse().ok()?, metadata.get(COLUMN)?.parse().ok()?))
}

/// The column that a field of a result is, as one of these tables defines it; `None` if it is no table's, or computed.
pub(crate) fn defined_column<'d>(
    field: &Field,
    mut tables: impl Iterator<Item = &'d TableDef>,
) -> Option<&'d ColumnDef> {
    let (table, column) = origin_of(field)?;
    column_numbered(tables.find(|def| oids::of_space(def.id) == table)?, column)
}
