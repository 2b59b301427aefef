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
//! 4 manifest            what stays of the log before L (`kept_log.rs`), then F's definitions, F's chunks, L: durable in the
//!                       place of the old one
//! 5 install   [leader]  in every visible world: base = the merged one, delta = since
//! 6 clean up            log before L, segment files that nothing needs and nobody keeps (`retention.rs`)
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

use crate::bricks::{FlushedTable, flush_round};
use crate::clock::LogTime;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::log::{LogHandle, Lsn};
use crate::manifest::{BatchRun, FlushedEpochs, Manifest, SegmentEntry, TableEntry};
use crate::publishing::{Until, contained};
use crate::retention::{LogExtent, Place};
use crate::segment::{Segment, SegmentRef};
use crate::shared::Shared;
use crate::space::{Base, Space};
use crate::terms::Term;
use crate::trap::Step;
use crate::world::World;
use coeval_txn::Epoch;
pub use report::CheckpointReport;
use spaces::{MergedSpaces, merge_spaces};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// Runs one checkpoint; waits for the one that is under way.
///
/// # Errors
/// When the log cannot be synced or a file not be written or removed. Contents and durability are as before
/// then; what the checkpoint wrote may be in place already. [`StoreError::Stopped`] if it panics, which stops commits.
pub(crate) fn run(shared: &Shared) -> Result<CheckpointReport, StoreError> {
    shared.check_files_writable("CHECKPOINT")?;
    let _turn = shared.checkpoints.turn();
    shared.pipeline.publishing.check_whole()?;
    let run = || {
        shared.pass_rolled_back_epochs();
        if is_idle(shared) {
            return Ok(CheckpointReport::default());
        }
        let mut checkpoint = Checkpoint::freeze(shared);
        checkpoint.write()?;
        checkpoint.install()
    };
    let outcome = contained(&shared.pipeline.publishing, "in a checkpoint", run).flatten();
    shared.checkpoints.note_outcome(&outcome);
    outcome
}

/// Whether nothing has happened since the last checkpoint.
fn is_idle(shared: &Shared) -> bool {
    let world = shared.applied();
    let mut spaces = world.tables().flat_map(|table| table.spaces());
    let logged = shared.pipeline.log().is_some_and(|log| log.end_lsn() > shared.checkpoints.last_log());
    !logged && spaces.all(|(_, space)| space.delta().is_empty())
}

/// A checkpoint under way. Dropping it before [`install`](Self::install) abandons it.
pub(crate) struct Checkpoint<'s> {
    shared: &'s Shared,
    begun: Instant,
    /// What it makes durable.
    frozen: Arc<World>,
    /// Segments of which no chunk stays where it is.
    emptied: BTreeSet<u64>,
    /// The end of the log with the frozen world in it; `None` without a log.
    log_end: Option<Lsn>,
    /// The last time that the log has up to there.
    time: LogTime,
    merged: MergedSpaces,
    /// What was flushed of brick tables.
    rounds: Vec<FlushedTable>,
    report: CheckpointReport,
    /// Whether spaces still keep their changes apart for it.
    is_open: bool,
}

impl<'s> Checkpoint<'s> {
    /// Step 1.
    pub(crate) fn freeze(shared: &'s Shared) -> Self {
        let begun = Instant::now();
        let begin = |world: &World| world.with_spaces(|_, space| Some(space.with_checkpoint_begun()));
        let (frozen, log_end, time) = shared.pipeline.replace_newest(shared, begin);
        let mut report = CheckpointReport::default();
        report.note_pause(begun.elapsed());
        Self {
            shared,
            begun,
            frozen,
            emptied: BTreeSet::new(),
            log_end,
            time,
            merged: MergedSpaces::default(),
            rounds: Vec::new(),
            report,
            is_open: true,
        }
    }

    /// Has it write all chunks of these segments anew, so that nobody needs their files.
    pub(crate) fn emptying(mut self, segments: BTreeSet<u64>) -> Self {
        self.emptied = segments;
        self
    }

