// SPDX-License-Identifier: Apache-2.0
//! What a statement returns, as a stream of batches.

use crate::errors::of_database;
use crate::opened::Share;
use crate::panics::caught;
use adbc_core::error::Result;
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use coeval::{Exporter, Outcome, RowReader, TextForm};
use std::collections::VecDeque;
use std::sync::Arc;

/// Batches for whoever loaded the driver.
pub(crate) type Batches = Box<dyn RecordBatchReader + Send>;

/// One batch.
pub(crate) fn of_batch(batch: RecordBatch) -> Batches {
    let schema = batch.schema();
    Box::new(RecordBatchIterator::new([Ok(batch)], schema))
}

/// The rows of a statement: those that are there, and those that come as they are asked for.
pub(crate) struct Results {
    ready: VecDeque<RecordBatch>,
    running: Option<RowReader>,
    exporter: Exporter,
    /// Goes last: what runs needs the database.
    _share: Share,
}

impl Results {
    /// The rows of an outcome. Its first batch is waited for, so that what goes wrong until then is the statement's error, with
    /// its SQLSTATE; behind it a stream of Arrow can say no more than a message.
    ///
    /// # Errors
    /// What the query meets before its first rows.
    pub(crate) fn new(outcome: Outcome, form: TextForm, share: Share) -> Result<Self> {
        let no_rows = Arc::new(Schema::empty());
        let (schema, ready, mut running) = match outcome {
            Outcome::Done(_) => (no_rows, VecDeque::new(), None),
            Outcome::Values(_, schema, rows) => {
                let batch = rows.to_batch(&schema).map_err(|error| of_database(&error.into()))?;
                (schema, VecDeque::from([batch]), None)
            }
            Outcome::Rows(reader) => (Arc::clone(reader.schema()), VecDeque::new(), Some(reader)),
        };
        let mut made = Self { ready, running: None, exporter: Exporter::new(&schema, form), _share: share };
        match running.as_mut().and_then(Iterator::next) {
            Some(Ok(batch)) => {
                made.ready.push_back(batch);
                made.running = running;
            }
            Some(Err(error)) => return Err(of_database(&error)),
            None => {}
        }
        Ok(made)
    }

    /// Rows that are all there.
    pub(crate) fn collected(
        schema: &Schema,
        batches: Vec<RecordBatch>,
        form: TextForm,
        share: Share,
    ) -> Self {
        Self { ready: batches.into(), running: None, exporter: Exporter::new(schema, form), _share: share }
    }

    fn next_batch(&mut self) -> Option<std::result::Result<RecordBatch, ArrowError>> {
        if let Some(batch) = self.ready.pop_front() {
            return Some(self.exporter.batch(&batch));
        }
        match self.running.as_mut()?.next() {
            Some(Ok(batch)) => Some(self.exporter.batch(&batch)),
            Some(Err(error)) => {
                self.running = None;
                Some(Err(ArrowError::ExternalError(Box::new(error))))
            }
            None => {
                self.running = None;
                None
            }
        }
    }
}

impl Iterator for Results {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    /// Arrow's side of the stream is C and catches no panic.
    fn next(&mut self) -> Option<Self::Item> {
        caught(|| Ok(self.next_batch())).unwrap_or_else(|panic| {
            self.ready.clear();
            self.running = None;
            Some(Err(ArrowError::ExternalError(Box::new(panic))))
        })
    }
}

impl RecordBatchReader for Results {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.exporter.schema())
    }
}
