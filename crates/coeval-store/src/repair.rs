// SPDX-License-Identifier: Apache-2.0
//! Mending a damaged directory offline: what can be derived is made anew, the rest is said to be lost.
//!
//! # What is derived
//! Indexes, of the rows; what segments say of their chunks (bounds, numbers of NULLs), of the values; where hidden row ids go
//! on, of the rows. Nothing is lost then.
//!
//! # What is lost
//! Rows of chunks that cannot be read, as far as no later change is in the log; those of bulk loads that only the log names,
//! too. Of a brick table, the flush rounds that cannot be read, and whatever came later, in rounds or in the log, with strings
//! whose codes build upon theirs. Constraints between tables may be violated then; [`verify`](crate::verify) says which.
//! What was emptied or dropped later in the log is not lost.
//!
//! # Whose history it is then
//! Where something is lost, a replica has rows that are not here, at the same version, and an archive has log that changes them. So what is left
//! is another database's, with a history of its own ([`TermHistory::apart`](crate::TermHistory)): no replica of the former one follows it,
//! no archive of that takes its log, and a token of that is refused. If nothing is lost, nobody notices.
//!
//! # Steps
//! 1. The manifest's tables, without what cannot be read; the log is applied to that.
//! 2. Where rows were lost, changes are put right: a change of a row that is not there any more is an insertion or nothing.
//!    Indexes that are damaged, or do not fit their rows, are built.
//! 3. The names `<name>.damaged` are taken, by empty files, for those in which something is damaged.
//! 4. A checkpoint writes what is new, and whatever else lay in a file with damage, and a manifest of the result. A crash
//!    before that finds everything as it was.
//! 5. Nobody needs the damaged files any more: they get their new names, from the checkpoint or, after a crash, from the next
//!    open. So nothing is gone for good.
//!
//! Damage of manifest or log, and records that cannot be applied, end it before anything is changed.

use crate::bricks::{BrickRows, RoundError, add_round};
use crate::build_index::build_index;
use crate::catalog::{QualifiedName, TableDef};
use crate::checkpoint::Checkpoint;
use crate::chunk::Chunk;
use crate::delta::{BasePosition, Delta, DeltaEntry};
use crate::disk::{Disk, LOG_DIR};
use crate::error::StoreError;
use crate::files::{FileError, FileSystem};
use crate::ids::SpaceId;
use crate::kept_log::KeptLog;
use crate::log::{Log, LogOptions, Lsn, OpenError, read};
use crate::manifest::{BatchRun, Manifest, SegmentEntry, TableEntry};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::recovery::{
    MendTables, Mending, ReplayedLog, Replayer, begin_term, highest_segment, kept_log, open_error,
    open_locked, restore,
};
use crate::retention::{Place, Places};
use crate::segment::{Segment, SegmentRef, round_path, segment_path};
use crate::sequence::Sequences;
use crate::shared::{Contents, Shared, Standing};
use crate::space::Space;
use crate::table::Table;
use crate::terms::{Timeline, random_id};
use crate::verify::{fits_its_indexes, move_row_ids};
use crate::world::World;
use coeval_txn::Version;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
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
    repair_tuned(files, dir, Sizes::default())
}

/// [`repair`], with sizes of one's own.
fn repair_tuned(files: Arc<dyn FileSystem>, dir: &Path, sizes: Sizes) -> Result<RepairReport, StoreError> {
    let options = LogOptions::default();
    let (disk, manifest) = open_locked(&files, dir, options.checksums)?;
    // What others need of the files is not lost for a table that is mended.
    let kept = kept_log(&disk)?;
    let mut mender = Mender::new(&disk);
    let world = restore(&disk, &manifest, Mending::All(&mut mender))?;
    mender.unneeded_chunks(&manifest);
    mender.check_disk()?;
    let log_dir = dir.join(LOG_DIR);
    let from = Lsn::new(manifest.log);
    let mut replayer = Replayer::new(&disk, world, &manifest).mending(&mut mender);
    read(&*files, &log_dir, from, &mut |end, payload| replayer.record_to(end, payload))
        .map_err(open_error)?;
    let mut replayed = replayer.finish();
    mender.check_disk()?;
    let (mut report, damaged, emptied, lossy) = mender.finish();
    mend_tables(&mut replayed.world, &lossy, &mut report)?;
    report.rebuilt.extend(move_row_ids(&mut replayed)?);
    if report.is_empty() {
        // Of an index that the log drops, say: an open reads the file all the same.
        let unneeded = damaged
            .values()
            .map(|path| format!("the manifest, without {}, which nobody needs", path.display()));
        report.rebuilt.extend(unneeded);
    }
    if report.is_empty() {
        return Ok(report);
    }
    // A file that is missing has had its number, too.
    let highest = damaged.keys().copied().fold(highest_segment(&disk)?, u64::max);
    disk.raise_next_segment(highest + 1);
    let mut ignore = |_: Lsn, _: &[u8]| Ok::<(), StoreError>(());
    let log =
        Log::open_with(Arc::clone(&files), &log_dir, from, options, &mut ignore).map_err(
            |error| match error {
                OpenError::Log(error) => StoreError::Log(error),
                OpenError::Replay { source, .. } => source,
            },
        )?;
    for path in damaged.into_values() {
        if files.exists(&path)? {
            report.kept.push(disk.keep_damaged(&path)?.display().to_string());
        }
    }
    disk.sync_segments()?;
    if !report.lost.is_empty() {
        replayed.terms = replayed.terms.apart(random_id());
    }
    write(disk, &manifest, replayed, (log, kept), (sizes, emptied))?;
    Ok(report)
}

