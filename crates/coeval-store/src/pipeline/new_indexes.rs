// SPDX-License-Identifier: Apache-2.0
//! New indexes, and the rows that others commit beside the transaction that makes them.
//!
//! A transaction builds an index over its snapshot. Rows that were committed since are added when it commits, without the
//! leader's lock, in rounds: each round brings the index up to the newest rows, and leaves to the next round what was committed
//! meanwhile. When little is left, the leader adds that. If that never happens, because rows come faster than the index can
//! follow, the transaction is refused; no other commit waits for an index under the leader's lock.
//!
//! An index of many rows that is caught up is written to a file, which the log names, so that whoever reads the log need not
//! build it (`index_file.rs`). What others commit meanwhile is taken in by further rounds, and noted beside the file.
//!
//! Entries of rows that the transaction has loaded in bulk are kept with the load. If an index has other entries, they would have to
//! be put between those one by one when the load is taken in, under the leader's lock. So entries of many rows are merged with the
//! index before. That holds for the rows that were there then: if others have committed to the table since, the
//! transaction is refused.

use super::certifying::conflict_beside_index;
use super::{Leader, Pipeline};
use crate::build_index::{build_checked_index, build_index, catch_up, chunks_of_entries, with_loaded};
use crate::bulk_load::BulkLoad;
use crate::catalog::{CatalogChange, IndexDef, TableDef};
use crate::commit_context::CommitContext;
use crate::delta::Delta;
use crate::disk::{Disk, LoadFiles};
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::index_file::IndexFile;
use crate::key::Key;
use crate::record::encode_changes;
use crate::space::Space;
use crate::submission::{LoadedEntries, RebuiltIndex, Submission};
use crate::table::Table;
use crate::trap::Step;
use coeval_txn::Version;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Each round leaves what is committed during it, so few are needed where the index is faster than those who write.
const ROUNDS_MAX: usize = 16;

/// From this round on no file is written any more: those that are left are for what others commit while one is written.
const FILE_ROUNDS_MAX: usize = 8;

/// The changes beside a file may take one part in so many of what a record has room for. With more the file is written anew.
const CHANGES_SHARE: usize = 16;

const _: () = assert!(FILE_ROUNDS_MAX < ROUNDS_MAX);

/// Where the files of new indexes are written, and those of the transaction that there are.
pub(crate) struct NewFiles<'d> {
    pub(crate) disk: &'d Disk,
    pub(crate) written: &'d mut LoadFiles,
}

/// What an index lacks of the newest rows of its table.
enum Lacks {
    Nothing,
    /// The rows of these keys, found among so many that others have written.
    Keys {
        keys: Vec<Key>,
        among: usize,
    },
    /// Nobody knows what; or fewer rows are there than others have written.
    Everything,
}

/// An index with what it has lacked.
struct TakenIn {
    entries: Space,
    /// What has changed of the entries; none if it was built anew.
    changes: Option<Delta>,
}

/// A new index as the leader takes it.
pub(super) struct LedIndex {
    pub(super) entries: Space,
    pub(super) loaded: LoadedEntries,
    /// What the leader has changed of the entries; none if it has built them anew.
    pub(super) changes: Option<Delta>,
}

/// The new indexes of a table, over its rows as `read` has them, the newest ones of version `since`.
struct NewIndexes<'s> {
    submission: &'s Submission,
    def: &'s TableDef,
    read: Arc<Table>,
    since: Version,
    made: Vec<NewIndex>,
}

/// One of them.
struct NewIndex {
    /// Its place in the definition.
    position: usize,
    entries: Space,
    file: Option<IndexFile>,
}

impl<'s> NewIndexes<'s> {
    /// As the transaction has built them. Others of the definition are there already, and followed by every commit.
    fn new(
        submission: &'s Submission,
        def: &'s TableDef,
        read: &Arc<Table>,
        applied: Option<&Table>,
    ) -> Self {
        let is_known = |index: &IndexDef| applied.is_some_and(|table| table.index(index.id).is_some());
        let built =
            |index: &IndexDef| (!is_known(index)).then(|| Some(read.index(index.id)?.1.clone())).flatten();
        let made = (0..def.indexes.len()).filter_map(|position| {
            Some(NewIndex { position, entries: built(&def.indexes[position])?, file: None })
        });
        let made = made.collect();
        Self { submission, def, read: Arc::clone(read), since: submission.snapshot_version, made }
    }

