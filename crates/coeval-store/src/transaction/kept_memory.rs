// SPDX-License-Identifier: Apache-2.0
//! Memory of what a transaction has written and keeps until it commits.
//!
//! Rows, keys, entries of indexes, checks that wait, row locks and definitions are counted as they are made. Whoever set up the store may say
//! how much all of them may take ([`Store::set_memory_accounts`](crate::Store::set_memory_accounts)); a transaction
//! that would need more gets an error, and goes on from its last savepoint with the memory that it had there.
//!
//! What is counted is what the writes need by themselves. Pages of trees that a savepoint shares, and what certification
//! and the log make of the writes while they commit, are within the same order of size and not counted.

use super::Transaction;
use crate::catalog::{CatalogChange, TableDef};
use crate::error::StoreError;
use crate::footprint::Footmark;
use crate::key::Key;
use crate::memory_accounts::MemoryAccount;
use crate::row::Row;

/// What a transaction may keep without an account: most never open one.
const FREE_BYTES: usize = 256 << 10;

/// Accounts grow in steps of this size, so that few rows have to ask.
const STEP_BYTES: usize = 1 << 20;

/// What a changed row takes beside its bytes and its keys: an entry of the delta, a mark of the footprint.
const ROW_OVERHEAD_BYTES: usize = 256;

/// What a mark of the footprint takes, in a list that grows by doubling.
const MARK_BYTES: usize = 2 * size_of::<Footmark>();

/// What a row lock takes beside its key: an entry of the table of locks, and of the owner's list.
const LOCK_OVERHEAD_BYTES: usize = 320;

/// What an entry of an index, or a check that waits, takes beside its key.
const ENTRY_OVERHEAD_BYTES: usize = 96;

/// What a changed definition takes beside its parts: an entry of the list, marks of the footprint.
const DEFINITION_OVERHEAD_BYTES: usize = 256;

/// How many times a definition is kept: for the log, in the transaction's own world, and in the form that the log has, which is made
/// while the others are there.
const DEFINITION_COPIES: usize = 3;

/// The memory that a transaction keeps.
#[derive(Debug, Default)]
pub(super) struct KeptMemory {
    bytes: usize,
    /// What of it is for row locks, which may stay where everything else is undone.
    of_locks: usize,
    /// What the account has.
    granted: usize,
    account: Option<Box<dyn MemoryAccount>>,
}

/// What a transaction had kept at a savepoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptMark {
    bytes: usize,
    of_locks: usize,
}

impl KeptMemory {
    /// What a savepoint notes.
    pub(super) fn mark(&self) -> KeptMark {
        KeptMark { bytes: self.bytes, of_locks: self.of_locks }
    }

    /// What is kept where everything since a savepoint is undone and the row locks taken since stay.
    pub(super) fn mark_with_locks_since(&self, mark: KeptMark) -> KeptMark {
        let since = self.of_locks.saturating_sub(mark.of_locks);
        KeptMark { bytes: mark.bytes + since, of_locks: mark.of_locks + since }
    }

    /// Back to what a savepoint has noted.
    pub(super) fn go_back_to(&mut self, mark: KeptMark) {
        assert!(mark.of_locks <= mark.bytes, "what locks take is a part of all");
        (self.bytes, self.of_locks) = (mark.bytes, mark.of_locks);
        let needed = needed(mark.bytes);
        if let Some(account) = &mut self.account
            && needed < self.granted
        {
            account.shrink(self.granted - needed);
            self.granted = needed;
        }
    }
}

/// What an account must have for so many bytes.
fn needed(bytes: usize) -> usize {
    bytes.saturating_sub(FREE_BYTES).div_ceil(STEP_BYTES).saturating_mul(STEP_BYTES)
}

impl Transaction {
    /// Takes memory for what is about to be kept.
    ///
    /// # Errors
    /// [`StoreError::OutOfMemory`]; nothing is taken then.
    #[inline]
    pub(super) fn keep(&mut self, bytes: usize) -> Result<(), StoreError> {
        let after = self.kept.bytes.saturating_add(bytes);
        if after > self.kept.granted + FREE_BYTES {
            self.grow_account(needed(after))?;
        }
        self.kept.bytes = after;
        Ok(())
    }

    #[cold]
    fn grow_account(&mut self, needed: usize) -> Result<(), StoreError> {
        let Some(accounts) = self.shared.memory_accounts() else { return Ok(()) };
        let account = self.kept.account.get_or_insert_with(|| accounts.open());
        account.grow(needed - self.kept.granted).map_err(StoreError::OutOfMemory)?;
        self.kept.granted = needed;
        Ok(())
    }

    /// Takes memory for a row that is about to be written under this key, or removed; `old` is the row before, if it is
    /// kept for checks of foreign keys.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub(super) fn keep_change(
        &mut self,
        def: &TableDef,
        key: &Key,
        new: Option<&Row>,
        old: Option<&Row>,
    ) -> Result<(), StoreError> {
        let of_row = |row: Option<&Row>| row.map_or(0, |row| row.as_bytes().len());
        let key_bytes = 2 * key.as_slice().len();
        // An entry has the row's key and the indexed values, which the row has as well.
        let entry = ENTRY_OVERHEAD_BYTES + key_bytes + of_row(new).min(key_bytes + ENTRY_OVERHEAD_BYTES);
        let entries = def.indexes.len() * entry;
        let checks = def.foreign_keys.len() * (ENTRY_OVERHEAD_BYTES + key_bytes);
        self.keep(ROW_OVERHEAD_BYTES + key_bytes + of_row(new) + of_row(old) + entries + checks)
    }

    /// Takes memory for so many marks of the footprint that stand for no change.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub(super) fn keep_marks(&mut self, count: usize) -> Result<(), StoreError> {
        self.keep(count.saturating_mul(MARK_BYTES))
    }

    /// Takes memory for the lock of this key; how much it is. It is kept until the lock ends.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    #[inline]
    pub(super) fn keep_lock(&mut self, key: &Key) -> Result<usize, StoreError> {
        let bytes = LOCK_OVERHEAD_BYTES + key.as_slice().len();
        self.keep(bytes)?;
        self.kept.of_locks += bytes;
        Ok(bytes)
    }

    /// What was taken for a lock a moment ago is not needed: it is for the next who takes some.
    #[inline]
    pub(super) fn keep_no_lock(&mut self, bytes: usize) {
        assert!(bytes <= self.kept.of_locks, "only what was taken is given back");
        assert!(self.kept.of_locks <= self.kept.bytes, "what locks take is a part of all");
        self.kept.of_locks -= bytes;
        self.kept.bytes -= bytes;
    }

    /// Takes memory for a definition that is about to be changed.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub(super) fn keep_definition(&mut self, change: &CatalogChange) -> Result<(), StoreError> {
        self.keep(DEFINITION_OVERHEAD_BYTES + DEFINITION_COPIES * change.kept_bytes())
    }
}

#[cfg(test)]
mod tests;
