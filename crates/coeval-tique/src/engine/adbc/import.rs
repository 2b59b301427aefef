// SPDX-License-Identifier: Apache-2.0
//! Batches that come through Arrow's C stream interface, copied into batches of our own.
#![allow(unsafe_code)]

use super::interface::{Failure, NOBODY_WAITS};
use crate::engine::Rows;
use crate::interrupt::is_abandoned;
use arrow::array::{ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// A column's or a batch's type.
#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    child_count: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// A column's or a batch's values.
#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    buffer_count: i64,
    child_count: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// A source of batches.
#[repr(C)]
pub(super) struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

impl ArrowArrayStream {
    /// One that a producer fills in.
    pub(super) fn empty() -> Self {
        Self {
            get_schema: None,
            get_next: None,
            get_last_error: None,
            release: None,
            private_data: null_mut(),
        }
    }

    fn failure(&mut self) -> Failure {
        let said = self.get_last_error.map(|get| {
            // SAFETY: the producer's own function on its own stream.
            unsafe { get(self) }
        });
        match said {
            Some(text) if !text.is_null() => {
                // SAFETY: a text that lives until the next call on the stream.
                Failure::new(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
            }
            _ => Failure::new("the engine failed and did not say why"),
        }
    }
}

/// Releases what a producer filled in, when dropped.
macro_rules! release_when_dropped {
    ($kind:ty) => {
        impl Drop for $kind {
            fn drop(&mut self) {
                if let Some(release) = self.release.take() {
                    self.release = Some(release);
                    // SAFETY: the producer's own function on what it filled in, once: it takes `release` away.
                    unsafe { release(self) };
                }
            }
        }
    };
}

release_when_dropped!(ArrowSchema);
release_when_dropped!(ArrowArray);
release_when_dropped!(ArrowArrayStream);

fn broken(what: impl std::fmt::Display) -> Failure {
    Failure::new(format!("the engine's answer cannot be read: {what}"))
}

/// All batches of a stream, as long as somebody waits for them: some drivers compute rows as they are asked for, and cannot cancel
/// (SQLite's).
pub(super) fn read_stream(stream: &mut ArrowArrayStream) -> Result<Rows, Failure> {
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Ok(Rows { schema: Arc::new(Schema::empty()), batches: Vec::new() });
    };
    // SAFETY: all zero is a schema without anything.
    let mut given: ArrowSchema = unsafe { std::mem::zeroed() };
    // SAFETY: the producer's own function on its own stream.
    if unsafe { get_schema(stream, &raw mut given) } != 0 {
        return Err(stream.failure());
    }
    let schema = import_schema(&given)?;
    let mut batches = Vec::new();
    loop {
        if is_abandoned() {
            return Err(Failure::new(NOBODY_WAITS));
        }
        // SAFETY: all zero is an array without anything.
        let mut array: ArrowArray = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        if unsafe { get_next(stream, &raw mut array) } != 0 {
            return Err(stream.failure());
        }
        if array.release.is_none() {
            return Ok(Rows { schema, batches });
        }
        batches.push(import_batch(&array, &schema)?);
    }
}

fn import_schema(given: &ArrowSchema) -> Result<SchemaRef, Failure> {
    let count = usize::try_from(given.child_count).map_err(broken)?;
    let mut fields = Vec::with_capacity(count);
    for place in 0..count {
        // SAFETY: a schema has `child_count` children, which live as long as it does.
        let child = unsafe { &**given.children.add(place) };
        // SAFETY: a format is there and ends with zero.
        let format = unsafe { CStr::from_ptr(child.format) }.to_string_lossy();
        let name = if child.name.is_null() {
            String::new()
        } else {
            // SAFETY: a name that is there ends with zero.
            unsafe { CStr::from_ptr(child.name) }.to_string_lossy().into_owned()
        };
        let kind =
            data_type(&format).ok_or_else(|| broken(format!("column {name} has the type {format}")))?;
        fields.push(Field::new(name, kind, true));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn data_type(format: &str) -> Option<DataType> {
    let kind = match format {
        "b" => DataType::Boolean,
        "c" => DataType::Int8,
        "C" => DataType::UInt8,
        "s" => DataType::Int16,
        "S" => DataType::UInt16,
        "i" => DataType::Int32,
        "I" => DataType::UInt32,
        "l" => DataType::Int64,
        "L" => DataType::UInt64,
        "f" => DataType::Float32,
        "g" => DataType::Float64,
        "u" => DataType::Utf8,
        "U" => DataType::LargeUtf8,
        "z" => DataType::Binary,
        "tdD" => DataType::Date32,
        "ttu" => DataType::Time64(TimeUnit::Microsecond),
        "tsu:" => DataType::Timestamp(TimeUnit::Microsecond, None),
        other => {
            if let Some(zone) = other.strip_prefix("tsu:") {
                return Some(DataType::Timestamp(TimeUnit::Microsecond, Some(zone.into())));
            }
            // Precision and scale; behind them the width, if it is said.
            let parts: Vec<_> = other.strip_prefix("d:")?.split(',').collect();
            match parts.as_slice() {
                [precision, scale] | [precision, scale, "128"] => {
                    DataType::Decimal128(precision.parse().ok()?, scale.parse().ok()?)
                }
                _ => return None,
            }
        }
    };
    Some(kind)
}

fn import_batch(array: &ArrowArray, schema: &SchemaRef) -> Result<RecordBatch, Failure> {
    let rows = usize::try_from(array.length).map_err(broken)?;
    if usize::try_from(array.child_count).ok() != Some(schema.fields().len()) || array.offset != 0 {
        return Err(broken("a batch with other columns than its schema"));
    }
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for (place, field) in schema.fields().iter().enumerate() {
        // SAFETY: an array has `child_count` children, which live as long as it does.
        let child = unsafe { &**array.children.add(place) };
        columns.push(import_column(child, field.data_type())?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(broken)
}

/// A copy of the first `bytes` bytes of a buffer; none if it is not there.
fn copied(array: &ArrowArray, place: usize, bytes: usize) -> Option<Buffer> {
    if i64::try_from(place).ok()? >= array.buffer_count {
        return None;
    }
    // SAFETY: an array has `buffer_count` buffers.
    let start = unsafe { *array.buffers.add(place) }.cast::<u8>();
    if start.is_null() {
        return (bytes == 0).then(|| Buffer::from(&[] as &[u8]));
    }
    // SAFETY: by the format, a buffer of this kind and length has so many bytes at least.
    Some(Buffer::from(unsafe { std::slice::from_raw_parts(start, bytes) }))
}

fn import_column(array: &ArrowArray, kind: &DataType) -> Result<ArrayRef, Failure> {
    let (length, offset) = (array.length, array.offset);
    let (length, offset) =
        (usize::try_from(length).map_err(broken)?, usize::try_from(offset).map_err(broken)?);
    let end = length + offset;
    let missing = || broken("a column lacks a buffer");
    let validity = if array.null_count == 0 { None } else { copied(array, 0, end.div_ceil(8)) };
    let mut data = ArrayData::builder(kind.clone()).len(length).offset(offset).null_bit_buffer(validity);
    match kind {
        DataType::Boolean => data = data.add_buffer(copied(array, 1, end.div_ceil(8)).ok_or_else(missing)?),
        DataType::Utf8 | DataType::Binary => {
            let offsets = if end == 0 {
                Buffer::from(&[0_u8; 4])
            } else {
                copied(array, 1, (end + 1) * 4).ok_or_else(missing)?
            };
            let bytes = usize::try_from(offsets.typed_data::<i32>()[end]).map_err(broken)?;
            data = data.add_buffer(offsets).add_buffer(copied(array, 2, bytes).ok_or_else(missing)?);
        }
        DataType::LargeUtf8 => {
            let offsets = if end == 0 {
                Buffer::from(&[0_u8; 8])
            } else {
                copied(array, 1, (end + 1) * 8).ok_or_else(missing)?
            };
            let bytes = usize::try_from(offsets.typed_data::<i64>()[end]).map_err(broken)?;
            data = data.add_buffer(offsets).add_buffer(copied(array, 2, bytes).ok_or_else(missing)?);
        }
        other => {
            let width = other.primitive_width().ok_or_else(|| broken(format!("a column of {other}")))?;
            data = data.add_buffer(copied(array, 1, end * width).ok_or_else(missing)?);
        }
    }
    // Checked by Arrow: offsets in order, text that is UTF-8.
    Ok(make_array(data.build().map_err(broken)?))
}

#[cfg(test)]
mod tests;
