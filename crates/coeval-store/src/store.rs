// SPDX-License-Identifier: Apache-2.0
//! The store: opening, beginning transactions, sequences.

use crate::bricks::ScanOrder;
use crate::catalog::{QualifiedName, SequenceDef};
use crate::checkpoint::{self, CheckpointReport};
use crate::checkpoints::CheckpointFailures;
use crate::checks::CheckCompiler;
use crate::chunk_memory::DataMemory;
use crate::commit_context::RunAside;
use crate::companion::Companion;
use crate::conflicts::{ConflictCounts, RecentConflict};
use crate::durations::Durations;
use crate::error::{StoreError, TableDamage};
use crate::files::{DiskFiles, FileSystem};
use crate::footprint::GlobalKey;
use crate::held_versions::HeldVersions;
use crate::ids::{SequenceId, SpaceId};
use crate::keeper::Keeper;
use crate::log::LogOptions;
use crate::memory_accounts::MemoryAccounts;
use crate::options::{DamagedTables, Durability, Sizes, StoreOptions, Trials};
use crate::publication::Publication;
use crate::publishing::Until;
use crate::recovery::{Recovered, Role, recover, salvage};
use crate::replicas::SynchronousCommit;
use crate::reservations::Priority;
use crate::safe_counts::SafeSnapshotCounts;
use crate::sequence::Position;
use crate::serializable::{DeferralError, SnapshotLag};
use crate::shared::{Contents, Shared, Standing};
use crate::syncer::Syncer;
use crate::transaction::{AccessMode, BeginAt, BrickSnapshot, Reading, Transaction};
use crate::world::World;
use coeval_txn::ssi::{BoundaryHolder, Deferral, SessionFloor};
use coeval_txn::{Epoch, EpochStatus, Interrupt, Isolation, LockListing, TransactionId, Version};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A handle on an open database. Clones share it; the last one to go closes it.
#[derive(Clone, Debug)]
pub struct Store {
    /// First, so that the keeper has ended before the directory is given back.
    _keeper: Arc<Keeper>,
    syncer: Arc<Syncer>,
    pub(crate) shared: Arc<Shared>,
}

/// Followers of the log lag behind by so much at most while nobody commits, and an idle store writes nothing.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Whether the value that `setval` gives counts as handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetValue {
    /// The next number is the one after it.
    Used,
    /// The next number is the value itself.
    Next,
}

impl Store {
    /// An empty database that lives in memory alone.
    #[must_use]
    pub fn in_memory(options: StoreOptions) -> Self {
        Self::in_memory_tuned(options, Sizes::default())
    }

    /// As [`Store::in_memory`], with something broken: for tests that see whether somebody notices.
    #[doc(hidden)]
    #[must_use]
    pub fn in_memory_on_trial(options: StoreOptions, trials: Trials) -> Self {
        Self::in_memory_tuned(options, Sizes { trials, ..Sizes::default() })
    }

    /// As [`Store::in_memory`], with sizes of chunks for tests.
    pub(crate) fn in_memory_tuned(options: StoreOptions, sizes: Sizes) -> Self {
        Self::new(Shared::new(options, sizes, Contents::empty(), None, None, Standing::Alone))
    }

    /// Opens the database in a directory of the disk, or makes one there; see [`Store::open_with`].
    ///
    /// # Errors
    /// As [`Store::open_with`].
    pub fn open(dir: impl AsRef<Path>, options: StoreOptions) -> Result<Self, StoreError> {
        Self::open_with(Arc::new(DiskFiles), dir.as_ref(), options)
    }

