// SPDX-License-Identifier: Apache-2.0
//! The cluster over whose nodes brick tables are spread, as SQL needs it. Who runs a node is above this crate, and says so here.
//!
//! ```text
//!    CREATE TABLE ... USING brick   by the log of row tables to every node     Cluster::declare on each
//!    COPY, INSERT                   through any node, blind                     ClusterLoad: batches, then commit
//!    the same, and rows             on the primary                              ClusterLoad: batches, then ClusterNamedLoad
//!    SELECT                         on any node, one snapshot                   ClusterSnapshot: bricks, their rows,
//!                                                                               or what other nodes make of rows
//!    DELETE, TRUNCATE               on the node with the keeper of views        ClusterDelete: whole bricks
//! ```
//! The promises are those of the protocol (AOSI IV; `coeval-txn`'s `epochs/cluster`): a load is seen as a whole or not at all, on all
//! nodes; a snapshot never changes; what is acknowledged is on the disks of all live replicas.

mod status;

pub use status::{
    ClusterFigures, ClusterLostMessages, ClusterMessageFigures, ClusterNodeRoles, ClusterNodeShare,
    ClusterNodeState, ClusterNodeStatus,
};

use crate::error::SqlError;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use coeval_store::BrickSchema;
use coeval_txn::Epoch;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A node of a cluster, this process's own. No call blocks its thread but [`Cluster::compare`], [`Cluster::drain`],
/// [`Cluster::remove`] and [`Cluster::recover`]; a future may be dropped at any time.
pub trait Cluster: Debug + Send + Sync {
    /// On how many nodes each brick is.
    fn replicas(&self) -> usize;

    /// Sees that a spread table is known on this node, with the columns of a committed definition or more. Cheap if it is known
    /// already. Whoever runs the node sees to tables that no statement here has used, and forgets those that are gone.
    ///
    /// # Errors
    /// If rows of it are there that the definition does not fit, or it is gone. What was declared before stays.
    fn declare(&self, table: u64, schema: &BrickSchema) -> Result<(), SqlError>;

    /// What a statement sees of all spread tables.
    ///
    /// # Errors
    /// If the node does not serve in time (57P03).
    fn snapshot(&self) -> BoxFuture<'_, Result<Arc<dyn ClusterSnapshot>, SqlError>>;

    /// How readers of rows see spread tables of the age that their rows name; nothing if rows name none. Then snapshots beside rows are of a
    /// moment of their own.
    fn ages(&self) -> Option<&dyn ClusterAges> {
        None
    }

    /// Begins a load. If it is dropped before it is committed, it is rolled back.
    ///
    /// # Errors
    /// If the node does not serve in time (57P03). No load has begun.
    fn load(&self) -> BoxFuture<'_, Result<Box<dyn ClusterLoad>, SqlError>>;

    /// Begins a transaction that deletes bricks. It waits for the one before to be over. If it is dropped before it is committed, it is
    /// rolled back. While it is open, snapshots on all nodes have nothing newer than what it sees.
    ///
    /// # Errors
    /// On another node than that with the keeper (0A000, its address in the hint), or as with [`Cluster::load`].
    fn delete(&self) -> BoxFuture<'_, Result<Box<dyn ClusterDelete>, SqlError>>;

    /// The nodes of the cluster, by number, as this one knows them. Costs a lock that is held for a moment.
    fn nodes(&self) -> Vec<ClusterNodeStatus> {
        Vec::new()
    }

