// SPDX-License-Identifier: Apache-2.0
//! What all handles of one store share: the worlds, the registry of snapshots, the pipeline, sequences.

use crate::applied_end::AppliedEnd;
use crate::checkpoint::Checkpoints;
use crate::checks::{CheckCompiler, RowChecks};
use crate::clock::{LogClock, LogTime};
use crate::companion::Companion;
use crate::conflicts::{Conflicts, Party};
use crate::disk::Disk;
use crate::error::StoreError;
use crate::footprint::GlobalKey;
use crate::freshness::Freshness;
use crate::ids::{SequenceId, SpaceId};
use crate::index_uses::IndexUses;
use crate::keeper::KeeperSignal;
use crate::log::{Log, LogHandle, Lsn, PayloadTail};
use crate::options::{Durability, Sizes, StoreOptions};
use crate::pipeline::Pipeline;
use crate::promises::{KeptPromise, Promises};
use crate::publishing::Until;
use crate::record::encode_body;
use crate::replicas::Replicas;
use crate::retention::{Kept, Places, Retention, Slot};
use crate::safe_counts::Refusal;
use crate::sequence::Sequences;
use crate::serializable::{Certification, DeferralError, ReaderDuty, SafeWorld, Serializable};
use crate::showing::Showing;
use crate::submission::Submission;
use crate::table::Table;
use crate::terms::TermHistory;
use crate::transaction::{AccessMode, Committed, MemoryAccounts, Serializing, Transaction};
use crate::trap::{Step, Trap};
use crate::world::World;
use arc_swap::ArcSwap;
use coeval_txn::ssi::{Deferral, SessionFloor};
use coeval_txn::{
    ActiveSnapshots, Epoch, EpochSet, Interrupt, Isolation, LockOwner, RowLocks, SnapshotGuard, Version,
};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The state of an open store.
pub(crate) struct Shared {
    pub(crate) options: StoreOptions,
    pub(crate) sizes: Sizes,
    /// The newest world that sessions may read.
    published: ArcSwap<World>,
    /// The newest certified world; its log record may not be durable yet.
    applied: ArcSwap<World>,
    /// Of transactions that may write: what certification is pruned by.
    writing: ActiveSnapshots,
    /// Of those that only read. They hold worlds, and by them the epochs of bricks; certification forgets what it likes.
    reading: ActiveSnapshots,
    pub(crate) serializable: Serializable,
    pub(crate) pipeline: Pipeline,
    pub(crate) row_locks: Arc<RowLocks<GlobalKey>>,
    pub(crate) conflicts: Conflicts,
    pub(crate) index_uses: IndexUses,
    pub(crate) sequences: Sequences,
    /// # Locking
    /// Held to read or set the compiler, never while it compiles.
    check_compiler: RwLock<Option<Arc<dyn CheckCompiler>>>,
    run_aside: OnceLock<RunAside>,
    memory_accounts: OnceLock<Arc<dyn MemoryAccounts>>,
    companion: OnceLock<Arc<dyn Companion>>,
    next_space: AtomicU32,
    next_sequence: AtomicU32,
    /// The directory, if the store has one.
    pub(crate) disk: Option<Disk>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) keeper: Arc<KeeperSignal>,
    /// Worlds that checkpoints have replaced. Who drops the last reference to one frees its trees, which may
    /// take long: they stay here until this is the last one, and the keeper drops them.
    ///
    /// # Locking
    /// A leaf lock, held for moments; worlds are dropped outside of it.
    graveyard: Mutex<Vec<Arc<World>>>,
    /// Who wrote the log, up to its end.
    ///
    /// # Locking
    /// A leaf lock, held for moments.
    terms: Mutex<TermHistory>,
    pub(crate) retention: Retention,
    pub(crate) replicas: Replicas,
    /// Held while the list of those that commits wait for changes, across the sync of that.
    pub(crate) requiring: Mutex<()>,
    pub(crate) promises: Promises,
    /// The version that it was opened with.
    pub(crate) recovered: Version,
    /// Of a follower: up to where its primaries have said that versions are published which its log has.
    pub(crate) told_published: AtomicU64,
    pub(crate) clock: LogClock,
    /// Of a follower: when it last had all that its primary had published.
    pub(crate) freshness: Arc<Freshness>,
    /// Of a follower: for those who wait until something is shown.
    pub(crate) showing: Showing,
    /// Of a follower that goes through its own log: up to where it has.
    pub(crate) applied_end: AppliedEnd,
    pub(crate) trap: Trap,
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

