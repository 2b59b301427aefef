// SPDX-License-Identifier: Apache-2.0
//! A brick: blocks of rows and the epochs vector over them.
//!
//! A [`BrickWriter`] belongs to one shard, whose thread alone appends and deletes. Anybody takes a [`BrickView`]:
//! the rows and entries that there are at that moment. What changes rows that are already there (rollback,
//! purge) makes another brick, which shares the blocks that stay as they are.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use coeval_txn::{Epoch, EpochSet};

use crate::block::{BLOCK_ROWS_MIN, Block, BlockWriter, RowValues};
use crate::brick_id::BrickId;
use crate::chain::{Chain, ChainEnd};
use crate::column::BLOCK_ROWS_MAX;
use crate::epochs_vector::{DeleteMarker, EpochsPair, EpochsVector, EpochsWriter, Step};
use crate::schema::BrickSchema;

/// The reading side of a brick.
pub(crate) struct Brick {
    id: BrickId,
    blocks: Chain<PlacedBlock>,
    epochs: EpochsVector,
    /// The published rows. Stored after the block and the epochs vector have them; so who loads it finds both.
    /// A brick that was replaced keeps its count, although the last block may go on growing in its successor.
    rows: AtomicUsize,
    /// When rows were last loaded into it, as whoever loads counts time; 0 if nobody has said so. One for a brick and all that
    /// replace it, so that a note that comes beside a purge is not lost.
    loaded_at: Arc<AtomicU64>,
}

/// A block and where its rows are in the brick. All blocks but the last take no more rows.
pub(crate) struct PlacedBlock {
    pub(crate) first_row: usize,
    pub(crate) block: Arc<Block>,
}

/// The writing side of a brick.
pub(crate) struct BrickWriter {
    brick: Arc<Brick>,
    blocks_end: ChainEnd<PlacedBlock>,
    /// The last block, while it takes rows.
    open_block: Option<BlockWriter>,
    epochs: EpochsWriter,
}

/// What a brick takes of memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrickMemory {
    /// Rows, visible or not.
    pub rows: usize,
    /// The values of these rows.
    pub value_bytes: usize,
    /// All blocks, by capacity.
    pub block_bytes: usize,
    /// Entries of the epochs vector.
    pub epochs_entries: usize,
    /// The epochs vector, by capacity.
    pub epochs_bytes: usize,
}

impl BrickMemory {
    /// The sum over two bricks.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            value_bytes: self.value_bytes + other.value_bytes,
            block_bytes: self.block_bytes + other.block_bytes,
            epochs_entries: self.epochs_entries + other.epochs_entries,
            epochs_bytes: self.epochs_bytes + other.epochs_bytes,
        }
    }
}

/// A delete of whole bricks: by whom, and what it covers.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The deleter's present epoch, which labels the marker.
    pub epoch: Epoch,
    /// What the deleter's snapshot sees: these rows are deleted, wherever they are.
    pub covered: EpochSet,
    /// The deleter's epochs, the present one among them: what it has loaded so far is deleted too.
    pub own: Vec<Epoch>,
}

impl BrickWriter {
    /// An empty brick.
    pub(crate) fn new(id: BrickId) -> Self {
        Self::loaded(id, Arc::default())
    }

    /// An empty brick that is to replace this one.
    pub(crate) fn in_place_of(replaced: &Brick) -> Self {
        Self::loaded(replaced.id, Arc::clone(&replaced.loaded_at))
    }

    fn loaded(id: BrickId, loaded_at: Arc<AtomicU64>) -> Self {
        let (blocks, blocks_end) = Chain::new();
        let (vector, epochs) = EpochsVector::new();
        let brick = Arc::new(Brick { id, blocks, epochs: vector, rows: AtomicUsize::new(0), loaded_at });
        Self { brick, blocks_end, open_block: None, epochs }
    }

    pub(crate) fn brick(&self) -> &Arc<Brick> {
        &self.brick
    }