    /// Has them take in what they lack of the rows of `table`, which are those of `version`.
    fn take_in(
        &mut self,
        context: &CommitContext,
        files: &mut Option<NewFiles<'_>>,
        lacks: &Lacks,
        (table, version): (Arc<Table>, Version),
    ) -> Result<(), StoreError> {
        let changes_max = context.sizes.batch_bytes_max / CHANGES_SHARE;
        for index in &mut self.made {
            let taken_in = context.aside(|| {
                lacks.taken_in(self.submission, &self.read, &index.entries, &table, self.def, index.position)
            })?;
            index.entries = taken_in.entries;
            index.note(taken_in.changes.as_ref(), changes_max, files);
        }
        (self.read, self.since) = (table, version);
        Ok(())
    }

    /// Writes those of many rows to files that are in none, if they lack no more than that. Whether there were any.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn write_files(
        &mut self,
        context: &CommitContext,
        files: &mut Option<NewFiles<'_>>,
        lacks: &Lacks,
    ) -> Result<bool, StoreError> {
        // What the transaction has built has the entries of few rows that it loads, which come with the load: built anew, it has
        // those of others alone.
        let are_known = takes_rows_of_others(self.submission, self.def.id) || matches!(lacks, Lacks::Nothing);
        if !are_known || empties(self.submission, self.def.id) {
            return Ok(false);
        }
        write_files(context, files, self.made.iter_mut().map(|index| (&mut index.entries, &mut index.file)))
    }

    fn into_rebuilt(self) -> Vec<RebuiltIndex> {
        let made = self.made.into_iter().map(|index| RebuiltIndex {
            index: self.def.indexes[index.position].id,
            version: self.since,
            read: Arc::clone(&self.read),
            entries: index.entries,
            loaded: LoadedEntries::Apart,
            file: index.file,
        });
        made.collect()
    }
}

impl NewIndex {
    /// Notes what has changed of the entries since the file was written. A file that does not lead to them, or only by so many
    /// changes that it is better written anew, goes.
    fn note(&mut self, changes: Option<&Delta>, changes_max: usize, files: &mut Option<NewFiles<'_>>) {
        let Some(file) = &mut self.file else { return };
        if let Some(changes) = changes.filter(|changes| !changes.is_empty()) {
            encode_changes(changes, &mut file.changes);
        }
        if changes.is_some() && file.changes.len() <= changes_max {
            return;
        }
        discard(files, &mut self.file);
    }
}

/// Writes the entries of those indexes of many rows that are in no file. Whether there were any.
///
/// # Errors
/// When a file cannot be written.
fn write_files<'i>(
    context: &CommitContext,
    files: &mut Option<NewFiles<'_>>,
    indexes: impl Iterator<Item = (&'i mut Space, &'i mut Option<IndexFile>)>,
) -> Result<bool, StoreError> {
    let Some(files) = files else { return Ok(false) };
    let rows_min = (context.sizes.direct_load_rows_min as u64).max(1);
    let mut has_written = false;
    for (entries, file) in indexes {
        if file.is_none() && entries.len() >= rows_min {
            *file = Some(context.aside(|| write_file(entries, files))?);
            has_written = true;
        }
    }
    if has_written {
        context.aside(|| files.disk.sync_segments())?;
        context.trap.pass(Step::Load);
    }
    Ok(has_written)
}

/// Writes these entries to a file. Its chunks are theirs then.
fn write_file(entries: &mut Space, files: &mut NewFiles<'_>) -> Result<IndexFile, StoreError> {
    let chunks = chunks_of_entries(entries)?;
    let (segment, chunks) = files.disk.write_index(&chunks, files.written)?;
    *entries = Space::from_chunks(chunks);
    Ok(IndexFile { segment, changes: Vec::new() })
}

