// SPDX-License-Identifier: Apache-2.0
//! Validates the rows of a batch and puts them into the order of their bricks (AOSI V-B, parsing and forwarding).
//!
//! Column by column: each dimension adds its bits to every row's brick id and bess. Then one counting sort by brick,
//! and one gather for each column; what is left for a shard's thread is copying contiguous bytes. All this runs on
//! the loading client's thread.
//!
//! New strings are entered into dictionaries last, of rows that are good otherwise, and all of a load or none: see
//! `new_strings`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};
use hashbrown::HashMap;

use crate::block::RowValues;
use crate::brick_id::{BrickId, BrickLayout, DimensionLayout, shard_of};
use crate::column::{ColumnValues, Values};
use crate::declaration::{Column, DimensionValues, Nulls, Storage};
use crate::dictionaries::Dictionaries;
use crate::dictionary::Dictionary;
use crate::load::{LoadError, Piece, RejectReason, RoutedBatches, RoutedLoad};
use crate::new_strings::{EncodedBatch, EncodedColumn, enter_new_strings};
use crate::rejections::{BatchRejections, Rejections};
use crate::schema::{BrickSchema, Place};

/// The longest string that a brick table takes.
const STRING_BYTES_MAX: usize = 1 << 16;

/// Up to so many bits, brick ids index a table of groups directly; beyond, the table would cost more to clear
/// than a load of some thousand rows saves by it.
const DIRECT_ID_BITS_MAX: u32 = 12;

/// See [`BrickTable::route_all`](crate::BrickTable::route_all).
pub(crate) fn route(
    schema: &Arc<BrickSchema>,
    dictionaries: &Dictionaries,
    shard_count: usize,
    batches: &[&RecordBatch],
    rejected_max: usize,
) -> Result<RoutedBatches, LoadError> {
    let mut rejections = Rejections::up_to(rejected_max);
    let (mut encoded, mut placed) = (Vec::new(), Vec::new());
    let mut first_row = 0;
    for batch in batches {
        check_columns(schema, batch)?;
        let mut rejections = rejections.of_batch_at(first_row);
        for (column, array) in schema.columns().iter().zip(batch.columns()) {
            check_values(column, array, &mut rejections)?;
        }
        let mut places = Places { bricks: vec![0; batch.num_rows()], besses: vec![0; batch.num_rows()] };
        for index in 0..schema.dimension_columns().len() {
            place_ordered(schema, index, batch, &mut places, &mut rejections)?;
        }
        let columns = batch.columns().iter().enumerate();
        let columns = columns.filter_map(|(column, array)| {
            let dictionary = dictionaries.get(column)?;
            Some(encode(column, dictionary, array, &rejections))
        });
        encoded.push(EncodedBatch { batch, first_row, columns: columns.collect() });
        placed.push(places);
        first_row += batch.num_rows();
    }
    enter_new_strings(schema, dictionaries, &mut encoded, &mut rejections)?;
    let loads = encoded.into_iter().zip(placed).map(|(encoded, mut places)| {
        let EncodedBatch { batch, first_row, columns } = encoded;
        let mut codes: Vec<Option<Vec<u32>>> = vec![None; schema.columns().len()];
        columns.into_iter().for_each(|column| codes[column.column] = Some(column.codes));
        for (index, column) in schema.dimension_columns().iter().enumerate() {
            if let Some(codes) = &codes[*column] {
                place_codes(&schema.layout().dimensions()[index], codes, &mut places);
            }
        }
        let rejections = rejections.of_batch_at(first_row);
        let (pieces, order) = group(schema.layout(), &places.bricks, &rejections, shard_count);
        let values = gather(schema, batch, &places, codes, &order);
        let shard_pieces = shard_pieces(&pieces, shard_count);
        RoutedLoad { schema: Arc::clone(schema), values, pieces, shard_pieces }
    });
    let loads = loads.collect();
    Ok(RoutedBatches { loads, rejected: rejections.into_list() })
}

/// For each row the bits of its brick id and of its bess.
struct Places {
    bricks: Vec<u64>,
    besses: Vec<u64>,
}

