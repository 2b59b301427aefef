// SPDX-License-Identifier: Apache-2.0
//! Opening a database, sessions, and transactions that are run again until they commit.

use crate::append::AppendOptions;
use crate::error::Error;
use crate::session::Session;
use crate::table::Table;
use crate::transaction::Transaction;
use arrow::array::RecordBatch;
use coeval_sql::{
    Engine, QueryMemory, SqlError, SqlState, TransactionsShare, begin_with_kept_settings, is_name_of_files,
};
use coeval_store::files::DiskFiles;
use coeval_store::log::Lsn;
use coeval_store::{
    AccessMode, CheckpointPolicy, CheckpointReport, DEFAULT_SCHEMA, DamagedTables, Durability, Follower,
    FormerPrimary, Ingested, Priority, Promise, QualifiedName, RepairReport, Rewound, SafeLogging, ScanOrder,
    Store, StoreOptions, TableDamage, Timeline, VerifyReport, World, demote, go_on_rewinding, is_replica,
    promote, repair, rewind, superseded, verify,
};
use coeval_txn::Isolation;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// An open database. Clones share it; the last handle to go closes it.
#[derive(Clone)]
pub struct Database {
    store: Store,
    engine: Arc<Engine>,
}

/// How to open a database.
#[derive(Clone, Copy, Debug, Default)]
pub struct DatabaseOptions {
    store: StoreOptions,
    query_memory: Option<usize>,
    give_back: Option<fn()>,
    transactions_share: TransactionsShare,
}

/// Where queries spill, in a database's directory; there while something is spilled.
const SPILL_DIRECTORY: &str = "spill";

/// The path from the root on. Files are opened as long as the database is, and the program may go to another directory meanwhile.
/// Where it is now is not known if that was removed, and then nothing can be opened by a name without it either.
fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// `42809` for a file, which is no directory of a database; of one that a query reads it says so.
fn refuse_file(path: &Path) -> Result<(), Error> {
    if !path.is_file() {
        return Ok(());
    }
    let name = path.display().to_string();
    let advice = if is_name_of_files(&name) {
        format!("SELECT * FROM '{}' reads it, in a database in memory for one", name.replace('\'', "''"))
    } else {
        "name a new or an empty directory, or one that has a database".to_owned()
    };
    let message = format!("\"{name}\" is a file, and a database is a directory: {advice}");
    Err(SqlError::new(SqlState::WrongObjectType, message).into())
}

