// SPDX-License-Identifier: Apache-2.0
use super::{APPEND_BYTES, DefinitionError, RoutedRows, RowsOf, RowsRefused, TEXTS_TOGETHER_BYTES, Tables};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use bytes::Bytes;
use coeval_brick::{BrickSchema, Column, Dimension, DimensionValues, Metric, Nulls, SchemaError};
use coeval_txn::cluster::{BrickAddress, Code, DictionaryId, NodeId};
use std::sync::Arc;

fn city() -> Column {
    let values = DimensionValues::String;
    Column::Dimension(Dimension { name: "city".into(), values, cardinality: 20, range_size: 10 })
}

fn metric(name: &str, data_type: DataType, nulls: Nulls) -> Column {
    Column::Metric(Metric { name: name.into(), data_type, nulls })
}

fn schema(more: Vec<Column>) -> BrickSchema {
    let columns = [vec![city(), metric("value", DataType::Int64, Nulls::Refused)], more].concat();
    BrickSchema::new(columns).unwrap()
}

fn batch(cities: &[&str]) -> RecordBatch {
    let city: ArrayRef = Arc::new(StringArray::from(cities.to_vec()));
    let value: ArrayRef = Arc::new((0..cities.len()).map(|row| Some(row as i64)).collect::<Int64Array>());
    RecordBatch::try_from_iter([("city", city), ("value", value)]).unwrap()
}

#[test]
fn columns_of_texts_have_dictionaries() {
    let tables = Tables::start(1).unwrap();
    let before = tables.declarations();
    tables.declare(7, schema(vec![])).unwrap();
    tables.declare(7, schema(vec![])).unwrap();
    assert_eq!(tables.declarations(), before + 1, "nothing is new the second time");
    assert!(tables.is_declared_as(7, &schema(vec![])) && !tables.is_declared_as(8, &schema(vec![])));
    let note = metric("note", DataType::Utf8, Nulls::Allowed);
    tables.declare(7, schema(vec![note])).unwrap();
    assert!(!tables.is_declared_as(7, &schema(vec![])), "it has one column more by now");
    tables.declare(8, schema(vec![])).unwrap();
    let dictionary = |table, column| DictionaryId { table, column };
    let expected = [(dictionary(7, 0), 20), (dictionary(7, 2), u32::MAX), (dictionary(8, 0), 20)];
    assert_eq!(tables.dictionaries(), expected);
    assert_eq!(tables.declarations(), before + 3);
}

#[test]
fn rows_that_came_without_a_column_have_no_text_in_it() {
    let tables = Tables::start(1).unwrap();
    tables.declare(7, schema(vec![])).unwrap();
    let note = |nulls| metric("note", DataType::Utf8, nulls);
    let refused = tables.declare(7, schema(vec![note(Nulls::Refused)]));
    assert_eq!(refused, Err(DefinitionError::TextForOldRows { table: 7, column: "note".into() }));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["old"]));
    let refused = tables.declare(7, schema(vec![note(Nulls::Allowed)]).with_missing(2, &text));
    let error = SchemaError::StringWithoutCode { column: "note".into() };
    assert_eq!(refused, Err(DefinitionError::Schema { table: 7, error }));
    // Of a table that is new there are no such rows.
    tables.declare(8, schema(vec![note(Nulls::Refused)])).unwrap();
}

#[test]
fn rows_have_codes_and_lie_where_these_say() {
    let tables = Tables::start(1).unwrap();
    tables.declare(7, schema(vec![])).unwrap();
    let rows = batch(&["Oslo", "Bonn", "Oslo"]);
    assert_eq!(tables.rows(7, &rows), Err(RowsRefused::HasTexts(7)));
    let with_texts = tables.rows_with_texts(7, &rows).unwrap();
    let codes = [vec![Some(Code::new(12)), Some(Code::new(3))]];
    let rows: Vec<RoutedRows> = with_texts.routed(&codes).unwrap().by_brick().collect();
    for rows in &rows {
        // They are those that whoever gets the rows finds.
        assert_eq!(rows.codes().unwrap(), tables.check(rows.brick, &rows.bytes, RowsOf::OneBrick).unwrap().1);
    }
    let mut by_brick: Vec<(BrickAddress, Bytes)> = rows.into_iter().map(RoutedRows::sent).collect();
    by_brick.sort();
    let dictionary = DictionaryId { table: 7, column: 0 };
    for ((at, rows), (brick, code, count)) in by_brick.iter().zip([(0, 3, 1), (1, 12, 2)]) {
        assert_eq!(*at, BrickAddress { table: 7, brick });
        let (load, codes) = tables.check(*at, rows, RowsOf::OneBrick).unwrap();
        assert_eq!((load.rows(), codes.len()), (count, 1));
        assert_eq!((codes[0].dictionary, &codes[0].codes[..]), (dictionary, &[Code::new(code)][..]));
    }
    assert_eq!(by_brick.len(), 2);
}

