// SPDX-License-Identifier: Apache-2.0
//! Opening a directory: the manifest gives a world, the log what came after it.
//!
//! What is found and what is done about it is a table in `recovery/directory.rs`. The log of a new database is durable before
//! its manifest is, so that one without the other is told from a first open that did not end.
//!
//! # Replay
//! A record says what a commit batch did to keys, not to chunks, so it can be applied to any base with the
//! contents it was made on. That matters for bulk loads: where the load went between two chunks at the time,
//! the manifest's base may have a chunk across that place (then it is split), or a checkpoint that failed after
//! all may have left keys there that were deleted before the load (then the rows are applied one by one).
//! Changes of rows are gathered over many records and applied per table at once, sorted; definitions and loads
//! are applied in their place.
//!
//! Versions of records follow one another without a gap; a gap is damage.

mod directory;
mod replay;

use crate::bricks::{Bricks, restore_rounds};
use crate::catalog::{Catalog, DEFAULT_SCHEMA};
use crate::disk::{Disk, LOG_DIR};
use crate::error::StoreError;
use crate::files::FileSystem;
use crate::log::{Log, LogOptions, Lsn, OpenError};
use crate::manifest::{BatchRun, Manifest, TableEntry, manifest_path};
use crate::segment::{SEGMENT_DIR, Segment, SegmentRef, parse_segment_name};
use crate::sequence::Sequences;
use crate::shared::Contents;
use crate::space::Space;
use crate::table::Table;
use crate::world::World;
use coeval_txn::Version;
use directory::{Decision, Directory};
pub(crate) use replay::{ReplayError, Replayer};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

/// What opening a directory gives.
pub(crate) struct Recovered {
    pub(crate) contents: Contents,
    pub(crate) log: Log,
    pub(crate) disk: Disk,
}

/// Opens a directory, or makes a database there.
///
/// # Errors
/// See [`Store::open_with`](crate::Store::open_with).
pub(crate) fn recover(
    files: Arc<dyn FileSystem>,
    dir: &Path,
    log_options: LogOptions,
) -> Result<Recovered, StoreError> {
    files.create_dir_all(dir)?;
    let directory = Directory::look(&*files, dir)?;
    if directory.decision() == Decision::Foreign {
        // Before the lock is taken, which is a file.
        directory.refuse(dir)?;
    }
    let lock = files.lock(dir)?;
    let directory = Directory::look(&*files, dir)?;
    directory.refuse(dir)?;
    let log_dir = dir.join(LOG_DIR);
    let segment_dir = dir.join(SEGMENT_DIR);
    if directory.decision() == Decision::Create {
        Log::create(&*files, &log_dir)?;
        Manifest::empty().write(&*files, dir)?;
    }
    let manifest = Manifest::read(&*files, dir, log_options.checksums)?;
    let manifest = manifest.ok_or_else(|| StoreError::corrupt(&manifest_path(dir), 0, "it is gone"))?;
    files.create_dir_all(&segment_dir)?;
    // The last process may have ended before the manifest's name was durable. A crash must not bring an older
    // manifest back once files that only that one names are removed.
    files.sync_dir(dir)?;
    let disk =
        Disk::new(Arc::clone(&files), dir.to_path_buf(), lock, log_options.checksums, manifest.next_segment);
    let world = restore(&disk, &manifest)?;
    let bricks = manifest.flushed_epochs();
    let mut replayer = Replayer::new(&disk, world, &manifest);
    let from = Lsn::new(manifest.log);
    let mut log =
        Log::open_with(files, &log_dir, from, log_options, &mut |_, payload| replayer.record(payload))
            .map_err(open_error)?;
    if replayer.ends_inert() {
        log.note_inert_end();
    }
    let replayed = replayer.finish();
    disk.raise_next_segment(highest_segment(&disk)? + 1);
    let rounds = manifest.tables.iter().flat_map(|table| &table.bricks).flat_map(|bricks| &bricks.rounds);
    let named = manifest.segments.iter().chain(rounds).map(|segment| segment.number).collect::<BTreeSet<_>>();
    disk.remove_unneeded(Version::new(manifest.version), &named)?;
    let contents = Contents {
        sequences: Sequences::recovered(replayed.resume_points),
        world: replayed.world,
        flushed_epochs: bricks,
        next_space: replayed.next_space,
        next_sequence: replayed.next_sequence,
        manifest_log: from,
    };
    Ok(Recovered { contents, log, disk })
}

