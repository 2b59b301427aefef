// SPDX-License-Identifier: Apache-2.0
//! Transactions: a snapshot, private writes on top of it, and a footprint to certify.
//!
//! A transaction reads the world it began with. What it writes it keeps to itself, as one delta for each
//! space; reads look there first. So a savepoint is a copy of a few pointers, rollback is dropping them, and
//! what certification and the log need is what has been collected on the way.
//! Definitions are changed in a private copy of the world.

mod begin;
mod bricks;
mod cascade;
mod children;
mod ddl;
mod deferred;
mod expiry;
mod foreign_key;
mod generated;
mod kept_memory;
mod load;
mod locks;
mod named_age;
mod pending;
mod refused;
mod scanned;
mod serializing;
mod statement_parts;
mod write;

pub(crate) use begin::BeginAt;
pub use bricks::{Appended, BrickSnapshot, BrickVersion};
pub(crate) use ddl::check_brick_definition;
pub use deferred::{CheckTime, ConstraintChoice};
pub(crate) use expiry::expire_bricks;
pub(crate) use foreign_key::in_width_of;
pub use locks::{IfLocked, LockWaits, LockedRows, LockedState, RowLock};
pub use refused::Refused;
pub use scanned::{NOTED_ROWS_MAX, Scanned};
pub use serializing::Reading;

use crate::bulk_load::BulkLoad;
use crate::catalog::{Catalog, CatalogChange, QualifiedName, TableDef};
use crate::conflicts::{Origin, Party};
use crate::cursor::SpaceCursor;
use crate::delta::Delta;
use crate::error::StoreError;
use crate::footprint::{Footmark, GlobalKey, definition_key, large_footprint};
use crate::ids::SpaceId;
use crate::key::Key;
use crate::publishing::Until;
use crate::range::{Direction, KeyRange};
use crate::reads::Walked;
use crate::replicas::SynchronousCommit;
use crate::reservations::{Accessed, Priority, ReservedReads};
use crate::shared::Shared;
use crate::space::Found;
use crate::submission::Submission;
use crate::table::{IndexEntry, RowRef, Table, primary_key_start};
use crate::table_writes::{TableWrites, WrittenTables};
use crate::view::TableView;
use crate::world::World;
use crate::write_set::WriteSet;
use bricks::BrickWrites;
use children::ChildLookups;
use coeval_txn::{Access, CommitOrder, Isolation, LockOwner, SnapshotGuard, TransactionId, Version};
use deferred::{Deferred, DeferredMark};
use kept_memory::{KeptMark, KeptMemory};
use pending::PendingChecks;
use refused::settle_priority;
use serializing::Serializing;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a transaction may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// Reads and writes.
    ReadWrite,
    /// Declared read-only.
    ReadOnly,
    /// A single query that is known to write nothing; nobody has declared it.
    Query,
}

/// The commit was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The version that holds it; the snapshot's own if nothing was written.
    pub version: Version,
    /// Its place among the commits; none if nothing was written.
    pub order: Option<CommitOrder>,
}

/// The bulk loads of a transaction, in their order: a savepoint holds the list as it was.
type Loads = Arc<Vec<Arc<BulkLoad>>>;

