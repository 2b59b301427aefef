// SPDX-License-Identifier: Apache-2.0
//! Commit (2.3.4): write sets, timestamps, certification as SQL, versions, the marker, and the start timestamp.
//!
//! Whoever finds nobody leading leads for all who wait (group commit):
//!
//! ```text
//! write sets -> take cts, append to tique_committing   the next may lead from here on
//!            -> certify: one query for the batch
//!            -> tique_aborted for those refused
//!            -> versions with their cts into the caches (Stamped)
//!            -> tique_committed: the marker, one append; sync
//!            -> the start timestamp passes the batch in order
//! ```
//!
//! **Why nobody is missed.** Timestamps are taken and shown in `tique_committing` by one leader at a time, after the write
//! sets are there. So whoever certifies sees the write set of everybody with a lower timestamp. Of those it counts all that
//! are not in `tique_aborted`: committed ones, and ones that are still committing, which may yet abort (refusing too much
//! is safe). In a batch of its own the leader knows better: one that it refuses refuses nobody.
//!
//! **Why nobody sees half.** Versions carry a timestamp above every start timestamp until the marker is there, because
//! timestamps finish in order. A batch that fails before the marker takes its versions back first; if that fails too, or
//! the marker's own append does, nothing commits any more until recovery has decided.
//!
//! **Why no transaction fails because of another.** If the engine refuses the versions of a batch, they are taken back, and the
//! versions of each member are written separately. A member whose versions are refused again fails, with the engine's message; the
//! others commit. The same holds if the engine does not get to writing, because somebody's query runs for long (`Busy`): who wrote what
//! the query reads is turned away, so that all others are seen behind it; nothing has to be taken back then, which would have to wait too.

use crate::buffer::{TableRows, stamped};
use crate::catalog::Table;
use crate::certifier::{Candidate, Certification, Certifier};
use crate::counters::{Counters, Timestamp, Txid};
use crate::engine::{Appends, Connection, Effort, Engine, EngineError, EngineErrorKind};
use crate::error::{Result, SqlState, TiqueError, canceled};
use crate::interrupt::{LOOK, is_interrupted, to_its_end};
use crate::names::quoted;
use crate::options::Options;
use crate::physical::{CTS, cache};
use crate::priority::Reservations;
use crate::read_set::ReadSet;
use crate::snapshot::Layout;
use crate::write_set::{CONFLICT_AT, WriteSet};
use arrow::array::{Array, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A transaction that wants to commit.
pub(crate) struct Submission {
    pub(crate) txid: Txid,
    pub(crate) sts: Timestamp,
    pub(crate) write_set: WriteSet,
    /// Empty below SERIALIZABLE.
    pub(crate) read_set: ReadSet,
    /// Its versions without timestamp; none if they are in the caches already.
    pub(crate) rows: Vec<TableRows>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Waiting>>,
    has_leader: bool,
}

struct Waiting {
    submission: Submission,
    outcome: Mutex<Option<Result<Timestamp>>>,
}

/// A transaction whose versions are in the caches, and whose marker is not.
pub(crate) struct Prepared {
    members: Vec<Arc<Waiting>>,
    timestamps: Vec<Timestamp>,
    /// The connection that wrote the versions: it worked a moment ago.
    connection: Box<dyn Connection>,
}

impl Prepared {
    pub(crate) fn timestamp(&self) -> Timestamp {
        *self.timestamps.first().expect("a prepared transaction has its timestamp")
    }
}

/// What has to be kept of a prepared transaction to commit it after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decision {
    /// Its id.
    pub transaction: i64,
    /// Its commit timestamp.
    pub timestamp: i64,
}

/// Where transactions commit.
///
/// # Locking
/// `queue` is held for moments, never during a call of the engine; a transaction's `outcome` inside it or alone.
pub(crate) struct Pipeline {
    queue: Mutex<Queue>,
    changed: Condvar,
    connections: Mutex<Vec<Box<dyn Connection>>>,
    engine: Arc<dyn Engine>,
    pub(crate) counters: Counters,
    pub(crate) reservations: Reservations,
    certifier: Certifier,
    options: Options,
}

