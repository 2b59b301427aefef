// SPDX-License-Identifier: Apache-2.0
//! The definitions that a session sees, for tools that show or complete names.

use coeval_store::{Catalog, ObjectRef, SpaceId, TableDef, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All definitions of one snapshot. Owned: it stays as it is whatever becomes of the snapshot.
#[derive(Clone, Debug)]
pub struct Definitions {
    catalog: Catalog,
    tables: BTreeMap<SpaceId, Arc<TableDef>>,
}

impl Definitions {
    /// What the transaction sees, its own changes included. Copies the catalog: for people, not for statements.
    pub(crate) fn of(transaction: &Transaction) -> Self {
        let catalog = transaction.catalog().clone();
        let ids = catalog.names().filter_map(|(_, object)| match object {
            ObjectRef::Table(id) => Some(id),
            ObjectRef::Index(..) | ObjectRef::View | ObjectRef::Sequence(_) => None,
        });
        let tables = ids.filter_map(|id| Some((id, Arc::clone(transaction.table_def(id).ok()?)))).collect();
        Self { catalog, tables }
    }

    /// Names, views, sequences, schemas.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The tables, by number.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.tables.values()
    }

    /// The table with this number.
    #[must_use]
    pub fn table(&self, id: SpaceId) -> Option<&Arc<TableDef>> {
        self.tables.get(&id)
    }
}
