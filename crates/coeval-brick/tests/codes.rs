// SPDX-License-Identifier: Apache-2.0
//! Tables whose strings have codes of somebody else's: rows lie where those with the strings would.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::datatypes::DataType;
use coeval_brick::{
    BrickId, BrickSchema, BrickTable, Column, Dimension, DimensionValues, Metric, Nulls, SchemaError, Shards,
};

const STRINGS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn schema() -> BrickSchema {
    let dimension = |name: &str, values, cardinality, range_size| {
        Column::Dimension(Dimension { name: name.into(), values, cardinality, range_size })
    };
    let metric =
        |name: &str, data_type, nulls| Column::Metric(Metric { name: name.into(), data_type, nulls });
    let days = DimensionValues::Ordered { data_type: DataType::Int32, origin: 0 };
    let columns = vec![
        metric("note", DataType::Utf8, Nulls::Allowed),
        dimension("city", DimensionValues::String, 5, 2),
        dimension("day", days, 6, 3),
        metric("value", DataType::Int64, Nulls::Allowed),
    ];
    BrickSchema::new(columns).unwrap()
}

fn table(schema: BrickSchema) -> BrickTable {
    BrickTable::new(schema, Arc::new(Shards::start(2, 4).unwrap()))
}

fn batch(note: ArrayRef, city: ArrayRef) -> RecordBatch {
    let rows = note.len();
    let days: Int32Array = (0..rows).map(|row| Some((row % 6) as i32)).collect();
    let values: Int64Array = (0..rows).map(|row| (row % 4 != 1).then_some(row as i64)).collect();
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("note", note, true),
        ("city", city, false),
        ("day", Arc::new(days), false),
        ("value", Arc::new(values), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

#[test]
fn rows_with_codes_lie_where_those_with_strings_do() {
    let notes: Vec<Option<usize>> = (0..40).map(|row| (row % 3 != 0).then_some(row % 5)).collect();
    let cities: Vec<usize> = (0..40).map(|row| row * 7 % 5).collect();
    let plain = table(schema());
    // In this order the strings get the codes that follow.
    let all: ArrayRef = Arc::new(StringArray::from(STRINGS.to_vec()));
    plain.route(&batch(Arc::clone(&all), all), 0).unwrap();
    let note: StringArray = notes.iter().map(|note| note.map(|code| STRINGS[code])).collect();
    let city: StringArray = cities.iter().map(|code| Some(STRINGS[*code])).collect();
    let strings = plain.route(&batch(Arc::new(note), Arc::new(city)), 0).unwrap().load;

    let coded = table(schema().coded().unwrap());
    let note: UInt32Array = notes.iter().map(|note| note.map(|code| code as u32)).collect();
    let city: Int64Array = cities.iter().map(|code| Some(*code as i64)).collect();
    let codes = coded.route(&batch(Arc::new(note), Arc::new(city)), 0).unwrap().load;

    let by_brick =
        |load: &coeval_brick::RoutedLoad| load.encode_by_brick().collect::<Vec<(BrickId, Vec<u8>)>>();
    assert_eq!(by_brick(&strings), by_brick(&codes));
    assert!(codes.bricks().count() > 4);
}

#[test]
fn a_load_says_which_codes_it_has() {
    let coded = table(schema().coded().unwrap());
    let note: UInt32Array = [Some(4_000_000_000_u32), None, Some(7), Some(7)].into_iter().collect();
    let city: Int64Array = [Some(4_i64), Some(1), Some(4), Some(0)].into_iter().collect();
    let load = coded.route(&batch(Arc::new(note), Arc::new(city)), 0).unwrap().load;
    assert_eq!(load.codes(0), Some(vec![7, 4_000_000_000]));
    assert_eq!(load.codes(1), Some(vec![0, 1, 4]));
    for ((brick, bytes), same) in load.encode_by_brick().zip(load.by_brick()) {
        let (part, rest) = coded.decode(&bytes).unwrap();
        assert!(rest.is_empty() && part.bricks().eq([brick]));
        assert_eq!((same.codes(0), same.codes(1)), (part.codes(0), part.codes(1)));
        let codes = part.codes(1).unwrap();
        assert!(!codes.is_empty() && codes.iter().all(|code| [0, 1, 4].contains(code)), "of {brick}");
    }
    // Of bricks that do not lie together, and not of those between them.
    assert_eq!(load.bricks().count(), 3);
    let ends = load.part(&[0, 2]);
    let mut bytes = Vec::new();
    ends.encode(&mut bytes);
    let (decoded, _) = coded.decode(&bytes).unwrap();
    assert_eq!((ends.codes(0), ends.codes(1)), (decoded.codes(0), decoded.codes(1)));
    assert!(ends.codes(1) != load.codes(1) && ends.rows() < load.rows());
    let (no_note, no_city) = (UInt32Array::from(vec![0_u32; 0]), Int64Array::from(vec![0_i64; 0]));
    let nothing = coded.route(&batch(Arc::new(no_note), Arc::new(no_city)), 0).unwrap().load;
    assert_eq!((nothing.codes(0), nothing.codes(1)), (Some(Vec::new()), Some(Vec::new())));
}

/// More values than there are codes: bytes may have one of those all the same.
#[test]
fn an_ordinal_of_more_than_32_bits_is_no_code() {
    let (values, cardinality, range_size) = (DimensionValues::String, 1 << 40, 1 << 20);
    let city = Dimension { name: "city".into(), values, cardinality, range_size };
    let coded = table(BrickSchema::new(vec![Column::Dimension(city)]).unwrap().coded().unwrap());
    let codes_of = |number: i64| {
        let city: ArrayRef = Arc::new(Int64Array::from(vec![number]));
        coded.route(&RecordBatch::try_from_iter([("city", city)]).unwrap(), 0).unwrap().load.codes(0)
    };
    assert_eq!(codes_of(i64::from(u32::MAX)), Some(vec![u32::MAX]));
    assert_eq!(codes_of(i64::from(u32::MAX) + 1), None);
}

#[test]
fn what_rows_without_a_column_have_stays_unless_it_is_a_string() {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let coded = schema().with_missing(3, &number).coded().unwrap();
    assert!(coded == schema().coded().unwrap().with_missing(3, &number));
    let string: ArrayRef = Arc::new(StringArray::from(vec!["old"]));
    let refused = schema().with_missing(0, &string).coded().map(drop);
    assert_eq!(refused, Err(SchemaError::StringWithoutCode { column: "note".into() }));
}
