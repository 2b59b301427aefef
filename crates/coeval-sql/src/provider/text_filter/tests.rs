// SPDX-License-Identifier: Apache-2.0
//! Filters asked of texts and of rows say the same, whatever texts are there that no row has.

use super::{TextFilter, is_of_text};
use arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, StringViewArray, UInt16Array, UInt16DictionaryArray,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, Schema, UInt16Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, Literal, in_list, is_not_null, is_null, not,
};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

fn column() -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new("word", 1))
}

fn text(text: &str) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(ScalarValue::Utf8View(Some(text.to_owned()))))
}

fn binary(left: Arc<dyn PhysicalExpr>, op: Operator, right: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(left, op, right))
}

/// Rows whose second column has these numbers of these texts.
fn rows(numbers: &[Option<u16>], texts: &ArrayRef) -> RecordBatch {
    let numbers: UInt16Array = numbers.iter().copied().collect();
    let coded = Arc::new(UInt16DictionaryArray::try_new(numbers.clone(), Arc::clone(texts)).unwrap());
    RecordBatch::try_from_iter_with_nullable([
        ("number", Arc::new(numbers) as ArrayRef, true),
        ("word", coded as ArrayRef, true),
    ])
    .unwrap()
}

/// Which rows pass a filter, by the text of each.
fn model(rows: &RecordBatch, passes: impl Fn(Option<&str>) -> bool) -> Vec<bool> {
    let coded = rows.column(1).as_dictionary::<UInt16Type>();
    let texts = coded.values().as_string_view();
    let text = |number: u16| texts.is_valid(number.into()).then(|| texts.value(number.into()));
    coded.keys().iter().map(|number| passes(number.and_then(text))).collect()
}

#[test]
fn texts_are_asked_once_and_rows_have_their_answers() {
    let list: Vec<Arc<dyn PhysicalExpr>> = vec![text("b"), text("longer than a view")];
    let schema = Schema::new(vec![
        Field::new("number", DataType::UInt16, true),
        Field::new("word", DataType::Utf8View, true),
    ]);
    type Passes = fn(Option<&str>) -> bool;
    let filters: [(Arc<dyn PhysicalExpr>, Passes); 6] = [
        (binary(column(), Operator::NotEq, text("")), |text| text.is_some_and(|text| !text.is_empty())),
        (binary(column(), Operator::GtEq, text("b")), |text| text.is_some_and(|text| text >= "b")),
        (is_null(column()).unwrap(), |text| text.is_none()),
        (is_not_null(column()).unwrap(), |text| text.is_some()),
        (not(binary(column(), Operator::Eq, text("a"))).unwrap(), |text| {
            text.is_some_and(|text| text != "a")
        }),
        (in_list(column(), list, &false, &schema).unwrap(), |text| {
            matches!(text, Some("b" | "longer than a view"))
        }),
    ];
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(["unused", "a", "", "b"]));
    let others: ArrayRef = Arc::new(StringViewArray::from(vec![Some("longer than a view"), None, Some("b")]));
    let batches = [
        rows(&[Some(3), Some(1), None, Some(2), Some(1)], &texts),
        rows(&[Some(2), Some(2)], &texts),
        rows(&[Some(0), Some(1), None, Some(2)], &others),
    ];
    for (filter, passes) in filters {
        let mut asked = TextFilter::of(&filter, &schema, &[1]).unwrap().expect("it is of its kind");
        for batch in &batches {
            let expected = model(batch, passes);
            let found = asked.passing(batch, None).unwrap();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter}");
            let among = BooleanBuffer::collect_bool(expected.len(), |row| row % 2 == 0);
            let found = asked.passing(batch, Some(&among)).unwrap();
            let expected: Vec<bool> = expected.iter().zip(&among).map(|(one, other)| *one && other).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter}");
        }
    }
}

#[test]
fn what_may_fail_or_reads_more_is_asked_of_rows() {
    let number: Arc<dyn PhysicalExpr> = Arc::new(Column::new("number", 0));
    let cast: Arc<dyn PhysicalExpr> = Arc::new(CastExpr::new(column(), DataType::UInt16, None));
    for filter in [
        binary(cast, Operator::Eq, Arc::clone(&number)),
        binary(binary(column(), Operator::Eq, text("a")), Operator::Or, is_null(number).unwrap()),
        binary(text("a"), Operator::Eq, text("b")),
        binary(column(), Operator::RegexMatch, text("(")),
    ] {
        assert!(!is_of_text(&filter, 1), "{filter}");
    }
}
