// SPDX-License-Identifier: Apache-2.0
//! A brick table: routes loads, hands changes to the shards, gives views to readers.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use coeval_txn::Epoch;

use crate::brick::{BrickMemory, BrickView, Deletion};
use crate::brick_id::{BrickId, shard_of};
use crate::dictionaries::Dictionaries;
use crate::dictionary::Dictionary;
use crate::load::{LoadError, Routed, RoutedBatches, RoutedLoad};
use crate::route::route;
use crate::scan::TableView;
use crate::schema::BrickSchema;
use crate::selection::{Coverage, CutBrick, Selection};
use crate::shards::{ShardStopped, Shards, Ticket};
use crate::stored::{LoadBytes, MalformedLoad, decode_load, decode_strings, encode_strings};
use crate::table_shard::{Operation, TableShard};

/// A brick table in memory.
///
/// A transaction loads in three steps: [`route`](Self::route) a batch (which is where a load can fail), begin an
/// epoch, [`append`](Self::append). It must have waited for all its tickets before its epochs are committed, so
/// that whoever sees the epochs finds the rows. To roll back it gives the bricks that it touched to
/// [`roll_back`](Self::roll_back), waits, and then ends the epochs.
///
/// A reader fixes its set of epochs first (and holds it, so that purge stays behind), and takes a
/// [`view`](Self::view) second, at the start of each statement. Taking a view and scanning wait for nobody.
pub struct BrickTable {
    schema: Arc<BrickSchema>,
    dictionaries: Arc<Dictionaries>,
    shards: Arc<Shards>,
    parts: Vec<Arc<TableShard>>,
}

impl BrickTable {
    /// A table without rows.
    #[must_use]
    pub fn new(schema: impl Into<Arc<BrickSchema>>, shards: Arc<Shards>) -> Self {
        let schema = schema.into();
        let dictionaries = Arc::new(Dictionaries::new(&schema));
        let parts = (0..shards.count()).map(|_| Arc::new(TableShard::new())).collect();
        Self { schema, dictionaries, shards, parts }
    }

    /// The same rows in a table of other columns: those that it has, perhaps under other names, and perhaps metrics
    /// behind them. No row is touched: whoever goes on using this table and whoever uses the other one see the rows of
    /// both, each by their own columns.
    ///
    /// # Panics
    ///
    /// If `schema` does not [extend](BrickSchema::extends) the table's.
    #[must_use]
    pub fn redeclared(&self, schema: impl Into<Arc<BrickSchema>>) -> Self {
        let schema = schema.into();
        assert!(schema.extends(&self.schema), "the columns that a table has stay as they are");
        let dictionaries = Arc::new(self.dictionaries.extended(&schema));
        let (shards, parts) = (Arc::clone(&self.shards), self.parts.clone());
        Self { schema, dictionaries, shards, parts }
    }

    /// Whether both are tables of the same rows.
    #[must_use]
    pub fn shares_rows_with(&self, other: &Self) -> bool {
        let parts = self.parts.iter().zip(&other.parts);
        self.parts.len() == other.parts.len() && parts.into_iter().all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The table's columns.
    #[must_use]
    pub fn schema(&self) -> &BrickSchema {
        &self.schema
    }

    /// Validates `batch`, whose columns are the table's in order, and puts its rows into the order of their bricks.
    ///
    /// Up to `rejected_max` bad rows are left out and reported. Nothing is visible or changed by this, but that
    /// new strings of good rows get their codes. Cost: some passes over the columns on the caller's thread.
    ///
    /// # Errors
    ///
    /// If columns or types are not the table's, or more rows are bad: then nothing of the batch is loaded, and no
    /// string got a code.
    pub fn route(&self, batch: &RecordBatch, rejected_max: usize) -> Result<Routed, LoadError> {
        let mut routed =
            route(&self.schema, &self.dictionaries, self.shards.count(), &[batch], rejected_max)?;
        Ok(Routed { load: routed.loads.swap_remove(0), rejected: routed.rejected })
    }

    /// As [`route`](Self::route), for batches that are one load: all of it is refused, or none.
    ///
    /// # Errors
    ///
    /// As [`route`](Self::route).
    pub fn route_all(
        &self,
        batches: &[&RecordBatch],
        rejected_max: usize,
    ) -> Result<RoutedBatches, LoadError> {
        route(&self.schema, &self.dictionaries, self.shards.count(), batches, rejected_max)
    }

    /// Appends rows that [`route`](Self::route) has put in order as rows of `epoch`, a pending one.
    ///
    /// Waits while the shards' queues are full. The rows are there once the ticket says so, and visible to others
    /// once the epoch is committed.
    ///
    /// # Errors
    ///
    /// If a shard has stopped; a part of the rows may have been appended.
    ///
    /// # Panics
    ///
    /// If the rows were routed for a table with another number of shards.
    pub fn append(&self, epoch: Epoch, load: RoutedLoad) -> Result<Ticket, ShardStopped> {
        assert_eq!(load.shard_pieces.len(), self.parts.len(), "the load was routed for these shards");
        let load = Arc::new(load);
        let pieces = load.shard_pieces.clone();
        let parts = pieces.into_iter().enumerate().filter(|(_, pieces)| !pieces.is_empty());
        let append = |(shard, pieces)| (shard, Operation::Append { epoch, load: Arc::clone(&load), pieces });
        self.shards.submit(&self.parts, parts.map(append))
    }

    /// As [`append`](Self::append), of several loads, one behind the other, each as rows of its epoch. Each shard is asked once for all of
    /// them: of many small loads, to wake its thread for each costs more than to copy their rows.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    ///
    /// # Panics
    ///
    /// As [`append`](Self::append).
    pub fn append_each(&self, loads: Vec<(Epoch, RoutedLoad)>) -> Result<Ticket, ShardStopped> {
        let are_for_these = loads.iter().all(|(_, load)| load.shard_pieces.len() == self.parts.len());
        assert!(are_for_these, "the loads were routed for these shards");
        let loads: Arc<[(Epoch, RoutedLoad)]> = loads.into();
        let has_rows = |shard: &usize| loads.iter().any(|(_, load)| !load.shard_pieces[*shard].is_empty());
        let append = |shard| (shard, Operation::AppendEach { loads: Arc::clone(&loads), shard });
        self.shards.submit(&self.parts, (0..self.parts.len()).filter(has_rows).map(append))
    }

    /// Appends the strings of each string column whose codes are from `first` on, as bytes; how many strings each has
    /// then. `first` has a number for each string column.
    ///
    /// # Panics
    ///
    /// If it has not.
    pub fn encode_strings(&self, first: &[u32], out: &mut Vec<u8>) -> Vec<u32> {
        encode_strings(&self.schema, &self.dictionaries, first, out)
    }

    /// Enters strings under the codes that they had when they were [encoded](Self::encode_strings). Returns what
    /// follows them.
    ///
    /// # Errors
    ///
    /// If the bytes are not such, or a code belongs to another string; some strings may have been entered.
    pub fn restore_strings<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], MalformedLoad> {
        decode_strings(&self.schema, &self.dictionaries, bytes)
    }