/// Makes the result the contents of the directory, by a checkpoint that needs none of the emptied segments.
fn write(
    disk: Disk,
    manifest: &Manifest,
    replayed: ReplayedLog,
    (mut log, kept): (Log, KeptLog),
    (sizes, emptied): (Sizes, BTreeSet<u64>),
) -> Result<(), StoreError> {
    // Whoever opens it next says how much log is to stay behind checkpoints; here none of it goes.
    let log_keep_bytes = if kept.places.is_empty() { 0 } else { u64::MAX };
    let checkpoint = Place { log: Lsn::new(manifest.log), version: Version::new(manifest.version) };
    let places = Places::with_left(kept.places, checkpoint);
    let mut terms = replayed.terms;
    if terms.last().is_some() {
        begin_term(&mut terms, &mut log, Timeline::FIRST);
    }
    let contents = Contents {
        sequences: Sequences::recovered(replayed.resume_points),
        world: replayed.world,
        flushed_epochs: manifest.flushed_epochs(),
        next_space: replayed.next_space,
        next_sequence: replayed.next_sequence,
        manifest_log: Lsn::new(manifest.log),
        terms,
        time: replayed.time,
        kept: kept.kept,
        slots: kept.slots,
        places,
        promise: None,
    };
    let checkpoint = CheckpointPolicy::Manual;
    let options = StoreOptions { checkpoint, log_keep_bytes, ..StoreOptions::default() };
    let shared = Shared::new(options, sizes, contents, Some(log), Some(disk), Standing::Alone);
    let mut checkpoint = Checkpoint::freeze(&shared).emptying(emptied);
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
        let def = table.def();
        // What is read of a table goes with it.
        let unread = |rows: &Space, indexes: &[Space]| {
            let indexes = indexes.iter().map(Space::unread).collect();
            Table::from_spaces(Arc::clone(def), rows.unread(), indexes)
        };
        if !is_lossy && fits_its_indexes(&unread(table.rows(), table.indexes()))? {
            continue;
        }
        let rows = if is_lossy { put_right(&table.rows().unread())? } else { table.rows().unread() };
        let bare = unread(&rows, &vec![Space::new(); def.indexes.len()]);
        let indexes = (0..def.indexes.len()).map(|position| build_index(&bare, def, position));
        let indexes = indexes.collect::<Result<Vec<_>, _>>()?;
        let fits = fits_its_indexes(&unread(&rows, &indexes))?;
        if fits {
            for index in &def.indexes {
                report.rebuilt.push(format!("index {} of table {}", index.name, def.name));
            }
        } else {
            report.lost.push(format!("table {}: its rows are out of order, and stay as they are", def.name));
        }
        if fits || is_lossy {
            world.put_table(Arc::new(unread(&rows, &indexes)));
        }
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

/// Takes what can be read of a manifest's tables and the log's loads, and notes the rest.
struct Mender<'d> {
    disk: &'d Disk,
    /// What was made anew, without a loss.
    rebuilt: Vec<String>,
    /// What is lost of each table, as long as nothing empties it.
    lost: Vec<(SpaceId, String)>,
    /// How many loads of rows that a brick table does not take, with its name.
    appends_lost: BTreeMap<SpaceId, (QualifiedName, u64)>,
    /// Files with damage, by their numbers.
    damaged: BTreeMap<u64, PathBuf>,
    /// Files that nobody may need any more: those, and those that say something wrong of their chunks.
    emptied: BTreeSet<u64>,
    /// Tables that have lost rows, or entries of indexes.
    lossy: BTreeSet<SpaceId>,
    /// What the disk did not give: it may give it the next time, so nothing is called lost for it.
    failed: Option<FileError>,
}

