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

use super::comparing;
use super::declarations::{Declarations, Undeclared};
use super::errors::{not_there, of_change, of_definition, of_reading, of_writing};
use super::reading::Seen;
use super::working;
use super::writing::{Deleting, Loading, Place};
use coeval::{
    BrickSchema, Cluster, ClusterAges, ClusterDelete, ClusterFigures, ClusterLoad, ClusterLostMessages,
    ClusterMessageFigures, ClusterNodeRoles, ClusterNodeShare, ClusterNodeState, ClusterNodeStatus,
    ClusterSnapshot, SqlError, SqlState,
};
use coeval_cluster::{
    ConnectionState, Epoch, Node, NodeAddress, NodeId, NodeShare, NodeStatus, PeerStatus, RowTransactions,
};
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// How long a node may take to say what of the bricks it has, before whoever asks does without.
const SHARE_PATIENCE: Duration = Duration::from_secs(1);

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
    /// The nodes that were known at the start.
    pub(super) nodes: Vec<(NodeId, NodeAddress)>,
    /// Where the keeper of views was then.
    pub(super) keeper: NodeId,
    pub(super) replicas: usize,
    /// How long a statement waits for the node to be there.
    pub(super) patience: Duration,
    pub(super) stage: watch::Sender<Stage>,
    pub(super) declarations: Arc<Declarations>,
    /// Loads that are one transaction with rows of the database.
    pub(super) rows: RowTransactions,
    pub(super) place: Place,
}

impl OwnNode {
    /// The node, as soon as it is there.
    ///
    /// # Errors
    /// If it has ended, or takes too long (57P03).
    pub(super) fn node(&self) -> impl Future<Output = Result<Node, SqlError>> + Send + use<> {
        let (stage, patience) = (self.stage.subscribe(), self.patience);
        async move {
            let there = tokio::time::timeout(patience, until_there(stage)).await;
            there.unwrap_or_else(|_| Err(not_there("it is starting, and waits for definitions of tables")))
        }
    }

    /// The node, if it is there now.
    pub(super) fn present(&self) -> Option<Node> {
        match &*self.stage.borrow() {
            Stage::Runs(node) => Some(node.clone()),
            Stage::Starting | Stage::Ended(_) => None,
        }
    }

    /// Has the keeper change what a node is to the cluster, and waits for its disk.
    fn change(&self, change: Change) -> Result<(), SqlError> {
        let node = self.node();
        let (answer, answered) = std::sync::mpsc::channel();
        self.threads().spawn(async move {
            let changed = async {
                let node = node.await?;
                let changed = match change {
                    Change::Drain(which) => node.drain(which).await,
                    Change::Remove(which) => node.remove(which).await,
                    Change::Recover(lost) => node.recover(lost).await,
                };
                changed.map_err(|error| of_change(&error))
            };
            // Whoever has asked is waiting for it.
            let _ = answer.send(changed.await);
        });
        answered.recv().unwrap_or_else(|_| Err(not_there("it has ended")))
    }

    fn threads(&self) -> &Handle {
        &self.place.threads
    }
}

/// What is to become of a node.
#[derive(Debug)]
enum Change {
    /// It is to have no bricks.
    Drain(NodeId),
    /// It is to be out for good.
    Remove(NodeId),
    /// These are lost for good, and the others go on.
    Recover(BTreeSet<NodeId>),
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

