// SPDX-License-Identifier: Apache-2.0
//! A transaction's part on the cluster over whose nodes brick tables are spread: what it sees there, and what it changes.
//!
//! | a transaction | READ COMMITTED, REPEATABLE READ | SERIALIZABLE |
//! |---|---|---|
//! | reads spread tables | one snapshot for a statement, or for all | one for all |
//! | reads them, and writes rows | yes | 0A000 |
//! | loads, and has read rows | yes | on the primary, in a cluster with ages; else 0A000 |
//! | loads, and has read spread tables before | yes | 0A000 |
//! | loads, and writes rows | on the primary, in a cluster with ages; else 0A000 | the same |
//! | loads or deletes, then reads spread tables | 0A000 | 0A000 |
//! | deletes whole bricks | alone, outside blocks | the same |
//!
//! **Loads end with COMMIT.** A block whose only changes are loads commits them all at once, or none: a load is one transaction of
//! the cluster, of however many tables. Nothing of it can be taken back alone, so there are no savepoints beside it. Who loads does not see it
//! before the end.
//!
//! **Rows and loads are one transaction** where rows name ages, on the primary ([`name_load`], [`SpreadPart::commit`]): all holders log the load, then
//! the rows are committed in a version whose age has it, and what becomes of them becomes of it. The proof is in `coeval-txn`'s
//! `epochs/cluster/README.md`, "A transaction with rows and bricks". Elsewhere they have two commits, of which one could fail behind the other:
//! they are refused together.
//!
//! **Why SERIALIZABLE refuses more.** Transactions with rows are certified by what each of them has read and written; loads read nothing, are
//! certified nowhere, and come from all nodes. Let a transaction T read bricks without a load L, and write a row. A reader that sees L
//! and not T's row closes a circle: T before L, which it has not seen, L before the reader, the reader before T. The other way round, let L be a
//! load that has read a row before T changed it: L before T, T before a reader that has T's row and not L, which is before L. So
//! at SERIALIZABLE who reads spread tables writes no rows, and a load that has read rows is one transaction with them, which is refused if any
//! of them was changed before it commits. What is left there is loads, deletes (which see all
//! that is before them, one after the other), transactions with rows, and readers.
//!
//! **What readers see of both.** At SERIALIZABLE, spread tables of the age of their rows (`spread_age.rs`): so they all have one order. A statement
//! outside blocks that reads no rows sees what its node has.
//!
//! **Below SERIALIZABLE, on the primary**, a reader sees loads up to what its node showed just before the reader took its rows ([`Shown`]), or up
//! to what these name, if that is later. So whoever sees a load has all rows that were committed before the load began: they were published
//! before, and the rows were taken behind. That costs a look at a number for each statement, or transaction. Two such readers may still
//! have a commit of rows and a load in different orders, if a commit comes between the two looks of one of them. On a replica rows are as old as they are,
//! and its readers have two snapshots, each of some moment of this statement or transaction.

use crate::cancel;
use crate::cluster::{
    Cluster, ClusterAges, ClusterDelete, ClusterLoad, ClusterNamedLoad, ClusterSnapshot, CommitMode,
};
use crate::engine::{Engine, spread_number};
use crate::error::{SqlError, SqlState};
use crate::spread_age::{self, Again};
use arrow::record_batch::RecordBatch;
use coeval_store::{SpaceId, Transaction};
use coeval_txn::{Epoch, Isolation, Version};
use datafusion::error::DataFusionError;
use parking_lot::Mutex;
use std::sync::Arc;

/// What a statement is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Within {
    /// Nothing: it is a transaction of its own.
    #[default]
    Statement,
    /// Several statements that were sent together.
    Several,
    /// A block.
    Block,
    /// A block that has savepoints.
    Savepoints,
}

/// What was declared of a transaction. On a replica, whose transactions all read rows only, loads are none of the store's changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Declared {
    /// READ ONLY.
    Reader,
    /// Nothing.
    #[default]
    Nothing,
}

/// Where a statement stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatementPlace {
    pub(crate) within: Within,
    pub(crate) declared: Declared,
    pub(crate) isolation: Isolation,
}

/// How a statement comes to its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planned {
    /// What is read is known at once.
    AsAWhole,
    /// It has parts, of which later ones may read something else.
    InParts,
}

