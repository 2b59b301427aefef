// SPDX-License-Identifier: Apache-2.0
//! The operator beside DataFusion's own, over random rows: the model is what it stands in the place of.

mod missing;
mod narrow;
mod numbered;
mod pairs;

use super::groups::Groups;
use super::work::JUDGED;
use super::{CodedGroupsExec, with_coded_groups};
use crate::model::{Rows, Rule, both_ways, differences, over_other_rows};
use crate::narrow_decimals::with_narrow_decimals;
use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use narrow::with_narrow_rows;
use numbered::{numbered, with_numbered_texts};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// As plans of the SQL layer have it: decimals are computed by integers where they can be.
fn by_codes(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    with_coded_groups(with_narrow_decimals(plan)?)
}

/// The same, with texts as a scan gives them whose chunks have few.
fn by_numbered_texts(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    with_numbered_texts(by_codes(plan)?)
}

/// The same, with decimals as a scan gives them, too.
fn of_narrow_decimals(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    with_narrow_rows(by_numbered_texts(plan)?)
}

const WAYS: [Rule; 3] = [by_codes, by_numbered_texts, of_narrow_decimals];

/// Columns to group by; `model.rs` says what is in them.
const KEYS: [&str; 14] = [
    "tiny",
    "small",
    "wide",
    "date",
    "moment",
    "flag",
    "amount",
    "word",
    "text",
    "tiny, word",
    "small, flag, date",
    "text, amount",
    "wide, word, moment",
    "small % 3, word",
];

const CALLS: [&str; 17] = [
    "count(*), count(small), count(text)",
    "sum(small), sum(tiny), min(small), max(small)",
    "sum(wide), min(wide), max(wide)",
    "avg(real), sum(real)",
    "sum(amount), min(amount), max(amount), avg(amount)",
    "min(date), max(date), min(moment), max(moment)",
    "sum(small) FILTER (WHERE flag), count(*) FILTER (WHERE tiny > 1), sum(small)",
    "min(word), max(text), stddev(real)",
    "count(DISTINCT small), sum(small)",
    "max(real), min(real), median(small)",
    "sum(CASE WHEN flag THEN small END), sum(small + tiny), bool_or(flag)",
    "corr(real, small), count(real)",
    "sum(amount * (1 - amount)), min(amount * amount), max(amount * amount), sum(amount * amount)",
    "sum(long), min(long), max(long), count(long)",
    "sum(amount), max(amount), count(amount) FILTER (WHERE flag), sum(amount * 2 - amount) FILTER (WHERE tiny > 1)",
    "sum(amount) FILTER (WHERE amount > 20), avg(amount), stddev(amount)",
    "sum(long) FILTER (WHERE flag), sum(long + amount), sum(long - amount) FILTER (WHERE tiny > 1)",
];

#[tokio::test]
async fn groups_are_those_of_datafusion() -> Result<()> {
    for seed in 0..40 {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = Rows::random(&mut random);
        for way in WAYS.into_iter().cycle().take(9) {
            let keys = KEYS[random.random_range(0..KEYS.len())];
            let calls = CALLS[random.random_range(0..CALLS.len())];
            let query = format!("SELECT {keys}, {calls} FROM t GROUP BY {keys}");
            let (ours, theirs) = both_ways(&rows, &query, way, None).await?;
            assert_eq!(differences(&ours.rows, &theirs.rows), None, "seed {seed}: {query}");
            assert!(ours.replaced > 0 && theirs.replaced == 0, "seed {seed}: {query}");
        }
    }
    Ok(())
}

/// To break it: find out anew what is to be done for other rows.
#[tokio::test]
async fn other_rows_are_worked_on_in_the_same_way() -> Result<()> {
    let rows = Rows::random(&mut SmallRng::seed_from_u64(1));
    let query = "SELECT tiny, word, sum(small), count(*) FROM t GROUP BY tiny, word";
    let coded = over_other_rows::<CodedGroupsExec>(&rows, query, by_codes).await?;
    let plans = coded.each_ref().map(|operator| {
        let coded: &CodedGroupsExec = operator.downcast_ref().expect("it stays of its kind");
        Arc::clone(&coded.plan)
    });
    assert!(Arc::ptr_eq(&plans[0], &plans[1]));
    Ok(())
}

