// SPDX-License-Identifier: Apache-2.0
//! A transaction's reads and writes of brick tables.
//!
//! Rows are appended at once, under an epoch of the transaction that nobody else sees (see `bricks.rs`). Each savepoint
//! closes the epoch: what is done behind it gets another one, so rolling back to it is rolling back epochs.

use super::locks::definition_changed;
use super::{Scanned, Transaction};
use crate::bricks::{
    BrickChange, BrickChanges, BrickRows, Bricks, ScanOrder, WrittenBricks, begin_append, encode_delete,
    ranges_of,
};
use crate::clock::LogTime;
use crate::column::slice_bytes;
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::table::Table;
use crate::world::World;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use coeval_brick::{
    BrickId, BrickView, ColumnStatistics, Coverage, Deletion, DimensionBounds, Grouping, Number, Reader,
    Rejection, RoutedLoad, Selection, ShardStopped, TableView, Ticket, Visible,
};
use coeval_txn::{Epoch, EpochSet, HeldEpochs, TransactionId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// What an append has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Rows that are there now.
    pub rows: u64,
    /// Rows that were not taken, in ascending order; no more than were allowed.
    pub rejected: Vec<Rejection>,
}

impl Transaction {
    /// Appends the rows of a batch, whose columns are the table's live ones in their order, to a brick table. Up to
    /// `rejected_max` bad rows are left out and reported. Visible to this transaction's next statement, to others with
    /// its commit.
    ///
    /// # Errors
    /// [`StoreError::BrickLoad`] if columns or types are not the table's or more rows are bad;
    /// [`StoreError::TransactionSize`] if one log record would not take what this transaction has appended,
    /// [`StoreError::OutOfMemory`] if there is no memory for it; nothing is changed then, and no string has taken up a dimension's cardinality.
    /// [`StoreError::NoBrickTable`], [`StoreError::SpreadTable`], [`StoreError::ReadOnly`]; [`StoreError::ShardStopped`]: open the
    /// store again.
    pub fn append(
        &mut self,
        table: SpaceId,
        batch: &RecordBatch,
        rejected_max: usize,
    ) -> Result<Appended, StoreError> {
        self.append_all(table, std::slice::from_ref(batch), rejected_max)
    }

