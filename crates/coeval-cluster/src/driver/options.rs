// SPDX-License-Identifier: Apache-2.0
//! What a node is told when it starts.

use super::pieces::PieceRunner;
use crate::membership::Membership;
use crate::node::NodeId;
use crate::node_address::NodeAddress;
use crate::row_transactions::RowTransactions;
use crate::store::RoundOptions;
use crate::tables::Tables;
use crate::transport::TransportOptions;
use coeval_txn::cluster::{DictionaryId, ViewNumber};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a node is told when it starts.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Who it is, and how it talks to others. Its incarnation is found when it starts.
    pub transport: TransportOptions,
    /// The nodes of the cluster that are known when it starts, this one among them: all, or some that know the others. The
    /// keeper's records tell of more, and where nodes are by then.
    pub nodes: Vec<(NodeId, NodeAddress)>,
    /// As of which record of the keeper that list is: earlier ones do not change it.
    pub nodes_as_of: ViewNumber,
    /// Where the node keeps what it was told of its cluster ([`Membership`]), if it does: there it writes down who is new or
    /// elsewhere. [`Node::start`](super::Node::start) finds it in the node's directory.
    pub remembers_in: Option<PathBuf>,
    /// The brick tables that are declared here.
    pub tables: Tables,
    /// Dictionaries besides those of their columns of texts, each with how many codes it may have. All nodes are told the same.
    pub dictionaries: Vec<(DictionaryId, u32)>,
    /// When what is loaded is flushed and the log gets shorter.
    pub rounds: RoundOptions,
    /// Where the keeper of the views is, as far as this node was told; its records tell where it is by then.
    pub keeper: NodeId,
    /// Where the node holds the records of keepers, if it does. [`Node::start`](super::Node::start) has it do so in its directory.
    pub holds_in: Option<PathBuf>,
    /// On how many nodes each brick is.
    pub replicas: usize,
    /// How many nodes epochs are handed out for: the numbers of nodes go up to it. Fixed when the cluster is made.
    pub stride: u32,
    /// Appends of a load that may be unanswered; a further one waits. What a slow holder costs is bounded by that and the next one.
    pub append_window: usize,
    /// Bytes of rows that may be unanswered, about, where these are more appends, by their size so far: small batches are small appends, and
    /// a load would wait for a round trip for every few of them.
    pub append_window_bytes: usize,
    /// How many bytes of bricks come to this node in a second, at most, when they move: so much of its disk and network is not
    /// there for loads and queries meanwhile. Without a bound they come as fast as they can. Bricks that readers ask for
    /// do not count.
    pub copied_bytes_a_second: Option<NonZeroU64>,
    /// Whether readers come with ages of rows ([`Node::snapshot_at`](super::Node::snapshot_at)). Then purge waits on all nodes until this
    /// one is told how old these may be ([`Node::note_oldest_age`](super::Node::note_oldest_age)), in each of its lives.
    pub expects_ages: bool,
    /// What became of rows with which loads of this node are one transaction ([`Load::prepare`](super::Load::prepare)): the keeper asks it.
    pub rows: RowTransactions,
    /// What runs pieces of other nodes' queries here, on rows of bricks that are here. Without it, other nodes fetch the rows.
    pub runner: Option<Arc<dyn PieceRunner>>,
    /// How long it waits.
    pub timeouts: ClusterTimeouts,
}

impl NodeOptions {
    /// A node with the usual times, in a cluster of these nodes whose first one has the keeper, and two replicas.
    ///
    /// # Panics
    /// If there is no node.
    #[must_use]
    pub fn new(transport: TransportOptions, nodes: Vec<(NodeId, NodeAddress)>, tables: Tables) -> Self {
        let keeper = nodes.first().expect("a cluster has a node").0;
        Self {
            transport,
            nodes,
            nodes_as_of: ViewNumber::default(),
            remembers_in: None,
            tables,
            dictionaries: Vec::new(),
            rounds: RoundOptions::default(),
            keeper,
            holds_in: None,
            replicas: 2,
            stride: 1_024,
            append_window: 64,
            append_window_bytes: 1 << 20,
            copied_bytes_a_second: None,
            expects_ages: false,
            rows: RowTransactions::default(),
            runner: None,
            timeouts: ClusterTimeouts::default(),
        }
    }

    /// As [`new`](Self::new), of a node that was told its membership when it founded the cluster, or joined it.
    ///
    /// # Panics
    /// If the membership has no node.
    #[must_use]
    pub fn of_member(membership: &Membership, transport: TransportOptions, tables: Tables) -> Self {
        let Membership { nodes, as_of, keeper, replicas, stride, .. } = membership;
        let usual = Self::new(transport, nodes.clone(), tables);
        Self { nodes_as_of: *as_of, keeper: *keeper, replicas: *replicas, stride: *stride, ..usual }
    }
}

/// How long a node of a cluster waits.
#[derive(Clone, Copy, Debug)]
pub struct ClusterTimeouts {
    /// Before what is unanswered is asked again.
    pub resend: Duration,
    /// Between two signs of life.
    pub alive: Duration,
    /// Without a sign of life, before a node counts as gone: the keeper writes a view without it.
    pub silence: Duration,
    /// For the node to be able to begin a load or give a snapshot: while it joins, or comes back.
    pub serve: Duration,
    /// For somebody who has a brick and gives it.
    pub read: Duration,
}

impl Default for ClusterTimeouts {
    fn default() -> Self {
        Self {
            resend: Duration::from_millis(200),
            alive: Duration::from_millis(250),
            silence: Duration::from_secs(3),
            serve: Duration::from_secs(30),
            read: Duration::from_secs(30),
        }
    }
}
