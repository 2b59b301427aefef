// SPDX-License-Identifier: Apache-2.0
//! [`KeeperLink`]: how a node reaches the keeper that is beside it, if one is.

use super::keeper_thread::Keeper;
use crate::node::NodeId;
use crate::wire::Alive;
use coeval_txn::cluster::{AddError, ChangeError, HolderSays, NodeAsk, RecoverError, ToKeeper};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::oneshot;

/// What the keeper is told, or asked.
#[derive(Debug)]
pub(super) enum KeeperInput {
    Told(ToKeeper),
    Heard(Alive),
    Held(HolderSays),
    Add(NodeAsk, oneshot::Sender<Result<NodeId, AddError>>),
    Change(NodeChange, oneshot::Sender<Result<(), ChangeError>>),
    Recover(BTreeSet<NodeId>, oneshot::Sender<Result<(), RecoverError>>),
}

/// What whoever runs a cluster does with a node of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeChange {
    /// No bricks are to be on it any more.
    Drain(NodeId),
    /// It is out for good.
    Remove(NodeId),
}

/// The way to the keeper beside a node. Without one, what it is told is lost; it is said again.
///
/// # Locking
/// Held to put something into the keeper's queue, which does not wait, or to exchange the keeper. Nothing else is locked
/// meanwhile.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeeperLink {
    keeper: Arc<Mutex<Option<Keeper>>>,
}

impl KeeperLink {
    /// Puts another keeper in the place of the one before, or none; the one before ends.
    pub(crate) fn set(&self, keeper: Option<Keeper>) {
        let before = std::mem::replace(&mut *self.keeper.lock(), keeper);
        // Its end waits for its thread, which may be at this node's door.
        drop(before);
    }

    pub(crate) fn tell(&self, told: ToKeeper) {
        self.put(KeeperInput::Told(told));
    }

    pub(crate) fn hear(&self, alive: Alive) {
        self.put(KeeperInput::Heard(alive));
    }

    /// A node says what it holds.
    pub(crate) fn answer(&self, said: HolderSays) {
        self.put(KeeperInput::Held(said));
    }

    /// A node wants to belong, or starts again: its number, once that is recorded. Nothing is answered if there is no keeper
    /// here, or it has too much to look at: ask again.
    pub(crate) fn add(&self, ask: NodeAsk) -> oneshot::Receiver<Result<NodeId, AddError>> {
        let (answer, answered) = oneshot::channel();
        self.put(KeeperInput::Add(ask, answer));
        answered
    }

    /// Somebody wants something done with a node: answered as [`add`](Self::add).
    pub(crate) fn change(&self, change: NodeChange) -> oneshot::Receiver<Result<(), ChangeError>> {
        let (answer, answered) = oneshot::channel();
        self.put(KeeperInput::Change(change, answer));
        answered
    }

    /// Somebody says that these nodes are lost for good: whether the keeper has begun without them, once that is recorded. Answered as
    /// [`add`](Self::add).
    pub(crate) fn recover(&self, lost: BTreeSet<NodeId>) -> oneshot::Receiver<Result<(), RecoverError>> {
        let (answer, answered) = oneshot::channel();
        self.put(KeeperInput::Recover(lost, answer));
        answered
    }

    fn put(&self, input: KeeperInput) {
        if let Some(keeper) = &*self.keeper.lock() {
            keeper.put(input);
        }
    }
}
