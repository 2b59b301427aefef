// SPDX-License-Identifier: Apache-2.0
//! Reading: the rows of bricks as Arrow batches, in place.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, BooleanArray, DictionaryArray, RecordBatch, RecordBatchOptions, StringArray,
    UInt32Array, make_array,
};
use arrow::buffer::Buffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, SchemaRef};
use coeval_txn::Epoch;

use crate::block::Block;
use crate::brick::{BrickView, PlacedBlock};
use crate::brick_id::BrickId;
use crate::declaration::DimensionValues;
use crate::dictionaries::Dictionaries;
use crate::grouping::{Digit, Grouping, is_whole, metric_values, with_group};
use crate::ordinals::{Offsets, Ordinals};
use crate::schema::{BrickSchema, Place};
use crate::statistics::{ColumnStatistics, Number};
use crate::stored::{Source, encode_rows};
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

/// Between which values the rows of a brick lie in one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimensionBounds {
    /// Integers, dates and timestamps, as the number that stands for them.
    Ordered(i64, i64),
    /// Strings, by their bytes.
    Strings(String, String),
}

/// What a flush round keeps of one brick.
pub struct BrickFlush {
    /// The brick.
    pub brick: BrickId,
    /// Whether what earlier rounds have kept of the brick is void.
    pub voids_earlier: bool,
    /// The rows' epochs, each with the number of its rows, in the order of the rows.
    pub epochs: Vec<(Epoch, usize)>,
    sources: Vec<Source>,
    row_bytes: usize,
}

impl BrickFlush {
    /// The rows as loads of one epoch each, in their order. Each is of at most about `bytes_max` bytes, and of one row at
    /// least. Cost: a copy of the rows.
    #[must_use]
    pub fn loads(&self, bytes_max: usize) -> Vec<(Epoch, Vec<u8>)> {
        let rows_max = (bytes_max / self.row_bytes).max(1);
        let mut loads = Vec::new();
        // Each source is of one run: a block's part of it.
        let mut sources = self.sources.iter();
        for (epoch, count) in &self.epochs {
            let mut left = *count;
            while left > 0 {
                let Some((values, rows)) = sources.next() else { break };
                left -= rows.len();
                for start in rows.clone().step_by(rows_max) {
                    let source = (values.clone(), start..(start + rows_max).min(rows.end));
                    let mut bytes = Vec::new();
                    encode_rows(self.brick, &[source], &mut bytes);
                    loads.push((*epoch, bytes));
                }
            }
        }
        loads
    }

    /// Appends the rows as bytes; [`BrickTable::restore`](crate::BrickTable::restore) reads them back.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_rows(self.brick, &self.sources, out);
    }
}

impl TableView {
    pub(crate) fn new(
        schema: Arc<BrickSchema>,
        dictionaries: Arc<Dictionaries>,
        bricks: Vec<BrickView>,
    ) -> Self {
        Self { schema, dictionaries, bricks }
    }

    /// This view without the bricks that are not among `bricks`; `None` if it lacks one of these.
    #[must_use]
    pub fn only(mut self, bricks: &[BrickId]) -> Option<Self> {
        let wanted: BTreeSet<BrickId> = bricks.iter().copied().collect();
        self.bricks.retain(|brick| wanted.contains(&brick.id()));
        (self.bricks.len() == wanted.len()).then_some(self)
    }

    /// The rows of `brick` that a flush round must keep: those that `now` sees and `before`, the last round's reader,
    /// did not; or all that `now` sees if a delete came in between, which voids what earlier rounds kept of the brick.
    #[must_use]
    pub fn unflushed(&self, brick: &BrickView, before: &Reader, now: &Reader) -> BrickFlush {
        let voids_earlier = brick.deletes_since(before, now);
        let mut runs = brick.visible_runs(now);
        runs.retain(|(epoch, _)| voids_earlier || !before.sees(*epoch));
        BrickFlush { voids_earlier, ..self.flush_of(brick, runs) }
    }

    /// These runs of rows of `brick`, beside what earlier rounds have kept of it.
    fn flush_of(&self, brick: &BrickView, runs: Vec<(Epoch, Range<usize>)>) -> BrickFlush {
        let mut sources = Vec::new();
        let mut epochs: Vec<(Epoch, usize)> = Vec::new();
        for (epoch, run) in runs {
            for (placed, rows) in brick.blocks() {
                let start = run.start.max(placed.first_row);
                let end = run.end.min(placed.first_row + rows);
                if start < end {
                    let rows = start - placed.first_row..end - placed.first_row;
                    sources.push((placed.block.read_as(&self.schema, rows.clone()), 0..rows.len()));
                }
            }
            epochs.push((epoch, run.len()));
        }
        let row_bytes = self.schema.row_bytes();
        BrickFlush { brick: brick.id(), voids_earlier: false, epochs, sources, row_bytes }
    }