/// What the transaction changes in the cluster.
#[derive(Debug, Default)]
enum Change {
    #[default]
    None,
    Load(Box<dyn ClusterLoad>),
    /// A load that is one transaction with rows, which are about to be committed.
    Named(Box<dyn ClusterNamedLoad>),
    Delete(Box<dyn ClusterDelete>),
    /// There was one, and a statement failed with it.
    Lost,
}

/// What a change of the cluster is beside rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// It may be one transaction with them.
    Together,
    /// It has a commit of its own.
    Apart,
}

/// What the node showed of spread tables before a transaction below SERIALIZABLE took its rows.
#[derive(Clone, Copy, Debug)]
struct Shown {
    age: Epoch,
    /// Published by then: rows of this version or a later one have all that was committed before any of these loads began.
    version: Version,
}

impl Shown {
    /// Nothing on a replica, and without a cluster.
    fn now(engine: &Engine) -> Option<Self> {
        let ages = engine.cluster()?.ages()?;
        if engine.store().is_following() {
            return None;
        }
        let age = ages.newest()?;
        // Behind the age.
        let version = engine.store().world().version();
        Some(Self { age, version })
    }

    /// Up to which load a transaction sees spread tables, of a session that has loaded or seen what `floor` names. Nothing if that is not to
    /// be had at once, and no load is one transaction with its rows.
    fn beside_rows(
        (shown, floor): (Option<Self>, Epoch),
        ages: &dyn ClusterAges,
        transaction: &Transaction,
    ) -> Option<Epoch> {
        // A transaction that has to keep its rows has older ones. What rows name themselves was shown before they were there, and is kept as
        // long as they are; who goes by no ages does without.
        let shown = shown.filter(|shown| shown.version <= transaction.begin_version()).map(|shown| shown.age);
        let named = spread_age::of_rows(transaction).unwrap_or_default();
        let age = shown.max(named)?;
        let (newest, newest_with_rows) = (ages.newest(), ages.newest_with_rows());
        let reached = newest.unwrap_or_default();
        if named.is_some_and(|named| named > reached) && newest_with_rows > reached {
            // The rows may be one transaction with a load that is decided in a moment: who sees them waits for that.
            return Some(age);
        }
        // All loads up to the session's own had begun before it took its rows: whoever begins later has a later epoch. But one of them may be
        // one transaction with rows that it has not.
        let newest = newest?;
        let age = if floor <= newest && newest_with_rows <= age { age.max(floor) } else { age };
        (age <= newest).then_some(age)
    }
}

/// The part of one session's transaction.
#[derive(Debug, Default)]
pub(crate) struct SpreadPart {
    place: StatementPlace,
    /// What was shown before the statement, or the transaction, took its rows.
    shown: Option<Shown>,
    snapshot: Option<Arc<dyn ClusterSnapshot>>,
    /// The age of the snapshot, if it goes by that of rows.
    age: Option<Epoch>,
    /// What the session has loaded, deleted by, or seen that its rows may not name yet. It outlives the transaction.
    floor: Epoch,
    has_read_spread: bool,
    has_read_rows: bool,
    change: Change,
    /// Whether a load may be one transaction with rows here.
    spans: bool,
    /// Whether the change was begun by a statement before this one.
    is_earlier: bool,
    /// Whether this statement has changed something.
    is_changing: bool,
}

impl SpreadPart {
    /// A statement begins, and has not taken its rows yet. At READ COMMITTED it sees what there is by now.
    pub(crate) fn begin_statement(&mut self, place: StatementPlace, engine: &Engine) {
        if place.isolation == Isolation::ReadCommitted {
            (self.snapshot, self.age) = (None, None);
        }
        self.note_shown(place.isolation, engine);
        self.place = place;
        let has_ages = engine.cluster().is_some_and(|cluster| cluster.ages().is_some());
        self.spans = has_ages && !engine.store().is_following();
        self.is_earlier = self.has_change();
        self.is_changing = false;
    }

    /// The transaction is about to take its rows; at REPEATABLE READ for the first time, or it has them.
    pub(crate) fn note_shown(&mut self, isolation: Isolation, engine: &Engine) {
        match isolation {
            Isolation::ReadCommitted => self.shown = Shown::now(engine),
            Isolation::Snapshot if self.shown.is_none() => self.shown = Shown::now(engine),
            Isolation::Snapshot | Isolation::Serializable => {}
        }
    }

    /// The transaction is over, or has not begun. What it has changed and not committed is rolled back.
    pub(crate) fn end(&mut self) {
        *self = Self { floor: self.floor, ..Self::default() };
    }

