// SPDX-License-Identifier: Apache-2.0
//! The tables of a database, as sessions find them.

use crate::engine::Types;
use crate::error::{Result, SqlState, TiqueError};
use crate::schema::{Definition, ForeignKey};
use crate::versions::{CacheRows, Versions};
use arrow::array::{ArrayRef, AsArray, LargeStringArray, StringArray, StringViewArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Float64Type, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A table, with what is known of its physical tables.
pub(crate) struct Table {
    pub(crate) definition: Definition,
    /// The Arrow types of the cache table's columns (the storage table's for a static table).
    pub(crate) rows: SchemaRef,
    /// Which keys have versions in the cache.
    pub(crate) versions: Versions,
    cached: AtomicI64,
}

impl Table {
    pub(crate) fn new(definition: Definition, rows: SchemaRef, cached: i64) -> Self {
        Self { definition, rows, versions: Versions::none(), cached: AtomicI64::new(cached) }
    }

    /// Values of a column that the engine gave, in the column's type: an engine that lets a column hold anything gives
    /// others. Numbers are rounded to integers.
    ///
    /// # Errors
    /// 22P02, 22003: a value that the column cannot hold.
    pub(crate) fn typed(&self, column: usize, values: &ArrayRef) -> Result<ArrayRef> {
        let kind = self.rows.field(column).data_type();
        if values.data_type() == kind {
            return Ok(self.kept(column, values));
        }
        let (state, values) = match values.data_type() {
            DataType::Utf8 => (SqlState::InvalidText, Arc::clone(values)),
            DataType::Float64 if kind.is_integer() => {
                let rounded =
                    values.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even);
                (SqlState::OutOfRange, Arc::new(rounded) as ArrayRef)
            }
            _ => (SqlState::OutOfRange, Arc::clone(values)),
        };
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let values = cast_with_options(&values, kind, &options).map_err(|error| {
            let message = format!("column {} takes no such value", self.definition.columns[column].name);
            TiqueError::new(state, message).detail(error.to_string())
        })?;
        Ok(self.kept(column, &values))
    }

    /// Texts as a column keeps them: an engine gives back a `char(n)` with the blanks that it is filled with, or as it was written.
    fn kept(&self, column: usize, values: &ArrayRef) -> ArrayRef {
        let column = &self.definition.columns[column];
        if column.characters_max().is_none() {
            return Arc::clone(values);
        }
        match values.data_type() {
            DataType::Utf8 => {
                let texts = values.as_string::<i32>().iter();
                Arc::new(texts.map(|text| Some(column.kept(text?))).collect::<StringArray>())
            }
            DataType::LargeUtf8 => {
                let texts = values.as_string::<i64>().iter();
                Arc::new(texts.map(|text| Some(column.kept(text?))).collect::<LargeStringArray>())
            }
            DataType::Utf8View => {
                let texts = values.as_string_view().iter();
                Arc::new(texts.map(|text| Some(column.kept(text?))).collect::<StringViewArray>())
            }
            _ => Arc::clone(values),
        }
    }

    /// What the engine gave as columns of rows, one row or more of them side by side, as the table keeps it.
    ///
    /// # Errors
    /// If types are ours to look at, as [`Self::typed`].
    pub(crate) fn received(&self, columns: &[ArrayRef], types: Types) -> Result<Vec<ArrayRef>> {
        let width = self.definition.columns.len();
        let places = (0..width).cycle();
        let columns = places.zip(columns);
        match types {
            Types::Ours(_) => columns.map(|(place, values)| self.typed(place, values)).collect(),
            Types::OfEngine => Ok(columns.map(|(place, values)| self.kept(place, values)).collect()),
        }
    }

    /// Notes versions before they are appended to the cache: who begins after they are visible sees them counted.
    pub(crate) fn note_appended(&self, versions: usize) {
        self.cached.fetch_add(i64::try_from(versions).expect("a batch is small"), Ordering::SeqCst);
    }

    /// Notes versions after they were deleted from the cache.
    pub(crate) fn note_deleted(&self, versions: u64) {
        self.cached.fetch_sub(i64::try_from(versions).expect("a cache is small"), Ordering::SeqCst);
    }

    /// How many versions the cache holds at most.
    pub(crate) fn cached(&self) -> i64 {
        self.cached.load(Ordering::SeqCst)
    }

    /// Whether a read has to look into the cache.
    pub(crate) fn cache(&self) -> CacheRows {
        if self.cached() == 0 { CacheRows::None } else { CacheRows::Some }
    }
}

/// All tables, by name. A change makes another catalog.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    tables: BTreeMap<String, Arc<Table>>,
}

impl Catalog {
    /// # Errors
    /// 42P01: there is none of that name.
    pub(crate) fn table(&self, name: &str) -> Result<&Arc<Table>> {
        self.tables
            .get(name)
            .ok_or_else(|| TiqueError::new(SqlState::UndefinedTable, format!("there is no table {name}")))
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }

    /// Whether a table has a column of this name.
    pub(crate) fn has_column(&self, name: &str) -> bool {
        self.tables().any(|table| table.definition.columns.iter().any(|column| column.name == name))
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// The foreign keys that name this table, and whose they are.
    pub(crate) fn children<'a>(
        &'a self,
        parent: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<Table>, &'a ForeignKey)> {
        self.tables.values().flat_map(move |table| {
            let keys = table.definition.foreign_keys.iter().filter(move |key| key.parent == parent);
            keys.map(move |key| (table, key))
        })
    }

    pub(crate) fn with(&self, table: Table) -> Self {
        let mut next = self.clone();
        next.tables.insert(table.definition.name.clone(), Arc::new(table));
        next
    }

    pub(crate) fn without(&self, name: &str) -> Self {
        let mut next = self.clone();
        next.tables.remove(name);
        next
    }
}
