// SPDX-License-Identifier: Apache-2.0
use super::*;
use arrow::array::{Decimal128Array, Float64Array, Int32Array, ListArray, StringViewArray, UInt16Array};
use arrow::datatypes::{Decimal128Type, Int32Type};

fn array(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

fn between(chunk: &ArrayRef, rows: &[u32], new: ArrayRef) -> ColumnPatch {
    let rows = UInt32Array::from(rows.to_vec());
    ColumnPatch::between(&take(chunk, &rows, None).unwrap(), &rows, new).unwrap()
}

/// The chunk's column from this row on, with new values in these rows.
fn patched(chunk: &ArrayRef, rows: &[u32], new: ArrayRef, start: usize) -> ArrayRef {
    let (column, patch) = between(chunk, rows, new).fitted(chunk).unwrap().unwrap();
    patch.put_into(&column.slice(start, column.len() - start), start).unwrap()
}

#[test]
fn values_and_nulls_take_each_others_places() {
    let chunk = array(Int32Array::from(vec![Some(1), None, Some(3), None, Some(5)]));
    let new = || array(Int32Array::from(vec![None, Some(20), Some(30), None]));
    let expected = Int32Array::from(vec![None, Some(20), Some(30), None, Some(5)]);
    assert_eq!(patched(&chunk, &[0, 1, 2, 3], new(), 0).as_primitive::<Int32Type>(), &expected);
    let read = patched(&chunk, &[0, 1, 2, 3], new(), 2);
    assert_eq!(read.as_primitive::<Int32Type>(), &expected.slice(2, 3));
    let full = array(Int32Array::from(vec![1, 2, 3]));
    let expected = Int32Array::from(vec![Some(1), None, Some(3)]);
    let read = patched(&full, &[1], array(Int32Array::from(vec![None::<i32>])), 0);
    assert_eq!(read.as_primitive::<Int32Type>(), &expected);
}

#[test]
fn bits_and_decimals_are_patched() {
    let chunk = array(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]));
    let new = array(BooleanArray::from(vec![Some(false), None]));
    let expected = BooleanArray::from(vec![Some(true), Some(false), Some(false), None]);
    assert_eq!(patched(&chunk, &[1, 3], new, 0).as_boolean(), &expected);
    let decimals = |values: Vec<i128>| Decimal128Array::from(values).with_precision_and_scale(12, 2).unwrap();
    let new = array(decimals(vec![70]));
    let read = patched(&array(decimals(vec![1, 2, 3])), &[2], new, 1);
    assert_eq!(read.as_primitive::<Decimal128Type>(), &decimals(vec![2, 70]));
}

#[test]
fn what_is_as_it_was_is_not_in_a_patch() {
    let chunk = array(Float64Array::from(vec![Some(0.0), None, Some(f64::NAN), Some(1.0)]));
    assert!(between(&chunk, &[0, 1, 2, 3], Arc::clone(&chunk)).is_empty());
    // Zeros of both signs are shown differently.
    let new = array(Float64Array::from(vec![Some(-0.0), None, Some(f64::NAN), Some(2.0)]));
    let patch = between(&chunk, &[0, 1, 2, 3], new);
    assert_eq!(&patch.patch.rows[..], &[0_u32, 3]);
    let (column, patch) = patch.fitted(&chunk).unwrap().unwrap();
    let between_them = column.slice(1, 2);
    assert!(Arc::ptr_eq(&patch.put_into(&between_them, 1).unwrap(), &between_them), "nothing is copied");
}

#[test]
fn texts_and_lists_that_differ_have_no_places() {
    let chunk = array(StringViewArray::from(vec!["a", "b"]));
    assert!(between(&chunk, &[1], array(StringViewArray::from(vec!["b"]))).is_empty());
    let patch = between(&chunk, &[1], array(StringViewArray::from(vec!["c"])));
    assert!(!patch.is_empty() && patch.fitted(&chunk).unwrap().is_none());
    let lists = || array(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1)])]));
    let patch = between(&lists(), &[0], lists());
    assert!(!patch.is_empty() && patch.fitted(&lists()).unwrap().is_none());
}