/// A transaction. Dropping it rolls it back.
#[derive(Debug)]
pub struct Transaction {
    shared: Arc<Shared>,
    id: TransactionId,
    /// What it is certified by beside its footprint; none below SERIALIZABLE, and for readers that need not be.
    /// Before `guard`, so that its registration ends first.
    serializing: Option<Box<Serializing>>,
    /// The snapshot, or a private copy once definitions were changed or rows loaded in bulk.
    world: Arc<World>,
    /// What `world` was before the first change of a definition; of no meaning while there is none.
    world_before_changes: Option<Arc<World>>,
    /// Its version. Moves at READ COMMITTED.
    snapshot: Version,
    /// The world that the snapshot has moved to, if it has, without changes of definitions or loads.
    moved_to: Option<Arc<World>>,
    /// Keeps the oldest version registered that something in the footprint was looked at.
    guard: Arc<SnapshotGuard>,
    isolation: Isolation,
    mode: AccessMode,
    /// Whether writes are refused for now, though it has begun as one that writes.
    refuses_writes: bool,
    /// The session that runs it, and its last statement.
    origin: Option<Origin>,
    writes: WrittenTables,
    footprint: Vec<Footmark>,
    catalog_changes: Vec<CatalogChange>,
    loads: Loads,
    pending: PendingChecks,
    /// Where children of parents were found in this statement.
    child_lookups: ChildLookups,
    deferred: Deferred,
    /// What it did to brick tables; undone when it is dropped.
    bricks: BrickWrites,
    /// Row locks, if it took any.
    locks: Option<LockOwner<GlobalKey>>,
    lock_waits: LockWaits,
    /// Whose reservation it makes use of, or makes when it loses.
    priority: Option<u64>,
    reserved_reads: ReservedReads,
    /// The version at which the keys were looked at that are marked next.
    looked_at: Version,
    /// What a result of it must not be given out before.
    depends_on: Version,
    /// Whether its commit is acknowledged before it is durable.
    synchronous_commit: SynchronousCommit,
    /// How many statements have begun, if the caller reports them.
    statements: usize,
    restart_wanted: bool,
    /// Whether something was read elsewhere that goes with the snapshot.
    stays: AtomicBool,
    /// Whether the snapshot has moved since the first write.
    has_moved: bool,
    /// If its version names an age, with a load of a cluster: whether it has been handed in to be committed.
    named_age: Option<Arc<AtomicBool>>,
    /// The memory of its writes. Given back when it ends, which is after its commit.
    kept: KeptMemory,
}

/// A point to roll back to. Costs a few reference counts.
#[derive(Clone, Debug)]
pub struct Savepoint {
    world: Arc<World>,
    writes: WrittenTables,
    footprint: usize,
    catalog_changes: usize,
    loads: Loads,
    pending: PendingChecks,
    deferred: DeferredMark,
    bricks: usize,
    guard: Arc<SnapshotGuard>,
    snapshot: Version,
    moved_to: Option<Arc<World>>,
    locks: usize,
    kept: KeptMark,
}

impl Transaction {
    pub(crate) fn new(
        shared: Arc<Shared>,
        world: Arc<World>,
        guard: SnapshotGuard,
        isolation: Isolation,
        mode: AccessMode,
        id: TransactionId,
        serializing: Option<Serializing>,
    ) -> Self {
        Self {
            id,
            serializing: serializing.map(Box::new),
            snapshot: guard.version(),
            looked_at: guard.version(),
            depends_on: Version::ZERO,
            synchronous_commit: SynchronousCommit::default(),
            shared,
            world,
            world_before_changes: None,
            moved_to: None,
            guard: Arc::new(guard),
            isolation,
            mode,
            refuses_writes: false,
            origin: None,
            writes: WrittenTables::default(),
            footprint: Vec::new(),
            catalog_changes: Vec::new(),
            loads: Loads::default(),
            pending: PendingChecks::default(),
            child_lookups: ChildLookups::default(),
            deferred: Deferred::default(),
            bricks: BrickWrites::default(),
            locks: None,
            lock_waits: LockWaits::default(),
            priority: None,
            reserved_reads: ReservedReads::default(),
            statements: 0,
            restart_wanted: false,
            stays: AtomicBool::new(false),
            has_moved: false,
            named_age: None,
            kept: KeptMemory::default(),
        }
    }

    /// Its name in messages and views.
    #[must_use]
    pub fn id(&self) -> TransactionId {
        self.id
    }

    /// Notes who runs it and what, for messages of those that lose against it.
    #[inline]
    pub fn note_origin(&mut self, origin: Origin) {
        self.origin = Some(origin);
    }