fn check_columns(schema: &BrickSchema, batch: &RecordBatch) -> Result<(), LoadError> {
    let (expected, found) = (schema.columns().len(), batch.num_columns());
    if expected != found {
        return Err(LoadError::ColumnCount { expected, found });
    }
    for (column, array) in schema.columns().iter().zip(batch.columns()) {
        let found = array.data_type();
        let text = match found {
            DataType::Dictionary(_, values) => values.as_ref(),
            other => other,
        };
        let is_text = matches!(text, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        if !(column.is_string() && is_text) && found != column.data_type() {
            let expected = column.data_type().clone();
            return Err(LoadError::ColumnType {
                column: column.name().into(),
                expected,
                found: found.clone(),
            });
        }
    }
    Ok(())
}

/// Rejects NULLs where there may be none, and strings that are too long.
fn check_values(
    column: &Column,
    array: &ArrayRef,
    rejections: &mut BatchRejections<'_>,
) -> Result<(), LoadError> {
    let name = || column.name().to_owned();
    if let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        for row in (0..array.len()).filter(|row| nulls.is_null(*row)) {
            match column {
                Column::Dimension(_) => {
                    rejections.add(row, || RejectReason::NullDimension { column: name() })?
                }
                Column::Metric(metric) if metric.nulls == Nulls::Refused => {
                    rejections.add(row, || RejectReason::NullMetric { column: name() })?;
                }
                Column::Metric(_) => {}
            }
        }
    }
    if !column.is_string() {
        return Ok(());
    }
    let mut result = Ok(());
    for_strings(array, &mut |row, string| {
        let bytes = string.map_or(0, str::len);
        if bytes > STRING_BYTES_MAX && result.is_ok() {
            let bytes_max = STRING_BYTES_MAX;
            result = rejections.add(row, || RejectReason::StringTooLong { column: name(), bytes, bytes_max });
        }
    });
    result
}

/// Calls `each` with every row's string.
fn for_strings(array: &ArrayRef, each: &mut dyn FnMut(usize, Option<&str>)) {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().enumerate().for_each(|(row, s)| each(row, s)),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().enumerate().for_each(|(row, s)| each(row, s)),
        DataType::Utf8View => array.as_string_view().iter().enumerate().for_each(|(row, s)| each(row, s)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let keys = dictionary.normalized_keys();
            let mut strings: Vec<Option<String>> = Vec::new();
            for_strings(dictionary.values(), &mut |_, string| strings.push(string.map(str::to_owned)));
            let is_null = |row| dictionary.keys().is_null(row);
            for (row, key) in keys.into_iter().enumerate() {
                each(row, if is_null(row) { None } else { strings[key].as_deref() });
            }
        }
        other => unreachable!("{other} was refused as a string column"),
    }
}

/// Adds the bits of a dimension with numbers.
fn place_ordered(
    schema: &BrickSchema,
    index: usize,
    batch: &RecordBatch,
    places: &mut Places,
    rejections: &mut BatchRejections<'_>,
) -> Result<(), LoadError> {
    let dimension = schema.dimension(index);
    let DimensionValues::Ordered { origin, data_type } = &dimension.values else { return Ok(()) };
    let origin = *origin;
    let layout = &schema.layout().dimensions()[index];
    let data = batch.column(schema.dimension_columns()[index]).to_data();
    let outside = |value| RejectReason::OutsideCardinality {
        column: dimension.name.clone(),
        value,
        origin,
        cardinality: dimension.cardinality,
        data_type: data_type.clone(),
    };
    let bad_rows = match data.data_type().primitive_width() {
        Some(1) => place_numbers::<i8>(layout, origin, data.buffer(0), places),
        Some(2) => place_numbers::<i16>(layout, origin, data.buffer(0), places),
        Some(4) => place_numbers::<i32>(layout, origin, data.buffer(0), places),
        _ => place_numbers::<i64>(layout, origin, data.buffer(0), places),
    };
    for (row, value) in bad_rows {
        // A NULL has been rejected as such, whatever lies below it.
        rejections.add(row, || outside(value))?;
    }
    Ok(())
}

/// Adds the bits of numbers, one for each row; the rows whose number has no ordinal.
fn place_numbers<T: Copy + Into<i64>>(
    layout: &DimensionLayout,
    origin: i64,
    values: &[T],
    places: &mut Places,
) -> Vec<(usize, i64)> {
    let mut bad_rows = Vec::new();
    let rows = places.bricks.iter_mut().zip(&mut places.besses).zip(values).take(values.len());
    for (row, ((brick, bess), value)) in rows.enumerate() {
        let value: i64 = (*value).into();
        let ordinal = value.wrapping_sub(origin) as u64;
        if value < origin || ordinal >= layout.cardinality {
            bad_rows.push((row, value));
            continue;
        }
        let (index, offset) = layout.locate(ordinal);
        *brick |= index;
        *bess |= offset;
    }
    bad_rows
}