    /// The rows of `brick` that `reader` sees, as loads of one epoch each, in the order of the rows: what another node is
    /// given. Each is of at most about `bytes_max` bytes, and of one row at least. Cost: a copy of the rows.
    #[must_use]
    pub fn encode_runs(&self, brick: &BrickView, reader: &Reader, bytes_max: usize) -> Vec<(Epoch, Vec<u8>)> {
        self.flush_of(brick, brick.visible_runs(reader)).loads(bytes_max)
    }

    /// All rows of `brick` whose epochs are above `horizon`, whoever sees them, in the form of [`encode_runs`](Self::encode_runs).
    /// Cost: the epochs vector, and a copy of these rows alone.
    #[must_use]
    pub fn encode_runs_above(
        &self,
        brick: &BrickView,
        horizon: Epoch,
        bytes_max: usize,
    ) -> Vec<(Epoch, Vec<u8>)> {
        let mut runs = brick.visible_runs(&Reader::uncommitted());
        runs.retain(|(epoch, _)| *epoch > horizon);
        self.flush_of(brick, runs).loads(bytes_max)
    }

    /// How many columns the table has.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.schema.columns().len()
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

    /// The rows of `brick` that `reader` sees, with the columns `projection`, block by block. The iterator keeps what it
    /// reads alive.
    ///
    /// Metrics are the bricks' own memory where all rows of a block are visible; otherwise the visible ones are
    /// copied. Dimensions are unpacked.
    ///
    /// # Panics
    ///
    /// If a projected column does not exist.
    pub fn batches(
        &self,
        brick: &BrickView,
        reader: &Reader,
        projection: &[usize],
    ) -> impl Iterator<Item = RecordBatch> + use<> {
        self.batches_within(brick, reader, 0..brick.rows(), projection, None)
    }

    /// As [`batches`](Self::batches), but only those blocks whose first row is among `rows`, so that several readers can
    /// share a brick. With a `grouping` one more column follows: each row's group.
    ///
    /// # Panics
    ///
    /// If a projected column does not exist, or the grouping is another table's.
    pub fn batches_within(
        &self,
        brick: &BrickView,
        reader: &Reader,
        rows: Range<usize>,
        projection: &[usize],
        grouping: Option<&Grouping>,
    ) -> impl Iterator<Item = RecordBatch> + use<> {
        self.batches_of(brick, brick.visible(reader), rows, projection, grouping)
    }

    /// The rows of `brick` that `before` sees and `after` does not, as [`batches`](Self::batches) gives them: what the deletes
    /// have taken that are seen by `after` alone.
    ///
    /// # Panics
    ///
    /// If a projected column does not exist.
    pub fn batches_gone(
        &self,
        brick: &BrickView,
        before: &Reader,
        after: &Reader,
        projection: &[usize],
    ) -> impl Iterator<Item = RecordBatch> + use<> {
        self.batches_of(brick, brick.gone(before, after), 0..brick.rows(), projection, None)
    }

    fn batches_of(
        &self,
        brick: &BrickView,
        visible: Visible,
        rows: Range<usize>,
        projection: &[usize],
        grouping: Option<&Grouping>,
    ) -> impl Iterator<Item = RecordBatch> + use<> {
        let schema = Arc::new(self.schema.arrow().project(projection).expect("the projected columns exist"));
        let is_seen = visible != Visible::None;
        let blocks = brick.blocks().filter(|(placed, _)| is_seen && rows.contains(&placed.first_row));
        let blocks: Vec<_> =
            blocks.map(|(placed, rows)| (placed.first_row, Arc::clone(&placed.block), rows)).collect();
        let read = ReadBrick {
            schema: Arc::clone(&self.schema),
            dictionaries: Arc::clone(&self.dictionaries),
            brick: brick.id(),
            projection: projection.to_vec(),
            grouping: grouping.cloned(),
            output: if grouping.is_some() { with_group(&schema) } else { schema },
        };
        blocks.into_iter().filter_map(move |(first_row, block, rows)| {
            read.visible_batch(&block, rows, &visible.within(first_row..first_row + rows))
        })
    }