/// Refuses a directory in which something of a database is missing, or which is somebody else's.
///
/// # Errors
/// [`StoreError::IncompleteDatabase`], [`StoreError::ForeignDirectory`], [`StoreError::File`].
pub(crate) fn refuse_incomplete(files: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
    Directory::look(files, dir)?.refuse(dir)
}

/// The world of a manifest. Opens its segments, reads no chunk.
pub(crate) fn restore(disk: &Disk, manifest: &Manifest) -> Result<World, StoreError> {
    let mut segments = HashMap::new();
    for entry in &manifest.segments {
        let reference = SegmentRef { number: entry.number, footer_checksum: entry.footer_checksum };
        segments.insert(entry.number, disk.open_segment(reference)?);
    }
    let mut catalog = Catalog::new();
    if !manifest.schemas.iter().any(|schema| schema == DEFAULT_SCHEMA) {
        catalog.remove_schema(DEFAULT_SCHEMA);
    }
    manifest.schemas.iter().cloned().for_each(|schema| catalog.put_schema(schema));
    manifest.roles.iter().cloned().for_each(|role| catalog.put_role(role));
    for (schema, access) in manifest.schema_access.iter().cloned() {
        catalog.put_schema_access(schema, access);
    }
    for (server, access) in manifest.server_access.iter().cloned() {
        catalog.put_server_access(server, access);
    }
    manifest.views.iter().cloned().for_each(|view| catalog.put_view(view));
    manifest.sequences.iter().cloned().for_each(|sequence| catalog.put_sequence(sequence));
    manifest.types.iter().cloned().for_each(|def| catalog.put_type(def));
    let shared = Arc::new(Bricks::new());
    let mut tables = Vec::with_capacity(manifest.tables.len());
    for entry in &manifest.tables {
        catalog.put_table(None, &entry.definition);
        let damaged = |what: String| StoreError::corrupt(&manifest_path(disk.dir()), 0, &what);
        let table = restore_table(entry, &segments).map_err(damaged)?;
        shared.prepare(&entry.definition).map_err(damaged)?;
        let bricks = shared.rows_of(&entry.definition);
        if let Some(rows) = &bricks {
            restore_rounds(disk, rows, entry.bricks.clone().unwrap_or_default())?;
        }
        tables.push(Arc::new(table.with_bricks(bricks)));
    }
    Ok(World::restored(Version::new(manifest.version), catalog, tables, shared))
}

fn restore_table(entry: &TableEntry, segments: &HashMap<u64, Arc<Segment>>) -> Result<Table, String> {
    let name = &entry.definition.name;
    if entry.indexes.len() != entry.definition.indexes.len() {
        return Err(format!("table {name} has another number of indexes than lists of their chunks"));
    }
    let space =
        |runs: &[BatchRun]| restore_space(runs, segments).map_err(|what| format!("table {name}: {what}"));
    let rows = space(&entry.rows)?;
    let indexes = entry.indexes.iter().map(|runs| space(runs)).collect::<Result<_, _>>()?;
    Ok(Table::from_spaces(Arc::new(entry.definition.clone()), rows, indexes))
}

fn restore_space(runs: &[BatchRun], segments: &HashMap<u64, Arc<Segment>>) -> Result<Space, String> {
    let mut chunks: Vec<Arc<crate::chunk::Chunk>> = Vec::new();
    for run in runs {
        let segment = segments.get(&run.segment).ok_or("a chunk lies in a segment that is not listed")?;
        let end = run.first_batch.checked_add(run.count).ok_or("a chunk has an impossible number")?;
        if end as usize > segment.chunk_count() {
            return Err("a chunk has a number that its segment does not have".to_owned());
        }
        for batch in run.first_batch..end {
            let chunk = crate::chunk::Chunk::of_segment(segment, batch);
            if chunks.last().is_some_and(|last| last.last_key() >= chunk.first_key()) {
                return Err("chunks are not in the order of their keys".to_owned());
            }
            chunks.push(Arc::new(chunk));
        }
    }
    Ok(Space::from_chunks(chunks))
}

/// The highest number of a segment file in the directory.
fn highest_segment(disk: &Disk) -> Result<u64, StoreError> {
    let names = disk.files().list(&disk.dir().join(SEGMENT_DIR))?;
    Ok(names.iter().filter_map(|name| parse_segment_name(name)).max().unwrap_or(0))
}

fn open_error(error: OpenError<ReplayError>) -> StoreError {
    match error {
        OpenError::Log(error) => error.into(),
        OpenError::Replay { path, offset, source } => source.at(&path, offset),
    }
}

#[cfg(test)]
mod tests;
