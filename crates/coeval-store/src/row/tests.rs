// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::value::Value;
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
        Just((Physical::Text, Value::Null)),
        Just((Physical::Int32, Value::Null)),
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
            matches!(columns[*column].0.0, Physical::Text | Physical::Bytes)
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
            prop_assert_eq!(row.has_same(&rewritten, &layout, column), *old == value_of(column));
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