#[tokio::test]
async fn what_is_not_for_it_stays_as_it_is() -> Result<()> {
    let rows = Rows::random(&mut SmallRng::seed_from_u64(1));
    for query in [
        "SELECT sum(small) FROM t",
        "SELECT real, sum(small) FROM t GROUP BY real",
        "SELECT tiny, word, sum(small) FROM t GROUP BY ROLLUP (tiny, word)",
    ] {
        let (ours, theirs) = both_ways(&rows, query, by_codes, None).await?;
        assert_eq!(ours.replaced, 0, "{query}");
        assert_eq!(differences(&ours.rows, &theirs.rows), None, "{query}");
    }
    Ok(())
}

#[tokio::test]
async fn groups_that_do_not_make_rows_fewer_are_left_to_datafusion() -> Result<()> {
    let (judged_rows, _) = JUDGED[0];
    let rows = Rows::distinct(judged_rows * 3);
    for (keys, call) in [
        ("wide", "max(text)"),
        ("text", "max(wide)"),
        ("wide, text", "max(wide)"),
        ("wide", "sum(amount), min(amount * 2), count(amount)"),
    ] {
        let query = format!("SELECT {keys}, count(*), sum(small), {call} FROM t GROUP BY {keys}");
        for way in WAYS {
            let (ours, theirs) = both_ways(&rows, &query, way, None).await?;
            assert_eq!(differences(&ours.rows, &theirs.rows), None, "{query}");
            assert!(ours.left_rows > judged_rows, "{query}: {} rows were left", ours.left_rows);
        }
    }
    Ok(())
}

/// Each group has a row among the first forty thousand of a thread, and then once more. To break it: ask groups that are found by loads at
/// the first mark, too.
#[tokio::test]
async fn groups_that_are_found_by_loads_have_time_to_come_again() -> Result<()> {
    let (first_rows, _) = JUDGED[0];
    let rows = Rows::repeated(first_rows + 8_000, 3);
    let query =
        |key: &str| format!("SELECT {key}, count(*), sum(small), min(wide), max(text) FROM t GROUP BY {key}");
    for (key, leaves_rows) in [("wide / 2654435761", false), ("wide", true), ("text", true)] {
        let (ours, theirs) = both_ways(&rows, &query(key), by_codes, None).await?;
        assert_eq!(differences(&ours.rows, &theirs.rows), None, "{key}");
        assert_eq!(ours.left_rows > 0, leaves_rows, "{key}: {} rows were left", ours.left_rows);
    }
    // Groups that do not come again are left in the end.
    let rows = Rows::distinct(JUDGED[1].0 + 20_000);
    let (ours, theirs) = both_ways(&rows, &query("wide / 2654435761"), by_codes, None).await?;
    assert_eq!(differences(&ours.rows, &theirs.rows), None);
    assert!(ours.left_rows > 0);
    Ok(())
}

/// To break it: leave out what else an aggregate reads.
#[tokio::test]
async fn texts_that_are_read_for_more_come_as_they_are() -> Result<()> {
    let rows = Rows::random(&mut SmallRng::seed_from_u64(1));
    for (query, numbered) in [
        ("SELECT word, text, count(*) FROM t GROUP BY word, text", 2),
        ("SELECT word, text, max(text) FROM t GROUP BY word, text", 1),
        ("SELECT word, count(*) FILTER (WHERE word > 'w2') FROM t GROUP BY word", 0),
        // The other column is computed below; who puts codes in there looks at that.
        ("SELECT word, word || 'x', count(*) FROM t GROUP BY word, word || 'x'", 1),
        ("SELECT tiny, count(*) FROM t GROUP BY tiny", 0),
    ] {
        let coded = over_other_rows::<CodedGroupsExec>(&rows, query, by_codes).await?;
        let coded: &CodedGroupsExec = coded[0].downcast_ref().expect("it is of its kind");
        assert_eq!(coded.grouped_texts().len(), numbered, "{query}");
    }
    Ok(())
}

