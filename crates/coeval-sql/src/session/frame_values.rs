// SPDX-License-Identifier: Apache-2.0
//! Columns of a frame as those of the table that they are for: texts are read as COPY reads them, and sixteen bytes are a `uuid`.
//!
//! Frames have no types of their own for many of SQL's, and no statement takes a text for a date by itself.

use crate::error::{SqlError, SqlState};
use crate::names::existing_name;
use crate::settings::Settings;
use crate::types::{column_type_of_given, parse_value};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use chrono_tz::Tz;
use coeval_store::{ColumnBuilder, ColumnType, Transaction, ValueRef};
use datafusion::sql::sqlparser::ast::{Statement, TableObject};
use std::collections::HashMap;

/// What the columns of a frame are for: the types of those that its rows go into, by name, and the zone of times without one.
#[derive(Debug)]
pub(super) struct Target {
    types: HashMap<String, ColumnType>,
    zone: Tz,
}

impl Target {
    /// Rows that are for no table in particular.
    pub(super) fn none() -> Self {
        Self { types: HashMap::new(), zone: Tz::UTC }
    }

    /// The table or view that an INSERT adds rows to; none for another statement, and for a name that nothing has.
    pub(super) fn of(statement: &Statement, settings: &Settings, transaction: &Transaction) -> Self {
        let types = types_of_target(statement, settings, transaction).unwrap_or_default();
        Self { types, zone: settings.zone() }
    }

    /// The type as which the values of a column are read; `None` if they stay as they are.
    pub(super) fn read_as(&self, field: &Field) -> Option<ColumnType> {
        let wanted = *self.types.get(field.name())?;
        let is_read = match column_type_of_given(field)? {
            ColumnType::Text => is_read_of_text(wanted),
            ColumnType::Bytea => wanted == ColumnType::Uuid,
            _ => false,
        };
        is_read.then_some(wanted)
    }

    /// The values of a column, [read as](Self::read_as) values of this type. The first of them is in row `first` of the frame.
    ///
    /// # Errors
    /// What is wrong with the first bad one: `22P02`, `22P03`, `22007` and the like, with its row and column.
    pub(super) fn read(
        &self,
        column: &ArrayRef,
        name: &str,
        to: ColumnType,
        first: usize,
    ) -> Result<ArrayRef, SqlError> {
        let mut builder = ColumnBuilder::new(to, column.len());
        if is_of_bytes(column.data_type()) {
            let bytes = cast(column, &DataType::BinaryView)?;
            for (row, value) in bytes.as_binary_view().iter().enumerate() {
                let Some(value) = value else {
                    builder.push(ValueRef::Null);
                    continue;
                };
                let id = <[u8; 16]>::try_from(value);
                let id = id.map_err(|_| placed(no_uuid(value.len()), first + row, name))?;
                builder.push(ValueRef::Uuid(id));
            }
            return Ok(builder.finish());
        }
        let texts = cast(column, &DataType::Utf8View)?;
        for (row, text) in texts.as_string_view().iter().enumerate() {
            let Some(text) = text else {
                builder.push(ValueRef::Null);
                continue;
            };
            let value = parse_value(text, to, self.zone);
            builder.push(value.map_err(|error| placed(error, first + row, name))?.borrow());
        }
        Ok(builder.finish())
    }
}

/// The columns of what an INSERT adds rows to, by name.
fn types_of_target(
    statement: &Statement,
    settings: &Settings,
    transaction: &Transaction,
) -> Option<HashMap<String, ColumnType>> {
    let Statement::Insert(insert) = statement else { return None };
    let TableObject::TableName(name) = &insert.table else { return None };
    let name = existing_name(name, settings, transaction).ok()??;
    if let Some(def) = transaction.resolve_table(&name) {
        return Some(def.live_columns().map(|(_, column)| (column.name.clone(), column.ty)).collect());
    }
    let columns = transaction.catalog().view(&name)?.output.as_ref()?;
    Some(columns.iter().map(|column| (column.name.clone(), column.ty)).collect())
}

/// Whether programs have values of this type as texts. Integers, floats and booleans are such in a frame,
/// too: a text in their place is a mistake.
fn is_read_of_text(ty: ColumnType) -> bool {
    matches!(
        ty,
        ColumnType::Numeric { .. }
            | ColumnType::AnyNumeric
            | ColumnType::Date
            | ColumnType::Time
            | ColumnType::TimeTz
            | ColumnType::Timestamp
            | ColumnType::TimestampTz
            | ColumnType::Interval
            | ColumnType::Uuid
            | ColumnType::Json
            | ColumnType::Jsonb
            | ColumnType::Enum(_)
    )
}

/// Whether values of this Arrow type are bytes and no texts.
fn is_of_bytes(ty: &DataType) -> bool {
    match ty {
        DataType::Dictionary(_, values) => is_of_bytes(values),
        ty => matches!(
            ty,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
        ),
    }
}

fn no_uuid(bytes: usize) -> SqlError {
    let message = format!("{bytes} bytes are no uuid, which has 16");
    SqlError::new(SqlState::InvalidBinaryRepresentation, message)
}

/// The error with the place of the value that it is about.
fn placed(mut error: SqlError, row: usize, column: &str) -> SqlError {
    let place = format!("Row {} of the frame, counted from 1, column \"{column}\".", row + 1);
    let detail = match error.detail.take() {
        Some(detail) => format!("{detail} {place}"),
        None => place,
    };
    error.with_detail(detail)
}
