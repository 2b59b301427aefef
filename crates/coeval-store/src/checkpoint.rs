// SPDX-License-Identifier: Apache-2.0
//! Checkpoints: the deltas of all spaces become chunks, the chunks become files, and the log before them goes.
//!
//! # Why
//! A delta costs memory and time for each reader, the log time for each recovery. A checkpoint turns both into
//! sorted columns, and never stops readers or writers meanwhile.
//!
//! # Steps
//! ```text
//! 1 freeze    [leader]  newest applied world F, end of log L; from now on each space of F also keeps
//!                       its changes apart: `since`
//! 2 settle              F is published, the log is durable up to L
//! 3 merge               base(F) + delta(F) -> new chunks, in new segment files, synced
//! 4 manifest            F's definitions, F's chunks, L: durable in the place of the old one
//! 5 install   [leader]  in every visible world: base = the merged one, delta = since
//! 6 clean up            log before L, segment files that nothing needs
//! ```
//! Steps 1 and 5 hold the leader's lock for moments: they copy pointers of spaces, never rows.
//!
//! # Why nothing is seen twice or not at all
//! *In memory.* Let W be a world that is visible at step 5. By step 2, W is F or comes after it. A space of W is
//! one of these:
//! - It descends from a space of F (`since` is there). Its contents are contents(F) with `since` applied: each
//!   commit applied the same changes to `delta` and to `since`, and bulk loads are in its base. The merged base
//!   holds contents(F). So merged base + loaded chunks + `since` are the same contents. A loaded chunk holds no
//!   key of F or of `since`: a load is refused where the space has a key, an entry of the delta or of `since`
//!   ([`Space::has_changes_in`]). Its range may fall between two keys of one merged chunk, which is then split.
//! - It was emptied (TRUNCATE) or made anew (CREATE TABLE, CREATE INDEX) after F: no `since`. It does not depend
//!   on F's chunks and stays as it is.
//! - It was dropped: it is not in W, and nothing is done.
//!
//! Definitions are W's own at all times; a space does not know them. A column that was added after F is missing
//! in the merged chunks as it was in F's.
//! Each world is replaced by one with the same contents in one step; whoever holds the old one keeps it.
//!
//! *On disk.* A crash before step 4 finds the old manifest M and the log from M's position on; the files that M
//! names are still there, because they go in step 6. A crash after it finds F and the log from L on; what came
//! after F, bulk loads and definitions included, is in that log, and its segment files are kept until a manifest
//! holds them (see `disk.rs`). A crash or failure inside step 4 finds one of the two; then neither's files have
//! been removed. Sequences hand out numbers whose end is durable in the log; step 4 reads their resume points
//! after step 1, so the manifest knows every record before L, and records behind L say the same again.
//!
//! # A checkpoint that fails
//! Before step 4 ends nothing visible has changed but `since`, which is dropped. Commits go on.
//!
//! # Cost
//! Time for the rows of changed chunks; one core. Memory for one chunk, and for `since`. Files: one or two for
//! each space with new chunks. A segment of which less than half is in use is emptied by rewriting the rest, so
//! the directory stays below about twice the size of the data.

mod merge;
mod report;
mod spaces;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::log::Lsn;
use crate::manifest::{BatchRun, Manifest, SegmentEntry, TableEntry};
use crate::segment::SegmentRef;
use crate::shared::Shared;
use crate::space::{Base, Space};
use crate::world::World;
use parking_lot::Mutex;
pub use report::CheckpointReport;
use spaces::{MergedSpaces, merge_spaces};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What checkpoints of one store know of each other.
///
/// # Locking
/// `turn` is held for a whole checkpoint, before any other lock; `last` for moments.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    turn: Mutex<()>,
    last: Mutex<LastCheckpoint>,
}

/// Where the last checkpoint stands.
#[derive(Clone, Copy, Debug, Default)]
struct LastCheckpoint {
    /// The log position of the durable manifest.
    log: Lsn,
}

impl Checkpoints {
    /// Those of a store whose manifest has this log position.
    pub(crate) fn after(log: Lsn) -> Self {
        Self { turn: Mutex::default(), last: Mutex::new(LastCheckpoint { log }) }
    }

    /// The log position of the durable manifest.
    pub(crate) fn last_log(&self) -> Lsn {
        self.last.lock().log
    }
}

/// Runs one checkpoint; waits for the one that is under way.
///
/// # Errors
/// When the log cannot be synced or a file not be written or removed. Contents and durability are as before
/// then; what the checkpoint wrote may be in place already.
pub(crate) fn run(shared: &Shared) -> Result<CheckpointReport, StoreError> {
    let begun = Instant::now();
    let _turn = shared.checkpoints.turn.lock();
    let mut report = CheckpointReport::default();
    if is_idle(shared) {
        return Ok(report);
    }
    let frozen = Frozen::take(shared, &mut report);
    let outcome =
        write(shared, &frozen, &mut report).map(|merged| install(shared, &frozen, &merged, &mut report));
    if outcome.is_err() {
        abandon(shared);
    }
    let version = frozen.world.version();
    shared.bury(vec![frozen.world]);
    let segments = outcome?;
    if let Some(disk) = &shared.disk {
        report.segments_removed = disk.remove_unneeded(version, &segments)?;
        let log = shared.pipeline.log().zip(frozen.log_end);
        report.log_segments_removed = log.map_or(Ok(0), |(log, end)| log.remove_before(end))?;
    }
    report.duration = begun.elapsed();
    Ok(report)
}

