// SPDX-License-Identifier: Apache-2.0
//! The definitions that rights are read from.
//!
//! Rights are those of now: a REVOKE, a change of owner or a DROP ROLE that was acknowledged holds for every statement that
//! begins later, whatever snapshot that statement reads. What its own transaction has changed of an object holds for it too,
//! unless somebody else has changed the same object since the snapshot. Then the other one's word counts, and the
//! transaction's own change is refused at its commit.
//!
//! | since the snapshot | counts |
//! |---|---|
//! | nobody else has changed it | what the transaction sees, its own changes included |
//! | somebody else has | the newest published definition |
//! | somebody else has dropped it | nothing: only superusers may still read it in the old snapshot |

use super::{Kind, predefined};
use coeval_store::{
    DefaultPrivileges, NewObjects, ObjectAccess, RoleDef, SequenceDef, Store, TableDef, Transaction, TypeDef,
    ViewDef, World,
};
use std::borrow::Cow;
use std::sync::Arc;

/// An object whose rights are asked for, as the statement's snapshot has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Object<'o> {
    /// A table.
    Table(&'o TableDef),
    /// A view.
    View(&'o ViewDef),
    /// A sequence.
    Sequence(&'o SequenceDef),
    /// A schema, by its name.
    Schema(&'o str),
    /// A type.
    Type(&'o TypeDef),
    /// A server of another engine, by its name.
    Server(&'o str),
}

impl<'o> Object<'o> {
    /// What it is.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Table(_) => Kind::Table,
            Self::View(_) => Kind::View,
            Self::Sequence(_) => Kind::Sequence,
            Self::Schema(_) => Kind::Schema,
            Self::Type(_) => Kind::Type,
            Self::Server(_) => Kind::Server,
        }
    }

    /// Its name without a schema.
    pub(crate) fn name(&self) -> &'o str {
        match self {
            Self::Table(def) => &def.name.name,
            Self::View(view) => &view.name.name,
            Self::Sequence(sequence) => &sequence.name.name,
            Self::Type(def) => &def.name().name,
            Self::Schema(name) | Self::Server(name) => name,
        }
    }

    /// The schema that it lies in; none for what is in no schema.
    pub(crate) fn schema(&self) -> Option<&'o str> {
        match self {
            Self::Table(def) => Some(&def.name.schema),
            Self::View(view) => Some(&view.name.schema),
            Self::Sequence(sequence) => Some(&sequence.name.schema),
            Self::Type(def) => Some(&def.name().schema),
            Self::Schema(_) | Self::Server(_) => None,
        }
    }

    /// What one world says of it. Relations that have numbers are found by them, whatever they are called by then.
    fn access_in<'w>(&self, world: &'w World) -> Option<&'w ObjectAccess> {
        let catalog = world.catalog();
        match self {
            Self::Table(def) => world.table(def.id).map(|table| &table.def().access),
            Self::View(view) => catalog.view(&view.name).map(|view| &view.access),
            Self::Sequence(sequence) => catalog.sequence(sequence.id).map(|sequence| &sequence.access),
            Self::Type(def) => catalog.user_type_numbered(def.id()).map(|def| &def.access),
            Self::Schema(schema) => catalog.schema_access(schema).map(|access| &**access),
            Self::Server(server) => catalog.server_access(server).map(|access| &**access),
        }
    }
}

/// Where the rights of a statement come from.
#[derive(Clone, Debug)]
pub(crate) struct Authority {
    /// What its transaction sees, its own changes included.
    seen: Arc<World>,
    /// The same without its own changes of definitions.
    snapshot: Arc<World>,
    /// What everybody who begins now sees.
    newest: Arc<World>,
}

impl Authority {
    /// That of a statement of the transaction.
    pub(crate) fn of(transaction: &Transaction, store: &Store) -> Self {
        let snapshot = transaction.world_before_changes();
        let published = store.world();
        // A transaction may begin on a world that is applied and not published yet.
        let is_behind = published.version() < transaction.begin_version();
        Self {
            seen: Arc::clone(transaction.world()),
            snapshot: Arc::clone(snapshot),
            newest: if is_behind { Arc::clone(snapshot) } else { published },
        }
    }

    /// One world's alone.
    pub(crate) fn of_world(world: &Arc<World>) -> Self {
        Self { seen: Arc::clone(world), snapshot: Arc::clone(world), newest: Arc::clone(world) }
    }

    /// What the transaction sees.
    pub(crate) fn seen(&self) -> &World {
        &self.seen
    }

    /// Of what is found in the worlds, the one that counts.
    fn current<'w, T: PartialEq + ?Sized>(
        &'w self,
        find: impl Fn(&'w World) -> Option<&'w T>,
    ) -> Option<&'w T> {
        let newest = find(&self.newest);
        if newest == find(&self.snapshot) { find(&self.seen) } else { newest }
    }

    /// A role; `None` if there is none of the name, or none any more.
    pub(crate) fn role(&self, name: &str) -> Option<&RoleDef> {
        self.current(|world| world.catalog().role(name).map(|role| &**role)).or_else(|| predefined(name))
    }

    /// Whose an object is and what others may do with it.
    pub(crate) fn access(&self, object: Object<'_>) -> Cow<'_, ObjectAccess> {
        match (self.current(|world| object.access_in(world)), object) {
            (Some(access), _) => Cow::Borrowed(access),
            (None, Object::Schema(schema)) => Cow::Owned(super::default_schema_access(schema)),
            (None, _) => Cow::Owned(ObjectAccess::default()),
        }
    }

    /// What new objects of this owner in this schema are granted; without a schema, what they are granted in all of them.
    pub(crate) fn default_privileges(
        &self,
        owner: Option<&str>,
        schema: Option<&str>,
        objects: NewObjects,
    ) -> Option<&DefaultPrivileges> {
        self.current(|world| {
            let found = world.catalog().default_privileges(owner, schema, objects);
            found.map(|defaults| &**defaults)
        })
    }

    /// With whose rights a view reads: its owner's as of now. `None` if its name stands for another query of another
    /// owner by now, who never offered this one.
    pub(crate) fn reader_of(&self, view: &ViewDef) -> Option<Option<String>> {
        let owner = self.access(Object::View(view)).owner.clone();
        let query = self.newest.catalog().view(&view.name).map(|newest| &newest.query);
        let is_same = query.is_none_or(|query| *query == view.query);
        (is_same || owner == view.access.owner).then_some(owner)
    }
}