impl MendTables for Mender<'_> {
    fn table(&mut self, entry: &TableEntry, segments: &HashMap<u64, SegmentRef>) -> Table {
        let def = &entry.definition;
        let rows = self.space(def, None, &entry.rows, segments);
        let indexes = (0..def.indexes.len()).map(|position| {
            let runs = entry.indexes.get(position).map_or(&[][..], Vec::as_slice);
            self.space(def, Some(position), runs, segments)
        });
        let indexes = indexes.collect();
        Table::from_spaces(Arc::new(def.clone()), rows, indexes)
    }

    fn rounds(&mut self, entry: &TableEntry, rows: &BrickRows) {
        let (def, bricks) = (&entry.definition, entry.bricks.clone().unwrap_or_default());
        if bricks.rounds.is_empty() {
            return;
        }
        let losses = self.lost.len();
        let mut count = 0;
        for round in &bricks.rounds {
            let path = round_path(self.disk.dir(), round.number);
            let why = match add_round(self.disk, rows, &bricks, *round) {
                Ok(rows) => {
                    count += rows;
                    continue;
                }
                Err(RoundError::Unreadable(error)) if self.is_failure(&error) => return,
                Err(RoundError::Unreadable(error)) => error.to_string(),
                Err(RoundError::Misfit) if self.lost.len() > losses => {
                    format!("{} has strings that build upon those before", path.display())
                }
                Err(RoundError::Misfit) => {
                    StoreError::corrupt(&path, 0, "the contents are malformed").to_string()
                }
            };
            self.lossy.insert(def.id);
            self.damaged.insert(round.number, path);
            self.lost.push((def.id, format!("brick table {}: rows of a flush round: {why}", def.name)));
        }
        if self.lost.len() > losses {
            // The next round holds all that is left.
            self.emptied.extend(bricks.rounds.iter().map(|round| round.number));
        } else {
            rows.settle_rounds(bricks, count);
        }
    }

    fn load(&mut self, def: &TableDef, segments: &[SegmentRef]) -> Vec<Vec<Arc<Chunk>>> {
        let indexes = (0..def.indexes.len()).map(Some);
        let spaces = std::iter::once(None).chain(indexes);
        let chunks = spaces.zip(segments).map(|(index, reference)| {
            self.of_space(def, index, |mender, name| mender.chunks(name, def.id, *reference, 0..u32::MAX))
        });
        chunks.collect()
    }

    fn index(&mut self, def: &TableDef, position: usize, segment: SegmentRef) -> Vec<Arc<Chunk>> {
        self.of_space(def, Some(position), |mender, name| mender.chunks(name, def.id, segment, 0..u32::MAX))
    }

    fn loses_append(&mut self, def: &TableDef) -> bool {
        let is_lossy = self.lossy.contains(&def.id);
        if is_lossy {
            self.appends_lost.entry(def.id).or_insert_with(|| (def.name.clone(), 0)).1 += 1;
        }
        is_lossy
    }

    fn emptied(&mut self, def: &TableDef) {
        if self.lossy.remove(&def.id) {
            self.lost.retain(|(table, _)| *table != def.id);
            self.appends_lost.remove(&def.id);
            self.rebuilt.push(format!("table {}, whose damaged rows were gone already", def.name));
        }
    }
}

impl<'d> Mender<'d> {
    fn new(disk: &'d Disk) -> Self {
        Self {
            disk,
            rebuilt: Vec::new(),
            lost: Vec::new(),
            appends_lost: BTreeMap::new(),
            damaged: BTreeMap::new(),
            emptied: BTreeSet::new(),
            lossy: BTreeSet::new(),
            failed: None,
        }
    }

    /// What it has noted: the report so far, files with damage, files that nobody may need, tables that have lost something.
    fn finish(self) -> (RepairReport, BTreeMap<u64, PathBuf>, BTreeSet<u64>, BTreeSet<SpaceId>) {
        let appends = self.appends_lost.into_values().map(|(name, count)| {
            format!(
                "brick table {name}: {count} loads in the log: they have strings that build upon those before"
            )
        });
        let lost = self.lost.into_iter().map(|(_, what)| what).chain(appends).collect();
        let report = RepairReport { rebuilt: self.rebuilt, lost, kept: Vec::new() };
        (report, self.damaged, self.emptied, self.lossy)
    }

    /// # Errors
    /// What the disk did not give.
    fn check_disk(&self) -> Result<(), StoreError> {
        self.failed.clone().map_or(Ok(()), |error| Err(error.into()))
    }

