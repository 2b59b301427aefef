// SPDX-License-Identifier: Apache-2.0
//! Tables that a program lends a session: Arrow batches in memory, by a name, to be read only.

use super::frame_values::Target;
use super::parse::Parsed;
use super::{Session, State};
use crate::error::SqlError;
use crate::names::{resolve, split_name};
use crate::open_objects::LentFrames;
use crate::types::{column_type_of_given, marked_field};
use crate::walk::each_relation;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_store::{AccessMode, ColumnType, Transaction};
use coeval_txn::Isolation;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A value that its column cannot hold is an error, and never NULL.
const EXACTLY: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow::util::display::FormatOptions::new() };

/// A session's frames, by name.
#[derive(Debug, Default)]
pub(crate) struct Frames(HashMap<String, Arc<MemTable>>);

impl Frames {
    fn lend(
        &mut self,
        name: String,
        schema: &Schema,
        batches: &[RecordBatch],
        target: &Target,
    ) -> Result<(), SqlError> {
        let read: Vec<_> = schema.fields().iter().map(|field| target.read_as(field)).collect();
        let schema = schema_in_sql(schema, &read)?;
        let (mut rows, mut in_sql) = (0, Vec::with_capacity(batches.len()));
        for batch in batches {
            in_sql.push(batch_in_sql(batch, &schema, |place, column| {
                let to = read[place]?;
                Some(target.read(column, schema.field(place).name(), to, rows))
            })?);
            rows += batch.num_rows();
        }
        let frame = MemTable::try_new(Arc::clone(&schema), vec![in_sql])?;
        self.0.insert(name, Arc::new(frame));
        Ok(())
    }
}

impl LentFrames for Frames {
    fn frame(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.0.get(name).map(|frame| Arc::clone(frame) as Arc<dyn TableProvider>)
    }
}

/// The columns as columns of SQL; those that are read as values of another type have that one.
fn schema_in_sql(schema: &Schema, read: &[Option<ColumnType>]) -> Result<SchemaRef, SqlError> {
    let fields = schema.fields().iter().zip(read).map(|(field, read)| {
        if let Some(ty) = *read {
            return Ok(marked_field(Field::new(field.name(), ty.arrow(), true), ty));
        }
        let ty = column_type_of_given(field).ok_or_else(|| {
            let (column, ty) = (field.name(), field.data_type());
            SqlError::unsupported(format_args!("the column \"{column}\" of type {ty}"))
        })?;
        Ok(Field::new(field.name(), ty.arrow(), true).with_metadata(field.metadata().clone()))
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>, SqlError>>()?)))
}

/// The rows with these types: a column that `read` makes nothing of is cast. What has its type already is not copied.
fn batch_in_sql(
    batch: &RecordBatch,
    schema: &SchemaRef,
    read: impl Fn(usize, &ArrayRef) -> Option<Result<ArrayRef, SqlError>>,
) -> Result<RecordBatch, SqlError> {
    let columns = batch.columns().iter().zip(schema.fields()).enumerate();
    let columns = columns.map(|(place, (column, field))| {
        if let Some(read) = read(place, column) {
            return read;
        }
        cast_with_options(column, field.data_type(), &EXACTLY)
            .map_err(|error| SqlError::from(error).with_detail(format!("Column \"{}\".", field.name())))
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<Vec<_>, SqlError>>()?;
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// What `look` finds in the session's open transaction, or else in what there is now.
fn look_at<T>(session: &Session, look: impl FnOnce(&Transaction) -> T) -> T {
    let newest = session.engine.store().begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let open = match &session.state {
        State::Active(block) => block.open_transaction(),
        State::Idle | State::Failed(_) => None,
    };
    look(open.unwrap_or(&newest))
}

impl Session {
    /// Lends the session batches of this schema: its statements read them as a table of this name, as it is written here,
    /// where the name is not qualified and nothing of the database has it. What was lent by this name before goes. They are
    /// read only, nobody else sees them, and they are there until they are [given back](Self::give_back). Columns whose Arrow
    /// type is the one of [`ColumnType::arrow`](coeval_store::ColumnType::arrow) are not copied; others are cast to the nearest.
    ///
    /// For the text of an INSERT, texts and bytes are read as values of the columns of their names where frames have no such values:
    /// texts as a `uuid`, a date, a time, an interval, a `numeric`, a document or a value of an enum, sixteen bytes as a `uuid`.
    ///
    /// # Errors
    /// `0A000` for a column of a type that SQL has nothing like; `22003` and others for a value that the nearest type cannot
    /// hold, `22P02` and its like with row and column for one that cannot be read. Nothing is lent then, and what was lent before
    /// stays.
    pub fn lend(
        &mut self,
        name: impl Into<String>,
        schema: &Schema,
        batches: &[RecordBatch],
        insert: Option<&str>,
    ) -> Result<(), SqlError> {
        let parsed = insert.map(|sql| self.parsed(sql)).transpose()?;
        let target = match parsed.as_ref().map(|(statements, _memory)| statements.as_slice()) {
            Some([Parsed::Statement(statement)]) => {
                look_at(self, |transaction| Target::of(statement, &self.settings, transaction))
            }
            _ => Target::none(),
        };
        self.frames.lend(name.into(), schema, batches, &target)
    }

    /// Takes back what was [lent](Self::lend) by this name. A query that runs goes on with it.
    pub fn give_back(&mut self, name: &str) {
        self.frames.0.remove(name);
    }

    /// The names without a schema that the statements of a text read or change and nothing of the database has, sorted: those
    /// that a program may lend frames for. Names that the text itself gives, by WITH, may be among them. A text that cannot be
    /// parsed has none.
    #[must_use]
    pub fn unknown_relations(&self, sql: &str) -> Vec<String> {
        let Ok((statements, _memory)) = self.parsed(sql) else { return Vec::new() };
        let mut unknown = BTreeSet::new();
        look_at(self, |transaction| {
            for statement in &statements {
                let Parsed::Statement(statement) = statement else { continue };
                each_relation(statement, |name| {
                    if let Ok((None, name)) = split_name(name)
                        && resolve(None, &name, &self.settings, transaction).is_none()
                    {
                        unknown.insert(name);
                    }
                });
            }
        });
        unknown.into_iter().collect()
    }
}
