// SPDX-License-Identifier: Apache-2.0
//! A serializable transaction: its registration, and what it notes of its reads.

use super::Transaction;
use crate::bricks::BrickChanges;
use crate::certification::{ActiveGuard, Certification};
use crate::ids::{CATALOG_SPACE, SpaceId};
use crate::key::Key;
use crate::range::{Direction, KeyRange};
use crate::reads::{ReadSet, Reads, Walked};
use crate::serializable::SHOWN_WRITES_MAX;
use crate::world::World;
use crate::write_set::WriteSet;
use coeval_txn::ssi::Written;
use coeval_txn::{SnapshotGuard, Version};
use std::sync::Arc;
use std::time::Instant;

/// What a transaction has at SERIALIZABLE beside a footprint.
#[derive(Debug)]
pub(crate) struct Serializing {
    reads: Arc<Reads>,
    registration: Registration,
}

/// How it is registered.
#[derive(Debug)]
enum Registration {
    /// It may write: holds the boundary of safe snapshots back.
    Writer(Arc<ActiveGuard>),
    /// It is certified when it ends.
    Reader(SnapshotGuard),
}

impl Serializing {
    pub(crate) fn writer(guard: ActiveGuard) -> Self {
        Self { reads: Arc::default(), registration: Registration::Writer(Arc::new(guard)) }
    }

    pub(crate) fn reader(guard: SnapshotGuard) -> Self {
        Self { reads: Arc::default(), registration: Registration::Reader(guard) }
    }

    /// What it brings to certification. Its reads are taken.
    pub(super) fn certification(&self, begin: Version) -> Certification {
        let guard = match &self.registration {
            Registration::Writer(guard) => Some(Arc::clone(guard)),
            Registration::Reader(_) => None,
        };
        Certification { begin, reads: self.reads.take(), guard }
    }
}

/// What a serializable transaction has read and written at one moment, to be looked at from outside; the transaction may go on or
/// end meanwhile.
#[derive(Clone, Debug)]
pub struct Reading {
    begin: Version,
    reads: Arc<Reads>,
    written: WriteSet,
}

impl Reading {
    /// The version of the snapshot that it read.
    pub(crate) fn begin(&self) -> Version {
        self.begin
    }

    /// As how many keys, ranges and tables its reads are noted, which is bounded whatever it has read; none once it has
    /// ended.
    #[must_use]
    pub fn noted_count(&self) -> usize {
        self.reads().len()
    }

    /// Whether another open transaction has read what this one has overwritten (the rows and index entries among its first
    /// 1,024 changes): has an antidependency to it.
    #[must_use]
    pub fn is_overwriting(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.reads, &other.reads) {
            return false;
        }
        let read = other.reads();
        self.written.keys().take(SHOWN_WRITES_MAX).any(|(space, written)| match written {
            Written::Key(key) => read.covers(space, key),
            Written::WholeSpace => false,
        })
    }

    /// Rows and index entries that it had changed.
    pub(crate) fn written(&self) -> &WriteSet {
        &self.written
    }

    /// What it has read so far; nothing once it has ended.
    pub(crate) fn reads(&self) -> ReadSet {
        self.reads.so_far()
    }
}

impl Transaction {
    /// What it has read at SERIALIZABLE, for views.
    #[must_use]
    pub fn reading(&self) -> Option<Reading> {
        let serializing = self.serializing.as_ref()?;
        let reads = Arc::clone(&serializing.reads);
        let written = WriteSet::new(&self.world, self.writes.iter(), &[], &[], &[], &BrickChanges::default());
        Some(Reading { begin: self.snapshot, reads, written })
    }

    /// Whether it has looked for rows at SERIALIZABLE; if it was declared read-only that is not known, and not said.
    #[must_use]
    pub fn has_reads(&self) -> bool {
        self.serializing.as_ref().is_some_and(|serializing| !serializing.reads.is_empty())
    }

