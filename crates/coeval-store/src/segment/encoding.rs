// SPDX-License-Identifier: Apache-2.0
//! How a column of a chunk lies in a segment file: in a form that is chosen from its values, and of which the array is made
//! when the column is read.
//!
//! # Forms
//! | form | of what | when |
//! |---|---|---|
//! | plain | values of one width, as Arrow has them | nothing else saves a quarter |
//! | integers (`packed.rs`) | integers, days, times, and decimals of which all fit into 64 bits | it saves a quarter |
//! | words (`words.rs`) | keys of one length, floating-point numbers, intervals, uuids, other decimals | it saves a quarter |
//! | bits | booleans, 64 of them as an integer | always |
//! | texts (`texts.rs`) | texts, bytes, numbers of any number of digits, keys of different lengths; compressed if that saves a quarter | |
//! | dictionary (`texts.rs`) | texts and bytes | it is smaller than the texts as they are |
//! | lists | arrays: the lengths as integers, then the elements as a column | always |
//!
//! Which values are there, in front of that, is a byte (0: all of them; 1: some), and for 1 the bits. A NULL takes the value
//! before it, or the empty text, so that it makes nothing wider.
//!
//! # In memory
//! The array has Arrow's usual layout. Texts of a dictionary share its entries, so they take 16 bytes each and the entries
//! once. Whoever groups by texts gets the entries of a dictionary and which of them each row has ([`decode_coded`]): two bytes a row. Scans
//! get integers in as few bytes each as all of them need, and few texts as codes ([`decode_packed`]), and make arrays of the rows that they
//! read.
//!
//! # Damage
//! Checksums are compared before anything is decoded. Whatever the bytes are, decoding gives an array or an error. Lengths are
//! compared with the bytes that are there before memory is taken for them: a byte never becomes more than some 2,000 of them.
//! Arrow checks UTF-8, of a dictionary once for each entry.

mod cursor;
mod packed;
mod texts;
mod words;

use crate::chunk_column::ChunkColumn;
use crate::packed_column::PackedColumn;
use arrow::array::{
    Array, ArrayDataBuilder, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BinaryViewArray,
    BooleanArray, LargeBinaryArray, ListArray, NullArray, UInt16Array, UInt16DictionaryArray, UInt32Array,
    make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, FieldRef, Int16Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use cursor::Cursor;
use packed::{pack, unpack, unpack_offsets};
use std::sync::Arc;
use texts::{Dictionary, Texts, Views, bytes_beside_views, put_texts, take_codes, take_dictionary};
use words::{Order, put_words, take_words};

const PLAIN: u8 = 0;
const INTEGERS: u8 = 1;
const WORDS: u8 = 2;
const BITS: u8 = 3;
const TEXTS: u8 = 4;
const DICTIONARY: u8 = 5;
const LISTS: u8 = 6;

/// The bytes of a view of a text.
const VIEW_BYTES: usize = size_of::<u128>();

/// Appends a column of a chunk. Returns how many bytes the array takes that is made of it.
///
/// # Panics
/// If no column of a chunk has its type.
pub(crate) fn encode(array: &dyn Array, out: &mut Vec<u8>) -> usize {
    let rows = array.len();
    if *array.data_type() == DataType::Null {
        return 0;
    }
    put_nulls(array, out);
    let of_values = match array.data_type() {
        DataType::Boolean => {
            out.push(BITS);
            put_bits(array.as_boolean().values(), out);
            rows.div_ceil(8)
        }
        DataType::Utf8View => {
            let texts = array.as_string_view();
            put_views(&texts_of(array, |row| texts.value(row).as_bytes()), out)
        }
        DataType::BinaryView => {
            let texts = array.as_binary_view();
            put_views(&texts_of(array, |row| texts.value(row)), out)
        }
        DataType::Binary => {
            let texts = array.as_binary::<i32>();
            out.push(TEXTS);
            let texts = texts_of(array, |row| texts.value(row));
            put_texts(&texts, out);
            (rows + 1) * size_of::<i32>() + texts.iter().map(|text| text.len()).sum::<usize>()
        }
        DataType::LargeBinary => {
            let numbers = array.as_binary::<i64>();
            out.push(TEXTS);
            let numbers = texts_of(array, |row| numbers.value(row));
            put_texts(&numbers, out);
            (rows + 1) * size_of::<i64>() + numbers.iter().map(|number| number.len()).sum::<usize>()
        }
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.value_offsets();
            let lengths: Vec<i64> = offsets.windows(2).map(|pair| i64::from(pair[1] - pair[0])).collect();
            out.push(LISTS);
            pack(&lengths, out);
            let (first, end) = (offsets[0] as usize, offsets[rows] as usize);
            let of_elements = encode(lists.values().slice(first, end - first).as_ref(), out);
            size_of_val(offsets) + of_elements
        }
        _ => put_fixed(array, out),
    };
    of_values + array.nulls().filter(|nulls| nulls.null_count() > 0).map_or(0, |_| rows.div_ceil(8))
}

