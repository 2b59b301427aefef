// SPDX-License-Identifier: Apache-2.0
//! Reading: the rows of bricks as Arrow batches, in place.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, BooleanArray, DictionaryArray, RecordBatch, RecordBatchOptions, StringArray,
    UInt32Array, make_array,
};
use arrow::buffer::Buffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{ArrowNativeType, SchemaRef};

use crate::block::Block;
use crate::brick::{BrickView, PlacedBlock};
use crate::brick_id::DimensionLayout;
use crate::schema::{BrickSchema, DimensionValues, Place};
use crate::statistics::{ColumnStatistics, Number};
use crate::table::Dictionaries;
use crate::visibility::{Reader, Visible};

/// What one statement reads of a table: some bricks as they were when it started.
///
/// It keeps what it reads alive, whatever purge and rollback do meanwhile, and waits for nobody.
#[derive(Clone)]
pub struct TableView {
    schema: Arc<BrickSchema>,
    dictionaries: Arc<Dictionaries>,
    bricks: Vec<BrickView>,
}

impl TableView {
    pub(crate) fn new(
        schema: Arc<BrickSchema>,
        dictionaries: Arc<Dictionaries>,
        bricks: Vec<BrickView>,
    ) -> Self {
        Self { schema, dictionaries, bricks }
    }

    /// The bricks, by id.
    #[must_use]
    pub fn bricks(&self) -> &[BrickView] {
        &self.bricks
    }

    /// How many rows `reader` sees. Cost: the epochs vectors; no column is touched.
    #[must_use]
    pub fn count(&self, reader: &Reader) -> usize {
        self.bricks.iter().map(|brick| brick.visible(reader).count(brick.rows())).sum()
    }