    /// What of the bricks each live node has, by number, as it says itself: all are asked at once. Who does not answer within a
    /// second is left out. Cost: a look at all bricks, on each node; nobody waits for it but who has asked.
    fn shares(&self) -> BoxFuture<'_, BTreeMap<u32, ClusterNodeShare>> {
        Box::pin(std::future::ready(BTreeMap::<u32, ClusterNodeShare>::new()))
    }

    /// Compares the rows of all live replicas of all bricks of spread tables, as one snapshot sees them. Tells what differs, in a line
    /// each that begins with `differs: ` and names brick, table and nodes; and in the last line how much was compared. Nodes to which
    /// bricks are about to come are left out. Ends soon when `stop` is set. Cost: all rows come here, from each node that has them.
    ///
    /// # Errors
    /// If the node does not serve, or some replica is not to be had in time (57P03), or it was stopped (57014).
    fn compare(&self, stop: &Arc<AtomicBool>) -> Result<String, SqlError> {
        let _ = stop;
        Err(SqlError::unsupported("comparing the replicas of this cluster"))
    }

    /// Has the node of this number have no bricks any more: they move to the others while loads and queries go on, after this has
    /// returned. [`ClusterNodeState::Drained`] says that it is done. That it was asked for is on the keeper's disk by then.
    ///
    /// # Errors
    /// On another node than that with the keeper (55000, its address in the hint), or if the cluster cannot do without the node
    /// (55000). Nothing has changed.
    fn drain(&self, node: u32) -> Result<(), SqlError> {
        Err(SqlError::unsupported(format!("draining node {node} of this cluster")))
    }

    /// Has the node of this number be out for good, whether it runs or not. That this is so is on the keeper's disk when this returns.
    ///
    /// # Errors
    /// As [`Cluster::drain`].
    fn remove(&self, node: u32) -> Result<(), SqlError> {
        Err(SqlError::unsupported(format!("removing node {node} of this cluster")))
    }

    /// Goes on without the nodes of these numbers, which are lost for good, where the keeper of views cannot begin since too few others are
    /// left that answer. Loads that were decided when only lost nodes took part are given up. That this is so is on disk when this
    /// returns.
    ///
    /// # Errors
    /// If the keeper does not begin here (57P03); if one of them has answered, another node that took part has not, some bricks
    /// would be lost, or nothing has to be given up, since there is a keeper (55000). Nothing has changed. If too few of those that are
    /// left answer behind that (57P03), it may be done yet: asking again does no harm.
    fn recover(&self, lost: &[u32]) -> Result<(), SqlError> {
        Err(SqlError::unsupported(format!("going on without nodes {lost:?} of this cluster")))
    }

    /// What this node counts of itself; nothing while it is not there. Costs a lock that is held for a moment.
    fn figures(&self) -> Option<ClusterFigures> {
        None
    }
}

/// Ages: epochs that rows name, up to which their readers see spread tables
/// ([`World::brick_age`](coeval_store::World::brick_age)).
pub trait ClusterAges: Send + Sync {
    /// Up to which epoch a new [snapshot](Cluster::snapshot) of this node sees everything. Nothing while the node is not there. Cheap: it is
    /// asked with each statement.
    fn newest(&self) -> Option<Epoch>;

    /// The newest load that is one transaction with rows of this database, if this is its primary: they are committed, or about to be.
    /// Not less than what rows named at the start, since that may be such a load; [`Epoch::ZERO`] if there is none. Cheap.
    fn newest_with_rows(&self) -> Epoch {
        Epoch::ZERO
    }

    /// What a reader sees of spread tables whose rows name this age: all up to it, and nothing later, on every node the same. Waits until
    /// this node has come so far, for no load.
    ///
    /// # Errors
    /// If the node does not serve, or does not come so far, in time (57P03); if so old an age is not kept any more (40001).
    fn snapshot_at(&self, age: Epoch) -> BoxFuture<'_, Result<Arc<dyn ClusterSnapshot>, SqlError>>;
}

/// What a reader sees, the same on every node. Purge stays behind it until it is dropped.
pub trait ClusterSnapshot: Debug + Send + Sync {
    /// The bricks of a table of which any node has something, ascending.
    ///
    /// # Errors
    /// If no live holder of some brick could be asked (57P03).
    fn bricks(&self, table: u64) -> BoxFuture<'_, Result<Vec<u64>, SqlError>>;

    /// The rows of a brick that the snapshot sees, with these columns of the table by their index, in the types of its [`BrickSchema`].
    /// Here if this node has the brick, else from one that has it.
    ///
    /// # Errors
    /// If nobody who has it answers in time (57P03); then the statement may be run again.
    fn rows(
        &self,
        table: u64,
        brick: u64,
        columns: Vec<usize>,
    ) -> BoxFuture<'_, Result<Vec<RecordBatch>, SqlError>>;

    /// Which node is to read which of these bricks, if each is to read those that it has. Bricks that nobody but the nodes `without` is
    /// known to have are left out, as are all if nodes do nothing for each other. Costs a lock that is held for moments.
    fn place(&self, table: u64, bricks: &[u64], without: &[u32]) -> Vec<PlacedBricks> {
        let _ = (table, bricks, without);
        Vec::new()
    }

