// SPDX-License-Identifier: Apache-2.0
use super::*;
use coeval_store::{ColumnDef, ColumnType, IndexDef, QualifiedName, SpaceId, Uniqueness};

/// `t (a int, b int, c text, PRIMARY KEY (a, b))`, `by_c (c)`.
fn table() -> TableDef {
    let columns = vec![
        ColumnDef::new("a", ColumnType::Int),
        ColumnDef::new("b", ColumnType::Int),
        ColumnDef::new("c", ColumnType::Text),
    ];
    let mut def = TableDef::new(SpaceId::new(1), QualifiedName::new("public", "t"), columns, vec![0, 1]);
    let (id, name) = (SpaceId::new(2), "by_c".to_owned());
    def.indexes.push(IndexDef {
        id,
        name,
        columns: vec![2],
        uniqueness: Uniqueness::Any,
        declared_order: Vec::new(),
    });
    def
}

fn compare(column: usize, operator: Operator, value: i32) -> Pruner {
    Pruner::Compare(column, operator, Value::Int32(value))
}

fn key(values: &[i32]) -> Key {
    let mut writer = KeyWriter::new();
    values.iter().for_each(|value| writer.push(Value::Int32(*value).borrow()));
    writer.finish()
}

/// The most precise extent's ranges of primary keys.
fn keys(predicate: &Pruner) -> Option<Vec<KeyRange>> {
    match extents(&table(), predicate).into_iter().next()? {
        Scanned::Keys(ranges) => Some(ranges),
        other => panic!("expected keys: {other:?}"),
    }
}

/// Whether a row's key lies in one of the ranges.
fn holds(ranges: &[KeyRange], values: &[i32]) -> bool {
    use std::ops::RangeBounds;
    ranges.iter().any(|range| range.contains(&key(values)))
}

#[test]
fn a_whole_key_is_one_row() {
    let both = Pruner::All(vec![compare(1, Operator::Eq, 2), compare(0, Operator::Eq, 1)]);
    assert_eq!(keys(&both), Some(vec![KeyRange::point(key(&[1, 2]))]));
}

#[test]
fn every_predicate_over_the_key_has_exactly_the_ranges_of_its_rows() {
    let any_of = |values: &[i32]| Pruner::Any(values.iter().map(|v| compare(0, Operator::Eq, *v)).collect());
    let list = |values: &[i32]| Pruner::OneOf(1, values.iter().map(|v| Value::Int32(*v)).collect());
    type Holds = fn(i32, i32) -> bool;
    let cases: Vec<(Pruner, Holds)> = vec![
        (compare(0, Operator::Eq, 3), |a, _| a == 3),
        (compare(0, Operator::Gt, 3), |a, _| a > 3),
        (compare(0, Operator::GtEq, 3), |a, _| a >= 3),
        (compare(0, Operator::Lt, 3), |a, _| a < 3),
        (compare(0, Operator::LtEq, 3), |a, _| a <= 3),
        (
            Pruner::All(vec![
                compare(0, Operator::Gt, 1),
                compare(0, Operator::Gt, 3),
                compare(0, Operator::Lt, 6),
            ]),
            |a, _| a > 3 && a < 6,
        ),
        (Pruner::All(vec![compare(0, Operator::Eq, 2), compare(1, Operator::GtEq, 4)]), |a, b| {
            a == 2 && b >= 4
        }),
        (
            Pruner::All(vec![
                Pruner::All(vec![any_of(&[1, 5]), Pruner::Unknown]),
                Pruner::All(vec![compare(1, Operator::Gt, 2), compare(1, Operator::LtEq, 5)]),
            ]),
            |a, b| (a == 1 || a == 5) && b > 2 && b <= 5,
        ),
        (Pruner::All(vec![any_of(&[1, 5]), list(&[0, 7])]), |a, b| (a == 1 || a == 5) && (b == 0 || b == 7)),
        (
            Pruner::Any(vec![
                Pruner::All(vec![compare(0, Operator::Eq, 2), compare(1, Operator::Lt, 2)]),
                compare(0, Operator::Gt, 6),
            ]),
            |a, b| (a == 2 && b < 2) || a > 6,
        ),
        (Pruner::All(vec![compare(0, Operator::Gt, 5), compare(0, Operator::Lt, 5)]), |_, _| false),
        (Pruner::Never, |_, _| false),
    ];
    for (predicate, is_row) in &cases {
        let ranges = keys(predicate).unwrap_or_else(|| panic!("{predicate:?} is restricted"));
        for (a, b) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))) {
            assert_eq!(holds(&ranges, &[a, b]), is_row(a, b), "{predicate:?}: ({a}, {b})");
        }
    }
}

#[test]
fn what_says_nothing_of_the_first_column_leaves_the_whole_table() {
    let unrestricted = [
        Pruner::Unknown,
        compare(1, Operator::Eq, 2),
        compare(0, Operator::NotEq, 2),
        Pruner::Any(vec![compare(0, Operator::Eq, 1), compare(1, Operator::Eq, 1)]),
        Pruner::OneOf(0, (0..100).map(Value::Int32).collect()),
    ];
    for predicate in &unrestricted {
        assert_eq!(extents(&table(), predicate), [], "{predicate:?}");
    }
}

#[test]
fn an_index_is_taken_where_it_says_more() {
    let of_c = Pruner::Compare(2, Operator::Eq, Value::Text("x".into()));
    let mut writer = KeyWriter::new();
    writer.push_nullable(Value::Text("x".into()).borrow());
    let ranges = vec![KeyRange::prefix(writer.as_slice())];
    let entries = Scanned::Entries { index: SpaceId::new(2), ranges };
    assert_eq!(extents(&table(), &of_c), [entries]);
    let with_keys = Pruner::All(vec![of_c.clone(), compare(0, Operator::Eq, 1)]);
    let [Scanned::Keys(_)] = &extents(&table(), &with_keys)[..] else { panic!("both restrict one column") };
}