    /// Gives it priority: if it loses, what it accessed is reserved for the next transaction that claims the same priority,
    /// until that commits or some seconds have passed. Others who change that meanwhile are refused, at any level. So
    /// one that accesses the same keys each time loses once at most.
    pub fn claim(&mut self, priority: &Priority) {
        self.priority = Some(priority.number());
    }

    /// If it has [priority](Self::claim), what it has read is reserved in those tables only of which this is so; else in all.
    pub fn reserve_reads_of(&mut self, is_reserved: impl Fn(&TableDef) -> bool + Send + Sync + 'static) {
        self.reserved_reads = ReservedReads::Of(Arc::new(is_reserved));
    }

    pub(crate) fn set_synchronous_commit(&mut self, level: SynchronousCommit) {
        self.synchronous_commit = level;
    }

    /// What its commit is going to wait for; see [`Store::set_synchronous_commit`](crate::Store::set_synchronous_commit).
    #[must_use]
    pub fn synchronous_commit(&self) -> SynchronousCommit {
        self.synchronous_commit
    }

    fn party(&self) -> Party {
        let is_declared_reader = self.mode == AccessMode::ReadOnly;
        Party { transaction: self.id, origin: self.origin, is_declared_reader }
    }

    /// Remembers that it has lost, if this is what the outcome says.
    fn note_loss<T>(&self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(StoreError::Conflict(conflict)) = &outcome {
            self.shared.conflicts.note(self.isolation, self.party(), conflict);
            // One that is refused at its commit has handed its footprint over, and keeps a copy itself.
            if let Some(priority) = self.priority.filter(|_| !self.footprint.is_empty()) {
                let reads = self.reads_so_far();
                let accessed = Accessed::new(&self.footprint, reads, &self.world, &self.reserved_reads);
                self.shared.pipeline.reserve(&self.shared, priority, self.id, accessed);
            }
        }
        outcome
    }

