// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::column::ColumnBuilder;
use crate::types::ColumnType;

fn list(elements: &[Value]) -> Value {
    let mut encoder = ListEncoder::default();
    elements.iter().for_each(|element| encoder.push(element.borrow()));
    encoder.value()
}

fn samples() -> Vec<(ElementType, Vec<Value>)> {
    let interval = |months, days| Value::Interval(IntervalValue { months, days, nanoseconds: -7 });
    vec![
        (ElementType::Int, vec![]),
        (ElementType::Int, vec![Value::Int32(-1), Value::Null, Value::Int32(i32::MAX)]),
        (ElementType::SmallInt, vec![Value::Int16(3)]),
        (ElementType::BigInt, vec![Value::Int64(i64::MIN)]),
        (ElementType::Double, vec![Value::Float64(-2.5), Value::Float64(1e300)]),
        (ElementType::Real, vec![Value::Float32(0.25)]),
        (ElementType::Boolean, vec![Value::Boolean(true), Value::Boolean(false)]),
        (ElementType::Text, vec![Value::from(""), Value::from("a\0b, \"c\""), Value::Null]),
        (ElementType::Varchar(3), vec![Value::from("abc")]),
        (ElementType::Bytea, vec![Value::Bytes([0, 255, 0].into())]),
        (ElementType::Numeric { precision: 10, scale: 2 }, vec![Value::Decimal(-1_234)]),
        (ElementType::Numeric { precision: 38, scale: 10 }, vec![Value::Decimal(i128::MAX / 2)]),
        (ElementType::Timestamp, vec![Value::Int64(5)]),
        (ElementType::TimestampTz, vec![Value::Int64(-5)]),
        (ElementType::Date, vec![Value::Int32(19_000)]),
        (ElementType::Time, vec![Value::Int64(1)]),
        (ElementType::Uuid, vec![Value::Uuid([9; 16])]),
        (ElementType::Interval, vec![interval(1, 0), interval(0, 30), Value::Null]),
        (ElementType::Jsonb, vec![Value::from("{}")]),
    ]
}

#[test]
fn elements_come_back_from_rows_and_from_columns() {
    for (element, elements) in samples() {
        let value = list(&elements);
        let ValueRef::List(encoded) = value.borrow() else { panic!("a list") };
        assert_eq!(encoded.elements(element), elements, "{element:?}");
        assert!(check_list(&encoded.encoded(), element));

        let mut builder = ColumnBuilder::new(ColumnType::Array(element), 0);
        [Value::Null, value.clone(), list(&[])].iter().for_each(|value| builder.push(value.borrow()));
        let column = builder.finish();
        assert_eq!(*column.data_type(), ColumnType::Array(element).arrow());
        let found: Vec<Value> = (0..3).map(|row| value_at(&column, row).to_owned()).collect();
        assert_eq!(found, [Value::Null, value.clone(), list(&[])], "{element:?}");
        let ValueRef::List(cell) = value_at(&column, 1) else { panic!("a list") };
        assert_eq!(cell.elements(element), elements);
        assert_eq!(cell, encoded);
    }
}

#[test]
fn a_slice_of_a_column_has_its_own_rows() {
    let mut builder = ColumnBuilder::new(ColumnType::Array(ElementType::Int), 0);
    let rows: Vec<Value> = (0..5).map(|row| list(&vec![Value::Int32(row); row as usize])).collect();
    rows.iter().for_each(|row| builder.push(row.borrow()));
    let slice = builder.finish().slice(2, 2);
    assert_eq!([value_at(&slice, 0).to_owned(), value_at(&slice, 1).to_owned()], rows[2..4]);
}

#[test]
fn arrays_are_ordered_as_postgresql_orders_them() {
    let int = |elements: &[Option<i32>]| {
        let values: Vec<Value> = elements.iter().map(|element| Value::from(*element)).collect();
        list(&values)
    };
    let ascending = [
        int(&[]),
        int(&[Some(-1)]),
        int(&[Some(1)]),
        int(&[Some(1), Some(0)]),
        int(&[Some(1), None]),
        int(&[Some(2)]),
        int(&[None]),
        int(&[None, Some(1)]),
    ];
    assert!(ascending.windows(2).all(|pair| pair[0] < pair[1] && pair[0].borrow() < pair[1].borrow()));
    let key = |value: &Value| {
        let mut writer = KeyWriter::new();
        writer.push(value.borrow());
        writer.push(ValueRef::Int32(0));
        writer.finish()
    };
    assert!(ascending.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])));
}

#[test]
fn damaged_bytes_are_found() {
    for (element, elements) in samples() {
        let bytes = list(&elements);
        let Value::List(bytes) = bytes else { panic!("a list") };
        for end in 1..bytes.len() {
            let ends = elements.len() > 1;
            assert!(!check_list(&bytes[..end], element) || ends, "{element:?} cut at {end}");
        }
        let longer = [&bytes[..], &[7]].concat();
        assert!(!check_list(&longer, element));
    }
}
