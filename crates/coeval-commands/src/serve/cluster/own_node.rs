// SPDX-License-Identifier: Apache-2.0
//! The node of a cluster that this process is, as SQL has it.
//!
//! ```text
//!    statement --> OwnNode: is the node there? --> work on threads for that --> Node (coeval-cluster)
//!                             | starting: waits          | given up with whoever waits
//!                             | ended: 57P03             v
//!                             +----------------------- errors with SQLSTATEs
//! ```
//! It is there as soon as the server listens; the node may be about to start, since definitions of tables that it has rows of come by
//! the log of the database.

use super::declarations::{Declarations, Undeclared};
use super::errors::{not_there, of_definition, of_reading, of_writing};
use super::reading::Seen;
use super::working;
use super::writing::{Deleting, Loading, Place};
use coeval::{
    BrickSchema, Cluster, ClusterDelete, ClusterFigures, ClusterLoad, ClusterLostMessages,
    ClusterMessageFigures, ClusterNodeRoles, ClusterNodeState, ClusterNodeStatus, ClusterSnapshot, SqlError,
    SqlState,
};
use coeval_cluster::{ConnectionState, Node, NodeAddress, NodeId, NodeStatus, PeerStatus};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// How far the node is.
#[derive(Debug)]
pub(super) enum Stage {
    /// It is about to start.
    Starting,
    /// It is there. Whether it takes part is another question, which it answers itself.
    Runs(Node),
    /// It is there no more.
    Ended(String),
}

/// See the module.
#[derive(Debug)]
pub(super) struct OwnNode {
    pub(super) number: NodeId,
    /// All nodes.
    pub(super) nodes: Vec<(NodeId, NodeAddress)>,
    pub(super) replicas: usize,
    /// How long a statement waits for the node to be there.
    pub(super) patience: Duration,
    pub(super) stage: watch::Sender<Stage>,
    pub(super) declarations: Arc<Declarations>,
    pub(super) place: Place,
}

impl OwnNode {
    /// The node, as soon as it is there.
    ///
    /// # Errors
    /// If it has ended, or takes too long (57P03).
    fn node(&self) -> impl Future<Output = Result<Node, SqlError>> + Send + use<> {
        let (stage, patience) = (self.stage.subscribe(), self.patience);
        async move {
            let there = tokio::time::timeout(patience, until_there(stage)).await;
            there.unwrap_or_else(|_| Err(not_there("it is starting, and waits for definitions of tables")))
        }
    }

    /// The node, if it is there now.
    fn present(&self) -> Option<Node> {
        match &*self.stage.borrow() {
            Stage::Runs(node) => Some(node.clone()),
            Stage::Starting | Stage::Ended(_) => None,
        }
    }

    fn threads(&self) -> &Handle {
        &self.place.threads
    }
}

async fn until_there(mut stage: watch::Receiver<Stage>) -> Result<Node, SqlError> {
    loop {
        match &*stage.borrow_and_update() {
            Stage::Runs(node) => return Ok(node.clone()),
            Stage::Ended(why) => return Err(not_there(why)),
            Stage::Starting => {}
        }
        stage.changed().await.map_err(|_| not_there("the server ends"))?;
    }
}

impl Cluster for OwnNode {
    fn replicas(&self) -> usize {
        self.replicas
    }

    fn declare(&self, table: u64, schema: &BrickSchema) -> Result<(), SqlError> {
        self.declarations.declare(table, schema).map_err(|error| match error {
            Undeclared::Refused(error) => of_definition(&error),
            Undeclared::NotNoted(error) => {
                let message = format!("it cannot be written down that there is a table: {error}");
                SqlError::new(SqlState::IoError, message)
            }
        })
    }

