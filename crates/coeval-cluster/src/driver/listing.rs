// SPDX-License-Identifier: Apache-2.0
//! Which bricks a table has, for a reader: all of which any node has something.
//!
//! Why not all nodes have to be asked: each brick is on as many nodes as there are replicas, and each of these that is live has all
//! of it that is decided. So once fewer are left to be asked than there are live replicas of each brick, one of these has answered,
//! whichever brick it is. A node that says nothing holds up nobody as long as enough others answer; else the keeper removes it, and
//! those of the next view are asked.
//!
//! Who answers is at the view of who asks, as with rows; and LSE has not passed the snapshot there, since purge may have taken
//! bricks of which nothing was left.

use super::engine::Engine;
use super::error::ReadError;
use super::life::Life;
use super::reading::{PAUSE, Refused};
use crate::node::NodeId;
use crate::wire::{BrickAnswer, BrickRequest, Malformed, decode, encode};
use coeval_txn::EpochSet;
use coeval_txn::cluster::{BrickAddress, ViewNumber};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::collections::BTreeSet;
use std::time::Instant;
use tokio::time::sleep;

/// What this node has, and who else is to be asked.
struct Listing {
    view: ViewNumber,
    bricks: BTreeSet<u64>,
    others: Vec<NodeId>,
    /// How many of them need not answer; nothing if not all bricks can be found at this view.
    unanswered_max: Option<usize>,
}

/// How many of the live nodes that bricks are placed on need not answer: with one more, these might be all live replicas of some
/// brick. Nothing if so many are lost that this may be so already.
fn unanswered_max(placed: usize, lost: usize, replicas: usize) -> Option<usize> {
    replicas.min(placed).checked_sub(lost + 1)
}

impl Life {
    /// The bricks of a table that a snapshot of this life may see rows in, ascending.
    pub(super) async fn list(&self, table: u64, snapshot: &EpochSet) -> Result<Vec<u64>, ReadError> {
        if !self.options.tables.has(table) {
            return Err(ReadError::NoTable(table));
        }
        let (begun, after) = (Instant::now(), self.options.timeouts.read);
        let mut last = "too few nodes of the view have bricks".to_owned();
        while begun.elapsed() < after {
            let listing = self.list_here(table, snapshot)?;
            let view = listing.view;
            let left = after.saturating_sub(begun.elapsed());
            tokio::select! {
                biased;
                listed = self.list_with_others(listing, table, snapshot) => match listed {
                    Ok(bricks) => return Ok(bricks.into_iter().collect()),
                    Err(Refused::BelowSafe) => return Err(ReadError::BelowSafe),
                    Err(refused) => last = refused.to_string(),
                },
                // Whoever does not answer is out of it perhaps.
                changed = self.until(|engine| (engine.view() != view).then_some(())) => {
                    changed.ok_or_else(|| self.read_ended())?;
                }
                () = sleep(left) => {}
            }
            sleep(PAUSE).await;
        }
        Err(ReadError::NotListed { table, after, last })
    }

    fn list_here(&self, table: u64, snapshot: &EpochSet) -> Result<Listing, ReadError> {
        let listing = self.look_into(|engine| {
            let (own, view) = (engine.own(), engine.view());
            let (here, is_here) = match engine.list(view, table, snapshot) {
                Ok(bricks) => (bricks, true),
                Err(BrickAnswer::BelowSafe) => return Err(ReadError::BelowSafe),
                Err(_) => (Vec::new(), false),
            };
            let state = engine.protocol.view();
            let mut others: Vec<NodeId> = state.placed().keys().copied().collect();
            others.retain(|node| state.is_placed(*node) && !(is_here && *node == own));
            let unanswered_max = unanswered_max(state.placed().len(), state.lost(), engine.options.replicas);
            let bricks = here.into_iter().map(|at| at.brick).collect();
            Ok(Listing { view, bricks, others, unanswered_max })
        });
        listing.ok_or_else(|| self.read_ended())?
    }

