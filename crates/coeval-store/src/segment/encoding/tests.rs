// SPDX-License-Identifier: Apache-2.0
//! Encoded columns come back as they were, take little where they are regular, and are an error where they are damaged.

use super::texts::Texts;
use super::{decode, decode_coded, decode_packed, encode};
use crate::chunk_column::ChunkColumn;
use crate::chunk_stats::column_stats;
use crate::column::ColumnBuilder;
use crate::key_column::KeyColumnBuilder;
use crate::narrow_decimals::narrowed;
use crate::types::{ColumnType, ElementType};
use crate::value::{IntervalValue, ListEncoder, Value};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, NullArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt16Type};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

const TYPES: [ColumnType; 21] = [
    ColumnType::SmallInt,
    ColumnType::Int,
    ColumnType::BigInt,
    ColumnType::Real,
    ColumnType::Double,
    ColumnType::Numeric { precision: 10, scale: 2 },
    ColumnType::Numeric { precision: 38, scale: 5 },
    ColumnType::Boolean,
    ColumnType::Text,
    ColumnType::Bytea,
    ColumnType::Bit(None),
    ColumnType::Date,
    ColumnType::Time,
    ColumnType::Timestamp,
    ColumnType::TimestampTz,
    ColumnType::Interval,
    ColumnType::Uuid,
    ColumnType::PgLsn,
    ColumnType::Array(ElementType::Text),
    ColumnType::Array(ElementType::BigInt),
    ColumnType::Array(ElementType::Uuid),
];

/// How many rows: around those of a word of bits and of a block.
const ROWS: [usize; 10] = [1, 2, 63, 64, 65, 300, 1_023, 1_024, 1_025, 2_500];

/// How the values of a column differ.
#[derive(Clone, Copy)]
enum Spread {
    One,
    Few,
    Narrow,
    Extreme,
    Any,
}

const SPREADS: [Spread; 5] = [Spread::One, Spread::Few, Spread::Narrow, Spread::Extreme, Spread::Any];

fn integer(dice: &mut StdRng, spread: Spread) -> i64 {
    match spread {
        Spread::One => -42,
        Spread::Few => [7, 1_000_000, -3][dice.random_range(0..3)],
        Spread::Narrow => dice.random_range(1_000..2_000),
        Spread::Extreme => [i64::MIN, -1, 0, i64::MAX][dice.random_range(0..4)],
        Spread::Any => dice.random(),
    }
}

fn text(dice: &mut StdRng, spread: Spread) -> String {
    match spread {
        Spread::One => "the only text, which is longer than a view".into(),
        Spread::Few => {
            ["", "a", "twelve bytes", "thirteen byte", "ä long one: öüß"][dice.random_range(0..5)].into()
        }
        Spread::Narrow => dice.random_range(0..1_000).to_string(),
        Spread::Extreme => "long ".repeat(dice.random_range(0..500)),
        Spread::Any => format!("text {} of {}", dice.random::<u64>(), dice.random::<u64>()),
    }
}

fn value(dice: &mut StdRng, ty: ColumnType, spread: Spread) -> Value {
    let number = integer(dice, spread);
    match ty {
        ColumnType::SmallInt => Value::Int16(number as i16),
        ColumnType::Int | ColumnType::Date => Value::Int32(number as i32),
        ColumnType::Real => Value::Float32(number as f32 / 3.0),
        ColumnType::Double => Value::Float64(number as f64 / 7.0),
        ColumnType::Numeric { precision: 38, .. } => Value::Decimal(i128::from(number) << 20),
        ColumnType::Numeric { .. } => Value::Decimal(i128::from(number)),
        ColumnType::Boolean => Value::Boolean(number % 2 == 0),
        ColumnType::Text => Value::from(text(dice, spread)),
        ColumnType::Bytea | ColumnType::Bit(_) => Value::Bytes(text(dice, spread).into_bytes().into()),
        ColumnType::Interval => {
            Value::Interval(IntervalValue { months: 1, days: number as i32, nanoseconds: number })
        }
        ColumnType::Uuid => Value::Uuid((number as u128).to_be_bytes()),
        ColumnType::Array(element) => {
            let mut list = ListEncoder::default();
            for _ in 0..dice.random_range(0..4) {
                list.push(value(dice, element.column_type(), spread).borrow());
            }
            list.value()
        }
        _ => Value::Int64(number),
    }
}