/// The array of so many rows that these bytes are.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn decode(data_type: &DataType, rows: usize, bytes: &[u8]) -> Result<ArrayRef, String> {
    let mut cursor = Cursor::new(bytes);
    let array = take(data_type, rows, &mut cursor)?;
    at_its_end(&cursor).map(|()| array)
}

/// As [`decode`], but texts of a dictionary stay what they are, `Dictionary(UInt16, Utf8View)`, if 16 bits number its entries.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn decode_coded(data_type: &DataType, rows: usize, bytes: &[u8]) -> Result<ArrayRef, String> {
    if *data_type == DataType::Utf8View {
        let mut cursor = Cursor::new(bytes);
        let nulls = take_nulls(&mut cursor, rows)?;
        if cursor.byte()? == DICTIONARY
            && let Some((entries, codes)) = take_codes(&mut cursor, rows)?
        {
            at_its_end(&cursor)?;
            let entries = view_array(data_type, entries, None)?;
            return made(UInt16DictionaryArray::try_new(UInt16Array::new(codes.into(), nulls), entries));
        }
    }
    decode(data_type, rows, bytes)
}

/// Whether a column of texts with so many bytes in its file has few texts: different ones take more than two bytes each, however well they
/// are compressed.
pub(crate) fn has_bytes_of_few_texts(bytes: u64, rows: usize) -> bool {
    bytes <= rows as u64 * 2
}

/// As [`decode`], but integers of which all fit into few bytes stay in these, and few texts stay a dictionary.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn decode_packed(data_type: &DataType, rows: usize, bytes: &[u8]) -> Result<ChunkColumn, String> {
    if let Some(bytes_max) = PackedColumn::offset_bytes_max(data_type) {
        let mut cursor = Cursor::new(bytes);
        let nulls = take_nulls(&mut cursor, rows)?;
        if cursor.byte()? == INTEGERS
            && let Some((least, offsets)) = unpack_offsets(&mut cursor, rows, bytes_max)?
        {
            at_its_end(&cursor)?;
            let packed = PackedColumn::new(data_type.clone(), least, offsets, nulls);
            return Ok(ChunkColumn::Packed(packed));
        }
    }
    if has_bytes_of_few_texts(bytes.len() as u64, rows) {
        let read = decode_coded(data_type, rows, bytes)?;
        return Ok(match read.data_type() {
            DataType::Dictionary(_, _) => ChunkColumn::Coded(read),
            _ => ChunkColumn::Array(read),
        });
    }
    decode(data_type, rows, bytes).map(ChunkColumn::Array)
}

fn at_its_end(cursor: &Cursor<'_>) -> Result<(), String> {
    match cursor.rest().is_empty() {
        true => Ok(()),
        false => Err("a column goes on behind its values".to_owned()),
    }
}

fn take(data_type: &DataType, rows: usize, cursor: &mut Cursor<'_>) -> Result<ArrayRef, String> {
    if *data_type == DataType::Null {
        return Ok(Arc::new(NullArray::new(rows)));
    }
    let nulls = take_nulls(cursor, rows)?;
    let form = cursor.byte()?;
    match (form, data_type) {
        (PLAIN | INTEGERS | WORDS, _) => take_fixed(form, data_type, rows, nulls, cursor),
        (BITS, DataType::Boolean) => Ok(Arc::new(BooleanArray::new(take_bits(cursor, rows)?, nulls))),
        (TEXTS, DataType::Binary) => {
            let Texts { bytes, lengths } = Texts::take(cursor, rows)?;
            made(BinaryArray::try_new(offsets_of(lengths)?, Buffer::from_vec(bytes), nulls))
        }
        (TEXTS, DataType::LargeBinary) => {
            let Texts { bytes, lengths } = Texts::take(cursor, rows)?;
            made(LargeBinaryArray::try_new(
                OffsetBuffer::from_lengths(lengths),
                Buffer::from_vec(bytes),
                nulls,
            ))
        }
        (TEXTS, _) => view_array(data_type, Texts::take(cursor, rows)?, nulls),
        (DICTIONARY, _) => {
            let (entries, codes) = take_dictionary(cursor, rows)?;
            let entries = view_array(data_type, entries, None)?;
            let codes = UInt32Array::new(codes.into(), nulls);
            arrow::compute::take(&entries, &codes, None).map_err(|error| error.to_string())
        }
        (LISTS, DataType::List(item)) => take_lists(item, rows, nulls, cursor),
        _ => Err(of_another_form(data_type)),
    }
}

