// SPDX-License-Identifier: Apache-2.0
//! Mending a damaged directory offline: what can be derived is made anew, the rest is said to be lost.
//!
//! # What is derived
//! Indexes, of the rows; what segments say of their chunks (bounds, numbers of NULLs), of the values; where hidden row ids go
//! on, of the rows. Nothing is lost then.
//!
//! # What is lost
//! Rows of chunks that cannot be read, as far as no later change is in the log; of a brick table, the flush rounds from the
//! first one on that cannot be read, as codes of strings build upon one another. Constraints between tables may be violated
//! then; [`verify`](crate::verify) says which.
//!
//! # Steps
//! 1. The manifest's tables, without what cannot be read; the log is applied to that.
//! 2. Where rows were lost, changes are put right: a change of a row that is not there any more is an insertion or nothing.
//!    Indexes that are damaged, or do not fit their rows, are built.
//! 3. A checkpoint writes what is new, and a manifest of the result. A crash before that finds everything as it was.
//! 4. Files in which something is damaged are renamed to `<name>.damaged`, so that nothing is gone for good.
//!
//! Damage of manifest or log, and records that cannot be applied, end it before anything is changed.

use crate::build_index::build_index;
use crate::checkpoint::Checkpoint;
use crate::chunk::Chunk;
use crate::delta::{BasePosition, Delta, DeltaEntry};
use crate::disk::{Disk, LOG_DIR};
use crate::error::StoreError;
use crate::files::{FileError, FileSystem};
use crate::ids::SpaceId;
use crate::log::{Log, LogOptions, Lsn, OpenError, read};
use crate::manifest::{BatchRun, Manifest, TableEntry};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::recovery::{
    MendTables, Mending, ReplayedLog, Replayer, highest_segment, open_error, open_locked, restore,
};
use crate::segment::{Segment, SegmentRef, round_path, segment_path};
use crate::sequence::Sequences;
use crate::shared::{Contents, Shared};
use crate::space::Space;
use crate::table::Table;
use crate::verify::{fits_its_indexes, move_row_ids};
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What became of a damaged directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// What was made anew, without a loss.
    pub rebuilt: Vec<String>,
    /// What is lost.
    pub lost: Vec<String>,
    /// The files with damage, as they are called now.
    pub kept: Vec<String>,
}

impl RepairReport {
    /// Whether there was nothing to be mended, and nothing was changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rebuilt.is_empty() && self.lost.is_empty()
    }
}

/// Mends the database in a directory that nobody has open.
///
/// # Errors
/// As [`Store::open`](crate::Store::open) for damage of the manifest or the log, and for what cannot be mended; then, and
/// when a file cannot be written, the database is as it was.
pub fn repair(files: Arc<dyn FileSystem>, dir: &Path) -> Result<RepairReport, StoreError> {
    let options = LogOptions::default();
    let (disk, manifest) = open_locked(&files, dir, options.checksums)?;
    let mut mender = Mender {
        disk: &disk,
        report: RepairReport::default(),
        damaged: BTreeMap::new(),
        lossy: BTreeSet::new(),
        failed: None,
    };
    let world = restore(&disk, &manifest, Mending::All(&mut mender))?;
    let Mender { mut report, damaged, lossy, failed, .. } = mender;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let log_dir = dir.join(LOG_DIR);
    let from = Lsn::new(manifest.log);
    let mut replayer = Replayer::new(&disk, world, &manifest);
    read(&*files, &log_dir, from, &mut |end, payload| replayer.record_to(end, payload))
        .map_err(open_error)?;
    let mut replayed = replayer.finish();
    mend_tables(&mut replayed.world, &lossy, &mut report)?;
    report.rebuilt.extend(move_row_ids(&mut replayed)?);
    if report.is_empty() {
        return Ok(report);
    }
    damaged.keys().for_each(|number| disk.keep(*number));
    disk.raise_next_segment(highest_segment(&disk)? + 1);
    let mut ignore = |_: Lsn, _: &[u8]| Ok::<(), StoreError>(());
    let log =
        Log::open_with(Arc::clone(&files), &log_dir, from, options, &mut ignore).map_err(
            |error| match error {
                OpenError::Log(error) => StoreError::Log(error),
                OpenError::Replay { source, .. } => source,
            },
        )?;
    write(disk, &manifest, replayed, log)?;
    for path in damaged.into_values().filter(|path| files.exists(path).unwrap_or(false)) {
        let mut name = path.clone().into_os_string();
        name.push(".damaged");
        files.rename(&path, Path::new(&name))?;
        report.kept.push(PathBuf::from(name).display().to_string());
    }
    files.sync_dir(&dir.join(crate::segment::SEGMENT_DIR))?;
    Ok(report)
}

