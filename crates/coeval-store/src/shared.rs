// SPDX-License-Identifier: Apache-2.0
//! What all handles of one store share: what commits stand on, the pipeline, sequences, the directory.

mod kept_log;
mod sequence_log;
mod superseding;

use crate::certification::Certification;
use crate::checkpoints::Checkpoints;
use crate::checks::{CheckCompiler, RowChecks};
use crate::clock::{LogClock, LogTime};
use crate::commit_context::CommitContext;
use crate::conflicts::{Conflicts, Party};
use crate::disk::{Disk, LoadFiles};
use crate::error::StoreError;
use crate::footprint::GlobalKey;
use crate::freshness::Freshness;
use crate::ids::{SequenceId, SpaceId};
use crate::index_uses::IndexUses;
use crate::log::{Log, LogHandle, Lsn, PayloadTail};
use crate::memory_accounts::MemoryAccounts;
use crate::options::{Durability, Sizes, StoreOptions};
use crate::pipeline::{NewFiles, Pipeline};
use crate::promises::{KeptPromise, Promises};
use crate::publishing::Until;
use crate::record::encode_body;
use crate::replicas::Replicas;
use crate::retention::{Kept, Places, Retention, Slot};
use crate::sequence::Sequences;
use crate::serializable::Serializable;
use crate::showing::Showing;
use crate::submission::Submission;
use crate::table::Table;
use crate::terms::TermHistory;
use crate::trap::Step;
use crate::world::World;
use coeval_txn::{CommitOrder, Epoch, EpochSet, Interrupt, LockOwner, RowLocks, Version};
use parking_lot::{Mutex, RwLock};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The state of an open store. What belongs to its [`CommitContext`] is reached as if it were its own: most of the store works with
/// both, and the pipeline with that alone.
pub(crate) struct Shared {
    context: CommitContext,
    pub(crate) pipeline: Pipeline,
    pub(crate) row_locks: Arc<RowLocks<GlobalKey>>,
    pub(crate) conflicts: Conflicts,
    pub(crate) index_uses: IndexUses,
    pub(crate) sequences: Sequences,
    /// # Locking
    /// Held to read or set the compiler, never while it compiles.
    check_compiler: RwLock<Option<Arc<dyn CheckCompiler>>>,
    memory_accounts: OnceLock<Arc<dyn MemoryAccounts>>,
    next_space: AtomicU32,
    next_sequence: AtomicU32,
    /// The directory, if the store has one.
    pub(crate) disk: Option<Disk>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) retention: Retention,
    /// Held while the list of those that commits wait for changes, across the sync of that.
    pub(crate) requiring: Mutex<()>,
    pub(crate) promises: Promises,
    /// The version that it was opened with.
    pub(crate) recovered: Version,
    /// Of a follower: up to where its primaries have said that versions are published which its log has.
    pub(crate) told_published: AtomicU64,
    /// Of a follower: when it last had all that its primary had published.
    pub(crate) freshness: Arc<Freshness>,
    /// Of a follower: for those who wait until something is shown.
    pub(crate) showing: Showing,
}

impl Deref for Shared {
    type Target = CommitContext;

    #[inline]
    fn deref(&self) -> &CommitContext {
        &self.context
    }
}

/// Where the commits of a store are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Here.
    Alone,
    /// In another store, whose log this one takes.
    Follows,
}

/// What a store begins with.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) world: World,
    pub(crate) sequences: Sequences,
    /// Numbers below these have been given.
    pub(crate) next_space: u32,
    pub(crate) next_sequence: u32,
    /// The log position of the manifest.
    pub(crate) manifest_log: Lsn,
    /// Which rows of brick tables its flush rounds hold.
    pub(crate) flushed_epochs: EpochSet,
    pub(crate) terms: TermHistory,
    /// The last time that the log has.
    pub(crate) time: LogTime,
    /// What is kept of the log for an archive.
    pub(crate) kept: Option<Kept>,
    pub(crate) slots: Vec<Slot>,
    /// The manifest's place, and those of earlier checkpoints from which on the log is kept.
    pub(crate) places: Places,
    /// What the directory has promised.
    pub(crate) promise: Option<KeptPromise>,
}

