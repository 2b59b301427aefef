// SPDX-License-Identifier: Apache-2.0
//! Frames of a program, anything with `__arrow_c_stream__`, as batches. Nothing is copied.

use crate::errors::refused;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatchReader;

/// All batches of a stream, and their schema.
///
/// # Errors
/// `DataError` if the stream ends in an error.
pub(crate) fn batches(
    py: Python<'_>,
    stream: PyRecordBatchReader,
) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let reader = stream.into_reader()?;
    let schema = reader.schema();
    // Whoever makes the stream may be Python again.
    let batches = py.detach(|| reader.collect::<Result<Vec<_>, _>>());
    let batches = batches.map_err(|error| refused(py, "22000", &error.to_string(), None))?;
    Ok((schema, batches))
}