/// Indexes over the rows of a table and what is loaded into it.
type MadeIndexes = (Arc<Table>, Vec<RebuiltIndex>);

/// Removes their files, which lack what others have committed since.
fn discard_all(files: &mut Option<NewFiles<'_>>, outdated: Option<MadeIndexes>) {
    for mut index in outdated.into_iter().flat_map(|(_, indexes)| indexes) {
        discard(files, &mut index.file);
    }
}

/// Removes the file of an index, if there is one.
fn discard(files: &mut Option<NewFiles<'_>>, file: &mut Option<IndexFile>) {
    if let (Some(files), Some(file)) = (files, file.take()) {
        files.disk.discard_one(files.written, file.segment.number);
    }
}

impl Pipeline {
    /// Brings a transaction's new indexes up to what others have committed by now. Those of many rows lie in files then, if there
    /// is a place for them.
    ///
    /// # Errors
    /// [`StoreError::Constraint`] if a unique one has two owners of a key by now; [`StoreError::Corrupt`] if a chunk is
    /// damaged; [`StoreError::File`] if a file cannot be written. The files are to be discarded then.
    pub(crate) fn catch_indexes_up(
        &self,
        context: &CommitContext,
        mut files: Option<NewFiles<'_>>,
        submission: &Submission,
    ) -> Result<Vec<RebuiltIndex>, StoreError> {
        let mut all = Vec::new();
        // The last definition of each table has all indexes that stay.
        let last: BTreeMap<SpaceId, &TableDef> =
            new_definitions(&submission.catalog_changes).map(|def| (def.id, def)).collect();
        for def in last.into_values() {
            if let Some(read) = submission.snapshot.table(def.id)
                && def.indexes.iter().any(|index| read.index(index.id).is_some())
            {
                all.append(&mut self.catch_up_with(context, &mut files, submission, def, read)?);
            }
        }
        Ok(all)
    }

    /// The same for the indexes of one table, which were built over `own`.
    fn catch_up_with(
        &self,
        context: &CommitContext,
        files: &mut Option<NewFiles<'_>>,
        submission: &Submission,
        def: &TableDef,
        own: &Arc<Table>,
    ) -> Result<Vec<RebuiltIndex>, StoreError> {
        let applied = context.applied();
        let mut indexes = NewIndexes::new(submission, def, own, applied.table(def.id).map(AsRef::as_ref));
        drop(applied);
        if indexes.made.is_empty() {
            return Ok(Vec::new());
        }
        if has_loaded_many(submission, def.id, context.sizes.leader_rows_max) {
            let positions: Vec<usize> = indexes.made.iter().map(|index| index.position).collect();
            return self.merge_with_loads(context, files, (submission, own.as_ref()), def, &positions);
        }
        for round in 0..ROUNDS_MAX {
            let (table, version, lacks) = {
                let leader = self.lock_leader(context);
                let newest = context.applied();
                let Some(table) = newest.table(def.id) else { break };
                let lacks = leader.lacks(submission, &indexes.read, indexes.since, table);
                (Arc::clone(table), newest.version(), lacks)
            };
            if !lacks.is_left_to_leader(&table, context.sizes.leader_rows_max) {
                context.trap.pass(Step::CatchUp);
                indexes.take_in(context, files, &lacks, (table, version))?;
            } else if round >= FILE_ROUNDS_MAX || !indexes.write_files(context, files, &lacks)? {
                break;
            }
        }
        Ok(indexes.into_rebuilt())
    }

