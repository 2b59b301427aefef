// SPDX-License-Identifier: Apache-2.0
//! What a statement returns: rows as tuples, as they are asked for, or all that are left as an Arrow stream.

use crate::durations::{batch_with_durations, schema_with_durations};
use crate::errors::{exception, refused};
use crate::values::Values;
use arrow::array::{ArrayRef, RecordBatch, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{Field, SchemaRef};
use arrow::error::ArrowError;
use chrono_tz::Tz;
use coeval::{
    ColumnType, CommandTag, Error, Exporter, Outcome, RowReader, SqlError, TextForm, Value, ValueRef,
    column_type_of_field, value_at,
};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The outcome of a statement.
///
/// # Locking
/// `source` is held while rows are waited for, by threads that do not hold the interpreter. So whoever holds the interpreter
/// gives it away before it takes the lock. `failure` is held for a look, below `source`. `fetched` is a count that guards nothing.
#[pyclass(frozen, module = "coeval._native")]
pub(crate) struct Rows {
    source: Mutex<Source>,
    columns: Vec<Column>,
    schema: Option<SchemaRef>,
    tag: Option<CommandTag>,
    zone: Tz,
    /// What reads documents, if it is not `json.loads`.
    loads: Option<Py<PyAny>>,
    /// How many rows were fetched, also while more are.
    fetched: AtomicU64,
    /// What ended the stream that was made of it, which can say no more than a message.
    failure: Arc<Mutex<Option<Error>>>,
}

struct Column {
    name: String,
    ty: ColumnType,
}

/// Where rows come from.
enum Source {
    /// They were few.
    Values { rows: coeval::Rows, schema: SchemaRef, next: usize },
    /// A query that runs, and what is left of the batch that it gave last.
    Reader { reader: RowReader, batch: Option<(RecordBatch, usize)> },
    /// There are no more.
    Empty,
}

impl Rows {
    pub(crate) fn new(outcome: Outcome, zone: Tz, loads: Option<Py<PyAny>>) -> Self {
        let (source, tag, schema) = match outcome {
            Outcome::Done(tag) => (Source::Empty, Some(tag), None),
            Outcome::Values(tag, schema, rows) => {
                (Source::Values { rows, schema: Arc::clone(&schema), next: 0 }, Some(tag), Some(schema))
            }
            Outcome::Rows(reader) => {
                let (tag, schema) = (reader.tag().copied(), Arc::clone(reader.schema()));
                (Source::Reader { reader, batch: None }, tag, Some(schema))
            }
        };
        let columns = schema.iter().flat_map(|schema| schema.fields().iter()).map(|field| Column {
            name: field.name().clone(),
            ty: column_type_of_field(field).unwrap_or(ColumnType::Text),
        });
        Self {
            source: Mutex::new(source),
            columns: columns.collect(),
            schema,
            tag,
            zone,
            loads,
            fetched: AtomicU64::new(0),
            failure: Arc::default(),
        }
    }

    /// Some more of what is left, at most so many rows.
    fn next_part(&self, most: usize) -> Option<Result<Part, Error>> {
        let mut source = self.source.lock();
        match &mut *source {
            Source::Empty => None,
            Source::Values { rows, next, .. } => {
                let from = *next;
                *next = rows.len().min(from.saturating_add(most));
                let few: Vec<_> = (from..*next).map(|row| rows.row(row).to_vec()).collect();
                (!few.is_empty()).then_some(Ok(Part::Values(few)))
            }
            Source::Reader { reader, batch } => {
                if batch.as_ref().is_none_or(|(batch, next)| *next == batch.num_rows()) {
                    match reader.next()? {
                        Ok(found) => *batch = Some((found, 0)),
                        Err(error) => {
                            *source = Source::Empty;
                            return Some(Err(error));
                        }
                    }
                }
                let (batch, next) = batch.as_mut()?;
                let count = most.min(batch.num_rows() - *next);
                let part = self.part(&batch.slice(*next, count));
                *next += count;
                Some(part)
            }
        }
    }

    fn part(&self, batch: &RecordBatch) -> Result<Part, Error> {
        let columns = batch.columns().iter().zip(&self.columns);
        let columns = columns.map(|(array, column)| cast(array, &column.ty.arrow()).map_err(SqlError::from));
        Ok(Part::Arrays { count: batch.num_rows(), columns: columns.collect::<Result<_, _>>()? })
    }

    /// The rows that are left, as a stream.
    fn stream<'py>(
        &self,
        py: Python<'py>,
        intervals: Intervals,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let Some(schema) = &self.schema else {
            return Err(refused(py, "02000", "the statement returns no rows", None));
        };
        let exporter = Exporter::new(schema, TextForm::Views);
        let with_durations =
            (intervals == Intervals::Durations).then(|| schema_with_durations(exporter.schema()));
        let fields = with_durations.as_ref().unwrap_or_else(|| exporter.schema()).fields().clone();
        let source = py.detach(|| std::mem::replace(&mut *self.source.lock(), Source::Empty));
        let batches = Exported { source, exporter, with_durations, failure: Arc::clone(&self.failure) };
        let arrays = batches.map(|batch| Ok(Arc::new(StructArray::from(batch?)) as ArrayRef));
        let row = Field::new_struct("", fields, false);
        Ok(to_stream_pycapsule(py, Box::new(ArrayIterator::new(arrays, Arc::new(row))), requested_schema)?)
    }

    /// A row of these values, in the order of the columns.
    fn tuple<'py, 'v>(
        &self,
        values: &mut Values<'py>,
        cells: impl Iterator<Item = ValueRef<'v>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let cells = cells.zip(&self.columns).map(|(value, column)| values.of(column.ty, value));
        let cells = cells.collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(values.py(), cells)
    }
}

