// SPDX-License-Identifier: Apache-2.0
//! The keeper of the views, as it runs: who answers belongs to the cluster.
//!
//! ```text
//!    nodes:   alive, at view 7, not heard from n3        join, closed, complete
//!                          |                                     |
//!                          v                                     v
//!    keeper's thread:  who is silent? --> remove --> ViewKeeper (the protocol) --> record
//!                                                                                    |
//!    each node's holding thread:  on disk in held.log  <---------- Hold -------------+
//!                          |                                                         ^
//!                          +---------------- Holds, of enough: settled --------------+
//!    all nodes:   follow  <-- what is settled, from the own holding thread, or from any node that has followed it
//! ```
//! The keeper is beside the primary, on any node, and has nothing of its own on disk: nodes hold its records. When another node
//! becomes the primary, a keeper begins there, asks the nodes what they hold, and goes on after that; the one before learns so from the first
//! node that has answered the new one. How that is right: `succession.rs` of the protocol. Its term is the number of the primary's
//! term, and in that the time at which it began with its node's number, which no other keeper has.
//!
//! Who is gone is decided by signs of life. A node that says nothing for [`ClusterTimeouts::silence`](crate::ClusterTimeouts::silence) is removed, if enough
//! replicas are left. One that speaks to the keeper and not with others (a cut in the network) is found by what members say
//! of each other: of those that do not hear each other, the one with the most such is removed. It may be alive; it learns so
//! and joins again.
//!
//! Which nodes there are is among its records: who asks to belong is given a number, and is answered when the record with it
//! is settled. From these records all nodes know where the others are.
//!
//! When there is no keeper, views stand still and loads go on in the last one, as long as all its members answer.

mod holding;
mod keeper_thread;
mod link;
mod silence;

pub(crate) use holding::{Holding, HoldingLink};
pub(crate) use keeper_thread::Keeper;
pub(crate) use link::{KeeperLink, NodeChange};

use crate::node::NodeId;
use crate::node_address::NodeAddress;
use crate::row_transactions::RowTransactions;
use crate::wire::Frame;
use coeval_txn::cluster::ViewRecord;
use std::time::Duration;

/// What the keeper is told when it starts, by the options of the node that it is on.
#[derive(Debug)]
pub(crate) struct KeeperOptions {
    /// The node that it is on.
    pub(crate) own: NodeId,
    /// The number of the primary's term.
    pub(crate) term: u64,
    /// The nodes that were told their numbers, this one among them: those that are not recorded yet it records.
    pub(crate) nodes: Vec<(NodeId, NodeAddress)>,
    /// The numbers of nodes go up to it.
    pub(crate) stride: u32,
    /// On how many nodes each brick is: fewer than so many nodes may be gone at once.
    pub(crate) replicas: usize,
    /// For how long a node may say nothing before it is removed.
    pub(crate) silence: Duration,
    /// What became of rows with which loads of the primary are one transaction.
    pub(crate) rows: RowTransactions,
}

/// What the keeper, or who holds its records, has the node beside it do.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// Send to another node.
    Send(NodeId, Box<Frame>),
    /// Follow these, which are settled.
    Follow(Vec<ViewRecord>),
}

/// Has the node do something. It waits for the node's lock, and for nothing else.
pub(crate) type Give = Box<dyn Fn(Outgoing) + Send>;

/// The other nodes that are known by now.
pub(crate) type Others = Box<dyn Fn() -> Vec<NodeId> + Send>;

/// Whether a keeper is the first of its cluster. It has to be said, so that a lost log does not become a second cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Founding {
    /// The cluster is founded, by the node that the keeper is on. Others join.
    Found,
    /// There is a cluster, and its nodes hold the records.
    GoOn,
}
