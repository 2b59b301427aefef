// SPDX-License-Identifier: Apache-2.0
//! The commit pipeline: submit, batch, certify, apply, log, publish, acknowledge.
//!
//! Why one: versions must be published in the order in which they were certified, and one sync should serve
//! many. Whoever wants to commit queues its submission (`turns.rs`); one at a time leads for all in the queue, and
//! the others sleep until they are told. The leader certifies in queue order, applies the batch to
//! the newest applied world, appends one log record and lets go of the lock, so that the next batch is
//! certified while this one is synced. Then each waits until its version is published (`publishing.rs`): one syncs
//! for all, and worlds become visible in order, each not before its record is durable.
//! What becomes of a panic on the way: `publishing/stopping.rs`.
//!
//! ```text
//! submit --> queue --turn--> certify, apply, append --> pending --syncer--> published --> acknowledge
//!                            (leader lock)               (publishing lock)
//! ```
//!
//! # Locking
//! `leader` before `publishing`; that of `turns` is held for a push or a drain alone. No lock is held across a sync.

mod applying;
mod certifying;
mod leading;
mod new_indexes;
mod registrations;

use crate::bricks::BrickChanges;
use crate::certification::Certification;
use crate::checkpoints::Checkpoints;
use crate::clock::LogTime;
use crate::commit_context::CommitContext;
use crate::conflicts::{Participants, Party};
use crate::durations::DurationCounters;
use crate::error::StoreError;
use crate::footprint::{Footmark, GlobalKey, group, heap_bytes};
use crate::ids::SpaceId;
use crate::index_file::LateIndex;
use crate::log::{Log, LogError, LogHandle, Lsn, Unfilled};
use crate::options::{Durability, Sizes};
use crate::publishing::{Publishing, Wanted, contained};
use crate::reads::ReadSet;
use crate::recent_loads::{RecentLoad, RecentLoads};
use crate::record::{
    BOUNDARY_BYTES, ENDED_BYTES, TIME_BYTES, batch_bytes, encode_boundary, encode_ended, encode_time,
};
use crate::replicas::SynchronousCommit;
use crate::reservations::{Accessed, Reservations};
use crate::serializable::Certifications;
use crate::submission::Submission;
use crate::trap::Step;
use crate::turns::{Next, Taken, Ticket, Turn, Turns};
use crate::world::World;
use crate::write_set::WriteSet;
use coeval_txn::ssi::Certified;
use coeval_txn::{Access, Certifier, CommitOrder, Epoch, LargeFootprint, LockOwner, TransactionId, Version};
use leading::Leading;
pub(crate) use new_indexes::NewFiles;
use parking_lot::Mutex;
use registrations::Registrations;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

type Verdict = Result<CommitOrder, StoreError>;
/// A submission on its way.
type CommitTicket = Ticket<Submission, Verdict>;
type CommitTurn<'t> = Turn<'t, Submission, Verdict>;
/// What those of one batch are to be told.
type Verdicts = Vec<(Arc<CommitTicket>, Verdict)>;

/// A submission that was certified and applied.
struct Admitted<'t> {
    ticket: &'t Arc<CommitTicket>,
    submission: Submission,
    /// The version of its first out-edge.
    first_out: Option<Version>,
    /// What was done to its new indexes whose entries lie in files.
    late: Vec<LateIndex>,
}

/// A large body of a batch of one, and its place in the log: it is written there without the leader's lock.
struct Tail {
    place: Unfilled,
    body: Vec<u8>,
    version: Version,
}

/// What became of a batch under the leader's lock.
struct Led {
    verdicts: Verdicts,
    tail: Option<Tail>,
    /// What the certifier has forgotten; letting go of it may take long.
    forgotten: Forgotten,
}

/// See [`Led`].
type Forgotten = Vec<Arc<LargeFootprint<GlobalKey>>>;

/// How often one who waits for the leader looks before it goes to sleep, and for how long it pauses in between:
/// some 50 microseconds together.
const LOOKS_MAX: usize = 100;
/// See [`LOOKS_MAX`].
const PAUSES_BETWEEN_LOOKS: usize = 16;

/// A flag that is set while one waiting thread watches the leader without sleeping; dropping this clears it.
struct LookingOn<'a>(&'a AtomicBool);