impl Contents {
    /// Nothing.
    pub(crate) fn empty() -> Self {
        Self {
            world: World::empty(),
            sequences: Sequences::default(),
            next_space: 1,
            next_sequence: 1,
            manifest_log: Lsn::START,
            flushed_epochs: EpochSet::none(),
            terms: TermHistory::default(),
            time: LogTime::ZERO,
            kept: None,
            slots: Vec::new(),
            places: Places::default(),
            promise: None,
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared(version {})", self.published().version())
    }
}

/// Room for the body of a log record: what it takes without changes, and for a change of a row of usual size.
const BODY_ROOM: usize = 128;
/// See [`BODY_ROOM`].
const BODY_ROOM_PER_CHANGE: usize = 192;

/// A body of so many bytes is not copied again, nor read, while the leader's lock is held, and is a record of its own.
const LARGE_BODY_BYTES: usize = 1 << 20;

impl Shared {
    pub(crate) fn new(
        options: StoreOptions,
        sizes: Sizes,
        contents: Contents,
        log: Option<Log>,
        disk: Option<Disk>,
        standing: Standing,
    ) -> Self {
        let durability = if log.is_some() { options.durability } else { Durability::None };
        let retention = Retention::with_left(contents.kept, &contents.slots, contents.places);
        retention.set_keep_bytes(options.log_keep_bytes);
        let begun = (contents.world.version(), contents.world.epochs().newest());
        let pipeline = Pipeline::new(log, durability, begun, sizes);
        let world = Arc::new(contents.world);
        let world_version = world.version();
        let recovered = pipeline.log().map_or(Lsn::START, LogHandle::end_lsn);
        let replicas = match (standing, world.catalog().synchronous_replicas()) {
            (Standing::Alone, required) => Replicas::new(required.cloned(), recovered),
            (Standing::Follows, _) => Replicas::default(),
        };
        let serializable = match standing {
            Standing::Alone => Serializable::new(Arc::clone(&world), sizes.trials),
            Standing::Follows => Serializable::following(Arc::clone(&world), sizes.trials),
        };
        let promises = Promises::new(contents.promise, contents.terms.timeline());
        let (terms, clock) = (contents.terms, LogClock::new(contents.time));
        let context = CommitContext::new(options, sizes, world, serializable, replicas, terms, clock);
        if let Some(disk) = &disk {
            disk.chunk_memory().set_limit(options.data_memory_or_default(), Arc::clone(&context.keeper));
        }
        Self {
            context,
            pipeline,
            row_locks: Arc::default(),
            conflicts: Conflicts::default(),
            index_uses: IndexUses::default(),
            sequences: contents.sequences,
            check_compiler: RwLock::new(None),
            memory_accounts: OnceLock::new(),
            next_space: AtomicU32::new(contents.next_space),
            next_sequence: AtomicU32::new(contents.next_sequence),
            disk,
            checkpoints: Checkpoints::after(contents.manifest_log, contents.flushed_epochs),
            retention,
            requiring: Mutex::default(),
            promises,
            recovered: world_version,
            told_published: AtomicU64::new(0),
            freshness: Arc::default(),
            showing: Showing::default(),
        }
    }

    /// Certifies a serializable transaction that wrote nothing.
    pub(crate) fn certify_reader(
        &self,
        party: Party,
        certification: &Certification,
    ) -> Result<(), StoreError> {
        let published = || self.published_slot().load().version();
        if certification.reads.is_empty() || self.serializable.is_harmless(certification.begin, published) {
            return Ok(());
        }
        self.pipeline.certify_reader(self, party, certification)
    }

    /// Commits a transaction that wrote something, up to the applied world; one with files of its own, of bulk loads or new
    /// indexes, until it is durable here.
    pub(crate) fn commit(
        &self,
        mut submission: Submission,
        locks: Option<LockOwner<GlobalKey>>,
    ) -> Result<CommitOrder, StoreError> {
        let Some(disk) = &self.disk else {
            submission.rebuilt = self.pipeline.catch_indexes_up(self, None, &submission)?;
            return self.pipeline.commit(self, submission, locks);
        };
        if !submission.is_structural() {
            self.encode(&mut submission)?;
            return self.pipeline.commit(self, submission, locks);
        }
        self.aside(|| self.commit_structural(disk, submission, locks))
    }

    /// The same for one that changes definitions or loads rows in bulk.
    fn commit_structural(
        &self,
        disk: &Disk,
        mut submission: Submission,
        locks: Option<LockOwner<GlobalKey>>,
    ) -> Result<CommitOrder, StoreError> {
        let mut files = disk.write_loads(&mut submission.loads)?;
        if let Err(error) = self.prepare_structural(disk, &mut files, &mut submission) {
            disk.discard(&files);
            return Err(error);
        }
        let applied = self.pipeline.commit(self, submission, locks);
        if files.is_empty() {
            return applied;
        }
        let verdict = applied.and_then(|order| {
            let durable = self.pipeline.publishing.wait(self, order.version, Until::Durable, None);
            durable.map_err(StoreError::under_commit)?;
            Ok(order)
        });
        disk.settle_loads(&files, &verdict);
        verdict
    }

    /// Its new indexes catch up with others, and its record is made, which may name files of theirs.
    fn prepare_structural(
        &self,
        disk: &Disk,
        files: &mut LoadFiles,
        submission: &mut Submission,
    ) -> Result<(), StoreError> {
        if !files.is_empty() {
            self.trap.pass(Step::Load);
        }
        let new_files = NewFiles { disk, written: files };
        submission.rebuilt = self.pipeline.catch_indexes_up(self, Some(new_files), submission)?;
        self.encode(submission)
    }

