// SPDX-License-Identifier: Apache-2.0
//! Loads that are one transaction with rows elsewhere, which one primary certifies and logs.
//!
//! ```text
//!   caller                                  protocol
//!     prepare      ----------------------->   all holders log appends and commit
//!     name         ----------------------->   not before all that began before it has ended:
//!                  <----------------- age     up to this epoch everything will have ended with it
//!     its rows are committed, and their
//!     version names this age                  no delete's begin is answered here meanwhile
//!     decide       ----------------------->   it is decided; the members are told
//!  or
//!     there are no such rows, for certain
//!     roll_back    ----------------------->   its holders cut it
//! ```
//! If this life ends in between, a keeper [asks](crate::cluster::ViewKeeper::asks_rows) what became of the rows. Why readers see both or
//! neither: README, "A transaction with rows and bricks".

use super::{ClusterNode, NodeError, Placement};
use crate::epochs::Epoch;
use crate::epochs::cluster::load::Load;
use crate::epochs::cluster::rules::Rule;
use crate::epochs::cluster::view::EpochKind;

impl<R: Clone, P: Placement> ClusterNode<R, P> {
    /// The user wants the load to be one transaction with rows: its holders log it, and then it waits for these. If it has no appends, there
    /// is nothing to wait for, and it ends as by [`commit`](Self::commit).
    ///
    /// # Errors
    ///
    /// If the transaction is over.
    pub fn prepare(&mut self, epoch: Epoch) -> Result<(), NodeError> {
        self.loads.get_mut(&epoch).filter(|load| load.is_open()).ok_or(NodeError::Over)?.prepare();
        self.advance(epoch);
        Ok(())
    }

    /// The age that the version of the rows has to name, of a load that was [prepared](Self::prepare); nothing as long as they may not be
    /// committed. From here on the caller owes [`decide`](Self::decide) or [`roll_back`](Self::roll_back), soon: deletes wait for that. When
    /// it is asked again, the age may be a later one; either will do.
    ///
    /// What is waited for: that all holders have logged the load, and that all that began before it has ended. A caller that holds what somebody
    /// else's open transaction waits for bounds its wait, and rolls back.
    ///
    /// # Errors
    ///
    /// If the transaction is over. Its rows must not be committed.
    pub fn name(&mut self, epoch: Epoch) -> Result<Option<Epoch>, NodeError> {
        let age = self.age_with(epoch)?;
        if age.is_some()
            && let Some(load) = self.loads.get_mut(&epoch)
        {
            load.name();
        }
        Ok(age)
    }

    /// What [`name`](Self::name) would give, for who waits for that.
    ///
    /// # Errors
    ///
    /// As [`name`](Self::name).
    pub fn age_with(&self, epoch: Epoch) -> Result<Option<Epoch>, NodeError> {
        let load = self.loads.get(&epoch).filter(|load| load.may_roll_back() && !load.is_open());
        let load = load.ok_or(NodeError::Over)?;
        if !load.waits_for_rows() {
            return Ok(None);
        }
        let waits = self.rules.keep(Rule::NamedBehindAll);
        Ok(if waits { self.ledger.newest_safe_with(&load.decided()) } else { Some(epoch) })
    }

    /// The rows are committed, and as durable as their user has asked for: so is the load. How it ends comes as
    /// [`Effect::Tell`](crate::cluster::Effect::Tell).
    ///
    /// # Errors
    ///
    /// If this life of the node takes part no more: then a keeper's record says that it has committed.
    ///
    /// # Panics
    ///
    /// If rows could not [name](Self::name) it.
    pub fn decide(&mut self, epoch: Epoch) -> Result<(), NodeError> {
        let load = self.loads.get_mut(&epoch).filter(|load| load.waits_for_rows()).ok_or(NodeError::Over)?;
        load.decide();
        self.advance(epoch);
        Ok(())
    }

    /// Whether a begin of this kind is answered now. A delete would see nothing of a load that rows may have named by now, and whose readers
    /// do not see the delete.
    pub(super) fn may_answer_begin(&self, kind: EpochKind) -> bool {
        let is_any_named = || self.loads.values().any(Load::is_named);
        kind != EpochKind::Delete || !is_any_named() || !self.rules.keep(Rule::DeletesWaitForRows)
    }
}