impl Drop for LookingOn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// What only the leader touches.
pub(crate) struct Leader {
    certifier: Certifier<GlobalKey>,
    certifications: Certifications,
    participants: Participants,
    pub(crate) log: Option<Log>,
    /// The boundary of safe snapshots as the log knows it.
    logged_boundary: Version,
    /// Bulk loads that transactions which are still active do not see.
    recent_loads: RecentLoads,
    /// See [`Sizes::leader_rows_max`].
    rows_max: usize,
}

/// The pipeline of one store.
///
/// # Locking
/// See the module.
pub(crate) struct Pipeline {
    turns: Turns<Submission, Verdict>,
    leader: Mutex<Leader>,
    pub(crate) stays: DurationCounters,
    pub(crate) publishing: Publishing,
    /// Whether one of those who wait for their verdict has not gone to sleep yet.
    someone_looks_on: AtomicBool,
    processors: usize,
    durability: Durability,
    pub(crate) reservations: Arc<Reservations>,
    /// Up to where the log says that epochs have ended; changed under the leader's lock.
    logged_ended: AtomicU64,
}

impl Pipeline {
    /// The pipeline of a store that begins with this version and this newest epoch, up to which all have ended.
    pub(crate) fn new(
        log: Option<Log>,
        durability: Durability,
        (published, ended): (Version, Epoch),
        sizes: Sizes,
    ) -> Self {
        let handle = log.as_ref().map(Log::handle);
        Self {
            turns: Turns::new(),
            leader: Mutex::new(Leader {
                certifier: Certifier::bounded(sizes.certified_keys_max, group, heap_bytes),
                certifications: Certifications::new(sizes.trials),
                participants: Participants::default(),
                log,
                logged_boundary: published,
                recent_loads: RecentLoads::default(),
                rows_max: sizes.leader_rows_max,
            }),
            stays: DurationCounters::default(),
            publishing: Publishing::new(handle, published),
            someone_looks_on: AtomicBool::new(false),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            durability,
            reservations: Arc::default(),
            logged_ended: AtomicU64::new(ended.get()),
        }
    }

    /// Takes a submission through until it is applied: what it did is visible and durable when its version is
    /// published. Its row locks end when it is applied, or refused: whoever waits for them reads the applied world, and
    /// is acknowledged later than this is. Its new indexes have [caught up](Self::catch_indexes_up) before.
    pub(crate) fn commit(
        &self,
        context: &CommitContext,
        submission: Submission,
        locks: Option<LockOwner<GlobalKey>>,
    ) -> Result<CommitOrder, StoreError> {
        let ticket = Arc::new(Ticket::new(submission));
        let mut turn = self.turns.enter(&ticket);
        let verdict = loop {
            if let Some(turn) = turn.take() {
                self.lead(context, turn);
            }
            match self.wait(context, &ticket) {
                Next::Verdict(verdict) => break verdict,
                Next::Lead(next) => turn = Some(next),
            }
        };
        drop(locks);
        verdict
    }

