// SPDX-License-Identifier: Apache-2.0
//! Loads as bytes: what a log record or a flush file keeps of the rows of a load, and how they come back.
//!
//! ```text
//! load     rows u32, pieces u32, each: brick u64, rows u32
//!          bess: bytes for each row u8 (0: none), the bytes
//!          metrics: count u32, each: form u8 (0: bits, else bytes for each row), values, nulls u8 (1: bits follow), bits
//! strings  columns u32, each: first code u32, count u32, each: length u32, UTF-8
//! ```
//! Numbers are little-endian, bits lie from the lowest of each byte. Strings are kept by their codes, so a brick id and
//! a bess mean the same when they come back; the strings themselves are kept once, by the range of codes that is new.
//! Metrics, and columns of strings, that were added later may be missing behind those that are there.
//!
//! What is decoded has been checked as a whole (lengths, widths, codes, brick ids): a row that came from bytes is as
//! good as one that was routed.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, BooleanBufferBuilder};
use arrow::buffer::{BooleanBuffer, Buffer};

use crate::block::RowValues;
use crate::brick_id::{BrickId, shard_of};
use crate::column::{ColumnValues, Values};
use crate::declaration::{Nulls, Storage};
use crate::dictionaries::Dictionaries;
use crate::load::{Piece, RoutedLoad};
use crate::schema::BrickSchema;

/// The bytes are no load of this table: damage that no checksum saw, or a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rows of a brick table are malformed: {what}")]
pub struct MalformedLoad {
    /// What is wrong.
    pub what: &'static str,
}

const fn malformed(what: &'static str) -> MalformedLoad {
    MalformedLoad { what }
}

/// Rows of some block or load.
pub(crate) type Source = (RowValues, Range<usize>);

impl RoutedLoad {
    /// Appends the load as bytes. Cost: a copy of its values.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(encoded_bytes(&self.values, self.pieces.len(), self.rows()));
        encode_pieces(&self.pieces, out);
        let mut sources: Vec<Source> =
            self.own_rows().into_iter().map(|rows| (self.values.clone(), rows)).collect();
        if sources.is_empty() {
            // A load without rows has its columns all the same.
            sources.push((self.values.clone(), 0..0));
        }
        encode_values(&sources, out);
    }

    /// The load in parts, each the rows of one brick as bytes that [`BrickTable::decode`](crate::BrickTable::decode) reads
    /// back as a load. Cost: a copy of its values.
    pub fn encode_by_brick(&self) -> impl Iterator<Item = (BrickId, Vec<u8>)> + '_ {
        self.bricks().zip(self.by_brick()).map(|(brick, part)| {
            let mut bytes = Vec::new();
            part.encode(&mut bytes);
            (brick, bytes)
        })
    }

    /// About as many bytes as the rows of each brick take, in the order of [`bricks`](Self::bricks). NULLs take others besides.
    pub fn bytes_by_brick(&self) -> impl Iterator<Item = usize> + '_ {
        self.pieces.iter().map(|piece| encoded_bytes(&self.values, 1, piece.rows.len()))
    }
}

/// As many bytes as so many rows of these take, in so many pieces, or a few more; NULLs take others besides.
fn encoded_bytes(values: &RowValues, pieces: usize, rows: usize) -> usize {
    /// How many rows there are, in how many pieces, and how many columns.
    const HEAD_BYTES: usize = 16;
    /// The brick of a piece, and its rows.
    const PIECE_BYTES: usize = 12;
    let of_column = |column: &ColumnValues| match &column.values {
        Values::Bytes(width, _) => width * rows,
        Values::Bits(_) => rows.div_ceil(8),
    };
    // Each with its form, and whether there are NULLs.
    let columns = values.bess.iter().chain(&values.columns).map(|column| 2 + of_column(column));
    HEAD_BYTES + pieces * PIECE_BYTES + columns.sum::<usize>()
}

/// Appends rows of one brick as a load.
pub(crate) fn encode_rows(brick: BrickId, sources: &[Source], out: &mut Vec<u8>) {
    let rows = sources.iter().map(|(_, rows)| rows.len()).sum();
    encode_pieces(&[Piece { brick, rows: 0..rows }], out);
    encode_values(sources, out);
}