    fn snapshot(&self) -> BoxFuture<'_, Result<Arc<dyn ClusterSnapshot>, SqlError>> {
        let (node, threads) = (self.node(), self.threads().clone());
        Box::pin(working::begin(self.threads(), async move {
            let snapshot = node.await?.snapshot().await.map_err(|error| of_reading(&error))?;
            Ok(Arc::new(Seen::new(snapshot, threads)) as Arc<dyn ClusterSnapshot>)
        }))
    }

    fn ages(&self) -> Option<&dyn ClusterAges> {
        Some(self)
    }

    fn load(&self) -> BoxFuture<'_, Result<Box<dyn ClusterLoad>, SqlError>> {
        let (node, place) = (self.node(), self.place.clone());
        Box::pin(working::begin(self.threads(), async move {
            let load = node.await?.begin().await.map_err(|error| of_writing(&error))?;
            Ok(Box::new(Loading::new(load, place)) as Box<dyn ClusterLoad>)
        }))
    }

    fn delete(&self) -> BoxFuture<'_, Result<Box<dyn ClusterDelete>, SqlError>> {
        let (node, place) = (self.node(), self.place.clone());
        Box::pin(working::begin(self.threads(), async move {
            let delete = node.await?.begin_delete().await;
            let delete = delete.map_err(|error| of_writing(&error))?;
            Ok(Box::new(Deleting::new(delete, place)) as Box<dyn ClusterDelete>)
        }))
    }

    fn nodes(&self) -> Vec<ClusterNodeStatus> {
        let status = self.present().and_then(|node| node.status());
        let keeper = status.as_ref().map_or(self.keeper, |status| status.keeper);
        let known: BTreeMap<NodeId, NodeAddress> = match &status {
            Some(status) => status.nodes.clone(),
            None => self.nodes.iter().cloned().collect(),
        };
        let removed = status.iter().flat_map(|status| &status.removed).map(|node| (*node, None));
        let present = known.iter().map(|(node, address)| (*node, Some(address)));
        let mut nodes: Vec<ClusterNodeStatus> = present
            .chain(removed)
            .map(|(node, address)| {
                let roles = ClusterNodeRoles { is_own: node == self.number, has_keeper: node == keeper };
                status_of((node, address), roles, status.as_ref())
            })
            .collect();
        nodes.sort_by_key(|node| node.node);
        nodes
    }

    fn shares(&self) -> BoxFuture<'_, BTreeMap<u32, ClusterNodeShare>> {
        let Some(node) = self.present() else {
            return Box::pin(std::future::ready(BTreeMap::<u32, ClusterNodeShare>::new()));
        };
        let asked = working::begin(self.threads(), async move { Ok(node.shares(SHARE_PATIENCE).await) });
        Box::pin(async move {
            // If the threads have ended, nobody answers.
            let shares = asked.await.unwrap_or_default();
            let shares = shares.into_iter().map(|(node, share)| (node.get(), share_of(share)));
            shares.collect::<BTreeMap<u32, ClusterNodeShare>>()
        })
    }

    fn compare(&self, stop: &Arc<AtomicBool>) -> Result<String, SqlError> {
        let (node, declarations, stop) = (self.node(), Arc::clone(&self.declarations), Arc::clone(stop));
        let (answer, answered) = std::sync::mpsc::channel();
        self.threads().spawn(async move {
            let compared = async { comparing::compare(&node.await?, &declarations, &stop).await };
            // Whoever has asked is waiting for it.
            let _ = answer.send(compared.await);
        });
        answered.recv().unwrap_or_else(|_| Err(not_there("it has ended")))
    }

    fn drain(&self, node: u32) -> Result<(), SqlError> {
        self.change(Change::Drain(NodeId::new(node)))
    }

    fn remove(&self, node: u32) -> Result<(), SqlError> {
        self.change(Change::Remove(NodeId::new(node)))
    }

    fn recover(&self, lost: &[u32]) -> Result<(), SqlError> {
        self.change(Change::Recover(lost.iter().copied().map(NodeId::new).collect()))
    }

    fn figures(&self) -> Option<ClusterFigures> {
        self.present()?.status().map(|status| figures_of(&status))
    }
}

impl ClusterAges for OwnNode {
    fn newest(&self) -> Option<Epoch> {
        self.present()?.newest_shown()
    }

    fn newest_with_rows(&self) -> Epoch {
        self.rows.newest()
    }

    fn snapshot_at(&self, age: Epoch) -> BoxFuture<'_, Result<Arc<dyn ClusterSnapshot>, SqlError>> {
        let (node, threads) = (self.node(), self.threads().clone());
        Box::pin(working::begin(self.threads(), async move {
            let snapshot = node.await?.snapshot_at(age).await.map_err(|error| of_reading(&error))?;
            Ok(Arc::new(Seen::new(snapshot, threads)) as Arc<dyn ClusterSnapshot>)
        }))
    }
}

fn status_of(
    (node, address): (NodeId, Option<&NodeAddress>),
    roles: ClusterNodeRoles,
    status: Option<&NodeStatus>,
) -> ClusterNodeStatus {
    let peers = status.map(|status| status.transport.peers.as_slice()).unwrap_or_default();
    let peer: Option<&PeerStatus> = peers.iter().find(|peer| peer.node == node);
    let is_connected = |peer: &&PeerStatus| peer.connection == ConnectionState::Connected;
    let last_error = peer.filter(|peer| !is_connected(peer)).and_then(|peer| peer.last_error.as_ref());
    ClusterNodeStatus {
        node: node.get(),
        address: address.map(NodeAddress::to_string),
        roles,
        state: status.map_or(ClusterNodeState::Unknown, |status| state_of(node, status)),
        connection: peer.map(|peer| peer.connection.to_string()),
        queued_bytes: peer.map_or(0, |peer| peer.queued_bytes as u64),
        last_error: last_error.map(|(_, error)| error.to_string()),
        copied_bytes: status.filter(|_| roles.is_own).map(|status| status.copied_bytes),
    }
}

fn share_of(share: NodeShare) -> ClusterNodeShare {
    let NodeShare { bricks, rows, bytes, to_come } = share;
    ClusterNodeShare { bricks, rows, bytes, to_come }
}

/// How it stands with a node, by what another one or itself knows.
fn state_of(node: NodeId, status: &NodeStatus) -> ClusterNodeState {
    let placed = status.placed.get(&node);
    let (is_drained, is_removed) = (status.drained.contains(&node), status.removed.contains(&node));
    let member = status.members.iter().find(|member| member.node == node);
    match member {
        _ if is_removed => ClusterNodeState::Removed,
        // It may be stopped by now.
        _ if is_drained && placed.is_none() => ClusterNodeState::Drained,
        None => ClusterNodeState::Away,
        Some(_) if is_drained => ClusterNodeState::Draining,
        Some(member) if placed == Some(&member.incarnation) => ClusterNodeState::Live,
        Some(_) => ClusterNodeState::Joining,
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
        copied_bytes: status.copied_bytes,
        waiting_for_disk: status.waiting_for_disk as u64,
        lost: ClusterLostMessages { not_taken: status.messages.not_taken, refused: status.messages.refused },
        messages: messages.collect(),
    }
}
