// SPDX-License-Identifier: Apache-2.0
//! The rows that a point statement returns: what they are computed from, their names and types, and the
//! rows themselves.

use super::source::{Planner, Source};
use super::subquery::{self, Lookup};
use crate::catalog::{column_oids, set_origin};
use crate::error::SqlError;
use crate::memory::{QueryEnvironment, ReturnedMemory};
use crate::result::RowSet;
use crate::scalar::{AggregateScope, Inputs, Refusal, Scalar, ScopeTable, folded};
use crate::types::column_type_of_arrow;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_store::{ColumnBuilder, ColumnType, Value, value_at};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::sql::sqlparser::ast::{
    Expr, ObjectNamePart, SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};
use std::sync::Arc;

/// Rows of values, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    width: usize,
    count: usize,
    values: Vec<Value>,
    /// What they have of the budget, if it was asked for them.
    memory: Option<Arc<MemoryReservation>>,
}

impl Rows {
    /// No rows yet, of this many columns.
    #[must_use]
    pub(crate) fn new(width: usize) -> Self {
        Self { width, count: 0, values: Vec::new(), memory: None }
    }

    /// The rows, which have this of the budget.
    pub(super) fn within(self, memory: ReturnedMemory) -> Self {
        Self { memory: memory.taken(), ..self }
    }

    /// Takes memory for the last row.
    ///
    /// # Errors
    /// `53200` if there is none for it.
    pub(super) fn count_last(
        &self,
        memory: &mut ReturnedMemory,
        queries: &QueryEnvironment,
    ) -> Result<(), SqlError> {
        let last = &self.values[self.values.len() - self.width..];
        last.iter().map(Value::borrow).try_for_each(|value| memory.add(value, queries))
    }

    /// The rows of these batches.
    pub(crate) fn of_batches(batches: &[RecordBatch]) -> Result<Self, SqlError> {
        let mut rows = Self::new(batches.first().map_or(0, RecordBatch::num_columns));
        for batch in batches {
            let columns = batch.columns().iter().map(|column| {
                let ty = column_type_of_arrow(column.data_type()).unwrap_or(ColumnType::Text);
                Ok(cast(column, &ty.arrow())?)
            });
            let columns = columns.collect::<Result<Vec<ArrayRef>, SqlError>>()?;
            for row in 0..batch.num_rows() {
                rows.values.extend(columns.iter().map(|column| value_at(column, row).to_owned()));
            }
            rows.count += batch.num_rows();
        }
        Ok(rows)
    }

    /// How many rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The row with this number.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn row(&self, number: usize) -> &[Value] {
        assert!(number < self.count, "the row is one of those there are");
        &self.values[number * self.width..(number + 1) * self.width]
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[Value]> {
        (0..self.count).map(|number| self.row(number))
    }

    /// The rows as Arrow arrays of this schema.
    ///
    /// # Errors
    /// `XX000` if a column's type is none that rows have.
    pub fn to_batch(&self, schema: &SchemaRef) -> Result<RecordBatch, SqlError> {
        let types = schema.fields().iter().map(|field| {
            column_type_of_arrow(field.data_type()).ok_or_else(|| {
                SqlError::internal(format!("a row has no value of type {}", field.data_type()))
            })
        });
        let types = types.collect::<Result<Vec<_>, SqlError>>()?;
        self.batch(types.into_iter(), Arc::clone(schema))
    }

    fn batch(
        &self,
        types: impl Iterator<Item = ColumnType>,
        schema: SchemaRef,
    ) -> Result<RecordBatch, SqlError> {
        let arrays = types.enumerate().map(|(place, ty)| {
            let mut builder = ColumnBuilder::new(ty, self.len());
            self.iter().for_each(|row| builder.push(row[place].borrow()));
            builder.finish()
        });
        let options = RecordBatchOptions::new().with_row_count(Some(self.len()));
        Ok(RecordBatch::try_new_with_options(schema, arrays.collect(), &options)?)
    }

    /// Takes in a row whose values come one by one.
    pub(super) fn push(
        &mut self,
        values: impl Iterator<Item = Result<Value, SqlError>>,
    ) -> Result<(), SqlError> {
        if self.count == 0 {
            self.values.reserve_exact(self.width);
        }
        for value in values {
            self.values.push(value?);
        }
        self.count += 1;
        debug_assert_eq!(self.values.len(), self.width * self.count, "a row has all its columns");
        Ok(())
    }
}

/// The columns of a result.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) columns: Vec<Scalar>,
    /// The expressions as written, `None` for columns that `*` stands for.
    pub(super) written: Vec<(String, Option<Expr>)>,
    schema: SchemaRef,
}

impl Output {
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Compiles a SELECT list or RETURNING over the rows of a source, or over groups of them.
    pub(super) fn compile(
        planner: &mut Planner<'_>,
        source: &Source,
        items: &[SelectItem],
        groups: Option<&mut AggregateScope>,
    ) -> Result<Self, Refusal> {
        Self::of_items(planner, source, items, groups, None)
    }