/// A column of this type, with no NULLs, some, or nothing else.
fn column(dice: &mut StdRng, ty: ColumnType, rows: usize) -> ArrayRef {
    let spread = SPREADS[dice.random_range(0..SPREADS.len())];
    let nulls = [0.0, 0.0, 0.01, 0.6, 1.0][dice.random_range(0..5)];
    let mut builder = ColumnBuilder::new(ty, rows);
    for _ in 0..rows {
        match dice.random_bool(nulls) {
            true => builder.push(Value::Null.borrow()),
            false => builder.push(value(dice, ty, spread).borrow()),
        }
    }
    builder.finish()
}

/// What an array takes in memory.
fn memory_of(array: &dyn Array) -> usize {
    let of_nulls = if array.null_count() > 0 { array.len().div_ceil(8) } else { 0 };
    of_nulls
        + match array.data_type() {
            DataType::Utf8View => {
                let texts = array.as_string_view();
                let beside: usize = texts.data_buffers().iter().map(|buffer| buffer.len()).sum();
                size_of_val(&texts.views()[..]) + beside
            }
            DataType::BinaryView => {
                let texts = array.as_binary_view();
                let beside: usize = texts.data_buffers().iter().map(|buffer| buffer.len()).sum();
                size_of_val(&texts.views()[..]) + beside
            }
            DataType::Binary => {
                let texts = array.as_binary::<i32>();
                size_of_val(texts.value_offsets()) + texts.value_data().len()
            }
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                size_of_val(lists.value_offsets()) + memory_of(lists.values().as_ref())
            }
            DataType::Boolean => array.len().div_ceil(8),
            DataType::FixedSizeBinary(width) => array.len() * *width as usize,
            other => array.len() * other.primitive_width().unwrap(),
        }
}

fn encoded(array: &dyn Array) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(array, &mut bytes);
    bytes
}

fn assert_comes_back(array: &ArrayRef, what: &str) {
    let mut bytes = vec![9; 3];
    let memory = encode(array.as_ref(), &mut bytes);
    assert_eq!(bytes[..3], [9; 3], "{what}: what was there stays");
    let decoded = decode(array.data_type(), array.len(), &bytes[3..]);
    let decoded = decoded.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(&decoded, array, "{what}");
    assert_eq!(decoded.data_type(), array.data_type(), "{what}");
    assert_eq!(memory, memory_of(decoded.as_ref()), "{what}: bytes in memory");
}

#[test]
fn columns_of_all_types_come_back_as_they_were() {
    for seed in 0..1_500 {
        let mut dice = StdRng::seed_from_u64(seed);
        let (ty, rows) = (TYPES[dice.random_range(0..TYPES.len())], ROWS[dice.random_range(0..ROWS.len())]);
        let array = column(&mut dice, ty, rows);
        let what = format!("seed {seed}, {rows} rows of {ty}");
        assert_comes_back(&array, &what);
        let start = dice.random_range(0..rows);
        assert_comes_back(&array.slice(start, rows - start), &format!("{what} from {start} on"));
    }
}

#[test]
fn keys_and_dropped_columns_come_back_as_they_were() {
    for width in [1, 3, 4, 7, 12, 17] {
        let mut keys = KeyColumnBuilder::with_capacity(1_500);
        for id in 0..1_500_u32 {
            // Where a key has too few bytes for the number, it is cut: order does not matter here.
            let key: Vec<u8> = id.to_be_bytes().into_iter().cycle().skip(2).take(width).collect();
            keys.push(&key);
        }
        assert_comes_back(&keys.finish().to_array(), &format!("keys of {width} bytes"));
    }
    let mut keys = KeyColumnBuilder::with_capacity(1_500);
    for id in 0..1_500_u32 {
        keys.push(&[&id.to_be_bytes()[..], &b"and so on"[..id as usize % 9]].concat());
    }
    assert_comes_back(&keys.finish().to_array(), "keys of different lengths");
    let dropped: ArrayRef = Arc::new(NullArray::new(77));
    assert!(encoded(dropped.as_ref()).is_empty());
    assert_eq!(&decode(&DataType::Null, 77, &[]).unwrap(), &dropped);
}