    /// Makes the body of a submission's log record.
    fn encode(&self, submission: &mut Submission) -> Result<(), StoreError> {
        let mut body = Vec::with_capacity(BODY_ROOM + BODY_ROOM_PER_CHANGE * submission.row_changes());
        encode_body(submission, &mut body);
        let max = self.sizes.batch_bytes_max;
        if body.len() > max {
            return Err(StoreError::TransactionSize { bytes: body.len(), max });
        }
        let is_large = body.len() >= LARGE_BODY_BYTES;
        submission.body_checksum = is_large.then(|| PayloadTail::checksum_of(&body));
        submission.body = body;
        Ok(())
    }

    /// Waits until this version is as far as `until` says; for replicas, until `interrupt` is set.
    pub(crate) fn wait_for(
        &self,
        version: Version,
        until: Until,
        interrupt: Option<&(dyn Interrupt + Send + Sync)>,
    ) -> Result<(), StoreError> {
        if self.pipeline.publishing.is_acknowledged(version) {
            return Ok(());
        }
        self.aside(|| self.pipeline.publishing.wait(self, version, until, interrupt))
    }

    pub(crate) fn set_memory_accounts(&self, accounts: Arc<dyn MemoryAccounts>) {
        // Whoever shares the store has the same memory.
        let _ = self.memory_accounts.set(accounts);
    }

    /// Where transactions get memory for their writes; nobody counts it if there is none.
    pub(crate) fn memory_accounts(&self) -> Option<&Arc<dyn MemoryAccounts>> {
        self.memory_accounts.get()
    }

    pub(crate) fn set_check_compiler(&self, compiler: Arc<dyn CheckCompiler>) {
        *self.check_compiler.write() = Some(compiler);
    }

    /// The checks of a table, compiled once per definition.
    pub(crate) fn row_checks(&self, table: &Table) -> Result<Arc<dyn RowChecks>, StoreError> {
        let compiled = table.checks().get_or_init(|| {
            let compiler = self.check_compiler.read().clone();
            let compiler = compiler.ok_or_else(|| "no SQL layer is attached".to_owned())?;
            compiler.compile(table.def())
        });
        compiled.clone().map_err(StoreError::CheckText)
    }

    pub(crate) fn new_space_id(&self) -> SpaceId {
        SpaceId::new(self.next_space.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn new_sequence_id(&self) -> SequenceId {
        SequenceId::new(self.next_sequence.fetch_add(1, Ordering::Relaxed))
    }

    /// The numbers that the next table or index and the next sequence will have.
    pub(crate) fn next_numbers(&self) -> (u32, u32) {
        (self.next_space.load(Ordering::Relaxed), self.next_sequence.load(Ordering::Relaxed))
    }

    /// Numbers below these have been given.
    pub(crate) fn raise_next_numbers(&self, space: u32, sequence: u32) {
        self.next_space.fetch_max(space, Ordering::Relaxed);
        self.next_sequence.fetch_max(sequence, Ordering::Relaxed);
    }

    /// Lets purge pass epochs that were rolled back since the newest world was made, and were pending then.
    pub(crate) fn pass_rolled_back_epochs(&self) {
        // Mostly there is nothing, and nobody is held up.
        if !self.applied().ended_epochs().is_empty() {
            self.pipeline.pass_rolled_back_epochs(self, &self.checkpoints);
        }
    }

    /// Purges brick tables as far as everybody sees them alike, and, in a store with files, flush rounds hold them. One that
    /// follows another goes no further than that one has gone: a delete that is still open there may tell epochs apart that
    /// nobody does here.
    pub(crate) fn purge_bricks(&self) {
        if !self.is_following() {
            self.pass_rolled_back_epochs();
        }
        let world = self.published();
        let flushed = match &self.disk {
            Some(_) => self.checkpoints.flushed_epochs().horizon(),
            None => Epoch::MAX,
        };
        let safe = world.shared_bricks().clock().advance_safe(flushed).min(flushed);
        if self.sizes.heartbeat.is_some() {
            self.pipeline.log_ended_epochs(self, safe);
        }
        let tables = world.tables().filter_map(|table| table.bricks());
        let tickets: Result<Vec<_>, _> = tables.map(|rows| rows.table().purge(safe)).collect();
        let purged =
            tickets.and_then(|tickets| tickets.into_iter().try_for_each(|ticket| ticket.wait().map(drop)));
        if let Err(error) = purged {
            tracing::error!(%error, "brick tables were not purged");
        }
    }

    /// Whether a checkpoint would take many rows of brick tables from the disk that are gone.
    pub(crate) fn has_void_rounds(&self) -> bool {
        let world = self.applied();
        let mut tables = world.tables().filter_map(|table| table.bricks());
        self.disk.is_some() && tables.any(|rows| rows.has_void_rounds(world.epochs()))
    }
}
