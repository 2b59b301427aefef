// SPDX-License-Identifier: Apache-2.0
//! [`Engine`]: the state of one life of a node, behind its lock.

use super::addresses::KnownAddresses;
use super::codes::bounds_of;
use super::counters::MessageCounts;
use super::options::NodeOptions;
use super::shares::Arrived;
use crate::brick_change::BrickChange;
use crate::keeper::{HoldingLink, KeeperLink};
use crate::node::NodeId;
use crate::placement::RingPlacement;
use crate::store::{LogPosition, NodeStore};
use crate::transport::Peers;
use crate::wire::MessageFrame;
use coeval_txn::cluster::{
    AskId, AskOutcome, BrickAddress, ClusterNode, Dictionaries, DictionaryMessage, LoadFate, LogRecord,
    Member, Message, ToKeeper, ViewChange, ViewNumber, ViewRecord, count_through, fold_records,
};
use coeval_txn::{Epoch, Stride};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;
use tokio::sync::oneshot;

/// So many of the keeper's records stay as they are; one stands for those before, if they are many. Whoever lacks more begins anew.
const RECORDS_KEPT: usize = 1_024;

/// The protocol's state.
pub(super) type Protocol = ClusterNode<BrickChange, RingPlacement>;

/// What waits until all that was logged before it is on disk.
pub(super) enum Waiting {
    Message(Message<BrickChange>),
    Dictionary(DictionaryMessage),
    ToKeeper(ToKeeper),
}

/// The caller of a load, as far as it has to be told something.
#[derive(Default)]
pub(super) struct LoadCaller {
    /// How the load has ended, before anybody has asked.
    pub(super) fate: Option<LoadFate>,
    /// Who waits for its end.
    pub(super) waits: Option<oneshot::Sender<LoadFate>>,
    /// Nobody will ask.
    pub(super) has_gone: bool,
}

/// Why a life of a node ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The cluster has gone on without it: the next life begins.
    Left,
    /// It was removed for good.
    Removed(NodeId),
    /// The caller wants it.
    Stopped,
    /// It cannot go on.
    Failed(String),
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Left => f.write_str("the cluster has gone on without it"),
            Self::Removed(node) => write!(f, "{node} was removed from the cluster"),
            Self::Stopped => f.write_str("it was stopped"),
            Self::Failed(what) => f.write_str(what),
        }
    }
}

/// The state of one life of a node: the protocol's, and what its effects are done with.
pub(super) struct Engine {
    pub(super) protocol: Protocol,
    pub(super) dictionaries: Dictionaries<RingPlacement>,
    pub(super) placement: RingPlacement,
    pub(super) store: Box<dyn NodeStore>,
    pub(super) peers: Peers,
    pub(super) keeper: KeeperLink,
    pub(super) holding: HoldingLink,
    pub(super) options: NodeOptions,
    /// The nodes that are known here, and where they are.
    pub(super) known: KnownAddresses,
    pub(super) counts: MessageCounts,
    /// Messages of the node to itself: they need no network.
    pub(super) to_itself: VecDeque<Message<BrickChange>>,
    /// Those about dictionaries.
    pub(super) codes_to_itself: VecDeque<DictionaryMessage>,
    /// Messages to other nodes that were not sent yet, in a frame for each node: what was said in the present step, behind what may wait
    /// for others and was said before. None of them is empty.
    pub(super) outgoing: BTreeMap<NodeId, MessageFrame>,
    /// Whether the present step sends what may wait, too.
    pub(super) sends_all: bool,
    /// What waits for the disk, by the place in the log that has to be there, and since when it waits.
    pub(super) waiting: VecDeque<(LogPosition, Instant, Waiting)>,
    pub(super) synced: LogPosition,
    pub(super) syncs: u64,
    /// The keeper's records that were followed, for others who have not got them. The first one may stand for many.
    pub(super) records: Vec<ViewRecord>,
    /// Whether it has followed all that it holds itself, and goes on by what others have.
    pub(super) follows_others: bool,
    pub(super) callers: BTreeMap<Epoch, LoadCaller>,
    /// Up to which declaration of tables the dictionaries of these are declared.
    pub(super) declarations: u64,
    /// Who waits for codes.
    pub(super) askers: BTreeMap<AskId, oneshot::Sender<AskOutcome>>,
    /// Who is giving bricks, at which view.
    pub(super) copying: BTreeSet<(Member, ViewNumber)>,
    /// Bytes of bricks that have come for good, in this life.
    pub(super) copied_bytes: u64,
    /// The bricks that have, in the present layout.
    pub(super) arrived: Arrived,
    /// Who is to be asked for bricks, once the lock is free.
    pub(super) to_copy: Vec<(Member, ViewNumber)>,
    /// When something was last heard of another node.
    pub(super) heard: BTreeMap<NodeId, Instant>,
    /// LSE when the store was last purged.
    pub(super) purged: Epoch,
    pub(super) ticked: Instant,
    pub(super) asked: Option<Instant>,
    pub(super) resent: Instant,
    pub(super) said_alive: Instant,
    pub(super) end: Option<EndReason>,
}

