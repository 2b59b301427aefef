// SPDX-License-Identifier: Apache-2.0
//! Sets of random keys beside plain sets of them, and what the operator notes.

use super::{JoinKeys, KeySet, NotedKeysExec, Numbers};
use arrow::array::{
    Array, ArrayRef, Date32Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray,
};
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashSet;
use std::sync::Arc;

type Row = Vec<Option<i64>>;

/// So many rows with so many values each, with NULLs, of values that are near to each other or not; in some, one value stands in most rows.
fn random_rows(random: &mut SmallRng, count: usize, columns: usize) -> Vec<Row> {
    let spreads: Vec<i64> = (0..columns).map(|_| 1 << random.random_range(0..15)).collect();
    let (nulls, skew) = ([0.0, 0.1, 0.9][random.random_range(0..3)], [0.0, 0.9][random.random_range(0..2)]);
    let mut row = || -> Row {
        let value = |spread: &i64| {
            let value = if random.random_bool(skew) { 3 } else { random.random_range(-*spread..*spread) };
            (!random.random_bool(nulls)).then_some(value)
        };
        spreads.iter().map(value).collect()
    };
    (0..count).map(|_| row()).collect()
}

/// The column at this place, of a type that goes with the place. Longs are far apart.
fn column(rows: &[Row], place: usize) -> ArrayRef {
    let values = rows.iter().map(|row| row[place]);
    match place {
        0 => Arc::new(values.map(|value| value.map(|value| value as i32)).collect::<Int32Array>()),
        1 => Arc::new(values.map(far_apart).collect::<Int64Array>()),
        2 => Arc::new(values.map(|value| value.map(|value| value as i16)).collect::<Int16Array>()),
        3 => Arc::new(values.map(|value| value.map(|value| value as i32)).collect::<Date32Array>()),
        _ => Arc::new(values.collect::<TimestampMicrosecondArray>()),
    }
}

fn far_apart(value: Option<i64>) -> Option<i64> {
    value.map(|value| value * 200_000_000_000_000)
}

fn columns(rows: &[Row], count: usize) -> Vec<ArrayRef> {
    (0..count).map(|place| column(rows, place)).collect()
}

/// Which of the rows may be in the set, by all columns together.
fn looked_up(set: &KeySet, columns: &[ArrayRef]) -> Vec<bool> {
    let numbers: Vec<Numbers<'_>> = columns.iter().map(|column| Numbers::of(column).unwrap()).collect();
    let rows = columns[0].len();
    let Some(together) = set.together() else {
        // Of a single column whose values are near to each other.
        let mut found = vec![false; rows];
        let bits = set.column(0).unwrap();
        for row in (0..rows).filter(|row| columns[0].is_valid(*row)) {
            found[row] = bits.contains(match numbers[0] {
                Numbers::Short(values) => i64::from(values[row]),
                Numbers::Word(values) => i64::from(values[row]),
                Numbers::Long(values) => values[row],
            });
        }
        return found;
    };
    let mut found = Vec::new();
    for first in (0..rows).step_by(64) {
        let count = (rows - first).min(64);
        let passing = together.passing(&numbers, first, u64::MAX >> (64 - count));
        found.extend((0..count).map(|row| passing >> row & 1 == 1));
    }
    found
}

#[test]
fn no_row_of_a_set_is_missed_and_few_others_are_taken_for_one() {
    let (mut others, mut wrongly) = (0, 0);
    for seed in 0..200 {
        let mut random = SmallRng::seed_from_u64(seed);
        let count = random.random_range(1..6);
        let mut batches: Vec<Vec<Row>> = Vec::new();
        for _ in 0..random.random_range(0..4) {
            let length = [0, 1, 63, 64, 65, 1_000][random.random_range(0..6)];
            batches.push(random_rows(&mut random, length, count));
        }
        let noted: Vec<Vec<ArrayRef>> = batches.iter().map(|rows| columns(rows, count)).collect();
        let set = KeySet::of(&noted);
        let is_whole = |row: &&Row| row.iter().all(Option::is_some);
        let whole: HashSet<&Row> = batches.iter().flatten().filter(is_whole).collect();
        let asked = random_rows(&mut random, 500, count);
        let mut strangers = HashSet::new();
        for rows in batches.iter().chain([&asked]).filter(|rows| !rows.is_empty()) {
            for (row, is_found) in rows.iter().zip(looked_up(&set, &columns(rows, count))) {
                if whole.contains(row) {
                    assert!(is_found, "seed {seed}: {row:?}");
                } else if row.iter().all(Option::is_some) && strangers.insert(row) {
                    others += 1;
                    wrongly += usize::from(is_found);
                }
            }
        }
        for place in 0..count {
            let values = batches.iter().flatten().filter_map(|row| row[place]);
            let values: HashSet<i64> = values.collect();
            let Some(bits) = set.column(place) else {
                assert!(place == 1 || noted.is_empty(), "seed {seed}: column {place}");
                continue;
            };
            let kept = |value: i64| if place == 1 { far_apart(Some(value)).unwrap() } else { value };
            for value in (-40_000..40_000).step_by(7).chain(values.iter().copied()) {
                let (is_there, value) = (values.contains(&value), kept(value));
                assert_eq!(bits.contains(value), is_there, "seed {seed}: {value}");
                assert_eq!(bits.has_between(value, value), is_there, "seed {seed}: {value}");
            }
        }
    }
    assert!(others > 3_000 && wrongly * 50 < others, "{wrongly} of {others}");
}