    /// What the closure takes of the rows or of an index; what is lost of an index is built again, and no loss.
    fn of_space<T>(
        &mut self,
        def: &TableDef,
        index: Option<usize>,
        take: impl FnOnce(&mut Self, &str) -> T,
    ) -> T {
        let Some(position) = index else { return take(self, &format!("table {}", def.name)) };
        let losses = self.lost.len();
        let taken = take(self, &format!("index {} of table {}", def.indexes[position].name, def.name));
        self.lost.truncate(losses);
        taken
    }

    fn space(
        &mut self,
        def: &TableDef,
        index: Option<usize>,
        runs: &[BatchRun],
        segments: &HashMap<u64, SegmentRef>,
    ) -> Space {
        let mut chunks = self.of_space(def, index, |mender, name| {
            let mut chunks: Vec<Arc<Chunk>> = Vec::new();
            for run in runs {
                let batches = run.first_batch..run.first_batch.saturating_add(run.count);
                match segments.get(&run.segment) {
                    Some(reference) => chunks.extend(mender.chunks(name, def.id, *reference, batches)),
                    None => {
                        let what = format!("{name}: the rows of {} chunks: no file is listed", run.count);
                        mender.lose(def.id, run.segment, what);
                    }
                }
            }
            chunks
        });
        chunks.sort_by_key(|chunk| chunk.first_key());
        Space::from_chunks(chunks)
    }

    /// Those of these chunks of a segment that can be read.
    fn chunks(
        &mut self,
        name: &str,
        table: SpaceId,
        reference: SegmentRef,
        batches: Range<u32>,
    ) -> Vec<Arc<Chunk>> {
        let segment = match self.disk.open_segment(reference) {
            Ok(segment) => segment,
            Err(error) if self.is_failure(&error) => return Vec::new(),
            Err(error) => {
                let what = match batches.end {
                    u32::MAX => "the rows of a load".to_owned(),
                    end => format!("the rows of {} chunks", end - batches.start),
                };
                self.lose(table, reference.number, format!("{name}: {what}: {error}"));
                return Vec::new();
            }
        };
        let last = batches.end.min(segment.chunk_count() as u32);
        (batches.start..last).filter_map(|batch| self.chunk(name, table, &segment, batch)).collect()
    }

    /// A chunk, of which nothing is read yet; none if it cannot be read.
    fn chunk(
        &mut self,
        name: &str,
        table: SpaceId,
        segment: &Arc<Segment>,
        batch: u32,
    ) -> Option<Arc<Chunk>> {
        let chunk = Chunk::of_segment(segment, batch);
        match segment.check_chunk(batch) {
            Ok(None) => Some(Arc::new(chunk)),
            Ok(Some(misstated)) => {
                self.rebuilt.push(format!("statistics of a chunk of {name} ({misstated})"));
                self.emptied.insert(segment.number());
                Some(Arc::new(chunk))
            }
            Err(error) if self.is_failure(&error) => None,
            Err(error) => {
                let (rows, first, last) = (chunk.rows(), chunk.first_key(), chunk.last_key());
                let what = format!("{name}: {rows} rows from {first:?} to {last:?}: {error}");
                self.lose(table, segment.number(), what);
                None
            }
        }
    }

    /// Looks at the chunks of segments that no table has any more: a check names damage of theirs, too.
    fn unneeded_chunks(&mut self, manifest: &Manifest) {
        let mut needed = BTreeSet::new();
        for run in
            manifest.tables.iter().flat_map(|table| table.indexes.iter().chain([&table.rows])).flatten()
        {
            needed.extend((0..run.count).map(|batch| (run.segment, run.first_batch.saturating_add(batch))));
        }
        for &SegmentEntry { number, footer_checksum } in &manifest.segments {
            if self.emptied.contains(&number) {
                continue;
            }
            let look = |segment: Arc<Segment>| {
                let batches = 0..segment.chunk_count() as u32;
                let mut unneeded = batches.filter(|batch| !needed.contains(&(number, *batch)));
                unneeded.try_for_each(|batch| segment.check_chunk(batch)?.map_or(Ok(()), Err))
            };
            if let Err(error) = self.disk.open_segment(SegmentRef { number, footer_checksum }).and_then(look)
                && !self.is_failure(&error)
            {
                self.rebuilt.push(format!("a file with a damaged chunk that nobody needs ({error})"));
                self.damaged.insert(number, segment_path(self.disk.dir(), number));
                self.emptied.insert(number);
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
        self.emptied.insert(segment);
        self.lost.push((table, what));
    }
}

#[cfg(test)]
mod tests;
