// SPDX-License-Identifier: Apache-2.0
//! A transaction that is one with a load into tables of a cluster: its version names an age by which its readers see the load.

use super::Transaction;
use crate::age_table::{age_row, ages_of, made_after, only_key};
use crate::delta::DeltaEntry;
use crate::error::StoreError;
use crate::footprint::Footmark;
use crate::space::{add_one, position_of};
use coeval_txn::{Access, Epoch};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

impl Transaction {
    /// Has the version that it commits as name this age ([`World::brick_age`](crate::World::brick_age)). At SERIALIZABLE it commits then only
    /// if nothing that it has read was overwritten meanwhile: it is to be seen by exactly those who see its version.
    ///
    /// What is given becomes true when it is handed in to be committed. If it is dropped before that, also by a panic, its version never comes.
    ///
    /// The age is later than any that is named before this transaction ends; its caller sees to that (`coeval-txn`'s
    /// `epochs/cluster/README.md`, "A transaction with rows and bricks"). So whatever was named since it began is overwritten.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if ages are kept only since it began; [`StoreError::ReadOnly`]; if the table is not as it was made.
    /// Nothing has changed.
    pub fn name_brick_age(&mut self, age: Epoch) -> Result<Arc<AtomicBool>, StoreError> {
        self.writable("a load into tables of a cluster")?;
        let table = Arc::clone(ages_of(&self.world)?);
        let (key, row) = (only_key(), age_row(table.def(), age)?);
        let position = self.find(&table, &key)?.map(position_of).ok_or_else(|| made_after(&self.world))?;
        self.keep_change(table.def(), &key, Some(&row), None)?;
        // Of those that name an age at the same time, the one that loses is the one that has none with a load.
        let (mark, begin) = ((table.id(), key.clone()), self.snapshot);
        self.footprint.push(Footmark { key: mark, certify: Access::Reference, admit: Access::Update, begin });
        let writes = self.writes_mut(&table);
        add_one(&mut writes.rows, key, DeltaEntry::replaced(row, position));
        Ok(Arc::clone(self.named_age.insert(Arc::default())))
    }
}
