// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::value::{AnyNumber, Value};
use proptest::prelude::*;

fn any_value() -> impl Strategy<Value = (Physical, Value)> {
    prop_oneof![
        any::<bool>().prop_map(|v| (Physical::Boolean, Value::Boolean(v))),
        any::<i16>().prop_map(|v| (Physical::Int16, Value::Int16(v))),
        any::<i32>().prop_map(|v| (Physical::Int32, Value::Int32(v))),
        any::<i64>().prop_map(|v| (Physical::Int64, Value::Int64(v))),
        any::<i64>().prop_map(|v| (Physical::DecimalShort, Value::Decimal(i128::from(v)))),
        any::<i128>().prop_map(|v| (Physical::DecimalLong, Value::Decimal(v))),
        ".{0,12}".prop_map(|v| (Physical::Text, Value::from(v))),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|v| (Physical::Bytes, Value::Bytes(v.into()))),
        any::<[u8; 16]>().prop_map(|v| (Physical::Uuid, Value::Uuid(v))),
        any::<(i32, i32, i64)>().prop_map(|(months, days, nanoseconds)| {
            (Physical::Interval, Value::Interval(IntervalValue { months, days, nanoseconds }))
        }),
        any::<u16>().prop_map(|scale| (Physical::Number, Value::Number(AnyNumber::zero(scale % 16_384)))),
        Just((Physical::Number, Value::Number(AnyNumber::nan()))),
        Just((Physical::Text, Value::Null)),
        Just((Physical::Int32, Value::Null)),
        Just((Physical::Number, Value::Null)),
    ]
}

proptest! {
    #[test]
    fn every_column_reads_back_also_under_a_longer_layout(
        columns in prop::collection::vec(any_value(), 0..20),
        added in prop::collection::vec(any_value(), 0..4),
    ) {
        let layout = Layout::new(columns.iter().map(|(physical, _)| *physical));
        let mut writer = RowWriter::new(&layout);
        for (_, value) in &columns {
            writer.push(value.borrow()).unwrap();
        }
        let row = writer.finish();
        prop_assert!(Row::check(row.as_bytes(), &layout));
        let longer = Layout::new(columns.iter().chain(&added).map(|(physical, _)| *physical));
        for (index, (_, value)) in columns.iter().enumerate() {
            prop_assert_eq!(row.get(&longer, index), Some(value.borrow()));
        }
        for index in columns.len()..longer.len() {
            prop_assert_eq!(row.get(&longer, index), None);
        }
    }

    #[test]
    fn a_patched_row_is_the_row_written_with_the_new_values(
        columns in prop::collection::vec((any_value(), any_value()), 1..20),
        changed in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let layout = Layout::new(columns.iter().map(|((physical, _), _)| *physical));
        let write = |value: &dyn Fn(usize) -> Value| {
            let mut writer = RowWriter::new(&layout);
            (0..layout.len()).for_each(|column| writer.push(value(column).borrow()).unwrap());
            writer.finish()
        };
        let row = write(&|column| columns[column].0.1.clone());
        // A column gets another column's value where the types agree, else NULL.
        let changes: Vec<(usize, Value)> = changed
            .iter()
            .map(|index| {
                let column = index.index(columns.len());
                let ((physical, _), (other, value)) = &columns[column];
                (column, if physical == other { value.clone() } else { Value::Null })
            })
            .collect();
        let value_of = |column: usize| {
            let change = changes.iter().find(|(changed, _)| *changed == column);
            change.map_or_else(|| columns[column].0.1.clone(), |(_, value)| value.clone())
        };
        let changes_text = changes.iter().any(|(column, _)| {
            matches!(columns[*column].0.0, Physical::Text | Physical::Bytes | Physical::Number)
        });
        let patched = row.patched(&layout, &changes);
        prop_assert_eq!(patched.is_none(), changes_text);
        let rewritten = write(&value_of);
        if let Some(patched) = patched {
            prop_assert_eq!(&patched, &rewritten);
        }
        let nulls: Vec<usize> = rewritten.null_columns().collect();
        let expected: Vec<usize> =
            (0..layout.len()).filter(|&column| value_of(column) == Value::Null).collect();
        prop_assert_eq!(nulls, expected);
        for (column, ((_, old), _)) in columns.iter().enumerate() {
            // Numbers that are equal may be written with more digits or fewer.
            let is_same = format!("{old:?}") == format!("{:?}", value_of(column));
            prop_assert_eq!(row.has_same(&rewritten, &layout, column), is_same);
        }
    }

    #[test]
    fn arbitrary_bytes_that_pass_the_check_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let layout = Layout::new([Physical::Int16, Physical::Text, Physical::Bytes, Physical::Boolean]);
        if Row::check(&bytes, &layout) {
            let row = Row::from_bytes(&bytes);
            for column in 0..layout.len() {
                let _ = row.get(&layout, column);
            }
        }
    }
}

/// What became of a column in a random history of a table.
#[derive(Clone, Debug)]
struct Step {
    added: (Physical, Value),
    dropped: Option<prop::sample::Index>,
    has_row: bool,
}

