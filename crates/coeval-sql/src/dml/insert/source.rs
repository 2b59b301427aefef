// SPDX-License-Identifier: Apache-2.0
//! `INSERT ... SELECT`: the rows of a query, as the table's types.

use super::{ColumnList, Shape};
use crate::context::StatementContext;
use crate::dml::environment::{self, StatementEnvironment};
use crate::dml::generated::Generator;
use crate::dml::selected::{self, SourceType, source_types};
use crate::dml::subqueries::merged;
use crate::error::SqlError;
use crate::query;
use crate::spread;
use crate::writing::Writing;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_store::{ColumnBuilder, ColumnDef, TableDef, Value, constant_column, value_at};
use datafusion::sql::sqlparser::ast::{Query, With};
use std::sync::Arc;

/// The rows of a query that are to be inserted.
pub(super) struct SelectedRows {
    /// The table's columns that the query fills; not those whose values are ignored.
    columns: Vec<usize>,
    /// By batch, in the order of `columns`; with the number of rows.
    batches: Vec<(usize, Vec<ArrayRef>)>,
}

impl SelectedRows {
    /// Runs the query.
    ///
    /// # Errors
    /// What it refuses; `42601` if it has too many or too few columns, `42804` if one does not fit, `428C9`.
    pub(super) fn collect(
        context: &mut StatementContext<'_>,
        shape: &Shape,
        query: &Query,
        list: ColumnList,
        with: Option<&With>,
    ) -> Result<Self, SqlError> {
        let mut query = query.clone();
        query.with = merged(with, query.with);
        let types: Vec<_> = context.parameter_types.iter().copied().map(Some).collect();
        let mut planned = query::plan(context, &query, &types)?;
        let filled = shape.filled(planned.columns().fields().len(), list)?;
        if shape.numbers_rows(filled) {
            planned.number_rows();
        }
        let found = query::collect_planned(context, &planned)?;
        let sources = source_types(&query);
        let mut columns = Vec::with_capacity(filled.len());
        let mut places = Vec::with_capacity(filled.len());
        for (place, &column) in filled.iter().enumerate() {
            if shape.ignores(column) {
                continue;
            }
            shape.check_given(column)?;
            let source = sources.get(place).copied().unwrap_or(SourceType::Known);
            selected::check(
                found.schema.field(place).data_type(),
                source,
                &shape.target.def.columns[column],
            )?;
            columns.push(column);
            places.push(place);
        }
        let zone = context.settings.zone();
        let batches = found.batches.iter().map(|batch| {
            let assigned = places.iter().zip(&columns).map(|(&place, &column)| {
                selected::assigned(batch.column(place), &shape.target.def.columns[column], zone)
            });
            Ok((batch.num_rows(), assigned.collect::<Result<Vec<_>, SqlError>>()?))
        });
        Ok(Self { batches: batches.collect::<Result<_, SqlError>>()?, columns })
    }

    /// The table's columns that it fills.
    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// How many rows.
    pub(super) fn count(&self) -> usize {
        self.batches.iter().map(|(rows, _)| rows).sum()
    }

    /// The rows one by one, with a place for each of the table's `width` columns; `None` for what is to be
    /// generated.
    pub(super) fn into_rows(self, width: usize) -> impl Iterator<Item = Vec<Option<Value>>> {
        let Self { columns, batches } = self;
        batches.into_iter().flat_map(move |(rows, arrays)| {
            let columns = columns.clone();
            (0..rows).map(move |row| {
                let mut given = vec![None; width];
                for (&column, array) in columns.iter().zip(&arrays) {
                    given[column] = Some(value_at(array, row).to_owned());
                }
                given
            })
        })
    }

    /// Inserts all rows at once and returns how many.
    ///
    /// # Errors
    /// Constraints; what the defaults refuse.
    pub(super) fn insert_in_bulk(
        &self,
        context: &mut StatementContext<'_>,
        shape: &Shape,
    ) -> Result<u64, SqlError> {
        let def = &shape.target.def;
        let schema = schema_of(def);
        let (environment, _) = environment::split(context);
        let mut batches = Vec::with_capacity(self.batches.len());
        for (rows, arrays) in &self.batches {
            let mut complete = Vec::with_capacity(def.columns.len());
            for (column, definition) in def.columns.iter().enumerate() {
                let given = self.columns.iter().position(|&filled| filled == column);
                complete.push(match given {
                    Some(place) => Arc::clone(&arrays[place]),
                    None => generated(&shape.generators[column], definition, *rows, &environment)?,
                });
            }
            batches.push(RecordBatch::try_new(Arc::clone(&schema), complete)?);
        }
        if def.is_spread() {
            return spread::load_whole(context, def, &batches);
        }
        let writing = Writing::begin_load(def, self.count() as u64);
        Ok(context.transaction.bulk_insert_counted(def.id, &batches, writing.counter())?)
    }
}

fn generated(
    generator: &Generator,
    column: &ColumnDef,
    rows: usize,
    environment: &StatementEnvironment<'_>,
) -> Result<ArrayRef, SqlError> {
    if generator.is_constant() {
        return Ok(constant_column(column.ty, &generator.value(environment)?, rows));
    }
    let mut builder = ColumnBuilder::new(column.ty, rows);
    for _ in 0..rows {
        builder.push(generator.value(environment)?.borrow());
    }
    Ok(builder.finish())
}

fn schema_of(def: &TableDef) -> SchemaRef {
    let fields = def.columns.iter().map(|column| Field::new(&column.name, column.ty.arrow(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