    /// The rows of `brick` that `reader` sees, with the columns `projection`, block by block.
    ///
    /// Metrics are the bricks' own memory where all rows of a block are visible; otherwise the visible ones are
    /// copied. Dimensions are unpacked.
    ///
    /// # Panics
    ///
    /// If a projected column does not exist.
    pub fn batches<'a>(
        &'a self,
        brick: &'a BrickView,
        reader: &Reader,
        projection: &'a [usize],
    ) -> impl Iterator<Item = RecordBatch> + 'a {
        let schema = Arc::new(self.schema.arrow().project(projection).expect("the projected columns exist"));
        let visible = brick.visible(reader);
        let blocks = if visible == Visible::None { None } else { Some(brick.blocks()) };
        blocks.into_iter().flatten().filter_map(move |(placed, rows)| {
            let bitmap = match &visible {
                Visible::Some(bitmap) => Some(bitmap.slice(placed.first_row, rows)),
                Visible::All | Visible::None => None,
            };
            match bitmap {
                None => Some(self.batch(&schema, brick, &placed.block, 0..rows, projection)),
                Some(bitmap) => {
                    // Only the span of the visible rows is unpacked; often they are contiguous.
                    let first = bitmap.set_slices().next()?.0;
                    let end = bitmap.set_slices().last()?.1;
                    let batch = self.batch(&schema, brick, &placed.block, first..end, projection);
                    let span = bitmap.slice(first, end - first);
                    if span.count_set_bits() == span.len() {
                        return Some(batch);
                    }
                    let filter = BooleanArray::new(span, None);
                    Some(filter_record_batch(&batch, &filter).expect("the bitmap has a bit for each row"))
                }
            }
        })
    }

    fn batch(
        &self,
        schema: &SchemaRef,
        brick: &BrickView,
        block: &Block,
        rows: Range<usize>,
        projection: &[usize],
    ) -> RecordBatch {
        let columns = projection.iter().map(|column| match self.schema.place(*column) {
            Place::Dimension(dimension) => self.dimension(*column, dimension, brick, block, rows.clone()),
            Place::Metric(metric) => {
                let dictionary = self.dictionaries.get(*column).map(|dictionary| dictionary.values());
                let data_type = &self.schema.metric(metric).data_type;
                block.read_metric(metric, rows.clone()).to_array(data_type, rows.len(), dictionary.as_ref())
            }
        });
        let columns: Vec<ArrayRef> = columns.collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
            .expect("the columns are of the schema's types and of one length")
    }

    /// A dimension's values, out of the brick's range and the packed offsets.
    fn dimension(
        &self,
        column: usize,
        dimension: usize,
        brick: &BrickView,
        block: &Block,
        rows: Range<usize>,
    ) -> ArrayRef {
        let layout = &self.schema.layout().dimensions()[dimension];
        let offsets =
            Offsets { layout, first: layout.first(brick.id()), bess: block.read_bess(rows.clone()), rows };
        match &self.schema.dimension(dimension).values {
            DimensionValues::String => {
                let strings =
                    self.dictionaries.get(column).expect("a column of strings has a dictionary").values();
                let codes = UInt32Array::new(offsets.values(|ordinal| ordinal as u32).into(), None);
                dictionary_array(codes, strings)
            }
            DimensionValues::Ordered { data_type, origin } => {
                let value = |ordinal: u64| origin.wrapping_add(ordinal as i64);
                let bytes = match data_type.primitive_width() {
                    Some(1) => Buffer::from_vec(offsets.values(|ordinal| value(ordinal) as i8)),
                    Some(2) => Buffer::from_vec(offsets.values(|ordinal| value(ordinal) as i16)),
                    Some(4) => Buffer::from_vec(offsets.values(|ordinal| value(ordinal) as i32)),
                    _ => Buffer::from_vec(offsets.values(value)),
                };
                let data = ArrayData::builder(data_type.clone()).len(offsets.rows.len()).add_buffer(bytes);
                make_array(data.build().expect("the bytes are those of so many values of the type"))
            }
        }
    }

    /// What is known of a metric in all rows of `brick`, visible or not: exact, so that an aggregate over a brick
    /// whose rows are all visible needs no scan. `None` for a dimension. Cost: a number for each full block, and a
    /// scan of the last one.
    #[must_use]
    pub fn statistics(&self, brick: &BrickView, column: usize) -> Option<ColumnStatistics> {
        let Place::Metric(metric) = self.schema.place(column) else { return None };
        let data_type = &self.schema.metric(metric).data_type;
        let of_block = |(placed, rows): (&PlacedBlock, usize)| {
            let full = placed.block.statistics().map(|statistics| statistics[metric]);
            let is_whole = |statistics: &ColumnStatistics| statistics.rows == rows;
            full.filter(is_whole)
                .unwrap_or_else(|| placed.block.read_metric(metric, 0..rows).statistics(data_type, rows))
        };
        Some(brick.blocks().map(of_block).fold(ColumnStatistics::default(), |sum, block| sum.with(&block)))
    }

    /// Whether `brick` can hold a row whose metric lies between `low` and `high`, by its zone maps. Blocks that are
    /// not full can always. Cost: a look at each block.
    #[must_use]
    pub fn may_hold(&self, brick: &BrickView, column: usize, low: Number, high: Number) -> bool {
        let Place::Metric(metric) = self.schema.place(column) else { return true };
        let is_outside = |statistics: &ColumnStatistics| {
            let is_empty = statistics.rows == statistics.null_count;
            is_empty
                || statistics
                    .bounds
                    .is_some_and(|(least, greatest)| greatest.is_below(low) || high.is_below(least))
        };
        brick.blocks().any(|(placed, _)| {
            placed.block.statistics().is_none_or(|statistics| !is_outside(&statistics[metric]))
        })
    }
}

fn dictionary_array(codes: UInt32Array, strings: Arc<StringArray>) -> ArrayRef {
    assert!(codes.is_empty() || !strings.is_empty(), "each code has its string");
    Arc::new(DictionaryArray::try_new(codes, strings).expect("each code has been entered before its row"))
}

/// The packed offsets of one dimension in some rows.
struct Offsets<'a> {
    layout: &'a DimensionLayout,
    /// The first ordinal of the brick's range.
    first: u64,
    /// The width of a bess and its bytes; `None` if no dimension has offsets.
    bess: Option<(usize, Buffer)>,
    rows: Range<usize>,
}

impl Offsets<'_> {
    /// Each row's ordinal, as `value` makes something of it.
    fn values<T: ArrowNativeType>(&self, value: impl Fn(u64) -> T) -> Vec<T> {
        match &self.bess {
            None => vec![value(self.first); self.rows.len()],
            Some((1, bytes)) => self.unpack::<u8, T>(bytes, value),
            Some((2, bytes)) => self.unpack::<u16, T>(bytes, value),
            Some((4, bytes)) => self.unpack::<u32, T>(bytes, value),
            Some((_, bytes)) => self.unpack::<u64, T>(bytes, value),
        }
    }

    fn unpack<B: ArrowNativeType + Into<u64>, T>(&self, bytes: &Buffer, value: impl Fn(u64) -> T) -> Vec<T> {
        let ordinal = |bess: &B| self.first + self.layout.offset((*bess).into());
        bytes.typed_data::<B>().iter().map(|bess| value(ordinal(bess))).collect()
    }
}