    /// As [`append`](Self::append), for batches that are one load: rejected rows are counted through all of them.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn append_all(
        &mut self,
        table: SpaceId,
        batches: &[RecordBatch],
        rejected_max: usize,
    ) -> Result<Appended, StoreError> {
        self.writable("INSERT")?;
        let rows = Arc::clone(self.brick_rows(table)?);
        self.check_appended_bytes(batches)?;
        let columns = batches.iter().flat_map(RecordBatch::columns);
        self.keep(columns.map(|column| slice_bytes(column.as_ref())).sum())?;
        let routed = rows.table().route_all(&batches.iter().collect::<Vec<_>>(), rejected_max)?;
        let mut appended = Appended { rows: 0, rejected: routed.rejected };
        for load in routed.loads.into_iter().filter(|load| load.rows() > 0) {
            appended.rows += load.rows() as u64;
            self.append_load(table, &rows, load)?;
        }
        Ok(appended)
    }

    /// Fails if a log record is full with what has been appended, so that a load ends when that happens and not with
    /// its commit.
    fn check_appended_bytes(&self, batches: &[RecordBatch]) -> Result<(), StoreError> {
        if self.shared.disk.is_none() {
            return Ok(());
        }
        let (done, max) = (self.bricks.done_bytes, self.shared.sizes.batch_bytes_max);
        if done > max && batches.iter().any(|batch| batch.num_rows() > 0) {
            return Err(StoreError::TransactionSize { bytes: done, max });
        }
        Ok(())
    }

    fn append_load(
        &mut self,
        table: SpaceId,
        rows: &Arc<BrickRows>,
        load: RoutedLoad,
    ) -> Result<(), StoreError> {
        self.reference_bricks(table);
        let mut bytes = Vec::new();
        if self.shared.disk.is_some() {
            begin_append(&mut bytes);
            self.bricks.encode_strings(rows, &mut bytes);
            load.encode(&mut bytes);
        }
        let bricks = load.bricks().collect();
        let epoch = self.bricks.epoch(self.world.shared_bricks(), self.id);
        let done = Done { table, rows: Arc::clone(rows), kind: ChangeKind::Load, epoch, bricks, bytes };
        self.bricks.push(done);
        let ticket = rows.table().append(epoch, load)?;
        self.bricks.tickets.lock().push(ticket);
        Ok(())
    }

    /// Appends the rows of batches that hold every column of the definition, dropped and hidden ones included.
    pub(super) fn append_whole(
        &mut self,
        table: SpaceId,
        batches: &[RecordBatch],
    ) -> Result<u64, StoreError> {
        let live: Vec<usize> = self.table_def(table)?.live_columns().map(|(index, _)| index).collect();
        let batches = batches.iter().filter(|batch| batch.num_rows() > 0);
        let batches: Vec<RecordBatch> =
            batches.map(|batch| batch.project(&live)).collect::<Result<_, _>>()?;
        Ok(self.append_all(table, &batches, 0)?.rows)
    }

    /// Deletes the bricks that `select` selects, which must select whole ones. What it deletes is what this transaction
    /// sees of them: rows that others load meanwhile stay. How many rows that were.
    ///
    /// # Errors
    /// [`StoreError::CutBrick`], naming it, if a brick with rows would be cut; nothing is changed then. As
    /// [`append`](Self::append) otherwise.
    pub fn delete_bricks(
        &mut self,
        table: SpaceId,
        select: impl FnOnce(Selection) -> Selection,
    ) -> Result<u64, StoreError> {
        self.writable("DELETE")?;
        let snapshot = self.brick_view(table, select)?;
        let mut bricks = Vec::new();
        let mut rows = 0;
        for brick in snapshot.view.bricks() {
            let visible = brick.visible(&snapshot.reader).count(brick.rows());
            if visible == 0 {
                continue;
            }
            if snapshot.selection.coverage(brick.id()) == Coverage::Cut {
                return Err(snapshot.selection.cut(brick.id()).into());
            }
            bricks.push(brick.id());
            rows += visible as u64;
        }
        if bricks.is_empty() {
            return Ok(0);
        }
        self.reference_bricks(table);
        let epoch = self.bricks.epoch(self.world.shared_bricks(), self.id);
        let mut own = self.bricks.epochs();
        own.push(epoch);
        own.dedup();
        let deletion = Deletion { epoch, covered: self.world.epochs().clone(), own };
        let bytes = if self.shared.disk.is_some() { encode_delete(&deletion, &bricks) } else { Vec::new() };
        let (rows_now, kind) = (Arc::clone(&snapshot.rows), ChangeKind::Delete);
        self.bricks.push(Done { table, rows: rows_now, kind, epoch, bricks: bricks.clone(), bytes });
        let ticket = snapshot.rows.table().delete(deletion, &bricks)?;
        self.bricks.tickets.lock().push(ticket);
        Ok(rows)
    }

    /// The bricks that may have rows of what `select` selects, as this transaction sees them now, own rows included.
    /// They stay as they are whatever anybody does next.
    ///
    /// # Errors
    /// [`StoreError::UnknownSpace`], [`StoreError::NoBrickTable`], [`StoreError::SpreadTable`], [`StoreError::ShardStopped`].
    pub fn brick_view(
        &self,
        table: SpaceId,
        select: impl FnOnce(Selection) -> Selection,
    ) -> Result<BrickSnapshot, StoreError> {
        let snapshot = self.brick_view_to_note(table, select)?;
        self.note_scanned(table, &snapshot.scanned(&snapshot.selection))?;
        Ok(snapshot)
    }

    /// As [`brick_view`](Self::brick_view), for a caller that says by [`note_scanned`](Self::note_scanned) what it looks
    /// at: until then the table's definition alone counts as read.
    ///
    /// # Errors
    /// As [`brick_view`](Self::brick_view).
    pub fn brick_view_to_note(
        &self,
        table: SpaceId,
        select: impl FnOnce(Selection) -> Selection,
    ) -> Result<BrickSnapshot, StoreError> {
        self.note_definition(table);
        let rows = Arc::clone(self.brick_rows(table)?);
        self.bricks.settle()?;
        let selection = select(rows.table().selection());
        let view = rows.table().view(&selection);
        let reader = Reader::writing(self.world.epochs().clone(), self.bricks.epochs());
        let world = Arc::clone(&self.world);
        Ok(BrickSnapshot { table, rows, view, reader, selection, _world: world, _held: None })
    }

    /// The rows of a brick table.
    fn brick_rows(&self, table: SpaceId) -> Result<&Arc<BrickRows>, StoreError> {
        rows_here(self.table(table)?)
    }

    /// A table whose rows have keys.
    #[inline]
    pub(super) fn row_table(&self, id: SpaceId) -> Result<&Arc<Table>, StoreError> {
        let table = self.table(id)?;
        match table.bricks() {
            None => Ok(table),
            Some(_) => Err(StoreError::BrickTable { table: Box::new(table.def().name.clone()) }),
        }
    }

    /// Notes that the transaction relies on a brick table's definition.
    fn reference_bricks(&mut self, table: SpaceId) {
        if self.bricks.done.iter().all(|done| done.table != table) {
            self.reference_definition(table);
        }
    }

    /// Fails if a brick table that was written to is another one in `world`.
    pub(super) fn check_bricks_stay(&self, world: &World) -> Result<(), StoreError> {
        for done in &self.bricks.done {
            let now = world.table(done.table).and_then(|table| table.bricks());
            if !now.is_some_and(|now| now.are_rows_of(&done.rows)) {
                return Err(definition_changed(done.table, world.version()));
            }
        }
        Ok(())
    }
}