    /// Steps 2 to 4.
    ///
    /// # Panics
    /// If a file would be needed that is to be emptied; the old manifest is in place then.
    pub(crate) fn write(&mut self) -> Result<(), StoreError> {
        let shared = self.shared;
        // The end of the log may be behind a record of no world if the leader panicked between the two.
        shared.pipeline.publishing.check_whole()?;
        // Replicas that a commit of it waits for hold nobody up: it is in the log here, which is what a checkpoint replaces.
        shared.wait_for(self.frozen.version(), Until::Durable, None)?;
        if let Some((log, end)) = shared.pipeline.log().zip(self.log_end) {
            log.sync(end)?;
        }
        let outcome = merge_spaces(shared, &self.frozen, &self.emptied, &mut self.merged, &mut self.report);
        shared.trap.pass(Step::Merge);
        let Some(disk) = &shared.disk else { return outcome };
        let outcome = outcome.and_then(|()| self.flush_bricks(disk));
        shared.trap.pass(Step::Flush);
        let outcome = outcome.and_then(|()| disk.sync_segments()).and_then(|()| {
            let manifest = manifest_of(shared, disk, self);
            assert!(
                manifest.files().all(|number| !self.emptied.contains(&number)),
                "what was emptied is not needed any more"
            );
            self.report.bytes_written += manifest.write_aside(&**disk.files(), disk.dir())?;
            shared.trap.pass(Step::WriteAside);
            note_place(shared, disk, Place { log: Lsn::new(manifest.log), version: self.frozen.version() });
            shared.note_kept_log(self.frozen.version())?;
            Ok(Lsn::new(manifest.log))
        });
        match outcome {
            Ok(log) => {
                // From here on the directory may have the new manifest even if this fails: its files stay until
                // the next checkpoint or open.
                Manifest::put_in_place(&**disk.files(), disk.dir())?;
                shared.trap.pass(Step::Replace);
                shared.checkpoints.note_durable(log, self.frozen.epochs().clone());
                self.rounds.iter().for_each(FlushedTable::settle);
                Ok(())
            }
            Err(error) => {
                // No manifest names them.
                self.merged.written.iter().for_each(|number| disk.remove_segment(*number));
                self.rounds.iter().for_each(|table| table.discard(disk));
                Err(error)
            }
        }
    }

    /// Flushes what came to brick tables since the last checkpoint (AOSI III-D).
    fn flush_bricks(&mut self, disk: &Disk) -> Result<(), StoreError> {
        let before = self.shared.checkpoints.flushed_epochs();
        for table in self.frozen.tables() {
            if let Some(rows) = table.bricks() {
                let (epochs, rounds_max) = (self.frozen.epochs(), self.shared.sizes.brick_rounds_max);
                self.rounds.push(flush_round(disk, table.id(), rows, (&before, epochs), rounds_max)?);
            }
        }
        Ok(())
    }

    /// Steps 5 and 6.
    ///
    /// # Errors
    /// Those of the file system, and [`StoreError::Corrupt`] if what was written is damaged where a load goes
    /// between its rows: the space's old base and all files stay then. Contents are the same either way.
    pub(crate) fn install(&mut self) -> Result<CheckpointReport, StoreError> {
        let spaces = self.frozen.tables().flat_map(|table| table.spaces());
        let frozen_spaces: BTreeMap<SpaceId, &Space> = spaces.collect();
        let merged = &self.merged;
        let damage = RefCell::new(None);
        let on_new_base = |id: SpaceId, space: &Space| {
            let (frozen, base) = (frozen_spaces.get(&id)?, merged.base(id)?);
            space.with_new_base(frozen, base).unwrap_or_else(|error| {
                damage.borrow_mut().get_or_insert(error);
                space.with_checkpoint_abandoned()
            })
        };
        let begun = Instant::now();
        let old = self.shared.pipeline.replace_worlds(self.shared, |world| world.with_spaces(on_new_base));
        self.is_open = false;
        self.report.note_pause(begun.elapsed());
        self.shared.bury(old);
        self.shared.bury(vec![Arc::clone(&self.frozen)]);
        if let Some(error) = damage.into_inner() {
            // The old base is used on; the next checkpoint writes it anew.
            return Err(error);
        }
        self.shared.trap.pass(Step::Remove);
        if let Some(disk) = &self.shared.disk {
            let mut segments = merged.segments();
            segments.extend(self.rounds.iter().flat_map(FlushedTable::segments));
            let retention = &self.shared.retention;
            retention.add_files(&mut segments);
            let loads_through = retention.loads_through(self.frozen.version());
            self.report.segments_removed = disk.remove_unneeded(loads_through, &segments)?;
        }
        self.shared.trap.pass(Step::RemoveLog);
        if let Some((log, end)) = self.shared.pipeline.log().zip(self.log_end) {
            self.report.log_segments_removed = log.remove_before(self.shared.retention.log_before(end))?;
        }
        self.shared.keeper.poke();
        self.report.duration = self.begun.elapsed();
        Ok(self.report)
    }
}

impl Drop for Checkpoint<'_> {
    fn drop(&mut self) {
        // Behind a panic worlds stay as they are: commits stop, and nothing is merged any more.
        if self.is_open && !std::thread::panicking() {
            let end = |world: &World| world.with_spaces(|_, space| space.with_checkpoint_abandoned());
            let mut old = self.shared.pipeline.replace_worlds(self.shared, end);
            old.push(Arc::clone(&self.frozen));
            self.shared.bury(old);
        }
    }
}