/// Adds the bits of a dimension with strings. Rejected rows have some code or other.
fn place_codes(layout: &DimensionLayout, codes: &[u32], places: &mut Places) {
    for ((brick, bess), code) in places.bricks.iter_mut().zip(&mut places.besses).zip(codes) {
        let (index, offset) = layout.locate(u64::from(*code));
        *brick |= index;
        *bess |= offset;
    }
}

/// The codes of a column's strings, as far as they have some. Those of rejected rows are not looked up.
fn encode(
    column: usize,
    dictionary: &Dictionary,
    array: &ArrayRef,
    rejections: &BatchRejections<'_>,
) -> EncodedColumn {
    let mut unknown = Vec::new();
    let codes = match array.data_type() {
        DataType::Utf8 => {
            dictionary.codes(good_strings(array.as_string::<i32>().iter(), rejections), &mut unknown)
        }
        DataType::LargeUtf8 => {
            dictionary.codes(good_strings(array.as_string::<i64>().iter(), rejections), &mut unknown)
        }
        DataType::Utf8View => {
            dictionary.codes(good_strings(array.as_string_view().iter(), rejections), &mut unknown)
        }
        _ => return encode_dictionary(column, dictionary, array, rejections),
    };
    EncodedColumn { column, codes, unknown }
}

fn good_strings<'a>(
    strings: impl Iterator<Item = Option<&'a str>>,
    rejections: &BatchRejections<'_>,
) -> impl Iterator<Item = Option<&'a str>> {
    strings.enumerate().map(|(row, string)| string.filter(|_| !rejections.has(row)))
}

/// As [`encode`], with one look-up for each string of the load's own dictionary.
fn encode_dictionary(
    column: usize,
    dictionary: &Dictionary,
    array: &ArrayRef,
    rejections: &BatchRejections<'_>,
) -> EncodedColumn {
    let source = array.as_any_dictionary();
    let keys = source.normalized_keys();
    let mut values: Vec<Option<String>> = Vec::new();
    for_strings(source.values(), &mut |_, string| values.push(string.map(str::to_owned)));
    let mut without_code = Vec::new();
    let codes_of_values = dictionary.codes(values.iter().map(Option::as_deref), &mut without_code);
    let mut has_code = vec![true; values.len()];
    without_code.into_iter().for_each(|value| has_code[value] = false);
    let mut unknown = Vec::new();
    let mut code = |row: usize| {
        if source.keys().is_null(row) || rejections.has(row) {
            return 0;
        }
        if !has_code[keys[row]] {
            unknown.push(row);
        }
        codes_of_values[keys[row]]
    };
    let codes = (0..keys.len()).map(&mut code).collect();
    EncodedColumn { column, codes, unknown }
}

/// The pieces of a load by shard and brick, and its good rows in that order.
fn group(
    layout: &BrickLayout,
    bricks: &[u64],
    rejections: &BatchRejections<'_>,
    shard_count: usize,
) -> (Vec<Piece>, Vec<u32>) {
    let mut groups = Groups::new(layout.id_bits());
    let is_good = |row: &usize| !rejections.has(*row);
    let group_of: Vec<u32> = if rejections.has_none_in_load() {
        bricks.iter().map(|brick| groups.count(*brick)).collect()
    } else {
        (0..bricks.len()).filter(is_good).map(|row| groups.count(bricks[row])).collect()
    };
    let mut sorted: Vec<usize> = (0..groups.members.len()).collect();
    sorted.sort_unstable_by_key(|group| {
        let brick = BrickId::new(groups.members[*group].0);
        (shard_of(brick, shard_count), brick)
    });
    let mut starts = vec![0; sorted.len()];
    let mut pieces = Vec::with_capacity(sorted.len());
    let mut row = 0;
    for group in sorted {
        let (brick, count) = groups.members[group];
        pieces.push(Piece { brick: BrickId::new(brick), rows: row..row + count });
        starts[group] = row;
        row += count;
    }
    let mut order = vec![0_u32; row];
    let rows = (0..bricks.len()).filter(is_good);
    for (row, group) in rows.zip(group_of) {
        let start = &mut starts[group as usize];
        order[*start] = u32::try_from(row).expect("a batch has fewer than 2^32 rows");
        *start += 1;
    }
    (pieces, order)
}

/// The bricks of a load as they come up, with the number of their rows.
struct Groups {
    members: Vec<(u64, usize)>,
    /// Group numbers by brick id, `u32::MAX` for none; empty if ids are too long for that.
    direct: Vec<u32>,
    hashed: HashMap<u64, u32>,
    last: (u64, u32),
}