    /// The level it runs at.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Whether it is declared read-only now.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.has_begun_read_only() || self.refuses_writes
    }

    /// Whether it was declared read-only when it began, and so will never write.
    #[must_use]
    pub fn has_begun_read_only(&self) -> bool {
        self.mode == AccessMode::ReadOnly
    }

    /// Says whether it may write from now on. One that has begun read-only may not in any case; one that has not is certified as one that
    /// writes, whatever is said.
    pub fn declare(&mut self, mode: AccessMode) {
        self.refuses_writes = mode == AccessMode::ReadOnly;
    }

    /// The version of its snapshot.
    #[must_use]
    pub fn begin_version(&self) -> Version {
        self.snapshot
    }

    /// The world it reads, own changes of definitions included, own rows not.
    #[must_use]
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The world it reads, with the definitions as they were before its own changes of them.
    #[must_use]
    pub fn world_before_changes(&self) -> &Arc<World> {
        match &self.world_before_changes {
            Some(world) if !self.catalog_changes.is_empty() => world,
            _ => &self.world,
        }
    }

    /// Whether a table is there or may come to be: in the world it reads, in that before its own changes, or in a commit that nobody sees
    /// yet, such as one that ended with [`StoreError::NotReplicated`]. If not, it is gone for good or was never committed.
    #[must_use]
    pub fn may_have_table(&self, table: SpaceId) -> bool {
        let newest = self.shared.applied();
        [self.world(), self.world_before_changes(), &newest].iter().any(|world| world.table(table).is_some())
    }

    /// What was read elsewhere goes with its snapshot: that moves to no other one from now on, at READ COMMITTED neither, and
    /// a statement that would have to move is a conflict.
    pub fn stay(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Whether it has changed anything so far.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        !(self.writes.is_empty()
            && self.catalog_changes.is_empty()
            && self.loads.is_empty()
            && self.bricks.is_empty())
    }

    /// Whether it makes, changes or drops a table whose rows are spread over a cluster, or is one with a load into such tables.
    pub(crate) fn changes_spread_tables(&self) -> bool {
        let changes_definitions = self.catalog_changes.iter().any(|change| match change {
            CatalogChange::PutTable(def) => def.is_spread(),
            CatalogChange::RemoveTable(id) => {
                let before = self.world_before_changes.as_ref();
                before.and_then(|before| before.table(*id)).is_some_and(|table| table.def().is_spread())
            }
            _ => false,
        });
        self.named_age.is_some() || changes_definitions
    }

    /// How much it has to do at its end: the rows and definitions that it has changed.
    #[must_use]
    pub fn change_count(&self) -> usize {
        let rows: usize = self.writes.iter().map(|writes| writes.rows.len()).sum();
        rows + self.catalog_changes.len() + self.loads.len()
    }

    /// Names, views, sequences and schemas as it sees them.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        self.world.catalog()
    }

    /// The table with this number as it sees it.
    ///
    /// # Errors
    /// [`StoreError::UnknownSpace`] if there is none.
    #[inline]
    pub fn table(&self, id: SpaceId) -> Result<&Arc<Table>, StoreError> {
        let table = self.world.table(id).ok_or(StoreError::UnknownSpace(id))?;
        table.check_undamaged()?;
        Ok(table)
    }

    /// The definition of the table with this number.
    ///
    /// # Errors
    /// [`StoreError::UnknownSpace`] if there is none.
    pub fn table_def(&self, id: SpaceId) -> Result<&Arc<TableDef>, StoreError> {
        self.world.table(id).map(|table| table.def()).ok_or(StoreError::UnknownSpace(id))
    }

    /// The definition of the table of this name.
    #[must_use]
    pub fn resolve_table(&self, name: &QualifiedName) -> Option<Arc<TableDef>> {
        self.world.table_named(name).map(|table| Arc::clone(table.def()))
    }

    #[inline]
    pub(crate) fn writes_of(&self, id: SpaceId) -> Option<&TableWrites> {
        self.writes.get(id)
    }

    /// The row with this key, own writes included.
    ///
    /// # Errors
    /// [`StoreError::UnknownSpace`] if there is no such table; [`StoreError::Corrupt`] if the file that would
    /// hold the row is damaged there.
    #[inline]
    pub fn get(&self, table: SpaceId, key: &Key) -> Result<Option<RowRef<'_>>, StoreError> {
        let table_now = self.row_table(table)?;
        self.note_key(table, key);
        Ok(self.find(table_now, key)?.map(|found| table_now.row_ref(found)))
    }

    #[inline]
    fn find<'a>(&'a self, table: &'a Table, key: &Key) -> Result<Option<Found<'a>>, StoreError> {
        if let Some(writes) = self.writes_of(table.id())
            && let Some(entry) = writes.rows.get(key)
        {
            return Ok(entry.is_present().then(|| Found::Delta(entry.row())));
        }
        table.rows().find(key)
    }

    /// Walks the rows of a range of primary keys, own writes included.
    ///
    /// # Errors
    /// [`StoreError::UnknownSpace`] if there is no such table.
    pub fn scan(
        &self,
        table: SpaceId,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<RowCursor<'_>, StoreError> {
        let table = self.row_table(table)?;
        let private = self.writes_of(table.id()).map(|writes| &writes.rows);
        let walked = self.walked(table.id(), table.id(), range, direction);
        Ok(RowCursor { table, cursor: SpaceCursor::new(table.rows(), private, range, direction), walked })
    }

    /// Walks the entries of a range of an index, own writes included.
    ///
    /// # Errors
    /// [`StoreError::UnknownSpace`] if there is no such table or index.
    pub fn scan_index(
        &self,
        table: SpaceId,
        index: SpaceId,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<IndexCursor<'_>, StoreError> {
        let table = self.row_table(table)?;
        let position = index_position(table.def(), index)?;
        self.shared.index_uses.note(index);
        let private = self.writes_of(table.id()).map(|writes| &writes.indexes[position]);
        let cursor = SpaceCursor::new(&table.indexes()[position], private, range, direction);
        let walked = self.walked(table.id(), index, range, direction);
        Ok(IndexCursor { def: table.def(), position, cursor, walked })
    }

    /// A view of the whole table as this transaction sees it now, own writes included; it stays as it is
    /// whatever the transaction does next.
    ///
    /// # Errors
    /// [`StoreError::UnknownSpace`] if there is no such table; [`StoreError::Conflict`] if own writes contradict
    /// what others committed since.
    pub fn view(&self, table: SpaceId) -> Result<TableView, StoreError> {
        self.note_table(table);
        self.view_of(table)
    }

    fn view_of(&self, table: SpaceId) -> Result<TableView, StoreError> {
        let table = self.row_table(table)?;
        self.check_writes_of(table)?;
        Ok(match self.writes_of(table.id()) {
            None => TableView::new(Arc::clone(table)),
            Some(writes) => TableView::new(Arc::new(table.overlaid(writes))),
        })
    }

    /// A point to come back to.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            world: Arc::clone(&self.world),
            writes: self.writes.clone(),
            footprint: self.footprint.len(),
            catalog_changes: self.catalog_changes.len(),
            loads: Arc::clone(&self.loads),
            pending: self.pending.clone(),
            deferred: self.deferred.mark(),
            bricks: self.bricks.savepoint(),
            guard: Arc::clone(&self.guard),
            snapshot: self.snapshot,
            moved_to: self.moved_to.clone(),
            locks: self.locks.as_ref().map_or(0, LockOwner::granted_count),
            kept: self.kept.mark(),
        }
    }

    /// Undoes everything since the savepoint, which stays valid; row locks taken since end.
    ///
    /// # Panics
    /// If the transaction was rolled back behind the savepoint before.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) {
        assert!(savepoint.footprint <= self.footprint.len(), "a savepoint dies with the ones before it");
        self.note_undone(savepoint.footprint);
        self.writes.clone_from(&savepoint.writes);
        self.footprint.truncate(savepoint.footprint);
        self.catalog_changes.truncate(savepoint.catalog_changes);
        self.loads = Arc::clone(&savepoint.loads);
        self.pending.clone_from(&savepoint.pending);
        self.child_lookups.clear();
        self.kept.go_back_to(savepoint.kept);
        self.deferred.go_back_to(&savepoint.deferred);
        self.bricks.undo(savepoint.bricks);
        self.go_back_to_snapshot(savepoint);
        if let Some(locks) = &mut self.locks {
            locks.release_after(savepoint.locks);
        }
    }

    fn go_back_to_snapshot(&mut self, savepoint: &Savepoint) {
        // At READ COMMITTED the next statement moves on by itself, unless the transaction has to stay.
        let stays = !self.takes_locks() || self.has_to_stay();
        match &self.moved_to {
            // It stays where it has moved, since what was read there may have been shown; no definition was changed before
            // the savepoint, else it could not have moved.
            Some(world) if stays && savepoint.snapshot < self.snapshot => {
                self.world = Arc::clone(world);
                self.writes.forget_positions();
            }
            _ => {
                self.world = Arc::clone(&savepoint.world);
                self.guard = Arc::clone(&savepoint.guard);
                self.snapshot = savepoint.snapshot;
                self.moved_to.clone_from(&savepoint.moved_to);
            }
        }
        self.looked_at = self.snapshot;
    }

    /// Rolls back. The same as dropping it.
    pub fn rollback(self) {}

    /// Commits: certified, logged, published, acknowledged; visible to every transaction that begins
    /// afterwards, and durable as the store's durability says.
    ///
    /// # Errors
    /// - [`StoreError::Constraint`]: a check that waited for the end failed;
    /// - [`StoreError::Conflict`]: another transaction was first; run this one again;
    /// - [`StoreError::RowLock`]: so was one with priority, and the wait for it was cut short as [`LockWaits`] says;
    /// - [`StoreError::Log`] with [`LogError::NoRoom`](crate::log::LogError::NoRoom), [`StoreError::Stopped`],
    ///   [`StoreError::File`]: the log takes no record; nothing was done.
    /// - [`StoreError::OutcomeUnknown`]: the log failed under this commit.
    ///
    /// After a constraint, conflict or lock error nothing of the transaction took effect. After a failed write or
    /// sync of the log nothing of it is visible, and whether it is found after the next open is unknown, as
    /// after a crash.
    pub fn commit(self) -> Result<Committed, StoreError> {
        let shared = Arc::clone(&self.shared);
        let committed = self.commit_applied()?;
        let acknowledged = shared.wait_for(committed.version, Until::Acknowledged, None);
        acknowledged.map_err(StoreError::under_commit)?;
        Ok(committed)
    }

    /// As [`commit`](Self::commit), without the wait for the log: certified, applied and logged. Nobody may be told of
    /// it before its version is published ([`Store::publication`](crate::Store::publication)); until then, sessions do
    /// not see it.
    ///
    /// # Errors
    /// As [`commit`](Self::commit), but for what the wait says.
    pub fn commit_applied(self) -> Result<Committed, StoreError> {
        self.commit_unless_refused().map_err(|refused| refused.waited())
    }

    /// As [`commit_applied`](Self::commit_applied), but one that is refused because it met a reservation does not wait for that:
    /// for whoever lets go first of what others need meanwhile.
    ///
    /// # Errors
    /// As [`commit`](Self::commit), within what is [to be waited for](Refused::waited).
    pub fn commit_unless_refused(mut self) -> Result<Committed, Box<Refused>> {
        self.end_statement()?;
        self.check_deferred()?;
        let certification =
            self.serializing.as_ref().map(|serializing| serializing.certification(self.snapshot));
        if !self.has_writes() {
            if let Some(certification) = &certification {
                self.note_loss(self.shared.certify_reader(self.party(), certification))?;
            }
            return Ok(Committed { version: self.begin_version(), order: None });
        }
        self.claim_tables_of_new_unique_indexes();
        let shared = Arc::clone(&self.shared);
        let loads = Arc::unwrap_or_clone(std::mem::take(&mut self.loads));
        let loads: Vec<BulkLoad> = loads.into_iter().map(Arc::unwrap_or_clone).collect();
        let bricks = self.bricks.changes(&self.world)?;
        let written = WriteSet::new(
            &self.world,
            self.writes.iter(),
            &self.catalog_changes,
            &loads,
            &self.footprint,
            &bricks,
        );
        let accessed = self.priority.map(|priority| {
            let reads = certification.as_ref().map(|certification| certification.reads.clone());
            let reads = reads.unwrap_or_default();
            (priority, Accessed::new(&self.footprint, reads, &self.world, &self.reserved_reads))
        });
        let submission = Submission {
            transaction: self.id,
            priority: self.priority,
            party: self.party(),
            written: Arc::new(written),
            certification,
            begin: self.guard.version(),
            snapshot_version: self.snapshot,
            large_footprint: large_footprint(&self.footprint, shared.sizes.large_footprint_min),
            footprint: std::mem::take(&mut self.footprint),
            writes: std::mem::take(&mut self.writes).into_vec(),
            catalog_changes: std::mem::take(&mut self.catalog_changes),
            loads,
            bricks,
            names_age: self.named_age.is_some(),
            snapshot: Arc::clone(&self.world),
            rebuilt: Vec::new(),
            synchronous_commit: self.synchronous_commit,
            body: Vec::new(),
            body_checksum: None,
        };
        // From here on its registration lasts as long as the submission's: until it is published, not until somebody has
        // woken up to hear of it.
        self.serializing = None;
        if let Some(is_handed_in) = &self.named_age {
            is_handed_in.store(true, Ordering::SeqCst);
        }
        // The snapshot stays registered until the verdict is there, and locks last until then.
        let verdict = shared.commit(submission, self.locks.take());
        let verdict = verdict.map(|order| Committed { version: order.version, order: Some(order) });
        match &verdict {
            Ok(_) => self.bricks.note_committed(),
            // Its registration has ended without a publication.
            Err(_) => shared.keep_up_safe(),
        }
        let (verdict, id) = (self.note_loss(verdict), self.id);
        let waits = std::mem::take(&mut self.lock_waits);
        drop(self);
        settle_priority(shared, id, accessed, verdict, waits)
    }

    /// Notes that the transaction relies on a table's definition.
    fn reference_definition(&mut self, table: SpaceId) {
        self.mark(definition_key(table), Access::Reference);
    }

    /// Notes an access of a definition or a name, which was looked at in the snapshot.
    fn mark(&mut self, key: GlobalKey, access: Access) {
        self.footprint.push(Footmark { key, certify: access, admit: access, begin: self.snapshot });
    }

    /// Notes an access of a row or of a unique key.
    fn mark_row(&mut self, key: GlobalKey, access: Access) {
        self.footprint.push(Footmark { key, certify: access, admit: access, begin: self.looked_at });
    }

    fn writable(&self, what: &'static str) -> Result<(), StoreError> {
        self.shared.check_writable(what)?;
        match self.mode {
            AccessMode::ReadWrite if !self.refuses_writes => Ok(()),
            AccessMode::ReadWrite | AccessMode::ReadOnly | AccessMode::Query => {
                Err(StoreError::ReadOnly(what))
            }
        }
    }

    /// The private writes to a table, made at its first one.
    fn writes_mut(&mut self, table: &Table) -> &mut TableWrites {
        let id = table.id();
        if let Some(place) = self.writes.place(id) {
            return self.writes.at(place);
        }
        self.reference_definition(id);
        let place = self.writes.push(TableWrites {
            table: id,
            rows: Delta::default(),
            indexes: vec![Delta::default(); table.indexes().len()],
        });
        self.writes.at(place)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.serializing.take().is_some() {
            self.shared.keep_up_safe();
        }
    }
}

