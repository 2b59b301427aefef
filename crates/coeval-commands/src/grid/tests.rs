// SPDX-License-Identifier: Apache-2.0
//! Tests of the printed tables.

use super::*;
use crate::cells::{Alignment, Listing, ResultCells};
use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringViewArray};
use arrow::datatypes::{Field, Schema};
use chrono_tz::Tz;
use coeval::RowSet;
use std::sync::Arc;

fn rows(columns: &[(&str, ArrayRef)]) -> RowSet {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
    RowSet::new(schema, vec![batch])
}

fn text(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringViewArray::from(values.to_vec()))
}

fn int(values: &[Option<i32>]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn aligned(rows: &RowSet) -> String {
    let mut out = Vec::new();
    print_aligned(&mut out, &ResultCells::new(rows, Tz::UTC), Colours::Off).unwrap();
    String::from_utf8(out).unwrap()
}

fn expanded(rows: &RowSet) -> String {
    let mut out = Vec::new();
    print_expanded(&mut out, &ResultCells::new(rows, Tz::UTC), Colours::Off).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn numbers_stand_right_and_text_left_below_centred_names() {
    let rows = rows(&[
        ("id", int(&[Some(1), Some(-200)])),
        ("a name", text(&[Some("ann"), Some("bob the second")])),
        ("x", Arc::new(Float64Array::from(vec![0.5, 10.0]))),
    ]);
    let expected = "  id  |     a name     |  x  \n\
                    ------+----------------+-----\n\
                    \x20   1 | ann            | 0.5\n\
                    \x20-200 | bob the second |  10\n\
                    (2 rows)\n";
    assert_eq!(aligned(&rows), expected);
}

#[test]
fn null_is_not_the_empty_text() {
    let rows = rows(&[("a", int(&[None])), ("b", text(&[Some("")])), ("c", text(&[None]))]);
    let expected = "  a   | b |  c   \n\
                    ------+---+------\n\
                    \x20NULL |   | NULL\n\
                    (1 row)\n";
    assert_eq!(aligned(&rows), expected);
    let mut out = Vec::new();
    print_aligned(&mut out, &ResultCells::new(&rows, Tz::UTC), Colours::On).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("\x1b[2mNULL\x1b[0m"));
}

#[test]
fn wide_characters_take_two_places_and_accents_none() {
    let rows = rows(&[
        ("town", text(&[Some("東京"), Some("Zu\u{308}rich"), Some("Oslo")])),
        ("n", int(&[Some(1), Some(2), Some(3)])),
    ]);
    let expected = " \x20town  | n \n\
                    --------+---\n\
                    \x20東京   | 1\n\
                    \x20Zu\u{308}rich | 2\n\
                    \x20Oslo   | 3\n\
                    (3 rows)\n";
    assert_eq!(aligned(&rows), expected);
}

#[test]
fn text_of_several_lines_goes_on_below() {
    let rows = rows(&[
        ("note", text(&[Some("one\nthree"), Some("x")])),
        ("n", int(&[Some(1), Some(2)])),
        ("tail", text(&[Some("a\nb"), None])),
    ]);
    let expected = " note  | n | tail \n\
                    -------+---+------\n\
                    \x20one  +| 1 | a   +\n\
                    \x20three |   | b\n\
                    \x20x     | 2 | NULL\n\
                    (2 rows)\n";
    assert_eq!(aligned(&rows), expected);
}

#[test]
fn a_terminal_gets_nothing_to_obey() {
    let rows = rows(&[("a", text(&[Some("\x1b[31mred\x07"), Some("a\tb"), Some("c\r")]))]);
    let printed = aligned(&rows);
    assert!(
        printed.contains("\\x1B[31mred\\x07") && printed.contains("a       b") && printed.contains("c\\r")
    );
    assert!(!printed.contains('\x1b') && !printed.contains('\t'));
}

#[test]
fn no_rows_are_a_header_and_no_columns_are_lines() {
    assert_eq!(aligned(&rows(&[("a", int(&[]))])), " a \n---\n(0 rows)\n");
    assert_eq!(expanded(&rows(&[("a", int(&[]))])), "(0 rows)\n");
}

#[test]
fn expanded_rows_have_a_line_for_each_column() {
    let rows = rows(&[("id", int(&[Some(1), Some(2)])), ("comment", text(&[Some("a\nb"), None]))]);
    let expected = "-[ RECORD 1 ]------\n\
                    id      | 1\n\
                    comment | a+\n\
                    \x20       | b\n\
                    -[ RECORD 2 ]------\n\
                    id      | 2\n\
                    comment | NULL\n";
    assert_eq!(expanded(&rows), expected);
}

#[test]
fn the_width_is_that_of_the_widest_line() {
    let rows = rows(&[("id", int(&[Some(1)])), ("comment", text(&[Some("abc")]))]);
    let header = aligned(&rows).lines().next().unwrap().len();
    assert_eq!(aligned_width(&ResultCells::new(&rows, Tz::UTC)).unwrap(), header);
}

#[test]
fn listings_print_like_results() {
    let mut listing = Listing::new(&[("Name", Alignment::Left), ("Rows", Alignment::Right)]);
    listing.push(["a".to_owned(), "10".to_owned()]);
    let mut out = Vec::new();
    print_aligned(&mut out, &listing, Colours::Off).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), " Name | Rows \n------+------\n a    |   10\n(1 row)\n");
}

#[test]
fn a_text_may_be_wider_than_a_width_of_a_format() {
    let wide = "x".repeat(70_000);
    let printed = aligned(&rows(&[("a", text(&[Some(&wide), Some("y")])), ("b", int(&[Some(1), None]))]));
    assert_eq!(printed.lines().nth(2).unwrap(), format!(" {wide} |    1"));
    assert_eq!(printed.lines().nth(3).unwrap().len(), " ".len() + wide.len() + " | NULL".len());
}
