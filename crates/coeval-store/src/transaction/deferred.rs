// SPDX-License-Identifier: Apache-2.0
//! Checks of foreign keys that wait for the commit (DEFERRABLE constraints).
//!
//! A check says which row to look at and not what was found, so it may be made at any time and any number of times.
//! The list only grows: SET CONSTRAINTS ... IMMEDIATE makes the checks and leaves them in it. So a savepoint is its
//! length.

use super::foreign_key::PendingCheck;
use super::{Savepoint, Transaction};
use crate::catalog::{Deferral, ForeignKeyDef};
use crate::error::StoreError;
use crate::ids::SpaceId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// When the deferrable constraints of a transaction are checked, as `SET CONSTRAINTS` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckTime {
    /// When each statement ends.
    Immediate,
    /// At commit.
    Deferred,
}

/// Which constraints `SET CONSTRAINTS` is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintChoice {
    /// All that are deferrable.
    All,
    /// These foreign keys, each by its table and its name.
    Named(Vec<(SpaceId, String)>),
}

/// What waits for the commit, and what SET CONSTRAINTS has said.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    checks: Vec<PendingCheck>,
    /// So many of the first ones were made by SET CONSTRAINTS ... IMMEDIATE and held; it need not make them again.
    made: usize,
    times: Arc<Times>,
}

/// What differs from how the constraints are declared.
#[derive(Clone, Debug, Default)]
struct Times {
    all: Option<CheckTime>,
    named: BTreeMap<(SpaceId, String), CheckTime>,
}

/// What a savepoint keeps of it.
#[derive(Clone, Debug)]
pub(super) struct DeferredMark {
    checks: usize,
    made: usize,
    times: Arc<Times>,
}

impl Deferred {
    /// Whether the checks of this foreign key of this table wait for the commit now.
    pub(super) fn puts_off(&self, child: SpaceId, foreign_key: &ForeignKeyDef) -> bool {
        let initially = match foreign_key.deferral {
            Deferral::Never => return false,
            Deferral::Immediate => CheckTime::Immediate,
            Deferral::Deferred => CheckTime::Deferred,
        };
        let named = if self.times.named.is_empty() {
            None
        } else {
            self.times.named.get(&(child, foreign_key.name.clone())).copied()
        };
        named.or(self.times.all).unwrap_or(initially) == CheckTime::Deferred
    }

    pub(super) fn push(&mut self, check: PendingCheck) {
        self.checks.push(check);
    }

    pub(super) fn mark(&self) -> DeferredMark {
        DeferredMark { checks: self.checks.len(), made: self.made, times: Arc::clone(&self.times) }
    }

    pub(super) fn go_back_to(&mut self, mark: &DeferredMark) {
        self.checks.truncate(mark.checks);
        self.made = mark.made;
        self.times = Arc::clone(&mark.times);
    }
}

impl Transaction {
    /// Says when deferrable constraints are checked from now on in this transaction (`SET CONSTRAINTS`). What waited
    /// and is wanted at once now is checked here.
    ///
    /// # Errors
    /// [`StoreError::Constraint`] for a foreign key that is wanted at once and does not hold; then nothing has
    /// changed. [`StoreError::Conflict`] if another transaction was first.
    pub fn set_constraints(&mut self, which: &ConstraintChoice, time: CheckTime) -> Result<(), StoreError> {
        let before: Savepoint = self.savepoint();
        let times = Arc::make_mut(&mut self.deferred.times);
        match which {
            ConstraintChoice::All => *times = Times { all: Some(time), named: BTreeMap::new() },
            ConstraintChoice::Named(constraints) => {
                times.named.extend(constraints.iter().cloned().map(|constraint| (constraint, time)));
            }
        }
        let checked = if time == CheckTime::Immediate { self.check_what_is_due() } else { Ok(()) };
        if checked.is_err() {
            self.rollback_to(&before);
        }
        checked
    }

    /// Makes the checks of what is not put off any more.
    fn check_what_is_due(&mut self) -> Result<(), StoreError> {
        for place in self.deferred.made..self.deferred.checks.len() {
            self.stop_if_asked()?;
            let check = self.deferred.checks[place].clone();
            let (child, name) = check.constraint();
            let is_due = self.table_def(child).is_ok_and(|def| {
                let mut foreign_keys = def.foreign_keys.iter();
                foreign_keys.any(|key| key.name == name && !self.deferred.puts_off(child, key))
            });
            if is_due {
                self.check_now(check)?;
                if self.deferred.made == place {
                    self.deferred.made += 1;
                }
            }
        }
        Ok(())
    }

    /// Makes the checks that wait for the commit, and waits for the row locks that they need, as
    /// [`LockWaits`](super::LockWaits) say: for whoever holds something that others need while it commits. The commit has none left
    /// to make then.
    ///
    /// # Errors
    /// Those of a commit's checks; nothing is left but to roll back.
    pub fn check_before_commit(&mut self) -> Result<(), StoreError> {
        self.end_statement()?;
        self.check_deferred()
    }

    /// Makes all checks that wait for the commit.
    ///
    /// # Errors
    /// [`StoreError::Constraint`] for the first foreign key that does not hold.
    pub(super) fn check_deferred(&mut self) -> Result<(), StoreError> {
        let checks = std::mem::take(&mut self.deferred.checks);
        checks.into_iter().try_for_each(|check| {
            self.stop_if_asked()?;
            self.check_now(check)
        })
    }
}

#[cfg(test)]
mod tests;