pub(crate) fn index_position(def: &TableDef, index: SpaceId) -> Result<usize, StoreError> {
    def.indexes.iter().position(|candidate| candidate.id == index).ok_or(StoreError::UnknownSpace(index))
}

/// Rows in key order; ends behind an error, which is [`StoreError::Corrupt`].
pub struct RowCursor<'a> {
    table: &'a Table,
    cursor: SpaceCursor<'a>,
    walked: Option<Walked<'a>>,
}

impl<'a> Iterator for RowCursor<'a> {
    type Item = Result<(Key, RowRef<'a>), StoreError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let next = self.cursor.next();
        if let Some(walked) = &mut self.walked {
            walked.came_to(next.as_ref().and_then(|found| found.as_ref().ok()).map(|(key, _)| key));
        }
        Some(next?.map(|(key, found)| (key, self.table.row_ref(found))))
    }
}

/// Index entries in order; ends behind an error, which is [`StoreError::Corrupt`].
pub struct IndexCursor<'a> {
    def: &'a TableDef,
    position: usize,
    cursor: SpaceCursor<'a>,
    walked: Option<Walked<'a>>,
}

impl Iterator for IndexCursor<'_> {
    type Item = Result<IndexEntry, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry_of = |key: Key| {
            let start = primary_key_start(self.def, &self.def.indexes[self.position], key.as_slice());
            let primary_key = Key::from_slice(&key.as_slice()[start..]);
            IndexEntry { key, primary_key }
        };
        let next = self.cursor.next();
        if let Some(walked) = &mut self.walked {
            walked.came_to(next.as_ref().and_then(|found| found.as_ref().ok()).map(|(key, _)| key));
        }
        Some(next?.map(|(key, _)| entry_of(key)))
    }
}