    /// Waits until the ticket has its verdict, or its owner is to lead.
    ///
    /// A batch takes tens of microseconds, about as long as it takes to put a thread to sleep and wake it. So
    /// one of those who wait looks on for that time, if no other transaction could use its processor.
    fn wait(&self, context: &CommitContext, ticket: &CommitTicket) -> Next<'_, Submission, Verdict> {
        if let Some(next) = self.turns.poll(ticket) {
            return next;
        }
        let has_processor = context.active_snapshots() <= self.processors;
        if has_processor && !self.someone_looks_on.swap(true, Ordering::Relaxed) {
            let _turn = LookingOn(&self.someone_looks_on);
            for _ in 0..LOOKS_MAX {
                for _ in 0..PAUSES_BETWEEN_LOOKS {
                    std::hint::spin_loop();
                }
                if let Some(next) = self.turns.poll(ticket) {
                    return next;
                }
            }
        }
        context.aside(|| self.turns.wait(ticket))
    }

    /// The leader's lock.
    pub(crate) fn lock_leader(&self, context: &CommitContext) -> Leading<'_> {
        let leader = self.leader.try_lock().unwrap_or_else(|| context.aside(|| self.leader.lock()));
        Leading::new(leader, self)
    }

    /// The leader's lock, with room in the log for a record with a payload of at most this size. If that takes another
    /// segment, it is made without the lock.
    ///
    /// # Errors
    /// As the log has them when it takes no record; nothing was written.
    pub(crate) fn lock_leader_to_append(
        &self,
        context: &CommitContext,
        payload_bytes: usize,
    ) -> Result<Leading<'_>, LogError> {
        loop {
            let mut leader = self.lock_leader(context);
            let Some(log) = &mut leader.log else { return Ok(leader) };
            let Some(next) = log.reserve(payload_bytes)? else { return Ok(leader) };
            drop(leader);
            context.aside(|| next.make())?;
        }
    }

    /// The leader's lock, if nobody has it.
    pub(crate) fn try_lock_leader(&self) -> Option<Leading<'_>> {
        self.leader.try_lock().map(|leader| Leading::new(leader, self))
    }

    /// Leads for all in the queue. A panic stops commits, and everybody is told so.
    fn lead(&self, context: &CommitContext, turn: CommitTurn<'_>) {
        let taken = Taken::new(turn.take(), || Err(self.publishing.left_by_panic()));
        let mut turn = Some(turn);
        let is_long = taken.tickets().iter().any(is_structural);
        let lead = || {
            let mut lead = || self.lead_taken(context, &mut turn, taken.tickets());
            if is_long { context.aside(lead) } else { lead() }
        };
        if contained(&self.publishing, "in the commit pipeline", lead).is_ok() {
            taken.disarm();
        }
    }

    /// Takes one batch after the other through. Those who have come meanwhile go on as soon as the last one is logged.
    fn lead_taken(
        &self,
        context: &CommitContext,
        turn: &mut Option<CommitTurn<'_>>,
        tickets: &[Arc<CommitTicket>],
    ) {
        context.trap.pass(Step::Take);
        let mut rest = tickets;
        while let Some(first) = rest.first() {
            let length = if is_structural(first) {
                1
            } else {
                let end = rest.iter().position(is_structural).unwrap_or(rest.len());
                fitting(&rest[..end], context.sizes.batch_bytes_max)
            };
            let (batch, others) = rest.split_at(length);
            let rows_max = context.sizes.leader_rows_max;
            let bytes_of =
                |submission: &Submission| submission.body.len() + submission.late_bytes_max(rows_max);
            let bytes = batch_bytes(batch.iter().map(|ticket| ticket.look(bytes_of).unwrap_or(0)));
            let led = match self.log_time(context).and_then(|()| self.lock_leader_to_append(context, bytes)) {
                Ok(mut leader) => self.lead_batch(&mut leader, context, batch),
                Err(error) => self.refuse_for_log(batch, error),
            };
            if others.is_empty() {
                *turn = None;
            }
            let Led { verdicts, tail, forgotten } = led;
            let verdicts = self.write_tail(context, verdicts, tail);
            context.trap.pass(Step::Verdicts);
            for (ticket, verdict) in verdicts {
                ticket.give(verdict);
            }
            drop(forgotten);
            rest = others;
        }
    }

    /// Certifies, applies and logs one batch. Those of it are told later, without the leader's lock.
    fn lead_batch(&self, leader: &mut Leader, context: &CommitContext, tickets: &[Arc<CommitTicket>]) -> Led {
        let newest = context.applied();
        let version = newest.version().next();
        let mut world = World::clone(&newest);
        world.set_version(version);
        let mut admitted: Vec<Admitted<'_>> = Vec::with_capacity(tickets.len());
        let mut refused: Verdicts = Vec::new();
        let mut registrations = Registrations::new(&self.publishing);
        for ticket in tickets {
            let mut submission = ticket.take_order().expect("a submission is taken from the queue once");
            let is_free =
                self.publishing.check_running().and_then(|()| self.reservations.check(&newest, &submission));
            context.trap.pass(Step::Certify);
            let certified = is_free.and_then(|()| leader.certify(&newest, &submission));
            let outcome = certified.and_then(|certified| {
                context.trap.pass(Step::Apply);
                let late = leader.apply(&mut world, &submission)?;
                Ok((certified, late))
            });
            match outcome {
                Ok((certified, late)) => {
                    let position = u32::try_from(admitted.len()).expect("a batch is bounded by its sessions");
                    let first_out = certified.as_ref().and_then(Certified::first_out);
                    let first_out = first_out.map(|first_out| first_out.version);
                    let first_out = first_out.filter(|_| context.tells_of_safe());
                    registrations.add(&submission);
                    leader.admit(context, CommitOrder { version, position }, &submission, certified);
                    context.trap.pass(Step::Admit);
                    submission.certification = None;
                    admitted.push(Admitted { ticket, submission, first_out, late });
                }
                Err(error) => refused.push((Arc::clone(ticket), Err(leader.with_winner(error)))),
            }
        }
        commit_epochs(&mut world, &admitted);
        world.add_commits(admitted.len());
        let logged = if admitted.is_empty() {
            Ok(None)
        } else {
            self.log_and_install(leader, context, world, &mut admitted, registrations)
        };
        let (tail, logged) = match logged {
            Ok(tail) => (tail, Ok(())),
            Err(reason) => (None, Err(reason)),
        };
        // The refused last: who was refused may wait for the version that it lost to, and that may be this one.
        let admitted = (0..).zip(&admitted).map(|(position, admitted)| {
            let order = CommitOrder { version, position };
            let verdict = logged.clone().map(|()| order).map_err(StoreError::OutcomeUnknown);
            (Arc::clone(admitted.ticket), verdict)
        });
        let verdicts = admitted.chain(refused).collect();
        Led { verdicts, tail, forgotten: leader.certifier.take_forgotten() }
    }

    /// Writes the large body of a batch of one where it belongs. If that fails, commits have stopped.
    fn write_tail(&self, context: &CommitContext, mut verdicts: Verdicts, tail: Option<Tail>) -> Verdicts {
        let Some(Tail { place, body, version }) = tail else { return verdicts };
        context.trap.pass(Step::Fill);
        match place.fill(&body) {
            Ok(()) if self.durability == Durability::None => self.publishing.note_whole(context, version),
            // The thread that syncs the log publishes it.
            Ok(()) => {}
            Err(error) => {
                let reason = self.publishing.stop(error);
                for (_, verdict) in &mut verdicts {
                    *verdict = Err(StoreError::OutcomeUnknown(reason.clone()));
                }
            }
        }
        verdicts
    }

    /// Refuses everybody, as the log takes no record; nothing was certified or written.
    fn refuse_for_log(&self, tickets: &[Arc<CommitTicket>], error: LogError) -> Led {
        // Without room the log goes on.
        let is_running = matches!(error, LogError::NoRoom(_));
        let reason = if is_running { error } else { self.publishing.stop(error) };
        let refuse = |ticket: &Arc<CommitTicket>| {
            drop(ticket.take_order());
            let reason = reason.clone();
            let error = if is_running { StoreError::Log(reason) } else { StoreError::Stopped(reason) };
            (Arc::clone(ticket), Err(error))
        };
        Led { verdicts: tickets.iter().map(refuse).collect(), tail: None, forgotten: Forgotten::new() }
    }

    /// Logs a batch, but for a large body, and makes its world the newest applied one. Returns why that failed: commits have
    /// stopped then, and nobody knows whether the log has the batch.
    fn log_and_install(
        &self,
        leader: &mut Leader,
        context: &CommitContext,
        world: World,
        admitted: &mut [Admitted<'_>],
        registrations: Registrations<'_>,
    ) -> Result<Option<Tail>, LogError> {
        let version = world.version();
        let bytes: usize = admitted.iter().map(|admitted| admitted.submission.body.len()).sum();
        assert!(bytes <= context.sizes.batch_bytes_max, "a batch fits in a log record");
        let changes = admitted.iter().map(|admitted| admitted.submission.change_count()).sum();
        context.trap.pass(Step::Append);
        let logged = leader.append(context, version, admitted).map(|(lsn, place)| {
            let body =
                |place| Tail { place, body: std::mem::take(&mut admitted[0].submission.body), version };
            (lsn, place.map(body))
        });
        context.trap.pass(Step::Install);
        match &logged {
            Ok((lsn, tail)) => {
                // All of a batch wait for what one of it waits for.
                let levels = admitted.iter().map(|admitted| admitted.submission.synchronous_commit);
                let wanted = match (self.durability, levels.max()) {
                    (Durability::Fsync, Some(SynchronousCommit::Off)) => Wanted::Soon(*lsn),
                    (Durability::Fsync, level) => Wanted::First(*lsn, level.unwrap_or_default()),
                    (Durability::None, _) if tail.is_some() => Wanted::NeverButWhole,
                    (Durability::None, _) => Wanted::Never,
                };
                self.publishing.push(context, Arc::new(world), wanted, registrations.of_logged());
                context.keeper.note_commit(changes, *lsn);
                if admitted.iter().any(|admitted| !admitted.submission.bricks.epochs.is_empty()) {
                    context.keeper.note_bricks();
                }
            }
            Err(reason) => drop(self.publishing.stop(reason.clone())),
        }
        context.trap.pass(Step::Prune);
        leader.prune(context);
        logged.map(|(_, tail)| tail)
    }

    /// Writes down what time it is, if the log is to know that again. A record of its own, with room of its own: the batch
    /// that comes behind may need a segment to itself. It is not synced, and says nothing that anybody would miss.
    fn log_time(&self, context: &CommitContext) -> Result<(), LogError> {
        if !context.sizes.begins_terms || context.clock.due().is_none() {
            return Ok(());
        }
        let mut leader = self.lock_leader_to_append(context, TIME_BYTES)?;
        let Some((log, time)) = leader.log.as_mut().zip(context.clock.due()) else { return Ok(()) };
        log.append_inert(|out| encode_time(time, out))?;
        context.trap.pass(Step::Time);
        context.clock.raise(time);
        Ok(())
    }

    /// Writes down how far safe snapshots may go by now, if the log does not know: a heartbeat for those who follow
    /// the log while nobody commits. Returns whether the log knows of everything that was published. It is not
    /// synced: it says nothing that somebody waits for.
    pub(crate) fn log_boundary(&self, context: &CommitContext) -> bool {
        if context.is_following() || !context.tells_of_safe() {
            return true;
        }
        // A log that failed says so at the next commit.
        let Ok(mut leader) = self.lock_leader_to_append(context, BOUNDARY_BYTES) else { return true };
        let Leader { log: Some(log), logged_boundary, .. } = &mut *leader else { return true };
        let boundary = context.boundary_for_others();
        context.trap.pass(Step::Beat);
        if boundary > *logged_boundary {
            if log.append_inert(|out| encode_boundary(boundary, out)).is_err() {
                return true;
            }
            *logged_boundary = boundary;
        }
        boundary >= context.applied().version()
    }

    /// Writes down that epochs of brick tables have ended up to this one, for those who follow the log, if it does not say so
    /// yet. It is not synced, and says nothing that anybody else would miss.
    pub(crate) fn log_ended_epochs(&self, context: &CommitContext, ended: Epoch) {
        if context.is_following() || self.logged_ended.load(Ordering::Relaxed) >= ended.get() {
            return;
        }
        // A log that failed says so at the next commit.
        let Ok(mut leader) = self.lock_leader_to_append(context, ENDED_BYTES) else { return };
        // Under the lock all that has committed up to there is in the log.
        let Some(log) = leader.log.as_mut() else { return };
        if log.append_inert(|out| encode_ended(ended, out)).is_ok() {
            self.logged_ended.fetch_max(ended.get(), Ordering::Relaxed);
        }
    }

    /// Makes the term of this opening durable in the log, if it has not written yet.
    ///
    /// # Errors
    /// As the log has them when it takes no record.
    pub(crate) fn log_term(&self, context: &CommitContext) -> Result<(), LogError> {
        let Some(handle) = self.log() else { return Ok(()) };
        let is_new = context.terms().last().is_some_and(|term| term.start == handle.end_lsn());
        if context.is_following() || !is_new {
            return Ok(());
        }
        let end = {
            let mut leader = self.lock_leader_to_append(context, BOUNDARY_BYTES)?;
            let Leader { log: Some(log), logged_boundary, .. } = &mut *leader else { return Ok(()) };
            *logged_boundary = context.boundary_for_others();
            log.append_inert(|out| encode_boundary(*logged_boundary, out))?
        };
        handle.sync(end).map(drop)
    }

    /// Makes the log durable, with a record at its end that attests all before it: damage there is told from a torn tail
    /// from then on. For the time when nobody commits; an end that is attested already stays as it is. The end is noted
    /// beside the log as well.
    ///
    /// # Errors
    /// Those of the log, and of the note: all that was appended is as durable as it was.
    pub(crate) fn attest_log(&self, context: &CommitContext) -> Result<(), LogError> {
        let Some(handle) = self.log() else { return Ok(()) };
        if context.is_following() {
            // Its log stays the beginning of another one.
            handle.sync(handle.end_lsn())?;
            return handle.note_end();
        }
        if self.publishing.check_whole().is_err() {
            // Behind a panic nobody vouches for what the log has.
            return Ok(());
        }
        handle.sync(handle.end_lsn())?;
        let end = {
            let mut leader = self.lock_leader_to_append(context, BOUNDARY_BYTES)?;
            let log = leader.log.as_mut().filter(|log| !log.is_attested());
            log.map(|log| log.append_inert(|out| encode_boundary(context.boundary_for_others(), out)))
                .transpose()?
        };
        if let Some(end) = end {
            handle.sync(end)?;
        }
        context.trap.pass(Step::Attest);
        handle.note_end()
    }

    /// The newest applied world, if nothing of `reads` was overwritten since the snapshot `begin`, and nothing of the
    /// footprint or the tables' key ranges taken by others.
    pub(crate) fn newest_if_unaffected(
        &self,
        context: &CommitContext,
        begin: Version,
        reads: &ReadSet,
        footprint: &[Footmark],
        tables: &[SpaceId],
    ) -> Option<Arc<World>> {
        let mut leader = self.lock_leader(context);
        if self.publishing.check_whole().is_err() {
            return None;
        }
        let newest = context.applied();
        let is_loaded = |load: &RecentLoad| load.version > begin && tables.contains(&load.table);
        let is_affected = leader.recent_loads.iter().any(is_loaded)
            || leader.certifications.is_overwritten(begin, reads)
            || leader.certify_footprint(&newest, footprint).is_err();
        (!is_affected).then_some(newest)
    }

    /// Reserves what a transaction with priority accessed that has lost. Returns the newest applied version: who begins
    /// there or later and accesses the same finds it as it is.
    pub(crate) fn reserve(
        &self,
        context: &CommitContext,
        number: u64,
        transaction: TransactionId,
        accessed: Accessed,
    ) -> Version {
        let (_ended, newest) = {
            let _leader = self.lock_leader(context);
            (self.reservations.reserve(number, transaction, accessed), context.applied().version())
        };
        newest
    }

    /// The conflict, won by the latest of those who have changed the key since the snapshot `begin`, which is held.
    pub(crate) fn with_writer_since(
        &self,
        context: &CommitContext,
        begin: Version,
        key: &GlobalKey,
        error: StoreError,
    ) -> StoreError {
        let StoreError::Conflict(mut conflict) = error else { return error };
        let mut leader = self.lock_leader(context);
        if self.publishing.check_whole().is_err() {
            return StoreError::Conflict(conflict);
        }
        if let Err(found) = leader.certifier.certify(begin, std::iter::once((key, Access::Update))) {
            conflict.cause = conflict.cause.won_by(found.other_transaction);
        }
        leader.with_winner(StoreError::Conflict(conflict))
    }

    /// The version of the first out-edge so far of a transaction that has read this of the snapshot `begin`.
    pub(crate) fn first_out(
        &self,
        context: &CommitContext,
        begin: Version,
        reads: &ReadSet,
    ) -> Option<Version> {
        self.lock_leader(context).certifications.first_out(begin, reads)
    }

    /// A committed transaction that has read what an open one with the snapshot `begin` has overwritten.
    pub(crate) fn in_edge(
        &self,
        context: &CommitContext,
        begin: Version,
        written: &WriteSet,
    ) -> Option<TransactionId> {
        self.lock_leader(context).certifications.in_edge(begin, written)
    }

    /// Certifies a serializable transaction that wrote nothing, and remembers what it read.
    pub(crate) fn certify_reader(
        &self,
        context: &CommitContext,
        party: Party,
        certification: &Certification,
    ) -> Result<(), StoreError> {
        let mut leader = self.lock_leader(context);
        self.publishing.check_whole()?;
        let newest = context.applied();
        let certified = leader.certifications.certify_reader(&newest, party.transaction, certification);
        certified.map_err(|error| leader.with_winner(error))?;
        if party.is_declared_reader {
            let oldest = context.serializable.oldest_writer(|| context.published_slot().load().version());
            leader.participants.note_reader(party.transaction, certification.begin, oldest);
        }
        leader.participants.note(party);
        Ok(())
    }

    /// Puts an equal world into the place of the newest applied one, and returns it with the end of the log and the last
    /// time before that: the beginning of a checkpoint. All worlds that come after have it as their ancestor.
    pub(crate) fn replace_newest(
        &self,
        context: &CommitContext,
        change: impl FnOnce(&World) -> World,
    ) -> (Arc<World>, Option<Lsn>, LogTime) {
        let leader = self.lock_leader(context);
        let world = self.publishing.replace_newest(context, change);
        context.trap.pass(Step::Freeze);
        let end = leader.log.as_ref().map(|log| context.applied_end.get().unwrap_or(log.end_lsn()));
        (world, end, context.clock.last())
    }

    /// Puts an equal world into the place of the newest applied one, which does not leave out the epochs that were rolled
    /// back since it was made.
    pub(crate) fn pass_rolled_back_epochs(&self, context: &CommitContext, checkpoints: &Checkpoints) {
        let _leader = self.lock_leader(context);
        // In a store that has stopped, epochs may have ended with a commit that is in no world.
        if self.publishing.check_running().is_err() {
            return;
        }
        let newest = context.applied();
        let epochs = newest.ended_epochs();
        checkpoints.note_rolled_back(&epochs);
        self.publishing.replace_newest(context, |world| world.with_rolled_back(&epochs));
        context.bury(vec![newest]);
    }

    /// Replaces contents by equal contents in every world that is or will be visible: the end of a
    /// checkpoint. `change` is a function of the world alone. Returns the old worlds: dropping one may take
    /// long.
    #[must_use = "dropping the last reference to a world takes long"]
    pub(crate) fn replace_worlds(
        &self,
        context: &CommitContext,
        change: impl Fn(&World) -> World,
    ) -> Vec<Arc<World>> {
        let _leader = self.lock_leader(context);
        context.trap.pass(Step::PutInPlace);
        let mut old = self.publishing.replace_worlds(context, change);
        old.extend(context.serializable.refresh_safe(context.published_slot()));
        old
    }

    /// The log, if there is one.
    pub(crate) fn log(&self) -> Option<&LogHandle> {
        self.publishing.log()
    }
}

