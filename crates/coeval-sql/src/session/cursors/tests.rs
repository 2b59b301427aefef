// SPDX-License-Identifier: Apache-2.0
//! What movements give, beside a list of the rows.

use super::*;
use crate::memory::QueryMemory;
use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

/// Rows from 1 on, in batches of these lengths.
fn cursor(lengths: &[i64]) -> Cursor {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let mut next = 1;
    let mut batches = Vec::new();
    for length in lengths {
        let numbers = Int64Array::from_iter_values(next..next + length);
        batches.push(RecordBatch::try_new(schema.clone(), vec![Arc::new(numbers)]).unwrap());
        next += length;
    }
    Cursor {
        starts: starts(&batches),
        rows: RowSet::new(schema, batches),
        position: 0,
        hold: Hold::Transaction,
        scroll: Scroll::Yes,
        sql: String::new(),
        since_micros: 0,
        is_new: true,
    }
}

/// The numbers that a movement is to give, and where it is to end.
fn expected(direction: Direction, at: i64, count: i64) -> (Vec<i64>, i64) {
    let (order, end): (i64, i64) = match direction {
        Direction::By(0) => return ((1..=count).filter(|row| *row == at).collect(), at),
        Direction::By(steps) => (steps.signum(), (at + steps).clamp(0, count + 1)),
        Direction::ForwardAll => (1, count + 1),
        Direction::BackwardAll => (-1, 0),
        Direction::To(row) | Direction::Relative(row) => {
            let from = match direction {
                Direction::Relative(_) => at,
                _ if row < 0 => count + 1,
                _ => 0,
            };
            let end = (from + row).clamp(0, count + 1);
            return ((1..=count).filter(|row| *row == end).collect(), end);
        }
    };
    let passed: Vec<i64> = match order {
        1 => (at + 1..=end.min(count)).collect(),
        _ => (end.max(1)..at).rev().collect(),
    };
    (passed, end)
}

#[test]
fn a_movement_gives_the_rows_that_it_passes_wherever_batches_begin() {
    let memory = QueryEnvironment::new(&QueryMemory::default()).unwrap();
    for lengths in [&[][..], &[0], &[1], &[3, 0, 5, 1, 0]] {
        let mut cursor = cursor(lengths);
        let count: i64 = lengths.iter().sum();
        let mut directions = vec![Direction::ForwardAll, Direction::BackwardAll];
        for steps in -12..=12 {
            directions.extend([Direction::By(steps), Direction::To(steps), Direction::Relative(steps)]);
        }
        for at in 0..=count + 1 {
            for &direction in &directions {
                cursor.position = at.unsigned_abs();
                let passed = cursor.go(direction);
                let rows = cursor.pick(&passed, &memory).unwrap();
                let numbers = rows
                    .batches
                    .iter()
                    .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().iter());
                let numbers: Vec<i64> = numbers.copied().collect();
                let (given, end) = expected(direction, at, count);
                assert_eq!(numbers, given, "{direction:?} from {at} of {lengths:?}");
                assert_eq!((passed.count(), cursor.position), (given.len() as u64, end.unsigned_abs()));
            }
        }
    }
}
