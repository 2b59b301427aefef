// SPDX-License-Identifier: Apache-2.0
//! [`NodeShare`]: what of the bricks each node has, and how many are still to come to it.
//!
//! A node knows of its own bricks alone. So all that are live are asked at once, for no longer than whoever wants to know waits; of who
//! says nothing, nothing is told. There may be many bricks, so they are looked at with nothing locked, and by a thread that may wait: under
//! the lock only that is taken along by which they are counted ([`Counting`]).
//!
//! ```text
//!    to come to a node  =  what all givers say that they give to it  -  what it says has come
//! ```
//! Each brick has one giver. With one of them unheard that sum would be too small, so it is not told then; the same if they are at
//! different layouts, as for a moment after a change.

use super::engine::Engine;
use super::life::Life;
use super::reading::Refused;
use crate::node::NodeId;
use crate::placement::RingPlacement;
use crate::store::{CountBricks, HeldBrick, StoreFailed};
use crate::wire::{BrickAnswer, BrickRequest, BrickShare, Gift, Malformed, decode, encode};
use coeval_txn::cluster::{BrickAddress, View, ViewNumber};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// What of the bricks a node has, as it has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeShare {
    /// Bricks with rows of which it has all that is decided: those that it serves, and those that have come to it.
    pub bricks: u64,
    /// Their rows, whoever sees them.
    pub rows: u64,
    /// The bytes of memory that they take.
    pub bytes: u64,
    /// Bricks that are on their way to it; nothing if not all nodes have been heard that give some.
    pub to_come: Option<u64>,
}

/// The bricks that have come to this node for good, in the present layout. Clones are for who looks at them without the lock: while
/// one is there, the list is copied once when the next brick comes.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrived {
    layout: ViewNumber,
    bricks: Arc<BTreeSet<BrickAddress>>,
}

impl Arrived {
    /// One more has come. It may come again, if something went wrong behind it.
    pub(super) fn note(&mut self, layout: ViewNumber, brick: BrickAddress) {
        self.forget_others(layout);
        Arc::make_mut(&mut self.bricks).insert(brick);
    }

    /// What has come in other layouts is served by now, or comes anew.
    pub(super) fn forget_others(&mut self, layout: ViewNumber) {
        if self.layout != layout {
            *self = Self { layout, bricks: Arc::default() };
        }
    }

    fn has(&self, layout: ViewNumber, brick: BrickAddress) -> bool {
        self.layout == layout && self.bricks.contains(&brick)
    }
}

/// Where bricks go, as the node that asks knows it.
struct Layout {
    number: ViewNumber,
    /// Who gives bricks; nothing while all are where they belong.
    givers: Option<Vec<NodeId>>,
}

impl Life {
    /// What the members of the view have, as far as they say so within this time.
    pub(super) async fn shares(&self, patience: Duration) -> BTreeMap<NodeId, NodeShare> {
        let here = self.look(|engine| (engine.others(), engine.layout()));
        let Some((others, layout)) = here else { return BTreeMap::new() };
        let mut answers = FuturesUnordered::new();
        for node in std::iter::once(self.member.node).chain(others) {
            answers.push(self.share_within(node, patience));
        }
        let mut said: BTreeMap<NodeId, BrickShare> = BTreeMap::new();
        while let Some(answered) = answers.next().await {
            said.extend(answered);
        }
        combined(&layout, &said)
    }

    /// What of the bricks is here, in numbers. Nothing if the life is over, or the store has failed.
    pub(super) async fn own_share(&self) -> Option<BrickShare> {
        let counting = self.look_into(Engine::counting)?.ok()?;
        // It waits for the threads that change bricks, and there may be a hundred thousand bricks.
        self.runtime.spawn_blocking(move || counting.share()).await.ok()?.ok()
    }

    async fn share_within(&self, node: NodeId, patience: Duration) -> Option<(NodeId, BrickShare)> {
        let share = timeout(patience, self.share_of(node)).await;
        share.ok()?.ok().map(|share| (node, share))
    }