fn encode_pieces(pieces: &[Piece], out: &mut Vec<u8>) {
    put_u32(out, pieces.iter().map(|piece| piece.rows.len()).sum());
    put_u32(out, pieces.len());
    for piece in pieces {
        out.extend_from_slice(&piece.brick.get().to_le_bytes());
        put_u32(out, piece.rows.len());
    }
}

fn encode_values(sources: &[Source], out: &mut Vec<u8>) {
    let Some((first, _)) = sources.first() else {
        out.push(0);
        put_u32(out, 0);
        return;
    };
    match &first.bess {
        None => out.push(0),
        Some(_) => {
            let bess =
                |values: &RowValues| values.bess.clone().expect("rows of one table are laid out alike");
            let parts = sources.iter().map(|(values, rows)| (bess(values), rows.clone()));
            encode_column_values(&parts.collect::<Vec<_>>(), out);
        }
    }
    put_u32(out, first.columns.len());
    for metric in 0..first.columns.len() {
        let parts = sources.iter().map(|(values, rows)| (values.columns[metric].clone(), rows.clone()));
        let parts: Vec<_> = parts.collect();
        encode_column_values(&parts, out);
        encode_nulls(&parts, out);
    }
}

fn encode_column_values(parts: &[(ColumnValues, Range<usize>)], out: &mut Vec<u8>) {
    let width = match parts[0].0.values {
        Values::Bytes(width, _) => width,
        Values::Bits(_) => 0,
    };
    out.push(u8::try_from(width).expect("a value takes at most 16 bytes"));
    let mut bits = BooleanBufferBuilder::new(0);
    for (part, rows) in parts {
        match &part.values {
            Values::Bytes(width, bytes) => {
                out.extend_from_slice(&bytes[rows.start * width..rows.end * width]);
            }
            Values::Bits(values) => bits.append_buffer(&values.slice(rows.start, rows.len())),
        }
    }
    if width == 0 {
        put_bits(&bits.finish(), out);
    }
}

fn encode_nulls(parts: &[(ColumnValues, Range<usize>)], out: &mut Vec<u8>) {
    let has_null = |(part, rows): &(ColumnValues, Range<usize>)| {
        let nulls = part.nulls.as_ref();
        nulls.is_some_and(|nulls| nulls.slice(rows.start, rows.len()).count_set_bits() > 0)
    };
    if !parts.iter().any(has_null) {
        out.push(0);
        return;
    }
    out.push(1);
    let mut bits = BooleanBufferBuilder::new(0);
    for (part, rows) in parts {
        match &part.nulls {
            Some(nulls) => bits.append_buffer(&nulls.slice(rows.start, rows.len())),
            None => bits.append_n(rows.len(), false),
        }
    }
    put_bits(&bits.finish(), out);
}

fn put_bits(bits: &BooleanBuffer, out: &mut Vec<u8>) {
    let bytes = bits.len().div_ceil(8);
    let start = out.len();
    out.resize(start + bytes, 0);
    for position in bits.set_indices() {
        out[start + position / 8] |= 1 << (position % 8);
    }
}

fn put_u32(out: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).expect("a load has fewer than 2^32 rows");
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends, for each string column, the strings whose codes are from `first` (one for each string column) on. The
/// number of strings that each column has then.
pub(crate) fn encode_strings(
    schema: &BrickSchema,
    dictionaries: &Dictionaries,
    first: &[u32],
    out: &mut Vec<u8>,
) -> Vec<u32> {
    let values: Vec<_> = (0..schema.columns().len())
        .filter_map(|column| dictionaries.get(column))
        .map(|dictionary| dictionary.values())
        .collect();
    assert_eq!(values.len(), first.len(), "one code for each string column");
    put_u32(out, values.len());
    for (strings, first) in values.iter().zip(first) {
        let first = (*first as usize).min(strings.len());
        put_u32(out, first);
        put_u32(out, strings.len() - first);
        for code in first..strings.len() {
            let string = strings.value(code);
            put_u32(out, string.len());
            out.extend_from_slice(string.as_bytes());
        }
    }
    values.iter().map(|strings| u32::try_from(strings.len()).expect("codes have 32 bits")).collect()
}