/// To break it: leave out what else an aggregate reads.
#[tokio::test]
async fn decimals_that_are_read_for_more_come_as_they_are() -> Result<()> {
    let rows = Rows::random(&mut SmallRng::seed_from_u64(1));
    for (query, narrow) in [
        ("SELECT tiny, sum(amount), min(amount), max(amount), count(amount) FROM t GROUP BY tiny", 1),
        ("SELECT tiny, sum(amount * amount), sum(amount) FROM t GROUP BY tiny", 1),
        ("SELECT tiny, sum(amount + tiny) FILTER (WHERE flag) FROM t GROUP BY tiny", 1),
        ("SELECT tiny, sum(long), sum(long + 1) FROM t GROUP BY tiny", 0),
        ("SELECT amount, sum(amount) FROM t GROUP BY amount", 0),
        ("SELECT tiny, sum(amount) FILTER (WHERE amount > 20) FROM t GROUP BY tiny", 0),
        ("SELECT tiny, sum(amount), stddev(amount) FROM t GROUP BY tiny", 0),
    ] {
        let coded = over_other_rows::<CodedGroupsExec>(&rows, query, by_codes).await?;
        let coded: &CodedGroupsExec = coded[0].downcast_ref().expect("it is of its kind");
        assert_eq!(coded.folded_decimals().len(), narrow, "{query}");
    }
    Ok(())
}

#[tokio::test]
async fn when_memory_is_refused_the_rest_is_left_to_datafusion() -> Result<()> {
    let rows = Rows::repeated(20_000, 4);
    let query = "SELECT text, count(*), sum(small), avg(real) FROM t GROUP BY text";
    for way in WAYS {
        let (ours, theirs) = both_ways(&rows, query, way, Some(1 << 20)).await?;
        assert_eq!(differences(&ours.rows, &theirs.rows), None);
        assert!(ours.left_rows > 0, "memory was not refused");
    }
    Ok(())
}

/// Numbers of groups and their values, by the plainest code there is.
fn model_groups(columns: &[ArrayRef]) -> Vec<Vec<Option<String>>> {
    let value = |column: &ArrayRef, row: usize| match column.data_type() {
        DataType::Int64 => {
            let values = column.as_primitive::<Int64Type>();
            values.iter().nth(row).flatten().map(|value| value.to_string())
        }
        _ => column.as_string_view().iter().nth(row).flatten().map(ToOwned::to_owned),
    };
    (0..columns[0].len()).map(|row| columns.iter().map(|column| value(column, row)).collect()).collect()
}

#[test]
fn codes_that_move_keep_their_groups() {
    let mut random = SmallRng::seed_from_u64(7);
    for _ in 0..200 {
        let mut groups =
            Groups::new([DataType::Int64, DataType::Int64, DataType::Utf8View]).expect("types with codes");
        let mut known: Vec<Vec<Option<String>>> = Vec::new();
        let mut members = Vec::new();
        for batch in 0..random.random_range(1..8) {
            let spread = 1_i64 << random.random_range(0..if batch > 4 { 62 } else { 20 });
            let rows = random.random_range(1..60);
            let mut integers = || {
                let value = |random: &mut SmallRng| {
                    random.random_bool(0.9).then(|| random.random_range(-spread..=spread))
                };
                Arc::new((0..rows).map(|_| value(&mut random)).collect::<Int64Array>()) as ArrayRef
            };
            let mut columns = vec![integers(), integers()];
            let words = (0..rows).map(|_| Some("x".repeat(random.random_range(0..20))));
            columns.push(Arc::new(words.collect::<StringViewArray>()));
            if groups.assign(&columns, &mut members).is_err() {
                break;
            }
            for (row, member) in model_groups(&columns).into_iter().zip(&members) {
                let member = *member as usize;
                if member == known.len() {
                    assert!(!known.contains(&row), "{row:?} is a group already");
                    known.push(row);
                } else {
                    assert_eq!(known[member], row);
                }
            }
            assert_eq!(groups.len(), known.len());
        }
        if !known.is_empty() {
            assert_eq!(model_groups(&groups.values()), known);
        }
    }
}

#[test]
fn a_single_text_is_numbered_by_its_code() {
    let column =
        |values: &[Option<&str>]| Arc::new(values.iter().copied().collect::<StringViewArray>()) as ArrayRef;
    let mut groups = Groups::new([DataType::Utf8View]).expect("a type with codes");
    let mut members = Vec::new();
    groups.assign(&[column(&[Some("a"), Some("b"), Some("a")])], &mut members).expect("few bits");
    assert_eq!(members, [0, 1, 0]);
    groups
        .assign(&[column(&[None, Some("a text beyond twelve bytes"), Some("b")])], &mut members)
        .expect("few bits");
    assert_eq!(members, [2, 3, 1]);
    let values = model_groups(&groups.values()).concat();
    assert_eq!(
        values,
        [Some("a"), Some("b"), None, Some("a text beyond twelve bytes")].map(|one| one.map(str::to_owned))
    );
}