    /// The transaction has failed, with an error of this state.
    pub(crate) fn fail(&mut self, state: SqlState) {
        // Else nobody knows what has become of its rows, nor of the load that is one with them.
        if state != SqlState::TransactionResolutionUnknown
            && let Change::Named(named) = std::mem::take(&mut self.change)
        {
            named.roll_back();
        }
        self.end();
    }

    /// A statement has failed: what was changed cannot be committed any more.
    pub(crate) fn lose_change(&mut self) {
        if self.has_change() {
            self.change = Change::Lost;
        }
    }

    /// Whether the statement that runs has changed something: it cannot be run again within its transaction, as that would be
    /// there twice.
    pub(crate) fn is_changing(&self) -> bool {
        self.is_changing
    }

    /// Notes that the transaction reads rows of this database.
    pub(crate) fn note_rows_read(&mut self) {
        self.has_read_rows = true;
    }

    /// Whether there is something to commit.
    pub(crate) fn has_change(&self) -> bool {
        !matches!(self.change, Change::None)
    }

    /// Whether the transaction is that of one statement, which may run again.
    pub(crate) fn is_of_one_statement(&self) -> bool {
        self.place.within == Within::Statement
    }

    /// Whether the transaction may change something in the cluster, as far as it was declared.
    pub(crate) fn may_change(&self) -> bool {
        self.place.declared == Declared::Nothing
    }

    /// Sees, when a statement has run, that the transaction is still one that there can be. It is asked whether it has written on
    /// servers if that matters.
    ///
    /// # Errors
    /// `0A000`; `40001` if its rows are not those any more by which it reads spread tables.
    pub(crate) fn check(
        &self,
        transaction: &Transaction,
        has_written_on_servers: impl FnOnce() -> bool,
    ) -> Result<(), SqlError> {
        if self.has_change() && transaction.has_writes() && !self.is_spanning_load() {
            return Err(rows_and_loads());
        }
        if self.has_change() && has_written_on_servers() {
            return Err(servers_and_loads());
        }
        if self.place.isolation != Isolation::Serializable {
            return Ok(());
        }
        if self.age.is_some() && self.age != spread_age::of_rows(transaction)? {
            return Err(spread_age::moved());
        }
        if self.has_read_spread && !self.has_change() && transaction.has_writes() {
            return Err(rows_after_reading());
        }
        let rows = if self.is_spanning_load() { Rows::Together } else { Rows::Apart };
        if self.has_change() && self.has_read_what_may_change(transaction, rows) {
            return Err(load_after_reading());
        }
        Ok(())
    }

    /// Whether it loads, and that may be one transaction with rows.
    fn is_spanning_load(&self) -> bool {
        self.spans && matches!(self.change, Change::Load(_) | Change::Named(_))
    }

    /// Whether it has read what a load or delete must not have read: rows, if it is not one transaction with them, and spread tables. A
    /// delete looks at the bricks that it deletes, and at nothing else.
    fn has_read_what_may_change(&self, transaction: &Transaction, rows: Rows) -> bool {
        let is_delete = matches!(self.change, Change::Delete(_));
        (rows == Rows::Apart && self.has_read(transaction)) || (self.has_read_spread && !is_delete)
    }

    /// Whether it has read rows.
    fn has_read(&self, transaction: &Transaction) -> bool {
        self.has_read_rows || transaction.has_reads()
    }

    /// Whether its load has to be one transaction with its rows.
    pub(crate) fn is_one_with_rows(&self, transaction: &Transaction) -> bool {
        let is_serializable = self.place.isolation == Isolation::Serializable;
        let has_rows = transaction.has_writes() || (is_serializable && self.has_read(transaction));
        has_rows && self.is_spanning_load()
    }

    /// Whether what it reads of spread tables is of the age of its rows: at SERIALIZABLE, unless it is known to read no rows.
    fn goes_by_rows(&self, planned: Planned) -> bool {
        let is_whole = self.place.within == Within::Statement && planned == Planned::AsAWhole;
        self.place.isolation == Isolation::Serializable && (self.has_read_rows || !is_whole)
    }

    /// Whether it may begin again, to find what its session has loaded.
    fn again(&self) -> Again {
        let is_declared = self.place.declared == Declared::Reader;
        if is_declared && self.place.within != Within::Statement { Again::No } else { Again::May }
    }

