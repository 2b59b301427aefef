// SPDX-License-Identifier: Apache-2.0
//! The keeper of the views, as it runs: who answers belongs to the cluster.
//!
//! ```text
//!    nodes:   alive, at view 7, not heard from n3        join, closed, complete
//!                          |                                     |
//!                          v                                     v
//!    keeper's thread:  who is silent? --> remove --> ViewKeeper (the protocol) --> record
//!                                                                                    |
//!    all nodes:   follow  <-- frame with the record <-- log of records, synced <-----+
//! ```
//! One node has the keeper, with a log of its own; the others get its records from it, or from any node that has followed
//! them: what is handed out is durable. **In the product** these records are in the primary's log, which replicas follow, and
//! whoever becomes primary is the keeper. Until then a keeper whose disk is lost is the end of changes to the view, and so of
//! loads as soon as a member dies.
//!
//! Who is gone is decided by signs of life. A node that says nothing for [`ClusterTimeouts::silence`](crate::ClusterTimeouts::silence) is removed, if enough
//! replicas are left. One that speaks to the keeper and not with others (a cut in the network) is found by what members say
//! of each other: of those that do not hear each other, the one with the most such is removed. It may be alive; it learns so
//! and joins again.
//!
//! Which nodes there are is among its records: who asks to belong is given a number, and is answered when the record with it
//! is on disk. From these records all nodes know where the others are.
//!
//! The keeper has nothing that matters but its log. When it is gone, views stand still and loads go on in the last one, as
//! long as all its members answer.

mod keeper_thread;
mod link;
mod silence;

pub(crate) use keeper_thread::Keeper;
pub(crate) use link::{KeeperLink, NodeChange};

use crate::node::NodeId;
use crate::node_address::NodeAddress;
use std::time::Duration;

/// What the keeper is told when it starts, by the options of the node that it is on.
#[derive(Debug)]
pub(crate) struct KeeperOptions {
    /// The node that it is on.
    pub(crate) own: NodeId,
    /// The nodes that were told their numbers, this one among them: those that the keeper has not recorded yet it records.
    pub(crate) nodes: Vec<(NodeId, NodeAddress)>,
    /// The numbers of nodes go up to it.
    pub(crate) stride: u32,
    /// On how many nodes each brick is: fewer than so many nodes may be gone at once.
    pub(crate) replicas: usize,
    /// For how long a node may say nothing before it is removed.
    pub(crate) silence: Duration,
}

/// Whether a keeper is the first of its cluster. It has to be said, so that a lost log does not become a second cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Founding {
    /// The cluster is founded, by the node that the keeper is on. Others join.
    Found,
    /// There is a cluster, and its records are in the log.
    GoOn,
}
