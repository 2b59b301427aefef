// SPDX-License-Identifier: Apache-2.0
//! A table's bricks of one shard: what the shard's thread does with them, and what readers see of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arc_swap::ArcSwap;
use coeval_txn::Epoch;
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::brick::{Brick, BrickWriter, Deletion};
use crate::brick_id::BrickId;
use crate::load::{Piece, RoutedLoad};
use crate::rebuild::Rebuilt;

/// The bricks of a shard by id.
pub(crate) type BrickMap = BTreeMap<BrickId, Arc<Brick>>;

/// What an operation has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Rows that are gone.
    pub rows_removed: usize,
    /// Bricks that were replaced by others.
    pub bricks_replaced: usize,
    /// Bricks of which nothing was left.
    pub bricks_gone: usize,
}

impl Applied {
    pub(crate) fn add(&mut self, other: Self) {
        self.rows_removed += other.rows_removed;
        self.bricks_replaced += other.bricks_replaced;
        self.bricks_gone += other.bricks_gone;
    }
}

/// What a shard's thread does to the bricks of one table.
pub(crate) enum Operation {
    /// Appends those pieces of the load.
    Append { epoch: Epoch, load: Arc<RoutedLoad>, pieces: Range<usize> },
    /// Appends what these loads have for this shard, one behind the other.
    AppendEach { loads: Arc<[(Epoch, RoutedLoad)]>, shard: usize },
    /// Appends rows of one brick that were flushed, under the epochs that they had.
    Restore { load: Arc<RoutedLoad>, runs: Vec<(Epoch, Range<usize>)> },
    /// Marks these bricks as deleted; those that are gone meanwhile had no row that the deleter saw.
    Delete { deletion: Arc<Deletion>, bricks: Vec<BrickId> },
    /// Marks a brick as deleted, and makes one to mark if there is none: rows that the delete covers may come later.
    DeleteAhead { deletion: Deletion, brick: BrickId },
    /// Removes what these epochs have done to these bricks.
    RollBack { epochs: Arc<[Epoch]>, bricks: Vec<BrickId> },
    /// Purges all bricks up to LSE.
    Purge { safe: Epoch },
}

/// The bricks of one table and one shard.
pub(crate) struct TableShard {
    /// # Locking
    ///
    /// Never contended: the shard's thread alone takes it. It is there because the thread serves many tables, and
    /// so has the writers by a shared reference.
    writers: Mutex<HashMap<BrickId, BrickWriter>>,
    /// What readers find: replaced as a whole when a brick comes, goes or is replaced, not when one grows.
    published: ArcSwap<BrickMap>,
}

impl TableShard {
    pub(crate) fn new() -> Self {
        Self { writers: Mutex::default(), published: ArcSwap::default() }
    }

    /// The bricks, without waiting for anybody.
    pub(crate) fn bricks(&self) -> Arc<BrickMap> {
        self.published.load_full()
    }

    /// Does `operation`, on the shard's thread.
    pub(crate) fn apply(&self, operation: Operation) -> Applied {
        let mut writers = self.writers.try_lock().expect("only the shard's thread writes");
        match operation {
            Operation::Append { epoch, load, pieces } => {
                let created = Self::append(&mut writers, epoch, &load, pieces);
                self.publish_created(&created);
                Applied::default()
            }
            Operation::AppendEach { loads, shard } => {
                let mut created = Vec::new();
                for (epoch, load) in loads.iter() {
                    let pieces = load.shard_pieces[shard].clone();
                    created.extend(Self::append(&mut writers, *epoch, load, pieces));
                }
                self.publish_created(&created);
                Applied::default()
            }
            Operation::Restore { load, runs } => {
                for (epoch, rows) in runs {
                    let brick = load.pieces[0].brick;
                    self.append_piece(&mut writers, epoch, &load, &Piece { brick, rows });
                }
                Applied::default()
            }
            Operation::Delete { deletion, bricks } => {
                for brick in bricks {
                    if let Some(writer) = writers.get_mut(&brick) {
                        writer.delete(&deletion);
                    }
                }
                Applied::default()
            }
            Operation::DeleteAhead { deletion, brick } => {
                let created = Self::change_brick(&mut writers, brick, |writer| writer.delete(&deletion));
                self.publish_created(created.as_slice());
                Applied::default()
            }
            Operation::RollBack { epochs, bricks } => {
                self.rebuild(&mut writers, bricks, |writer| writer.roll_back(&epochs))
            }
            Operation::Purge { safe } => {
                let bricks: Vec<BrickId> = writers.keys().copied().collect();
                self.rebuild(&mut writers, bricks, |writer| writer.purge(safe))
            }
        }
    }