/// How far a batch came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No timestamp, nothing to undo.
    Queued,
    /// Timestamps are taken, and versions may be in the caches.
    Stamped,
    /// The marker may be there.
    Marking,
    /// All have ended.
    Ended,
}

/// A batch on its way. Dropped before its end, by an error or a panic, it aborts its transactions, so that start
/// timestamps do not wait for them; where that is not possible any more it stops the pipeline.
struct Batch<'a> {
    pipeline: &'a Pipeline,
    members: Vec<Arc<Waiting>>,
    timestamps: Vec<Timestamp>,
    stage: Stage,
}

fn batch_of(columns: &[(&str, Vec<i64>)]) -> Result<RecordBatch> {
    let fields: Vec<_> = columns.iter().map(|(name, _)| Field::new(*name, DataType::Int64, true)).collect();
    let arrays =
        columns.iter().map(|(_, values)| Arc::new(Int64Array::from(values.clone())) as Arc<dyn Array>);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.collect());
    batch.map_err(|error| TiqueError::new(SqlState::EngineRefused, error.to_string()))
}

fn stopped(reason: &str) -> TiqueError {
    TiqueError::new(SqlState::CannotConnectNow, format!("commits have stopped: {reason}"))
        .hint("Open the database again: recovery settles what was being committed.")
}

/// The error of a transaction that has committed, after an earlier one whose outcome is not known.
fn unseen(reason: &str) -> TiqueError {
    let what = format!("the transaction has committed, and is not seen before recovery: {reason}");
    TiqueError::new(SqlState::TransactionResolutionUnknown, what)
        .hint("Open the database again: recovery settles what was being committed.")
}

impl Pipeline {
    pub(crate) fn new(engine: Arc<dyn Engine>, counters: Counters, options: &Options) -> Self {
        Self {
            queue: Mutex::new(Queue::default()),
            changed: Condvar::new(),
            connections: Mutex::new(Vec::new()),
            engine,
            counters,
            reservations: Reservations::default(),
            certifier: Certifier::default(),
            options: *options,
        }
    }

    /// The commit timestamp; durable, and seen by every transaction that begins from now on.
    ///
    /// # Errors
    /// 40001: somebody else committed first; aborted. 08006, HV000, 57P03: aborted. 08007: recovery decides.
    pub(crate) fn commit(&self, submission: Submission) -> Result<Timestamp> {
        let mine = Arc::new(Waiting { submission, outcome: Mutex::new(None) });
        let committed = self.taken_part(&mine)?;
        self.wait_seen(committed)?;
        Ok(committed)
    }

    /// Waits until a commit is seen by every transaction that begins.
    fn wait_seen(&self, committed: Timestamp) -> Result<()> {
        match self.counters.has_come(committed) {
            Ok(true) => Ok(()),
            Ok(false) => Err(TiqueError::new(
                SqlState::CommittedUnseen,
                "the transaction has committed, and the wait for others before which nobody sees it was ended",
            )
            .hint("Do not run it again: it is seen once that has ended.")),
            Err(reason) => Err(unseen(&reason)),
        }
    }

    /// Takes part in a batch. Whoever no leader has taken yet may be interrupted; the others' outcome is waited for.
    fn taken_part(&self, mine: &Arc<Waiting>) -> Result<Timestamp> {
        let mut queue = self.queue.lock();
        queue.waiting.push(Arc::clone(mine));
        loop {
            if let Some(outcome) = mine.outcome.lock().take() {
                return outcome;
            }
            let place = queue.waiting.iter().position(|waiting| Arc::ptr_eq(waiting, mine));
            if let Some(place) = place.filter(|_| queue.has_leader && is_interrupted()) {
                queue.waiting.remove(place);
                return Err(canceled());
            }
            if !queue.has_leader && place.is_some() {
                queue.has_leader = true;
                let members = std::mem::take(&mut queue.waiting);
                drop(queue);
                // The others' commits do not end with this one's statement.
                to_its_end(|| self.lead(members));
                queue = self.queue.lock();
                continue;
            }
            self.changed.wait_for(&mut queue, LOOK);
        }
    }

