// SPDX-License-Identifier: Apache-2.0
//! Pieces of queries that run where the bricks are, so that what is made of rows travels, and not the rows.
//!
//! ```text
//!   the node of the query                          a node that has bricks
//!     Snapshot::place: who reads which bricks
//!     Snapshot::run ---- view, bricks, snapshot, order ---->  PieceRunner::run
//!                   <--- parts of what it makes, in turn ---    PieceRows: its bricks, one after the other
//!                   <--- "it runs", now and then ---------
//! ```
//! **Pieces of pieces.** A piece may have other nodes do something with their bricks, too (`PieceRows::run`), at the same view and snapshot: so
//! nodes exchange rows with each other. What is asked for in this way asks nobody, so nobody waits for itself.
//!
//! **What a piece sees.** The snapshot of the query, as a reader of rows does: a brick is given at the view of the node that asks, and at a
//! snapshot that is kept. That node holds the snapshot for as long as it listens, so purge stays behind it everywhere; rows that a piece
//! has been given stay what they are, whatever becomes of the brick.
//!
//! **What can go wrong.** Whoever asks takes nothing of an answer for the whole before it has ended. If the node dies, or has another
//! view, the bricks are asked of another one, or their rows are read; that is the business of whoever asks.
//!
//! **What is bounded.** A part of the answer is made when the one before was taken. When nobody listens any more, the piece is
//! dropped where it waits.

use super::engine::Engine;
use super::incoming::Incoming;
use super::life::Life;
use super::reading::Refused;
use super::{ReadError, Snapshot};
use crate::brick_rows::BrickRows;
use crate::node::NodeId;
use crate::transport::{Answer, AnswerParts, CallRefusal};
use crate::wire::{BrickAnswer, BrickRequest, Malformed, decode, encode};
use bytes::Bytes;
use coeval_txn::EpochSet;
use coeval_txn::cluster::{BrickAddress, NodeError, ViewNumber};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How often a piece that makes nothing says that it runs: well within the time that a part of an answer may take.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// How often it is looked whether a node that is waited for is still there.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// For so many bricks the lock is held at a time when they are placed.
const BRICKS_AT_ONCE: usize = 1_024;

/// What runs pieces of queries on a node: whoever runs queries there.
pub trait PieceRunner: fmt::Debug + Send + Sync + 'static {
    /// What the piece makes, in parts of a megabyte or so; an error in the words of this node if it does not come to its end.
    ///
    /// It must not work on the thread that asks for the next part, which is one of the node's: these say that the node lives. When the
    /// stream is dropped, the work ends soon.
    fn run(&self, piece: Piece) -> BoxStream<'static, Result<Bytes, String>>;
}

/// A piece of another node's query.
#[derive(Debug)]
pub struct Piece {
    /// The bricks of its table that it reads, and nothing else.
    pub bricks: Vec<u64>,
    /// What is to be done with their rows.
    pub order: Bytes,
    /// The rows.
    pub rows: PieceRows,
}

/// The bricks that a piece reads, as the query's snapshot sees them.
#[derive(Clone)]
pub struct PieceRows {
    life: Arc<Life>,
    view: ViewNumber,
    table: u64,
    snapshot: EpochSet,
}

impl PieceRows {
    /// The table.
    #[must_use]
    pub fn table(&self) -> u64 {
        self.table
    }

    /// The rows of a brick that is here, with their texts. They stay what they are, in memory, for as long as they are kept. Takes the
    /// node's lock for a moment; spelling texts takes its time.
    ///
    /// # Errors
    /// If the brick is of another table or served by others by now, the snapshot is older than what is kept, or the life of the node is
    /// over.
    pub fn rows(&self, brick: BrickAddress) -> Result<BrickRows, ReadError> {
        let elsewhere = || ReadError::NotHere { table: brick.table, brick: brick.brick };
        if brick.table != self.table {
            return Err(elsewhere());
        }
        let found = self.life.look_into(|engine| {
            if !engine.options.tables.has(brick.table) {
                return Err(ReadError::NoTable(brick.table));
            }
            match engine.protocol.may_read(self.view, brick, &self.snapshot) {
                Ok(()) => engine.store.brick(brick).map_err(|failed| ReadError::Ended(failed.to_string())),
                Err(NodeError::BelowSafe) => Err(ReadError::BelowSafe),
                Err(_) => Err(elsewhere()),
            }
        });
        let found = found.ok_or_else(|| self.life.read_ended())??;
        self.life.spelled(found.rows(self.snapshot.clone()))
    }