/// To break it: give each text of a dictionary a code when it is first met.
#[test]
fn texts_of_a_dictionary_that_no_row_has_are_no_groups() {
    let column =
        |values: &[Option<&str>]| Arc::new(values.iter().copied().collect::<StringViewArray>()) as ArrayRef;
    let shared = column(&[Some("unused"), Some("a"), Some("beyond twelve bytes"), Some("b"), None]);
    let mut groups = Groups::new([DataType::Utf8View]).expect("a type with codes");
    let mut members = Vec::new();
    let mut assigned = |rows: &ArrayRef| {
        groups.assign(&[Arc::clone(rows)], &mut members).expect("few bits");
        members.clone()
    };
    // NULL is in the first row by no number, in the fourth by that of a NULL.
    let first = column(&[None, Some("b"), Some("b"), None, Some("beyond twelve bytes")]);
    assert_eq!(assigned(&numbered(&first, &shared)), [0, 1, 1, 0, 2]);
    assert_eq!(assigned(&column(&[Some("b"), Some("c"), None])), [1, 3, 0]);
    let second = column(&[Some("b"), Some("a"), Some("b"), Some("beyond twelve bytes"), Some("a")]);
    assert_eq!(assigned(&numbered(&second, &shared)), [1, 4, 1, 2, 4]);
    let others = column(&[Some("c"), Some("a"), Some("unused")]);
    let of_others = column(&[Some("unused"), Some("unused"), Some("c")]);
    assert_eq!(assigned(&numbered(&of_others, &others)), [5, 5, 3]);
    let known = [None, Some("b"), Some("beyond twelve bytes"), Some("c"), Some("a"), Some("unused")];
    assert_eq!(model_groups(&groups.values()), model_groups(&[column(&known)]));
}

/// Of more than 32,768 texts none is looked up for later rows.
#[test]
fn texts_of_large_dictionaries_are_grouped_as_they_come() {
    let large = (0..40_000).map(|number| Some(format!("text {number}"))).collect::<StringViewArray>();
    let large = Arc::new(large) as ArrayRef;
    let mut groups = Groups::new([DataType::Utf8View]).expect("a type with codes");
    let mut members = Vec::new();
    for (numbers, expected) in [([39_999, 7, 39_999], [0, 1, 0]), ([7, 8, 9], [1, 2, 3])] {
        let rows = numbers.map(|number| Some(format!("text {number}")));
        let rows = Arc::new(rows.into_iter().collect::<StringViewArray>()) as ArrayRef;
        groups.assign(&[numbered(&rows, &large)], &mut members).expect("few bits");
        assert_eq!(members, expected);
    }
}

/// Their distance is 1 modulo 2^64.
#[test]
fn the_least_and_the_largest_of_all_integers_are_two_groups() {
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let mut groups = Groups::new([DataType::Int64]).expect("a type with codes");
    let mut members = Vec::new();
    let batches = [vec![i64::MAX, i64::MAX - 9], vec![i64::MIN, i64::MIN + 3], vec![i64::MAX, i64::MIN]];
    for (batch, expected) in batches.into_iter().zip([[0, 1], [2, 3], [0, 2]]) {
        groups.assign(&[column(batch.clone())], &mut members).expect("few bits");
        assert_eq!(members, expected, "{batch:?}");
    }
    let known = column(vec![i64::MAX, i64::MAX - 9, i64::MIN, i64::MIN + 3]);
    assert_eq!(model_groups(&groups.values()), model_groups(&[known]));
}

#[test]
fn keys_of_more_than_64_bits_end_the_groups_and_keep_those_that_are_there() {
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let mut groups = Groups::new(vec![DataType::Int64; 6]).expect("types with codes");
    let mut members = Vec::new();
    let first: Vec<ArrayRef> = (0..6).map(|_| column(vec![1, 2])).collect();
    groups.assign(&first, &mut members).expect("few bits");
    // Far apart: each column has a list of 5,000 values, of 13 bits.
    let second: Vec<ArrayRef> =
        (0..6).map(|place| column((0..5_000).map(|row| row * 1_000_003 - place).collect())).collect();
    assert!(groups.assign(&second, &mut members).is_err(), "78 bits");
    assert_eq!(groups.len(), 2);
    assert_eq!(model_groups(&groups.values()), model_groups(&first));
    assert!(groups.assign(&first, &mut members).is_err(), "once it has ended");
}
