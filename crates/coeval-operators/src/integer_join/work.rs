// SPDX-License-Identifier: Apache-2.0
//! One part of the looked-up side at its work: batches in, batches of full size out.

use super::built::{Building, Built, key_columns};
use super::shape::{Rows, Shape};
use super::table::{NONE, Table};
use arrow::array::{Array, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::BatchCoalescer;
use arrow::util::bit_util;
use datafusion::common::{DataFusionError, JoinType};
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::Time;
use futures::StreamExt;
use std::sync::Arc;

/// See the module.
pub(super) struct Work {
    shape: Arc<Shape>,
    built: Arc<Built>,
    /// None once all have been read.
    rows: Option<SendableRecordBatchStream>,
    /// The batch whose pairs are being made.
    pairing: Option<Pairing>,
    /// A bit for each built row that has met one.
    met: Vec<u8>,
    /// The built rows that go out at the end, and how many of them have.
    last: Option<(Vec<u32>, usize)>,
    /// Which of all built rows have met one, for a mark.
    marks: Option<BooleanBuffer>,
    coalescer: BatchCoalescer,
    batch_rows: usize,
    time: Time,
}

/// A batch whose rows are paired with built rows, so many pairs at a time.
struct Pairing {
    batch: RecordBatch,
    entries: Vec<u32>,
    /// The row that is next, and how many of its partners it has been paired with.
    row: usize,
    partners: usize,
    /// Whether each row has met one that satisfies the filter.
    has_met: Vec<bool>,
    /// Rows in front of this one that have met none have gone out.
    settled: usize,
}

impl Work {
    /// The rows that come of these and those that are being built.
    pub(super) async fn begin(
        shape: Arc<Shape>,
        building: Building,
        rows: SendableRecordBatchStream,
        batch_rows: usize,
        time: Time,
    ) -> Result<Self> {
        let built = building.await.map_err(DataFusionError::Shared)?;
        let coalescer = BatchCoalescer::new(Arc::clone(&shape.schema), batch_rows)
            .with_biggest_coalesce_batch_size(Some(batch_rows / 2));
        let (rows, met) = (Some(rows), Vec::new());
        let mut work = Self {
            shape,
            built,
            rows,
            pairing: None,
            met,
            last: None,
            marks: None,
            coalescer,
            batch_rows,
            time,
        };
        if work.shape.notes_met() {
            work.met = vec![0; work.built.rows.num_rows().div_ceil(8)];
        }
        // Where no row can meet one, those need not be read that go out only if they do.
        if work.built.table.is_none() && !work.shape.gives_unmet() {
            work.end()?;
        }
        Ok(work)
    }

    /// The next batch that is complete; `None` behind the last one.
    pub(super) async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        loop {
            if let Some(batch) = self.coalescer.next_completed_batch() {
                return Ok(Some((batch, self)));
            }
            let batch = match &mut self.rows {
                Some(rows) if self.pairing.is_none() => Some(rows.next().await.transpose()?),
                _ => None,
            };
            let time = self.time.clone();
            let timer = time.timer();
            match batch {
                Some(Some(batch)) => self.look_up(batch)?,
                Some(None) => self.end()?,
                None if self.pairing.is_some() => self.pair()?,
                None if self.last.is_some() => self.give_last()?,
                None if self.coalescer.is_empty() => return Ok(None),
                None => self.coalescer.finish_buffered_batch()?,
            }
            timer.done();
        }
    }

    fn look_up(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let built = Arc::clone(&self.built);
        let Some(table) = built.table.as_deref() else {
            // Only joins that give rows that meet none have come here.
            return self.give_rows(&batch, &vec![NONE; batch.num_rows()]);
        };
        let entries = table.entries(&key_columns(&self.shape.keys, &batch)?);
        if self.shape.filter.is_none() {
            if self.shape.is_of_built() {
                self.note_entries(table, &entries);
                return Ok(());
            }
            if table.is_unique() || self.shape.is_of_looked_up() {
                return self.give_rows(&batch, &entries);
            }
        } else if entries.iter().all(|entry| *entry == NONE) && !self.shape.gives_unmet() {
            return Ok(());
        }
        let has_met = vec![false; batch.num_rows()];
        self.pairing = Some(Pairing { batch, entries, row: 0, partners: 0, has_met, settled: 0 });
        Ok(())
    }

    /// Notes that built rows have met one: those of these entries, which are not asked anything else.
    fn note_entries(&mut self, table: &Table, entries: &[u32]) {
        for entry in entries.iter().filter(|entry| **entry != NONE) {
            if table.is_unique() {
                bit_util::set_bit(&mut self.met, *entry as usize);
                continue;
            }
            let rows = table.rows(*entry);
            // The rows of a group meet one together.
            if rows.first().is_some_and(|first| !bit_util::get_bit(&self.met, *first as usize)) {
                rows.iter().for_each(|row| bit_util::set_bit(&mut self.met, *row as usize));
            }
        }
    }

    /// Gives what comes of a batch whose rows meet one each at most, or are only asked whether they meet one.
    fn give_rows(&mut self, batch: &RecordBatch, entries: &[u32]) -> Result<()> {
        let rows = entries.len();
        let meets = BooleanBuffer::collect_bool(rows, |row| entries[row] != NONE);
        let count = meets.count_set_bits();
        let built = Arc::clone(&self.built);
        if self.shape.notes_met() {
            entries.iter().filter(|entry| **entry != NONE).for_each(|row| {
                bit_util::set_bit(&mut self.met, *row as usize);
            });
        }
        let nowhere = UInt32Array::new_null(0);
        let without_built = (&built.rows, &Rows::At(&nowhere));
        let outgoing = match self.shape.kind {
            JoinType::RightMark => {
                let mark = Some(BooleanArray::new(meets, None));
                self.shape.outgoing(without_built, (batch, &Rows::All), mark, rows)?
            }
            JoinType::RightSemi | JoinType::RightAnti => {
                let is_anti = self.shape.kind == JoinType::RightAnti;
                let (given, count) = if is_anti { (!&meets, rows - count) } else { (meets, count) };
                match count {
                    0 => return Ok(()),
                    _ if count == rows => {
                        self.shape.outgoing(without_built, (batch, &Rows::All), None, rows)?
                    }
                    _ => {
                        let given = Rows::masked(&BooleanArray::new(given, None));
                        self.shape.outgoing(without_built, (batch, &given), None, count)?
                    }
                }
            }
            _ if count == rows => {
                let partners = UInt32Array::from(entries.to_vec());
                self.shape.outgoing((&built.rows, &Rows::At(&partners)), (batch, &Rows::All), None, rows)?
            }
            _ if self.shape.gives_unmet() => {
                let partners = entries.iter().map(|entry| if *entry == NONE { 0 } else { *entry });
                let partners = UInt32Array::new(partners.collect(), Some(NullBuffer::new(meets)));
                self.shape.outgoing((&built.rows, &Rows::At(&partners)), (batch, &Rows::All), None, rows)?
            }
            _ if count == 0 => return Ok(()),
            _ => {
                let partners = entries.iter().copied().filter(|entry| *entry != NONE);
                let partners = UInt32Array::from_iter_values(partners);
                let given = Rows::masked(&BooleanArray::new(meets, None));
                self.shape.outgoing((&built.rows, &Rows::At(&partners)), (batch, &given), None, count)?
            }
        };
        self.coalescer.push_batch(outgoing)?;
        Ok(())
    }

    /// Makes the next pairs of the batch, and gives what comes of them.
    fn pair(&mut self) -> Result<()> {
        let (Some(mut pairing), built) = (self.pairing.take(), Arc::clone(&self.built)) else {
            return Ok(());
        };
        let Some(table) = built.table.as_deref() else { return Ok(()) };
        let (mut looked_up, mut partners) = pairing.next_pairs(table, self.batch_rows);
        if let Some(filter) = &self.shape.filter
            && !looked_up.is_empty()
        {
            let (of_looked_up, of_built) = (UInt32Array::from(looked_up), UInt32Array::from(partners));
            let pairs = ((&built.rows, &of_built), (&pairing.batch, &of_looked_up));
            let passing = Shape::passing(filter, pairs.0, pairs.1)?;
            let passes = |pair: &usize| passing.is_valid(*pair) && passing.value(*pair);
            let passing: Vec<usize> = (0..of_built.len()).filter(passes).collect();
            looked_up = passing.iter().map(|pair| of_looked_up.value(*pair)).collect();
            partners = passing.iter().map(|pair| of_built.value(*pair)).collect();
        }
        looked_up.iter().for_each(|row| pairing.has_met[*row as usize] = true);
        if self.shape.notes_met() {
            partners.iter().for_each(|row| bit_util::set_bit(&mut self.met, *row as usize));
        }
        let is_done = pairing.is_done();
        if self.shape.is_of_looked_up() {
            if is_done {
                let entries: Vec<u32> =
                    pairing.has_met.iter().map(|has_met| if *has_met { 0 } else { NONE }).collect();
                self.give_rows(&pairing.batch, &entries)?;
            }
        } else if !self.shape.is_of_built() {
            self.give_pairs(&mut pairing, looked_up, partners)?;
        }
        self.pairing = (!is_done).then_some(pairing);
        Ok(())
    }

    fn give_pairs(&mut self, pairing: &mut Pairing, looked_up: Vec<u32>, partners: Vec<u32>) -> Result<()> {
        let (of_looked_up, of_built) = if self.shape.gives_unmet() {
            pairing.with_unmet(&looked_up, &partners)
        } else {
            (UInt32Array::from(looked_up), UInt32Array::from(partners))
        };
        let rows = of_looked_up.len();
        if rows == 0 {
            return Ok(());
        }
        let built = (&self.built.rows, &Rows::At(&of_built));
        let outgoing = self.shape.outgoing(built, (&pairing.batch, &Rows::At(&of_looked_up)), None, rows)?;
        self.coalescer.push_batch(outgoing)?;
        Ok(())
    }

    /// Ends the looked-up rows of this part. The part that is the last has the rows that go out by what they have met.
    fn end(&mut self) -> Result<()> {
        self.rows = None;
        if !self.shape.notes_met() {
            return Ok(());
        }
        let rows = self.built.rows.num_rows();
        let met = BooleanBuffer::new(std::mem::take(&mut self.met).into(), 0, rows);
        let Some(met) = self.built.end_part(&met) else { return Ok(()) };
        let last: Vec<u32> = match self.shape.kind {
            JoinType::LeftMark => (0..rows as u32).collect(),
            JoinType::LeftSemi => met.set_indices_u32().collect(),
            _ => (!&met).set_indices_u32().collect(),
        };
        self.marks = (self.shape.kind == JoinType::LeftMark).then_some(met);
        self.last = Some((last, 0));
        Ok(())
    }

    fn give_last(&mut self) -> Result<()> {
        let Some((last, given)) = self.last.take() else { return Ok(()) };
        let rows = (last.len() - given).min(self.batch_rows);
        if rows == 0 {
            return Ok(());
        }
        let of_built = UInt32Array::from(last[given..given + rows].to_vec());
        let mark = self.marks.as_ref().map(|marks| BooleanArray::new(marks.slice(given, rows), None));
        let nowhere = UInt32Array::new_null(rows);
        let looked_up = RecordBatch::new_empty(Arc::clone(&self.shape.looked_up));
        let built = (&self.built.rows, &Rows::At(&of_built));
        let outgoing = self.shape.outgoing(built, (&looked_up, &Rows::At(&nowhere)), mark, rows)?;
        self.coalescer.push_batch(outgoing)?;
        self.last = Some((last, given + rows));
        Ok(())
    }
}