/// Makes the result the contents of the directory, by a checkpoint.
fn write(disk: Disk, manifest: &Manifest, replayed: ReplayedLog, log: Log) -> Result<(), StoreError> {
    let contents = Contents {
        sequences: Sequences::recovered(replayed.resume_points),
        world: replayed.world,
        flushed_epochs: manifest.flushed_epochs(),
        next_space: replayed.next_space,
        next_sequence: replayed.next_sequence,
        manifest_log: Lsn::new(manifest.log),
    };
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let shared = Shared::new(options, Sizes::default(), contents, Some(log), Some(disk));
    let mut checkpoint = Checkpoint::freeze(&shared);
    checkpoint.write()?;
    checkpoint.install()?;
    drop(checkpoint);
    shared.pipeline.attest_log(&shared)?;
    Ok(())
}

/// Puts right what is left of tables, and builds the indexes that do not fit their rows.
fn mend_tables(
    world: &mut World,
    lossy: &BTreeSet<SpaceId>,
    report: &mut RepairReport,
) -> Result<(), StoreError> {
    let tables: Vec<Arc<Table>> = world.tables().cloned().collect();
    for table in tables.into_iter().filter(|table| table.bricks().is_none()) {
        let is_lossy = lossy.contains(&table.id());
        if !is_lossy && fits_its_indexes(&table) {
            continue;
        }
        let rows = if is_lossy { put_right(table.rows())? } else { table.rows().clone() };
        let def = table.def();
        let bare = Table::from_spaces(Arc::clone(def), rows.clone(), vec![Space::new(); def.indexes.len()]);
        let indexes = (0..def.indexes.len()).map(|position| build_index(&bare, def, position));
        let mended = Table::from_spaces(Arc::clone(def), rows, indexes.collect::<Result<_, _>>()?);
        if !fits_its_indexes(&mended) {
            report.lost.push(format!("table {}: its rows are out of order, and stay as they are", def.name));
            continue;
        }
        for index in &def.indexes {
            report.rebuilt.push(format!("index {} of table {}", index.name, def.name));
        }
        world.put_table(Arc::new(mended));
    }
    Ok(())
}

/// The same rows, with changes that fit what is left of the base.
fn put_right(space: &Space) -> Result<Space, StoreError> {
    let mut changes = Vec::new();
    for (key, entry) in space.delta().iter() {
        let is_in_base = space.find_in_base(key)?.is_some();
        let change = match (entry.is_present(), is_in_base, entry.row()) {
            (true, true, Some(row)) => DeltaEntry::replaced(row.clone(), BasePosition::UNKNOWN),
            (true, false, row) => DeltaEntry::inserted(row.cloned()),
            (false, true, _) => DeltaEntry::deleted(BasePosition::UNKNOWN),
            (true, true, None) | (false, false, _) => continue,
        };
        changes.push((key.clone(), change));
    }
    let mut mended = Space::from_chunks(space.base().iter().map(|(_, chunk)| Arc::clone(chunk)));
    mended.apply(&Delta::from_sorted(changes), None);
    Ok(mended)
}

/// Takes what can be read of a manifest's tables, and notes the rest.
struct Mender<'d> {
    disk: &'d Disk,
    report: RepairReport,
    /// Files with damage, by their numbers.
    damaged: BTreeMap<u64, PathBuf>,
    /// Tables that have lost rows, or entries of indexes.
    lossy: BTreeSet<SpaceId>,
    /// What the disk did not give: it may give it the next time, so nothing is called lost for it.
    failed: Option<FileError>,
}