fn any_step() -> impl Strategy<Value = Step> {
    (any_value(), any::<Option<prop::sample::Index>>(), any::<bool>())
        .prop_map(|(added, dropped, has_row)| Step { added, dropped, has_row })
}

proptest! {
    #[test]
    fn rows_read_back_whenever_columns_are_added_and_dropped(steps in prop::collection::vec(any_step(), 1..24)) {
        let mut columns: Vec<LayoutColumn> = Vec::new();
        let mut values: Vec<Value> = Vec::new();
        let mut rows: Vec<(Row, Vec<Value>)> = Vec::new();
        for step in &steps {
            columns.push(step.added.0.into());
            values.push(step.added.1.clone());
            if let Some(dropped) = &step.dropped {
                let column = dropped.index(columns.len());
                let count = columns.len() as u16;
                columns[column].dropped_at.get_or_insert(count);
                values[column] = Value::Null;
            }
            let layout = Layout::new(columns.iter().copied());
            if step.has_row {
                let mut writer = RowWriter::new(&layout);
                values.iter().for_each(|value| writer.push(value.borrow()).unwrap());
                rows.push((writer.finish(), values.clone()));
            }
            for (row, written) in &rows {
                prop_assert!(Row::check(row.as_bytes(), &layout));
                for (column, value) in written.iter().enumerate() {
                    prop_assert_eq!(row.get(&layout, column), Some(value.borrow()));
                }
                let nulls: Vec<usize> = row.null_columns().collect();
                let expected: Vec<usize> =
                    (0..written.len()).filter(|&column| written[column] == Value::Null).collect();
                prop_assert_eq!(nulls, expected);
            }
        }
    }
}

#[test]
fn a_column_that_was_dropped_takes_no_byte_once_another_was_added() {
    let text = LayoutColumn::from(Physical::Text);
    let write = |columns: &[LayoutColumn], values: &[ValueRef<'_>]| {
        let layout = Layout::new(columns.iter().copied());
        let mut writer = RowWriter::new(&layout);
        values.iter().for_each(|value| writer.push(*value).unwrap());
        writer.finish().as_bytes().len()
    };
    let gone = LayoutColumn { dropped_at: Some(2), ..text };
    let never_there = write(&[text, text], &[ValueRef::Text("a"), ValueRef::Text("b")]);
    let behind_it = write(&[text, gone, text], &[ValueRef::Text("a"), ValueRef::Null, ValueRef::Text("b")]);
    assert_eq!(behind_it, never_there);
    let given = write(&[text, gone, text], &[ValueRef::Text("a"), ValueRef::Text("x"), ValueRef::Text("b")]);
    assert_eq!(given, never_there, "what is given for it is not kept");
    let at_once = write(&[text, gone], &[ValueRef::Text("a"), ValueRef::Null]);
    assert_eq!(
        at_once,
        write(&[text, text], &[ValueRef::Text("a"), ValueRef::Null]),
        "no column was added yet"
    );
}

#[test]
fn null_in_a_column_of_numbers_is_no_damage() {
    let layout = Layout::new([Physical::Int32, Physical::Number, Physical::Text]);
    let mut writer = RowWriter::new(&layout);
    writer.push(ValueRef::Int32(1)).unwrap();
    writer.push(ValueRef::Null).unwrap();
    writer.push(ValueRef::Text("a")).unwrap();
    let row = writer.finish();
    assert!(Row::check(row.as_bytes(), &layout));
    assert_eq!(row.get(&layout, 1), Some(ValueRef::Null));
}

#[test]
fn a_value_where_a_row_has_no_slot_is_damage() {
    let gone = LayoutColumn { physical: Physical::Int32, dropped_at: Some(1) };
    let layout = Layout::new([gone, Physical::Int32.into()]);
    let mut writer = RowWriter::new(&layout);
    writer.push(ValueRef::Null).unwrap();
    writer.push(ValueRef::Int32(7)).unwrap();
    let mut bytes = writer.finish().as_bytes().to_vec();
    assert!(Row::check(&bytes, &layout));
    bytes[COUNT_SIZE] &= !1;
    assert!(!Row::check(&bytes, &layout));
}

#[test]
fn a_row_that_lacks_columns_is_not_patched() {
    let (short, long) = (Layout::new([Physical::Int32]), Layout::new([Physical::Int32, Physical::Int32]));
    let mut writer = RowWriter::new(&short);
    writer.push(ValueRef::Int32(1)).unwrap();
    let row = writer.finish();
    assert_eq!(row.patched(&long, &[(1, Value::Int32(2))]), None);
    assert!(row.patched(&short, &[(0, Value::Int32(2))]).is_some());
}

#[test]
fn a_value_of_another_type_is_refused() {
    let layout = Layout::new([Physical::Int32]);
    let mut writer = RowWriter::new(&layout);
    let error = writer.push(ValueRef::Int64(1)).unwrap_err();
    assert_eq!(error, ValueTypeMismatch { column: 0, expected: Physical::Int32 });
}
