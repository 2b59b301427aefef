// SPDX-License-Identifier: Apache-2.0
//! The world: the immutable root of the whole database at one version.

use crate::bricks::{BrickRows, Bricks};
use crate::catalog::{Catalog, CatalogChange, ObjectRef, QualifiedName, TableDef};
use crate::conflicts::ConflictPlace;
use crate::ids::SpaceId;
use crate::key::Key;
use crate::space::Space;
use crate::table::Table;
use coeval_ptree::PTree;
use coeval_txn::{Epoch, EpochSet, HeldEpochs, Version};
use std::sync::Arc;

/// Everything at one version. Holding a world keeps it alive; nothing else does.
#[derive(Clone, Debug)]
pub struct World {
    version: Version,
    /// How many commits it has since the database was opened.
    commits: u64,
    catalog: Arc<Catalog>,
    tables: PTree<SpaceId, Arc<Table>>,
    /// What brick tables of all worlds share.
    bricks: Arc<Bricks>,
    /// Which rows of brick tables exist.
    epochs: EpochSet,
    /// Keeps purge behind the epochs for as long as somebody holds this world or one with the same epochs.
    hold: Option<Arc<HeldEpochs>>,
}

impl World {
    /// The world before the first commit.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            version: Version::ZERO,
            commits: 0,
            catalog: Arc::new(Catalog::new()),
            tables: PTree::new(),
            bricks: Arc::new(Bricks::new()),
            epochs: EpochSet::none(),
            hold: None,
        }
    }

    /// Which rows of brick tables exist in it.
    #[must_use]
    pub fn epochs(&self) -> &EpochSet {
        &self.epochs
    }

    /// What brick tables of all worlds share.
    pub(crate) fn shared_bricks(&self) -> &Arc<Bricks> {
        &self.bricks
    }

    /// Ends these epochs as committed; their rows exist from this world on.
    pub(crate) fn commit_epochs(&mut self, epochs: &[Epoch]) {
        let hold = self.bricks.commit(epochs);
        self.epochs = hold.set().clone();
        self.hold = Some(Arc::new(hold));
    }

    /// The epochs that it leaves out, as they were pending when it was made, and that are pending no more. Of the newest
    /// applied world, under the leader's lock, these are the ones that were rolled back.
    pub(crate) fn ended_epochs(&self) -> Vec<Epoch> {
        self.bricks.clock().ended(self.epochs.except())
    }

    /// The same without leaving out these, which were rolled back: they have no rows, so the contents are equal, and purge
    /// may pass them.
    pub(crate) fn with_rolled_back(&self, epochs: &[Epoch]) -> Self {
        let hold = self.bricks.clock().hold(|| self.epochs.with(epochs));
        Self { epochs: hold.set().clone(), hold: Some(Arc::new(hold)), ..self.clone() }
    }

    /// Has rows of these committed epochs as well.
    pub(crate) fn add_epochs(&mut self, epochs: &[Epoch]) {
        // What is held is smaller, and so holds the larger set as well.
        self.epochs = self.epochs.with(epochs);
    }

    /// Has exactly the rows of these epochs, in a store that follows a log; those up to `ended` may be purged.
    pub(crate) fn follow_epochs(&mut self, epochs: EpochSet, ended: Epoch) {
        let hold = self.bricks.clock().follow(&epochs, ended);
        (self.epochs, self.hold) = (epochs, Some(Arc::new(hold)));
    }

    /// Has all rows up to `newest`, the last epoch that was found when a database was opened.
    pub(crate) fn recover_epochs(&mut self, newest: Epoch) {
        self.bricks = Arc::new(self.bricks.recovered(newest));
        let hold = self.bricks.clock().snapshot();
        self.epochs = EpochSet::through(newest);
        self.hold = Some(Arc::new(hold));
    }

    /// The number of its contents.
    #[must_use]
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Names, views, sequences, schemas.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The table with this number.
    #[must_use]
    #[inline]
    pub fn table(&self, id: SpaceId) -> Option<&Arc<Table>> {
        self.tables.get(&id)
    }

    /// All tables, by number.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.iter().map(|(_, table)| table)
    }

    /// The table of this name.
    #[must_use]
    pub fn table_named(&self, name: &QualifiedName) -> Option<&Arc<Table>> {
        match self.catalog.resolve(name)? {
            ObjectRef::Table(id) => self.table(id),
            ObjectRef::Index(..) | ObjectRef::View | ObjectRef::Sequence(_) => None,
        }
    }

    /// `table "t", key (...)`: how messages name a key of a table or of one of its indexes.
    pub(crate) fn describe_key(&self, space: SpaceId, key: &Key) -> String {
        match self.place_of(space, key).key {
            Some(values) => format!("{}, key {values}", self.describe_space(space)),
            None => format!("{}, key {key:?}", self.describe_space(space)),
        }
    }

    /// The table of a key, and the values that the key stands for: of an index, as many as there are.
    #[must_use]
    pub fn place_of(&self, space: SpaceId, key: &Key) -> ConflictPlace {
        let mut place = self.place_of_space(space);
        let table = self.tables().find(|table| table.id() == space || table.index(space).is_some());
        place.key = table.and_then(|table| table.describe_key(space, key));
        place
    }

    /// The table that a space belongs to.
    pub(crate) fn place_of_space(&self, space: SpaceId) -> ConflictPlace {
        let table = self.tables().find(|table| table.id() == space || table.index(space).is_some());
        ConflictPlace {
            space: table.map(|table| table.id()),
            table: table.map(|table| table.def().name.to_string()),
            key: None,
        }
    }

    /// `table "t"`, `index "i"` or `the catalog`: how messages name a space.
    pub(crate) fn describe_space(&self, space: SpaceId) -> String {
        let name = self.tables().find_map(|table| {
            if table.id() == space {
                return Some(format!("table \"{}\"", table.def().name));
            }
            table.index(space).map(|(index, _)| format!("index \"{}\"", index.name))
        });
        name.unwrap_or_else(|| "the catalog".to_owned())
    }

    /// The world of a manifest: definitions and tables at one version.
    pub(crate) fn restored(
        version: Version,
        catalog: Catalog,
        tables: Vec<Arc<Table>>,
        bricks: Arc<Bricks>,
    ) -> Self {
        let mut tables: Vec<_> = tables.into_iter().map(|table| (table.id(), table)).collect();
        tables.sort_unstable_by_key(|(id, _)| *id);
        let tables = PTree::from_sorted(tables);
        let (catalog, epochs) = (Arc::new(catalog), EpochSet::none());
        Self { version, commits: 0, catalog, tables, bricks, epochs, hold: None }
    }

    /// The same world with other spaces in the place of those for which `change` gives one. What it gives must
    /// have the same contents.
    #[must_use]
    pub(crate) fn with_spaces(&self, change: impl Fn(SpaceId, &Space) -> Option<Space>) -> Self {
        let tables = self.tables.iter().map(|(id, table)| {
            let changed = table.with_spaces(&change);
            (*id, changed.map_or_else(|| Arc::clone(table), Arc::new))
        });
        Self { tables: PTree::from_sorted(tables.collect()), ..self.clone() }
    }

    pub(crate) fn set_version(&mut self, version: Version) {
        assert!(version >= self.version, "versions only grow");
        self.version = version;
    }

    /// How many commits it has since the database was opened.
    pub(crate) fn commits(&self) -> u64 {
        self.commits
    }

    /// Takes in so many commits more.
    pub(crate) fn add_commits(&mut self, count: usize) {
        self.commits += count as u64;
    }

    pub(crate) fn put_table(&mut self, table: Arc<Table>) {
        self.tables.insert(table.id(), table);
    }

    /// Changes a table in place if no other world holds it, else a copy.
    ///
    /// # Panics
    /// If there is no such table.
    pub(crate) fn update_table<R>(&mut self, id: SpaceId, update: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = Arc::clone(self.table(id).expect("only tables of this world are changed"));
        // The tree's own reference goes first, so that a table nobody else holds is changed in place.
        self.tables.remove(&id);
        let outcome = update(Arc::make_mut(&mut table));
        self.tables.insert(id, table);
        outcome
    }

    /// Takes in a change of definitions. `build` makes the spaces of indexes that the new definition has
    /// and the old one had not.
    ///
    /// # Errors
    /// What `build` says, such as a duplicate key; the world is then unusable.
    pub(crate) fn change_catalog<E>(
        &mut self,
        change: &CatalogChange,
        build: impl FnMut(&Table, &TableDef, usize) -> Result<Space, E>,
    ) -> Result<(), E> {
        let catalog = Arc::make_mut(&mut self.catalog);
        match change {
            CatalogChange::PutSchema(name) => catalog.put_schema(name),
            CatalogChange::RemoveSchema(name) => catalog.remove_schema(name),
            CatalogChange::PutTable(def) => return self.redefine(def, build),
            CatalogChange::RemoveTable(id) => {
                if let Some(table) = self.tables.get(id) {
                    catalog.remove_table(table.def());
                }
                self.tables.remove(id);
            }
            CatalogChange::Truncate(id) => {
                if let Some(def) = self.tables.get(id).map(|table| Arc::clone(table.def())) {
                    let bricks = self.bricks.rows_of(&def);
                    self.put_table(Arc::new(Table::new(def).with_bricks(bricks)));
                }
            }
            CatalogChange::PutView(view) => catalog.put_view(view.clone()),
            CatalogChange::RemoveView(name) => catalog.remove_view(name),
            CatalogChange::PutSequence(sequence) => catalog.put_sequence(sequence.clone()),
            CatalogChange::RemoveSequence(id) => catalog.remove_sequence(*id),
            CatalogChange::PutRole(role) => catalog.put_role(role.clone()),
            CatalogChange::RemoveRole(name) => catalog.remove_role(name),
            CatalogChange::PutType(def) => catalog.put_type(def.clone()),
            CatalogChange::RemoveType(id) => catalog.remove_type(*id),
            CatalogChange::PutSchemaAccess(schema, access) => {
                catalog.put_schema_access(schema, access.clone());
            }
            CatalogChange::PutServerAccess(server, access) => {
                catalog.put_server_access(server, access.clone());
            }
            CatalogChange::PutDefaultPrivileges(defaults) => catalog.put_default_privileges(defaults.clone()),
            CatalogChange::PutSessionDefaults(defaults) => catalog.put_session_defaults(defaults.clone()),
            CatalogChange::PutSynchronousReplicas(required) => {
                catalog.put_synchronous_replicas(required.clone());
            }
        }
        Ok(())
    }

    /// Gives a table the bricks that a transaction has filled.
    pub(crate) fn set_bricks(&mut self, id: SpaceId, bricks: &Arc<BrickRows>) {
        self.update_table(id, |table| *table = table.clone().with_bricks(Some(Arc::clone(bricks))));
    }

    fn redefine<E>(
        &mut self,
        def: &TableDef,
        mut build: impl FnMut(&Table, &TableDef, usize) -> Result<Space, E>,
    ) -> Result<(), E> {
        let old = self.tables.get(&def.id).cloned();
        let def = Arc::new(def.clone());
        let table = match &old {
            None => Table::new(Arc::clone(&def)).with_bricks(self.bricks.rows_of(&def)),
            Some(old) => {
                let mut indexes = Vec::with_capacity(def.indexes.len());
                for (position, index) in def.indexes.iter().enumerate() {
                    indexes.push(match old.index(index.id) {
                        Some((_, space)) => space.clone(),
                        None => build(old, &def, position)?,
                    });
                }
                let table = Table::from_spaces(Arc::clone(&def), old.rows().clone(), indexes);
                table.with_bricks(old.bricks().map(|rows| rows.redeclared(&def)))
            }
        };
        let catalog = Arc::make_mut(&mut self.catalog);
        catalog.put_table(old.as_ref().map(|old| old.def().as_ref()), &def);
        self.put_table(Arc::new(table));
        Ok(())
    }
}
