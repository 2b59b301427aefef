// SPDX-License-Identifier: Apache-2.0
//! Changing definitions inside a transaction: in a private copy of the world, certified by the names and
//! definitions it touches.

use super::{Footmark, Transaction};
use crate::access_rights::ObjectAccess;
use crate::build_index::{build_index_until, check_unique, entry};
use crate::bulk::realign;
use crate::catalog::{CatalogChange, ColumnState, IndexDef, TableDef};
use crate::default_privileges::DefaultPrivileges;
use crate::delta::{BasePosition, Change, Delta, DeltaEntry};
use crate::error::StoreError;
use crate::footprint::{definition_key, name_key, role_key};
use crate::ids::SpaceId;
use crate::session_defaults::SessionDefaults;
use crate::space::add_one;
use crate::table::Table;
use crate::table_writes::TableWrites;
use crate::types::ColumnType;
use coeval_txn::Access;
use std::sync::Arc;

impl Transaction {
    /// Changes definitions. Visible to this transaction at once, to others with its commit. Whether the
    /// change makes sense (names are free, columns exist, nothing depends on what goes) is the caller's
    /// business; the store keeps rows, indexes and names together.
    ///
    /// Concurrent transactions that wrote to a table whose definition changes fail at commit and are run
    /// again; adding an index does not fail because of commits since this transaction's snapshot, it takes
    /// them in. Only a unique one fails, if this transaction writes to the table as well.
    ///
    /// # Errors
    /// [`StoreError::Constraint`] if a new unique index finds two owners of a key; [`StoreError::OutOfMemory`];
    /// [`StoreError::ReadOnly`]. Nothing is changed then.
    pub fn change_catalog(&mut self, change: CatalogChange) -> Result<(), StoreError> {
        self.writable("DDL")?;
        let savepoint = self.savepoint();
        let outcome = self.change_catalog_now(change);
        if outcome.is_err() {
            self.rollback_to(&savepoint);
        }
        outcome
    }

    fn change_catalog_now(&mut self, change: CatalogChange) -> Result<(), StoreError> {
        self.keep_definition(&change)?;
        if let CatalogChange::PutTable(def) = &change {
            let old = self.world.table(def.id).map(|table| Arc::clone(table.def()));
            check_brick_definition(old.as_deref(), def)?;
            self.world.shared_bricks().prepare(def).map_err(StoreError::Brick)?;
        }
        self.mark_change(&change);
        if self.catalog_changes.is_empty() {
            self.world_before_changes = Some(Arc::clone(&self.world));
        }
        let old = match &change {
            CatalogChange::PutTable(def) => self.world.table(def.id).cloned(),
            _ => None,
        };
        let stop = self.stop();
        Arc::make_mut(&mut self.world)
            .change_catalog(&change, |table, def, position| build_index_until(table, def, position, &stop))?;
        match &change {
            CatalogChange::PutTable(def) => {
                if let Some(old) = &old {
                    self.realign_loads(old.def(), def)?;
                    self.realign_writes(old, def)?;
                }
                self.check_new_indexes(old.as_deref(), def)?;
            }
            CatalogChange::RemoveTable(id) | CatalogChange::Truncate(id) => {
                self.writes.remove(*id);
                Arc::make_mut(&mut self.loads).retain(|load| load.table() != *id);
            }
            CatalogChange::PutSchema(_)
            | CatalogChange::RemoveSchema(_)
            | CatalogChange::PutView(_)
            | CatalogChange::RemoveView(_)
            | CatalogChange::PutSequence(_)
            | CatalogChange::RemoveSequence(_)
            | CatalogChange::PutRole(_)
            | CatalogChange::RemoveRole(_)
            | CatalogChange::PutSchemaAccess(..)
            | CatalogChange::PutServerAccess(..)
            | CatalogChange::PutDefaultPrivileges(_)
            | CatalogChange::PutSessionDefaults(_)
            | CatalogChange::PutSynchronousReplicas(_)
            | CatalogChange::PutType(_)
            | CatalogChange::RemoveType(_) => {}
        }
        self.catalog_changes.push(change);
        Ok(())
    }