    async fn share_of(&self, node: NodeId) -> Result<BrickShare, Refused> {
        if node == self.member.node {
            return self.own_share().await.ok_or(Refused::NotNow);
        }
        let mut answer = self.peers.fetch(node, encode(&BrickRequest::Share)).await?;
        let part = answer.next().await.ok_or(Malformed::Cut)??;
        match decode(part)? {
            BrickAnswer::Share(share) => Ok(share),
            BrickAnswer::NotNow => Err(Refused::NotNow),
            BrickAnswer::BelowSafe
            | BrickAnswer::Bricks(_)
            | BrickAnswer::Part(_)
            | BrickAnswer::Dictionaries(_)
            | BrickAnswer::Texts(_)
            | BrickAnswer::Made(_)
            | BrickAnswer::Running => Err(Malformed::Contradiction("numbers were asked for").into()),
        }
    }
}

/// What this node is about to say of its bricks: all but a look at them.
struct Counting {
    own: NodeId,
    view: View,
    placement: RingPlacement,
    arrived: Arrived,
    bricks: CountBricks,
}

impl Counting {
    /// Cost: a look at each brick that is here.
    fn share(self) -> Result<BrickShare, StoreFailed> {
        let Self { own, view, placement, arrived, bricks } = self;
        let mut share = BrickShare { layout: view.layout(), ..BrickShare::default() };
        let mut gives: BTreeMap<NodeId, u64> = BTreeMap::new();
        for HeldBrick { brick, rows, bytes } in bricks()?.into_iter().filter(|held| held.rows > 0) {
            let serving = view.serving(&placement, brick);
            let has_arrived = arrived.has(view.layout(), brick);
            if serving.contains(&own) || has_arrived {
                share.bricks += 1;
                share.rows += rows;
                share.bytes += bytes;
                share.arrived += u64::from(has_arrived);
            }
            if serving.first() == Some(&own) {
                for to in view.receiving(&placement, brick) {
                    *gives.entry(to).or_default() += 1;
                }
            }
        }
        share.gives = gives.into_iter().map(|(to, bricks)| Gift { to, bricks }).collect();
        Ok(share)
    }
}

/// What nodes have said, put together.
fn combined(layout: &Layout, said: &BTreeMap<NodeId, BrickShare>) -> BTreeMap<NodeId, NodeShare> {
    let is_of_now = |share: &BrickShare| share.layout == layout.number;
    let is_heard = |giver: &NodeId| said.get(giver).is_some_and(is_of_now);
    let given_to = |node: NodeId| {
        let gifts = said.values().flat_map(|share| &share.gives).filter(|gift| gift.to == node);
        gifts.fold(0_u64, |sum, gift| sum.saturating_add(gift.bricks))
    };
    let share_of = |(node, share): (&NodeId, &BrickShare)| {
        let to_come = match &layout.givers {
            None => Some(0),
            Some(givers) if is_of_now(share) && givers.iter().all(is_heard) => {
                Some(given_to(*node).saturating_sub(share.arrived))
            }
            Some(_) => None,
        };
        let BrickShare { bricks, rows, bytes, .. } = *share;
        (*node, NodeShare { bricks, rows, bytes, to_come })
    };
    said.iter().map(share_of).collect()
}

impl Engine {
    /// What is needed to say what this node has of the bricks, and what it gives. Cost: a copy of the view, which has some words for
    /// each node; no brick is looked at.
    ///
    /// # Errors
    /// If the store has failed.
    fn counting(&mut self) -> Result<Counting, StoreFailed> {
        let bricks = self.store.held()?;
        let (view, placement) = (self.protocol.view().clone(), self.placement.clone());
        Ok(Counting { own: self.own(), view, placement, arrived: self.arrived.clone(), bricks })
    }

    /// The other members of the view.
    fn others(&self) -> Vec<NodeId> {
        let members = self.protocol.view().members().map(|member| member.node);
        members.filter(|node| *node != self.own()).collect()
    }