#[test]
fn a_double_keeps_every_bit() {
    let bits = [f64::NAN.to_bits() | 5, (-0.0f64).to_bits(), f64::INFINITY.to_bits(), 1, 0];
    let array: ArrayRef =
        Arc::new(Float64Array::from_iter_values((0..2_000).map(|row| f64::from_bits(bits[row % 5]))));
    let decoded = decode(&DataType::Float64, 2_000, &encoded(array.as_ref())).unwrap();
    let decoded = decoded.as_primitive::<arrow::datatypes::Float64Type>();
    assert!((0..2_000).all(|row| decoded.value(row).to_bits() == bits[row % 5]));
}

fn built(ty: ColumnType, rows: usize, value: impl Fn(usize) -> Value) -> ArrayRef {
    let mut builder = ColumnBuilder::new(ty, rows);
    (0..rows).for_each(|row| builder.push(value(row).borrow()));
    builder.finish()
}

#[test]
fn what_is_regular_takes_little() {
    const ROWS: usize = 65_536;
    let bytes = |ty, value: &dyn Fn(usize) -> Value| encoded(built(ty, ROWS, value).as_ref()).len();
    // Nine bytes for each block of 1,024 values.
    assert!(bytes(ColumnType::BigInt, &|_| Value::Int64(i64::MIN)) < 600);
    assert!(bytes(ColumnType::Int, &|_| Value::Null) < 700);
    assert!(bytes(ColumnType::Double, &|_| Value::Float64(0.1)) < 1_300);
    // Ten bits each.
    assert!(bytes(ColumnType::BigInt, &|row| Value::Int64(1 << 60 | row as i64)) < ROWS * 11 / 8);
    let numeric = ColumnType::Numeric { precision: 15, scale: 2 };
    assert!(bytes(numeric, &|row| Value::Decimal((row * 7 % 1_000) as i128)) < ROWS * 11 / 8);
    // Two bits each.
    let modes = ["delivered in person", "by air", "by ship and then by rail"];
    assert!(bytes(ColumnType::Text, &|row| Value::from(modes[row % 3])) < ROWS * 3 / 8);
    // Compressed.
    let named = |row: usize| Value::from(format!("the name of row {row}, longer than a view"));
    assert!(bytes(ColumnType::Text, &named) < ROWS * 20);
    let mut keys = KeyColumnBuilder::with_capacity(ROWS);
    (0..ROWS as u64).for_each(|id| keys.push(&id.to_be_bytes()));
    assert!(encoded(keys.finish().to_array().as_ref()).len() < ROWS * 11 / 8);
}

#[test]
fn what_is_not_regular_takes_little_more_than_an_array() {
    let mut dice = StdRng::seed_from_u64(1);
    let numbers: Vec<i64> = (0..5_000).map(|_| dice.random()).collect();
    let array = built(ColumnType::BigInt, 5_000, |row| Value::Int64(numbers[row]));
    assert_eq!(encoded(array.as_ref()).len(), 2 + 8 * 5_000);
    let array = built(ColumnType::Double, 5_000, |row| Value::Float64(f64::from_bits(numbers[row] as u64)));
    assert_eq!(encoded(array.as_ref()).len(), 2 + 8 * 5_000);
}

#[test]
fn texts_of_a_dictionary_share_its_entries_in_memory() {
    let modes = ["delivered in person", "by air", "by ship and then by rail"];
    let array = built(ColumnType::Text, 4_000, |row| Value::from(modes[row % 3]));
    let mut bytes = Vec::new();
    let memory = encode(array.as_ref(), &mut bytes);
    assert_eq!(memory, 4_000 * 16 + modes.iter().map(|mode| mode.len()).sum::<usize>());
    let read = decode(&DataType::Utf8View, 4_000, &bytes).unwrap();
    assert_eq!(memory, memory_of(read.as_ref()));
    // Fails if more is allocated, and kept, than there are views.
    assert_eq!(memory, read.get_buffer_memory_size());
}