/// Whether nothing has happened since the last checkpoint.
fn is_idle(shared: &Shared) -> bool {
    let world = shared.applied();
    let mut spaces = world.tables().flat_map(|table| table.spaces());
    let logged = shared.pipeline.log().is_some_and(|log| log.end_lsn() > shared.checkpoints.last_log());
    !logged && spaces.all(|(_, space)| space.delta().is_empty())
}

/// What a checkpoint makes durable.
struct Frozen {
    world: Arc<World>,
    /// The end of the log with that world in it; `None` without a log.
    log_end: Option<Lsn>,
}

impl Frozen {
    /// Step 1.
    fn take(shared: &Shared, report: &mut CheckpointReport) -> Self {
        let begin = |world: &World| world.with_spaces(|_, space| Some(space.with_checkpoint_begun()));
        let begun = Instant::now();
        let (world, log_end) = shared.pipeline.replace_newest(shared, begin);
        report.pause(begun.elapsed());
        Self { world, log_end }
    }
}

/// Steps 2 to 4.
fn write(
    shared: &Shared,
    frozen: &Frozen,
    report: &mut CheckpointReport,
) -> Result<MergedSpaces, StoreError> {
    shared.pipeline.wait_published(shared, frozen.world.version())?;
    if let Some((log, end)) = shared.pipeline.log().zip(frozen.log_end) {
        log.sync(end)?;
    }
    let mut merged = MergedSpaces::default();
    let outcome = merge_spaces(shared, &frozen.world, &mut merged, report);
    let Some(disk) = &shared.disk else {
        outcome?;
        return Ok(merged);
    };
    let manifest = match outcome.and_then(|()| disk.sync_segments()) {
        Ok(()) => manifest_of(shared, disk, frozen, &merged),
        Err(error) => {
            // No manifest names them. Once one may, they stay until the next one.
            merged.written.iter().for_each(|number| disk.remove_segment(*number));
            return Err(error);
        }
    };
    report.bytes_written += manifest.write(&**disk.files(), disk.dir())?;
    shared.checkpoints.last.lock().log = Lsn::new(manifest.log);
    Ok(merged)
}

/// The manifest of the frozen world on its merged spaces.
fn manifest_of(shared: &Shared, disk: &Disk, frozen: &Frozen, merged: &MergedSpaces) -> Manifest {
    let world = &frozen.world;
    let catalog = world.catalog();
    let mut segments = BTreeMap::new();
    let mut runs_of = |id: SpaceId| {
        let base = merged.base(id).expect("each space of the frozen world was merged");
        runs(base, &mut segments)
    };
    let tables = world.tables().map(|table| TableEntry {
        definition: table.def().as_ref().clone(),
        rows: runs_of(table.id()),
        indexes: table.def().indexes.iter().map(|index| runs_of(index.id)).collect(),
    });
    let tables = tables.collect();
    let (next_space, next_sequence) = shared.next_numbers();
    Manifest {
        version: world.version().get(),
        log: frozen.log_end.unwrap_or_default().get(),
        next_space,
        next_sequence,
        next_segment: disk.next_segment(),
        schemas: catalog.schemas().map(str::to_owned).collect(),
        tables,
        views: catalog.views().map(|view| view.as_ref().clone()).collect(),
        sequences: catalog.sequences().map(|sequence| sequence.as_ref().clone()).collect(),
        resume_points: shared.sequences.resume_points(),
        segments: segments
            .into_iter()
            .map(|(number, footer_checksum)| SegmentEntry { number, footer_checksum })
            .collect(),
    }
}

/// Where the chunks of a base lie; their segments join `segments`.
fn runs(base: &Base, segments: &mut BTreeMap<u64, u32>) -> Vec<BatchRun> {
    let mut runs: Vec<BatchRun> = Vec::new();
    for (_, chunk) in base.iter() {
        let place = chunk.place().expect("after a checkpoint each chunk lies in a segment");
        let segment = chunk.segment().expect("a chunk with a place has its segment");
        let SegmentRef { number, footer_checksum } = segment.reference();
        segments.insert(number, footer_checksum);
        match runs.last_mut() {
            Some(run) if run.segment == number && run.first_batch + run.count == place.batch => {
                run.count += 1
            }
            _ => runs.push(BatchRun { segment: number, first_batch: place.batch, count: 1 }),
        }
    }
    runs
}

/// Step 5. Returns the segments that the new manifest names.
fn install(
    shared: &Shared,
    frozen: &Frozen,
    merged: &MergedSpaces,
    report: &mut CheckpointReport,
) -> BTreeSet<u64> {
    let frozen_spaces: BTreeMap<SpaceId, &Space> =
        frozen.world.tables().flat_map(|table| table.spaces()).collect();
    let on_new_base = |id: SpaceId, space: &Space| {
        let (frozen, base) = (frozen_spaces.get(&id)?, merged.base(id)?);
        space.with_new_base(frozen, base)
    };
    let begun = Instant::now();
    let old = shared.pipeline.replace_worlds(shared, |world| world.with_spaces(on_new_base));
    report.pause(begun.elapsed());
    shared.bury(old);
    merged.segments()
}

/// Ends a checkpoint without its result.
fn abandon(shared: &Shared) {
    let old = shared
        .pipeline
        .replace_worlds(shared, |world| world.with_spaces(|_, space| space.with_checkpoint_abandoned()));
    shared.bury(old);
}

/// How long a checkpoint may hold the leader's lock before it is worth a line in the trace.
const LONG_PAUSE: Duration = Duration::from_millis(10);

impl CheckpointReport {
    fn pause(&mut self, pause: Duration) {
        if pause > LONG_PAUSE {
            tracing::info!(pause_ms = pause.as_millis(), "a checkpoint held commits up");
        }
        self.longest_pause = self.longest_pause.max(pause);
    }
}

#[cfg(test)]
mod tests;