    /// Opens the database in a directory, or makes one if the directory is not there or empty. Everything that
    /// was acknowledged is there (as the durability of that time promised), and nothing half.
    ///
    /// Costs reading the manifest and the footers of segment files, and replaying the log since the last
    /// checkpoint. Chunks are not read.
    ///
    /// # Errors
    /// - [`StoreError::File`] with [`FileError::DirectoryInUse`](crate::files::FileError::DirectoryInUse), naming
    ///   the holder, if another process has it open; or if a file cannot be read or written;
    /// - [`StoreError::Corrupt`], [`StoreError::Log`]: damage, with file and offset; nothing was changed;
    /// - [`StoreError::UnsupportedVersion`]: another version of the program wrote it;
    /// - [`StoreError::IncompleteDatabase`]: a file is missing without which the others mean nothing; nothing was changed;
    /// - [`StoreError::ForeignDirectory`]: there are files that are not a database's; nothing was changed.
    ///
    /// With [`DamagedTables::ServeOthersReadOnly`] damage of single tables is no error, nothing is changed in any case, and
    /// there has to be a database.
    pub fn open_with(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        let log = LogOptions::default();
        let log = match options.durability {
            Durability::Fsync => log,
            // Room made ahead with zeros speeds syncs up; where commits do not wait for any, less will do.
            Durability::None => LogOptions { extend_bytes: 64 << 10, ..log },
        };
        let sizes = Sizes { heartbeat: Some(HEARTBEAT_INTERVAL), begins_terms: true, ..Sizes::default() };
        Self::open_tuned(files, dir, options, log, sizes)
    }

    /// As [`Store::open_with`], with sizes of the log and of chunks for tests.
    pub(crate) fn open_tuned(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        options: StoreOptions,
        log: LogOptions,
        sizes: Sizes,
    ) -> Result<Self, StoreError> {
        let Recovered { contents, log, disk, applied: _ } = match options.damaged {
            DamagedTables::Refuse => {
                let role = if sizes.begins_terms { Role::Primary } else { Role::PrimaryWithoutTerms };
                recover(files, dir, log, role)?
            }
            DamagedTables::ServeOthersReadOnly => salvage(files, dir, log.checksums)?,
        };
        let store = Self::new(Shared::new(options, sizes, contents, log, Some(disk), Standing::Alone));
        store.shared.stop_if_superseded();
        Ok(store)
    }

