// SPDX-License-Identifier: Apache-2.0
//! [`BrickSum`]: whether all replicas of a brick have the same rows.
//!
//! All nodes that serve a brick give the rows that one snapshot sees, as they do for readers. A snapshot stands for the same rows
//! on every node, so the sums of these are the same, whatever loads meanwhile; in which order a node has its rows, under which labels, and
//! which codes stand for their texts, is its own affair.
//!
//! Why the rows come here, and not the sums: so the way is the one that readers go, with all that may be wrong on it.

use super::error::ReadError;
use super::life::Life;
use super::reading::{Here, PAUSE, Refused};
use super::snapshot::Snapshot;
use crate::brick_rows::BrickRows;
use crate::node::NodeId;
use arrow::array::RecordBatch;
use arrow::row::{RowConverter, SortField};
use coeval_txn::EpochSet;
use coeval_txn::cluster::BrickAddress;
use std::collections::BTreeMap;
use std::time::Instant;
use tokio::time::sleep;
use twox_hash::XxHash64;

/// What makes a row's checksum another one than a brick's place.
const ROW_SEED: u64 = 3;

/// What a replica of a brick has, in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrickSum {
    /// How many rows.
    pub rows: u64,
    /// The checksums of all of them, added up: their order does not matter, and one that is there twice counts twice.
    pub sum: u64,
}

impl BrickSum {
    fn of(rows: &BrickRows) -> Self {
        let mut sum = Self::default();
        rows.batches().for_each(|batch| sum.add(&batch));
        sum
    }

    fn add(&mut self, batch: &RecordBatch) {
        let fields = batch.columns().iter().map(|column| SortField::new(column.data_type().clone()));
        // Texts count by what they say, and not by their place among those of the batch.
        let rows = RowConverter::new(fields.collect())
            .and_then(|converter| converter.convert_columns(batch.columns()))
            .expect("columns of bricks are numbers and texts");
        for row in &rows {
            self.rows += 1;
            self.sum = self.sum.wrapping_add(XxHash64::oneshot(ROW_SEED, row.as_ref()));
        }
    }
}

/// What all who serve a brick have of it.
type Sums = BTreeMap<NodeId, BrickSum>;

impl Snapshot {
    /// What each live replica of a brick has of the rows that this sees: they are all the same, or something is wrong. Nodes to which
    /// the brick is only about to come are left out. While views change, all are asked again. May be given up at any time. Cost: the rows
    /// of each replica come here, one replica at a time, and are in memory for that time.
    ///
    /// # Errors
    /// As [`Snapshot::read`], also if one of several replicas is not to be had in time.
    pub async fn replicas(&self, brick: BrickAddress) -> Result<BTreeMap<NodeId, BrickSum>, ReadError> {
        self.life.replicas(brick, &self.set).await
    }
}

impl Life {
    async fn replicas(&self, brick: BrickAddress, snapshot: &EpochSet) -> Result<Sums, ReadError> {
        if !self.options.tables.has(brick.table) {
            return Err(ReadError::NoTable(brick.table));
        }
        let (begun, after) = (Instant::now(), self.options.timeouts.read);
        let mut last = "no node of the view has it".to_owned();
        while begun.elapsed() < after {
            match self.replicas_at_one_view(brick, snapshot).await? {
                Ok(sums) if sums.is_empty() => {}
                Ok(sums) => return Ok(sums),
                Err(why) => last = why,
            }
            sleep(PAUSE).await;
        }
        let BrickAddress { table, brick } = brick;
        Err(ReadError::NotToBeHad { table, brick, after, last })
    }

    /// What all have that serve the brick at the view of now; or why one of them has not said so, in which case another view may be on its
    /// way.
    async fn replicas_at_one_view(
        &self,
        brick: BrickAddress,
        snapshot: &EpochSet,
    ) -> Result<Result<Sums, String>, ReadError> {
        let here = self.look(|engine| (engine.view(), engine.own(), engine.holders(brick)));
        let (view, own, holders) = here.ok_or_else(|| self.read_ended())?;
        let mut sums = Sums::new();
        for node in holders {
            let rows = if node == own {
                match self.read_here(brick, snapshot)? {
                    Here::Rows(rows) => self.spelled(rows)?,
                    Here::BelowSafe => return Err(ReadError::BelowSafe),
                    Here::Elsewhere(..) => return Ok(Err("the view has changed".to_owned())),
                }
            } else {
                let reading = self.read_from(node, view, brick, snapshot);
                match self.end.run_until_cancelled(reading).await {
                    Some(Ok(rows)) => rows,
                    Some(Err(Refused::BelowSafe)) => return Err(ReadError::BelowSafe),
                    Some(Err(refused)) => return Ok(Err(format!("{node}: {refused}"))),
                    None => return Err(self.read_ended()),
                }
            };
            sums.insert(node, BrickSum::of(&rows));
        }
        Ok(Ok(sums))
    }
}

#[cfg(test)]
mod tests {
    use super::BrickSum;
    use arrow::array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, UInt32Array};
    use std::sync::Arc;

    /// Rows with texts, by these places among these texts.
    fn batch(texts: &[&str], rows: &[(u32, i64)]) -> RecordBatch {
        let places: UInt32Array = rows.iter().map(|(place, _)| Some(*place)).collect();
        let texts: ArrayRef = Arc::new(texts.iter().map(|text| Some(*text)).collect::<StringArray>());
        let words: ArrayRef = Arc::new(DictionaryArray::try_new(places, texts).unwrap());
        let numbers: ArrayRef =
            Arc::new(rows.iter().map(|(_, number)| Some(*number)).collect::<Int64Array>());
        RecordBatch::try_from_iter([("word", words), ("number", numbers)]).unwrap()
    }

    fn sum_of(batches: &[RecordBatch]) -> BrickSum {
        let mut sum = BrickSum::default();
        batches.iter().for_each(|batch| sum.add(batch));
        sum
    }

    /// To break it: take the numbers of texts for texts, or have a row's place change its checksum.
    #[test]
    fn the_same_rows_have_the_same_sum_in_whatever_order_and_by_whatever_codes() {
        let one = sum_of(&[batch(&["north", "south"], &[(0, 1), (1, 2), (1, 2)])]);
        let other = [batch(&["south"], &[(0, 2)]), batch(&["west", "south", "north"], &[(1, 2), (2, 1)])];
        assert_eq!(one, sum_of(&other));
        assert_eq!(one.rows, 3);
    }

    /// To break it: compare the counts alone, or combine checksums so that two of the same cancel each other.
    #[test]
    fn other_rows_have_another_sum() {
        let texts = ["north", "south"];
        let all = [
            sum_of(&[]),
            sum_of(&[batch(&texts, &[(0, 1), (1, 2)])]),
            sum_of(&[batch(&texts, &[(0, 2), (1, 1)])]),
            sum_of(&[batch(&texts, &[(0, 1), (1, 2), (1, 2)])]),
            sum_of(&[batch(&texts, &[(0, 1), (0, 1), (1, 2)])]),
            sum_of(&[batch(&texts, &[(0, 1)])]),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(all[..place].iter().all(|other| other != one), "{place}: {all:?}");
        }
    }
}