/// Enters strings under the codes that they had; those that are there already must be the same. What follows them.
pub(crate) fn decode_strings<'a>(
    schema: &BrickSchema,
    dictionaries: &Dictionaries,
    bytes: &'a [u8],
) -> Result<&'a [u8], MalformedLoad> {
    let mut reader = Reader { bytes, kept: None };
    let columns = (0..schema.columns().len()).filter_map(|column| dictionaries.get(column));
    let columns: Vec<_> = columns.collect();
    let count = reader.u32()? as usize;
    if count > columns.len() {
        return Err(malformed("more string columns than there are"));
    }
    for dictionary in columns.into_iter().take(count) {
        let first = reader.u32()?;
        for code in 0..reader.u32()? {
            let length = reader.u32()? as usize;
            let string = std::str::from_utf8(reader.slice(length)?);
            let string = string.map_err(|_| malformed("a string that is not UTF-8"))?;
            let expected = first.checked_add(code);
            if !expected.is_some_and(|expected| dictionary.restore(expected, string)) {
                return Err(malformed("a string with the code of another one"));
            }
        }
    }
    Ok(reader.bytes)
}

/// Bytes that are read back as a load.
#[derive(Clone, Copy)]
pub(crate) enum LoadBytes<'a> {
    /// The load gets a copy of its values.
    Copied(&'a [u8]),
    /// The load keeps them, and its values lie in them.
    Kept(&'a Buffer),
}

/// Reads a load back, in the order of `shard_count` shards. What follows it.
pub(crate) fn decode_load<'a>(
    schema: &Arc<BrickSchema>,
    dictionaries: &Dictionaries,
    shard_count: usize,
    bytes: LoadBytes<'a>,
) -> Result<(RoutedLoad, &'a [u8]), MalformedLoad> {
    let mut reader = match bytes {
        LoadBytes::Copied(bytes) => Reader { bytes, kept: None },
        LoadBytes::Kept(kept) => Reader { bytes: kept.as_slice(), kept: Some(kept) },
    };
    let rows = reader.u32()? as usize;
    let mut pieces = Vec::new();
    let mut row = 0_usize;
    for _ in 0..reader.u32()? {
        let brick = BrickId::new(reader.u64()?);
        let count = reader.u32()? as usize;
        if count == 0 || count > rows - row {
            return Err(malformed("pieces that are not the load's rows"));
        }
        pieces.push(Piece { brick, rows: row..row + count });
        row += count;
    }
    if row != rows {
        return Err(malformed("pieces that are not the load's rows"));
    }
    let bess = reader.values(rows)?.map(|values| ColumnValues { values, nulls: None });
    let mut columns = Vec::new();
    let count = reader.u32()? as usize;
    if count > schema.storages().len() {
        return Err(malformed("more columns than there are"));
    }
    for storage in &schema.storages()[..count] {
        let values = match (storage, reader.u8()?) {
            (Storage::Bit, 0) => Values::Bits(reader.bits(rows)?),
            (Storage::Fixed(width), form) if usize::from(form) == *width => reader.bytes_of(*width, rows)?,
            (Storage::Code, 4) => reader.bytes_of(4, rows)?,
            _ => return Err(malformed("values of another width")),
        };
        let nulls = if reader.u8()? == 0 { None } else { Some(reader.bits(rows)?) };
        columns.push(ColumnValues { values, nulls });
    }
    let mut values = RowValues { rows, bess, columns };
    check_dimensions(schema, dictionaries, &pieces, &values)?;
    check_metrics(schema, dictionaries, &values)?;
    values.columns.extend((count..schema.storages().len()).map(|metric| schema.missing(metric, rows)));
    pieces.sort_unstable_by_key(|piece| (shard_of(piece.brick, shard_count), piece.brick));
    let first = |shard| pieces.partition_point(|piece| shard_of(piece.brick, shard_count) < shard);
    let shard_pieces = (0..shard_count).map(|shard| first(shard)..first(shard + 1)).collect();
    let schema = Arc::clone(schema);
    Ok((RoutedLoad { schema, values, pieces, shard_pieces }, reader.bytes))
}