fn made(array: Result<impl Array + 'static, ArrowError>) -> Result<ArrayRef, String> {
    match array {
        Ok(array) => Ok(Arc::new(array)),
        Err(error) => Err(error.to_string()),
    }
}

fn of_another_form(data_type: &DataType) -> String {
    format!("a form that no column of type {data_type} has")
}

fn put_nulls(array: &dyn Array, out: &mut Vec<u8>) {
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => out.push(0),
        Some(nulls) => {
            out.push(1);
            put_bits(nulls.inner(), out);
        }
    }
}

fn take_nulls(cursor: &mut Cursor<'_>, rows: usize) -> Result<Option<NullBuffer>, String> {
    match cursor.byte()? {
        0 => Ok(None),
        1 => take_bits(cursor, rows).map(|bits| Some(NullBuffer::new(bits))),
        _ => Err("neither whether all values are there nor which".to_owned()),
    }
}

/// As integers of 64 bits each.
fn put_bits(bits: &BooleanBuffer, out: &mut Vec<u8>) {
    let chunks = bits.bit_chunks();
    let words = chunks.iter_padded().take(bits.len().div_ceil(64));
    pack(&words.map(|word| word as i64).collect::<Vec<_>>(), out);
}

fn take_bits(cursor: &mut Cursor<'_>, count: usize) -> Result<BooleanBuffer, String> {
    let words = unpack(cursor, count.div_ceil(64), |word| word as u64)?;
    Ok(BooleanBuffer::new(Buffer::from_vec(words), 0, count))
}

/// The text of each row; the empty one where it is NULL.
fn texts_of<'a>(array: &dyn Array, text: impl Fn(usize) -> &'a [u8]) -> Vec<&'a [u8]> {
    (0..array.len()).map(|row| if array.is_null(row) { b"".as_slice() } else { text(row) }).collect()
}

/// Appends what will be views. Returns the bytes that they take.
fn put_views(texts: &[&[u8]], out: &mut Vec<u8>) -> usize {
    let beside = match Dictionary::of(texts) {
        Some(dictionary) => {
            out.push(DICTIONARY);
            dictionary.put(out);
            bytes_beside_views(dictionary.entries())
        }
        None => {
            out.push(TEXTS);
            put_texts(texts, out);
            bytes_beside_views(texts)
        }
    };
    texts.len() * VIEW_BYTES + beside
}

fn view_array(data_type: &DataType, texts: Texts, nulls: Option<NullBuffer>) -> Result<ArrayRef, String> {
    match data_type {
        DataType::Utf8View => texts.into_strings(nulls).map(|strings| Arc::new(strings) as ArrayRef),
        DataType::BinaryView => {
            let Views { views, buffers } = texts.into_views();
            made(BinaryViewArray::try_new(ScalarBuffer::from(views), buffers, nulls))
        }
        _ => Err(of_another_form(data_type)),
    }
}

fn take_lists(
    item: &FieldRef,
    rows: usize,
    nulls: Option<NullBuffer>,
    cursor: &mut Cursor<'_>,
) -> Result<ArrayRef, String> {
    let offsets = offsets_of(unpack(cursor, rows, |length| length as usize)?)?;
    let elements = offsets.last().map_or(0, |&end| end as usize);
    let elements = take(item.data_type(), elements, cursor)?;
    made(ListArray::try_new(Arc::clone(item), offsets, elements, nulls))
}

/// Where values of these lengths begin.
fn offsets_of(lengths: Vec<usize>) -> Result<OffsetBuffer<i32>, String> {
    let sum = lengths.iter().try_fold(0usize, |sum, length| sum.checked_add(*length));
    match sum.map(i32::try_from) {
        Some(Ok(_)) => Ok(OffsetBuffer::from_lengths(lengths)),
        _ => Err("lengths beyond what a column may have".to_owned()),
    }
}

