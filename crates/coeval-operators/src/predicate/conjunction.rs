// SPDX-License-Identifier: Apache-2.0
//! Predicates that all have to hold, in an order that is found while rows go by.
//!
//! Once few rows are left, a predicate is asked of these alone. So it pays to begin with what takes away most for what it costs: a range of
//! dates that one row in a hundred is in, before a list of texts. What a predicate costs is known by its types, what it takes away once some
//! batches have gone by.

use super::Predicate;
use arrow::array::RecordBatch;
use arrow::buffer::BooleanBuffer;
use std::sync::Arc;

/// After so many batches the order is that of what predicates have done.
const TRIAL_BATCHES: usize = 4;

/// The predicates as one stream of rows asks them.
#[derive(Debug)]
pub struct Conjunction {
    parts: Arc<[Predicate]>,
    /// In the order in which they are asked.
    tallies: Vec<Tally>,
    batches: usize,
}

/// What a predicate has done so far.
#[derive(Debug)]
struct Tally {
    /// Its place among the predicates.
    place: usize,
    rows_in: usize,
    rows_out: usize,
}

impl Tally {
    /// What it costs to take a row away; one that was never asked may take all.
    fn rank(&self, cost: usize) -> usize {
        cost.saturating_mul(self.rows_in.max(1)) / (self.rows_in - self.rows_out).max(1)
    }
}

/// The predicates for a [`Conjunction`]: bounds of one column are one of them, and the cheaper ones come first.
#[must_use]
pub fn cheapest_first(parts: Vec<Predicate>) -> Arc<[Predicate]> {
    let apart = |part| match part {
        Predicate::All(parts) => parts,
        part => vec![part],
    };
    let mut parts = apart(Predicate::all(parts.into_iter().flat_map(apart).collect()));
    parts.sort_by_key(Predicate::cost);
    parts.into()
}

impl Conjunction {
    /// Of these, for one stream.
    #[must_use]
    pub fn new(parts: Arc<[Predicate]>) -> Self {
        let tallies = (0..parts.len()).map(|place| Tally { place, rows_in: 0, rows_out: 0 }).collect();
        Self { parts, tallies, batches: 0 }
    }

    /// Which of these rows pass all of them, among those whose bits are set, or of all.
    pub fn passing(&mut self, rows: &RecordBatch, among: Option<&BooleanBuffer>) -> BooleanBuffer {
        let parts = &self.parts;
        if self.batches == TRIAL_BATCHES {
            self.tallies.sort_by_key(|tally| tally.rank(parts[tally.place].cost()));
        }
        self.batches += 1;
        let mut left: Option<BooleanBuffer> = None;
        let mut open = among.map_or(rows.num_rows(), BooleanBuffer::count_set_bits);
        for tally in &mut self.tallies {
            let passing = parts[tally.place].passing(rows, left.as_ref().or(among));
            tally.rows_in += open;
            open = passing.count_set_bits();
            tally.rows_out += open;
            left = Some(passing);
            if open == 0 {
                break;
            }
        }
        left.or_else(|| among.cloned()).unwrap_or_else(|| BooleanBuffer::new_set(rows.num_rows()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int32Array, Int64Array};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, lit};
    use datafusion::physical_plan::PhysicalExpr;

    /// `long` and `word` both go from 0 to 99.
    fn rows() -> RecordBatch {
        let long: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let word: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
        RecordBatch::try_from_iter([("long", long), ("word", word)]).expect("columns of one length")
    }

    #[test]
    fn what_takes_most_away_for_its_cost_comes_first_after_some_batches() {
        let rows = rows();
        let schema = rows.schema();
        let part = |column: &str, operator, value: Arc<dyn PhysicalExpr>| {
            let column = col(column, &schema).expect("there is the column");
            let part = binary(column, operator, value, &schema).expect("types are the same");
            Predicate::of(&part, &schema).expect("it is a comparison")
        };
        let parts = cheapest_first(vec![
            part("long", Operator::Lt, lit(10_i64)),
            part("word", Operator::NotEq, lit(3_i32)),
            part("long", Operator::GtEq, lit(2_i64)),
        ]);
        let mut conjunction = Conjunction::new(parts);
        let places = |conjunction: &Conjunction| {
            conjunction.tallies.iter().map(|tally| tally.place).collect::<Vec<_>>()
        };
        // The bounds of the wider column are one.
        assert_eq!(places(&conjunction), [0, 1]);
        let expected: BooleanBuffer = (0..100).map(|row| (2..10).contains(&row) && row != 3).collect();
        let even: BooleanBuffer = (0..100).map(|row| row % 2 == 0).collect();
        for _ in 0..TRIAL_BATCHES + 1 {
            assert_eq!(conjunction.passing(&rows, None), expected);
        }
        assert_eq!(places(&conjunction), [1, 0]);
        assert_eq!(conjunction.passing(&rows, Some(&even)), &expected & &even);
    }

    #[test]
    fn nothing_asked_is_passed_by_all() {
        let (rows, mut conjunction) = (rows(), Conjunction::new(cheapest_first(Vec::new())));
        assert_eq!(conjunction.passing(&rows, None), BooleanBuffer::new_set(100));
        let few: BooleanBuffer = (0..100).map(|row| row == 7).collect();
        assert_eq!(conjunction.passing(&rows, Some(&few)), few);
    }
}