    /// Groups of the rows of these bricks by these columns: by the offsets of dimensions, the codes of strings, and what lies between
    /// the least and the greatest value that a metric has in any row, visible or not. `None` if one of them has other
    /// values, or the groups are more than 2^32. Cost: that of [`statistics`](Self::statistics) of each brick and metric.
    #[must_use]
    pub fn grouping(&self, bricks: &[&BrickView], columns: &[usize]) -> Option<Grouping> {
        let digits = columns.iter().map(|column| self.digits_of(bricks, *column));
        Grouping::new(digits.collect::<Option<Vec<_>>>()?)
    }

    /// What a column's digits are of, and how many there are.
    fn digits_of(&self, bricks: &[&BrickView], column: usize) -> Option<(Digit, u32)> {
        let metric = match self.schema.place(column) {
            Place::Dimension(dimension) => {
                let range_size = self.schema.layout().dimensions()[dimension].range_size();
                return Some((Digit::Offset(dimension), u32::try_from(range_size).ok()?));
            }
            Place::Metric(metric) => metric,
        };
        let (least, count) = match &self.schema.metric(metric).data_type {
            DataType::Boolean => (0, 2),
            // The strings of all rows of these bricks are in it by now.
            DataType::Utf8 => (0, self.dictionaries.get(column)?.count()),
            data_type if is_whole(data_type) => self.span(bricks, column)?,
            _ => return None,
        };
        Some((Digit::Distance { metric, least }, count.checked_add(1)?))
    }

    /// The least of a metric's whole numbers in these bricks, and how many there are from it to the greatest one.
    fn span(&self, bricks: &[&BrickView], column: usize) -> Option<(i64, u32)> {
        let mut known = ColumnStatistics::default();
        for brick in bricks {
            known = known.with(&self.statistics(brick, column)?);
        }
        match known.bounds {
            None => (known.rows == known.null_count).then_some((0, 0)),
            Some((Number::Integer(least), Number::Integer(greatest))) => {
                let count = u32::try_from(greatest - least + 1).ok()?;
                Some((i64::try_from(least).ok()?, count))
            }
            Some(_) => None,
        }
    }

    /// The values of the grouping's columns in these groups of `brick`, column by column.
    ///
    /// # Panics
    ///
    /// If no row of the brick can be in one of the groups.
    #[must_use]
    pub fn group_values(&self, brick: &BrickView, grouping: &Grouping, groups: &[u32]) -> Vec<ArrayRef> {
        let values = grouping.digits(groups).map(|(digit, digits)| match digit {
            Digit::Offset(dimension) => {
                let first = self.schema.layout().dimensions()[dimension].first(brick.id());
                let ordinals: Vec<u64> = digits.iter().map(|offset| first + u64::from(*offset)).collect();
                dimension_values(&self.schema, &self.dictionaries, dimension, ordinals.as_slice())
            }
            Digit::Distance { metric, least } => {
                let column = self.schema.metric_columns()[metric];
                let dictionary = self.dictionaries.get(column).map(|dictionary| dictionary.values());
                let values = metric_values(self.schema.storages()[metric], least, &digits);
                let data_type = &self.schema.metric(metric).data_type;
                values.to_array(data_type, digits.len(), dictionary.as_ref())
            }
        });
        values.collect()
    }

    /// The least and the greatest value that a dimension can have in rows of `brick` that are there now; none for a
    /// metric, and for strings without any.
    #[must_use]
    pub fn dimension_bounds(&self, brick: &BrickView, column: usize) -> Option<DimensionBounds> {
        let Place::Dimension(dimension) = self.schema.place(column) else { return None };
        let range = self.schema.layout().dimensions()[dimension].ordinals(brick.id());
        match self.schema.dimension(dimension).values {
            DimensionValues::Ordered { origin, .. } => {
                let value = |ordinal: u64| origin.wrapping_add(ordinal as i64);
                Some(DimensionBounds::Ordered(value(*range.start()), value(*range.end())))
            }
            DimensionValues::String => {
                let strings = self.dictionaries.get(column)?.values();
                let codes = range.take_while(|code| (*code as usize) < strings.len());
                let known = || codes.clone().map(|code| strings.value(code as usize));
                Some(DimensionBounds::Strings(known().min()?.to_owned(), known().max()?.to_owned()))
            }
        }
    }

    /// What is known of a metric in all rows of `brick`, visible or not: exact, so that an aggregate over a brick
    /// whose rows are all visible needs no scan. `None` for a dimension. Cost: a number for each block, and a look at
    /// the rows that have come to the last one since somebody asked.
    #[must_use]
    pub fn statistics(&self, brick: &BrickView, column: usize) -> Option<ColumnStatistics> {
        let Place::Metric(metric) = self.schema.place(column) else { return None };
        let of_block =
            |(placed, rows): (&PlacedBlock, usize)| placed.block.statistics_up_to(&self.schema, metric, rows);
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
            placed.block.statistics(&self.schema, metric).is_none_or(|statistics| !is_outside(&statistics))
        })
    }
}