fn check_dimensions(
    schema: &BrickSchema,
    dictionaries: &Dictionaries,
    pieces: &[Piece],
    values: &RowValues,
) -> Result<(), MalformedLoad> {
    let layout = schema.layout();
    let bess = match (&values.bess, layout.bess_bytes()) {
        (None, 0) => None,
        (Some(ColumnValues { values: Values::Bytes(width, bytes), .. }), expected) if *width == expected => {
            Some((*width, bytes))
        }
        (None, _) if values.rows == 0 => None,
        _ => return Err(malformed("offsets of another width")),
    };
    let bess_of = |row: usize| match bess {
        None => 0,
        Some((width, bytes)) => {
            let mut number = [0; 8];
            number[..width].copy_from_slice(&bytes[row * width..(row + 1) * width]);
            u64::from_le_bytes(number)
        }
    };
    for (index, dimension) in layout.dimensions().iter().enumerate() {
        let strings = dictionaries.get(schema.dimension_columns()[index]);
        let limit = strings.map_or(dimension.cardinality, |strings| strings.count().into());
        for piece in pieces {
            if !layout.may_be(piece.brick) {
                return Err(malformed("a brick that is none of the table's"));
            }
            let first = dimension.first(piece.brick);
            // Mostly there is a value for each offset that its bits can hold: then no row has to be looked at.
            let has_values_for_all = first.saturating_add(dimension.offset(u64::MAX)) < limit;
            let is_inside = |row| first + dimension.offset(bess_of(row)) < limit;
            if !has_values_for_all && !piece.rows.clone().all(is_inside) {
                return Err(malformed("a dimension outside of its values"));
            }
        }
    }
    Ok(())
}

fn check_metrics(
    schema: &BrickSchema,
    dictionaries: &Dictionaries,
    values: &RowValues,
) -> Result<(), MalformedLoad> {
    for (metric, (column, values)) in schema.metric_columns().iter().zip(&values.columns).enumerate() {
        let nulls = values.nulls.as_ref();
        if schema.metric(metric).nulls == Nulls::Refused
            && nulls.is_some_and(|nulls| nulls.count_set_bits() > 0)
        {
            return Err(malformed("a NULL where there is none"));
        }
        if let (Some(dictionary), Values::Bytes(_, codes)) = (dictionaries.get(*column), &values.values) {
            let count = dictionary.count();
            let is_known = |(row, code): (usize, &[u8])| {
                let code = u32::from_le_bytes(code.try_into().expect("codes have four bytes"));
                code < count || nulls.is_some_and(|nulls| nulls.value(row))
            };
            if !codes.chunks_exact(4).enumerate().all(is_known) {
                return Err(malformed("a string without its code"));
            }
        }
    }
    Ok(())
}

/// Bytes that are read from the front.
struct Reader<'a> {
    bytes: &'a [u8],
    /// What they are the end of, if values are to lie in that.
    kept: Option<&'a Buffer>,
}

impl<'a> Reader<'a> {
    fn slice(&mut self, length: usize) -> Result<&'a [u8], MalformedLoad> {
        let (slice, rest) = self.bytes.split_at_checked(length).ok_or(malformed("it ends too early"))?;
        self.bytes = rest;
        Ok(slice)
    }

    fn u8(&mut self) -> Result<u8, MalformedLoad> {
        Ok(self.slice(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, MalformedLoad> {
        Ok(u32::from_le_bytes(self.slice(4)?.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> Result<u64, MalformedLoad> {
        Ok(u64::from_le_bytes(self.slice(8)?.try_into().expect("eight bytes")))
    }

    /// The offsets of the dimensions, if there are any.
    fn values(&mut self, rows: usize) -> Result<Option<Values>, MalformedLoad> {
        match self.u8()? {
            0 => Ok(None),
            width @ (1 | 2 | 4 | 8) => self.bytes_of(width.into(), rows).map(Some),
            _ => Err(malformed("offsets of another width")),
        }
    }

    fn bytes_of(&mut self, width: usize, rows: usize) -> Result<Values, MalformedLoad> {
        let length = width.checked_mul(rows).ok_or(malformed("it ends too early"))?;
        Ok(Values::Bytes(width, self.buffer(length)?))
    }

    fn bits(&mut self, rows: usize) -> Result<BooleanBuffer, MalformedLoad> {
        Ok(BooleanBuffer::new(self.buffer(rows.div_ceil(8))?, 0, rows))
    }

    /// So many bytes. They may lie anywhere: the values of a load are read byte by byte, and copied into bricks.
    fn buffer(&mut self, length: usize) -> Result<Buffer, MalformedLoad> {
        let left = self.bytes.len();
        let slice = self.slice(length)?;
        Ok(match self.kept {
            Some(kept) => kept.slice_with_length(kept.len() - left, length),
            None => Buffer::from(slice),
        })
    }
}

#[cfg(test)]
mod tests;