    /// Sees that a savepoint can be set.
    ///
    /// # Errors
    /// `0A000` beside a load.
    pub(crate) fn require_no_change(&self) -> Result<(), SqlError> {
        if !self.has_change() {
            return Ok(());
        }
        Err(SqlError::unsupported("a savepoint behind a load into a table that is spread over a cluster")
            .with_hint("A load is taken back as a whole: ROLLBACK, or load in a block of its own."))
    }

    /// Sees that the transaction can change something in the cluster.
    fn require_change(&self, transaction: &Transaction, rows: Rows) -> Result<(), SqlError> {
        if self.place.declared == Declared::Reader {
            let message = "cannot load into spread tables, or delete from them, in a read-only transaction";
            return Err(SqlError::new(SqlState::ReadOnlySqlTransaction, message));
        }
        if transaction.has_writes() && rows == Rows::Apart {
            return Err(rows_and_loads());
        }
        if self.place.within == Within::Savepoints {
            return Err(SqlError::unsupported(
                "a change of a table that is spread over a cluster, in a block with savepoints,",
            )
            .with_hint("A load is taken back as a whole: load in a block without savepoints."));
        }
        let is_serializable = self.place.isolation == Isolation::Serializable;
        if is_serializable && !self.has_change() && self.has_read_what_may_change(transaction, rows) {
            return Err(load_after_reading());
        }
        Ok(())
    }

    /// Takes the load out; nothing if it has not begun.
    fn take_load(&mut self, transaction: &Transaction) -> Result<Option<Box<dyn ClusterLoad>>, SqlError> {
        self.require_change(transaction, if self.spans { Rows::Together } else { Rows::Apart })?;
        self.is_changing = true;
        match std::mem::replace(&mut self.change, Change::Lost) {
            Change::None => Ok(None),
            Change::Load(load) => Ok(Some(load)),
            Change::Delete(_) => Err(delete_alone()),
            Change::Named(_) | Change::Lost => Err(lost()),
        }
    }

    /// Commits what was changed, if anything was; the part is over then, whatever the outcome. A load that is one with rows, which are
    /// committed by now, is decided once they are published, for which this waits if their version is `left`.
    ///
    /// # Errors
    /// `40001` if it is rolled back, `08007` if nobody here knows whether it is committed; `57014` if the statement had been
    /// cancelled before.
    pub(crate) fn commit(
        &mut self,
        engine: &Engine,
        mode: CommitMode,
        left: Option<Version>,
    ) -> Result<(), SqlError> {
        let Self { change, floor, .. } = std::mem::take(self);
        self.floor = floor;
        if matches!(change, Change::Load(_) | Change::Delete(_)) {
            // Dropped here, it is rolled back for sure.
            cancel::check()?;
        }
        let ended = match change {
            Change::None => return Ok(()),
            Change::Named(named) => return decide(engine, named, left),
            Change::Load(load) => {
                self.floor = load.epoch().max(floor);
                load.commit(mode)
            }
            Change::Delete(delete) => {
                self.floor = delete.epoch().max(floor);
                delete.commit(mode)
            }
            Change::Lost => return Err(lost()),
        };
        wait(engine, ended).map_err(|error| match error {
            error if error.state == SqlState::QueryCanceled => unknown(&error),
            error => error,
        })
    }
}

/// What the node gives, or the error of the statement if that is to end before.
///
/// # Errors
/// The node's, and that of a cancelled statement.
pub(crate) fn wait<T>(
    engine: &Engine,
    work: impl Future<Output = Result<T, SqlError>>,
) -> Result<T, SqlError> {
    Ok(engine.runtime().block_on(async { work.await.map_err(DataFusionError::from) })?)
}