impl Engine {
    /// A life that begins with what is on disk.
    pub(super) fn new(
        member: Member,
        (mut store, records): (Box<dyn NodeStore>, &[LogRecord<BrickChange>]),
        peers: Peers,
        (keeper, holding): (KeeperLink, HoldingLink),
        options: NodeOptions,
    ) -> Self {
        let stride = Stride::new(member.node.get(), options.stride);
        let placement = RingPlacement::new(options.replicas);
        let texts = store.take_dictionary_records();
        let mut dictionaries = Dictionaries::recover(member, placement.clone(), bounds_of(&options), &texts);
        for (dictionary, codes_max) in &options.dictionaries {
            dictionaries.declare(*dictionary, *codes_max);
        }
        let mut protocol = ClusterNode::recover(member, stride, placement.clone(), records);
        if options.expects_ages {
            protocol.expect_ages();
        }
        let now = Instant::now();
        let follows_others = options.holds_in.is_none();
        let known = KnownAddresses::new(&options.nodes, options.nodes_as_of);
        let mut engine = Self {
            protocol,
            dictionaries,
            placement,
            store,
            peers,
            keeper,
            holding,
            options,
            known,
            counts: MessageCounts::default(),
            to_itself: VecDeque::new(),
            codes_to_itself: VecDeque::new(),
            outgoing: BTreeMap::new(),
            sends_all: false,
            waiting: VecDeque::new(),
            synced: LogPosition::default(),
            syncs: 0,
            records: Vec::new(),
            follows_others,
            callers: BTreeMap::new(),
            declarations: 0,
            askers: BTreeMap::new(),
            copying: BTreeSet::new(),
            copied_bytes: 0,
            arrived: Arrived::default(),
            to_copy: Vec::new(),
            heard: BTreeMap::new(),
            purged: Epoch::ZERO,
            ticked: now,
            asked: None,
            resent: now,
            said_alive: now,
            end: None,
        };
        engine.declare_dictionaries();
        engine
    }

    pub(super) fn own(&self) -> NodeId {
        self.protocol.member().node
    }

    pub(super) fn view(&self) -> ViewNumber {
        self.protocol.view().number()
    }

    /// Where the keeper of the views is, for all that this node knows.
    pub(super) fn keeper_node(&self) -> NodeId {
        self.protocol.view().keeper().map_or(self.options.keeper, |keeper| keeper.node)
    }

    /// The nodes that have a brick, by this view.
    pub(super) fn holders(&self, brick: BrickAddress) -> Vec<NodeId> {
        self.protocol.view().serving(&self.placement, brick)
    }

    /// The other ones that have it, for a reader.
    pub(super) fn serving(&self, brick: BrickAddress) -> Vec<NodeId> {
        let mut nodes = self.holders(brick);
        nodes.retain(|node| *node != self.own());
        nodes
    }

    /// Follows the keeper's records, as far as they are the next ones.
    pub(super) fn follow(&mut self, records: Vec<ViewRecord>) {
        let (mut is_elsewhere, mut followed) = (false, Vec::new());
        for record in records {
            if let ViewChange::Whole(whole) = &record.change
                && self.view() > ViewNumber::default()
            {
                let is_same = whole.recovered_through(self.view()) == self.protocol.view().recovered();
                if record.number > self.view() && is_same {
                    // Nobody has the records behind this view any more: the next life begins behind them.
                    self.holding.followed(vec![record]);
                    self.end.get_or_insert(EndReason::Left);
                    break;
                }
                continue;
            }
            if self.known_record(record.number).is_some_and(|known| *known != record) {
                // What is behind it is of other views.
                tracing::error!("two keepers have recorded view {} differently", record.number.get());
                break;
            }
            let is_next =
                matches!(record.change, ViewChange::Whole(_)) || record.number == self.view().next();
            if self.protocol.has_left() || !is_next {
                continue;
            }
            self.protocol.follow(&record);
            self.dictionaries.follow(self.protocol.view());
            self.arrived.forget_others(self.protocol.view().layout());
            is_elsewhere |= self.known.follow(&record);
            followed.push(record.clone());
            self.records.push(record);
            // Who is new has not had the time to say anything.
            let now = Instant::now();
            self.heard = self.protocol.view().members().map(|member| (member.node, now)).collect();
        }
        if !followed.is_empty() {
            self.holding.followed(followed);
        }
        if self.records.len() >= 2 * RECORDS_KEPT {
            fold_records(&mut self.records, RECORDS_KEPT);
        }
        if is_elsewhere {
            self.peers.set_nodes(self.known.list()).expect("a map has each node once");
        }
    }

    /// The record that led to a view, if it was followed and is kept.
    fn known_record(&self, view: ViewNumber) -> Option<&ViewRecord> {
        let place = count_through(&self.records, view).checked_sub(1)?;
        self.records.get(place).filter(|record| !matches!(record.change, ViewChange::Whole(_)))
    }

    /// The records behind `followed`, as many as go into a frame.
    pub(super) fn records_after(&self, followed: ViewNumber) -> Vec<ViewRecord> {
        /// Of some hundred bytes each, unless a coordinator with thousands of loads has died.
        const RECORDS_MAX: usize = 256;
        let first = count_through(&self.records, followed);
        self.records.iter().skip(first).take(RECORDS_MAX).cloned().collect()
    }
}
