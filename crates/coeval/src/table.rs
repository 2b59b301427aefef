// SPDX-License-Identifier: Apache-2.0
//! A handle on a table for key-level access.

use crate::error::Error;
use coeval_store::{Key, KeyRange, KeyWriter, Row, RowWriter, SpaceId, TableDef, Value};
use std::sync::Arc;

/// A table as it was defined when the handle was taken. Cheap to clone. After `ALTER TABLE` take a new one:
/// rows written through an old handle have the old columns.
#[derive(Clone, Debug)]
pub struct Table {
    def: Arc<TableDef>,
}

impl Table {
    pub(crate) fn new(def: Arc<TableDef>) -> Self {
        Self { def }
    }

    /// Its number.
    #[must_use]
    #[inline]
    pub fn id(&self) -> SpaceId {
        self.def.id
    }

    /// Its definition.
    #[must_use]
    #[inline]
    pub fn def(&self) -> &Arc<TableDef> {
        &self.def
    }

    /// The primary key with these values, in key order. Values must be of the columns' physical types.
    ///
    /// # Panics
    /// If a value is NULL.
    #[must_use]
    #[inline]
    pub fn key(&self, values: &[Value]) -> Key {
        let mut writer = KeyWriter::new();
        for value in values {
            writer.push(value.borrow());
        }
        writer.finish()
    }

    /// All primary keys that start with these values.
    ///
    /// # Panics
    /// If a value is NULL.
    #[must_use]
    #[inline]
    pub fn key_prefix(&self, values: &[Value]) -> KeyRange {
        let mut writer = KeyWriter::new();
        for value in values {
            writer.push(value.borrow());
        }
        KeyRange::prefix(writer.as_slice())
    }

    /// The number of one of its indexes.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index(&self, name: &str) -> Result<SpaceId, Error> {
        let index = self.def.index(name).ok_or_else(|| Error::UnknownIndex {
            table: self.def.name.to_string(),
            index: name.to_owned(),
        })?;
        Ok(index.id)
    }

    /// All index entries whose indexed columns start with these values.
    #[must_use]
    #[inline]
    pub fn index_prefix(&self, values: &[Value]) -> KeyRange {
        let mut writer = KeyWriter::new();
        for value in values {
            writer.push_nullable(value.borrow());
        }
        KeyRange::prefix(writer.as_slice())
    }

    /// A row of these values: one for each column of the definition, of its physical type.
    ///
    /// # Errors
    /// [`Error::ValueCount`]; [`Error::Store`] if a value is of another type.
    pub fn row(&self, values: &[Value]) -> Result<Row, Error> {
        if values.len() != self.def.columns.len() {
            return Err(Error::ValueCount {
                what: format!("a row of \"{}\"", self.def.name),
                expected: self.def.columns.len(),
                given: values.len(),
            });
        }
        let mut writer = RowWriter::new(self.def.layout());
        for value in values {
            writer.push(value.borrow()).map_err(coeval_store::StoreError::from)?;
        }
        Ok(writer.finish())
    }
}