/// The rows of a brick table that are in the store. Those of a spread table are elsewhere: empty is not what it is.
fn rows_here(table: &Table) -> Result<&Arc<BrickRows>, StoreError> {
    let name = || Box::new(table.def().name.clone());
    if table.def().is_spread() {
        return Err(StoreError::SpreadTable(name()));
    }
    table.bricks().ok_or_else(|| StoreError::NoBrickTable(name()))
}

/// What one statement reads of a brick table. Purge stays behind it for as long as it lives.
#[derive(Clone)]
pub struct BrickSnapshot {
    table: SpaceId,
    rows: Arc<BrickRows>,
    view: TableView,
    reader: Reader,
    selection: Selection,
    _world: Arc<World>,
    /// Of an order, whose epochs are older than the world's.
    _held: Option<Arc<HeldEpochs>>,
}

impl fmt::Debug for BrickSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrickSnapshot").field("bricks", &self.view.bricks().len()).finish()
    }
}

/// Which rows of a brick table a statement sees. Of two equal ones the rows are the same, if not how they lie in their bricks. Keeps no rows.
#[derive(Debug)]
pub struct BrickVersion {
    rows: Weak<BrickRows>,
    epochs: EpochSet,
}

impl PartialEq for BrickVersion {
    // Nothing else comes to lie where a table's rows were as long as somebody remembers them.
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.rows, &other.rows) && self.epochs == other.epochs
    }
}

impl BrickSnapshot {
    /// Which rows it sees. `None` if its transaction has written to brick tables: it may append more under an epoch that it sees already.
    #[must_use]
    pub fn version(&self) -> Option<BrickVersion> {
        let epochs = self.reader.snapshot_alone()?.clone();
        Some(BrickVersion { rows: Arc::downgrade(&self.rows), epochs })
    }

