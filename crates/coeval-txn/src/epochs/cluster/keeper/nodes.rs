// SPDX-License-Identifier: Apache-2.0
//! Which nodes there are: who comes, who is drained, who is out for good.
//!
//! ```text
//!    asks, with a start id    Known: number, address        drain: Drained            remove: Removed
//!    no number yet  ------->  one of the cluster  ------->  bricks move away  ----->  out, its number is used up
//!                             Join: a member, bricks come   (no place: may stop)      Join: not taken
//! ```
//! A number is the stride of a node's epochs, so it is given once. The record with it is durable before the node is answered;
//! if the answer is lost the node asks again, and is known by the start id that it has drawn.

use std::sync::Arc;

use super::ViewKeeper;
use crate::epochs::cluster::rules::Rule;
use crate::epochs::cluster::view::{NodeId, StartId, ViewChange, ViewRecord};

/// What a node asks that wants to belong, or starts again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAsk {
    /// What it has drawn before it first asked, and has on disk.
    pub start: StartId,
    /// Its number, if it has one.
    pub node: Option<NodeId>,
    /// Where it is reached.
    pub address: Arc<str>,
}

/// Why a node gets no number, or not the one that it names. Nothing was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// All numbers have been given, also those of nodes that are gone.
    #[error("all {0} numbers of nodes have been given, and none is given twice")]
    NoNumberLeft(u32),
    /// The node is out for good.
    #[error("{0} was removed from the cluster; its number is never used again")]
    Removed(NodeId),
    /// The number is another node's: that one has asked with another start id.
    #[error("{0} is the number of another node")]
    OtherNode(NodeId),
    /// There is no node of that number.
    #[error("there is no {0} in the cluster")]
    Unknown(NodeId),
}

/// Why a node is not drained, or not removed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// There is no node of that number.
    #[error("there is no {0} in the cluster")]
    Unknown(NodeId),
    /// It was removed before.
    #[error("{0} was removed from the cluster")]
    Removed(NodeId),
    /// It is not in the view, so it has no bricks to give.
    #[error("{0} is not live: start it, or remove it")]
    NotLive(NodeId),
    /// Bricks could not be on as many nodes as they are to be on.
    #[error(
        "without {node} bricks could be on {left} nodes, and they are to be on {replicas}: add a node first"
    )]
    TooFew {
        /// The node.
        node: NodeId,
        /// How many live nodes would be left that are not drained.
        left: usize,
        /// On how many nodes each brick is to be.
        replicas: usize,
    },
    /// Nobody else would have some of the bricks.
    #[error("{0} may hold the last replica of some bricks")]
    LastReplica(NodeId),
}

impl ViewKeeper {
    /// Gives a node its number: the least that no node has ever had, or the one that it has already. With it the record
    /// of that, unless all of it was recorded before.
    ///
    /// The record has to be durable before the node is answered. Cost: a look at each node.
    ///
    /// # Errors
    ///
    /// If no number up to `stride` is left, or the node may not have the number that it names. Nothing has changed.
    ///
    /// # Panics
    ///
    /// If a number that was removed would be given again: a bug.
    pub fn add(&mut self, ask: &NodeAsk, stride: u32) -> Result<(NodeId, Option<ViewRecord>), AddError> {
        let again = self.started_with(ask.start).filter(|_| self.rules.keep(Rule::SameStartSameNumber));
        let node = match ask.node.or(again) {
            Some(node) => {
                self.check_return(node, ask.start)?;
                node
            }
            None => self.free_number(stride).ok_or(AddError::NoNumberLeft(stride))?,
        };
        assert!(!self.view.removed().contains(&node), "who was removed is not added");
        Ok((node, self.note(node, &ask.address, Some(ask.start))))
    }

    /// Notes where a node is that was told its number. Gives the record of that, unless it was known.
    #[must_use]
    pub fn know(&mut self, node: NodeId, address: &Arc<str>) -> Option<ViewRecord> {
        let start = self.view.known().get(&node).and_then(|known| known.start);
        self.note(node, address, start)
    }

