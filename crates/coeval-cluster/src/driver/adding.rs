// SPDX-License-Identifier: Apache-2.0
//! Nodes that ask to belong, or start again: how they are answered, whichever node they ask.
//!
//! ```text
//!   who asks ---> any node:  known, and as it says?  --- yes ---> its membership
//!                              | no
//!                              v
//!                 the node with the keeper: a number, the record on disk ---> its membership
//! ```
//! So a node that starts again where it was needs no keeper.

use super::engine::Engine;
use super::life::Life;
use crate::membership::Membership;
use crate::node::NodeId;
use crate::node_address::NodeAddress;
use crate::transport::CallRefusal;
use crate::wire::{JoinAnswer, JoinRequest, decode, encode};
use coeval_txn::cluster::{AddError, KnownNode, NodeAsk};
use std::sync::Arc;

impl Life {
    /// Answers somebody who has asked this node.
    ///
    /// # Errors
    /// If it cannot be answered now: another node may be asked, or this one again.
    pub(super) async fn answer_join(&self, request: JoinRequest) -> Result<JoinAnswer, CallRefusal> {
        if let Some(answer) = self.look(|engine| engine.answer_known(&request)).ok_or_else(has_ended)? {
            return Ok(answer);
        }
        let keeper = self.look(Engine::keeper_node).ok_or_else(has_ended)?;
        if keeper == self.member.node {
            return self.ask_own_keeper(request).await;
        }
        let asked = self.peers.call(keeper, encode(&request)).await;
        let answer = asked.map_err(|error| {
            CallRefusal(format!(
                "the keeper of the views on {keeper} has to be asked, and does not answer: {error}"
            ))
        })?;
        decode(answer)
            .map_err(|error| CallRefusal(format!("what {keeper} answers is not known here: {error}")))
    }

    /// Has the keeper beside this node answer. What it records is on disk then.
    ///
    /// # Errors
    /// If the keeper does not run here, or cannot answer now.
    pub(super) async fn ask_own_keeper(&self, request: JoinRequest) -> Result<JoinAnswer, CallRefusal> {
        let (keeper, own) = (self.look(Engine::keeper_node).ok_or_else(has_ended)?, self.member.node);
        if keeper != own {
            return Err(CallRefusal(format!("the keeper of the views is on {keeper}, and this is {own}")));
        }
        let JoinRequest { start, node, address } = request;
        let ask = NodeAsk { start, node, address: Arc::from(address.to_string()) };
        let answered = self.look(|engine| engine.keeper.add(ask)).ok_or_else(has_ended)?;
        match answered.await {
            Ok(Ok(node)) => {
                let membership = self.look(|engine| engine.membership_of(node, address));
                membership.map(JoinAnswer::Belongs).ok_or_else(has_ended)
            }
            Ok(Err(AddError::Removed(node))) => Ok(JoinAnswer::Removed(node)),
            Ok(Err(error)) => Ok(JoinAnswer::Refused(error.to_string().into())),
            Err(_) => {
                let why = "the keeper of the views does not run, or has too much to do: ask again";
                Err(CallRefusal(why.to_owned()))
            }
        }
    }
}

fn has_ended() -> CallRefusal {
    CallRefusal("the node has ended".to_owned())
}

impl Engine {
    /// The answer to who is known here as it says, or was removed; none to others, whom the keeper answers.
    fn answer_known(&self, request: &JoinRequest) -> Option<JoinAnswer> {
        let view = self.protocol.view();
        let is_it = |node: NodeId, known: &KnownNode| {
            known.start == Some(request.start) && request.node.is_none_or(|asked| asked == node)
        };
        let (node, known) = view.known().iter().find(|&(node, known)| is_it(*node, known))?;
        if view.removed().contains(node) {
            return Some(JoinAnswer::Removed(*node));
        }
        let is_there = *known.address == *request.address.to_string();
        is_there.then(|| JoinAnswer::Belongs(self.membership_of(*node, request.address.clone())))
    }

    /// What a node is told that is at this address.
    pub(super) fn membership_of(&self, node: NodeId, address: NodeAddress) -> Membership {
        let mut nodes = self.known.list();
        nodes.retain(|(node, _)| !self.protocol.view().removed().contains(node));
        let mut membership = Membership {
            cluster: self.options.transport.cluster,
            node,
            nodes,
            as_of: self.known.as_of(),
            keeper: self.keeper_node(),
            replicas: self.options.replicas,
            stride: self.options.stride,
        };
        membership.set_own_address(address);
        membership
    }
}