    /// Notes what the change is certified by.
    fn mark_change(&mut self, change: &CatalogChange) {
        match change {
            CatalogChange::PutSchema(name) | CatalogChange::RemoveSchema(name) => {
                self.mark(name_key("", name), Access::Identity);
            }
            CatalogChange::PutTable(def) => self.mark_table(def),
            CatalogChange::RemoveTable(id) | CatalogChange::Truncate(id) => {
                self.mark(definition_key(*id), Access::Identity);
                if let Some(name) = self.world.table(*id).map(|table| table.def().name.clone()) {
                    self.mark(name_key(&name.schema, &name.name), Access::Identity);
                }
            }
            CatalogChange::PutView(view) => {
                self.mark_roles(&view.access);
                self.mark_types(view.output.iter().flatten().map(|column| column.ty));
                self.mark(name_key("", &view.name.schema), Access::Reference);
                self.mark(name_key(&view.name.schema, &view.name.name), Access::Identity);
            }
            CatalogChange::RemoveView(name) => {
                self.mark(name_key(&name.schema, &name.name), Access::Identity);
            }
            CatalogChange::PutSequence(sequence) => {
                self.mark_roles(&sequence.access);
                self.mark(name_key("", &sequence.name.schema), Access::Reference);
                self.mark(name_key(&sequence.name.schema, &sequence.name.name), Access::Identity);
            }
            CatalogChange::RemoveSequence(id) => {
                if let Some(name) = self.catalog().sequence(*id).map(|sequence| sequence.name.clone()) {
                    self.mark(name_key(&name.schema, &name.name), Access::Identity);
                }
            }
            CatalogChange::PutRole(role) => {
                let is_known = self.catalog().role(&role.name).is_some();
                self.mark(role_key(&role.name), if is_known { Access::Update } else { Access::Identity });
                for membership in &role.member_of {
                    self.mark(role_key(&membership.role), Access::Reference);
                }
            }
            CatalogChange::RemoveRole(name) => self.mark(role_key(name), Access::Identity),
            CatalogChange::PutType(def) => {
                self.mark_roles(&def.access);
                let name = def.name();
                self.mark(name_key("", &name.schema), Access::Reference);
                self.mark(definition_key(def.id()), Access::Identity);
                if self.catalog().user_type(name).is_none() {
                    self.mark(name_key(&name.schema, &name.name), Access::Identity);
                }
            }
            CatalogChange::RemoveType(id) => {
                self.mark(definition_key(*id), Access::Identity);
                if let Some(name) = self.catalog().user_type_numbered(*id).map(|known| known.name()) {
                    self.mark(name_key(&name.schema, &name.name), Access::Identity);
                }
            }
            CatalogChange::PutSchemaAccess(schema, access) => {
                self.mark_roles(access);
                self.mark(name_key("", schema), Access::Update);
            }
            CatalogChange::PutServerAccess(server, access) => {
                self.mark_roles(access);
                // No schema has a name with this character in front.
                self.mark(name_key("", &format!("\u{1}server {server}")), Access::Update);
            }
            CatalogChange::PutDefaultPrivileges(defaults) => self.mark_default_privileges(defaults),
            CatalogChange::PutSessionDefaults(defaults) => self.mark_session_defaults(defaults),
            CatalogChange::PutSynchronousReplicas(_) => {
                self.mark(name_key("", "\u{1}synchronous replicas"), Access::Update);
            }
        }
    }

    /// What names a role relies on its being there.
    fn mark_roles(&mut self, access: &ObjectAccess) {
        for role in access.roles() {
            self.mark(role_key(role), Access::Reference);
        }
    }

    /// What is granted in a schema relies on its being there. Whoever changes what one role's objects are granted meets others who do.
    fn mark_default_privileges(&mut self, defaults: &DefaultPrivileges) {
        self.mark_roles(&defaults.access);
        if let Some(schema) = &defaults.schema {
            self.mark(name_key("", schema), Access::Reference);
        }
        let owner = defaults.access.owner.as_deref().unwrap_or_default();
        self.mark(name_key("", &format!("\u{1}default privileges {owner}")), Access::Update);
    }

