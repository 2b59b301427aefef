// SPDX-License-Identifier: Apache-2.0
//! One node: what its user asks, and what it asks of its caller.

mod follow;
mod moves;
mod receive;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::keeper::{ClosedReport, ToKeeper};
use super::ledger::Ledger;
use super::load::{Load, Phase};
use super::message::{Body, CommitTerms, Message};
use super::readers::{ReaderId, SafeEpochs};
use super::record::{Effect, LoadFate, LoadOutcome, LogRecord};
use super::rules::{Rule, Rules};
use super::view::{BrickAddress, EpochKind, Incarnation, Member, NodeId, Placement, View, ViewNumber};
use crate::epochs::{Epoch, EpochSet, Stride};

use moves::Incoming;

/// Why a node does not do what it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The view that the node is at does not have it, or not in this life. Nothing has happened; ask another node.
    #[error("the node is not in the view")]
    OutOfView,
    /// The node has just come back and does not know yet what all others know. Nothing has happened; try again.
    #[error("the node has not met all others since it came back")]
    NotMet,
    /// The transaction takes no more work: it has ended or is about to, with or without its user's wish. How it ends
    /// is told by [`Effect::Tell`].
    #[error("the transaction is over")]
    Over,
    /// Somebody reads at another view. Nothing has happened; the reader's node asks again at its next view.
    #[error("the reader is at another view")]
    OtherView,
    /// LSE has passed what the reader would see.
    #[error("the snapshot is below what is kept")]
    BelowSafe,
    /// Not all that the reader would see has ended, for all that this node knows. Nothing has happened; LCE gets there by
    /// messages that are on their way.
    #[error("the node has not come so far")]
    Behind,
    /// The brick is not served here: the reader asks one of the nodes that have it.
    #[error("the brick is not here")]
    NotHere,
}

/// What a node has of a transaction that has not ended, of whichever coordinator.
#[derive(Clone, Debug, Default)]
struct Share {
    appends: BTreeSet<u32>,
    commit: Option<CommitTerms>,
    is_cut: bool,
}

/// A node of a cluster: it coordinates transactions, holds rows of them, and knows what has ended.
///
/// Pure state: it neither sends nor writes nor waits. Each call says what has happened (a message has come, the user
/// wants something, the keeper has written a record) and leaves behind what is to be done, which
/// [`take_effects`](Self::take_effects) gives in order. `R` is the caller's rows; they are cloned for each replica.
///
/// ```
/// use coeval_txn::cluster::{BrickAddress, ClusterNode, Effect, Incarnation, Member, NodeId, Placement, ViewKeeper};
/// use coeval_txn::{Epoch, Stride};
///
/// struct Everywhere;
///
/// impl Placement for Everywhere {
///     fn holders(&self, nodes: &[NodeId], _: BrickAddress) -> Vec<NodeId> {
///         nodes.to_vec()
///     }
/// }
///
/// let first = Member { node: NodeId::new(1), incarnation: Incarnation::new(1) };
/// let (_, record) = ViewKeeper::found(&[first], 1);
/// let mut node = ClusterNode::<&str, _>::new(first, Stride::ALONE, Everywhere);
/// node.follow(&record);
/// let epoch = node.begin()?;
/// node.append(epoch, BrickAddress { table: 1, brick: 7 }, "a row")?;
/// node.commit(epoch)?;
/// // The caller logs, syncs, and carries messages, here those of the node to itself.
/// for _ in 0..4 {
///     for effect in node.take_effects() {
///         if let Effect::Send(message) | Effect::SendOnceLogged(message) = effect {
///             node.receive(message);
///         }
///     }
/// }
/// assert_eq!(node.latest_committed(), Epoch::new(1));
/// # Ok::<(), coeval_txn::cluster::NodeError>(())
/// ```
#[derive(Debug)]
pub struct ClusterNode<R, P> {
    member: Member,
    log_since: Incarnation,
    placement: P,
    rules: Rules,
    view: Arc<View>,
    ledger: Ledger,
    /// The transactions that are coordinated here.
    loads: BTreeMap<Epoch, Load<R>>,
    /// What is here of transactions that have not ended.
    shares: BTreeMap<Epoch, Share>,
    /// Who has not told yet what it knows, at the present view, while that matters.
    unmet: BTreeSet<Member>,
    /// Whether this incarnation has once met all of a view.
    has_met_all: bool,
    /// The bricks that come to this node.
    incoming: Option<Incoming>,
    safe: SafeEpochs,
    has_left: bool,
    effects: Vec<Effect<R>>,
}

