// SPDX-License-Identifier: Apache-2.0
//! Columns of tables as queries have them.

use arrow::datatypes::Field;
use coeval_store::ColumnDef;

/// A column as queries have it.
#[must_use]
pub fn field_of_column(column: &ColumnDef) -> Field {
    let field = Field::new(&column.name, column.ty.arrow(), !column.not_null);
    crate::types::marked_field(field, column.ty)
}