    /// How many strings each string column has.
    #[must_use]
    pub fn string_counts(&self) -> Vec<u32> {
        let columns = (0..self.schema.columns().len()).filter_map(|column| self.dictionaries.get(column));
        columns.map(Dictionary::count).collect()
    }

    /// Reads a load back that was [encoded](RoutedLoad::encode), its strings being there already. Returns it with what
    /// follows it.
    ///
    /// # Errors
    ///
    /// If the bytes are no load of this table.
    pub fn decode<'a>(&self, bytes: &'a [u8]) -> Result<(RoutedLoad, &'a [u8]), MalformedLoad> {
        decode_load(&self.schema, &self.dictionaries, self.shards.count(), LoadBytes::Copied(bytes))
    }

    /// As [`decode`](Self::decode), of bytes that the load keeps in place of a copy of its values: for rows that are appended at once.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    pub fn decode_kept<'a>(&self, bytes: &'a Buffer) -> Result<(RoutedLoad, &'a [u8]), MalformedLoad> {
        decode_load(&self.schema, &self.dictionaries, self.shards.count(), LoadBytes::Kept(bytes))
    }

    /// Appends the rows of one brick that were flushed under their `epochs`, each with the number of its rows.
    ///
    /// # Errors
    ///
    /// If a shard has stopped.
    ///
    /// # Panics
    ///
    /// If the load is not of one brick, or the epochs have not as many rows.
    pub fn restore(&self, epochs: &[(Epoch, usize)], load: RoutedLoad) -> Result<Ticket, ShardStopped> {
        assert_eq!(load.pieces.len(), 1, "a flushed load is of one brick");
        let mut row = 0;
        let runs = epochs.iter().map(|(epoch, count)| {
            row += count;
            (*epoch, row - count..row)
        });
        let runs: Vec<_> = runs.collect();
        assert_eq!(row, load.rows(), "each row has its epoch");
        let shard = shard_of(load.pieces[0].brick, self.parts.len());
        let operation = Operation::Restore { load: Arc::new(load), runs };
        self.shards.submit(&self.parts, std::iter::once((shard, operation)))
    }

    /// Notes that rows of these bricks, which have been appended, became visible at `at`: a time of whatever unit the caller
    /// counts in, 0 being none. What is known of a brick stays with it through purges and rollbacks, and goes when nothing is
    /// left of it. Cost: a look-up for each brick.
    pub fn note_loaded(&self, bricks: &[BrickId], at: u64) {
        let by_shard: Vec<_> = self.parts.iter().map(|part| part.bricks()).collect();
        let found = bricks.iter().filter_map(|brick| by_shard[shard_of(*brick, by_shard.len())].get(brick));
        found.for_each(|brick| brick.note_loaded(at));
    }

    /// Deletes whole `bricks` (from [`whole_bricks`](Self::whole_bricks)). The transaction must have waited for its
    /// own appends to them, and goes on holding the covered set until it has ended.
    ///
    /// # Errors
    ///
    /// If a shard has stopped; a part of the bricks may have been marked.
    pub fn delete(&self, deletion: Deletion, bricks: &[BrickId]) -> Result<Ticket, ShardStopped> {
        let deletion = Arc::new(deletion);
        self.submit_by_brick(bricks, |bricks| Operation::Delete { deletion: Arc::clone(&deletion), bricks })
    }

    /// Deletes a brick of which there may be nothing yet: rows that the delete covers are not there for who sees it, also if
    /// they come later, as those that another node gives.
    ///
    /// # Errors
    ///
    /// If a shard has stopped.
    pub fn delete_ahead(&self, deletion: Deletion, brick: BrickId) -> Result<Ticket, ShardStopped> {
        let shard = shard_of(brick, self.parts.len());
        let operation = Operation::DeleteAhead { deletion, brick };
        self.shards.submit(&self.parts, std::iter::once((shard, operation)))
    }

    /// Removes all that `epochs`, pending ones, have appended and deleted in `bricks`. End the epochs only when the
    /// ticket says that it is done.
    ///
    /// # Errors
    ///
    /// If a shard has stopped; leave the epochs pending then.
    pub fn roll_back(&self, epochs: &[Epoch], bricks: &[BrickId]) -> Result<Ticket, ShardStopped> {
        let epochs: Arc<[Epoch]> = epochs.into();
        self.submit_by_brick(bricks, |bricks| Operation::RollBack { epochs: Arc::clone(&epochs), bricks })
    }

    fn submit_by_brick(
        &self,
        bricks: &[BrickId],
        operation: impl Fn(Vec<BrickId>) -> Operation,
    ) -> Result<Ticket, ShardStopped> {
        let mut by_shard: Vec<Vec<BrickId>> = vec![Vec::new(); self.parts.len()];
        for brick in bricks {
            by_shard[shard_of(*brick, self.parts.len())].push(*brick);
        }
        let parts = by_shard.into_iter().enumerate().filter(|(_, bricks)| !bricks.is_empty());
        self.shards.submit(&self.parts, parts.map(|(shard, bricks)| (shard, operation(bricks))))
    }

    /// Merges the entries and applies the deletes of all epochs up to `safe`, which is LSE: see
    /// [`EpochClock::advance_safe`](coeval_txn::EpochClock::advance_safe). No reader notices.
    ///
    /// # Errors
    ///
    /// If a shard has stopped.
    pub fn purge(&self, safe: Epoch) -> Result<Ticket, ShardStopped> {
        self.shards.submit(&self.parts, (0..self.parts.len()).map(|shard| (shard, Operation::Purge { safe })))
    }

    /// All rows, to be narrowed down by conditions on dimensions.
    #[must_use]
    pub fn selection(&self) -> Selection {
        Selection::all(Arc::clone(&self.schema), Arc::clone(&self.dictionaries))
    }

    /// The bricks of which `selection` has all rows; together these are all rows that it selects.
    ///
    /// # Errors
    ///
    /// If it selects a part of a brick: names that.
    pub fn whole_bricks(&self, selection: &Selection) -> Result<Vec<BrickId>, CutBrick> {
        let mut whole = Vec::new();
        for part in &self.parts {
            for brick in part.bricks().keys() {
                match selection.coverage(*brick) {
                    Coverage::Outside => {}
                    Coverage::Whole => whole.push(*brick),
                    Coverage::Cut => return Err(selection.cut(*brick)),
                }
            }
        }
        whole.sort_unstable();
        Ok(whole)
    }

    /// The bricks that may have rows of `selection`, as they are now: what one statement reads.
    ///
    /// Fix the set of epochs to read by before. Cost: a reference count for each brick; waits for nobody.
    #[must_use]
    pub fn view(&self, selection: &Selection) -> TableView {
        let is_selected = |brick: BrickId| selection.coverage(brick) != Coverage::Outside;
        let mut bricks: Vec<BrickView> = Vec::new();
        for part in &self.parts {
            let selected = part.bricks();
            let selected = selected.iter().filter(|(brick, _)| is_selected(**brick));
            bricks.extend(selected.map(|(_, brick)| BrickView::of(Arc::clone(brick))));
        }
        bricks.sort_unstable_by_key(BrickView::id);
        TableView::new(Arc::clone(&self.schema), Arc::clone(&self.dictionaries), bricks)
    }

    /// One brick as it is now; a view of none if there is nothing of it. As [`view`](Self::view) otherwise. Cost: a look-up.
    #[must_use]
    pub fn view_of(&self, brick: BrickId) -> TableView {
        let bricks = self.parts[shard_of(brick, self.parts.len())].bricks();
        let found = bricks.get(&brick).map(|brick| BrickView::of(Arc::clone(brick)));
        TableView::new(Arc::clone(&self.schema), Arc::clone(&self.dictionaries), found.into_iter().collect())
    }

    /// What all bricks take of memory now.
    #[must_use]
    pub fn memory(&self) -> BrickMemory {
        let bricks: Vec<_> = self.parts.iter().map(|part| part.bricks()).collect();
        let memory = bricks.iter().flat_map(|bricks| bricks.values()).map(|brick| brick.memory());
        memory.fold(BrickMemory::default(), BrickMemory::with)
    }
}