impl Groups {
    fn new(id_bits: u32) -> Self {
        let direct = if id_bits <= DIRECT_ID_BITS_MAX { vec![u32::MAX; 1 << id_bits] } else { Vec::new() };
        Self { members: Vec::new(), direct, hashed: HashMap::new(), last: (0, u32::MAX) }
    }

    /// Counts a row of `brick`; the brick's group.
    fn count(&mut self, brick: u64) -> u32 {
        if self.last.1 == u32::MAX || self.last.0 != brick {
            self.last = (brick, self.group(brick));
        }
        self.members[self.last.1 as usize].1 += 1;
        self.last.1
    }

    fn group(&mut self, brick: u64) -> u32 {
        let next = u32::try_from(self.members.len()).expect("a batch has fewer than 2^32 rows");
        let slot = match self.direct.get_mut(brick as usize) {
            Some(slot) => slot,
            None => self.hashed.entry(brick).or_insert(u32::MAX),
        };
        if *slot == u32::MAX {
            *slot = next;
            self.members.push((brick, 0));
        }
        *slot
    }
}

fn shard_pieces(pieces: &[Piece], shard_count: usize) -> Vec<std::ops::Range<usize>> {
    let first = |shard| pieces.partition_point(|piece| shard_of(piece.brick, shard_count) < shard);
    (0..shard_count).map(|shard| first(shard)..first(shard + 1)).collect()
}

/// The values of the rows `order`.
fn gather(
    schema: &BrickSchema,
    batch: &RecordBatch,
    places: &Places,
    mut codes: Vec<Option<Vec<u32>>>,
    order: &[u32],
) -> RowValues {
    let bess_bytes = schema.layout().bess_bytes();
    let bess = (bess_bytes > 0).then(|| {
        let values = Values::Bytes(bess_bytes, gather_bess(bess_bytes, &places.besses, order));
        ColumnValues { values, nulls: None }
    });
    let metrics = schema.metric_columns().iter().enumerate().map(|(metric, column)| {
        assert_eq!(schema.place(*column), Place::Metric(metric), "a metric's place is its own");
        let array = batch.column(*column);
        let values = match schema.storages()[metric] {
            Storage::Fixed(width) => Values::Bytes(width, gather_bytes(width, array, order)),
            Storage::Bit => Values::Bits(gather_bits(array.as_boolean().values(), order)),
            Storage::Code => {
                let codes = codes[*column].take().expect("strings have been encoded");
                let bytes = size_of::<u32>();
                Values::Bytes(bytes, Buffer::from_vec(pick(&codes, order)))
            }
        };
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        ColumnValues { values, nulls: nulls.map(|nulls| gather_nulls(&nulls, order)) }
    });
    RowValues { rows: order.len(), bess, columns: metrics.collect() }
}

fn pick<T: Copy>(values: &[T], order: &[u32]) -> Vec<T> {
    order.iter().map(|row| values[*row as usize]).collect()
}

fn gather_bess(bytes: usize, besses: &[u64], order: &[u32]) -> Buffer {
    let besses = order.iter().map(|row| besses[*row as usize]);
    match bytes {
        1 => Buffer::from_vec(besses.map(|bess| bess as u8).collect::<Vec<_>>()),
        2 => Buffer::from_vec(besses.map(|bess| bess as u16).collect::<Vec<_>>()),
        4 => Buffer::from_vec(besses.map(|bess| bess as u32).collect::<Vec<_>>()),
        _ => Buffer::from_vec(besses.collect::<Vec<_>>()),
    }
}

fn gather_bytes(width: usize, array: &ArrayRef, order: &[u32]) -> Buffer {
    fn typed<T: ArrowNativeType>(array: &ArrayRef, order: &[u32]) -> Buffer {
        Buffer::from_vec(pick(array.to_data().buffer::<T>(0), order))
    }
    match width {
        1 => typed::<u8>(array, order),
        2 => typed::<u16>(array, order),
        4 => typed::<u32>(array, order),
        8 => typed::<u64>(array, order),
        16 => typed::<i128>(array, order),
        other => unreachable!("no type of {other} bytes is stored"),
    }
}

fn gather_bits(bits: &BooleanBuffer, order: &[u32]) -> BooleanBuffer {
    BooleanBuffer::collect_bool(order.len(), |index| bits.value(order[index] as usize))
}

fn gather_nulls(nulls: &NullBuffer, order: &[u32]) -> BooleanBuffer {
    BooleanBuffer::collect_bool(order.len(), |index| nulls.is_null(order[index] as usize))
}