    /// Compiles a SELECT list over the rows of a source, in which subqueries may stand. They are added to the others.
    pub(super) fn with_lookups(
        planner: &mut Planner<'_>,
        source: &Source,
        items: &[SelectItem],
        lookups: &mut Vec<Lookup>,
    ) -> Result<Self, Refusal> {
        Self::of_items(planner, source, items, None, Some(lookups))
    }

    fn of_items(
        planner: &mut Planner<'_>,
        source: &Source,
        items: &[SelectItem],
        mut groups: Option<&mut AggregateScope>,
        mut lookups: Option<&mut Vec<Lookup>>,
    ) -> Result<Self, Refusal> {
        let mut columns = Vec::new();
        let mut written = Vec::new();
        for item in items {
            let (expression, name) = match item {
                SelectItem::UnnamedExpr(expression) => {
                    (expression, crate::column_name::column_name(expression))
                }
                SelectItem::ExprWithAlias { expr, alias } => (expr, folded(alias)),
                SelectItem::Wildcard(options)
                    if is_plain_wildcard(options) && groups.is_none() && !has_merged(source) =>
                {
                    for table in 0..source.tables.len() {
                        push_all(source, table, &mut columns, &mut written);
                    }
                    continue;
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                    if is_plain_wildcard(options) && groups.is_none() =>
                {
                    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
                        return Err(Refusal::unsupported(name));
                    };
                    let table = source.scope.table_index(&folded(name));
                    let table = table.ok_or_else(|| Refusal::unsupported(name))?;
                    push_all(source, table, &mut columns, &mut written);
                    continue;
                }
                other => return Err(Refusal::unsupported(other)),
            };
            let column = match (expression, lookups.as_deref_mut()) {
                (Expr::Subquery(query), Some(lookups)) => {
                    let (lookup, value) = subquery::value(planner, source, query, lookups.len())?;
                    lookups.push(lookup);
                    value
                }
                _ => {
                    let mut compiler = planner.compiler(&source.scope);
                    if let Some(groups) = groups.as_deref_mut() {
                        compiler = compiler.over_groups(groups);
                    }
                    compiler.scalar(expression)?
                }
            };
            columns.push(column);
            written.push((name, Some(expression.clone())));
        }
        let fields: Vec<Field> = columns
            .iter()
            .zip(&written)
            .map(|(column, (name, _))| {
                let field = Field::new(name, column.ty().arrow(), true);
                let field = crate::types::marked_field(field, column.ty());
                let is_plain = if groups.is_none() { column.as_column() } else { None };
                let origin =
                    is_plain.and_then(|(table, column)| column_oids(source.tables.get(table)?, column));
                match origin {
                    Some((table, column)) => set_origin(field, table, column),
                    None => field,
                }
            })
            .collect();
        Ok(Self { columns, written, schema: Arc::new(Schema::new(fields)) })
    }

    /// The tables that it reads, a bit each.
    pub(super) fn tables(&self) -> u64 {
        self.columns.iter().fold(0, |tables, column| tables | column.tables())
    }

    /// The column that a name of the SELECT list, unambiguous among them, stands for.
    pub(super) fn named(&self, name: &str) -> Option<usize> {
        let mut found = self.written.iter().enumerate().filter(|(_, (written, _))| written == name);
        let place = found.next()?.0;
        found.next().is_none().then_some(place)
    }

    /// Computes a row and adds it.
    #[inline]
    pub(super) fn push_row(&self, inputs: Inputs<'_>, rows: &mut Rows) -> Result<(), SqlError> {
        rows.push(self.columns.iter().map(|column| Ok(column.eval(inputs)?.into_value())))
    }

    /// No rows yet.
    pub(super) fn rows(&self) -> Rows {
        Rows::new(self.columns.len())
    }

    /// The rows as Arrow arrays.
    pub(super) fn row_set(&self, rows: &Rows) -> Result<RowSet, SqlError> {
        let types = self.columns.iter().map(Scalar::ty);
        let batch = rows.batch(types, Arc::clone(&self.schema))?;
        let (schema, batches) = (Arc::clone(&self.schema), vec![batch]);
        Ok(match &rows.memory {
            Some(memory) => RowSet::reserved(schema, batches, Arc::clone(memory)),
            None => RowSet::new(schema, batches),
        })
    }
}

fn push_all(
    source: &Source,
    table: usize,
    columns: &mut Vec<Scalar>,
    written: &mut Vec<(String, Option<Expr>)>,
) {
    for (column, def) in source.tables[table].live_columns() {
        columns.push(Scalar::column(table, column, def.ty));
        written.push((def.name.clone(), None));
    }
}

/// Whether `USING` has made one column of several, which `*` has once and in front.
fn has_merged(source: &Source) -> bool {
    source.scope.tables().iter().any(ScopeTable::has_merged)
}

/// Whether `*` stands for all columns as they are.
pub(super) fn is_plain_wildcard(options: &WildcardAdditionalOptions) -> bool {
    options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
        && options.opt_alias.is_none()
}