    fn forget(&self, table: u64) {
        self.declarations.forget(table);
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Arc<dyn ClusterSnapshot>, SqlError>> {
        let (node, threads) = (self.node(), self.threads().clone());
        Box::pin(working::begin(self.threads(), async move {
            let snapshot = node.await?.snapshot().await.map_err(|error| of_reading(&error))?;
            Ok(Arc::new(Seen::new(snapshot, threads)) as Arc<dyn ClusterSnapshot>)
        }))
    }

    fn load(&self) -> BoxFuture<'_, Result<Box<dyn ClusterLoad>, SqlError>> {
        let (node, place) = (self.node(), self.place.clone());
        Box::pin(working::begin(self.threads(), async move {
            let load = node.await?.begin().await.map_err(|error| of_writing(&error, &place.keeper))?;
            Ok(Box::new(Loading::new(load, place)) as Box<dyn ClusterLoad>)
        }))
    }

    fn delete(&self) -> BoxFuture<'_, Result<Box<dyn ClusterDelete>, SqlError>> {
        let (node, place) = (self.node(), self.place.clone());
        Box::pin(working::begin(self.threads(), async move {
            let delete = node.await?.begin_delete().await;
            let delete = delete.map_err(|error| of_writing(&error, &place.keeper))?;
            Ok(Box::new(Deleting::new(delete, place)) as Box<dyn ClusterDelete>)
        }))
    }

    fn nodes(&self) -> Vec<ClusterNodeStatus> {
        let status = self.present().and_then(|node| node.status());
        let keeper = self.place.keeper.0;
        let mut nodes: Vec<ClusterNodeStatus> = self
            .nodes
            .iter()
            .map(|(node, address)| {
                let roles = ClusterNodeRoles { is_own: *node == self.number, has_keeper: *node == keeper };
                status_of(*node, address, roles, status.as_ref())
            })
            .collect();
        nodes.sort_by_key(|node| node.node);
        nodes
    }

    fn figures(&self) -> Option<ClusterFigures> {
        self.present()?.status().map(|status| figures_of(&status))
    }
}

fn status_of(
    node: NodeId,
    address: &NodeAddress,
    roles: ClusterNodeRoles,
    status: Option<&NodeStatus>,
) -> ClusterNodeStatus {
    let peers = status.map(|status| status.transport.peers.as_slice()).unwrap_or_default();
    let peer: Option<&PeerStatus> = peers.iter().find(|peer| peer.node == node);
    let member = status.and_then(|status| status.members.iter().find(|member| member.node == node));
    let state = match (status, member) {
        (None, _) => ClusterNodeState::Unknown,
        (Some(_), None) => ClusterNodeState::Away,
        (Some(status), Some(member)) if status.placed.get(&node) == Some(&member.incarnation) => {
            ClusterNodeState::Live
        }
        (Some(_), Some(_)) => ClusterNodeState::Joining,
    };
    let is_connected = |peer: &&PeerStatus| peer.connection == ConnectionState::Connected;
    let last_error = peer.filter(|peer| !is_connected(peer)).and_then(|peer| peer.last_error.as_ref());
    ClusterNodeStatus {
        node: node.get(),
        address: address.to_string(),
        roles,
        state,
        connection: peer.map(|peer| peer.connection.to_string()),
        queued_bytes: peer.map_or(0, |peer| peer.queued_bytes as u64),
        last_error: last_error.map(|(_, error)| error.to_string()),
    }
}

fn figures_of(status: &NodeStatus) -> ClusterFigures {
    let messages = status.messages.named().map(|(kind, counts)| ClusterMessageFigures {
        kind,
        sent: counts.sent,
        sent_bytes: counts.sent_bytes,
        received: counts.received,
        received_bytes: counts.received_bytes,
    });
    ClusterFigures {
        view: status.view.get(),
        members: status.members.len() as u64,
        clock: status.next_epoch.get(),
        latest_committed: status.latest_committed.get(),
        latest_safe: status.latest_safe.get(),
        latest_committed_lag: status.latest_committed_lag,
        pending: status.pending.len() as u64,
        open_loads: status.open_loads as u64,
        waiting_for_disk: status.waiting_for_disk as u64,
        lost: ClusterLostMessages { not_taken: status.messages.not_taken, refused: status.messages.refused },
        messages: messages.collect(),
    }
}
