// SPDX-License-Identifier: Apache-2.0
//! [`KeeperLink`]: how a node reaches the keeper that is beside it, if one is.

use super::keeper_thread::Keeper;
use crate::wire::Alive;
use coeval_txn::cluster::ToKeeper;
use parking_lot::Mutex;
use std::sync::Arc;

/// What the keeper is told.
#[derive(Debug)]
pub(super) enum KeeperInput {
    Told(ToKeeper),
    Heard(Alive),
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

    fn put(&self, input: KeeperInput) {
        if let Some(keeper) = &*self.keeper.lock() {
            keeper.put(input);
        }
    }
}