/// Some rows.
enum Part {
    /// Those of a statement by key, without arrays.
    Values(Vec<Vec<Value>>),
    Arrays {
        count: usize,
        columns: Vec<ArrayRef>,
    },
}

#[pymethods]
impl Rows {
    /// Names and types of the columns, as SQL spells these; `None` of a statement that returns no rows.
    #[getter]
    fn columns(&self) -> Option<Vec<(&str, String)>> {
        self.schema.as_ref()?;
        Some(self.columns.iter().map(|column| (column.name.as_str(), column.ty.to_string())).collect())
    }

    /// What was done, as psql prints it; `None` of a query that runs.
    #[getter]
    fn tag(&self) -> Option<String> {
        self.tag.map(|tag| tag.to_string())
    }

    /// How many rows the statement is about, if that is known yet.
    #[getter]
    fn row_count(&self) -> Option<u64> {
        self.tag.and_then(CommandTag::rows)
    }

    /// How many rows were fetched so far, which another thread may ask while more are.
    #[getter]
    fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    /// Up to so many of the rows that are left, as tuples; all of them without a number.
    #[pyo3(signature = (most = None))]
    fn fetch<'py>(&'py self, py: Python<'py>, most: Option<usize>) -> PyResult<Py<PyList>> {
        let mut left = most.unwrap_or(usize::MAX);
        let found = PyList::empty(py);
        let mut values = Values::new(py, self.zone, self.loads.as_ref());
        while left > 0 {
            let Some(part) = py.detach(|| self.next_part(left)) else { break };
            let before = found.len();
            match part.map_err(|error| exception(py, &error))? {
                Part::Values(rows) => {
                    left -= rows.len();
                    for row in &rows {
                        found.append(self.tuple(&mut values, row.iter().map(Value::borrow))?)?;
                    }
                }
                Part::Arrays { count, columns } => {
                    left -= count;
                    for row in 0..count {
                        let cells = columns.iter().map(|array| value_at(array, row));
                        found.append(self.tuple(&mut values, cells)?)?;
                    }
                }
            }
            self.fetched.fetch_add((found.len() - before) as u64, Ordering::Relaxed);
            py.check_signals()?;
        }
        Ok(found.unbind())
    }

    /// The rows that are left, as a stream in Arrow's C data interface. They come as they are asked for.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.stream(py, Intervals::InParts, requested_schema)
    }

    /// The same with intervals as durations, in which a month has 30 days and a year 365.
    fn stream_with_durations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.stream(py, Intervals::Durations, None)
    }

    /// Raises what has ended the stream that was made of the rows, if something has.
    fn raise_failure(&self, py: Python<'_>) -> PyResult<()> {
        let failure = self.failure.lock().take();
        failure.map_or(Ok(()), |error| Err(exception(py, &error)))
    }

    /// Ends the query, if it runs. What is left is not read.
    fn close(&self, py: Python<'_>) {
        let source = py.detach(|| std::mem::replace(&mut *self.source.lock(), Source::Empty));
        py.detach(|| drop(source));
    }
}

/// How intervals go out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Intervals {
    /// As months, days and a time.
    InParts,
    Durations,
}

/// What is left, as it goes out.
struct Exported {
    source: Source,
    exporter: Exporter,
    /// The columns with durations in the place of intervals, if they go out so.
    with_durations: Option<SchemaRef>,
    failure: Arc<Mutex<Option<Error>>>,
}

impl Exported {
    fn exported(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        let batch = self.exporter.batch(batch).map_err(SqlError::from)?;
        match &self.with_durations {
            Some(schema) => Ok(batch_with_durations(&batch, schema)?),
            None => Ok(batch),
        }
    }

    fn next_batch(&mut self) -> Option<Result<RecordBatch, Error>> {
        match &mut self.source {
            Source::Empty => None,
            Source::Values { rows, schema, next } => {
                let batch = rows.to_batch(schema).map(|batch| batch.slice(*next, rows.len() - *next));
                self.source = Source::Empty;
                Some(batch.map_err(Error::from))
            }
            Source::Reader { reader, batch } => match batch.take() {
                Some((batch, next)) if next < batch.num_rows() => {
                    Some(Ok(batch.slice(next, batch.num_rows() - next)))
                }
                _ => reader.next(),
            },
        }
    }
}

impl Iterator for Exported {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.next_batch()?.and_then(|batch| self.exported(&batch)) {
            Ok(batch) => Ok(batch),
            Err(error) => {
                let told = ArrowError::ComputeError(error.to_string());
                *self.failure.lock() = Some(error);
                self.source = Source::Empty;
                Err(told)
            }
        })
    }
}