    /// What a role's sessions begin with relies on its being there. Whoever changes it meets others who do.
    fn mark_session_defaults(&mut self, defaults: &SessionDefaults) {
        if let Some(role) = &defaults.role {
            self.mark(role_key(role), Access::Reference);
        }
        // No role's name is empty.
        let role = defaults.role.as_deref().unwrap_or_default();
        self.mark(name_key("", &format!("\u{1}session defaults {role}")), Access::Update);
    }

    /// What has columns of a type that users have made relies on its definition.
    fn mark_types(&mut self, columns: impl Iterator<Item = ColumnType>) {
        for ty in columns.filter_map(ColumnType::user_type) {
            self.mark(definition_key(ty.def().id), Access::Reference);
        }
    }

    fn mark_table(&mut self, def: &TableDef) {
        let old = self.world.table(def.id).map(|table| Arc::clone(table.def()));
        self.mark(name_key("", &def.name.schema), Access::Reference);
        self.mark_roles(&def.access);
        if old.as_ref().is_none_or(|old| old.name != def.name) {
            self.mark(name_key(&def.name.schema, &def.name.name), Access::Identity);
        }
        self.mark_types(def.columns.iter().map(|column| column.ty));
        for domain in def.columns.iter().filter_map(|column| column.domain.as_ref()) {
            self.mark(definition_key(domain.id), Access::Reference);
        }
        for index in &def.indexes {
            if old.as_ref().is_none_or(|old| old.index(&index.name).is_none()) {
                self.mark(name_key(&def.name.schema, &index.name), Access::Identity);
            }
        }
        for foreign_key in &def.foreign_keys {
            if old.as_ref().is_none_or(|old| !old.foreign_keys.contains(foreign_key)) {
                self.mark(definition_key(foreign_key.parent), Access::Identity);
            }
        }
        // An index is brought up to date inside the pipeline, so writers that committed since the snapshot
        // are no conflict; those that are still running do not know of the index and are. A change of the owner or of privileges
        // does not concern running transactions that use the table.
        let (certify, admit) = match old.as_deref().map_or(Difference::Other, |old| Difference::of(old, def))
        {
            Difference::Access => (Access::Update, Access::Update),
            Difference::Indexes => (Access::Update, Access::Identity),
            Difference::Other => (Access::Identity, Access::Identity),
        };
        self.footprint.push(Footmark {
            key: definition_key(def.id),
            certify,
            admit,
            begin: self.begin_version(),
        });
    }

    /// Bulk loads follow the new definition's list of indexes: they are applied under the last one.
    fn realign_loads(&mut self, old: &TableDef, def: &TableDef) -> Result<(), StoreError> {
        let ids = |def: &TableDef| def.indexes.iter().map(|index| index.id).collect::<Vec<_>>();
        if ids(old) == ids(def) || self.loads.iter().all(|load| load.table() != def.id) {
            return Ok(());
        }
        let stop = self.stop();
        for load in Arc::make_mut(&mut self.loads).iter_mut().filter(|load| load.table() == def.id) {
            realign(Arc::make_mut(load), old, def, &stop)?;
        }
        Ok(())
    }

    /// No other transaction may have written to a table since the snapshot if this one wrote to it and makes a
    /// unique index on it.
    ///
    /// The new index is checked here against what this transaction wrote, and in the pipeline against what
    /// others committed; the writes of both are never seen together, and those of others claim no key of an
    /// index they do not know.
    pub(super) fn claim_tables_of_new_unique_indexes(&mut self) {
        if self.catalog_changes.is_empty() {
            return;
        }
        let newest = self.shared.applied();
        let has_new = |id: SpaceId| {
            let (Some(table), Some(others)) = (self.world.table(id), newest.table(id)) else { return false };
            let mut unique = table.def().indexes.iter().filter(|index| index.uniqueness.is_unique());
            unique.any(|index| others.index(index.id).is_none())
        };
        let written = self.writes.iter().map(|writes| writes.table);
        let written = written.chain(self.loads.iter().map(|load| load.table()));
        let claimed: Vec<SpaceId> = written.filter(|&id| has_new(id)).collect();
        for id in claimed {
            self.mark(definition_key(id), Access::Identity);
        }
    }