    /// Has no more bricks placed on a node; those that it has move to the others, as when a node comes or is lost. It has
    /// none when the view has it in no [`placed`](crate::epochs::cluster::View::placed), and may then be stopped. Gives the record
    /// of that, unless it was drained before.
    ///
    /// # Errors
    ///
    /// If it is not live, or fewer nodes than replicas would be left. Nothing has changed.
    pub fn drain(&mut self, node: NodeId) -> Result<Option<ViewRecord>, ChangeError> {
        self.check_there(node)?;
        if self.view.member(node).is_none() {
            return Err(ChangeError::NotLive(node));
        }
        if self.view.drained().contains(&node) {
            return Ok(None);
        }
        self.check_enough_without(node)?;
        let (members, mut placed) = (self.members(), self.view.placed().clone());
        placed.remove(&node);
        let change = if placed.is_empty() || self.rules.keep(Rule::DrainedServesUntilMoved) {
            ViewChange::Drained { node }
        } else {
            ViewChange::Members { members, placed }
        };
        Ok(Some(self.record(change)))
    }

    /// Has a node be out for good, live or not: it is in no view any more, nobody waits for it, and nobody gets its number.
    /// Gives the record of that, unless it was removed before.
    ///
    /// # Errors
    ///
    /// If fewer nodes than replicas would be left, or some brick without a replica. Nothing has changed.
    pub fn remove_for_good(&mut self, node: NodeId) -> Result<Option<ViewRecord>, ChangeError> {
        if self.view.removed().contains(&node) {
            return Ok(None);
        }
        self.check_there(node)?;
        self.check_enough_without(node)?;
        if !self.may_lose(node) {
            return Err(ChangeError::LastReplica(node));
        }
        Ok(Some(self.record(ViewChange::Removed { node })))
    }

    fn note(&mut self, node: NodeId, address: &Arc<str>, start: Option<StartId>) -> Option<ViewRecord> {
        let known = self.view.known().get(&node);
        if known.is_some_and(|known| known.address == *address && known.start == start) {
            return None;
        }
        Some(self.record(ViewChange::Known { node, address: Arc::clone(address), start }))
    }

    fn started_with(&self, start: StartId) -> Option<NodeId> {
        let mut known = self.view.known().iter();
        known.find(|(_, known)| known.start == Some(start)).map(|(node, _)| *node)
    }

    /// Whether the node that asks may go on with this number.
    fn check_return(&self, node: NodeId, start: StartId) -> Result<(), AddError> {
        if self.view.removed().contains(&node) {
            return Err(AddError::Removed(node));
        }
        if !self.has_been_given(node) {
            return Err(AddError::Unknown(node));
        }
        let before = self.view.known().get(&node).and_then(|known| known.start);
        if before.is_some_and(|before| before != start) { Err(AddError::OtherNode(node)) } else { Ok(()) }
    }

    fn free_number(&self, stride: u32) -> Option<NodeId> {
        let is_free = |node: &NodeId| {
            let is_gone = self.view.member(*node).is_none() && !self.rules.keep(Rule::NumberGivenOnce);
            is_gone || !self.has_been_given(*node)
        };
        (1..=stride).map(NodeId::new).find(is_free)
    }

    /// Whether a node has ever had this number. One that was told it may have joined without having asked.
    fn has_been_given(&self, node: NodeId) -> bool {
        self.view.known().contains_key(&node) || self.newest.contains_key(&node)
    }

    fn check_there(&self, node: NodeId) -> Result<(), ChangeError> {
        if self.view.removed().contains(&node) {
            return Err(ChangeError::Removed(node));
        }
        if self.has_been_given(node) { Ok(()) } else { Err(ChangeError::Unknown(node)) }
    }

    fn check_enough_without(&self, node: NodeId) -> Result<(), ChangeError> {
        let stays = |other: NodeId| other != node && !self.view.drained().contains(&other);
        let left = self.view.members().filter(|member| stays(member.node)).count();
        let replicas = self.replicas;
        if left < replicas { Err(ChangeError::TooFew { node, left, replicas }) } else { Ok(()) }
    }
}