    /// Appends the rows `from` of `source` as rows of `epoch` (AOSI III-C1).
    pub(crate) fn append(
        &mut self,
        schema: &Arc<BrickSchema>,
        epoch: Epoch,
        source: &RowValues,
        from: Range<usize>,
    ) {
        if from.is_empty() {
            return;
        }
        let start = self.brick.rows.load(Ordering::Relaxed);
        let rows = start + from.len();
        self.append_values(schema, start, source, from);
        self.epochs.append(&self.brick.epochs, epoch, start);
        self.brick.rows.store(rows, Ordering::Release);
    }

    /// Fills blocks with the rows `from` of `source`; the brick has `rows` before. A block takes rows of one schema.
    fn append_values(
        &mut self,
        schema: &Arc<BrickSchema>,
        mut rows: usize,
        source: &RowValues,
        mut from: Range<usize>,
    ) {
        while !from.is_empty() {
            let open = self.open_block.take();
            let open = open.filter(|block| {
                let is_of_schema = Arc::ptr_eq(block.block().schema(), schema);
                if !is_of_schema {
                    block.close();
                }
                is_of_schema
            });
            let mut block = open.unwrap_or_else(|| self.open(schema, rows));
            let part = from.start..from.end.min(from.start + block.room());
            block.append(source, part.clone());
            (rows, from.start) = (rows + part.len(), part.end);
            self.open_block = (block.room() > 0).then_some(block);
        }
    }

    /// Each block is as long as all before it together, up to a limit: so at most half of the rows' memory waits
    /// for rows to come.
    fn open(&mut self, schema: &Arc<BrickSchema>, rows: usize) -> BlockWriter {
        let capacity = rows.next_power_of_two().clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX);
        let block = BlockWriter::new(schema, capacity);
        self.place(rows, Arc::clone(block.block()));
        block
    }

    /// Puts a block behind the others.
    pub(crate) fn place(&mut self, first_row: usize, block: Arc<Block>) {
        assert!(self.open_block.is_none(), "all blocks but the last take no more rows");
        self.blocks_end.push(&self.brick.blocks, PlacedBlock { first_row, block });
    }

    /// Marks the brick as deleted (AOSI III-C2).
    pub(crate) fn delete(&mut self, deletion: &Deletion) {
        let Deletion { epoch, covered, own } = deletion.clone();
        assert!(own.contains(&epoch), "the deleter's epoch is one of its own");
        assert!(
            !own.iter().any(|own| covered.contains(*own)),
            "a snapshot does not hold its own transaction"
        );
        let row = self.brick.rows.load(Ordering::Relaxed);
        self.delete_by(Arc::new(DeleteMarker { epoch, row, covered, own }));
    }

    /// Appends a marker as it is.
    pub(crate) fn delete_by(&mut self, marker: Arc<DeleteMarker>) {
        self.epochs.delete(&self.brick.epochs, marker);
    }

    /// Labels the rows up to `rows`, which have been placed, as `epoch`'s, and publishes them.
    pub(crate) fn label(&mut self, epoch: Epoch, rows: usize) {
        let start = self.brick.rows.load(Ordering::Relaxed);
        assert!(start < rows, "a label is for some rows");
        self.epochs.append(&self.brick.epochs, epoch, start);
        self.brick.rows.store(rows, Ordering::Release);
    }

    /// Takes the block that still grows, to go on with it in another brick.
    pub(crate) fn take_open_block(&mut self) -> Option<BlockWriter> {
        self.open_block.take()
    }

    /// Goes on with `block`, which has been placed last.
    pub(crate) fn reopen(&mut self, block: BlockWriter) {
        let last = self.blocks_end.last().expect("the block has been placed");
        assert!(Arc::ptr_eq(&last.block, block.block()), "the open block is the last one");
        self.open_block = (block.room() > 0).then_some(block);
    }
}

impl Brick {
    pub(crate) fn id(&self) -> BrickId {
        self.id
    }

    /// Rows that somebody sees were loaded into it at `at`; an earlier time than what is known changes nothing.
    pub(crate) fn note_loaded(&self, at: u64) {
        self.loaded_at.fetch_max(at, Ordering::Relaxed);
    }

