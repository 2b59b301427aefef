// SPDX-License-Identifier: Apache-2.0
//! One column of a record batch as Arrow's IPC format lays it out, in segment files of version 1: which buffers are its, and the
//! array that they make.
//!
//! A batch's header lists the buffers of all columns one after the other, with places in the batch's body. Arrow's own
//! decoder wants the whole body; here the bytes of one column are enough, so that a scan reads no others.

use arrow::array::{ArrayData, ArrayDataBuilder};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::ipc::RecordBatch;
use std::ops::Range;

/// How a column, or what is inside of a list, lies in the body of a batch.
#[derive(Debug)]
pub(super) struct Layout {
    rows: usize,
    nulls: usize,
    /// The buffers in the body, the one that says which values are there first.
    buffers: Vec<Range<usize>>,
    children: Vec<Layout>,
}

/// The layouts of a batch's columns, in order.
pub(super) struct Layouts<'a> {
    batch: RecordBatch<'a>,
    node: usize,
    buffer: usize,
    view: usize,
}

fn malformed(what: &str) -> ArrowError {
    ArrowError::IpcError(format!("the header of a batch has {what}"))
}

fn number(value: i64) -> Result<usize, ArrowError> {
    usize::try_from(value).map_err(|_| malformed("a negative number"))
}

impl<'a> Layouts<'a> {
    /// Those of this batch.
    ///
    /// # Errors
    /// If its buffers are compressed: none that were written are.
    pub(super) fn new(batch: RecordBatch<'a>) -> Result<Self, ArrowError> {
        match batch.compression() {
            None => Ok(Self { batch, node: 0, buffer: 0, view: 0 }),
            Some(_) => Err(malformed("compressed buffers")),
        }
    }

    /// The layout of the next column, which has this type.
    ///
    /// # Errors
    /// If the header has no more columns, or numbers that make no sense.
    pub(super) fn next(&mut self, data_type: &DataType) -> Result<Layout, ArrowError> {
        let nodes = self.batch.nodes().ok_or_else(|| malformed("no columns"))?;
        if self.node >= nodes.len() {
            return Err(malformed("too few columns"));
        }
        let node = nodes.get(self.node);
        self.node += 1;
        let (rows, nulls) = (number(node.length())?, number(node.null_count())?);
        let count = match data_type {
            DataType::Null => 0,
            DataType::Binary | DataType::LargeBinary => 3,
            DataType::Utf8View | DataType::BinaryView => 2 + self.next_view_buffers()?,
            _ => 2,
        };
        let buffers = (0..count).map(|_| self.next_buffer()).collect::<Result<_, _>>()?;
        let children = match data_type {
            DataType::List(item) => vec![self.next(item.data_type())?],
            _ => Vec::new(),
        };
        Ok(Layout { rows, nulls, buffers, children })
    }

    /// How many buffers with texts or bytes are behind the next column of views.
    fn next_view_buffers(&mut self) -> Result<usize, ArrowError> {
        let counts = self.batch.variadicBufferCounts().ok_or_else(|| malformed("no numbers of buffers"))?;
        if self.view >= counts.len() {
            return Err(malformed("too few numbers of buffers"));
        }
        self.view += 1;
        number(counts.get(self.view - 1))
    }

    fn next_buffer(&mut self) -> Result<Range<usize>, ArrowError> {
        let buffers = self.batch.buffers().ok_or_else(|| malformed("no buffers"))?;
        if self.buffer >= buffers.len() {
            return Err(malformed("too few buffers"));
        }
        let buffer = buffers.get(self.buffer);
        self.buffer += 1;
        let start = number(buffer.offset())?;
        let end =
            start.checked_add(number(buffer.length())?).ok_or_else(|| malformed("too long a buffer"))?;
        Ok(start..end)
    }
}

impl Layout {
    /// The array, out of the body's bytes from `start` on. Its buffers are parts of `bytes`.
    ///
    /// # Errors
    /// If a buffer lies outside of the bytes, or Arrow finds that they are no array of this type: lengths, offsets and UTF-8
    /// are checked.
    pub(super) fn array(
        &self,
        data_type: &DataType,
        bytes: &Buffer,
        start: usize,
    ) -> Result<ArrayData, ArrowError> {
        let part = |place: &Range<usize>| {
            let from = place.start.checked_sub(start).filter(|from| from + place.len() <= bytes.len());
            let from = from.ok_or_else(|| malformed("a buffer outside of its column"))?;
            Ok::<_, ArrowError>(bytes.slice_with_length(from, place.len()))
        };
        let Some((valid, values)) = self.buffers.split_first() else {
            return ArrayDataBuilder::new(data_type.clone()).len(self.rows).build();
        };
        let child_type = |index: usize| match data_type {
            DataType::List(item) if index == 0 => Ok(item.data_type()),
            _ => Err(malformed("a column inside of what is no list")),
        };
        let children = self.children.iter().enumerate();
        let children = children.map(|(index, child)| child.array(child_type(index)?, bytes, start));
        ArrayDataBuilder::new(data_type.clone())
            .len(self.rows)
            .null_bit_buffer((self.nulls > 0).then(|| part(valid)).transpose()?)
            .buffers(values.iter().map(part).collect::<Result<_, _>>()?)
            .child_data(children.collect::<Result<_, _>>()?)
            .align_buffers(true)
            .build()
    }
}