/// What the transaction sees of all spread tables: taken at the first use.
///
/// # Locking
/// `part` is held for a look, and to put there what was taken; not while the node is asked.
///
/// # Errors
/// `57P03` if the node does not serve; `0A000` behind a change of its own, which it would not see; `40001` if a transaction on newer rows
/// would find what the session has loaded or seen.
pub(crate) fn snapshot(
    part: &Mutex<SpreadPart>,
    engine: &Engine,
    cluster: &Arc<dyn Cluster>,
    (transaction, planned): (&Transaction, Planned),
) -> Result<Arc<dyn ClusterSnapshot>, SqlError> {
    let (by_rows, beside_rows) = {
        let mut part = part.lock();
        if part.is_earlier {
            return Err(SqlError::unsupported(
                "reading tables that are spread over a cluster behind a change of one in the same transaction",
            )
            .with_hint("Commit it first: a load is seen as a whole, by nobody before its end."));
        }
        part.has_read_spread = true;
        if let Some(taken) = &part.snapshot {
            return Ok(Arc::clone(taken));
        }
        let goes_by_rows = part.goes_by_rows(planned);
        let by_rows = cluster.ages().filter(|_| goes_by_rows).map(|ages| (ages, part.floor, part.again()));
        let is_below = part.place.isolation != Isolation::Serializable && !engine.store().is_following();
        (by_rows, cluster.ages().filter(|_| is_below).map(|ages| (ages, (part.shown, part.floor))))
    };
    let below =
        beside_rows.and_then(|(ages, shown)| Some((ages, Shown::beside_rows(shown, ages, transaction)?)));
    let (taken, age) = match (by_rows, below) {
        (None, None) => (wait(engine, cluster.snapshot())?, None),
        (None, Some((ages, age))) => (wait(engine, ages.snapshot_at(age))?, None),
        (Some((ages, floor, again)), _) => {
            let age = spread_age::of_reader(engine, ages, transaction, (floor, again))?;
            (wait(engine, ages.snapshot_at(age))?, Some(age))
        }
    };
    // Asked behind the snapshot, it is that or later.
    let newest = cluster.ages().and_then(|ages| ages.newest());
    let mut part = part.lock();
    match age {
        // The session reads no older rows from here on.
        Some(age) if age >= part.floor => part.floor = Epoch::ZERO,
        None if part.place.isolation == Isolation::Serializable => {
            part.floor = newest.max(Some(part.floor)).unwrap_or_default()
        }
        _ => {}
    }
    (part.snapshot, part.age) = (Some(Arc::clone(&taken)), age);
    Ok(taken)
}

/// Before a transaction of this kind takes its snapshot of rows: at SERIALIZABLE, waits for rows that name what the session has loaded or
/// seen, and gives their version. Nothing if there is nothing to wait for, or it takes too long.
///
/// # Errors
/// That of a cancelled statement.
pub(crate) fn await_load(
    part: &mut SpreadPart,
    engine: &Engine,
    place: StatementPlace,
) -> Result<Option<Version>, SqlError> {
    if place.isolation != Isolation::Serializable || part.floor == Epoch::ZERO {
        return Ok(None);
    }
    let Some(ages) = engine.cluster().and_then(|cluster| cluster.ages()) else { return Ok(None) };
    let named = spread_age::until_named(engine, ages, part.floor)?;
    if named.is_some() {
        part.floor = Epoch::ZERO;
    }
    Ok(named)
}

/// Adds rows, which have all columns of the table in the types of its bricks, to the transaction's load, which begins with the first. If this
/// fails, nothing of the load can be committed.
///
/// # Errors
/// What the transaction is that cannot load (`0A000`, `25006`); that of a row that is none of the table; `57P03`; that of a
/// cancelled statement.
pub(crate) fn append(
    part: &Mutex<SpreadPart>,
    engine: &Engine,
    cluster: &Arc<dyn Cluster>,
    transaction: &Transaction,
    (table, batches): (SpaceId, &[RecordBatch]),
) -> Result<(), SqlError> {
    let begun = part.lock().take_load(transaction)?;
    let mut load = match begun {
        Some(load) => load,
        None => wait(engine, cluster.load())?,
    };
    let table = spread_number(table);
    for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
        cancel::check()?;
        wait(engine, load.append(table, batch))?;
    }
    part.lock().change = Change::Load(load);
    Ok(())
}

/// Before the rows of a transaction are committed: if it has loaded, too, has them be one with the load. From here on what becomes of
/// the rows becomes of it.
///
/// # Errors
/// `40001` if the load is rolled back; `55P03` if older ones take too long to end; `57P03`; that of a cancelled statement. The rows must not
/// be committed, and the load will not be.
pub(crate) fn name_load(
    part: &mut SpreadPart,
    engine: &Engine,
    transaction: &mut Transaction,
) -> Result<(), SqlError> {
    if !part.is_one_with_rows(transaction) {
        return Ok(());
    }
    let Change::Load(load) = std::mem::replace(&mut part.change, Change::Lost) else { return Ok(()) };
    cancel::check()?;
    let Some(mut named) = wait(engine, load.prepare())? else {
        // It has no rows of its own.
        part.change = Change::None;
        return Ok(());
    };
    let are_handed_in = transaction.name_brick_age(named.age())?;
    named.expect_rows(are_handed_in);
    part.change = Change::Named(named);
    Ok(())
}