impl MendTables for Mender<'_> {
    fn table(&mut self, entry: &TableEntry, segments: &HashMap<u64, SegmentRef>) -> Table {
        let def = &entry.definition;
        let name = format!("table {}", def.name);
        let rows = self.space(&name, def.id, &entry.rows, segments);
        let indexes = def.indexes.iter().enumerate().map(|(position, index)| {
            let name = format!("index {} of table {}", index.name, def.name);
            // What is lost of an index is built again, so only the rows' losses are losses.
            let losses = self.report.lost.len();
            let space =
                self.space(&name, def.id, entry.indexes.get(position).map_or(&[], Vec::as_slice), segments);
            self.report.lost.truncate(losses);
            space
        });
        let indexes = indexes.collect();
        Table::from_spaces(Arc::new(def.clone()), rows, indexes)
    }

    fn rounds_lost(&mut self, entry: &TableEntry, error: &StoreError) {
        let name = &entry.definition.name;
        let rounds = entry.bricks.iter().flat_map(|bricks| &bricks.rounds);
        for round in rounds {
            self.damaged.insert(round.number, round_path(self.disk.dir(), round.number));
        }
        self.report.lost.push(format!(
            "brick table {name}: rows of the flush round that is damaged and those after: {error}"
        ));
    }
}

impl Mender<'_> {
    fn space(
        &mut self,
        name: &str,
        table: SpaceId,
        runs: &[BatchRun],
        segments: &HashMap<u64, SegmentRef>,
    ) -> Space {
        let mut chunks: Vec<Arc<Chunk>> = Vec::new();
        for run in runs {
            let opened = segments.get(&run.segment).map(|reference| self.disk.open_segment(*reference));
            let segment = match opened {
                Some(Ok(segment)) => segment,
                Some(Err(error)) if self.is_failure(&error) => continue,
                Some(Err(error)) => {
                    self.lose(
                        table,
                        run.segment,
                        format!("{name}: the rows of {} chunks: {error}", run.count),
                    );
                    continue;
                }
                None => {
                    self.lose(
                        table,
                        run.segment,
                        format!("{name}: the rows of {} chunks: no file is listed", run.count),
                    );
                    continue;
                }
            };
            let last = run.first_batch.saturating_add(run.count).min(segment.chunk_count() as u32);
            for batch in run.first_batch..last {
                chunks.extend(self.chunk(name, table, &segment, batch));
            }
        }
        chunks.sort_by_key(|chunk| chunk.first_key());
        Space::from_chunks(chunks)
    }

    /// A chunk, in memory if its statistics are wrong; none if it cannot be read.
    fn chunk(
        &mut self,
        name: &str,
        table: SpaceId,
        segment: &Arc<Segment>,
        batch: u32,
    ) -> Option<Arc<Chunk>> {
        let chunk = Chunk::of_segment(segment, batch);
        if let Err(error) = segment.check_chunk(batch) {
            if self.is_failure(&error) {
                return None;
            }
            let (rows, first, last) = (chunk.rows(), chunk.first_key(), chunk.last_key());
            self.lose(
                table,
                segment.number(),
                format!("{name}: {rows} rows from {first:?} to {last:?}: {error}"),
            );
            return None;
        }
        let stats = segment.check_stats(batch);
        if let Err(error) = chunk.check_whole()
            && self.is_failure(&error)
        {
            return None;
        }
        match stats {
            Ok(()) => Some(Arc::new(chunk)),
            Err(error) if self.is_failure(&error) => None,
            Err(error) => {
                self.report.rebuilt.push(format!("statistics of a chunk of {name} ({error})"));
                let columns = (0..chunk.column_count()).filter_map(|column| chunk.column(column).cloned());
                Some(Arc::new(Chunk::new(chunk.keys().clone(), columns.collect())))
            }
        }
    }

    /// Notes the error, if the disk may give the next time what it did not give now.
    fn is_failure(&mut self, error: &StoreError) -> bool {
        if let StoreError::File(error) = error {
            self.failed.get_or_insert_with(|| error.clone());
            return true;
        }
        false
    }

    fn lose(&mut self, table: SpaceId, segment: u64, what: String) {
        self.lossy.insert(table);
        self.damaged.insert(segment, segment_path(self.disk.dir(), segment));
        self.report.lost.push(what);
    }
}

#[cfg(test)]
mod tests;
