// SPDX-License-Identifier: Apache-2.0
//! [`NodeStatus`]: what can be seen of a node, as of one moment.

use super::counters::MessageCounts;
use super::engine::Engine;
use crate::node_address::NodeAddress;
use crate::store::LogPosition;
use crate::transport::TransportStatus;
use coeval_txn::Epoch;
use coeval_txn::cluster::{Incarnation, Member, NodeId, ViewNumber};
use std::collections::{BTreeMap, BTreeSet};

/// What can be seen of a node.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// Who it is, in which life.
    pub member: Member,
    /// The view that it is at.
    pub view: ViewNumber,
    /// Who belongs to the cluster in that view.
    pub members: Vec<Member>,
    /// The nodes that bricks are placed on, each in the life that had all.
    pub placed: BTreeMap<NodeId, Incarnation>,
    /// The nodes that are known here, and where they are, without those that were removed.
    pub nodes: BTreeMap<NodeId, NodeAddress>,
    /// The nodes that are to have no bricks. One of them that is not among `placed` has none.
    pub drained: BTreeSet<NodeId>,
    /// The nodes that are out for good.
    pub removed: BTreeSet<NodeId>,
    /// Where the keeper of the views is, for all that this node knows.
    pub keeper: NodeId,
    /// Whether bricks are on their way.
    pub is_moving: bool,
    /// The nodes that are giving bricks to this one.
    pub copied_from: BTreeSet<NodeId>,
    /// Bytes of bricks that have come to it for good, in this life; also those that had to come again.
    pub copied_bytes: u64,
    /// EC: the clock.
    pub next_epoch: Epoch,
    /// LCE.
    pub latest_committed: Epoch,
    /// LSE.
    pub latest_safe: Epoch,
    /// LSE when the store last forgot what tells older epochs apart. It stands still while bricks are on their way.
    pub purged: Epoch,
    /// What is pending for all that the node knows, ascending.
    pub pending: Vec<Epoch>,
    /// How far LCE is behind EC, in epochs of the cluster; with nothing under way it grows too, by clocks alone.
    pub latest_committed_lag: u64,
    /// Loads that callers of this node have under way.
    pub open_loads: usize,
    /// Messages that wait for the disk.
    pub waiting_for_disk: usize,
    /// The end of the log, in this life.
    pub logged: LogPosition,
    /// How far it is on disk.
    pub synced: LogPosition,
    /// How often it was synced in this life: once for many.
    pub syncs: u64,
    /// What was counted of messages, in this life.
    pub messages: MessageCounts,
    /// Its connections.
    pub transport: TransportStatus,
}

impl Engine {
    fn nodes(&self) -> BTreeMap<NodeId, NodeAddress> {
        let removed = self.protocol.view().removed();
        self.known.list().into_iter().filter(|(node, _)| !removed.contains(node)).collect()
    }

    /// What can be seen now.
    pub(super) fn status(&self) -> NodeStatus {
        let node = &self.protocol;
        NodeStatus {
            member: node.member(),
            view: node.view().number(),
            members: node.view().members().collect(),
            placed: node.view().placed().clone(),
            nodes: self.nodes(),
            drained: node.view().drained().clone(),
            removed: node.view().removed().clone(),
            keeper: self.keeper_node(),
            is_moving: node.view().is_moving(),
            copied_from: self.copying.iter().map(|(from, _)| from.node).collect(),
            copied_bytes: self.copied_bytes,
            next_epoch: node.next_epoch(),
            latest_committed: node.latest_committed(),
            latest_safe: node.latest_safe(),
            purged: self.purged,
            pending: node.pending().collect(),
            latest_committed_lag: node.next_epoch().get() - 1 - node.latest_committed().get(),
            open_loads: node.open_loads(),
            waiting_for_disk: self.waiting.len(),
            logged: self.store.logged(),
            synced: self.synced,
            syncs: self.syncs,
            messages: self.counts.clone(),
            transport: self.peers.status(),
        }
    }
}
