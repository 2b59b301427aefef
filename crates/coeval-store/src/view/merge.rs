// SPDX-License-Identifier: Apache-2.0
//! Rows of a chunk and new rows, put into key order: columns of both sides become the columns of a batch.
//!
//! Rows that follow one another on one side are a *run*, and are copied at once:
//!
//! ```text
//! old rows that are wanted     0 1 2 . 4 5 . 7
//! new rows, and their places         a(3)    b(7)
//! runs                         [0 1 2] [a] [4 5] [b] [7]
//! ```
//!
//! Of old rows nearly all of which are wanted, runs are taken as they lie there. Of fewer, which lie scattered, Arrow's filter
//! first makes columns without the others: runs of these end at new rows only.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, BooleanBufferBuilder, MutableArrayData,
    PrimitiveArray, downcast_primitive, make_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::compute::{FilterBuilder, FilterPredicate, interleave};
use arrow::error::ArrowError;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Which side a row is taken from, and where it lies there.
type Place = (usize, usize);

const OLD: usize = 0;
const NEW: usize = 1;

/// Values that are not of one width are copied by runs if these have so many rows on average, and one by one otherwise: a
/// run costs about as much as so many look-ups.
const RUN_ROWS_MIN: usize = 4;

/// Old rows are taken as they lie there if no more than one in so many is not wanted.
const UNWANTED_MIN: usize = 8;

/// Rows of both sides in key order.
pub(super) struct Merge {
    /// What makes columns of the old rows that are wanted, if these are not taken as they lie there.
    filter: Option<FilterPredicate>,
    runs: Vec<Run>,
    rows: usize,
    /// The rows one by one, when they are first asked for.
    places: OnceLock<Vec<Place>>,
}

/// Rows of one side that follow one another.
struct Run {
    side: usize,
    rows: Range<usize>,
}

impl Merge {
    /// The rows that are marked on either side. `place` says of a new row which old one it goes before, or replaces; an old
    /// row that is replaced must not be marked.
    pub(super) fn new(old: &BooleanBuffer, new: &BooleanBuffer, place: impl Fn(usize) -> usize) -> Self {
        let mut merge = Self { filter: None, runs: Vec::new(), rows: 0, places: OnceLock::new() };
        let unwanted = old.len() - old.count_set_bits();
        if unwanted * UNWANTED_MIN <= old.len() {
            merge.take_as_they_lie(old, new, place);
        } else {
            let filter = FilterBuilder::new(&BooleanArray::new(old.clone(), None)).optimize().build();
            merge.filter = Some(filter);
            merge.take_filtered(old, new, place);
        }
        merge
    }

    /// Makes runs of old rows by their places among all.
    fn take_as_they_lie(&mut self, old: &BooleanBuffer, new: &BooleanBuffer, place: impl Fn(usize) -> usize) {
        let mut waiting = new.set_indices().peekable();
        for (mut start, end) in old.set_slices() {
            while let Some(row) = waiting.next_if(|row| place(*row) < end) {
                let behind = place(row).max(start);
                self.push(OLD, start..behind);
                self.push(NEW, row..row + 1);
                start = behind;
            }
            self.push(OLD, start..end);
        }
        for row in waiting {
            self.push(NEW, row..row + 1);
        }
    }

    /// Makes runs of old rows by their places among those that are wanted.
    fn take_filtered(&mut self, old: &BooleanBuffer, new: &BooleanBuffer, place: impl Fn(usize) -> usize) {
        // Of the old rows before `start` so many are wanted.
        let (mut start, mut taken) = (0, 0);
        for row in new.set_indices() {
            let end = place(row).min(old.len());
            let wanted = old.slice(start, end - start).count_set_bits();
            self.push(OLD, taken..taken + wanted);
            self.push(NEW, row..row + 1);
            (start, taken) = (end, taken + wanted);
        }
        let wanted = old.slice(start, old.len() - start).count_set_bits();
        self.push(OLD, taken..taken + wanted);
    }

    fn push(&mut self, side: usize, rows: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        self.rows += rows.len();
        match self.runs.last_mut() {
            Some(last) if last.side == side && last.rows.end == rows.start => last.rows.end = rows.end,
            Some(_) | None => self.runs.push(Run { side, rows }),
        }
    }

    /// A column of the outcome, out of one of all old rows and one of all new rows.
    ///
    /// # Errors
    /// If the columns are of different types.
    pub(super) fn column(&self, old: &ArrayRef, new: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if old.data_type() != new.data_type() {
            let what = format!("a column of {} has new values of {}", old.data_type(), new.data_type());
            return Err(ArrowError::InvalidArgumentError(what));
        }
        let filtered = self.filter.as_ref().map(|filter| filter.filter(old)).transpose()?;
        let old = filtered.as_ref().unwrap_or(old);
        macro_rules! copied {
            ($type:ty) => {
                Ok(Arc::new(self.primitives::<$type>(old.as_primitive(), new.as_primitive())))
            };
        }
        downcast_primitive! {
            old.data_type() => (copied),
            _ => self.others(old, new),
        }
    }

    /// A column of numbers.
    fn primitives<T: ArrowPrimitiveType>(
        &self,
        old: &PrimitiveArray<T>,
        new: &PrimitiveArray<T>,
    ) -> PrimitiveArray<T> {
        let sides = [old, new];
        let mut values = Vec::with_capacity(self.rows);
        for run in &self.runs {
            values.extend_from_slice(&sides[run.side].values()[run.rows.clone()]);
        }
        let nulls = (old.null_count() + new.null_count() > 0).then(|| {
            let mut valid = BooleanBufferBuilder::new(self.rows);
            for run in &self.runs {
                match sides[run.side].nulls() {
                    Some(nulls) => {
                        valid.append_buffer(&nulls.inner().slice(run.rows.start, run.rows.len()));
                    }
                    None => valid.append_n(run.rows.len(), true),
                }
            }
            NullBuffer::new(valid.finish())
        });
        PrimitiveArray::new(ScalarBuffer::from(values), nulls).with_data_type(old.data_type().clone())
    }

    /// A column of another kind.
    fn others(&self, old: &ArrayRef, new: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if self.runs.len() * RUN_ROWS_MIN > self.rows {
            return interleave(&[old.as_ref(), new.as_ref()], self.places());
        }
        let sides = [old.to_data(), new.to_data()];
        let mut values = MutableArrayData::new(sides.iter().collect(), false, self.rows);
        for run in &self.runs {
            values.try_extend(run.side, run.rows.start, run.rows.end)?;
        }
        Ok(make_array(values.freeze()))
    }

    fn places(&self) -> &[Place] {
        let of_run = |run: &Run| {
            let side = run.side;
            run.rows.clone().map(move |row| (side, row))
        };
        self.places.get_or_init(|| self.runs.iter().flat_map(of_run).collect())
    }
}