    /// Has another node do a piece of a query, at this snapshot. What it gives is the whole when the stream ends without an error; it is
    /// made as it is taken. When the stream is dropped, the work ends there.
    ///
    /// The stream ends behind its first error: the node does not have the bricks now, is gone, or cannot do it.
    fn run(&self, order: PieceOrder) -> BoxStream<'static, Result<Bytes, SqlError>> {
        let node = order.node;
        stream::once(async move { Err(SqlError::unsupported(format!("a piece of a query on node {node}"))) })
            .boxed()
    }
}

/// Bricks that one node is to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedBricks {
    /// The node's number.
    pub node: u32,
    /// Whether it is this one.
    pub is_own: bool,
    /// Some of the bricks that were asked for, in their order.
    pub bricks: Vec<u64>,
}

/// A piece of a query that another node is to do.
#[derive(Clone, Debug)]
pub struct PieceOrder {
    /// The node's number.
    pub node: u32,
    /// The table.
    pub table: u64,
    /// Bricks that this node has.
    pub bricks: Vec<u64>,
    /// What is to be done with their rows: what [`run_piece`](crate::run_piece) is given there.
    pub order: Bytes,
}

/// A load under way. It reads nothing.
pub trait ClusterLoad: Debug + Send {
    /// The age from which on readers see it; [`Epoch::ZERO`] in a cluster without [ages](Cluster::ages).
    fn epoch(&self) -> Epoch {
        Epoch::ZERO
    }

    /// Adds rows: all columns of the table, in the types of its [`BrickSchema`]. Waits while holders are slow.
    ///
    /// # Errors
    /// If a row breaks a rule of the table, or the load is over. Nothing of it may be committed then.
    fn append<'a>(&'a mut self, table: u64, rows: &'a RecordBatch) -> BoxFuture<'a, Result<(), SqlError>>;

    /// Has it committed. With [`CommitMode::Decided`] rows and commit are on the disks of all live replicas when this returns.
    ///
    /// # Errors
    /// If it is rolled back (40001: it may be run again), or nobody here knows how it ends (08007).
    fn commit(self: Box<Self>, mode: CommitMode) -> BoxFuture<'static, Result<(), SqlError>>;

    /// Has it be one transaction with rows of this database, which is the primary of a cluster with [ages](Cluster::ages). Waits until it is on
    /// the disks of all live replicas, and all loads that began before it have ended. Nothing if it has no rows of its own. If this is given
    /// up, it is rolled back.
    ///
    /// # Errors
    /// If it is rolled back (40001), older loads take too long to end (55P03), or the node does not serve (57P03). Its rows must not be
    /// committed.
    fn prepare(self: Box<Self>) -> BoxFuture<'static, Result<Option<Box<dyn ClusterNamedLoad>>, SqlError>> {
        let refused = SqlError::unsupported("a load that is one transaction with rows, in this cluster,");
        Box::pin(std::future::ready(Err::<Option<Box<dyn ClusterNamedLoad>>, _>(refused)))
    }
}

/// A load that is one transaction with rows of this database. These may be committed, in a version that names its age.
///
/// If it is dropped, it is rolled back; but not once its rows are expected, and were handed in. Then whoever runs the node decides it when
/// they are found to be there.
pub trait ClusterNamedLoad: Debug + Send {
    /// What the version of the rows has to name.
    fn age(&self) -> Epoch;

    /// The rows are about to be committed: once they were handed in, which `are_handed_in` says, it is not known what has become of them, until
    /// one of the others says so.
    fn expect_rows(&mut self, are_handed_in: Arc<AtomicBool>);

    /// The rows are published: readers may see the load.
    fn decide(self: Box<Self>);

    /// There are no such rows, and will be none: nothing is left of the load.
    fn roll_back(self: Box<Self>);
}

/// A delete under way.
pub trait ClusterDelete: Debug + Send {
    /// As [`ClusterLoad::epoch`].
    fn epoch(&self) -> Epoch {
        Epoch::ZERO
    }

    /// What it sees: rows of these snapshots go.
    fn seen(&self) -> Arc<dyn ClusterSnapshot>;

    /// Deletes the rows of a brick that it sees.
    ///
    /// # Errors
    /// If it is over.
    fn brick(&mut self, table: u64, brick: u64) -> BoxFuture<'_, Result<(), SqlError>>;

    /// As [`ClusterLoad::commit`].
    ///
    /// # Errors
    /// As there.
    fn commit(self: Box<Self>, mode: CommitMode) -> BoxFuture<'static, Result<(), SqlError>>;
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitMode {
    /// That it is asked for here: `synchronous_commit = off`.
    Asked,
    /// That rows and commit are in the logs of all live replicas.
    Decided,
}