    /// Private writes follow the new definition's list of indexes.
    fn realign_writes(&mut self, old: &Arc<Table>, def: &TableDef) -> Result<(), StoreError> {
        let Some(place) = self.writes.place(def.id) else { return Ok(()) };
        let Some(table) = self.world.table(def.id).cloned() else { return Ok(()) };
        let writes = self.writes.at(place);
        let indexes = def
            .indexes
            .iter()
            .enumerate()
            .map(|(position, index)| {
                match old.def().indexes.iter().position(|candidate| candidate.id == index.id) {
                    Some(old_position) => Ok(writes.indexes[old_position].clone()),
                    None => entries_of_writes(&table, writes, position),
                }
            })
            .collect::<Result<_, StoreError>>()?;
        writes.indexes = indexes;
        Ok(())
    }

    fn check_new_indexes(&self, old: Option<&Table>, def: &TableDef) -> Result<(), StoreError> {
        let is_known = |index: &IndexDef| old.is_some_and(|old| old.index(index.id).is_some());
        let table = match self.writes_of(def.id) {
            None => Arc::clone(self.table(def.id)?),
            Some(writes) => {
                let table = self.table(def.id)?;
                self.check_writes_of(table)?;
                Arc::new(table.overlaid(writes))
            }
        };
        for (position, index) in def.indexes.iter().enumerate() {
            if index.uniqueness.is_unique() && !is_known(index) {
                check_unique(&table, position, &self.stop())?;
            }
        }
        Ok(())
    }
}

/// Refuses what a brick table cannot be or become: its columns stay as they were declared, with new ones behind them, and
/// nothing of it is found by a key.
pub(crate) fn check_brick_definition(old: Option<&TableDef>, new: &TableDef) -> Result<(), StoreError> {
    if new.bricks.is_none() && old.is_none_or(|old| old.bricks.is_none()) {
        return Ok(());
    }
    let refuse = |what: &str| {
        Err(StoreError::BrickDefinition { table: Box::new(new.name.clone()), what: what.into() })
    };
    if !new.indexes.is_empty() {
        return refuse("indexes and unique constraints");
    }
    if new.has_checks() || !new.foreign_keys.is_empty() {
        return refuse("CHECK and FOREIGN KEY constraints");
    }
    let Some(old) = old else { return Ok(()) };
    let columns = |def: &TableDef| {
        let columns = def.columns.iter().map(|column| (column.ty, column.not_null, column.state));
        columns.collect::<Vec<_>>()
    };
    let dimensions = |def: &TableDef| def.bricks.as_ref().map(|bricks| bricks.dimensions.clone());
    let replicas = |def: &TableDef| def.bricks.as_ref().and_then(|bricks| bricks.replicas);
    if replicas(old) != replicas(new) {
        return refuse("another number of replicas than it was made with");
    }
    if dimensions(old) != dimensions(new) {
        return refuse("other dimensions than it was made with");
    }
    if !columns(new).starts_with(&columns(old)) {
        return refuse("a change of its columns, but new ones");
    }
    let mut added = new.columns[old.columns.len()..].iter();
    if added.any(|column| column.state != ColumnState::Live) {
        return refuse("hidden columns");
    }
    Ok(())
}

/// What a changed definition of a table differs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    /// Owner and grants at most.
    Access,
    /// These and indexes.
    Indexes,
    /// Anything.
    Other,
}

impl Difference {
    fn of(old: &TableDef, new: &TableDef) -> Self {
        let mut like_old = new.clone();
        like_old.access.clone_from(&old.access);
        if like_old == *old {
            return Self::Access;
        }
        like_old.indexes.clone_from(&old.indexes);
        if like_old == *old { Self::Indexes } else { Self::Other }
    }
}

/// What private writes of rows do to an index that was just built without them.
fn entries_of_writes(table: &Table, writes: &TableWrites, position: usize) -> Result<Delta, StoreError> {
    let mut entries = Delta::default();
    let index = &table.def().indexes[position];
    for (key, written) in writes.rows.iter() {
        if written.change() != Change::Inserted
            && let Some(old) = table.rows().find(key)?.map(|found| table.row_ref(found))
        {
            add_one(&mut entries, entry(index, old, key), DeltaEntry::deleted(BasePosition::UNKNOWN));
        }
        if let Some(row) = written.row() {
            let new = table.row_ref(crate::space::Found::Delta(Some(row)));
            add_one(&mut entries, entry(index, new, key), DeltaEntry::inserted(None));
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