fn coded(numbers: Vec<Option<u16>>, texts: Vec<String>) -> ArrayRef {
    array(UInt16DictionaryArray::new(numbers.into(), array(StringViewArray::from(texts))))
}

fn texts_behind(coded: &ArrayRef) -> &ArrayRef {
    coded.as_dictionary::<UInt16Type>().values()
}

fn numbers(coded: &ArrayRef) -> &UInt16Array {
    coded.as_dictionary::<UInt16Type>().keys()
}

#[test]
fn new_texts_have_numbers_among_those_of_the_chunk() {
    let chunk = coded(vec![Some(0), Some(1), None, Some(1)], vec!["a".to_owned(), "b".to_owned()]);
    assert!(between(&chunk, &[1, 2], array(StringViewArray::from(vec![Some("b"), None]))).is_empty());

    let known = patched(&chunk, &[0, 2], array(StringViewArray::from(vec!["b", "a"])), 0);
    assert!(Arc::ptr_eq(texts_behind(&known), texts_behind(&chunk)), "the chunk's own texts");
    assert_eq!(numbers(&known), &UInt16Array::from(vec![1, 1, 0, 1]));

    let new = array(StringViewArray::from(vec![Some("c"), None, Some("c"), Some("d")]));
    let patch = between(&chunk, &[0, 1, 2, 3], new);
    let (column, of_column) = patch.fitted(&chunk).unwrap().unwrap();
    let read = of_column.put_into(&column, 0).unwrap();
    assert_eq!(numbers(&read), &UInt16Array::from(vec![Some(2), None, Some(2), Some(3)]));
    let expected = StringViewArray::from(vec!["a", "b", "c", "d"]);
    assert_eq!(texts_behind(&read).as_string_view(), &expected, "each once");
    let (again, _) = patch.fitted(&chunk).unwrap().unwrap();
    assert!(Arc::ptr_eq(texts_behind(&again), texts_behind(&read)), "they are found once");
    let read_anew = coded(vec![Some(0); 4], vec!["d".to_owned()]);
    let (column, of_column) = patch.fitted(&read_anew).unwrap().unwrap();
    let read = of_column.put_into(&column, 0).unwrap();
    let expected = UInt16Array::from(vec![Some(1), None, Some(1), Some(0)]);
    assert_eq!(numbers(&read), &expected, "of the texts as they are read");
}

#[test]
fn few_new_texts_are_not_looked_for_among_many() {
    let texts = |count: u32| (0..count).map(|text| text.to_string()).collect::<Vec<_>>();
    let new = || array(StringViewArray::from(vec!["5"]));
    let chunk = coded(vec![Some(0), Some(7)], texts(16));
    assert_eq!(numbers(&patched(&chunk, &[1], new(), 0)), &UInt16Array::from(vec![0, 5]));
    let chunk = coded(vec![Some(0), Some(7)], texts(17));
    let read = patched(&chunk, &[1], new(), 0);
    assert_eq!(numbers(&read), &UInt16Array::from(vec![0, 17]));
    assert_eq!(texts_behind(&read).as_string_view().value(17), "5");
}

#[test]
fn texts_without_numbers_are_read_beside_the_chunk() {
    let texts = |count: u32| (0..count).map(|text| text.to_string()).collect::<Vec<_>>();
    let new = || array(StringViewArray::from(vec!["x", "y"]));
    let chunk = coded(vec![Some(0), Some(7)], texts(65_534));
    assert!(between(&chunk, &[0, 1], new()).fitted(&chunk).unwrap().is_some());
    let chunk = coded(vec![Some(0), Some(7)], texts(65_535));
    let patch = between(&chunk, &[0, 1], new());
    assert!(patch.fitted(&chunk).unwrap().is_none());
    assert!(patch.fitted(&chunk).unwrap().is_none());
}
