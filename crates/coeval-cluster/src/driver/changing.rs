// SPDX-License-Identifier: Apache-2.0
//! What whoever runs a cluster does with its nodes: drains them, removes them, sees them end.

use super::engine::{EndReason, Engine};
use super::error::ChangeNodesError;
use super::node::Node;
use crate::keeper::NodeChange;
use crate::node::NodeId;
use crate::start_error::StartError;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

/// Between two looks whether the next life of a node has begun.
const PAUSE: Duration = Duration::from_millis(5);

impl Node {
    /// Has no more bricks placed on a node: those that it has move to the others while loads and queries go on. That this will
    /// be so is on disk when this returns; it is done when [`NodeStatus::placed`](super::NodeStatus::placed) is without
    /// the node. Then it may be stopped, or removed. Without effect on one that is drained already.
    ///
    /// # Errors
    /// If the keeper of the views is elsewhere or does not run, the node is not live, or fewer nodes than replicas would be
    /// left: nothing has changed. [`ChangeNodesError::NotSettled`] if too few nodes answer the keeper.
    pub async fn drain(&self, node: NodeId) -> Result<(), ChangeNodesError> {
        self.change(NodeChange::Drain(node)).await
    }

    /// Has a node be out for good, dead or alive: nobody waits for it, its number is never used again, and if it speaks up it
    /// is told, and ends. What it has that others lack would be lost, so it is refused as long as there may be such. That this is
    /// so is on disk when this returns. Without effect on one that is removed already.
    ///
    /// # Errors
    /// If the keeper of the views is elsewhere, does not run, or is on that node; if fewer nodes than replicas would be left, or
    /// some brick without one: nothing has changed. [`ChangeNodesError::NotSettled`] if too few nodes answer the keeper.
    pub async fn remove(&self, node: NodeId) -> Result<(), ChangeNodesError> {
        if self.life().look(Engine::keeper_node) == Some(node) {
            return Err(ChangeNodesError::HasKeeper(node));
        }
        self.change(NodeChange::Remove(node)).await
    }

    /// Has the keeper beside this node, which cannot begin since too few nodes answer, begin without some that are lost for good. They
    /// are out as if [removed](Node::remove); if one is back after all, it is told so, and ends. What only they have seen of who takes part
    /// is given up, and the loads that were decided meanwhile. That this is so is on disk when this returns.
    ///
    /// # Errors
    /// If the keeper does not run here or has begun; if one of them has answered, some other member has not, or some bricks would have no
    /// replica. Nothing has changed. Right after the start of the keeper others may not have answered yet: ask again.
    /// [`ChangeNodesError::NotSettled`] if it has begun, and too few of those that are left hold that: ask again, too.
    pub async fn recover(&self, lost: BTreeSet<NodeId>) -> Result<(), ChangeNodesError> {
        let life = self.life();
        let answered = life.look(|engine| engine.keeper.recover(lost)).ok_or(ChangeNodesError::NoKeeper)?;
        let after = life.options.timeouts.serve;
        let answered = timeout(after, answered).await.map_err(|_| ChangeNodesError::NotSettled { after })?;
        answered.map_err(|_| ChangeNodesError::NoKeeper)?.map_err(ChangeNodesError::NotRecovered)
    }

    async fn change(&self, change: NodeChange) -> Result<(), ChangeNodesError> {
        let life = self.life();
        let keeper = life.look(Engine::keeper_node).ok_or(ChangeNodesError::NoKeeper)?;
        if keeper != life.member.node {
            let address = life.look(|engine| engine.known.address(keeper).cloned()).flatten();
            return Err(ChangeNodesError::Elsewhere { keeper, address });
        }
        let answered = life.look(|engine| engine.keeper.change(change)).ok_or(ChangeNodesError::NoKeeper)?;
        let after = life.options.timeouts.serve;
        let answered = timeout(after, answered).await.map_err(|_| ChangeNodesError::NotSettled { after })?;
        answered.map_err(|_| ChangeNodesError::NoKeeper)?.map_err(ChangeNodesError::Refused)
    }

    /// Waits until the node has ended for good, and says why: it was stopped, could not go on, or was removed from the cluster.
    pub async fn ended(&self) -> StartError {
        loop {
            let life = self.life();
            life.end.cancelled().await;
            match life.why_ended() {
                EndReason::Left if self.is_stopped() => {
                    return StartError::Ended(EndReason::Stopped.to_string());
                }
                // The next life is about to begin.
                EndReason::Left => tokio::time::sleep(PAUSE).await,
                EndReason::Removed(node) => return StartError::Removed(node),
                why @ (EndReason::Failed(_) | EndReason::Stopped) => {
                    return StartError::Ended(why.to_string());
                }
            }
        }
    }
}