impl DatabaseOptions {
    /// What an acknowledged commit survives. [`Durability::Fsync`] unless said otherwise.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.store.durability = durability;
        self
    }

    /// When changed rows are merged into the columnar base. Automatic unless said otherwise.
    #[must_use]
    pub fn checkpoint(mut self, policy: CheckpointPolicy) -> Self {
        self.store.checkpoint = policy;
        self
    }

    /// What is done about tables that cannot be read. The database does not open unless said otherwise.
    #[must_use]
    pub fn damaged(mut self, damaged: DamagedTables) -> Self {
        self.store.damaged = damaged;
        self
    }

    /// Bytes that all queries together may have for sorting, grouping and joining, 16 MiB at least. Half of
    /// the machine's memory unless said otherwise. What needs more goes to the directory `spill` of the database, or the system's for
    /// temporary files if it lives in memory; a query that cannot do that fails with 53200.
    #[must_use]
    pub fn query_memory(mut self, bytes: usize) -> Self {
        self.query_memory = Some(bytes);
        self
    }

    /// How much of a processor goes to a thread with transactions beside one that works for queries, in percent, where both want it:
    /// 5 to 95, and 50 unless said otherwise. The queries' threads get another nice value for it, so whoever has work takes all that
    /// the other side leaves. It is known on Linux alone, and less than 50 needs the right to raise priorities: elsewhere, and without
    /// that, the database does not open.
    #[must_use]
    pub fn transactions_share(mut self, percent: u8) -> Self {
        self.transactions_share = TransactionsShare::of_percent(percent);
        self
    }

    /// A function that makes the program's allocator give the system back what it keeps for later. It is called before a
    /// query is refused memory (53200) because the process is near the limit of the machine or of its control group, and
    /// behind large queries. Without it such a query is refused sooner.
    #[must_use]
    pub fn give_back_memory(mut self, give_back: fn()) -> Self {
        self.give_back = Some(give_back);
        self
    }

    /// Bytes of tables that were read from files and stay in memory for the next one who reads them; a third of the machine's
    /// memory unless said otherwise. What has no room is read again when it is needed. Transactions that read row by row
    /// keep what they have read until they end, also beyond it.
    #[must_use]
    pub fn data_memory(mut self, bytes: u64) -> Self {
        self.store.data_memory = Some(bytes);
        self
    }

    /// Bytes of log that stay behind each checkpoint, with the files of bulk loads that this log names, whoever is connected: for
    /// replicas that come to follow this database and lack some of it. None unless said otherwise. `SET wal_keep_size` changes
    /// it while the database is open.
    #[must_use]
    pub fn log_keep_bytes(mut self, bytes: u64) -> Self {
        self.store.log_keep_bytes = bytes;
        self
    }

    /// Whether replicas are told what they make safe snapshots of. They are unless said otherwise, which only a benchmark
    /// does that asks what it costs.
    #[doc(hidden)]
    #[must_use]
    pub fn safe_logging(mut self, logging: SafeLogging) -> Self {
        self.store.safe_logging = logging;
        self
    }

    /// Opens the database in this directory, which is made if it is not there. The program may change its working directory
    /// later.
    ///
    /// # Errors
    /// If another process has it open (the error names it), a file is damaged (which one, where), the directory cannot be
    /// written, or is a file (the error says how to read one). The files are as before.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Database, Error> {
        let path = whole(path.as_ref());
        refuse_file(&path)?;
        let store = Store::open(&path, self.store)?;
        let memory = self.memory_of_queries(Some(path.join(SPILL_DIRECTORY)));
        Database::with_share(store, &memory, self.transactions_share)
    }

    /// Opens the copy of another database in this directory, to follow that one's log. It can be read at once; what the
    /// [`Follower`] takes is seen as it comes. All transactions only read; those at SERIALIZABLE read safe snapshots.
    ///
    /// # Errors
    /// As [`open`](Self::open); if the directory has no copy of a database, or one that is not complete.
    #[doc(hidden)]
    pub fn open_replica(self, path: impl AsRef<Path>) -> Result<(Database, Follower), Error> {
        let path = whole(path.as_ref());
        let (store, follower) = Store::open_follower(Arc::new(DiskFiles), &path, self.store)?;
        let memory = self.memory_of_queries(Some(path.join(SPILL_DIRECTORY)));
        Ok((Database::with_share(store, &memory, self.transactions_share)?, follower))
    }

    /// A new database that lives in memory alone.
    ///
    /// # Errors
    /// If no threads can be started.
    pub fn in_memory(self) -> Result<Database, Error> {
        let store = Store::in_memory(self.store);
        Database::with_share(store, &self.memory_of_queries(None), self.transactions_share)
    }

    fn memory_of_queries(self, spill_directory: Option<PathBuf>) -> QueryMemory {
        QueryMemory { bytes: self.query_memory, spill_directory, give_back: self.give_back }
    }
}