    /// What is here and elsewhere.
    async fn list_with_others(
        &self,
        listing: Listing,
        table: u64,
        snapshot: &EpochSet,
    ) -> Result<BTreeSet<u64>, Refused> {
        let Listing { view, mut bricks, others, unanswered_max } = listing;
        let unanswered_max = unanswered_max.ok_or(Refused::NotNow)?;
        let (mut unanswered, mut refusal) = (others.len(), Refused::NotNow);
        let mut answers = FuturesUnordered::new();
        for node in others {
            answers.push(self.list_from(node, view, table, snapshot));
        }
        while unanswered > unanswered_max {
            match answers.next().await {
                Some(Ok(more)) => {
                    bricks.extend(more);
                    unanswered -= 1;
                }
                Some(Err(Refused::BelowSafe)) => return Err(Refused::BelowSafe),
                Some(Err(refused)) => refusal = refused,
                None => return Err(refusal),
            }
        }
        Ok(bricks)
    }

    async fn list_from(
        &self,
        node: NodeId,
        view: ViewNumber,
        table: u64,
        snapshot: &EpochSet,
    ) -> Result<Vec<u64>, Refused> {
        let request = encode(&BrickRequest::List { view, table, snapshot: snapshot.clone() });
        let mut answer = self.peers.fetch(node, request).await?;
        let mut bricks = None;
        while let Some(part) = answer.next().await {
            match decode(part?)? {
                BrickAnswer::Bricks(more) if more.iter().all(|at| at.table == table) => {
                    let bricks = bricks.get_or_insert_with(Vec::new);
                    bricks.extend(more.into_iter().map(|at: BrickAddress| at.brick));
                }
                BrickAnswer::NotNow => return Err(Refused::NotNow),
                BrickAnswer::BelowSafe => return Err(Refused::BelowSafe),
                BrickAnswer::Bricks(_)
                | BrickAnswer::Part(_)
                | BrickAnswer::Dictionaries(_)
                | BrickAnswer::Share(_)
                | BrickAnswer::Texts(_)
                | BrickAnswer::Made(_)
                | BrickAnswer::Running => {
                    return Err(Malformed::Contradiction("bricks of one table were asked for").into());
                }
            }
        }
        Ok(bricks.ok_or(Malformed::Cut)?)
    }
}

impl Engine {
    /// The bricks of a table of which there is something here, for whoever reads this snapshot at this view.
    ///
    /// # Errors
    /// What whoever asks is told, if this node does not have all that is decided of its bricks, or has it no more.
    pub(super) fn list(
        &mut self,
        view: ViewNumber,
        table: u64,
        snapshot: &EpochSet,
    ) -> Result<Vec<BrickAddress>, BrickAnswer> {
        let state = self.protocol.view();
        let serves = state.has(self.protocol.member()) && state.is_placed(self.own());
        // A table that is gone for good here is not without bricks.
        if !serves || view != state.number() || !self.options.tables.has(table) {
            return Err(BrickAnswer::NotNow);
        }
        if snapshot.horizon() < self.protocol.latest_safe() {
            return Err(BrickAnswer::BelowSafe);
        }
        self.store.bricks_of(table).map_err(|_| BrickAnswer::NotNow)
    }
}

#[cfg(test)]
mod tests {
    use super::unanswered_max;

    /// To break it: leave out `lost`. With one replica of two gone, the other one need not answer then, and its bricks are missing.
    #[test]
    fn as_many_answer_as_have_each_brick_among_them() {
        // One replica: all have to.
        assert_eq!(unanswered_max(3, 0, 1), Some(0));
        assert_eq!(unanswered_max(3, 0, 2), Some(1));
        assert_eq!(unanswered_max(3, 1, 2), Some(0));
        assert_eq!(unanswered_max(3, 2, 2), None);
        // There are not so many nodes yet as there are to be replicas.
        assert_eq!(unanswered_max(1, 0, 2), Some(0));
        assert_eq!(unanswered_max(2, 1, 3), Some(0));
        // The cluster has not been founded.
        assert_eq!(unanswered_max(0, 0, 2), None);
    }
}