#[test]
fn ranges_meet_a_set_where_one_of_its_values_is_in_them() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![-100, 27, 28, 155, 900]));
    let set = KeySet::of(&[vec![Arc::clone(&values)]]);
    let bits = set.column(0).unwrap();
    let edges = [i64::MIN, -101, -100, -99, 0, 27, 28, 29, 154, 155, 156, 899, 900, 901, 2_000, i64::MAX];
    for least in edges {
        for most in edges {
            let is_met = [-100, 27, 28, 155, 900].iter().any(|value| (least..=most).contains(value));
            assert_eq!(bits.has_between(least, most), is_met, "{least} to {most}");
        }
    }
}

#[test]
fn values_at_the_ends_of_64_bits_are_told_apart() {
    let (least, most) = (i64::MIN, i64::MAX);
    let asked = [least, least + 1, least + 69, least + 70, least + 71, -1, 0, 1, most - 71, most - 70, most];
    for values in [[least, least + 70], [most - 70, most], [least, most], [-1, 1]] {
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let set = KeySet::of(&[vec![Arc::clone(&column)]]);
        let Some(bits) = set.column(0) else {
            assert_eq!(values, [least, most], "others are near to each other");
            assert_eq!(looked_up(&set, &[column]), [true; 2]);
            continue;
        };
        for value in asked {
            let is_there = values.contains(&value);
            assert_eq!(bits.contains(value), is_there, "{value} in {values:?}");
            assert_eq!(bits.has_between(value, value), is_there, "{value} in {values:?}");
        }
        assert!(bits.has_between(least, most), "{values:?}");
    }
}

#[test]
fn rows_with_null_are_in_no_set() {
    let one: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let other: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(2)]));
    let set = KeySet::of(&[vec![one, other]]);
    let whole: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from(vec![1, 0, 1])), Arc::new(Int32Array::from(vec![0, 2, 2]))];
    assert_eq!(looked_up(&set, &whole), [false; 3]);
    // Nothing is in the set of no rows.
    assert_eq!(looked_up(&KeySet::of(&[]), &whole), [false; 3]);
    assert!(KeySet::of(&[]).column(0).is_none());
}

#[test]
fn texts_have_no_set() {
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b"]));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let set = KeySet::of(&[vec![texts, numbers]]);
    assert!(set.column(0).is_none() && set.together().is_none());
    assert!(set.column(1).unwrap().contains(2));
}

#[tokio::test]
async fn keys_are_known_when_all_rows_have_come() -> Result<()> {
    let rows = |first: i64| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 10));
        RecordBatch::try_from_iter([("a", Arc::clone(&numbers)), ("b", numbers)])
    };
    let batches = vec![rows(0)?, rows(10)?];
    let context = SessionContext::new();
    let input = context.read_batches(batches.clone())?.create_physical_plan().await?;
    for (rows_max, is_known) in [(20, true), (19, false)] {
        let keys = Arc::new(JoinKeys::new(rows_max));
        let noted: Arc<dyn ExecutionPlan> =
            Arc::new(NotedKeysExec::new(Arc::clone(&input), [1], Arc::clone(&keys)));
        assert!(keys.set().is_none());
        for _ in 0..2 {
            assert_eq!(collect(Arc::clone(&noted), context.task_ctx()).await?, batches);
            assert_eq!(keys.set().is_some(), is_known);
        }
        if let Some(set) = keys.set() {
            assert!(set.column(0).unwrap().contains(19) && !set.column(0).unwrap().contains(20));
        }
        // Whoever reads the rows again knows nothing until they have all come.
        drop(noted.execute(0, context.task_ctx())?);
        assert!(keys.set().is_none());
    }
    Ok(())
}