impl Database {
    /// Opens the database in this directory with default options; see [`DatabaseOptions::open`].
    ///
    /// # Errors
    /// As [`DatabaseOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::options().open(path)
    }

    /// A new database that lives in memory alone.
    ///
    /// # Errors
    /// If no threads can be started.
    pub fn in_memory() -> Result<Self, Error> {
        Self::options().in_memory()
    }

    /// Options to open with.
    #[must_use]
    pub fn options() -> DatabaseOptions {
        DatabaseOptions::default()
    }

    /// A database on a store that was opened by other means, such as another file layer.
    ///
    /// # Errors
    /// If no threads can be started.
    pub fn with_store(store: Store) -> Result<Self, Error> {
        Self::with_share(store, &QueryMemory::default(), TransactionsShare::default())
    }

    fn with_share(store: Store, memory: &QueryMemory, share: TransactionsShare) -> Result<Self, Error> {
        let engine = Engine::with_share(store.clone(), memory, share)?;
        Ok(Self { store, engine })
    }

    /// Checks the database in a directory that nobody has open, without changing it: checksums, keys, trees,
    /// indexes, constraints.
    ///
    /// # Errors
    /// If a process has the directory open (the error names it) or a file cannot be read. Damage is no error:
    /// it is in the report.
    pub fn check(path: impl AsRef<Path>) -> Result<VerifyReport, Error> {
        let engine = Engine::new(Store::in_memory(StoreOptions::default()))?;
        Ok(verify(Arc::new(DiskFiles), path.as_ref(), Some(engine.check_compiler()))?)
    }

    /// Mends the database in a directory that nobody has open: indexes and statistics are made anew, what else is damaged is
    /// left out, and said to be lost. Files with damage stay, under other names.
    ///
    /// # Errors
    /// If a process has the directory open, a file cannot be read or written, or the manifest or the log is damaged; the
    /// database is as it was then.
    pub fn repair(path: impl AsRef<Path>) -> Result<RepairReport, Error> {
        Ok(repair(Arc::new(DiskFiles), path.as_ref())?)
    }

    /// Makes the replica in a directory that nobody has open a database of its own: it has what the replica has taken. Its
    /// next opening begins the promised timeline, whose history is told from the former primary's. Whoever asks for promises
    /// ([`Store::promise`]) knows whether that is all that was acknowledged.
    ///
    /// # Errors
    /// If it is no replica, a process has it open, or it has promised the timeline, or a higher one, to another; it is as before
    /// then.
    pub fn promote(path: impl AsRef<Path>, promise: Promise) -> Result<(), Error> {
        Ok(promote(&DiskFiles, path.as_ref(), promise)?)
    }

    /// Whether the directory is a replica's, which [`DatabaseOptions::open_replica`] opens.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn is_replica(path: impl AsRef<Path>) -> Result<bool, Error> {
        Ok(is_replica(&DiskFiles, path.as_ref())?)
    }

    /// Makes the database in a directory that nobody has open a replica: the way back of a former primary whose log is the
    /// beginning of the new one's.
    ///
    /// # Errors
    /// If there is no database, or a process has it open; it is as before then.
    pub fn demote(path: impl AsRef<Path>) -> Result<(), Error> {
        Ok(demote(&DiskFiles, path.as_ref())?)
    }

    /// The timeline that the primary in a directory, which nobody has open, has promised to another machine, if it takes no commits
    /// because of that.
    ///
    /// # Errors
    /// If there is no database, a process has it open, or manifest, log or promise are damaged.
    #[doc(hidden)]
    pub fn superseded(path: impl AsRef<Path>) -> Result<Option<Timeline>, Error> {
        Ok(superseded(&DiskFiles, path.as_ref())?)
    }

    /// What a former primary's directory, which nobody has open, has of the log. Nothing is changed.
    ///
    /// # Errors
    /// If there is no database, a process has it open, or manifest or log are damaged.
    #[doc(hidden)]
    pub fn former_primary(path: impl AsRef<Path>) -> Result<FormerPrimary, Error> {
        Ok(FormerPrimary::look(&DiskFiles, path.as_ref())?)
    }

    /// Cuts the log of a former primary's directory, which nobody has open, back to where it parts from that of the new one, which is
    /// in this timeline, and makes it a replica. What lies behind that place is put aside, and said. Durable on return.
    ///
    /// # Errors
    /// If a checkpoint has passed the place, or a file cannot be read or written. The directory has all that it had then, or
    /// [is gone on with](Self::go_on_rewinding).
    #[doc(hidden)]
    pub fn rewind(path: impl AsRef<Path>, place: Lsn, timeline: Timeline) -> Result<Rewound, Error> {
        Ok(rewind(&DiskFiles, path.as_ref(), place, timeline)?)
    }

    /// Goes on with [`rewind`](Self::rewind) if that did not end in this directory.
    ///
    /// # Errors
    /// If a file cannot be read or written. It is to be gone on with again then.
    #[doc(hidden)]
    pub fn go_on_rewinding(path: impl AsRef<Path>) -> Result<Option<Rewound>, Error> {
        Ok(go_on_rewinding(&DiskFiles, path.as_ref())?)
    }

    /// The tables that cannot be read, and why, in a database that was opened
    /// [without them](DamagedTables::ServeOthersReadOnly).
    #[must_use]
    pub fn damaged_tables(&self) -> Vec<(QualifiedName, TableDamage)> {
        self.store.damaged_tables()
    }

    /// A new session for SQL. It may do everything, and begins with the settings that are kept for sessions of all roles by `ALTER ROLE ALL
    /// SET` and `ALTER DATABASE ... SET`; what it cannot be given of these is left out with a [notice](Session::take_notices).
    #[must_use]
    pub fn session(&self) -> Session {
        let mut session = self.engine.session();
        // No setting that is kept waits for anything.
        begin_with_kept_settings(&mut session, Instant::now());
        Session::new(session)
    }

    /// A handle on the table of this name (`name` or `schema.name`, as stored: lower case unless it was
    /// quoted).
    ///
    /// # Errors
    /// [`Error::UnknownTable`]; that of another engine's table, whose rows are not here.
    pub fn table(&self, name: &str) -> Result<Table, Error> {
        let (schema, table) = name.split_once('.').unwrap_or((DEFAULT_SCHEMA, name));
        let world = self.store.world();
        let table = world.table_named(&QualifiedName::new(schema, table));
        table
            .filter(|table| table.def().foreign.is_none())
            .map(|table| Table::new(Arc::clone(table.def())))
            .ok_or_else(|| Error::UnknownTable(name.to_owned()))
    }

    /// Runs a transaction and gives out its result once the commit is acknowledged: visible to everyone who
    /// begins afterwards, durable as the options say.
    ///
    /// If another transaction was first the closure runs again, on a newer snapshot, until it commits: what it
    /// does besides reading and writing through `tx` must bear that. An error of the closure rolls back.
    /// Each run starts from the newest applied world, which is why nothing it read may be given out before.
    ///
    /// # Errors
    /// What the closure returns; [`Error::Store`] if a
    /// constraint that is checked at commit fails or the log cannot be written. In each case nothing took effect
    /// (after a failed log, whether it did is known at the next open).
    pub fn transaction<T, E: From<Error>>(
        &self,
        isolation: Isolation,
        run: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.until_committed(isolation, None, run)
    }

    /// As [`transaction`](Self::transaction), with priority: when it has lost once, what it accessed is reserved for its
    /// next run, and others that change that meanwhile are refused. So it runs twice at most if it accesses the same keys
    /// again: for long transactions among short ones, which would lose for ever. The others pay with waiting.
    ///
    /// # Errors
    /// As [`transaction`](Self::transaction).
    pub fn transaction_with_priority<T, E: From<Error>>(
        &self,
        isolation: Isolation,
        run: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.until_committed(isolation, Some(&self.store.priority()), run)
    }

    fn until_committed<T, E: From<Error>>(
        &self,
        isolation: Isolation,
        priority: Option<&Priority>,
        mut run: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            let mut transaction = self.store.begin_applied(isolation);
            priority.into_iter().for_each(|priority| transaction.claim(priority));
            let mut transaction = Transaction::new(transaction);
            let value = run(&mut transaction)?;
            match transaction.commit() {
                Ok(()) => return Ok(value),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Runs a closure over one snapshot, without writes. Never waits, never fails for others' sake.
    ///
    /// # Errors
    /// What the closure returns.
    pub fn read<T, E>(&self, run: impl FnOnce(&Transaction) -> Result<T, E>) -> Result<T, E> {
        run(&Transaction::new(self.store.begin(Isolation::Snapshot, AccessMode::ReadOnly)))
    }

    /// Adds all rows of the batches, which hold every column of the table's definition in its order and Arrow
    /// types, in one transaction. Sorts once and builds chunks directly where the key range is free.
    ///
    /// # Errors
    /// [`Error::UnknownTable`]; [`Error::Store`] if a batch has other columns or a constraint refuses a row.
    /// Nothing is added then.
    pub fn bulk_insert(&self, table: &str, batches: &[RecordBatch]) -> Result<u64, Error> {
        let table = self.table(table)?;
        let mut transaction = self.store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        let rows = transaction.bulk_insert(table.id(), batches)?;
        transaction.commit()?;
        Ok(rows)
    }

    /// Appends a batch, whose columns are the table's in their order and Arrow types (of text, any of Arrow's), to a
    /// brick table. Validated and routed on this thread, then flushed by the shards' threads; it waits while their
    /// queues are full. Visible to everyone who begins after this returns, durable as the options say. Any number of
    /// threads may append at once: they never conflict. Returns how many rows there were.
    ///
    /// # Errors
    /// [`Error::UnknownTable`]; [`Error::Store`] if it is no brick table, a column is of another type or a row is
    /// none of the table. Nothing is appended then.
    pub fn append(&self, table: &str, batch: &RecordBatch) -> Result<u64, Error> {
        let outcome = self.append_with(table, std::slice::from_ref(batch), &AppendOptions::default())?;
        match outcome {
            Ingested::Appended(appended) => Ok(appended.rows),
            Ingested::Repeated => Ok(0),
        }
    }

    /// Appends batches as one load, as [`append`](Self::append) does: without some bad rows, or with the offset of the
    /// source that they come from.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn append_with(
        &self,
        table: &str,
        batches: &[RecordBatch],
        options: &AppendOptions,
    ) -> Result<Ingested, Error> {
        let table = self.table(table)?;
        Ok(self.store.ingest(table.id(), batches, options.rejected_max, options.source.as_ref())?)
    }

    /// The rows that an order reads, as Arrow batches, brick by brick; strings are dictionaries. They are those of the
    /// snapshot that the order was made with, whatever was loaded or deleted since.
    ///
    /// ```
    /// use coeval::{Database, ScanOrder};
    ///
    /// # fn main() -> Result<(), coeval::Error> {
    /// let db = Database::in_memory()?;
    /// db.session().execute(
    ///     "CREATE TABLE events (day int, amount bigint) USING brick PARTITION BY (day CARDINALITY 100 RANGE SIZE 10);
    ///      INSERT INTO events SELECT g % 100, g FROM generate_series(1, 1000) g",
    /// )?;
    /// let events = db.table("events")?;
    /// let rows = db.read(|transaction| {
    ///     let order = transaction.scan_order(&events, &["amount"])?.expect("it has written nothing");
    ///     let parts: Vec<Vec<u8>> = order.divided(4).iter().map(ScanOrder::to_bytes).collect();
    ///     db.session().execute("DELETE FROM events")?;
    ///     let mut rows = 0;
    ///     for part in parts {
    ///         let batches = db.ordered_scan(&ScanOrder::from_bytes(&part)?)?;
    ///         rows += batches.map(|batch| batch.num_rows()).sum::<usize>();
    ///     }
    ///     Ok::<_, coeval::Error>(rows)
    /// })?;
    /// assert_eq!(rows, 1000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Store`], saying why, if the table or a column is gone, the snapshot is no longer there, or the order is of
    /// another database.
    pub fn ordered_scan(
        &self,
        order: &ScanOrder,
    ) -> Result<impl Iterator<Item = RecordBatch> + use<>, Error> {
        let (snapshot, projection) = self.store.ordered_scan(order)?;
        let bricks = snapshot.bricks().to_vec();
        Ok(bricks.into_iter().flat_map(move |brick| snapshot.batches(&brick, &projection)))
    }

    /// The last offset that `source` has appended to a brick table with; none before its first load. It goes on
    /// behind that, whatever happened to whom.
    ///
    /// # Errors
    /// [`Error::UnknownTable`]; [`Error::Store`] if offsets cannot be read.
    pub fn source_offset(&self, table: &str, source: &str) -> Result<Option<i64>, Error> {
        let table = self.table(table)?;
        let transaction = self.store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
        let offsets = transaction.ingest_offsets()?;
        let mut of_source =
            offsets.iter().filter(|offset| offset.table == table.id() && offset.source == source);
        Ok(of_source.next().map(|offset| offset.offset))
    }

    /// Merges all changed rows into the columnar base and, with a directory, makes the log short. Readers and
    /// writers go on.
    ///
    /// # Errors
    /// If files cannot be written; everything is as before then.
    pub fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        Ok(self.store.checkpoint()?)
    }

    /// The newest world: versions, tables, sizes.
    #[must_use]
    pub fn world(&self) -> Arc<World> {
        self.store.world()
    }

    /// The SQL engine below, for servers: its sessions run statements for clients at a distance.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The store below, for tools.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }
}