    /// What `order` reads, with the bricks and the definition of this world, and its live columns by position.
    pub(crate) fn of_order(world: Arc<World>, order: &ScanOrder) -> Result<(Self, Vec<usize>), StoreError> {
        let refused = |why: String| Err(StoreError::ScanOrder(why));
        let Some((table, rows)) = world.table(order.table).and_then(|table| Some((table, table.bricks()?)))
        else {
            return refused("there is no such brick table any more".to_owned());
        };
        table.check_undamaged()?;
        rows_here(table)?;
        let live: Vec<usize> = table.def().live_columns().map(|(index, _)| index).collect();
        let place = |column: &usize| live.iter().position(|index| index == column);
        let Some(projection) = order.columns.iter().map(place).collect::<Option<Vec<usize>>>() else {
            return refused(format!("\"{}\" lacks a column that it reads", table.def().name));
        };
        let Some(held) = world.shared_bricks().clock().try_hold(&order.epochs) else {
            return refused(
                "its snapshot is no longer there; keep the transaction that made the order".to_owned(),
            );
        };
        let selection = rows.table().selection();
        let Some(view) = rows.table().view(&selection).only(&order.bricks) else {
            return refused(format!("a brick of \"{}\" that it reads is not here", table.def().name));
        };
        let (table, rows, reader) = (order.table, Arc::clone(rows), Reader::of(order.epochs.clone()));
        let held = Some(Arc::new(held));
        Ok((Self { table, rows, view, reader, selection, _world: world, _held: held }, projection))
    }

    /// What reading these bricks' columns (by index in the definition) is, wherever it is done. None for what only this
    /// transaction sees: rows that it has written itself.
    #[must_use]
    pub fn order(&self, columns: Vec<usize>, bricks: BTreeSet<BrickId>) -> Option<ScanOrder> {
        let epochs = self.reader.snapshot_alone()?.clone();
        Some(ScanOrder { table: self.table, columns, bricks: bricks.into_iter().collect(), epochs })
    }

    /// The same bricks as somebody finds them who looks at no epoch: with rows of transactions that run, and deleted ones.
    /// For measuring what looking at epochs costs.
    #[must_use]
    pub fn uncommitted(mut self) -> Self {
        self.reader = Reader::uncommitted();
        self
    }

    /// The bricks, by id.
    #[must_use]
    pub fn bricks(&self) -> &[BrickView] {
        self.view.bricks()
    }

    /// All rows of the table, to be narrowed down.
    #[must_use]
    pub fn selection(&self) -> Selection {
        self.rows.table().selection()
    }

    /// What reading the rows that `selection` selects counts as: bricks that have some, and those that might get some.
    #[must_use]
    pub fn scanned(&self, selection: &Selection) -> Vec<Scanned> {
        ranges_of(selection).map(Scanned::Keys).into_iter().collect()
    }

    /// The Arrow schema of what [`batches`](Self::batches) gives, without a projection.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.rows.table().schema().arrow()
    }

    /// Whether all rows of a brick are visible: then its [`statistics`](Self::statistics) are those of what is seen.
    #[must_use]
    pub fn sees_all(&self, brick: &BrickView) -> bool {
        brick.visible(&self.reader) == Visible::All
    }

    /// How many rows of a brick are visible. Cost: its epochs vector.
    #[must_use]
    pub fn visible_rows(&self, brick: &BrickView) -> usize {
        brick.visible(&self.reader).count(brick.rows())
    }

    /// The newest epoch of which rows of a brick are visible, if any are. Cost: its epochs vector.
    #[must_use]
    pub fn newest_epoch(&self, brick: &BrickView) -> Option<Epoch> {
        brick.newest_visible(&self.reader)
    }

    /// The visible rows of a brick, block by block, with the live columns that `projection` names by their position.
    /// Strings are dictionaries.
    pub fn batches(
        &self,
        brick: &BrickView,
        projection: &[usize],
    ) -> impl Iterator<Item = RecordBatch> + use<> {
        self.view.batches(brick, &self.reader, projection)
    }

    /// The same of those blocks whose first row is among `rows`, so that several can share a brick. With a `grouping` one
    /// more column follows: each row's group.
    pub fn batches_within(
        &self,
        brick: &BrickView,
        rows: Range<usize>,
        projection: &[usize],
        grouping: Option<&Grouping>,
    ) -> impl Iterator<Item = RecordBatch> + use<> {
        self.view.batches_within(brick, &self.reader, rows, projection, grouping)
    }

    /// Groups of the rows of these bricks by these live columns: dimensions, and metrics that are strings, booleans or whole
    /// numbers that lie close together. `None` for others, and for more than 2^32 groups.
    #[must_use]
    pub fn grouping(&self, bricks: &[&BrickView], columns: &[usize]) -> Option<Grouping> {
        self.view.grouping(bricks, columns)
    }

    /// The values of the grouping's columns in these groups of a brick, column by column. Strings are dictionaries.
    #[must_use]
    pub fn group_values(&self, brick: &BrickView, grouping: &Grouping, groups: &[u32]) -> Vec<ArrayRef> {
        self.view.group_values(brick, grouping, groups)
    }

    /// Between which values the rows of a brick lie in a dimension, which is named by its position among the live
    /// columns; none for other columns.
    #[must_use]
    pub fn dimension_bounds(&self, brick: &BrickView, column: usize) -> Option<DimensionBounds> {
        self.view.dimension_bounds(brick, column)
    }

    /// What is known of a metric in all rows of a brick, visible or not; none for a dimension.
    #[must_use]
    pub fn statistics(&self, brick: &BrickView, column: usize) -> Option<ColumnStatistics> {
        self.view.statistics(brick, column)
    }

    /// Whether a brick can hold a row whose metric lies between `low` and `high`.
    #[must_use]
    pub fn may_hold(&self, brick: &BrickView, column: usize, low: Number, high: Number) -> bool {
        self.view.may_hold(brick, column, low, high)
    }
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChangeKind {
    /// Rows come.
    Load,
    /// Rows go.
    Delete,
}

