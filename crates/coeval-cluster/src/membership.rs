// SPDX-License-Identifier: Apache-2.0
//! [`Membership`]: what a node is told of its cluster when it becomes a part of it.

use crate::node::{ClusterId, NodeId};
use crate::node_address::NodeAddress;
use coeval_txn::cluster::ViewNumber;

/// What a node is told of its cluster: its own number, and what all nodes have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The cluster.
    pub cluster: ClusterId,
    /// The number of the node, for good.
    pub node: NodeId,
    /// All nodes that are not out for good, this one among them, and where they are.
    pub nodes: Vec<(NodeId, NodeAddress)>,
    /// As of which record of the keeper. What earlier records say of addresses is out of date.
    pub as_of: ViewNumber,
    /// Where the keeper of the views was, when this was told.
    pub keeper: NodeId,
    /// On how many nodes each brick is.
    pub replicas: usize,
    /// The numbers of nodes go up to it.
    pub stride: u32,
}

impl Membership {
    /// Where the node is, if it is in the list.
    #[must_use]
    pub fn address(&self) -> Option<&NodeAddress> {
        self.address_of(self.node)
    }

    /// Where one of the nodes is.
    #[must_use]
    pub fn address_of(&self, node: NodeId) -> Option<&NodeAddress> {
        self.nodes.iter().find(|(other, _)| *other == node).map(|(_, address)| address)
    }

    /// The node is here, whatever the list says.
    pub(crate) fn set_own_address(&mut self, address: NodeAddress) {
        self.nodes.retain(|(node, _)| *node != self.node);
        self.nodes.push((self.node, address));
        self.nodes.sort_unstable();
    }
}