    pub(crate) fn memory(&self) -> BrickMemory {
        let view_rows = self.rows.load(Ordering::Acquire);
        let blocks = || self.blocks.iter().map(|placed| &placed.block);
        let place = Chain::<PlacedBlock>::element_bytes();
        BrickMemory {
            rows: view_rows,
            value_bytes: blocks().map(|block| block.value_bytes(block.rows())).sum(),
            block_bytes: blocks().map(|block| block.capacity_bytes() + place).sum(),
            epochs_entries: self.epochs.count(),
            epochs_bytes: self.epochs.bytes(),
        }
    }
}

/// A brick as it was when the view was taken: its rows and entries at that moment.
///
/// Rows that are appended later do not show, so a statement that appends to the brick it reads ends.
#[derive(Clone)]
pub struct BrickView {
    brick: Arc<Brick>,
    rows: usize,
    entries: usize,
}

impl BrickView {
    pub(crate) fn of(brick: Arc<Brick>) -> Self {
        // First the rows and then the entries, which are published in the other order.
        let rows = brick.rows.load(Ordering::Acquire);
        let entries = brick.epochs.count();
        Self { brick, rows, entries }
    }

    /// The brick's name.
    #[must_use]
    pub fn id(&self) -> BrickId {
        self.brick.id()
    }

    /// The rows, whoever sees them.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// When rows were last loaded into it, as far as [`BrickTable::note_loaded`](crate::BrickTable::note_loaded) was told;
    /// that is what is known now, whatever the view has.
    #[must_use]
    pub fn loaded_at(&self) -> Option<u64> {
        let at = self.brick.loaded_at.load(Ordering::Relaxed);
        (at > 0).then_some(at)
    }

    /// The epochs vector, in the form of the paper.
    #[must_use]
    pub fn epochs(&self) -> Vec<EpochsPair> {
        self.brick.epochs.pairs(self.entries, self.rows)
    }

    /// What the brick takes of memory now.
    #[must_use]
    pub fn memory(&self) -> BrickMemory {
        self.brick.memory()
    }

    /// The entries of the epochs vector.
    #[must_use]
    pub fn epochs_entries(&self) -> usize {
        self.entries
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = Step> {
        self.brick.epochs.steps(0, self.entries, self.rows)
    }

    /// A number of first rows that are all of epochs up to `horizon`, with no delete among them, and the entries behind
    /// them. Cost: a look at each group of entries.
    pub(crate) fn steps_beyond(&self, horizon: Epoch) -> (usize, impl Iterator<Item = Step>) {
        let epochs = &self.brick.epochs;
        let first = epochs.prefix_up_to(horizon, self.entries);
        let rows = epochs.first_row(first, self.entries, self.rows);
        (rows, epochs.steps(first, self.entries, self.rows))
    }

    pub(crate) fn markers(&self) -> impl Iterator<Item = &DeleteMarker> {
        let markers = self.brick.epochs.markers();
        // A marker comes before its entry, so without markers no entry needs to be looked at.
        let deletes = match self.brick.epochs.markers().next() {
            None => 0,
            Some(_) => self.steps().filter(|step| matches!(step, Step::Delete)).count(),
        };
        markers.take(deletes).map(AsRef::as_ref)
    }

    /// The deletes, in the order in which they came.
    pub fn deletes(&self) -> impl Iterator<Item = &DeleteMarker> {
        self.markers()
    }

    pub(crate) fn shared_markers(&self) -> impl Iterator<Item = &Arc<DeleteMarker>> {
        self.brick.epochs.markers()
    }

    /// The blocks and how many of their rows are in the view.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (&PlacedBlock, usize)> {
        let blocks = self.brick.blocks.iter().take_while(|placed| placed.first_row < self.rows);
        blocks.map(|placed| (placed, placed.block.rows().min(self.rows - placed.first_row)))
    }
}

impl std::fmt::Debug for BrickView {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BrickView").field("id", &self.id()).field("epochs", &self.epochs()).finish()
    }
}

#[cfg(test)]
mod tests;
