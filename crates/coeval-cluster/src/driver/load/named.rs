// SPDX-License-Identifier: Apache-2.0
//! [`NamedLoad`]: a load that is one transaction with rows of the database.

use super::Load;
use crate::driver::error::LoadError;
use crate::driver::life::Life;
use crate::row_transactions::RowTransactions;
use coeval_txn::Epoch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A load that is one transaction with rows, which may be committed by now in a version that names its [age](Self::age). All holders have
/// logged it, so what becomes of the rows becomes of it.
///
/// If it is dropped, it is rolled back; but not once its rows [are expected](Self::expect_rows), and were handed in. Then it is not known what has
/// become of them, and it is decided once they are found to be there ([`Node::decide_found`](crate::Node::decide_found)). Until then no snapshot of any node has
/// it, or what began behind it, so that is for failures alone.
#[derive(Debug)]
pub struct NamedLoad {
    load: Load,
    age: Epoch,
    rows: OpenRows,
    is_over: bool,
}

/// Rows that may name a load.
#[derive(Debug)]
struct OpenRows {
    of: RowTransactions,
    epoch: Epoch,
    /// When this is dropped.
    then: Then,
}

/// What is known of rows.
#[derive(Debug)]
enum Then {
    /// They are there, or there are none and will be none.
    Known,
    /// They may be committed, once they were handed in.
    Expected(Arc<AtomicBool>),
}

impl Then {
    /// Whether there are none, and will be none, if whoever has them drops them now; or it is known what has become of them.
    fn is_known(&self) -> bool {
        match self {
            Self::Known => true,
            Self::Expected(are_handed_in) => !are_handed_in.load(Ordering::SeqCst),
        }
    }
}

impl Drop for OpenRows {
    fn drop(&mut self) {
        if self.then.is_known() {
            self.of.end(self.epoch);
        } else {
            self.of.leave(self.epoch);
        }
    }
}

impl Drop for NamedLoad {
    fn drop(&mut self) {
        if !self.is_over && self.rows.then.is_known() {
            self.take_back();
        }
    }
}

impl Life {
    /// The rows that a load is one transaction with are there, if that began in this life.
    pub(in crate::driver) fn decide(&self, epoch: Epoch) {
        self.step(|engine| {
            engine.sends_all = true;
            if engine.protocol.decide(epoch).is_ok()
                && let Some(caller) = engine.callers.get_mut(&epoch)
            {
                caller.has_gone = true;
            }
        });
    }
}

impl Load {
    /// Has the load be one transaction with rows: waits until all holders have logged it, and all that began before it has ended. Nothing if it
    /// has no rows of its own, and is over. May be given up: then it is rolled back.
    ///
    /// # Errors
    /// [`LoadError::OtherPrimary`]; [`LoadError::NotNamed`] if that takes longer than `patience`; if it is rolled back, or nobody here can know how it ends. There is nothing
    /// of it then, and its rows must not be committed.
    pub async fn prepare(mut self, patience: Duration) -> Result<Option<NamedLoad>, LoadError> {
        if self.appends == 0 {
            return Ok(None);
        }
        let epoch = self.epoch;
        let looked = self.life.look(|engine| (engine.keeper_node(), engine.own()));
        let (keeper, own) = looked.ok_or_else(|| self.unknown())?;
        if keeper != own {
            return Err(LoadError::OtherPrimary { epoch, keeper });
        }
        let asked = self.life.step(|engine| {
            engine.sends_all = true;
            engine.protocol.prepare(epoch)
        });
        asked.ok_or_else(|| self.unknown())?.map_err(|_| self.lost())?;
        let of = self.life.options.rows.clone();
        if !of.begin(epoch) {
            return Err(LoadError::RolledBack(epoch));
        }
        let rows = OpenRows { of, epoch, then: Then::Known };
        let named = tokio::time::timeout(patience, self.named()).await;
        let age = named.map_err(|_| LoadError::NotNamed { epoch, after: patience })??;
        rows.of.note_named(epoch);
        // From here on what has become of the rows says how it ends.
        self.is_over = true;
        Ok(Some(NamedLoad { load: self, age, rows, is_over: false }))
    }

    /// Waits until its rows may name it; the age that they have to name.
    async fn named(&self) -> Result<Epoch, LoadError> {
        loop {
            let may_be = self.life.until(|engine| match engine.protocol.age_with(self.epoch) {
                Ok(None) => None,
                Ok(Some(_)) | Err(_) => Some(()),
            });
            may_be.await.ok_or_else(|| self.unknown())?;
            let named = self.life.step(|engine| engine.protocol.name(self.epoch));
            if let Some(age) = named.ok_or_else(|| self.unknown())?.map_err(|_| self.lost())? {
                return Ok(age);
            }
        }
    }
}

impl NamedLoad {
    /// The label of its rows.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.load.epoch
    }

    /// What the version of the rows has to name.
    #[must_use]
    pub fn age(&self) -> Epoch {
        self.age
    }

    /// The rows are about to be committed. Once they were handed in, which `are_handed_in` says, [`decide`](Self::decide) or
    /// [`roll_back`](Self::roll_back) says what has become of them. Whoever has them drops them before this if they were not.
    pub fn expect_rows(&mut self, are_handed_in: Arc<AtomicBool>) {
        self.rows.then = Then::Expected(are_handed_in);
    }

    /// The rows are there, and published: so is the load, on this node when this returns. If this life of the node takes part no more, it is
    /// so once the keeper has asked.
    pub fn decide(mut self) {
        self.load.life.decide(self.load.epoch);
        (self.rows.then, self.is_over) = (Then::Known, true);
    }

    /// There are no such rows, and will be none: takes the load back. Does not wait until it is gone from all nodes.
    pub fn roll_back(mut self) {
        self.take_back();
        (self.rows.then, self.is_over) = (Then::Known, true);
    }

    fn take_back(&self) {
        let epoch = self.load.epoch;
        self.load.life.step(|engine| {
            engine.sends_all = true;
            if engine.protocol.roll_back(epoch).is_ok()
                && let Some(caller) = engine.callers.get_mut(&epoch)
            {
                caller.has_gone = true;
            }
        });
    }
}