    /// Takes a transaction up to its marker, in a batch of its own. It can commit and abort from here on; later start
    /// timestamps wait for it.
    ///
    /// # Errors
    /// As [`commit`](Self::commit); the transaction has aborted.
    pub(crate) fn prepare(&self, submission: Submission) -> Result<Prepared> {
        let mut queue = self.queue.lock();
        while queue.has_leader {
            if is_interrupted() {
                return Err(canceled());
            }
            self.changed.wait_for(&mut queue, LOOK);
        }
        queue.has_leader = true;
        drop(queue);
        to_its_end(|| self.lead_to_marker(submission))
    }

    /// Leads for this transaction alone, which nobody else is leading for.
    fn lead_to_marker(&self, submission: Submission) -> Result<Prepared> {
        let mut leading = Leading { pipeline: Some(self) };
        let mine = Arc::new(Waiting { submission, outcome: Mutex::new(None) });
        let members = vec![Arc::clone(&mine)];
        let mut batch = Batch { pipeline: self, members, timestamps: Vec::new(), stage: Stage::Queued };
        let prepared = batch.prepare(&mut leading).and_then(|mut connection| {
            connection.sync()?;
            Ok(connection)
        });
        let connection = match prepared {
            Ok(connection) => connection,
            Err(error) => {
                batch.fail(&error);
                return Err(error);
            }
        };
        if let Some(Err(error)) = mine.outcome.lock().take() {
            batch.stage = Stage::Ended;
            self.give_back(connection);
            return Err(error);
        }
        let (members, timestamps) =
            (std::mem::take(&mut batch.members), std::mem::take(&mut batch.timestamps));
        batch.stage = Stage::Ended;
        Ok(Prepared { members, timestamps, connection })
    }

    /// Ends a prepared transaction.
    ///
    /// # Errors
    /// 08007: the marker may or may not be there. Nothing commits any more until the database is opened again.
    pub(crate) fn complete(&self, prepared: Prepared) -> Result<()> {
        let committed = prepared.timestamp();
        let Prepared { members, timestamps, connection } = prepared;
        let mut batch = Batch { pipeline: self, members, timestamps, stage: Stage::Stamped };
        if let Err(error) = to_its_end(|| batch.complete(connection)) {
            batch.stage = Stage::Marking;
            batch.fail(&error);
            return Err(error);
        }
        // What another database has committed as well is seen here before anybody is told.
        self.counters.wait_for(committed).map_err(|reason| unseen(&reason))
    }

    /// Takes a prepared transaction's versions back.
    pub(crate) fn abort(&self, prepared: Prepared) {
        let Prepared { members, timestamps, connection } = prepared;
        self.give_back(connection);
        let mut batch = Batch { pipeline: self, members, timestamps, stage: Stage::Stamped };
        to_its_end(|| batch.fail(&TiqueError::new(SqlState::SerializationFailure, "aborted")));
    }

    fn lead(&self, members: Vec<Arc<Waiting>>) {
        let mut leading = Leading { pipeline: Some(self) };
        let mut batch = Batch { pipeline: self, members, timestamps: Vec::new(), stage: Stage::Queued };
        if let Err(error) = batch.run(&mut leading) {
            batch.fail(&error);
        }
    }

    fn connection(&self) -> Result<Box<dyn Connection>> {
        match self.connections.lock().pop() {
            Some(connection) => Ok(connection),
            None => Ok(self.engine.connect()?),
        }
    }

    /// Appends as one change; by another connection if this one turns out to be lost and nothing took effect.
    fn append_all(
        &self,
        connection: &mut Box<dyn Connection>,
        appends: &[(&str, &RecordBatch)],
    ) -> std::result::Result<(), EngineError> {
        let outcome = connection.append_all(appends);
        let is_lost = outcome.as_ref().is_err_and(|error| error.kind == EngineErrorKind::Lost);
        if !is_lost || !connection.is_lost() {
            return outcome;
        }
        // Those that wait for their next use were lost with it.
        self.connections.lock().clear();
        *connection = self.engine.connect()?;
        connection.append_all(appends)
    }

