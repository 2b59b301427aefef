// SPDX-License-Identifier: Apache-2.0
//! Bulk ingestion: the rows of a stream as rows of a table, in one transaction, a group of batches at a time.

use crate::client::Open;
use crate::errors::{is, of_database, refused, with_status};
use crate::names::{CATALOG, quoted, relation};
use crate::results::Batches;
use adbc_core::error::{Error, Result, Status};
use adbc_core::options::IngestMode;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use coeval::{ColumnType, SqlError, SqlState, column_type_of_field, column_type_of_given};
use std::collections::HashMap;

/// What the session knows a group of batches by.
const LENT: &str = "coeval adbc ingestion";
/// The schema of a session's temporary tables.
const TEMPORARY_SCHEMA: &str = "pg_temp";

/// A group goes into the table when it has so many rows or bytes: enough for a statement to be worth it, and little beside
/// what the rows take as part of the transaction.
const GROUP_ROWS: usize = 1 << 16;
const GROUP_BYTES: usize = 16 << 20;

const EXTENSION_NAME: &str = "ARROW:extension:name";
const EXTENSION_JSON: &str = "arrow.json";

/// Where the rows go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub(crate) table: String,
    pub(crate) catalog: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) lifetime: Lifetime,
    pub(crate) mode: Option<IngestMode>,
}

/// How long a table is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Until it is dropped.
    #[default]
    Lasting,
    /// Until its session ends.
    Temporary,
}

impl Target {
    /// Puts all rows into the table, or none, and returns how many they are.
    ///
    /// # Errors
    /// What the mode says of a table that is there or not; `AlreadyExists` for one that the rows do not fit; what the constraints
    /// say.
    pub(crate) fn ingest(&self, open: &mut Open, rows: Batches) -> Result<u64> {
        self.refuse_unfit()?;
        open.as_one(|open| {
            let schema = rows.schema();
            self.provide(open, &schema)?;
            let outcome = self.insert(open, &schema, rows);
            open.session()?.give_back(LENT);
            outcome
        })
    }

    fn refuse_unfit(&self) -> Result<()> {
        if self.catalog.as_deref().is_some_and(|catalog| catalog != CATALOG) {
            let message = format!("there is no catalog but {CATALOG:?}");
            return Err(refused(SqlState::InvalidCatalogName, message));
        }
        if self.lifetime == Lifetime::Temporary && self.schema.is_some() {
            let message = "temporary tables are in no schema that has a name";
            return Err(Error::with_message_and_status(message, Status::InvalidArguments));
        }
        Ok(())
    }

    fn mode(&self) -> IngestMode {
        self.mode.unwrap_or(IngestMode::Create)
    }

    /// The table's name, as SQL writes it.
    fn name(&self) -> String {
        match self.lifetime {
            Lifetime::Lasting => relation(self.schema.as_deref(), &self.table),
            Lifetime::Temporary => relation(Some(TEMPORARY_SCHEMA), &self.table),
        }
    }

    /// Makes the table, as far as the mode says so.
    fn provide(&self, open: &mut Open, schema: &Schema) -> Result<()> {
        let condition = match self.mode() {
            IngestMode::Append => return Ok(()),
            IngestMode::Create => "",
            IngestMode::CreateAppend => "IF NOT EXISTS ",
            IngestMode::Replace => {
                open.execute(&format!("DROP TABLE IF EXISTS {}", self.name()))?;
                ""
            }
        };
        let (kind, name) = match self.lifetime {
            Lifetime::Lasting => ("TABLE", self.name()),
            Lifetime::Temporary => ("TEMPORARY TABLE", quoted(&self.table)),
        };
        let columns = schema.fields().iter().map(|field| {
            let ty = declared_type(field)?;
            Ok(format!("{} {ty}", quoted(field.name())))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?.join(", ");
        open.execute(&format!("CREATE {kind} {condition}{name} ({columns})"))?;
        Ok(())
    }

    fn insert(&self, open: &mut Open, schema: &Schema, rows: Batches) -> Result<u64> {
        let sql = self.statement(open, schema)?;
        let mut group = Vec::new();
        let (mut group_rows, mut group_bytes, mut count) = (0, 0, 0);
        for batch in rows {
            open.go_on()?;
            let batch = batch.map_err(|error| crate::binding::unreadable(&error))?;
            group_rows += batch.num_rows();
            group_bytes += batch.get_array_memory_size();
            group.push(batch);
            if group_rows >= GROUP_ROWS || group_bytes >= GROUP_BYTES {
                count += insert_group(open, &sql, schema, &group)?;
                group.clear();
                (group_rows, group_bytes) = (0, 0);
            }
        }
        if group_rows > 0 {
            count += insert_group(open, &sql, schema, &group)?;
        }
        Ok(count)
    }

    /// What puts a group into the table. Columns go by their names; those that the rows do not have get their defaults.
    fn statement(&self, open: &mut Open, schema: &Schema) -> Result<String> {
        let name = self.name();
        let wanted = open.prepared(&format!("SELECT * FROM {name}"), &[])?;
        let wanted = wanted.map_err(|error| of_database(&error))?;
        let columns = wanted.columns().map(|columns| columns.fields().clone()).unwrap_or_default();
        let wanted: HashMap<&str, &Field> =
            columns.iter().map(|field| (field.name().as_str(), field.as_ref())).collect();
        let mut names = Vec::new();
        let mut values = Vec::new();
        for field in schema.fields() {
            let Some(column) = wanted.get(field.name().as_str()) else {
                let message = format!("the table {name} has no column \"{}\"", field.name());
                let error = refused(SqlState::UndefinedColumn, message);
                return Err(with_status(error, Status::AlreadyExists));
            };
            names.push(quoted(field.name()));
            values.push(value(field, column));
        }
        let (names, values) = (names.join(", "), values.join(", "));
        Ok(format!("INSERT INTO {name} ({names}) SELECT {values} FROM {}", quoted(LENT)))
    }
}

fn insert_group(open: &mut Open, sql: &str, schema: &Schema, group: &[RecordBatch]) -> Result<u64> {
    open.session()?.lend(LENT, schema, group).map_err(|error| of_database(&error))?;
    open.execute(sql).map_err(|error| {
        let is_misfit = is(&error, SqlState::DatatypeMismatch);
        if is_misfit { with_status(error, Status::AlreadyExists) } else { error }
    })
}

/// The type of a column that is made for this one.
fn declared_type(field: &Field) -> Result<String> {
    if field.metadata().get(EXTENSION_NAME).is_some_and(|name| name == EXTENSION_JSON) {
        return Ok(ColumnType::Json.to_string());
    }
    match column_type_of_given(field) {
        Some(ty) => Ok(ty.to_string()),
        None => {
            let (column, ty) = (field.name(), field.data_type());
            let error = SqlError::unsupported(format_args!("the column \"{column}\" of Arrow's type {ty}"));
            Err(of_database(&error.into()))
        }
    }
}

/// A lent column as a value for one of the table. A text is read as the column's type, as in a statement; anything else is
/// cast as INSERT does it, which refuses what does not fit.
fn value(field: &Field, column: &Field) -> String {
    let name = quoted(field.name());
    match column_type_of_field(column) {
        None | Some(ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_)) => name,
        Some(ty) if is_text(field.data_type()) => format!("{name}::{ty}"),
        Some(_) => name,
    }
}

fn is_text(ty: &DataType) -> bool {
    match ty {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}