    /// Has another node do something with its bricks, as [`Snapshot::run`] does, at the view and the snapshot of this piece. Whoever has
    /// asked for the piece holds that snapshot for as long as it listens.
    pub fn run(&self, node: NodeId, order: PieceOrder) -> BoxStream<'static, Result<Bytes, ReadError>> {
        let (life, view, set) = (Arc::clone(&self.life), self.view, self.snapshot.clone());
        asked(life, (node, order), (Some(view), set), ())
    }
}

impl fmt::Debug for PieceRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PieceRows(of table {} at {})", self.table, self.snapshot)
    }
}

/// What a node is asked to do.
#[derive(Clone, Debug)]
pub struct PieceOrder {
    /// The table.
    pub table: u64,
    /// Bricks that this node serves.
    pub bricks: Vec<u64>,
    /// What is to be done, in the words of those who run queries.
    pub order: Bytes,
}

/// Bricks that one node is to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedBricks {
    /// The node; this one itself, for those that are here.
    pub node: NodeId,
    /// Some of the bricks that were asked for, in their order.
    pub bricks: Vec<u64>,
}

impl Snapshot {
    /// Which node is to read which of these bricks of a table: this one those that it has, others the rest, as many each as they can.
    /// Bricks that nobody but those `without` serves are left out. By what this node knows now: whoever is asked may have left.
    ///
    /// Cost: the placement of each brick, under the node's lock for a part of them at a time.
    #[must_use]
    pub fn place(&self, table: u64, bricks: &[u64], without: &[NodeId]) -> Vec<PlacedBricks> {
        let mut placed: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
        for some in bricks.chunks(BRICKS_AT_ONCE) {
            // Of a life that is over nobody is asked.
            let _ = self.life.look(|engine| {
                let view = engine.view();
                for brick in some {
                    let at = BrickAddress { table, brick: *brick };
                    let is_here = engine.protocol.may_read(view, at, &self.set).is_ok();
                    let nodes = if is_here { vec![engine.own()] } else { engine.serving(at) };
                    let has = |node: &NodeId| placed.get(node).map_or(0, Vec::len);
                    let least = nodes.into_iter().filter(|node| !without.contains(node)).min_by_key(has);
                    if let Some(node) = least {
                        placed.entry(node).or_default().push(*brick);
                    }
                }
            });
        }
        placed.into_iter().map(|(node, bricks)| PlacedBricks { node, bricks }).collect()
    }

    /// The number of the node that gave this.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.life.member.node
    }

    /// Has another node do something with its bricks, at this snapshot, which is held until the stream is dropped. What it gives
    /// is the whole when the stream ends without an error. When the stream is dropped, the other node stops.
    ///
    /// Each item may be [`ReadError::NotRun`], with which the stream ends: that node does not have the bricks now, is gone, or cannot
    /// do it.
    pub fn run(
        self: &Arc<Self>,
        node: NodeId,
        order: PieceOrder,
    ) -> BoxStream<'static, Result<Bytes, ReadError>> {
        let (life, set) = (Arc::clone(&self.life), self.set.clone());
        asked(life, (node, order), (None, set), Arc::clone(self))
    }
}

/// Has a node do something with its bricks, at this snapshot and at a view: that of now, if none is named. `held` is kept as long as the
/// stream is.
fn asked<H: Send + 'static>(
    life: Arc<Life>,
    (node, order): (NodeId, PieceOrder),
    (view, set): (Option<ViewNumber>, EpochSet),
    held: H,
) -> BoxStream<'static, Result<Bytes, ReadError>> {
    let begun = async move {
        let not_run = move |refused: Refused| ReadError::NotRun { node, why: refused.to_string() };
        let answer = begin(&life, (node, order), (view, set)).await.map_err(not_run)?;
        Ok::<_, ReadError>(made(answer, (life, node), held).map_err(not_run))
    };
    stream::once(begun).try_flatten().boxed()
}