impl Leader {
    fn admit(
        &mut self,
        context: &CommitContext,
        order: CommitOrder,
        submission: &Submission,
        certified: Option<Certified>,
    ) {
        if let Some(footprint) = &submission.large_footprint {
            self.certifier.admit_large(order, submission.transaction, Arc::clone(footprint));
        } else {
            let accesses = submission.footprint.iter().map(|mark| (&mark.key, mark.admit));
            self.certifier.admit(order, submission.transaction, accesses);
        }
        self.participants.note(submission.party);
        let published = context.published_slot().load().version();
        self.certifications.admit(&context.serializable, published, order, submission, certified);
        for load in &submission.loads {
            if let Some((first, last)) = load.key_span() {
                let (version, table) = (order.version, load.table());
                self.recent_loads.note(RecentLoad { version, table, first, last });
            }
        }
    }

    /// Forgets what no active transaction can conflict with any more.
    fn prune(&mut self, context: &CommitContext) {
        let oldest = context.oldest_certified();
        self.certifier.prune(oldest);
        self.certifications.prune(&context.serializable, || context.published_slot().load().version());
        self.recent_loads.forget_through(oldest);
    }
}

/// Makes what a batch did to brick tables exist in its world. Its rows are in place since before it was submitted.
fn commit_epochs(world: &mut World, admitted: &[Admitted<'_>]) {
    let changes = || admitted.iter().map(|admitted| &admitted.submission.bricks);
    let epochs: Vec<_> = changes().flat_map(|changes| changes.epochs.iter().copied()).collect();
    if !epochs.is_empty() {
        changes().for_each(BrickChanges::set_committed);
        world.commit_epochs(&epochs);
    }
}

/// Whether a submission changes definitions or loads rows in bulk: it is a batch of its own, and may take long.
fn is_structural(ticket: &Arc<CommitTicket>) -> bool {
    ticket.look(Submission::is_structural).unwrap_or(false)
}

/// How many of these fit in one log record: one at least, which was measured before. A large one is alone.
fn fitting(tickets: &[Arc<CommitTicket>], bytes_max: usize) -> usize {
    let mut bytes = 0;
    let is_large = |ticket: &Arc<CommitTicket>| ticket.look(Submission::is_large).unwrap_or(false);
    if tickets.first().is_some_and(is_large) {
        return 1;
    }
    let mut fits = |ticket: &Arc<CommitTicket>| {
        bytes += ticket.look(|submission| submission.body.len()).unwrap_or(0);
        bytes <= bytes_max && !is_large(ticket)
    };
    tickets.iter().position(|ticket| !fits(ticket)).unwrap_or(tickets.len()).max(1)
}

#[cfg(test)]
mod tests;
