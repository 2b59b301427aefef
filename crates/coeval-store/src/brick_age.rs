// SPDX-License-Identifier: Apache-2.0
//! The age of rows: up to which epoch of a cluster bricks belong to them.
//!
//! Bricks that are spread over the nodes of a cluster are in no world of this store. Who reads both, at SERIALIZABLE, reads bricks up to
//! the age that its world names; why that has a serial order is proven in `coeval-txn`'s `epochs/cluster/README.md`, "Rows and
//! bricks". The age is a row of an ordinary table, made with the first one. So it is durable, recovered, followed and seen exactly as the
//! rows that it belongs to, and a safe snapshot has that of its boundary: whoever writes it reads nothing that counts, or nothing that
//! was overwritten before it commits ([`Transaction::name_brick_age`](crate::Transaction::name_brick_age)).

#[cfg(test)]
mod tests;

use crate::age_table::{SCHEMA, age_row, check, definition, name};
use crate::catalog::{CatalogChange, TableDef};
use crate::error::StoreError;
use crate::store::Store;
use crate::transaction::AccessMode;
use coeval_txn::{Epoch, Isolation, Version};

impl Store {
    /// Has worlds name this age from the next version on. Does nothing if they name it, or a later one, already. Returns when they do, and it is
    /// durable: also with `synchronous_commit = off` nobody sees an age that a crash could take back.
    ///
    /// # Errors
    /// What a commit answers but conflicts, after which it is tried again; if the table is not as it was made. Worlds name then what they
    /// did (after a failed log, what they name is known at the next open).
    pub fn note_brick_age(&self, age: Epoch) -> Result<(), StoreError> {
        if self.world().brick_age()?.is_some_and(|noted| noted >= age) {
            return Ok(());
        }
        self.change_brick_age(|noted| noted.is_none_or(|noted| noted < age).then_some(age))
    }

    /// The cluster is a new one, whose epochs begin anew: ages that were noted of another one mean nothing in it.
    ///
    /// # Errors
    /// As [`note_brick_age`](Self::note_brick_age).
    pub fn begin_brick_ages(&self) -> Result<(), StoreError> {
        if self.world().brick_age()?.is_none() {
            return Ok(());
        }
        self.change_brick_age(|noted| noted.is_some_and(|noted| noted > Epoch::ZERO).then_some(Epoch::ZERO))
    }

    fn change_brick_age(&self, change: impl Fn(Option<Epoch>) -> Option<Epoch>) -> Result<(), StoreError> {
        loop {
            let def = self.ages_table()?;
            match self.try_change_age(&def, &change) {
                // Who was first may wait for replicas before the next attempt sees it.
                Err(StoreError::Conflict(conflict)) => self.wait_published(conflict.version)?,
                outcome => return outcome,
            }
        }
    }

    fn try_change_age(
        &self,
        def: &TableDef,
        change: impl Fn(Option<Epoch>) -> Option<Epoch>,
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        let Some(age) = change(transaction.world().brick_age()?) else { return Ok(()) };
        transaction.put(def.id, age_row(def, age)?)?;
        transaction.commit().map(drop)
    }

    /// The table, made if it is not there.
    fn ages_table(&self) -> Result<TableDef, StoreError> {
        loop {
            let mut transaction = self.begin(Isolation::Snapshot, AccessMode::ReadWrite);
            if let Some(def) = transaction.resolve_table(&name()) {
                check(&def)?;
                return Ok(TableDef::clone(&def));
            }
            if !transaction.catalog().has_schema(SCHEMA) {
                transaction.change_catalog(CatalogChange::PutSchema(SCHEMA.to_owned()))?;
            }
            let def = definition(self.new_space_id());
            transaction.change_catalog(CatalogChange::PutTable(Box::new(def)))?;
            match transaction.commit() {
                Ok(_) => {}
                Err(StoreError::Conflict(conflict)) => self.wait_published(conflict.version)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// The oldest version of which somebody here reads a world at SERIALIZABLE, or who begins now may: that of the safe snapshot or
    /// of an open transaction, at whatever level. Nothing while this store follows another one and has no safe snapshot yet.
    ///
    /// Cost: that of [`snapshot_lag`](Self::snapshot_lag).
    #[must_use]
    pub fn oldest_readable(&self) -> Option<Version> {
        // In this order: who begins in between begins at the boundary or later.
        let active = self.oldest_active();
        let boundary = self.snapshot_lag().boundary;
        self.has_safe_snapshot().then(|| active.min(boundary))
    }
}