    /// The same for a table into which the transaction has loaded many rows: the indexes at these positions over the newest rows of
    /// others and those that are loaded. `own` is the table as the transaction has it. None if they are empty before the load is taken in.
    fn merge_with_loads(
        &self,
        context: &CommitContext,
        files: &mut Option<NewFiles<'_>>,
        (submission, own): (&Submission, &Table),
        def: &TableDef,
        positions: &[usize],
    ) -> Result<Vec<RebuiltIndex>, StoreError> {
        let loads: Vec<&BulkLoad> = loads_of(submission, own.id()).collect();
        let mut made: Option<MadeIndexes> = None;
        for round in 0..ROUNDS_MAX {
            let newest = {
                let _leader = self.lock_leader(context);
                context.applied()
            };
            // A table that is new has no rows of others.
            let table =
                newest.table(def.id).map_or_else(|| Arc::new(Table::new(Arc::new(def.clone()))), Arc::clone);
            if let Some((read, indexes)) = &mut made
                && (newest.table(def.id).is_none() || read.rows().is_same(table.rows()))
            {
                let parts = indexes.iter_mut().map(|index| (&mut index.entries, &mut index.file));
                if round >= FILE_ROUNDS_MAX || !write_files(context, files, parts)? {
                    break;
                }
                continue;
            }
            if table.row_count() == 0 && loads.len() == 1 {
                // It goes into empty indexes as it is.
                discard_all(files, made);
                return Ok(Vec::new());
            }
            context.trap.pass(Step::CatchUp);
            let merged = |&position: &usize| -> Result<RebuiltIndex, StoreError> {
                let index = def.indexes[position].id;
                let place = own.def().indexes.iter().position(|known| known.id == index);
                let chunks = place
                    .into_iter()
                    .flat_map(|place| loads.iter().flat_map(move |load| &load.indexes()[place]));
                let entries = with_loaded(&build_index(&table, def, position)?, chunks)?;
                let (version, read) = (newest.version(), Arc::clone(&table));
                Ok(RebuiltIndex { index, version, read, entries, loaded: LoadedEntries::Merged, file: None })
            };
            let indexes: Result<Vec<_>, StoreError> =
                context.aside(|| positions.iter().map(merged).collect());
            discard_all(files, made.replace((table, indexes?)));
        }
        Ok(made.map(|(_, indexes)| indexes).unwrap_or_default())
    }
}

/// What a transaction has loaded into a table.
fn loads_of(submission: &Submission, table: SpaceId) -> impl Iterator<Item = &BulkLoad> {
    submission.loads.iter().filter(move |load| load.table() == table)
}

/// Whether a transaction has loaded so many rows into a table that their entries are not to be put between others while its commit
/// leads. A table that it has emptied has no others, if it was loaded once.
fn has_loaded_many(submission: &Submission, table: SpaceId, few: usize) -> bool {
    let rows = loads_of(submission, table).flat_map(BulkLoad::chunks).map(|chunk| chunk.rows());
    !empties(submission, table) && rows.sum::<usize>() > few
}

impl Leader {
    /// The new index at `position` of `def` over the rows of `table`: the one that the transaction built, caught
    /// up with what was committed since; whether it has the entries of what the transaction has loaded; and what has changed of it
    /// here.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if that is too much to be done now; as [`Pipeline::catch_indexes_up`].
    pub(super) fn index_for(
        &self,
        submission: &Submission,
        table: &Table,
        def: &TableDef,
        position: usize,
    ) -> Result<LedIndex, StoreError> {
        let unchanged = |entries, loaded| LedIndex { entries, loaded, changes: Some(Delta::default()) };
        let id = def.indexes[position].id;
        let read = submission.snapshot.table(def.id);
        let Some((read, (_, built))) = read.and_then(|read| Some((read, read.index(id)?))) else {
            // It goes again before the transaction ends.
            return Ok(unchanged(Space::new(), LoadedEntries::Apart));
        };
        let rebuilt = submission.rebuilt.iter().find(|rebuilt| rebuilt.index == id);
        let (read, built, since) = match rebuilt {
            Some(rebuilt) => (&rebuilt.read, &rebuilt.entries, rebuilt.version),
            None => (read, built, submission.snapshot_version),
        };
        let lacks = self.lacks(submission, read, since, table);
        if let Some(RebuiltIndex { loaded: LoadedEntries::Merged, entries, .. }) = rebuilt {
            // A table that is new has no rows but those that are loaded.
            let is_same = matches!(lacks, Lacks::Nothing) || read.row_count() == 0 && table.row_count() == 0;
            return if is_same {
                Ok(unchanged(entries.clone(), LoadedEntries::Merged))
            } else {
                Err(StoreError::Conflict(conflict_beside_index(table, def, position, since)))
            };
        }
        if table.row_count() > 0 && has_loaded_many(submission, def.id, self.rows_max) {
            return Err(StoreError::Conflict(conflict_beside_index(table, def, position, since)));
        }
        let rows = match &lacks {
            Lacks::Nothing => 0,
            Lacks::Keys { keys, .. } => keys.len() as u64,
            Lacks::Everything => table.row_count(),
        };
        if rows > self.rows_max as u64 {
            return Err(StoreError::Conflict(conflict_beside_index(table, def, position, since)));
        }
        let TakenIn { entries, changes } = lacks.taken_in(submission, read, built, table, def, position)?;
        Ok(LedIndex { entries, loaded: LoadedEntries::Apart, changes })
    }