/// A safe world that is more versions old than this is not dropped by who publishes: it may hold a great deal alone.
const VERSIONS_DROPPED_HERE: u64 = 64;

/// Runs what may wait, once, on this thread, for a caller whose threads serve others too: they are seen to by another
/// thread meanwhile.
pub type RunAside = fn(&mut dyn FnMut());

/// Which world a transaction begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeginAt {
    Published,
    Applied,
}

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
        let keeper = Arc::new(KeeperSignal::new(sizes.heartbeat, sizes.expiry));
        if let Some(disk) = &disk {
            disk.chunk_memory().set_limit(options.data_memory_or_default(), Arc::clone(&keeper));
        }
        Self {
            options,
            sizes,
            published: ArcSwap::new(Arc::clone(&world)),
            applied: ArcSwap::new(world),
            writing: ActiveSnapshots::new(),
            reading: ActiveSnapshots::new(),
            serializable,
            pipeline,
            row_locks: Arc::default(),
            conflicts: Conflicts::default(),
            index_uses: IndexUses::default(),
            sequences: contents.sequences,
            check_compiler: RwLock::new(None),
            run_aside: OnceLock::new(),
            memory_accounts: OnceLock::new(),
            companion: OnceLock::new(),
            next_space: AtomicU32::new(contents.next_space),
            next_sequence: AtomicU32::new(contents.next_sequence),
            disk,
            checkpoints: Checkpoints::after(contents.manifest_log, contents.flushed_epochs),
            keeper,
            graveyard: Mutex::default(),
            terms: Mutex::new(contents.terms),
            retention,
            replicas,
            requiring: Mutex::default(),
            promises: Promises::new(contents.promise),
            recovered: world_version,
            told_published: AtomicU64::new(0),
            clock: LogClock::new(contents.time),
            freshness: Arc::default(),
            showing: Showing::default(),
            applied_end: AppliedEnd::default(),
            trap: Trap::default(),
        }
    }

    /// Fails if the database was opened to be read only.
    #[inline]
    pub(crate) fn check_writable(&self, what: &'static str) -> Result<(), StoreError> {
        if self.is_following() {
            return Err(StoreError::OnReplica(what));
        }
        self.check_files_writable(what)
    }

    /// Fails if nothing of the directory may be changed.
    #[inline]
    pub(crate) fn check_files_writable(&self, what: &'static str) -> Result<(), StoreError> {
        if self.options.is_read_only() { Err(StoreError::ServedReadOnly(what)) } else { Ok(()) }
    }

    /// Who wrote the log, up to its end and perhaps a term that has not written yet.
    pub(crate) fn terms(&self) -> TermHistory {
        self.terms.lock().clone()
    }

    pub(crate) fn set_terms(&self, terms: TermHistory) {
        *self.terms.lock() = terms;
    }

    pub(crate) fn published(&self) -> Arc<World> {
        self.published.load_full()
    }

    pub(crate) fn applied(&self) -> Arc<World> {
        self.applied.load_full()
    }

    pub(crate) fn set_published(&self, world: Arc<World>) {
        let (version, old) = (world.version(), self.published.load().version());
        match self.companion.get() {
            Some(companion) if version > old => {
                companion.publish(old, version, &mut || self.published.store(Arc::clone(&world)));
            }
            Some(_) | None => self.published.store(world),
        }
        if let Some(old) = self.serializable.note_published(version) {
            self.bury(vec![old]);
        }
    }

    /// A registration of a serializable transaction has ended, or a world was published: makes the safe world anew, if
    /// somebody wants one.
    pub(crate) fn keep_up_safe(&self) {
        let Some(before) = self.serializable.keep_up(&self.published) else { return };
        let newest = self.published.load().version().get();
        if newest.saturating_sub(before.world().version().get()) > VERSIONS_DROPPED_HERE {
            self.bury(vec![Arc::clone(before.world())]);
        }
    }

    pub(crate) fn set_applied(&self, world: Arc<World>) {
        self.applied.store(world);
    }

    /// The oldest version that anybody reads.
    pub(crate) fn oldest_active(&self) -> Version {
        self.reading.oldest_or(|| self.oldest_certified())
    }

    /// The oldest version that anybody reads who may still be certified against those that committed since.
    pub(crate) fn oldest_certified(&self) -> Version {
        self.writing.oldest_or(|| self.published.load().version())
    }

    pub(crate) fn held_snapshots(&self) -> Vec<(Version, usize)> {
        let mut held: BTreeMap<Version, usize> = BTreeMap::new();
        for (version, holders) in self.writing.list().into_iter().chain(self.reading.list()) {
            *held.entry(version).or_default() += holders;
        }
        held.into_iter().collect()
    }

    fn snapshots(&self, mode: AccessMode) -> &ActiveSnapshots {
        match mode {
            AccessMode::ReadWrite => &self.writing,
            AccessMode::ReadOnly | AccessMode::Query => &self.reading,
        }
    }

    /// The highest version whose safe snapshot is final.
    pub(crate) fn final_version(&self) -> Version {
        self.serializable.final_version(|| self.published.load().version())
    }

    pub(crate) fn active_snapshots(&self) -> usize {
        self.writing.count() + self.reading.count()
    }

    /// The newest published world, to be read without leave to change it.
    pub(crate) fn published_slot(&self) -> &ArcSwap<World> {
        &self.published
    }

    pub(crate) fn begin(
        self: &Arc<Self>,
        isolation: Isolation,
        mode: AccessMode,
        at: BeginAt,
    ) -> Transaction {
        if self.is_following() {
            return self.begin_following(isolation);
        }
        let take = || {
            let mut snapshot = None;
            let guard = self.snapshots(mode).register(|| {
                let world = match at {
                    BeginAt::Published => self.published(),
                    BeginAt::Applied => self.applied(),
                };
                snapshot.insert(world).version()
            });
            (guard, snapshot.expect("the registry asks for the version once"))
        };
        let id = self.serializable.new_transaction();
        let ((guard, world), serializing) = match (isolation, mode) {
            (Isolation::Serializable, AccessMode::ReadWrite) => {
                let mut taken = None;
                let active = self.serializable.begin(id, || {
                    let (_, world) = taken.insert(take());
                    (world.version(), Arc::clone(world))
                });
                let taken = taken.expect("the registry asks for the snapshot once");
                let serializing = Serializing::writer(active);
                (taken, Some(serializing))
            }
            (Isolation::Serializable, AccessMode::ReadOnly | AccessMode::Query) => {
                let begin = || {
                    let taken = take();
                    (taken.1.version(), taken)
                };
                let (taken, duty) = self.serializable.begin_reader(begin);
                let serializing = match duty {
                    ReaderDuty::None => None,
                    ReaderDuty::Certified(guard) => Some(Serializing::reader(guard)),
                };
                (taken, serializing)
            }
            (Isolation::ReadCommitted | Isolation::Snapshot, _) => (take(), None),
        };
        Transaction::new(Arc::clone(self), world, guard, isolation, mode, id, serializing)
    }

    /// Begins a declared read-only transaction on the newest safe snapshot, if that has what `floor` asks for.
    pub(crate) fn begin_safe(self: &Arc<Self>, floor: &SessionFloor) -> Option<Transaction> {
        let mut safe = self.serializable.safe(&self.published);
        if safe.as_ref().is_some_and(|safe| !safe.satisfies(floor)) {
            // What lay ready need not have been the newest.
            safe = self.serializable.current(&self.published);
        }
        let safe = safe.ok_or(Refusal::WhileCertifying);
        let safe =
            safe.and_then(|safe| if safe.satisfies(floor) { Ok(safe) } else { Err(Refusal::BehindFloor) });
        self.serializable.counters.asked(&safe);
        safe.ok().map(|safe| self.begin_on(&safe))
    }

    /// As [`begin_safe`](Self::begin_safe), on one that has all of the version of `deferral`; waits for it.
    ///
    /// # Errors
    /// [`DeferralError`].
    pub(crate) fn begin_deferred(
        self: &Arc<Self>,
        deferral: Deferral,
        interrupt: Option<&(dyn Interrupt + Send + Sync)>,
    ) -> Result<Transaction, DeferralError> {
        let check_running = || self.pipeline.publishing.check_running();
        let deferred = || self.serializable.deferred(&self.published, deferral, interrupt, check_running);
        let safe = self.aside(deferred)?;
        Ok(self.begin_on(&safe))
    }

    /// In a store that follows another one all transactions only read, and one at SERIALIZABLE reads a safe snapshot. While
    /// there is none, it gets the newest world and is no more than REPEATABLE READ.
    fn begin_following(self: &Arc<Self>, isolation: Isolation) -> Transaction {
        if isolation == Isolation::Serializable
            && let Some(safe) = self.serializable.safe(&self.published)
        {
            return self.begin_on(&safe);
        }
        let isolation = if isolation == Isolation::Serializable { Isolation::Snapshot } else { isolation };
        let world = self.published();
        let guard = self.register(world.version(), AccessMode::ReadOnly);
        let id = self.serializable.new_transaction();
        Transaction::new(Arc::clone(self), world, guard, isolation, AccessMode::ReadOnly, id, None)
    }

    fn begin_on(self: &Arc<Self>, safe: &SafeWorld) -> Transaction {
        let world = Arc::clone(safe.world());
        let (isolation, mode) = (Isolation::Serializable, AccessMode::ReadOnly);
        let guard = self.register(world.version(), mode);
        let id = self.serializable.new_transaction();
        Transaction::new(Arc::clone(self), world, guard, isolation, mode, id, None)
    }

    /// Certifies a serializable transaction that wrote nothing.
    pub(crate) fn certify_reader(
        &self,
        party: Party,
        certification: &Certification,
    ) -> Result<(), StoreError> {
        let published = || self.published.load().version();
        if certification.reads.is_empty() || self.serializable.is_harmless(certification.begin, published) {
            return Ok(());
        }
        self.pipeline.certify_reader(self, party, certification)
    }

    /// Registers a version that is held already, by another registration or as one not older than it.
    pub(crate) fn register(&self, version: Version, mode: AccessMode) -> SnapshotGuard {
        self.snapshots(mode).register(|| version)
    }

    /// Registers a version that is held already, for a reader that is going to be certified.
    pub(crate) fn register_reader(&self, version: Version) -> SnapshotGuard {
        self.serializable.register_reader(version)
    }

    /// Commits a transaction that wrote something, up to the applied world; one with bulk loads until it is durable here.
    pub(crate) fn commit(
        &self,
        mut submission: Submission,
        locks: Option<LockOwner<GlobalKey>>,
    ) -> Result<Committed, StoreError> {
        let Some(disk) = &self.disk else { return self.pipeline.commit(self, submission, locks) };
        if submission.loads.is_empty() {
            self.encode(&mut submission)?;
            return self.pipeline.commit(self, submission, locks);
        }
        self.aside(|| {
            let loads = disk.write_loads(&mut submission.loads)?;
            self.trap.pass(Step::Load);
            if let Err(error) = self.encode(&mut submission) {
                disk.discard(&loads);
                return Err(error);
            }
            let applied = self.pipeline.commit(self, submission, locks);
            let verdict = applied.and_then(|committed| {
                let durable = self.pipeline.publishing.wait(self, committed.version, Until::Durable, None);
                durable.map_err(StoreError::under_commit)?;
                Ok(committed)
            });
            disk.settle_loads(&loads, &verdict);
            verdict
        })
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

    /// Runs what may wait, as [`Store::set_run_aside`](crate::Store::set_run_aside) says.
    pub(crate) fn aside<T>(&self, wait: impl FnOnce() -> T) -> T {
        let Some(run_aside) = self.run_aside.get() else { return wait() };
        let (mut wait, mut outcome) = (Some(wait), None);
        run_aside(&mut || outcome = wait.take().map(|wait| wait()));
        outcome.expect("what is run aside is run once, before that returns")
    }

    pub(crate) fn set_run_aside(&self, run_aside: RunAside) {
        // Whoever shares the store has the same threads.
        let _ = self.run_aside.set(run_aside);
    }

    pub(crate) fn set_memory_accounts(&self, accounts: Arc<dyn MemoryAccounts>) {
        // Whoever shares the store has the same memory.
        let _ = self.memory_accounts.set(accounts);
    }

    pub(crate) fn set_companion(&self, companion: Arc<dyn Companion>) {
        // Whoever shares the store has the same companion.
        let _ = self.companion.set(companion);
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
            self.pipeline.pass_rolled_back_epochs(self);
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

    /// Deletes the bricks of which all rows are older at `now` than their table keeps them, a transaction for each table.
    pub(crate) fn expire_bricks(self: &Arc<Self>, now_micros: i64) {
        if self.is_following() {
            return;
        }
        let world = self.published();
        for table in world.tables() {
            let Some((dimension, last)) = table.def().bricks.as_ref().and_then(|bricks| {
                let retention = bricks.retention.as_ref()?;
                let ty = table.def().columns.get(retention.column)?.ty;
                bricks.expired(retention, ty, now_micros)
            }) else {
                continue;
            };
            let mut transaction = self.begin(Isolation::Snapshot, AccessMode::ReadWrite, BeginAt::Published);
            let deleted =
                transaction.delete_bricks(table.id(), |all| all.within(dimension, &[i64::MIN..=last]));
            let outcome = match deleted {
                Ok(0) => continue,
                Ok(rows) => transaction.commit().map(|_| rows),
                Err(error) => Err(error),
            };
            let name = &table.def().name;
            match outcome {
                Ok(rows) => tracing::debug!(%name, rows, "bricks have expired"),
                Err(error) => tracing::warn!(%name, %error, "bricks that have expired were not deleted"),
            }
        }
    }

    /// Takes worlds that others may still hold, to be dropped by the keeper.
    pub(crate) fn bury(&self, worlds: Vec<Arc<World>>) {
        let mut graves = self.graveyard.lock();
        for world in worlds {
            // A world that lies here twice would never be held by nobody else.
            if !graves.iter().any(|grave| Arc::ptr_eq(grave, &world)) {
                graves.push(world);
            }
        }
        drop(graves);
        self.keeper.note_graves();
    }

    /// Drops the buried worlds that nobody else holds; returns whether there are others.
    pub(crate) fn sweep_graves(&self) -> bool {
        let (free, held): (Vec<_>, Vec<_>) = {
            let mut graves = self.graveyard.lock();
            let worlds = std::mem::take(&mut *graves);
            let (free, held): (Vec<_>, Vec<_>) =
                worlds.into_iter().partition(|world| Arc::strong_count(world) == 1);
            graves.extend(held.iter().cloned());
            (free, held)
        };
        drop(free);
        !held.is_empty()
    }
}