    fn give_back(&self, connection: Box<dyn Connection>) {
        self.connections.lock().push(connection);
    }

    fn answer(&self, waiting: &Waiting, outcome: Result<Timestamp>) {
        // Under the queue's lock: who waits looks at its outcome before it sleeps.
        let _queue = self.queue.lock();
        waiting.outcome.lock().get_or_insert(outcome);
        self.changed.notify_all();
    }
}

/// The right to take timestamps. Given up when dropped.
struct Leading<'a> {
    pipeline: Option<&'a Pipeline>,
}

impl Leading<'_> {
    fn give_up(&mut self) {
        if let Some(pipeline) = self.pipeline.take() {
            pipeline.queue.lock().has_leader = false;
            pipeline.changed.notify_all();
        }
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Batch<'_> {
    fn run(&mut self, leading: &mut Leading<'_>) -> Result<()> {
        let mut connection = self.certified(leading)?;
        if self.pipeline.engine.dialect().appends == Appends::OneByOne {
            self.write_versions(&mut connection)?;
            return self.complete(connection);
        }
        match self.write_all(&mut connection) {
            Err(error) if self.stage == Stage::Stamped => {
                self.go_on_without(&mut connection, error)?;
                self.complete(connection)
            }
            outcome => outcome.and_then(|()| self.finish(connection)),
        }
    }

    /// Everything up to the marker. Those who may not commit have been told; `members` are the others.
    fn prepare(&mut self, leading: &mut Leading<'_>) -> Result<Box<dyn Connection>> {
        let mut connection = self.certified(leading)?;
        self.write_versions(&mut connection)?;
        Ok(connection)
    }

    /// Everything up to the versions.
    fn certified(&mut self, leading: &mut Leading<'_>) -> Result<Box<dyn Connection>> {
        if let Some(reason) = self.pipeline.counters.stopped() {
            return Err(stopped(&reason));
        }
        let mut connection = self.pipeline.connection()?;
        let refused = match self.pipeline.options.certification {
            Certification::InProcess => {
                let refused = self.certify_here();
                leading.give_up();
                refused
            }
            Certification::InEngine => {
                self.register(&mut connection)?;
                leading.give_up();
                self.wait_if_reserved()?;
                self.certify(&mut *connection)?
            }
        };
        self.abort_losers(&mut *connection, &refused)?;
        Ok(connection)
    }

    /// The marker, and the start timestamp behind it.
    fn complete(&mut self, mut connection: Box<dyn Connection>) -> Result<()> {
        self.mark(&mut *connection)?;
        self.finish(connection)
    }

    /// The start timestamp behind the marker.
    fn finish(&mut self, connection: Box<dyn Connection>) -> Result<()> {
        self.pipeline.give_back(connection);
        let newest = self.timestamps.iter().copied().max();
        self.pipeline.counters.finish(std::mem::take(&mut self.timestamps));
        self.stage = Stage::Ended;
        // Each waits itself until it is seen: so one that is interrupted leaves the others waiting.
        for member in std::mem::take(&mut self.members) {
            self.pipeline.answer(&member, Ok(newest.unwrap_or(Timestamp(0))));
        }
        Ok(())
    }

    /// Shows the write sets, then takes timestamps and shows them.
    fn register(&mut self, connection: &mut Box<dyn Connection>) -> Result<()> {
        let (mut txids, mut entries, mut accesses) = (vec![], vec![], vec![]);
        for member in &self.members {
            let Submission { write_set, read_set, .. } = &member.submission;
            for (entry, access) in write_set.iter().chain(read_set.iter()) {
                txids.push(member.submission.txid.0);
                entries.push(entry);
                accesses.push(access as i64);
            }
        }
        let write_sets = batch_of(&[("txid", txids), ("entry", entries), ("access", accesses)])?;
        let txids: Vec<_> = self.members.iter().map(|member| member.submission.txid.0).collect();
        let sts: Vec<_> = self.members.iter().map(|member| member.submission.sts.0).collect();
        let began = batch_of(&[("txid", txids.clone()), ("sts", sts.clone())])?;
        let shown = [("tique_write_sets", &write_sets), ("tique_began", &began)];
        self.pipeline.append_all(connection, &shown)?;
        let cts: Vec<_> = self.pipeline.counters.take(self.members.len()).collect();
        self.timestamps = cts.iter().copied().map(Timestamp).collect();
        self.stage = Stage::Stamped;
        let rows = batch_of(&[("txid", txids), ("sts", sts), ("cts", cts)])?;
        connection.append("tique_committing", &rows)?;
        Ok(())
    }

    /// Takes timestamps, and says who may not commit, and because of whom, in this process.
    fn certify_here(&mut self) -> HashMap<Txid, i64> {
        let pipeline = self.pipeline;
        if pipeline.certifier.is_worth_trimming() {
            let stable = pipeline.counters.stable().0;
            // In this order: what was not reserved yet was not stable either.
            let reserved = pipeline.reservations.current();
            pipeline.certifier.trim(stable, |txid| reserved.contains(&txid));
        }
        let candidates: Vec<_> = self
            .members
            .iter()
            .map(|member| {
                let Submission { txid, sts, write_set, read_set, .. } = &member.submission;
                Candidate { txid: *txid, sts: *sts, write_set, read_set }
            })
            .collect();
        let take = |count: usize| pipeline.counters.take(count);
        let (timestamps, refused) = pipeline.certifier.certify(&candidates, take, &pipeline.reservations);
        self.timestamps = timestamps;
        self.stage = Stage::Stamped;
        if pipeline.options.trials.certification_is_off { HashMap::new() } else { refused }
    }

    /// If a member runs again in place of a refused transaction, waits for all lower timestamps: the member must not be refused
    /// because of a transaction that is about to be refused itself.
    fn wait_if_reserved(&self) -> Result<()> {
        let reservations = &self.pipeline.reservations;
        let Some(first) = self.timestamps.iter().min() else { return Ok(()) };
        if self.members.iter().any(|member| reservations.is_held_by(member.submission.txid)) {
            let before = Timestamp(first.0 - 1);
            self.pipeline.counters.wait_for(before).map_err(|reason| stopped(&reason))?;
        }
        Ok(())
    }

    /// Who may not commit, and because of whom (Listing 3, for the whole batch).
    fn certify(&self, connection: &mut dyn Connection) -> Result<HashMap<Txid, i64>> {
        if self.pipeline.options.trials.certification_is_off {
            return Ok(HashMap::new());
        }
        let reservations = self.pipeline.reservations.current();
        let list = |txids: &mut dyn Iterator<Item = i64>| {
            txids.map(|txid| txid.to_string()).collect::<Vec<_>>().join(", ")
        };
        let mine = list(&mut self.members.iter().map(|member| member.submission.txid.0));
        let committed = "ow.access >= 0 AND o.cts > me.sts AND o.cts < me.cts AND a.txid IS NULL";
        let sql = format!(
            "SELECT DISTINCT me.txid, ow.txid FROM tique_committing AS me \
             JOIN tique_write_sets AS mw ON mw.txid = me.txid \
             JOIN tique_write_sets AS ow ON ow.entry = mw.entry \
             JOIN tique_committing AS o ON o.txid = ow.txid \
             LEFT JOIN tique_aborted AS a ON a.txid = o.txid \
             WHERE me.txid IN ({mine}) AND ow.txid <> me.txid AND abs(mw.access) + abs(ow.access) >= {CONFLICT_AT} \
             AND (({committed}){})",
            if reservations.is_empty() {
                String::new()
            } else {
                format!(
                    " OR (mw.access >= 0 AND ow.txid IN ({}))",
                    list(&mut reservations.iter().map(|one| one.0))
                )
            }
        );
        let rows = connection.query(&sql, Effort::Point)?;
        let mut conflicts: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for batch in &rows.batches {
            let (losers, winners) = (integers(batch, 0)?, integers(batch, 1)?);
            for row in 0..batch.num_rows() {
                conflicts.entry(losers.value(row)).or_default().push(winners.value(row));
            }
        }
        let mut refused = HashMap::new();
        // In order of timestamps: whoever is refused refuses nobody behind it.
        for member in &self.members {
            let txid = member.submission.txid;
            let others = conflicts.get(&txid.0).into_iter().flatten();
            let counts = |other: &&i64| {
                let is_reserved = reservations.contains(&Txid(**other));
                if is_reserved {
                    return self.pipeline.reservations.holds_back(Txid(**other), txid);
                }
                !refused.contains_key(&Txid(**other))
            };
            if let Some(other) = others.copied().find(|other| counts(&other)) {
                refused.insert(txid, other);
            }
        }
        Ok(refused)
    }

    /// Tells who may not commit, and because of whom.
    fn abort_losers(&mut self, connection: &mut dyn Connection, losers: &HashMap<Txid, i64>) -> Result<()> {
        if losers.is_empty() {
            return Ok(());
        }
        let mut refused = HashMap::new();
        for Submission { txid, read_set, .. } in self.members.iter().map(|member| &member.submission) {
            let Some(other) = losers.get(txid) else { continue };
            let what = match read_set.is_empty() {
                true => "the same row, or what a constraint relied on,",
                false => "the same row, or what this one read or a constraint relied on,",
            };
            let message = format!("could not commit: a concurrent transaction wrote {what} first");
            let error = TiqueError::new(SqlState::SerializationFailure, message);
            let error = error.detail(format!("That was transaction {other}."));
            refused.insert(*txid, error.hint("Run the transaction again."));
        }
        self.abort(connection, refused)
    }

    /// Aborts members whose versions are not there, and tells each why. The others go on.
    fn abort(
        &mut self,
        connection: &mut dyn Connection,
        mut refused: HashMap<Txid, TiqueError>,
    ) -> Result<()> {
        if self.pipeline.options.certification == Certification::InEngine {
            let txids: Vec<_> = refused.keys().map(|txid| txid.0).collect();
            connection.append("tique_aborted", &batch_of(&[("txid", txids)])?)?;
        }
        let (mut kept, mut kept_timestamps, mut ended) = (vec![], vec![], vec![]);
        for (member, cts) in
            std::mem::take(&mut self.members).into_iter().zip(std::mem::take(&mut self.timestamps))
        {
            let Some(error) = refused.remove(&member.submission.txid) else {
                kept.push(member);
                kept_timestamps.push(cts);
                continue;
            };
            ended.push(cts);
            self.pipeline.answer(&member, Err(error));
        }
        (self.members, self.timestamps) = (kept, kept_timestamps);
        self.pipeline.counters.finish(ended);
        Ok(())
    }

    /// The versions of the winners, table by table, with their timestamps; they count as being in the caches from here on.
    fn versions(&self) -> Result<Vec<(String, RecordBatch)>> {
        if self.pipeline.options.layout == Layout::Joined {
            return Ok(Vec::new());
        }
        let mut tables: BTreeMap<&str, (&Arc<Table>, Vec<RecordBatch>)> = BTreeMap::new();
        for (member, cts) in self.members.iter().zip(&self.timestamps) {
            for (table, rows, keys) in &member.submission.rows {
                table.versions.note(keys.iter().map(String::as_str), *cts);
                let entry = tables.entry(&table.definition.name).or_insert_with(|| (table, Vec::new()));
                entry.1.push(stamped(rows, cts.0)?);
            }
        }
        let all = tables.into_values().map(|(table, batches)| {
            let rows = concat_batches(&table.rows, &batches)
                .map_err(|error| TiqueError::new(SqlState::EngineRefused, error.to_string()))?;
            table.note_appended(rows.num_rows());
            Ok((cache(&table.definition), rows))
        });
        all.collect()
    }

    fn write_versions(&mut self, connection: &mut Box<dyn Connection>) -> Result<()> {
        let versions = self.versions()?;
        let appends: Vec<_> = versions.iter().map(|(table, rows)| (table.as_str(), rows)).collect();
        let outcome = self.pipeline.append_all(connection, &appends).map_err(TiqueError::from);
        outcome.or_else(|error| self.go_on_without(connection, error))
    }

    /// Goes on without the members because of whom the versions of all were not written.
    ///
    /// # Errors
    /// The same error, if nobody can go on.
    fn go_on_without(&mut self, connection: &mut Box<dyn Connection>, error: TiqueError) -> Result<()> {
        let is_busy = error.state == SqlState::LockNotAvailable;
        // In the joined layout it is the marker that was not written, and all have one.
        let is_stamped = self.pipeline.options.layout == Layout::Stamped;
        if self.members.len() > 1 && (error.state == SqlState::EngineRefused || (is_busy && is_stamped)) {
            if !is_busy {
                self.delete_versions(&mut **connection)?;
            }
            return self.write_each(connection);
        }
        if !is_busy {
            return Err(error);
        }
        let all = self.members.iter().zip(&self.timestamps);
        let tell = |(member, cts): (&Arc<Waiting>, &Timestamp)| {
            (member.submission.txid, turned_away(member, *cts, error.clone()))
        };
        let refused: HashMap<_, _> = all.map(tell).collect();
        let txids: Vec<_> = refused.keys().copied().collect();
        self.pipeline.certifier.forget(&txids);
        self.abort(&mut **connection, refused)
    }

    /// Writes the versions of each member separately, after those of all together were not written. A member whose versions the engine
    /// does not write either has failed; the others go on.
    fn write_each(&mut self, connection: &mut Box<dyn Connection>) -> Result<()> {
        let mut refused = HashMap::new();
        for (member, cts) in self.members.iter().zip(&self.timestamps) {
            let rows = &member.submission.rows;
            let versions =
                rows.iter().map(|(table, rows, _)| Ok((cache(&table.definition), stamped(rows, cts.0)?)));
            let versions = versions.collect::<Result<Vec<_>>>()?;
            let appends: Vec<_> = versions.iter().map(|(table, rows)| (table.as_str(), rows)).collect();
            match self.pipeline.append_all(connection, &appends) {
                Ok(()) => {}
                Err(error) if error.kind == EngineErrorKind::Refused => {
                    delete_versions_of(&mut **connection, &[member], &[*cts])?;
                    rows.iter().for_each(|(table, ..)| table.versions.take_back(&[*cts]));
                    refused.insert(member.submission.txid, error.into());
                }
                Err(error) if error.kind == EngineErrorKind::Busy => {
                    let error = turned_away(member, *cts, error.into());
                    refused.insert(member.submission.txid, error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let txids: Vec<_> = refused.keys().copied().collect();
        self.pipeline.certifier.forget(&txids);
        if refused.is_empty() { Ok(()) } else { self.abort(&mut **connection, refused) }
    }

    /// Deletes the members' versions from the caches, as far as they are there.
    fn delete_versions(&self, connection: &mut dyn Connection) -> Result<()> {
        delete_versions_of(connection, &self.members.iter().collect::<Vec<_>>(), &self.timestamps)
    }

    fn marker(&self) -> Result<RecordBatch> {
        let txids = self.members.iter().map(|member| member.submission.txid.0).collect();
        let cts = self.timestamps.iter().map(|cts| cts.0).collect();
        batch_of(&[("txid", txids), ("cts", cts)])
    }

    fn mark(&mut self, connection: &mut dyn Connection) -> Result<()> {
        if self.members.is_empty() {
            return Ok(());
        }
        let marker = self.marker()?;
        self.stage = Stage::Marking;
        connection.append("tique_committed", &marker)?;
        Ok(connection.sync()?)
    }

    /// Versions and marker as one change.
    fn write_all(&mut self, connection: &mut Box<dyn Connection>) -> Result<()> {
        if self.members.is_empty() {
            return Ok(());
        }
        let (versions, marker) = (self.versions()?, self.marker()?);
        let mut appends: Vec<_> = versions.iter().map(|(table, rows)| (table.as_str(), rows)).collect();
        appends.push(("tique_committed", &marker));
        self.stage = Stage::Marking;
        if let Err(error) = self.pipeline.append_all(connection, &appends) {
            if error.kind != EngineErrorKind::Gone {
                self.stage = Stage::Stamped;
            }
            return Err(error.into());
        }
        Ok(connection.sync()?)
    }

    /// Tells all members that they failed. Their transactions are aborted, or left to recovery.
    fn fail(&mut self, error: &TiqueError) {
        let error = match self.stage {
            Stage::Queued | Stage::Ended => error.clone(),
            Stage::Stamped => match self.undo() {
                Ok(()) => error.clone(),
                Err(_) => {
                    self.pipeline.counters.stop(error.message.clone());
                    error.clone()
                }
            },
            Stage::Marking => {
                self.pipeline.counters.stop(error.message.clone());
                let what = format!("it is not known whether the transaction committed: {}", error.message);
                TiqueError::new(SqlState::TransactionResolutionUnknown, what).hint(
                    "Open the database again: recovery decides; then look for what the transaction wrote.",
                )
            }
        };
        self.stage = Stage::Ended;
        for member in std::mem::take(&mut self.members) {
            self.pipeline.answer(&member, Err(error.clone()));
        }
    }

    /// Takes the versions back and marks the transactions aborted.
    fn undo(&mut self) -> Result<()> {
        if self.timestamps.is_empty() {
            return Ok(());
        }
        let mut connection = self.pipeline.engine.connect()?;
        for (table, ..) in self.members.iter().flat_map(|member| &member.submission.rows) {
            table.versions.take_back(&self.timestamps);
        }
        let txids: Vec<_> = self.members.iter().map(|member| member.submission.txid.0).collect();
        self.delete_versions(&mut *connection)?;
        if self.pipeline.options.certification == Certification::InEngine {
            connection.append("tique_aborted", &batch_of(&[("txid", txids)])?)?;
        } else {
            let txids: Vec<_> = txids.into_iter().map(Txid).collect();
            self.pipeline.certifier.forget(&txids);
        }
        self.pipeline.counters.finish(std::mem::take(&mut self.timestamps));
        Ok(())
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if self.stage != Stage::Ended {
            self.fail(&TiqueError::new(SqlState::ConnectionFailure, "who led the commit died"));
        }
    }
}

/// What a transaction is told whose versions a query kept the engine from writing; it is not noted any more that they would be there.
fn turned_away(member: &Waiting, cts: Timestamp, error: TiqueError) -> TiqueError {
    for (table, rows, _) in &member.submission.rows {
        table.versions.take_back(&[cts]);
        table.note_deleted(rows.num_rows() as u64);
    }
    error.hint("Nothing of it took effect. Run the transaction again once the query has ended.")
}

/// Deletes versions of these transactions from the caches, as far as they are there.
fn delete_versions_of(
    connection: &mut dyn Connection,
    members: &[&Arc<Waiting>],
    timestamps: &[Timestamp],
) -> Result<()> {
    let (Some(first), Some(last)) = (timestamps.iter().min(), timestamps.iter().max()) else { return Ok(()) };
    let rows = members.iter().flat_map(|member| &member.submission.rows);
    let tables: HashSet<_> = rows.map(|(table, ..)| cache(&table.definition)).collect();
    let list = timestamps.iter().map(|cts| cts.0.to_string()).collect::<Vec<_>>().join(", ");
    for table in tables {
        let table = quoted(&table);
        let range = format!("{CTS} >= {} AND {CTS} <= {}", first.0, last.0);
        connection.execute(&format!("DELETE FROM {table} WHERE {range} AND {CTS} IN ({list})"))?;
    }
    Ok(())
}

fn integers(batch: &RecordBatch, column: usize) -> Result<&Int64Array> {
    let column = batch.column(column).as_any().downcast_ref::<Int64Array>();
    column.ok_or_else(|| {
        TiqueError::new(SqlState::EngineRefused, "the engine gave no integers for transaction ids")
    })
}

#[cfg(test)]
mod tests;
