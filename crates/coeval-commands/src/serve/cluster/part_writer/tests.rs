// SPDX-License-Identifier: Apache-2.0
//! Parts have all rows, are no longer than they may be, and are the same where rows are.

use super::*;
use arrow::array::{AsArray, DictionaryArray, Int64Array, StringArray};
use arrow::datatypes::{Int64Type, UInt32Type};
use arrow::ipc::reader::StreamReader;
use std::collections::BTreeSet;
use std::io::Cursor;

/// Rows of a brick: numbers, and texts by dictionary as bricks give them.
fn rows(numbers: std::ops::Range<i64>, text: &str) -> RecordBatch {
    let texts: DictionaryArray<UInt32Type> =
        numbers.clone().map(|number| (number % 3 != 0).then_some(text)).collect();
    let numbers: Int64Array = numbers.collect::<Vec<_>>().into();
    let columns: [(&str, ArrayRef, bool); 2] =
        [("n", Arc::new(numbers), false), ("note", Arc::new(texts), true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The parts of these bricks, whose rows come in batches of so many.
fn parts(bricks: &[(u64, RecordBatch)], at_once: usize) -> Vec<SpreadPart> {
    let (mut writer, mut parts) = (PartWriter::new(7), Vec::new());
    for (brick, rows) in bricks {
        for from in (0..rows.num_rows()).step_by(at_once) {
            writer.push(&rows.slice(from, at_once.min(rows.num_rows() - from))).unwrap();
        }
        writer.end_brick(*brick).unwrap();
        parts.extend(std::iter::from_fn(|| writer.next_part()));
    }
    writer.end().unwrap();
    parts.extend(std::iter::from_fn(|| writer.next_part()));
    parts
}

fn numbers_in(part: &SpreadPart) -> Vec<i64> {
    let batches = StreamReader::try_new(Cursor::new(&part.bytes), None).unwrap();
    let mut numbers = Vec::new();
    for batch in batches {
        let batch = batch.unwrap();
        let texts: &StringArray = batch.column(1).as_string();
        let column = batch.column(0).as_primitive::<Int64Type>();
        for (number, text) in column.values().iter().zip(texts) {
            assert_eq!(text.is_some(), number % 3 != 0);
            numbers.push(*number);
        }
    }
    assert_eq!(part.rows, numbers.len() as u64);
    numbers
}

/// To break it: close a part without the batch that is not full.
#[test]
fn parts_have_all_rows_in_their_order() {
    let bricks: Vec<(u64, RecordBatch)> = (0..40)
        .map(|brick| (brick, rows(brick as i64 * 1_000..(brick as i64 + 1) * 1_000, "a text")))
        .collect();
    let parts = parts(&bricks, 700);
    let numbers: Vec<i64> = parts.iter().flat_map(numbers_in).collect();
    assert_eq!(numbers, (0..40_000).collect::<Vec<_>>());
    assert!(parts.iter().all(|part| part.table == 7));
    assert!(super::tests::parts(&[(1, rows(0..0, ""))], 1).is_empty(), "without rows there is no part");
}

/// To break it: leave out that batches are halved.
#[test]
fn no_part_is_longer_than_a_piece_of_the_archive() {
    let text = "x".repeat(4_096);
    let parts = parts(&[(1, rows(0..20_000, &text))], 20_000);
    assert!(parts.len() >= 6, "{} parts", parts.len());
    assert!(parts.iter().all(|part| part.bytes.len() <= 16 << 20));
    assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), 20_000);
}

/// To break it: make batches of what comes, or have no marked bricks.
#[test]
fn what_is_as_it_was_comes_out_in_the_same_parts() {
    let bricks = |changed: u64| -> Vec<(u64, RecordBatch)> {
        let text = "y".repeat(300);
        let of_brick = |brick: u64| {
            let from = brick as i64 * 1_000_000;
            let count = if brick == changed { 5_777 } else { 5_000 };
            (brick, rows(from..from + count, &text))
        };
        (0..64).map(of_brick).collect()
    };
    let known = |parts: &[SpreadPart]| parts.iter().map(|part| part.bytes.clone()).collect::<BTreeSet<_>>();
    let before = parts(&bricks(u64::MAX), 10_000);
    assert!(before.len() > 8, "{} parts", before.len());
    let known = known(&before);
    let again = parts(&bricks(u64::MAX), 333);
    assert!(again.iter().all(|part| known.contains(&part.bytes)), "however rows come");
    let after = parts(&bricks(20), 10_000);
    let new = after.iter().filter(|part| !known.contains(&part.bytes)).count();
    assert!((1..=before.len() / 2).contains(&new), "{new} of {} parts are new", after.len());
    let same = after.iter().take_while(|part| known.contains(&part.bytes)).count();
    assert!(same > 0, "what stands before the change is as it was");
}

/// To break it: take the schema of the first rows for all. Those of before would have a column too many.
#[test]
fn a_column_that_comes_meanwhile_begins_a_part() {
    let narrow = rows(0..10, "z").project(&[0]).unwrap();
    let parts = parts(&[(1, narrow), (2, rows(10..20, "z"))], 100);
    let columns = |part: &SpreadPart| {
        StreamReader::try_new(Cursor::new(&part.bytes), None).unwrap().schema().fields().len()
    };
    assert_eq!(parts.iter().map(columns).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(parts.iter().map(|part| part.rows).collect::<Vec<_>>(), [10, 10]);
}
