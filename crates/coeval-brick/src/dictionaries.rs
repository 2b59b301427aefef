// SPDX-License-Identifier: Apache-2.0
//! The dictionaries of a table: one for each column of strings.

use std::sync::Arc;

use crate::declaration::Column;
use crate::dictionary::Dictionary;
use crate::schema::BrickSchema;

/// The dictionaries of a table's string columns.
pub(crate) struct Dictionaries {
    by_column: Vec<Option<Arc<Dictionary>>>,
}

impl Dictionaries {
    pub(crate) fn new(schema: &BrickSchema) -> Self {
        Self { by_column: Vec::new() }.extended(schema)
    }

    /// The same for a schema that extends theirs.
    pub(crate) fn extended(&self, schema: &BrickSchema) -> Self {
        let dictionary = |(index, column): (usize, &Column)| {
            if let Some(known) = self.by_column.get(index) {
                return known.clone();
            }
            let capacity = match column {
                Column::Dimension(dimension) => dimension.cardinality,
                Column::Metric(_) => u64::MAX,
            };
            let dictionary = column.is_string().then(|| Dictionary::new(capacity))?;
            if let Some(string) = schema.missing_string(index) {
                assert!(dictionary.restore(0, string), "a dictionary without strings takes one");
            }
            Some(Arc::new(dictionary))
        };
        Self { by_column: schema.columns().iter().enumerate().map(dictionary).collect() }
    }

    /// The dictionary of a column, if it holds strings.
    pub(crate) fn get(&self, column: usize) -> Option<&Dictionary> {
        self.by_column[column].as_deref()
    }
}
