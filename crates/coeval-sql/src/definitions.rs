// SPDX-License-Identifier: Apache-2.0
//! The definitions that a session sees, for tools that show or complete names.

use coeval_store::{Catalog, ColumnState, ObjectRef, QualifiedName, SpaceId, TableDef, Transaction};
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

    /// All names with what they stand for, by schema and name, but those of sequences that nobody has made: they give hidden
    /// row ids.
    pub fn names(&self) -> impl Iterator<Item = (&QualifiedName, ObjectRef)> {
        self.catalog.names().filter(move |(_, object)| !self.gives_hidden_values(*object))
    }

    /// Whether this is a sequence of a hidden column.
    fn gives_hidden_values(&self, object: ObjectRef) -> bool {
        let ObjectRef::Sequence(id) = object else { return false };
        let owner = self.catalog.sequence(id).and_then(|sequence| sequence.owned_by);
        let column = owner.and_then(|(table, column)| self.table(table)?.columns.get(column));
        column.is_some_and(|column| column.state == ColumnState::Hidden)
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