/// The manifest of the frozen world on its merged spaces.
fn manifest_of(shared: &Shared, disk: &Disk, checkpoint: &Checkpoint<'_>) -> Manifest {
    let world = &checkpoint.frozen;
    let catalog = world.catalog();
    let mut segments = BTreeMap::new();
    let mut runs_of = |id: SpaceId| {
        let base = checkpoint.merged.base(id).expect("each space of the frozen world was merged");
        runs(base, &mut segments)
    };
    let tables = world.tables().map(|table| TableEntry {
        definition: table.def().as_ref().clone(),
        rows: runs_of(table.id()),
        indexes: table.def().indexes.iter().map(|index| runs_of(index.id)).collect(),
        bricks: checkpoint
            .rounds
            .iter()
            .find(|flushed| flushed.table() == table.id())
            .map(FlushedTable::entry),
    });
    let tables = tables.collect();
    let has_encoded_segments = segments.values().any(|segment| segment.is_encoded());
    let (next_space, next_sequence) = shared.next_numbers();
    Manifest {
        version: world.version().get(),
        log: checkpoint.log_end.unwrap_or_default().get(),
        next_space,
        next_sequence,
        next_segment: disk.next_segment(),
        schemas: catalog.schemas().map(str::to_owned).collect(),
        tables,
        views: catalog.views().map(|view| view.as_ref().clone()).collect(),
        sequences: catalog.sequences().map(|sequence| sequence.as_ref().clone()).collect(),
        resume_points: shared.sequences.resume_points(),
        segments: segments.values().map(|segment| entry_of(segment)).collect(),
        roles: catalog.roles().map(|role| role.as_ref().clone()).collect(),
        schema_access: catalog
            .schemas_with_access()
            .map(|(schema, access)| (schema.to_owned(), access.as_ref().clone()))
            .collect(),
        server_access: catalog
            .servers_with_access()
            .map(|(server, access)| (server.to_owned(), access.as_ref().clone()))
            .collect(),
        default_privileges: catalog
            .all_default_privileges()
            .map(|defaults| defaults.as_ref().clone())
            .collect(),
        session_defaults: catalog.all_session_defaults().map(|defaults| defaults.as_ref().clone()).collect(),
        types: catalog.user_types().map(|def| def.as_ref().clone()).collect(),
        synchronous_replicas: catalog.synchronous_replicas().cloned(),
        terms: terms_before(shared, checkpoint.log_end.unwrap_or_default()),
        time: checkpoint.time.micros(),
        epochs: (world.epochs().newest() > Epoch::ZERO).then(|| FlushedEpochs {
            through: world.epochs().newest().get(),
            except: world.epochs().except().iter().map(|epoch| epoch.get()).collect(),
        }),
        has_encoded_segments,
    }
}

fn entry_of(segment: &Segment) -> SegmentEntry {
    let SegmentRef { number, footer_checksum } = segment.reference();
    SegmentEntry { number, footer_checksum }
}

/// Has as much stay behind a checkpoint that is going to stand here as is asked for.
fn note_place(shared: &Shared, disk: &Disk, place: Place) {
    // Nobody has to look at files if nothing is asked for.
    let loads = if shared.retention.keep_bytes() > 0 { disk.load_bytes() } else { Vec::new() };
    let end = shared.pipeline.log().map_or(place.log, LogHandle::end_lsn);
    shared.retention.note_checkpoint(place, &LogExtent { end, loads });
}

/// The terms of the log up to a place.
fn terms_before(shared: &Shared, end: Lsn) -> Vec<Term> {
    // One that begins there has written nothing, or its record comes behind.
    shared.terms().terms().iter().copied().filter(|term| term.start < end).collect()
}

/// Where the chunks of a base lie; their segments join `segments`.
fn runs(base: &Base, segments: &mut BTreeMap<u64, Arc<Segment>>) -> Vec<BatchRun> {
    let mut runs: Vec<BatchRun> = Vec::new();
    for (_, chunk) in base.iter() {
        let place = chunk.place().expect("after a checkpoint each chunk lies in a segment");
        let segment = chunk.segment().expect("a chunk with a place has its segment");
        let number = segment.number();
        segments.entry(number).or_insert_with(|| Arc::clone(segment));
        match runs.last_mut() {
            Some(run) if run.segment == number && run.first_batch + run.count == place.batch => {
                run.count += 1
            }
            _ => runs.push(BatchRun { segment: number, first_batch: place.batch, count: 1 }),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