#[test]
fn texts_of_a_dictionary_are_read_as_codes_of_its_entries() {
    const ROWS: usize = 4_000;
    let texts = ["one", "another, longer than a view", "a third"];
    let array = built(ColumnType::Text, ROWS, |row| match row % 7 {
        0 => Value::Null,
        _ => Value::from(texts[row % 3]),
    });
    let bytes = encoded(array.as_ref());
    let read = decode_coded(&DataType::Utf8View, ROWS, &bytes).unwrap();
    // A NULL takes the empty text.
    assert_eq!(read.as_dictionary::<UInt16Type>().values().len(), texts.len() + 1);
    assert_eq!(cast(&read, &DataType::Utf8View).unwrap().to_data(), array.to_data());
    for end in (0..bytes.len()).step_by(7) {
        assert!(decode_coded(&DataType::Utf8View, ROWS, &bytes[..end]).is_err(), "{end} bytes");
    }
    let scanned = decode_packed(&DataType::Utf8View, ROWS, &bytes).unwrap();
    assert!(matches!(scanned, ChunkColumn::Coded(_)), "there are few of them");
    assert_eq!(scanned.array().unwrap().to_data(), array.to_data());
    let different = built(ColumnType::Text, ROWS, |row| Value::from(format!("text {row}")));
    let bytes = encoded(different.as_ref());
    let read = decode_coded(&DataType::Utf8View, ROWS, &bytes).unwrap();
    assert_eq!(read.to_data(), different.to_data(), "a text for each row is no dictionary");
    let scanned = decode_packed(&DataType::Utf8View, ROWS, &bytes).unwrap();
    assert!(matches!(scanned, ChunkColumn::Array(_)));
}

#[test]
fn integers_are_read_in_as_few_bytes_as_all_of_them_need() {
    let count = 3_000;
    let bytes_of = |ty: ColumnType, value: &dyn Fn(usize) -> Value| {
        let array = built(ty, count, value);
        let read = decode_packed(&ty.arrow(), count, &encoded(array.as_ref())).unwrap();
        assert_eq!(&read.array().unwrap(), &array, "{ty}");
        match read {
            ChunkColumn::Packed(packed) => Some(packed.bytes()),
            ChunkColumn::Array(_) | ChunkColumn::Coded(_) => None,
        }
    };
    let price = ColumnType::Numeric { precision: 15, scale: 2 };
    let dear = |row: usize| match row % 7 {
        0 => Value::Null,
        _ => Value::Decimal(row as i128 * 31),
    };
    // And a bit of each that says whether it is there.
    assert_eq!(bytes_of(price, &dear), Some(3_000 * 4 + 375));
    assert_eq!(bytes_of(price, &|row| Value::Decimal(row as i128 % 11)), Some(3_000));
    assert_eq!(bytes_of(price, &|row| Value::Decimal(row as i128 * 1_000_000_007)), Some(3_000 * 8));
    assert_eq!(bytes_of(ColumnType::Date, &|row| Value::Int32(9_000 + row as i32)), Some(3_000 * 2));
    assert_eq!(bytes_of(ColumnType::BigInt, &|row| Value::Int64(-5 - row as i64 % 3)), Some(3_000));
    // Half of a value's bytes would not be enough.
    assert_eq!(bytes_of(ColumnType::SmallInt, &|row| Value::Int16(row as i16)), None);
    assert_eq!(bytes_of(ColumnType::Int, &|row| Value::Int32(row as i32 * 100)), None);
    assert_eq!(bytes_of(ColumnType::BigInt, &|row| Value::Int64(row as i64 * 10_000_000_000)), None);
}

#[test]
fn columns_for_scans_have_the_values_that_arrays_have() {
    for seed in 0..400 {
        let mut dice = StdRng::seed_from_u64(seed);
        let (ty, rows) = (TYPES[dice.random_range(0..TYPES.len())], ROWS[dice.random_range(0..ROWS.len())]);
        let array = column(&mut dice, ty, rows);
        let bytes = encoded(array.as_ref());
        let read = decode_packed(array.data_type(), rows, &bytes).unwrap();
        assert_eq!(&read.array().unwrap(), &array, "seed {seed}, {rows} rows of {ty}");
        let narrow = read.narrowed().unwrap().array().unwrap();
        assert_eq!(&narrow, &narrowed(&array).unwrap(), "seed {seed}, {rows} rows of {ty}");
        for end in (0..bytes.len()).step_by(1 + bytes.len() / 20) {
            let cut_off = decode_packed(array.data_type(), rows, &bytes[..end]);
            assert!(cut_off.is_err(), "seed {seed}, {end} of {} bytes, {ty}", bytes.len());
        }
    }
}