    /// What an index over the rows of `read`, as of `since`, lacks of those of `table`.
    fn lacks(&self, submission: &Submission, read: &Table, since: Version, table: &Table) -> Lacks {
        if read.rows().is_same(table.rows()) {
            return Lacks::Nothing;
        }
        // What was loaded in bulk is not what other commits changed key by key.
        let is_known =
            takes_rows_of_others(submission, table.id()) && !self.is_loaded_since(table.id(), since);
        // None: so much was changed that nobody knows which keys.
        let Some(changed) = is_known.then(|| self.certifier.keys_since(since)).flatten() else {
            return Lacks::Everything;
        };
        let mut among = 0;
        let of_table = changed.inspect(|_| among += 1).filter(|(space, _)| *space == table.id());
        let keys: Vec<Key> = of_table.map(|(_, key)| key.clone()).collect();
        if keys.len() as u64 > table.row_count() { Lacks::Everything } else { Lacks::Keys { keys, among } }
    }

    /// Whether others have loaded rows into a table in bulk behind this version.
    fn is_loaded_since(&self, table: SpaceId, version: Version) -> bool {
        self.recent_loads.iter().any(|load| load.table == table && load.version > version)
    }
}

impl Lacks {
    /// Whether so little is left, or so few rows are there, that the leader sees to it. It may take in so many.
    fn is_left_to_leader(&self, table: &Table, few: usize) -> bool {
        match self {
            Self::Nothing => true,
            Self::Keys { among, .. } => *among <= few,
            Self::Everything => table.row_count() <= few as u64,
        }
    }

    /// The index with it.
    fn taken_in(
        &self,
        submission: &Submission,
        read: &Table,
        built: &Space,
        table: &Table,
        def: &TableDef,
        position: usize,
    ) -> Result<TakenIn, StoreError> {
        let entries = match self {
            Self::Nothing => return Ok(TakenIn { entries: built.clone(), changes: Some(Delta::default()) }),
            Self::Keys { keys, .. } => {
                let (entries, changes) = catch_up(read, built, table, def, position, keys.iter())?;
                return Ok(TakenIn { entries, changes: Some(changes) });
            }
            Self::Everything if takes_rows_of_others(submission, def.id) => {
                build_checked_index(table, def, position)?
            }
            // What the transaction loaded or emptied is still to come, so there may be two owners of a key here
            // and one in the end. The transaction saw to that, and its footprint lets nobody write beside it.
            Self::Everything => build_index(table, def, position)?,
        };
        Ok(TakenIn { entries, changes: None })
    }
}

/// Whether the rows of a table that others commit beside a transaction are in its new indexes: it has neither emptied the
/// table nor loaded rows into it.
fn takes_rows_of_others(submission: &Submission, table: SpaceId) -> bool {
    !(empties(submission, table) || submission.loads.iter().any(|load| load.table() == table))
}

/// Whether a transaction has emptied a table.
fn empties(submission: &Submission, table: SpaceId) -> bool {
    let empties = |change: &CatalogChange| matches!(change, CatalogChange::Truncate(id) | CatalogChange::RemoveTable(id) if *id == table);
    submission.catalog_changes.iter().any(empties)
}

/// The tables that are made or changed.
fn new_definitions(changes: &[CatalogChange]) -> impl Iterator<Item = &TableDef> {
    changes.iter().filter_map(|change| match change {
        CatalogChange::PutTable(def) => Some(&**def),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