impl<R: Clone, P: Placement> ClusterNode<R, P> {
    /// A node with an empty log, before it has followed any record. It belongs to the cluster when a record says so.
    #[must_use]
    pub fn new(member: Member, stride: Stride, placement: P) -> Self {
        Self::recover(member, stride, placement, [])
    }

    /// EC.
    #[must_use]
    pub fn next_epoch(&self) -> Epoch {
        self.ledger.next()
    }

    /// LCE: everything that is not above it has ended, everywhere.
    #[must_use]
    pub fn latest_committed(&self) -> Epoch {
        self.ledger.latest_committed()
    }

    /// The epochs that are pending for all that this node knows.
    pub fn pending(&self) -> impl Iterator<Item = Epoch> + '_ {
        self.ledger.pending()
    }

    /// How many transactions are coordinated here whose users have not been told how they ended.
    #[must_use]
    pub fn open_loads(&self) -> usize {
        self.loads.values().filter(|load| !load.has_outcome()).count()
    }

    /// How many appends of a transaction that is coordinated here some holder has not answered. Their rows are kept here, so
    /// a caller that waits while these are many bounds what a slow holder costs.
    #[must_use]
    pub fn unanswered_appends(&self, epoch: Epoch) -> usize {
        self.loads.get(&epoch).map_or(0, Load::unanswered_appends)
    }

    /// Who this is.
    #[must_use]
    pub fn member(&self) -> Member {
        self.member
    }

    /// The view that the node is at.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether the cluster goes on without this incarnation. Its transactions and readers are over; the caller starts
    /// the node anew from its log, as after a crash.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// What is to be done, in this order; each only once.
    #[must_use]
    pub fn take_effects(&mut self) -> Vec<Effect<R>> {
        std::mem::take(&mut self.effects)
    }

    fn check_in_view(&self) -> Result<(), NodeError> {
        if self.view.has(self.member) { Ok(()) } else { Err(NodeError::OutOfView) }
    }

    /// Begins a load here; gives the label of its rows.
    ///
    /// # Errors
    ///
    /// If the node is not in the view, or has just come back and begins above nobody's clock yet.
    pub fn begin(&mut self) -> Result<Epoch, NodeError> {
        self.begin_kind(EpochKind::Load)
    }

    /// Begins a transaction that deletes bricks. The caller appends to each brick a marker that covers
    /// [`snapshot_of`](Self::snapshot_of) the transaction, once that is known.
    ///
    /// Deletes are for one node, that with the keeper, and one at a time: of two of them that each load what the other
    /// deletes there would be no serial order. When the keeper is elsewhere, an open one is rolled back
    /// ([`knows_other_deletes`](Self::knows_other_deletes) says what the caller owes).
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    pub fn begin_delete(&mut self) -> Result<Epoch, NodeError> {
        self.begin_kind(EpochKind::Delete)
    }

    fn begin_kind(&mut self, kind: EpochKind) -> Result<Epoch, NodeError> {
        self.check_in_view()?;
        if !self.has_met_all && self.rules.keep(Rule::ClockAboveAll) {
            return Err(NodeError::NotMet);
        }
        let epoch = self.ledger.begin(self.member.incarnation);
        assert_eq!(self.ledger.node_of(epoch), self.member.node, "a node hands out its own epochs");
        let mut load = Load::new(epoch, kind, self.latest_committed(), &self.view);
        // Else it asks itself, as it asks others.
        if self.may_answer_begin(kind) {
            if kind == EpochKind::Delete {
                self.ledger.note_delete(epoch);
            }
            load.note_begun(self.member.node, &self.ledger.pending_for(epoch), &self.view, self.rules);
        }
        let requests = load.requests(&self.view);
        self.loads.insert(epoch, load);
        self.send_all(requests);
        Ok(epoch)
    }

    /// Whether another delete than this one is open, for all that is known here. One that begins where the keeper has come to, and has
    /// its snapshot, goes on only if there is none: else it is rolled back, and begins again later.
    ///
    /// What is open on the node that had the keeper is known here then. All members had answered its begin when it got its snapshot; if
    /// that was before this node followed the record of the keeper, it answered too, and knows of it. If not, the other node was
    /// at that record as well, and has rolled it back.
    #[must_use]
    pub fn knows_other_deletes(&self, epoch: Epoch) -> bool {
        self.ledger.knows_other_deletes(epoch)
    }

    /// Adds rows to a brick. They go to all its holders, and are seen by nobody else before the transaction is decided.
    ///
    /// Rows of several bricks that have the same [places](Self::places_of) may be added together, as rows of any one of these bricks.
    ///
    /// # Errors
    ///
    /// If the transaction is over, also because the last holder of a brick is gone.
    pub fn append(&mut self, epoch: Epoch, brick: BrickAddress, rows: R) -> Result<(), NodeError> {
        let (placement, view, rules) = (&self.placement, Arc::clone(&self.view), self.rules);
        let load = self.loads.get_mut(&epoch).filter(|load| load.is_open()).ok_or(NodeError::Over)?;
        let requests = load.append(brick, rows, |started| places(started, placement, brick, rules), &view);
        let is_lost = !load.is_open();
        self.send_all(requests);
        self.advance(epoch);
        if is_lost { Err(NodeError::Over) } else { Ok(()) }
    }

    /// The nodes that rows of each of these bricks go to, ascending, if this transaction [adds](Self::append) some.
    ///
    /// That is fixed by the layout in which the transaction began. Of these nodes those are asked that live, whatever the brick: so where
    /// two bricks have the same nodes here, each node that is asked for the rows of one is asked for those of the other, as long as
    /// the transaction is open.
    ///
    /// # Errors
    ///
    /// If the transaction is over.
    pub fn places_of(
        &self,
        epoch: Epoch,
        bricks: impl IntoIterator<Item = BrickAddress>,
    ) -> Result<Vec<Vec<NodeId>>, NodeError> {
        let load = self.loads.get(&epoch).filter(|load| load.is_open()).ok_or(NodeError::Over)?;
        let of_brick = |brick| {
            let mut nodes = places(load.started(), &self.placement, brick, self.rules);
            nodes.sort_unstable();
            nodes.dedup();
            debug_assert!(nodes.is_sorted_by(|one, next| one < next), "places can be compared");
            nodes
        };
        Ok(bricks.into_iter().map(of_brick).collect())
    }

    /// The user wants the transaction committed. How it ends comes as [`Effect::Tell`].
    ///
    /// # Errors
    ///
    /// If the transaction is over.
    pub fn commit(&mut self, epoch: Epoch) -> Result<(), NodeError> {
        self.loads.get_mut(&epoch).filter(|load| load.is_open()).ok_or(NodeError::Over)?.commit();
        self.advance(epoch);
        Ok(())
    }

    /// The user wants the transaction rolled back. That it is comes as [`Effect::Tell`].
    ///
    /// # Errors
    ///
    /// If the transaction is over, or its user has wanted it committed; one that is [prepared](Self::prepare) may be rolled back.
    pub fn roll_back(&mut self, epoch: Epoch) -> Result<(), NodeError> {
        self.loads.get_mut(&epoch).filter(|load| load.may_roll_back()).ok_or(NodeError::Over)?.doom();
        self.advance(epoch);
        Ok(())
    }

    /// What a transaction that began here sees besides its own rows; `None` until all members have answered its begin,
    /// and when it is over.
    #[must_use]
    pub fn snapshot_of(&self, epoch: Epoch) -> Option<EpochSet> {
        self.loads.get(&epoch).filter(|load| load.phase() == Phase::Open)?.snapshot()
    }

    /// What a read-only transaction that begins here sees, on every node: all up to LCE (AOSI IV-C). It is held until
    /// it is [released](Self::release).
    ///
    /// # Errors
    ///
    /// If the node is not in the view, or has just come back.
    pub fn read_only(&mut self) -> Result<(ReaderId, EpochSet), NodeError> {
        self.check_may_show()?;
        Ok(self.hold(self.latest_committed()))
    }

    /// What a transaction that was declared read-only sees, on every node. It is serializable with all loads and deletes:
    /// what lacks a delete has nothing that the delete lacks. It is held until it is [released](Self::release).
    ///
    /// # Errors
    ///
    /// As [`read_only`](Self::read_only); and if there is no such snapshot that is not below LSE, which ends when the
    /// deletes under way end.
    pub fn declared_read_only(&mut self) -> Result<(ReaderId, EpochSet), NodeError> {
        self.check_may_show()?;
        let newest = self.ledger.newest_safe();
        if newest < self.latest_safe() {
            return Err(NodeError::BelowSafe);
        }
        Ok(self.hold(newest))
    }

    /// Up to which epoch [`declared_read_only`](Self::declared_read_only) shows everything now. Never less later, once the node has met
    /// all others.
    #[must_use]
    pub fn newest_shown(&self) -> Epoch {
        self.ledger.newest_safe()
    }

    /// What a reader sees on every node that has to see `age`, which the rows that it reads name, and nothing later. `age` is
    /// what [`declared_read_only`](Self::declared_read_only) gave on some node of this cluster, so this too is serializable with all
    /// loads and deletes; and with rows, if ages never grow less from version to version. It is held until it is
    /// [released](Self::release).
    ///
    /// # Errors
    ///
    /// As [`read_only`](Self::read_only). [`NodeError::Behind`] while LCE is below it here; [`NodeError::BelowSafe`] if LSE has
    /// passed it, or may, which it does not while [`note_oldest_age`](Self::note_oldest_age) keeps it from that.
    pub fn read_only_at(&mut self, age: Epoch) -> Result<(ReaderId, EpochSet), NodeError> {
        self.check_may_show()?;
        if age > self.latest_committed() && self.rules.keep(Rule::AgesThatHaveEnded) {
            return Err(NodeError::Behind);
        }
        // Others may have taken LSE up to what this node has promised.
        if age < self.latest_safe().max(self.safe.promised(self.member)) {
            return Err(NodeError::BelowSafe);
        }
        Ok(self.hold(age))
    }

    /// Readers will come with ages of rows ([`read_only_at`](Self::read_only_at)): LSE stands still until it is known how old these may
    /// be. To be said before the node has followed any record.
    pub fn expect_ages(&mut self) {
        self.safe.expect_ages();
    }

    /// No reader comes to this node any more with an age below this one: LSE may go up to it. Does nothing on a node that does not
    /// [expect ages](Self::expect_ages), and for an age below one that was noted.
    pub fn note_oldest_age(&mut self, age: Epoch) {
        self.safe.note_oldest_age(age);
    }

    fn check_may_show(&self) -> Result<(), NodeError> {
        self.check_in_view()?;
        if self.has_met_all || !self.rules.keep(Rule::MeetBeforeReading) {
            Ok(())
        } else {
            Err(NodeError::NotMet)
        }
    }

    fn hold(&mut self, through: Epoch) -> (ReaderId, EpochSet) {
        let set = EpochSet::through(through);
        (self.safe.hold(&set), set)
    }

    /// The reader has ended.
    ///
    /// # Panics
    ///
    /// If this node has given no such reader, or it was released before.
    pub fn release(&mut self, reader: ReaderId) {
        self.safe.release(reader);
    }

    /// Everything of the epochs up to `through`, of all bricks that are here, is in files. Above LCE that says nothing:
    /// more rows of these epochs may come.
    pub fn flushed(&mut self, through: Epoch) {
        self.safe.flushed(through.min(self.latest_committed()));
    }

    /// LSE: no reader anywhere, now or later, sees less than everything up to it, and it is in files on all members. What
    /// tells epochs below it apart can be forgotten.
    #[must_use]
    pub fn latest_safe(&self) -> Epoch {
        self.safe.latest_safe()
    }

    /// Whether who reads `brick` at `view` finds here what `snapshot` shows.
    ///
    /// # Errors
    ///
    /// If this node is at another view, not in it, or not one that serves the brick; or if LSE has passed the snapshot,
    /// which then was not held in this view.
    pub fn may_read(
        &self,
        view: ViewNumber,
        brick: BrickAddress,
        snapshot: &EpochSet,
    ) -> Result<(), NodeError> {
        self.check_in_view()?;
        if view != self.view.number() && self.rules.keep(Rule::SameView) {
            return Err(NodeError::OtherView);
        }
        let is_here = self.view.serving(&self.placement, brick).contains(&self.member.node);
        if !is_here {
            return Err(NodeError::NotHere);
        }
        if snapshot.horizon() < self.latest_safe() { Err(NodeError::BelowSafe) } else { Ok(()) }
    }

    /// Asks again all that is unanswered. The caller calls it when it has heard nothing for a while.
    pub fn resend(&mut self) {
        self.resend_requests(|load, view| load.requests(view));
    }

    /// As [`resend`](Self::resend), for a caller that calls it by the clock, whatever it has heard: rows are sent again only if they were
    /// unanswered already when this was called last. Those that were sent a moment ago are mostly on their way, and many; to leave them
    /// out is what a network does that loses them.
    pub fn resend_old(&mut self) {
        self.resend_requests(Load::old_requests);
    }

    fn resend_requests(&mut self, of_load: impl Fn(&mut Load<R>, &View) -> Vec<(NodeId, Body<R>)>) {
        if !self.view.has(self.member) {
            let join = ToKeeper::Join { member: self.member, log_since: self.log_since };
            self.effects.push(Effect::TellKeeperOnceLogged(join));
            return;
        }
        self.meet();
        self.report_closed();
        self.tell_floor();
        self.go_on_moving();
        let view = Arc::clone(&self.view);
        let requests: Vec<_> = self.loads.values_mut().flat_map(|load| of_load(load, &view)).collect();
        self.send_all(requests);
    }

    /// Asks those that have not told what they know.
    fn meet(&mut self) {
        let requests = self.unmet.iter().map(|member| (member.node, Body::Meet)).collect();
        self.send_all(requests);
    }

    /// Promises what this node will not go below, and moves LSE by what all have promised.
    fn tell_floor(&mut self) {
        if !self.has_met_all {
            return;
        }
        let loads = self.loads.values().filter(|load| !load.has_outcome()).map(Load::floor).min();
        let newest = self.ledger.newest_safe();
        let floor = self.safe.floor(loads.unwrap_or(newest).min(newest), self.rules);
        assert!(floor >= self.safe.promised(self.member), "what was promised stays promised");
        self.safe.note_floor(self.member, floor);
        self.advance_safe();
        let others = self.view.members().filter(|member| *member != self.member);
        self.send_all(others.map(|member| (member.node, Body::Floor(floor))).collect());
    }

    fn advance_safe(&mut self) {
        let before = self.latest_safe();
        let all = self.rules.keep(Rule::SafeOfAllMembers);
        self.safe.advance(self.view.members().filter(|member| all || *member == self.member));
        if self.latest_safe() > before {
            self.effects.push(Effect::Log(LogRecord::Safe(self.latest_safe())));
        }
        assert!(self.latest_safe() <= self.latest_committed(), "LSE is not above LCE");
    }

    /// Tells the keeper what is here of the transactions of dead coordinators.
    fn report_closed(&mut self) {
        let unclosed = self.view.unclosed();
        if unclosed.is_empty() {
            return;
        }
        let is_left = |epoch: &Epoch| unclosed.contains_key(&self.ledger.node_of(*epoch));
        let shares = self.shares.iter().filter(|(epoch, share)| is_left(epoch) && !share.is_cut);
        let commits = shares.filter_map(|(epoch, share)| Some((*epoch, share.commit.clone()?))).collect();
        let mut decided = self.ledger.standing(self.latest_safe()).committed;
        decided.retain(|decided| is_left(&decided.epoch));
        let report = ClosedReport {
            from: self.member,
            view: self.view.number(),
            clock: self.ledger.next(),
            latest_committed: self.latest_committed(),
            decided,
            commits,
        };
        self.effects.push(Effect::TellKeeperOnceLogged(ToKeeper::Closed(report)));
    }

    /// Takes a transaction of this node through all phases that it is ready for.
    fn advance(&mut self, epoch: Epoch) {
        let (view, own, rules) = (Arc::clone(&self.view), self.member.node, self.rules);
        while let Some(load) = self.loads.get_mut(&epoch) {
            let Some(phase) = load.advance(&view, own, rules) else { break };
            let requests = load.requests(&view);
            let decided = (phase == Phase::Decided).then(|| load.decided());
            let fate = if load.has_committed() { LoadFate::Committed } else { LoadFate::RolledBack };
            if let Some(decided) = decided {
                self.note_decided(&decided);
                self.tell(epoch, fate);
            } else if phase == Phase::Ended {
                self.note_ended(epoch);
                self.tell(epoch, fate);
            }
            self.send_all(requests);
        }
        if self.loads.get(&epoch).is_some_and(Load::is_over) {
            self.loads.remove(&epoch);
        }
    }

    fn tell(&mut self, epoch: Epoch, fate: LoadFate) {
        self.effects.push(Effect::Tell(LoadOutcome { epoch, fate }));
    }

    /// Appends to the own log what LCE has become, if it has moved since `before`.
    fn log_latest(&mut self, before: Epoch) {
        if self.latest_committed() > before {
            self.effects.push(Effect::Log(LogRecord::Latest(self.latest_committed())));
        }
    }

    fn send_all(&mut self, requests: Vec<(NodeId, Body<R>)>) {
        for (node, body) in requests {
            if let Some(to) = self.view.member(node) {
                let message = self.envelope(to, body);
                self.effects.push(Effect::Send(message));
            }
        }
    }

    fn envelope(&self, to: Member, body: Body<R>) -> Message<R> {
        Message { from: self.member, to, view: self.view.number(), clock: self.ledger.next(), body }
    }

    /// Promises something that a crash must not undo.
    fn promise(&mut self, to: Member, body: Body<R>) {
        let message = self.envelope(to, body);
        let is_kept = self.rules.keep(Rule::LogBeforeAnswer);
        self.effects.push(if is_kept { Effect::SendOnceLogged(message) } else { Effect::Send(message) });
    }
}

/// The nodes that rows of a brick go to, by the layout in which their transaction began.
fn places(started: &View, placement: &impl Placement, brick: BrickAddress, rules: Rules) -> Vec<NodeId> {
    let receiving = started.receiving(placement, brick).into_iter();
    let receiving = receiving.filter(|_| rules.keep(Rule::AppendToBoth));
    let nodes: Vec<NodeId> = started.serving(placement, brick).into_iter().chain(receiving).collect();
    assert!(!nodes.is_empty(), "rows of a brick go to some node");
    nodes
}