/// No test has 4 GiB of texts. A chunk that had them was written, and could not be read.
#[test]
fn texts_that_one_buffer_does_not_have_are_in_several() {
    let texts = [
        "",
        "the first one, longer than a view",
        "short",
        "the second one, longer than a view",
        "the third one, which is the longest",
    ];
    for (bytes_max, buffers) in [(107, 1), (106, 2), (80, 2), (40, 3)] {
        let bytes = texts.concat().into_bytes();
        let lengths = texts.iter().map(|text| text.len()).collect();
        let made = Texts { bytes, lengths }.into_views_of(bytes_max);
        assert_eq!(made.buffers.len(), buffers);
        assert!(made.buffers.iter().all(|buffer| buffer.len() <= bytes_max));
        let array = StringViewArray::try_new(made.views.into(), made.buffers, None).unwrap();
        assert!(array.iter().flatten().eq(texts), "in buffers of {bytes_max} bytes: {array:?}");
    }
}

/// The examples of `docs/formats.md`. Whoever has to change these bytes changes the version of segments.
#[test]
fn forms_are_written_byte_for_byte() {
    let integers = built(ColumnType::BigInt, 8, |row| Value::Int64(row as i64 + 5));
    let wanted = [0, 1, 5, 0, 0, 0, 0, 0, 0, 0, 3, 0x88, 0xc6, 0xfa, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(encoded(integers.as_ref()), wanted);

    let answers = built(ColumnType::Text, 16, |row| Value::from(["no", "yes"][row % 2]));
    let mut wanted: Vec<u8> = vec![0, 5, 2, 0, 0, 0, 0, 0, 0, 0];
    wanted.extend([2, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0]);
    wanted.extend(b"\x00\x05\0\0\0\0\0\0\0noyes");
    wanted.extend([0, 0, 0, 0, 0, 0, 0, 0, 1, 0xaa, 0xaa, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encoded(answers.as_ref()), wanted);

    let plain = built(ColumnType::Int, 2, |row| if row == 0 { Value::Null } else { Value::Int32(258) });
    let mut wanted: Vec<u8> = vec![1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    wanted.extend([0, 0, 0, 0, 0, 2, 1, 0, 0]);
    assert_eq!(encoded(plain.as_ref()), wanted);
}

#[test]
fn changed_bytes_are_an_error_or_a_column_of_as_many_rows() {
    let (mut refused, mut read) = (0, 0);
    for seed in 0..6_000 {
        let mut dice = StdRng::seed_from_u64(seed);
        let (ty, rows) = (TYPES[dice.random_range(0..TYPES.len())], ROWS[dice.random_range(0..9)]);
        let array = column(&mut dice, ty, rows);
        let mut bytes = encoded(array.as_ref());
        let mut wanted = rows;
        match dice.random_range(0..6) {
            0 => bytes.truncate(dice.random_range(0..bytes.len())),
            1 => wanted = dice.random_range(0..2 * rows),
            2 => wanted = [usize::MAX, usize::MAX / 2, 1 << 40][dice.random_range(0..3)],
            _ => {
                for _ in 0..dice.random_range(1..4) {
                    // What says how the others are to be read stands in front.
                    let end = if dice.random() { bytes.len() } else { bytes.len().min(40) };
                    let place = dice.random_range(0..end);
                    bytes[place] = dice.random();
                }
            }
        }
        match decode(array.data_type(), wanted, &bytes) {
            Err(_) => refused += 1,
            Ok(array) => {
                assert_eq!(array.len(), wanted, "seed {seed}");
                column_stats(array.as_ref());
                read += 1;
            }
        }
    }
    assert!(refused > 1_000 && read > 1_000, "{refused} refused, {read} read");
}