    /// Whether it follows another store, and is to be read only.
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.shared.is_following()
    }

    /// Whether it was opened to be read only, without the tables that are damaged ([`DamagedTables::ServeOthersReadOnly`]). It writes no log, so
    /// it is no primary, whatever its directory is, and nobody follows it.
    #[must_use]
    pub fn is_salvaged(&self) -> bool {
        self.shared.options.is_read_only()
    }

    /// Whether a declared reader can be given a safe snapshot now. A store that [follows](Self::is_following) another one may
    /// have none yet.
    #[must_use]
    pub fn has_safe_snapshot(&self) -> bool {
        !self.is_following() || self.shared.serializable.safe(self.shared.published_slot()).is_some()
    }

    /// The tables that cannot be read, and why, in a database that was opened [without them](DamagedTables).
    #[must_use]
    pub fn damaged_tables(&self) -> Vec<(QualifiedName, TableDamage)> {
        let world = self.world();
        let damaged = world.tables().filter_map(|table| Some((table.def(), table.damage()?)));
        damaged.map(|(def, damage)| (def.name.clone(), damage.clone())).collect()
    }

    /// The handle of a store that is open.
    pub(crate) fn new(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        Self { _keeper: Arc::new(Keeper::start(&shared)), syncer: Arc::new(Syncer::new(&shared)), shared }
    }

    /// Merges all deltas into chunks and, in a store with files, writes them and drops the log before. Readers
    /// and writers go on meanwhile. If a checkpoint is under way, waits for it and runs another. Brick tables are
    /// purged soon after.
    ///
    /// # Errors
    /// If the log cannot be synced or a file not be written; nothing is lost then, and commits go on.
    pub fn checkpoint(&self) -> Result<CheckpointReport, StoreError> {
        let report = checkpoint::run(&self.shared)?;
        // Also when there was nothing to write: what is flushed already may have waited for a reader to end.
        self.shared.keeper.poke();
        Ok(report)
    }

    /// The checkpoints that have failed since the last one that did not; none if that was the last, or none was due yet.
    /// Commits go on without them, but the log and what is not in chunks grow.
    #[must_use]
    pub fn checkpoint_failures(&self) -> Option<CheckpointFailures> {
        self.shared.checkpoints.failures()
    }

    /// How it was opened.
    #[must_use]
    pub fn options(&self) -> StoreOptions {
        self.shared.options
    }

    /// The newest world that is durable as the options say.
    #[must_use]
    pub fn world(&self) -> Arc<World> {
        self.shared.published()
    }

    /// The newest version that is certified. It may not be published yet: [`world`](Self::world) is.
    #[must_use]
    pub fn applied_version(&self) -> Version {
        self.shared.applied().version()
    }

    /// How many snapshots are held by transactions.
    #[must_use]
    pub fn active_snapshots(&self) -> usize {
        self.shared.active_snapshots()
    }

    /// The versions that transactions hold snapshots of, the oldest first, each with the number of its holders. For
    /// views: nobody begins a transaction meanwhile.
    #[must_use]
    pub fn held_snapshots(&self) -> Vec<(Version, usize)> {
        self.shared.held_snapshots()
    }

    /// Every row lock that is held or waited for. For views: it holds up those who take locks meanwhile.
    #[must_use]
    pub fn row_locks(&self) -> Vec<LockListing<GlobalKey>> {
        self.shared.row_locks.list()
    }

    /// How often ranges of this index were walked since the store was opened, by statements and by what keeps constraints.
    #[must_use]
    pub fn index_walks(&self, index: SpaceId) -> u64 {
        self.shared.index_uses.count(index)
    }

    /// The latest conflicts, in order: who lost, against whom, where and why.
    #[must_use]
    pub fn recent_conflicts(&self) -> Vec<RecentConflict> {
        self.shared.conflicts.all()
    }

    /// How many transactions were refused since it was opened.
    #[must_use]
    pub fn conflict_counts(&self) -> ConflictCounts {
        self.shared.conflicts.counts()
    }

    /// What became of those who asked for safe snapshots since it was opened, and what making these took.
    #[must_use]
    pub fn safe_snapshot_counts(&self) -> SafeSnapshotCounts {
        self.shared.serializable.counters.read()
    }

    /// How many transactions wait for a row lock.
    #[must_use]
    pub fn waiting_for_locks(&self) -> usize {
        self.shared.row_locks.waiting_count()
    }

    /// The oldest version that a transaction still reads; the current one if none is active.
    #[must_use]
    pub fn oldest_active(&self) -> Version {
        self.shared.oldest_active()
    }

    /// Begins a transaction on the newest published world. Takes its snapshot now; never waits.
    #[must_use]
    pub fn begin(&self, isolation: Isolation, mode: AccessMode) -> Transaction {
        Transaction::begin(&self.shared, isolation, mode, BeginAt::Published)
    }

    /// Begins a read-write transaction on the newest *applied* world, whose log record may not be durable yet:
    /// for callers that give out nothing before the commit is acknowledged.
    #[must_use]
    pub fn begin_applied(&self, isolation: Isolation) -> Transaction {
        Transaction::begin(&self.shared, isolation, AccessMode::ReadWrite, BeginAt::Applied)
    }

    /// Begins a declared read-only transaction at SERIALIZABLE on the newest read safe snapshot: it never
    /// waits, is never refused, and makes nobody else be refused. None if that snapshot lacks what `floor` asks for;
    /// [`begin`](Self::begin) then gives the current world.
    #[must_use]
    pub fn begin_safe(&self, floor: &SessionFloor) -> Option<Transaction> {
        Transaction::begin_safe(&self.shared, floor)
    }

    /// As [`begin_safe`](Self::begin_safe), on a safe snapshot that has all of the version of `deferral`: blocks the
    /// thread until those have ended who were active at SERIALIZABLE with an older snapshot than that, or may be
    /// [passed](Self::set_safe_snapshot_lag_max). Makes nobody else wait.
    ///
    /// # Errors
    /// [`DeferralError`]: once `interrupt` is set, or commits have stopped.
    pub fn begin_deferred(
        &self,
        deferral: Deferral,
        interrupt: Option<&(dyn Interrupt + Send + Sync)>,
    ) -> Result<Transaction, DeferralError> {
        Transaction::begin_deferred(&self.shared, deferral, interrupt)
    }

    /// How many wait in [`begin_deferred`](Self::begin_deferred).
    #[must_use]
    pub fn waiting_for_safe_snapshots(&self) -> usize {
        self.shared.serializable.deferred_count()
    }

    /// How many have lost against what is reserved for one with priority, and wait for it.
    #[must_use]
    pub fn waiting_for_reservations(&self) -> usize {
        self.shared.pipeline.reservations.waiting_count()
    }

    /// Somebody whose transactions have [priority](Transaction::claim).
    #[must_use]
    pub fn priority(&self) -> Priority {
        Priority::new(Arc::clone(&self.shared.pipeline.reservations))
    }

    /// How far read safe snapshots are behind, and who holds them back.
    #[must_use]
    pub fn snapshot_lag(&self) -> SnapshotLag {
        self.shared.serializable.lag(self.shared.published_slot())
    }

    /// The read-write transactions that are active at SERIALIZABLE, the one with the oldest snapshot first.
    #[must_use]
    pub fn active_serializable(&self) -> Vec<BoundaryHolder> {
        self.shared.serializable.active()
    }

    /// The version of the earliest commit that overwrote what a transaction has read: its first out-edge. None if there
    /// is none, or the transaction has ended. For views: takes the leader's lock.
    #[must_use]
    pub fn first_out(&self, reading: &Reading) -> Option<Version> {
        self.shared.pipeline.first_out(&self.shared, reading.begin(), &reading.reads())
    }

    /// A committed transaction that has read what an open one has overwritten so far (the rows and index entries among its
    /// first 1,024 changes), and did not see that: an in-edge. None if none is known. For views: takes the leader's lock.
    #[must_use]
    pub fn in_edge(&self, reading: &Reading) -> Option<TransactionId> {
        self.shared.pipeline.in_edge(&self.shared, reading.begin(), reading.written())
    }

    /// Bounds how long a read-write transaction may hold read safe snapshots back. One that takes longer goes on, and
    /// is refused at its commit if a safe snapshot has passed what it depends on. None, the default, is no bound.
    pub fn set_safe_snapshot_lag_max(&self, lag_max: Option<Duration>) {
        self.shared.serializable.set_lag_max(lag_max);
    }

    /// The bound set by [`set_safe_snapshot_lag_max`](Self::set_safe_snapshot_lag_max).
    #[must_use]
    pub fn safe_snapshot_lag_max(&self) -> Option<Duration> {
        self.shared.serializable.lag_max()
    }

    /// What the commit of a transaction waits for (PostgreSQL's `synchronous_commit`). All but [`SynchronousCommit::Off`] wait
    /// until it is durable here; those beyond `Local` also for [replicas](Self::require_replicas), if any are asked for.
    ///
    /// With `Off` it is acknowledged, and seen, before it is durable. It becomes durable at most [`WAIVED_LAG_MAX`](crate::WAIVED_LAG_MAX) and a sync later, earlier if somebody syncs; a crash, also of
    /// the process alone, may lose it until then, and only together with all that came after it. It waits for those before
    /// it that are not durable yet and waived nothing. In a store whose durability is waived altogether, and in memory,
    /// this changes nothing; nor if there is no thread to be had that syncs.
    ///
    /// Definitions of tables that are spread over a cluster waive nothing: `Off` is `Local` there. Other nodes keep rows under
    /// their numbers, and drop them with the table; a crash must not give such a number to another table, or bring a table back. Nor do
    /// transactions that are one with a load into such tables: other nodes know what has become of them.
    pub fn set_synchronous_commit(&self, transaction: &mut Transaction, level: SynchronousCommit) {
        let is_waived = level == SynchronousCommit::Off;
        let level =
            if is_waived && transaction.changes_spread_tables() { SynchronousCommit::Local } else { level };
        if level == SynchronousCommit::Off {
            if self.shared.options.durability != Durability::Fsync || self.shared.disk.is_none() {
                return;
            }
            self.syncer.start();
            if !self.shared.pipeline.publishing.has_syncer() {
                return;
            }
        }
        transaction.set_synchronous_commit(level);
    }

    /// Waits until [`begin`](Self::begin) gives this version or a newer one: for a sync of the log, and for the replicas that its
    /// commits ask for. For whoever lost to a version ([`ConflictError::version`](crate::ConflictError::version)) and is going to try
    /// again with `begin`.
    ///
    /// # Errors
    /// [`StoreError::OutcomeUnknown`] if the log failed: the version will not be published before the next open.
    pub fn wait_published(&self, version: Version) -> Result<(), StoreError> {
        self.shared.wait_for(version, Until::Published, None).map_err(StoreError::under_commit)
    }

    /// The same for as long as it is not durable here; for replicas no longer than until `interrupt` is set.
    ///
    /// # Errors
    /// As [`wait_published`](Self::wait_published); [`StoreError::NotReplicated`] once `interrupt` is set and nothing but replicas is
    /// waited for: the version is committed, and is published when they have it.
    pub fn wait_published_unless(
        &self,
        version: Version,
        interrupt: &(dyn Interrupt + Send + Sync),
    ) -> Result<(), StoreError> {
        self.shared.wait_for(version, Until::Published, Some(interrupt)).map_err(StoreError::under_commit)
    }

    /// Whether the newest safe snapshot has what a session must find. Costs what [`begin_safe`](Self::begin_safe) does.
    #[must_use]
    pub fn safe_snapshot_satisfies(&self, floor: &SessionFloor) -> bool {
        let safe = self.shared.serializable.current(self.shared.published_slot());
        safe.is_some_and(|safe| safe.satisfies(floor))
    }

    /// Waits until whoever committed this version may be told so: [`wait_published`](Self::wait_published), and for replicas
    /// to show it, if its commits ask for that.
    ///
    /// # Errors
    /// [`StoreError::OutcomeUnknown`] as there; [`StoreError::NotReplicated`] once `interrupt` is set and nothing but replicas
    /// is waited for: the version is committed, and is published when they have it.
    pub fn wait_acknowledged(
        &self,
        version: Version,
        interrupt: Option<&(dyn Interrupt + Send + Sync)>,
    ) -> Result<(), StoreError> {
        self.shared.wait_for(version, Until::Acknowledged, interrupt).map_err(StoreError::under_commit)
    }

    /// The directory that it is in; `None` if it lives in memory alone.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.shared.disk.as_ref().map(|disk| disk.dir())
    }

    /// Bytes that were read from the files of tables and are in memory; 0 if there are no files. See
    /// [`StoreOptions::data_memory`].
    #[must_use]
    pub fn data_memory_bytes(&self) -> u64 {
        self.shared.disk.as_ref().map_or(0, |disk| disk.chunk_memory().bytes())
    }

    /// How many of these there may be; `None` if there are no files.
    #[must_use]
    pub fn data_memory_max(&self) -> Option<u64> {
        self.shared.disk.as_ref().map(|_| self.shared.options.data_memory_or_default())
    }

    /// The same as something that can be asked to let go; `None` if there are no files.
    #[must_use]
    pub fn data_memory(&self) -> Option<DataMemory> {
        self.shared.disk.as_ref().map(|disk| DataMemory(Arc::clone(disk.chunk_memory())))
    }

    /// For how long the commit leader's lock was held, since it was opened: nobody commits meanwhile.
    #[must_use]
    pub fn leader_stays(&self) -> Durations {
        self.shared.pipeline.stays.read()
    }

    /// For how long commits waited, since it was opened, from being certified and applied to being published: for the sync of the
    /// log, and for the replicas that they ask for. Commits that were published together are counted once.
    #[must_use]
    pub fn publication_times(&self) -> Durations {
        self.shared.pipeline.publishing.publications.read()
    }

    /// Whether commits go on.
    ///
    /// # Errors
    /// [`StoreError::Stopped`] with the reason: the log has failed, or something that all commits depend on has
    /// panicked. The store has to be opened again, which finds out what is durable.
    pub fn check_running(&self) -> Result<(), StoreError> {
        self.shared.pipeline.publishing.check_running()
    }

    /// As [`wait_acknowledged`](Self::wait_acknowledged), without a thread that waits. None if the version is acknowledged.
    ///
    /// The log is then synced by a thread of the store, for all that ask and all that wait.
    #[must_use]
    pub fn publication(&self, version: Version) -> Option<Publication> {
        if self.shared.pipeline.publishing.is_acknowledged(version) {
            return None;
        }
        self.syncer.start();
        Some(Publication::new(Arc::clone(&self.shared), version))
    }

    /// The next number of a sequence. Not undone by a rollback, never given twice, also after a crash.
    ///
    /// # Errors
    /// [`StoreError::SequenceExhausted`] at the end; [`StoreError::Stopped`] or [`StoreError::Log`] if the log
    /// cannot be written.
    pub fn next_value(&self, sequence: &SequenceDef) -> Result<i64, StoreError> {
        self.shared.check_writable("nextval()")?;
        self.shared.sequences.next_value(sequence, &*self.shared)
    }

    /// The number that [`next_value`](Self::next_value) would give; `None` at the end of the sequence. Nothing is taken:
    /// somebody else may be given it meanwhile.
    #[must_use]
    pub fn upcoming_value(&self, sequence: &SequenceDef) -> Option<i64> {
        self.shared.sequences.upcoming(sequence)
    }

    /// Sets where a sequence stands (`setval`). Takes effect at once, whatever becomes of the transaction.
    ///
    /// # Errors
    /// As [`next_value`](Self::next_value).
    pub fn set_value(&self, sequence: &SequenceDef, value: i64, how: SetValue) -> Result<(), StoreError> {
        self.shared.check_writable("setval()")?;
        let position = match how {
            SetValue::Next => Position::Next(value),
            SetValue::Used => Position::After(value),
        };
        self.shared.sequences.set(sequence, position, &*self.shared)
    }

    /// The epochs of brick tables: how far transactions, readers and purge have come.
    #[must_use]
    pub fn epochs(&self) -> EpochStatus {
        self.shared.published().shared_bricks().clock().status()
    }

    /// The rows that `order` reads, by the epochs of the snapshot that it was made with, and the columns that it reads, by
    /// position among the live ones. It holds these epochs: purge stays behind them for as long as it is kept. It is no part
    /// of a transaction, and counts as read for nobody.
    ///
    /// # Errors
    /// [`StoreError::ScanOrder`], saying why: the table or a column is gone; nobody has kept the snapshot, and purge has passed
    /// it; or the order is of another database.
    pub fn ordered_scan(&self, order: &ScanOrder) -> Result<(BrickSnapshot, Vec<usize>), StoreError> {
        BrickSnapshot::of_order(self.world(), order)
    }

    /// The oldest epoch of brick tables that has not ended, and the transaction that appends or deletes under it: commits
    /// behind it are seen, and not purged.
    #[must_use]
    pub fn oldest_brick_writer(&self) -> Option<(Epoch, TransactionId)> {
        self.shared.published().shared_bricks().oldest_writer()
    }

    /// A number for a new table or index.
    #[must_use]
    pub fn new_space_id(&self) -> SpaceId {
        self.shared.new_space_id()
    }

    /// A number for a new sequence.
    #[must_use]
    pub fn new_sequence_id(&self) -> SequenceId {
        self.shared.new_sequence_id()
    }

    /// Says how a thread waits that serves others too: for a row lock, the leader of the pipeline, the log. Set once,
    /// for all who share the store; until then, a thread that waits just waits.
    pub fn set_run_aside(&self, run_aside: RunAside) {
        self.shared.set_run_aside(run_aside);
    }

    /// Says where transactions get memory for what they write. Set once, for all who share the store; until then nobody
    /// counts it.
    pub fn set_memory_accounts(&self, accounts: Arc<dyn MemoryAccounts>) {
        self.shared.set_memory_accounts(accounts);
    }

    /// Says who keeps something that is read together with worlds. Set once, for all who share the store.
    pub fn set_companion(&self, companion: Arc<dyn Companion>) {
        self.shared.set_companion(companion);
    }

    /// Says, from anywhere and for as long as the store is open, which versions transactions read.
    #[must_use]
    pub fn held_versions(&self) -> HeldVersions {
        HeldVersions::of(&self.shared)
    }

    /// Gives CHECK constraints their meaning. Tables with such constraints take no rows before.
    pub fn set_check_compiler(&self, compiler: Arc<dyn CheckCompiler>) {
        self.shared.set_check_compiler(compiler);
    }
}