/// To break it: have `together` go by bytes alone, or leave out the bound of these.
#[test]
fn rows_of_bricks_on_the_same_nodes_are_appended_together() {
    let tables = Tables::start(2).unwrap();
    let values = DimensionValues::Ordered { data_type: DataType::Int64, origin: 0 };
    let slot = Column::Dimension(Dimension { name: "slot".into(), values, cardinality: 8, range_size: 1 });
    let columns = vec![slot, metric("value", DataType::Int64, Nulls::Refused)];
    tables.declare(7, BrickSchema::new(columns).unwrap()).unwrap();
    let routed = |rows: i64| {
        let slot: ArrayRef = Arc::new((0..rows).map(|row| Some(row % 8)).collect::<Int64Array>());
        let value: ArrayRef = Arc::new((0..rows).map(Some).collect::<Int64Array>());
        let batch = RecordBatch::try_from_iter([("slot", slot), ("value", value)]).unwrap();
        tables.rows_with_texts(7, &batch).unwrap().routed(&[]).unwrap()
    };
    let batch = routed(80);
    let mut bricks: Vec<BrickAddress> = batch.bricks().collect();
    let on = |brick: &BrickAddress| vec![NodeId::new(1 + u32::from(brick.brick.is_multiple_of(3)))];
    let together = batch.together(&bricks.iter().map(on).collect::<Vec<_>>());
    assert_eq!(together.len(), 2);
    let mut seen = Vec::new();
    for rows in &together {
        let (load, _) = tables.check(rows.brick, &rows.bytes, RowsOf::SeveralBricks).unwrap();
        let of_rows = load.bricks().map(|brick| BrickAddress { table: 7, brick: brick.get() });
        let of_rows: Vec<BrickAddress> = of_rows.collect();
        assert!(of_rows.contains(&rows.brick) && of_rows.iter().all(|brick| on(brick) == on(&rows.brick)));
        assert_eq!([load.rows(), rows.load.rows()], [10 * of_rows.len(); 2]);
        assert!(tables.check(rows.brick, &rows.bytes, RowsOf::OneBrick).is_err());
        let other = together.iter().map(|rows| rows.brick).find(|brick| !of_rows.contains(brick)).unwrap();
        let refused = tables.check(other, &rows.bytes, RowsOf::SeveralBricks).map(drop);
        assert_eq!(refused, Err(RowsRefused::OtherBrick { table: 7, brick: other.brick }));
        seen.extend(of_rows);
    }
    bricks.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen, bricks);
    // Each brick has a quarter of what is appended together, and a few bytes more.
    let large = routed(i64::try_from(APPEND_BYTES / 4).unwrap()).together(&vec![vec![NodeId::new(1)]; 8]);
    assert_eq!(large.len(), 3);
    assert!(large.iter().all(|rows| rows.bytes.len() <= APPEND_BYTES));
}

/// To break it: leave out the bound. Rows that fit into messages brick by brick would not go into one with all texts.
#[test]
fn rows_with_many_bytes_of_texts_are_appended_brick_by_brick() {
    let tables = Tables::start(1).unwrap();
    tables.declare(7, schema(vec![])).unwrap();
    let appends = |text_bytes: usize| {
        let cities: Vec<String> = (0..20).map(|city| format!("{city:0text_bytes$}")).collect();
        let rows = batch(&cities.iter().map(String::as_str).collect::<Vec<_>>());
        let codes: Vec<Option<Code>> = (0..20).map(|code| Some(Code::new(code))).collect();
        let routed = tables.rows_with_texts(7, &rows).unwrap().routed(&[codes]).unwrap();
        assert_eq!(routed.bricks().count(), 2);
        routed.together(&[vec![NodeId::new(1)], vec![NodeId::new(1)]]).len()
    };
    assert_eq!([2, TEXTS_TOGETHER_BYTES / 20 + 1].map(appends), [1, 2]);
}

#[test]
fn columns_that_are_not_the_tables_are_refused() {
    let tables = Tables::start(1).unwrap();
    tables.declare(7, schema(vec![])).unwrap();
    let value: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let one = RecordBatch::try_from_iter([("city", Arc::clone(&value))]).unwrap();
    let other = RecordBatch::try_from_iter([("city", Arc::clone(&value)), ("value", value)]).unwrap();
    for (batch, why) in [(one, "1 columns"), (other, "Int64")] {
        let refused = tables.rows_with_texts(7, &batch).map(drop).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let refused = tables.rows_with_texts(9, &batch(&["Oslo"])).map(drop);
    assert_eq!(refused, Err(RowsRefused::NoTable(9)));
}

/// To break it: have `forget` only take the definition away. A table of that number could be declared again, as another one.
#[test]
fn a_table_that_is_gone_stays_gone() {
    let tables = Tables::start(1).unwrap();
    tables.declare(7, schema(vec![])).unwrap();
    tables.forget(7);
    tables.forget(8);
    for table in [7, 8] {
        assert_eq!(tables.declare(table, schema(vec![])), Err(DefinitionError::Forgotten { table }));
        assert!(!tables.has(table) && tables.is_known(table) && tables.is_forgotten(table));
        let refused = tables.rows_with_texts(table, &batch(&["Oslo"])).map(drop);
        assert_eq!(refused, Err(RowsRefused::NoTable(table)));
    }
    assert!(!tables.is_known(9));
}