    fn layout(&self) -> Layout {
        let view = self.protocol.view();
        let givers = || {
            view.members().map(|member| member.node).filter(|node| view.is_placed(*node)).collect::<Vec<_>>()
        };
        Layout { number: view.layout(), givers: view.is_moving().then(givers) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NodeId = NodeId::new(1);
    const TWO: NodeId = NodeId::new(2);
    const THREE: NodeId = NodeId::new(3);

    fn share(layout: u64, bricks: u64, arrived: u64, gives: &[(NodeId, u64)]) -> BrickShare {
        let gives = gives.iter().map(|(to, bricks)| Gift { to: *to, bricks: *bricks }).collect();
        let layout = ViewNumber::new(layout);
        BrickShare { layout, bricks, rows: 10 * bricks, bytes: 100 * bricks, arrived, gives }
    }

    fn moving() -> Layout {
        Layout { number: ViewNumber::new(7), givers: Some(vec![ONE, TWO]) }
    }

    fn to_come(layout: &Layout, said: &BTreeMap<NodeId, BrickShare>) -> Vec<Option<u64>> {
        combined(layout, said).values().map(|share| share.to_come).collect()
    }

    /// To break it: leave out what has arrived, or that each giver has to be heard.
    #[test]
    fn what_is_to_come_is_what_is_given_and_has_not_arrived() {
        let mut said = BTreeMap::from([
            (ONE, share(7, 6, 0, &[(THREE, 4)])),
            (TWO, share(7, 5, 0, &[(THREE, 3), (ONE, 1)])),
            (THREE, share(7, 2, 2, &[])),
        ]);
        assert_eq!(to_come(&moving(), &said), [Some(1), Some(0), Some(5)]);
        let of_three = combined(&moving(), &said)[&THREE];
        assert_eq!((of_three.bricks, of_three.rows, of_three.bytes), (2, 20, 200));
        // Bricks of which somebody loads while they come may be more than were given.
        said.insert(THREE, share(7, 9, 9, &[]));
        assert_eq!(to_come(&moving(), &said), [Some(1), Some(0), Some(0)]);
        said.remove(&TWO);
        assert_eq!(to_come(&moving(), &said), [None, None], "nobody knows what the second one gives");
    }

    #[test]
    fn nodes_at_another_layout_say_nothing_of_moves() {
        let said = BTreeMap::from([
            (ONE, share(7, 6, 0, &[(THREE, 4)])),
            (TWO, share(7, 5, 0, &[])),
            (THREE, share(6, 2, 2, &[])),
        ]);
        assert_eq!(to_come(&moving(), &said), [Some(0), Some(0), None]);
        let late = BTreeMap::from([(ONE, share(6, 6, 0, &[])), (TWO, share(7, 5, 0, &[]))]);
        assert_eq!(to_come(&moving(), &late), [None, None]);
    }

    #[test]
    fn nothing_is_to_come_while_all_is_where_it_belongs() {
        let said = BTreeMap::from([(ONE, share(7, 6, 0, &[])), (THREE, share(6, 2, 2, &[]))]);
        let still = Layout { number: ViewNumber::new(7), givers: None };
        assert_eq!(to_come(&still, &said), [Some(0), Some(0)]);
    }

    /// To break it: go by the bricks alone.
    #[test]
    fn what_came_in_an_earlier_layout_counts_no_more() {
        let (brick, mut arrived) = (BrickAddress { table: 1, brick: 2 }, Arrived::default());
        let (before, now) = (ViewNumber::new(6), ViewNumber::new(7));
        arrived.note(before, brick);
        assert!(arrived.has(before, brick) && !arrived.has(now, brick));
        arrived.note(now, BrickAddress { table: 1, brick: 3 });
        assert!(!arrived.has(now, brick) && !arrived.has(before, brick));
        arrived.forget_others(ViewNumber::new(8));
        assert!(arrived.bricks.is_empty());
    }
}