/// One change of a brick table.
struct Done {
    table: SpaceId,
    rows: Arc<BrickRows>,
    kind: ChangeKind,
    epoch: Epoch,
    bricks: Vec<BrickId>,
    /// For the log; empty without one.
    bytes: Vec<u8>,
}

/// What a transaction has done to brick tables. Dropping it undoes that, unless it was committed.
#[derive(Default)]
pub(super) struct BrickWrites {
    done: Vec<Done>,
    /// The sum of what they have for the log.
    done_bytes: usize,
    /// Set with the first epoch.
    shared: Option<Arc<Bricks>>,
    /// For each table how many strings of each column this transaction's changes bring to the log, up to the first.
    strings: Vec<(Arc<BrickRows>, Vec<u32>)>,
    /// What the shards may not have done yet.
    ///
    /// # Locking
    /// Held while shards are waited for; they take no lock of ours.
    tickets: Mutex<Vec<Ticket>>,
    /// Whether what comes next needs an epoch of its own.
    is_sealed: AtomicBool,
    is_committed: Arc<AtomicBool>,
}

impl fmt::Debug for BrickWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrickWrites").field("epochs", &self.epochs()).finish()
    }
}

impl BrickWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    fn push(&mut self, done: Done) {
        self.done_bytes += done.bytes.len();
        self.done.push(done);
    }

    /// The epochs so far, each once.
    fn epochs(&self) -> Vec<Epoch> {
        let mut epochs: Vec<Epoch> = self.done.iter().map(|done| done.epoch).collect();
        epochs.dedup();
        epochs
    }

    /// The epoch of the next change, which follows at once.
    fn epoch(&mut self, bricks: &Arc<Bricks>, transaction: TransactionId) -> Epoch {
        let is_sealed = self.is_sealed.swap(false, Ordering::Relaxed);
        match self.done.last() {
            Some(last) if !is_sealed => last.epoch,
            _ => {
                self.shared = Some(Arc::clone(bricks));
                bricks.begin(transaction)
            }
        }
    }

    fn encode_strings(&mut self, rows: &Arc<BrickRows>, out: &mut Vec<u8>) {
        let known = self.strings.iter_mut().find(|(known, _)| Arc::ptr_eq(known, rows));
        match known {
            Some((_, counts)) => *counts = rows.table().encode_strings(counts, out),
            None => {
                let counts = rows.table().encode_strings(&rows.logged_strings(), out);
                self.strings.push((Arc::clone(rows), counts));
            }
        }
    }

    /// A mark to [`undo`](Self::undo) up to.
    pub(super) fn savepoint(&self) -> usize {
        self.is_sealed.store(true, Ordering::Relaxed);
        self.done.len()
    }

    /// Waits until the shards have done everything.
    fn settle(&self) -> Result<(), ShardStopped> {
        let mut tickets = self.tickets.lock();
        tickets.drain(..).try_for_each(|ticket| ticket.wait().map(drop))
    }

    /// What the log is to have of it, and the epochs to be committed. Changes of tables that were emptied or dropped
    /// later have gone with them.
    pub(super) fn changes(&mut self, world: &World) -> Result<BrickChanges, StoreError> {
        if self.done.is_empty() {
            return Ok(BrickChanges::default());
        }
        self.settle()?;
        let epochs = self.epochs();
        let is_there = |done: &Done| {
            let now = world.table(done.table).and_then(|table| table.bricks());
            now.is_some_and(|now| now.are_rows_of(&done.rows))
        };
        let written = by_table(&self.done, is_there);
        let written = written.map(|(first, bricks)| WrittenBricks::new(first.table, &first.rows, bricks));
        let written = written.collect();
        let changes = self.done.iter_mut().filter(|done| is_there(done)).map(|done| {
            let bytes = std::mem::take(&mut done.bytes);
            BrickChange { table: done.table, epoch: done.epoch, bytes }
        });
        let changes = changes.collect();
        Ok(BrickChanges { changes, written, epochs, is_committed: Arc::clone(&self.is_committed) })
    }

    /// The transaction has just been committed: the log has the strings that came with the changes.
    pub(super) fn note_committed(&self) {
        if self.done.is_empty() {
            return;
        }
        self.strings.iter().for_each(|(rows, counts)| rows.note_logged(counts));
        let now = LogTime::now();
        let loads = self.done.iter().filter(|done| done.kind == ChangeKind::Load);
        loads.for_each(|done| done.rows.note_loaded(&done.bricks, now));
    }

    /// Undoes everything behind the mark.
    pub(super) fn undo(&mut self, mark: usize) {
        if self.done.len() <= mark {
            return;
        }
        self.strings.clear();
        self.is_sealed.store(true, Ordering::Relaxed);
        let undone = self.done.split_off(mark);
        self.done_bytes -= undone.iter().map(|done| done.bytes.len()).sum::<usize>();
        let shared = self.shared.as_ref().expect("an epoch was begun");
        if let Err(error) = self.settle().and_then(|()| roll_back(&undone)) {
            // The epochs stay pending, so nobody will ever see the rows.
            tracing::error!(%error, "rows of a brick table could not be removed");
            return;
        }
        let mut epochs: Vec<Epoch> = undone.iter().map(|done| done.epoch).collect();
        epochs.dedup();
        shared.roll_back(&epochs);
    }
}