    /// Notes that a row was looked for by its key, found or not.
    #[inline]
    pub(super) fn note_key(&self, table: SpaceId, key: &Key) {
        if let Some(serializing) = &self.serializing {
            serializing.reads.key(table, key);
        }
    }

    /// Notes that a table's definition was read with the wish to read of its rows.
    pub(super) fn note_definition(&self, table: SpaceId) {
        if let Some(serializing) = &self.serializing {
            serializing.reads.definition(table);
        }
    }

    /// Notes that a table may be read as a whole.
    pub(super) fn note_table(&self, table: SpaceId) {
        if let Some(serializing) = &self.serializing {
            serializing.reads.whole(table);
        }
    }

    /// Notes that the keys of a range of a table or of one of its indexes were looked at.
    pub(super) fn note_range(&self, table: SpaceId, space: SpaceId, range: &KeyRange) {
        if let Some(serializing) = &self.serializing {
            serializing.reads.range(table, space, range);
        }
    }

    /// Notes that definitions were listed, or names looked for, beyond those of the tables that were read.
    pub fn note_definitions(&self) {
        if let Some(serializing) = &self.serializing {
            serializing.reads.definitions();
        }
    }

    /// Notes a walk over a range as far as it will come.
    #[inline]
    pub(super) fn walked(
        &self,
        table: SpaceId,
        space: SpaceId,
        range: &KeyRange,
        direction: Direction,
    ) -> Option<Walked<'_>> {
        let serializing = self.serializing.as_ref()?;
        Some(Walked::new(&serializing.reads, table, space, range, direction))
    }

    /// Before the footprint is cut to `kept` marks: what was checked for the others is known all the same, and
    /// counts as read.
    pub(super) fn note_undone(&self, kept: usize) {
        let Some(serializing) = &self.serializing else { return };
        for mark in &self.footprint[kept..] {
            let (space, key) = &mark.key;
            if *space == CATALOG_SPACE || self.world.table(*space).is_some() {
                serializing.reads.key_of_space(*space, key);
            } else {
                serializing.reads.range(*space, *space, &KeyRange::prefix(key.as_slice()));
            }
        }
    }

    /// Moves a serializable transaction's registration with its snapshot.
    pub(super) fn move_registration(&mut self, version: Version, world: &Arc<World>) {
        let Some(serializing) = &mut self.serializing else { return };
        match &mut serializing.registration {
            Registration::Writer(guard) => {
                let guard = Arc::get_mut(guard).expect("a guard is shared once its transaction commits");
                guard.refresh(version, Arc::clone(world), Instant::now());
            }
            Registration::Reader(guard) => *guard = self.shared.register_reader(version),
        }
    }

    /// What it has read so far, as far as that is noted.
    pub(super) fn reads_so_far(&self) -> ReadSet {
        self.serializing.as_ref().map(|serializing| serializing.reads.so_far()).unwrap_or_default()
    }

    /// A statement begins.
    pub(super) fn note_statement(&self) {
        if let Some(serializing) = &self.serializing {
            serializing.reads.begin_statement();
        }
    }

    /// The newest applied world, if nothing that earlier statements have read or written was changed up to it: then a
    /// serializable transaction is the same as one that begins there, and the statement that runs can do
    /// so again on it.
    pub(super) fn refreshed(&self) -> Option<Arc<World>> {
        let serializing = self.serializing.as_ref()?;
        if self.statements == 0 || self.is_tied() || self.has_to_stay() {
            return None;
        }
        let reads = serializing.reads.of_earlier_statements();
        let tables: Vec<SpaceId> = self.writes.iter().map(|writes| writes.table).collect();
        let newest = self.shared.pipeline.newest_if_unaffected(
            &self.shared,
            self.snapshot,
            &reads,
            &self.footprint,
            &tables,
        )?;
        serializing.reads.discard_statement();
        Some(newest)
    }
}

#[cfg(test)]
mod tests;
