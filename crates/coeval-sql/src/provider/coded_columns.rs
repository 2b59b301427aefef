// SPDX-License-Identifier: Apache-2.0
//! Columns that go out of a scan as codes of texts, where filters leave rows of several batches to be gathered into one.
//!
//! The rows are gathered as numbers, as long as these are of the same texts: those of a chunk and its changes. Then no text is looked at, and
//! whoever groups by the column meets the same texts in all batches of a chunk.

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt16DictionaryArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt16Type};
use coeval_store::coded_text_type;
use datafusion::error::Result;
use std::sync::Arc;

/// See the module. Without such columns rows are gathered as they are.
pub(super) struct CodedColumns {
    /// Places in the output.
    places: Vec<usize>,
    output: SchemaRef,
    /// The output with numbers in the place of codes.
    gathered: SchemaRef,
    /// What the numbers of the gathered rows are of.
    texts: Vec<ArrayRef>,
}

/// A schema with codes in the place of the texts at these places.
pub(super) fn with_codes(schema: &SchemaRef, places: &[usize]) -> SchemaRef {
    with_types(schema, places, &coded_text_type())
}

fn with_types(schema: &SchemaRef, places: &[usize], ty: &DataType) -> SchemaRef {
    if places.is_empty() {
        return Arc::clone(schema);
    }
    let field = |(place, field): (usize, &Arc<Field>)| match places.contains(&place) {
        true => Arc::new(field.as_ref().clone().with_data_type(ty.clone())),
        false => Arc::clone(field),
    };
    let fields: Vec<Arc<Field>> = schema.fields().iter().enumerate().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

impl CodedColumns {
    /// Those at these places of the output.
    pub(super) fn new(output: &SchemaRef, places: &[usize]) -> Self {
        Self {
            places: places.to_vec(),
            output: Arc::clone(output),
            gathered: with_types(output, places, &DataType::UInt16),
            texts: Vec::new(),
        }
    }

    /// What rows are gathered as.
    pub(super) fn gathered(&self) -> &SchemaRef {
        &self.gathered
    }

    /// Whether the codes of these rows are of other texts than those of the rows that are gathered.
    pub(super) fn are_of_others(&self, rows: &RecordBatch) -> bool {
        let is_of = |(place, texts): (&usize, &ArrayRef)| Arc::ptr_eq(texts_of(rows, *place), texts);
        self.texts.len() < self.places.len() || !self.places.iter().zip(&self.texts).all(is_of)
    }

    /// From now on rows with the texts of these are gathered.
    pub(super) fn note_texts_of(&mut self, rows: &RecordBatch) {
        self.texts.clear();
        self.texts.extend(self.places.iter().map(|place| Arc::clone(texts_of(rows, *place))));
    }

    /// The rows as they are gathered.
    pub(super) fn numbered(&self, rows: RecordBatch) -> Result<RecordBatch> {
        if self.places.is_empty() {
            return Ok(rows);
        }
        let mut columns = rows.columns().to_vec();
        for place in &self.places {
            columns[*place] = Arc::new(rows.column(*place).as_dictionary::<UInt16Type>().keys().clone());
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.gathered), columns)?)
    }

    /// Gathered rows as they go out.
    pub(super) fn coded(&self, rows: RecordBatch) -> Result<RecordBatch> {
        if self.places.is_empty() {
            return Ok(rows);
        }
        let mut columns = rows.columns().to_vec();
        for (place, texts) in self.places.iter().zip(&self.texts) {
            let numbers = rows.column(*place).as_primitive::<UInt16Type>().clone();
            columns[*place] = Arc::new(UInt16DictionaryArray::try_new(numbers, Arc::clone(texts))?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.output), columns)?)
    }
}

/// What the codes at this place are of.
fn texts_of(rows: &RecordBatch, place: usize) -> &ArrayRef {
    rows.column(place).as_dictionary::<UInt16Type>().values()
}
