// SPDX-License-Identifier: Apache-2.0

use super::*;
use arrow::datatypes::Int32Type;
use datafusion::common::ScalarValue;

fn lists(rows: &[Option<&[Option<i32>]>]) -> ColumnarValue {
    let rows = rows.iter().map(|row| row.map(<[_]>::to_vec));
    ColumnarValue::Array(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows)))
}

fn called(told: Told, args: Vec<ColumnarValue>, rows: usize) -> ArrayRef {
    let function = ArrayFunction::new(told);
    let ty = function.return_type(&[]).unwrap();
    let fields = args.iter().map(|arg| Arc::new(Field::new("a", arg.data_type(), true))).collect();
    let arguments = ScalarFunctionArgs {
        args,
        arg_fields: fields,
        number_rows: rows,
        return_field: Arc::new(Field::new("r", ty, true)),
        config_options: Arc::default(),
    };
    function.invoke_with_args(arguments).unwrap().to_array(rows).unwrap()
}

#[test]
fn null_is_contained_in_nothing() {
    let left = || lists(&[Some(&[Some(1), None]), Some(&[]), None, Some(&[Some(2), Some(3)])]);
    let right = || lists(&[Some(&[None]), Some(&[]), Some(&[]), Some(&[Some(3)])]);
    let contains = called(Told::Contains, vec![left(), right()], 4);
    let expected = BooleanArray::from(vec![Some(false), Some(true), None, Some(true)]);
    assert_eq!(contains.as_boolean(), &expected);
    let overlaps = called(Told::Overlaps, vec![left(), right()], 4);
    let expected = BooleanArray::from(vec![Some(false), Some(false), None, Some(true)]);
    assert_eq!(overlaps.as_boolean(), &expected);
}

#[test]
fn a_place_is_counted_from_one_and_null_is_found() {
    let among = || lists(&[Some(&[Some(5), None, Some(5)]), Some(&[]), None]);
    let int = |value: Option<i32>| ColumnarValue::Scalar(ScalarValue::Int32(value));
    let found = called(Told::Position, vec![among(), int(Some(5))], 3);
    assert_eq!(found.as_primitive(), &Int32Array::from(vec![Some(1), None, None]));
    let found = called(Told::Position, vec![among(), int(Some(5)), int(Some(2))], 3);
    assert_eq!(found.as_primitive(), &Int32Array::from(vec![Some(3), None, None]));
    let found = called(Told::Position, vec![among(), int(None)], 3);
    assert_eq!(found.as_primitive(), &Int32Array::from(vec![Some(2), None, None]));
}

#[test]
fn an_element_is_missing_where_it_was_not_found_and_no_null_may_be_it() {
    let among = lists(&[Some(&[Some(1)]), Some(&[Some(1), None]), Some(&[]), None, Some(&[Some(2)])]);
    let found = ColumnarValue::Array(Arc::new(BooleanArray::from(vec![false, false, false, false, true])));
    let missing = called(Told::Missing, vec![found, among], 5);
    let expected = BooleanArray::from(vec![Some(true), None, Some(true), None, Some(false)]);
    assert_eq!(missing.as_boolean(), &expected);
}