/// The changes that `filter` takes, table by table: the first one, and the bricks of all of them.
fn by_table(changes: &[Done], filter: impl Fn(&Done) -> bool) -> impl Iterator<Item = (&Done, Vec<BrickId>)> {
    let is_of = |one: &Done, other: &Done| Arc::ptr_eq(&one.rows, &other.rows);
    let firsts = changes.iter().enumerate().filter(move |(index, first)| {
        filter(first) && !changes[..*index].iter().any(|before| is_of(before, first))
    });
    firsts.map(move |(index, first)| {
        let all = changes[index..].iter().filter(|done| is_of(done, first));
        (first, all.flat_map(|done| done.bricks.iter().copied()).collect())
    })
}

/// Removes the rows of these changes from their bricks.
fn roll_back(undone: &[Done]) -> Result<(), ShardStopped> {
    let mut tickets = Vec::new();
    for (first, mut bricks) in by_table(undone, |_| true) {
        bricks.sort_unstable();
        bricks.dedup();
        let of_table = undone.iter().filter(|done| Arc::ptr_eq(&done.rows, &first.rows));
        let mut epochs: Vec<Epoch> = of_table.map(|done| done.epoch).collect();
        epochs.dedup();
        tickets.push(first.rows.table().roll_back(&epochs, &bricks)?);
    }
    tickets.into_iter().try_for_each(|ticket| ticket.wait().map(drop))
}

impl Drop for BrickWrites {
    fn drop(&mut self) {
        if !self.is_committed.load(Ordering::Acquire) {
            self.undo(0);
        }
    }
}

#[cfg(test)]
mod tests;