/// The rows that a load is one transaction with are committed: so is the load, once they are published.
///
/// # Errors
/// `08007` if they are not published as long as somebody waits for that. The load is decided once they are found to be there.
fn decide(engine: &Engine, named: Box<dyn ClusterNamedLoad>, left: Option<Version>) -> Result<(), SqlError> {
    let store = engine.store();
    match (left, cancel::running()) {
        (None, _) => {}
        (Some(version), Some(running)) => store.wait_published_unless(version, &*running.interrupt())?,
        (Some(version), None) => store.wait_published(version)?,
    }
    named.decide();
    Ok(())
}

/// Begins to delete bricks: what the delete sees of them, which is what the statement reads from here on.
///
/// # Errors
/// `0A000` in a block, behind another change, and on another node than that with the keeper of views; `25006`, `57P03`.
pub(crate) fn begin_delete(
    part: &Mutex<SpreadPart>,
    engine: &Engine,
    cluster: &Arc<dyn Cluster>,
    transaction: &Transaction,
) -> Result<Arc<dyn ClusterSnapshot>, SqlError> {
    {
        let part = part.lock();
        let is_alone = matches!(part.place.within, Within::Statement | Within::Several);
        if !is_alone || part.has_change() {
            return Err(delete_alone());
        }
        part.require_change(transaction, Rows::Apart)?;
    }
    let delete = wait(engine, cluster.delete())?;
    let seen = delete.seen();
    let mut part = part.lock();
    part.snapshot = Some(Arc::clone(&seen));
    part.is_changing = true;
    part.change = Change::Delete(delete);
    Ok(seen)
}

/// Deletes what the transaction's delete sees of these bricks.
///
/// # Errors
/// If it is over, or the statement is cancelled. Nothing of it can be committed then.
pub(crate) fn delete_bricks(
    part: &Mutex<SpreadPart>,
    engine: &Engine,
    table: SpaceId,
    bricks: &[u64],
) -> Result<(), SqlError> {
    let taken = std::mem::replace(&mut part.lock().change, Change::Lost);
    let Change::Delete(mut delete) = taken else {
        return Err(SqlError::internal("bricks are deleted without a delete"));
    };
    for brick in bricks {
        cancel::check()?;
        wait(engine, delete.brick(spread_number(table), *brick))?;
    }
    part.lock().change = Change::Delete(delete);
    Ok(())
}

fn rows_and_loads() -> SqlError {
    SqlError::unsupported(
        "a transaction that changes rows, or definitions, and tables that are spread over a cluster, here or in this way,",
    )
    .with_hint(
        "On the primary of the cluster, rows and loads are one transaction; deletes are not. Elsewhere, load first and commit, and then \
         write rows that name the load.",
    )
}

/// Rows of other servers are none of the primary's.
pub(crate) fn servers_and_loads() -> SqlError {
    SqlError::unsupported(
        "a transaction that uses tables of other servers and changes tables that are spread over a cluster",
    )
    .with_hint("They have commits of their own: do the one in a transaction of its own.")
}

fn rows_after_reading() -> SqlError {
    SqlError::unsupported(
        "SERIALIZABLE in a transaction that reads tables spread over a cluster and changes rows",
    )
    .with_hint("BEGIN ISOLATION LEVEL REPEATABLE READ, or declare READ ONLY what only reads.")
}

fn load_after_reading() -> SqlError {
    SqlError::unsupported(
        "SERIALIZABLE in a transaction that changes tables spread over a cluster and reads others, or any before that,",
    )
    .with_hint("Load what was computed before, or BEGIN ISOLATION LEVEL REPEATABLE READ.")
}

fn delete_alone() -> SqlError {
    SqlError::unsupported(
        "deleting from a table that is spread over a cluster, beside other changes or in a block,",
    )
    .with_hint("While it runs, nobody sees what is loaded meanwhile: run it outside transaction blocks.")
}

fn lost() -> SqlError {
    SqlError::new(SqlState::SerializationFailure, "the load was rolled back when a statement before failed")
        .with_hint("Run the transaction again.")
}

/// The commit was asked for, and nobody has waited for what became of it.
fn unknown(cancelled: &SqlError) -> SqlError {
    let message =
        "it is not known whether the load is committed: the statement was cancelled while it waited for that";
    SqlError::new(SqlState::TransactionResolutionUnknown, message)
        .with_detail(cancelled.message.clone())
        .with_hint("Look for what it did before you run it again.")
}