async fn begin(
    life: &Arc<Life>,
    (node, order): (NodeId, PieceOrder),
    (view, snapshot): (Option<ViewNumber>, EpochSet),
) -> Result<Answer, Refused> {
    let PieceOrder { table, bricks, order } = order;
    let now = life.look(Engine::view).ok_or(Refused::NotNow)?;
    let view = view.unwrap_or(now);
    let request = encode(&BrickRequest::Run { view, table, bricks, snapshot, order });
    tokio::select! {
        biased;
        answer = life.peers.fetch(node, request) => Ok(answer?),
        () = until_gone(life, node) => Err(Refused::NotNow),
    }
}

/// Ends when a node serves nothing any more, as far as this one knows. One that hangs would be waited for as long as an answer may take.
async fn until_gone(life: &Life, node: NodeId) {
    loop {
        sleep(LOOK_PAUSE).await;
        let is_there = life.look(|engine| engine.protocol.view().is_placed(node));
        if is_there != Some(true) {
            return;
        }
    }
}

/// What the answer of a node brings. `held` is kept until its end.
fn made<H: Send + 'static>(
    answer: Answer,
    (life, node): (Arc<Life>, NodeId),
    held: H,
) -> impl futures::Stream<Item = Result<Bytes, Refused>> {
    stream::try_unfold((answer, (life, node), held), async |(mut answer, (life, node), held)| {
        loop {
            // An answer whose next part is not waited for has ended.
            let part = tokio::select! {
                biased;
                part = answer.next() => part,
                () = until_gone(&life, node) => return Err(Refused::NotNow),
            };
            let Some(part) = part else { return Ok(None) };
            match decode(part?)? {
                BrickAnswer::Made(bytes) => return Ok(Some((bytes, (answer, (life, node), held)))),
                BrickAnswer::Running => {}
                BrickAnswer::NotNow => return Err(Refused::NotNow),
                BrickAnswer::BelowSafe => return Err(Refused::BelowSafe),
                BrickAnswer::Part(_)
                | BrickAnswer::Dictionaries(_)
                | BrickAnswer::Texts(_)
                | BrickAnswer::Bricks(_)
                | BrickAnswer::Share(_) => {
                    return Err(Malformed::Contradiction("a piece of a query was asked for").into());
                }
            }
        }
    })
}

/// What another node asks to be done here.
pub(super) struct AskedPiece {
    pub(super) view: ViewNumber,
    pub(super) snapshot: EpochSet,
    pub(super) order: PieceOrder,
}

impl Incoming {
    /// Runs a piece of another node's query, and gives what it makes.
    pub(super) async fn run(&self, asked: AskedPiece, answer: &AnswerParts) -> Result<(), CallRefusal> {
        let AskedPiece { view, snapshot, order: PieceOrder { table, bricks, order } } = asked;
        let is_now = self.0.look(|engine| engine.view() == view && engine.options.tables.has(table));
        let Some(runner) = self.0.options.runner.as_ref().filter(|_| is_now == Some(true)) else {
            return Ok(answer.give(encode(&BrickAnswer::NotNow).into()).await?);
        };
        let rows = PieceRows { life: Arc::clone(&self.0), view, table, snapshot };
        let mut parts = runner.run(Piece { bricks, order, rows });
        loop {
            let part = tokio::select! {
                biased;
                part = parts.next() => part,
                () = sleep(SIGN_OF_LIFE) => {
                    answer.give(encode(&BrickAnswer::Running).into()).await?;
                    continue;
                }
            };
            match part {
                Some(Ok(bytes)) => answer.give(encode(&BrickAnswer::Made(bytes)).into()).await?,
                Some(Err(why)) => return Err(CallRefusal(why)),
                None => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