/// Appends values of one width. Returns their bytes.
fn put_fixed(array: &dyn Array, out: &mut Vec<u8>) -> usize {
    let (width, order) = layout(array.data_type()).expect("a column has a type that columns have");
    let data = array.to_data();
    let plain = &data.buffers()[0][data.offset() * width..][..array.len() * width];
    let start = out.len();
    if let Some(integers) = integers_of(array) {
        out.push(INTEGERS);
        pack(&integers, out);
    } else {
        out.push(WORDS);
        put_words(plain, width, order, out);
    }
    if out.len() - start > plain.len() / 4 * 3 {
        out.truncate(start);
        out.push(PLAIN);
        out.extend_from_slice(plain);
    }
    plain.len()
}

fn take_fixed(
    form: u8,
    data_type: &DataType,
    rows: usize,
    nulls: Option<NullBuffer>,
    cursor: &mut Cursor<'_>,
) -> Result<ArrayRef, String> {
    let (width, order) = layout(data_type).ok_or_else(|| of_another_form(data_type))?;
    let values = match form {
        INTEGERS => take_integers(data_type, rows, cursor)?,
        WORDS => take_words(cursor, rows, width, order)?,
        _ => {
            let bytes = rows.checked_mul(width).ok_or("more values than any memory has")?;
            Buffer::from(cursor.take(bytes)?)
        }
    };
    let data = ArrayDataBuilder::new(data_type.clone()).len(rows).nulls(nulls).add_buffer(values).build();
    data.map(make_array).map_err(|error| error.to_string())
}

/// The width of the values of a type, and how they are cut into words; `None` if they have none.
fn layout(data_type: &DataType) -> Option<(usize, Order)> {
    match data_type {
        DataType::FixedSizeBinary(width) => {
            let width = usize::try_from(*width).ok().filter(|&width| width > 0)?;
            Some((width, Order::HighestFirst))
        }
        _ => Some((data_type.primitive_width()?, Order::LowestFirst)),
    }
}

/// The values as integers, if they are of a type that is kept so and all fit.
fn integers_of(array: &dyn Array) -> Option<Vec<i64>> {
    Some(match array.data_type() {
        DataType::Int16 => primitives_of::<Int16Type>(array, i64::from),
        DataType::Int32 => primitives_of::<Int32Type>(array, i64::from),
        DataType::Date32 => primitives_of::<Date32Type>(array, i64::from),
        DataType::Int64 => primitives_of::<Int64Type>(array, |value| value),
        DataType::Time64(_) => primitives_of::<Time64MicrosecondType>(array, |value| value),
        DataType::Timestamp(_, _) => primitives_of::<TimestampMicrosecondType>(array, |value| value),
        DataType::Decimal128(_, _) => {
            let fit = |value: i128| i64::try_from(value).is_ok();
            if !array.as_primitive::<Decimal128Type>().iter().flatten().all(fit) {
                return None;
            }
            primitives_of::<Decimal128Type>(array, |value| value as i64)
        }
        _ => return None,
    })
}

/// What `integer` makes of each value; where there is none, of the one before.
fn primitives_of<T: ArrowPrimitiveType>(array: &dyn Array, integer: impl Fn(T::Native) -> i64) -> Vec<i64> {
    let array = array.as_primitive::<T>();
    let Some(nulls) = array.nulls() else {
        return array.values().iter().map(|&value| integer(value)).collect();
    };
    let mut last = nulls.valid_indices().next().map_or(0, |row| integer(array.value(row)));
    let next = |(&value, is_valid): (&T::Native, bool)| {
        if is_valid {
            last = integer(value);
        }
        last
    };
    array.values().iter().zip(nulls.iter()).map(next).collect()
}

/// The buffer of an array of a type that is kept as integers.
fn take_integers(data_type: &DataType, rows: usize, cursor: &mut Cursor<'_>) -> Result<Buffer, String> {
    match data_type {
        DataType::Int16 => unpack(cursor, rows, |value| value as i16).map(Buffer::from_vec),
        DataType::Int32 | DataType::Date32 => {
            unpack(cursor, rows, |value| value as i32).map(Buffer::from_vec)
        }
        DataType::Int64 | DataType::Time64(_) | DataType::Timestamp(_, _) => {
            unpack(cursor, rows, |value| value).map(Buffer::from_vec)
        }
        DataType::Decimal128(_, _) => unpack(cursor, rows, i128::from).map(Buffer::from_vec),
        _ => Err(of_another_form(data_type)),
    }
}

#[cfg(test)]
mod tests;
