// SPDX-License-Identifier: Apache-2.0
//! A table's contents at one moment: chunks of rows, each with a number that is never used twice.

use crate::engine::EngineError;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::{concat, concat_batches, filter, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::{MemTable, TableProvider};
use std::sync::{Arc, OnceLock};

/// The column that a DELETE finds rows by.
pub(super) const ROW_NUMBER: &str = "tique_row";

/// Chunks are merged with smaller ones after them until they have so many rows.
const CHUNK_ROWS_MAX: usize = 8_192;

/// Whether a table is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Its rows come back when the engine is opened again.
    Yes,
    /// It ends with the process.
    No,
}

struct Chunk {
    rows: RecordBatch,
    numbers: UInt64Array,
}

/// Immutable; a change makes another one, which shares what did not change.
pub(crate) struct TableData {
    schema: SchemaRef,
    kept: Kept,
    chunks: Vec<Arc<Chunk>>,
    next_number: u64,
    provider: OnceLock<Arc<MemTable>>,
}

fn broken(error: impl std::fmt::Display) -> EngineError {
    EngineError::refused(error.to_string())
}

impl TableData {
    pub(super) fn new(schema: SchemaRef, kept: Kept) -> Self {
        Self { schema, kept, chunks: Vec::new(), next_number: 0, provider: OnceLock::new() }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    pub(super) fn kept(&self) -> Kept {
        self.kept
    }

    pub(super) fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        self.chunks.iter().map(|chunk| &chunk.rows)
    }

    /// Bytes of the rows, about.
    pub(super) fn bytes(&self) -> usize {
        self.batches().map(RecordBatch::get_array_memory_size).sum()
    }

    /// What DataFusion scans. Made once for each state that is read.
    ///
    /// # Panics
    /// Never: the chunks have the table's schema.
    pub(super) fn provider(&self) -> Arc<dyn TableProvider> {
        let make = || {
            let batches = self.batches().cloned().collect();
            let table = MemTable::try_new(self.schema(), vec![batches]);
            Arc::new(table.expect("rows are made to conform to the schema before they are appended"))
        };
        Arc::clone(self.provider.get_or_init(make)) as Arc<dyn TableProvider>
    }

    fn next(&self, chunks: Vec<Arc<Chunk>>, next_number: u64) -> Self {
        let schema = self.schema();
        Self { schema, kept: self.kept, chunks, next_number, provider: OnceLock::new() }
    }

    /// With these rows behind all others. Small chunks are merged like the digits of a counter, so that a row is
    /// copied about as often as its table's size doubles, up to a chunk's.
    pub(super) fn with_rows(&self, rows: RecordBatch) -> Result<Self, EngineError> {
        let end = self.next_number + rows.num_rows() as u64;
        let numbers = UInt64Array::from_iter_values(self.next_number..end);
        let mut chunks = self.chunks.clone();
        chunks.push(Arc::new(Chunk { rows, numbers }));
        while let [.., left, right] = chunks.as_slice() {
            let (left_rows, right_rows) = (left.rows.num_rows(), right.rows.num_rows());
            if left_rows > 2 * right_rows || left_rows + right_rows > CHUNK_ROWS_MAX {
                break;
            }
            let rows = concat_batches(&self.schema, [&left.rows, &right.rows]).map_err(broken)?;
            let numbers = concat(&[&left.numbers, &right.numbers]).map_err(broken)?;
            let merged = Arc::new(Chunk { rows, numbers: numbers_of(&numbers) });
            chunks.truncate(chunks.len() - 2);
            chunks.push(merged);
        }
        Ok(self.next(chunks, end))
    }

    /// Without the rows of these numbers, which ascend.
    pub(super) fn without_rows(&self, numbers: &[u64]) -> Result<Self, EngineError> {
        assert!(numbers.is_sorted(), "row numbers are given in order");
        let mut chunks = Vec::with_capacity(self.chunks.len());
        for chunk in &self.chunks {
            let keep: BooleanArray = chunk
                .numbers
                .values()
                .iter()
                .map(|number| Some(numbers.binary_search(number).is_err()))
                .collect();
            match keep.true_count() {
                0 => {}
                all if all == keep.len() => chunks.push(Arc::clone(chunk)),
                _ => {
                    let rows = filter_record_batch(&chunk.rows, &keep).map_err(broken)?;
                    let numbers = filter(&chunk.numbers, &keep).map_err(broken)?;
                    chunks.push(Arc::new(Chunk { rows, numbers: numbers_of(&numbers) }));
                }
            }
        }
        Ok(self.next(chunks, self.next_number))
    }

    /// The same rows with their numbers in a column more.
    pub(super) fn with_row_numbers(&self) -> Result<Self, EngineError> {
        let mut fields: Vec<_> = self.schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(ROW_NUMBER, DataType::UInt64, false)));
        let schema = Arc::new(Schema::new(fields));
        let mut chunks = Vec::with_capacity(self.chunks.len());
        for chunk in &self.chunks {
            let mut columns: Vec<ArrayRef> = chunk.rows.columns().to_vec();
            columns.push(Arc::new(chunk.numbers.clone()));
            let rows = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(broken)?;
            chunks.push(Arc::new(Chunk { rows, numbers: chunk.numbers.clone() }));
        }
        Ok(Self { schema, kept: Kept::No, chunks, next_number: self.next_number, provider: OnceLock::new() })
    }
}

fn numbers_of(array: &ArrayRef) -> UInt64Array {
    let numbers = array.as_any().downcast_ref::<UInt64Array>();
    numbers.expect("numbers stay numbers when they are joined or filtered").clone()
}