impl Pairing {
    const fn is_done(&self) -> bool {
        self.row == self.entries.len()
    }

    /// The next pairs, this many at most: the looked-up rows and the built ones.
    fn next_pairs(&mut self, table: &Table, count: usize) -> (Vec<u32>, Vec<u32>) {
        let (mut looked_up, mut built) = (Vec::with_capacity(count), Vec::with_capacity(count));
        while !self.is_done() && looked_up.len() < count {
            let entry = self.entries[self.row];
            let only = [entry];
            let partners: &[u32] = match entry {
                NONE => &[],
                _ if table.is_unique() => &only,
                _ => table.rows(entry),
            };
            let waiting = &partners[self.partners..];
            let taken = waiting.len().min(count - looked_up.len());
            looked_up.extend(std::iter::repeat_n(self.row as u32, taken));
            built.extend_from_slice(&waiting[..taken]);
            if taken == waiting.len() {
                (self.row, self.partners) = (self.row + 1, 0);
            } else {
                self.partners += taken;
            }
        }
        (looked_up, built)
    }

    /// These pairs with the rows among them that have met none, in the order of the batch.
    fn with_unmet(&mut self, looked_up: &[u32], built: &[u32]) -> (UInt32Array, UInt32Array) {
        let (mut all, mut partners) =
            (Vec::with_capacity(looked_up.len()), Vec::with_capacity(looked_up.len()));
        let mut next = 0;
        for row in self.settled..self.row {
            while looked_up.get(next).is_some_and(|paired| *paired as usize == row) {
                all.push(row as u32);
                partners.push(Some(built[next]));
                next += 1;
            }
            if !self.has_met[row] {
                all.push(row as u32);
                partners.push(None);
            }
        }
        // Of the row that has more partners than there was room for.
        all.extend_from_slice(&looked_up[next..]);
        partners.extend(built[next..].iter().copied().map(Some));
        self.settled = self.row;
        (UInt32Array::from(all), UInt32Array::from(partners))
    }
}