    /// Appends pieces of a load; their bricks that are new.
    fn append(
        writers: &mut HashMap<BrickId, BrickWriter>,
        epoch: Epoch,
        load: &RoutedLoad,
        pieces: Range<usize>,
    ) -> Vec<Arc<Brick>> {
        let pieces = load.pieces[pieces].iter();
        pieces.filter_map(|piece| Self::append_to(writers, epoch, load, piece)).collect()
    }

    fn append_piece(
        &self,
        writers: &mut HashMap<BrickId, BrickWriter>,
        epoch: Epoch,
        load: &RoutedLoad,
        piece: &Piece,
    ) {
        let created = Self::append_to(writers, epoch, load, piece);
        self.publish_created(created.as_slice());
    }

    /// Appends a piece; its brick if that is new.
    fn append_to(
        writers: &mut HashMap<BrickId, BrickWriter>,
        epoch: Epoch,
        load: &RoutedLoad,
        piece: &Piece,
    ) -> Option<Arc<Brick>> {
        Self::change_brick(writers, piece.brick, |writer| {
            writer.append(&load.schema, epoch, &load.values, piece.rows.clone());
        })
    }

    /// Changes a brick, which is made if there is none; the brick if it is new.
    fn change_brick(
        writers: &mut HashMap<BrickId, BrickWriter>,
        brick: BrickId,
        change: impl FnOnce(&mut BrickWriter),
    ) -> Option<Arc<Brick>> {
        let mut created = None;
        let writer = writers.entry(brick).or_insert_with(|| {
            let writer = BrickWriter::new(brick);
            created = Some(Arc::clone(writer.brick()));
            writer
        });
        change(writer);
        created
    }

    fn publish_created(&self, created: &[Arc<Brick>]) {
        if !created.is_empty() {
            self.publish(|map| map.extend(created.iter().map(|brick| (brick.id(), Arc::clone(brick)))));
        }
    }

    fn rebuild(
        &self,
        writers: &mut HashMap<BrickId, BrickWriter>,
        bricks: Vec<BrickId>,
        rebuild: impl Fn(BrickWriter) -> Rebuilt,
    ) -> Applied {
        let mut applied = Applied::default();
        let mut changes: Vec<(BrickId, Option<Arc<Brick>>)> = Vec::new();
        for id in bricks {
            let Some(writer) = writers.remove(&id) else { continue };
            match rebuild(writer) {
                Rebuilt::Unchanged(writer) => {
                    writers.insert(id, writer);
                }
                Rebuilt::Replaced(writer, removed) => {
                    changes.push((id, Some(Arc::clone(writer.brick()))));
                    writers.insert(id, writer);
                    applied.add(Applied { rows_removed: removed.0, bricks_replaced: 1, bricks_gone: 0 });
                }
                Rebuilt::Gone(removed) => {
                    changes.push((id, None));
                    applied.add(Applied { rows_removed: removed.0, bricks_replaced: 0, bricks_gone: 1 });
                }
            }
        }
        if !changes.is_empty() {
            self.publish(|map| {
                for (id, brick) in &changes {
                    match brick {
                        Some(brick) => map.insert(*id, Arc::clone(brick)),
                        None => map.remove(id),
                    };
                }
            });
        }
        applied
    }

    fn publish(&self, change: impl FnOnce(&mut BrickMap)) {
        let mut map = BrickMap::clone(&self.published.load());
        change(&mut map);
        self.published.store(Arc::new(map));
    }
}