/// What a reader takes of a brick's blocks.
struct ReadBrick {
    schema: Arc<BrickSchema>,
    dictionaries: Arc<Dictionaries>,
    brick: BrickId,
    projection: Vec<usize>,
    grouping: Option<Grouping>,
    output: SchemaRef,
}

impl ReadBrick {
    /// The visible ones of a block's first `rows` rows; none if there are none.
    fn visible_batch(&self, block: &Block, rows: usize, visible: &Visible) -> Option<RecordBatch> {
        let bitmap = match visible {
            Visible::All => return Some(self.batch(block, 0..rows)),
            Visible::None => return None,
            Visible::Some(part) => part.bits(),
        };
        // Only the span of the visible rows is unpacked; often they are contiguous.
        let first = bitmap.set_slices().next()?.0;
        let end = bitmap.set_slices().last()?.1;
        let batch = self.batch(block, first..end);
        let span = bitmap.slice(first, end - first);
        if span.count_set_bits() == span.len() {
            return Some(batch);
        }
        let filter = BooleanArray::new(span, None);
        Some(filter_record_batch(&batch, &filter).expect("the bitmap has a bit for each row"))
    }

    fn batch(&self, block: &Block, rows: Range<usize>) -> RecordBatch {
        let columns = self.projection.iter().map(|column| match self.schema.place(*column) {
            Place::Dimension(dimension) => self.dimension(dimension, block, rows.clone()),
            Place::Metric(metric) => {
                let dictionary = self.dictionaries.get(*column).map(|dictionary| dictionary.values());
                let data_type = &self.schema.metric(metric).data_type;
                let values = block.read_metric(&self.schema, metric, rows.clone());
                values.to_array(data_type, rows.len(), dictionary.as_ref())
            }
        });
        let grouping = self.grouping.as_ref();
        let groups = grouping.map(|grouping| grouping.of_rows(&self.schema, block, rows.clone()));
        let columns: Vec<ArrayRef> = columns.chain(groups).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)
            .expect("the columns are of the schema's types and of one length")
    }

    /// A dimension's values, out of the brick's range and the packed offsets.
    fn dimension(&self, dimension: usize, block: &Block, rows: Range<usize>) -> ArrayRef {
        let layout = &self.schema.layout().dimensions()[dimension];
        let offsets =
            Offsets { layout, first: layout.first(self.brick), bess: block.read_bess(rows.clone()), rows };
        dimension_values(&self.schema, &self.dictionaries, dimension, &offsets)
    }
}

/// The values that these ordinals of a dimension stand for.
fn dimension_values(
    schema: &BrickSchema,
    dictionaries: &Dictionaries,
    dimension: usize,
    ordinals: &(impl Ordinals + ?Sized),
) -> ArrayRef {
    match &schema.dimension(dimension).values {
        DimensionValues::String => {
            let dictionary = dictionaries.get(schema.dimension_columns()[dimension]);
            let strings = dictionary.expect("a column of strings has a dictionary").values();
            let codes = UInt32Array::new(ordinals.values(|ordinal| ordinal as u32).into(), None);
            dictionary_array(codes, strings)
        }
        DimensionValues::Ordered { data_type, origin } => {
            let value = |ordinal: u64| origin.wrapping_add(ordinal as i64);
            let bytes = match data_type.primitive_width() {
                Some(1) => Buffer::from_vec(ordinals.values(|ordinal| value(ordinal) as i8)),
                Some(2) => Buffer::from_vec(ordinals.values(|ordinal| value(ordinal) as i16)),
                Some(4) => Buffer::from_vec(ordinals.values(|ordinal| value(ordinal) as i32)),
                _ => Buffer::from_vec(ordinals.values(value)),
            };
            let data = ArrayData::builder(data_type.clone()).len(ordinals.count()).add_buffer(bytes);
            make_array(data.build().expect("the bytes are those of so many values of the type"))
        }
    }
}

fn dictionary_array(codes: UInt32Array, strings: Arc<StringArray>) -> ArrayRef {
    assert!(codes.is_empty() || !strings.is_empty(), "each code has its string");
    Arc::new(DictionaryArray::try_new(codes, strings).expect("each code has been entered before its row"))
}
