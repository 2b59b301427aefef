// SPDX-License-Identifier: Apache-2.0
//! The definitions of one world, and the names they go by.

use super::{DEFAULT_SCHEMA, ObjectRef, QualifiedName, SequenceDef, TableDef, TypeDef, ViewDef};
use crate::access_rights::{ObjectAccess, RoleDef};
use crate::default_privileges::{DefaultPrivileges, NewObjects};
use crate::ids::{SequenceId, SpaceId};
use crate::replicas::SynchronousReplicas;
use crate::session_defaults::{DefaultsReach, SessionDefaults};
use coeval_ptree::PTree;
use std::sync::Arc;

/// How many definitions a leaf of a map has at most: whoever changes one copies its leaf, and with it as many references.
const LEAF_ENTRIES: usize = 16;

type Map<K, V> = PTree<K, V, (), LEAF_ENTRIES>;
type Set<K> = Map<K, ()>;

/// What there are default privileges for: who makes the objects, in which schema, and what they are.
type NewObjectsKey = (Option<String>, Option<String>, NewObjects);

/// Which sessions begin with settings: those of which role, if not all, and where.
type SessionsKey = (Option<String>, DefaultsReach);

/// All definitions of one world but the tables', which stand beside their data, and all names.
///
/// A copy costs some reference counts, and a change the logarithm of how many there are: each change of a transaction can
/// be undone alone, so each is made in a copy.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    schemas: Set<Arc<str>>,
    names: Map<Arc<QualifiedName>, ObjectRef>,
    views: Map<Arc<QualifiedName>, Arc<ViewDef>>,
    sequences: Map<SequenceId, Arc<SequenceDef>>,
    /// For each table the sequences that its columns own.
    owned_sequences: Map<SpaceId, Set<SequenceId>>,
    /// By their names, which relations do not share.
    types: Map<Arc<QualifiedName>, Arc<TypeDef>>,
    /// The same by their numbers.
    numbered_types: Map<SpaceId, Arc<TypeDef>>,
    /// For each parent table the children that refer to it.
    children: Map<SpaceId, Set<SpaceId>>,
    roles: Map<Arc<str>, Arc<RoleDef>>,
    /// Of schemas that do not simply belong to the administrator.
    schema_access: Map<Arc<str>, Arc<ObjectAccess>>,
    /// Of servers of other engines that not only superusers use, by their names.
    server_access: Map<Arc<str>, Arc<ObjectAccess>>,
    /// Of new objects that are granted to others from the start.
    default_privileges: Map<NewObjectsKey, Arc<DefaultPrivileges>>,
    /// Of sessions that begin with settings.
    session_defaults: Map<SessionsKey, Arc<SessionDefaults>>,
    /// Which replicas commits wait for, if any.
    synchronous_replicas: Option<Arc<SynchronousReplicas>>,
}

impl Catalog {
    /// A catalog with the schema `public` and nothing in it.
    #[must_use]
    pub fn new() -> Self {
        let mut catalog = Self::default();
        catalog.put_schema(DEFAULT_SCHEMA);
        catalog
    }

    /// What this name stands for. Tables, views, sequences and indexes share one name space per schema.
    #[must_use]
    pub fn resolve(&self, name: &QualifiedName) -> Option<ObjectRef> {
        self.names.get(name).copied()
    }

    /// Whether the schema is there.
    #[must_use]
    pub fn has_schema(&self, schema: &str) -> bool {
        self.schemas.contains_key(schema)
    }

    /// All schemas, by name.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        self.schemas.keys().map(|schema| &**schema)
    }

    /// All names with what they stand for, by schema and name.
    pub fn names(&self) -> impl Iterator<Item = (&QualifiedName, ObjectRef)> {
        self.names.iter().map(|(name, object)| (&**name, *object))
    }

    /// The view of this name.
    #[must_use]
    pub fn view(&self, name: &QualifiedName) -> Option<&Arc<ViewDef>> {
        self.views.get(name)
    }

    /// The sequence with this number.
    #[must_use]
    pub fn sequence(&self, id: SequenceId) -> Option<&Arc<SequenceDef>> {
        self.sequences.get(&id)
    }

    /// The sequences that columns of this table own, by number.
    pub fn owned_sequences(&self, table: SpaceId) -> impl Iterator<Item = &Arc<SequenceDef>> {
        let owned = self.owned_sequences.get(&table).into_iter().flat_map(|owned| owned.keys());
        owned.filter_map(move |id| self.sequences.get(id))
    }

    /// All sequences.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<SequenceDef>> {
        self.sequences.values()
    }

    /// All views.
    pub fn views(&self) -> impl Iterator<Item = &Arc<ViewDef>> {
        self.views.values()
    }

    /// The tables with a foreign key to this one, itself included if it refers to itself.
    pub fn children(&self, parent: SpaceId) -> impl Iterator<Item = SpaceId> + '_ {
        self.children.get(&parent).into_iter().flat_map(|children| children.keys()).copied()
    }

    /// The type of this name.
    #[must_use]
    pub fn user_type(&self, name: &QualifiedName) -> Option<&Arc<TypeDef>> {
        self.types.get(name)
    }

    /// The type with this number.
    #[must_use]
    pub fn user_type_numbered(&self, id: SpaceId) -> Option<&Arc<TypeDef>> {
        self.numbered_types.get(&id)
    }

    /// All types that users have made, by name.
    pub fn user_types(&self) -> impl Iterator<Item = &Arc<TypeDef>> {
        self.types.values()
    }

    /// The role of this name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&Arc<RoleDef>> {
        self.roles.get(name)
    }

    /// All roles, by name.
    pub fn roles(&self) -> impl Iterator<Item = &Arc<RoleDef>> {
        self.roles.values()
    }

    /// Whose a schema is and what others may do with it, if that was ever said.
    #[must_use]
    pub fn schema_access(&self, schema: &str) -> Option<&Arc<ObjectAccess>> {
        self.schema_access.get(schema)
    }

    /// The schemas with a word on whose they are, by name.
    pub fn schemas_with_access(&self) -> impl Iterator<Item = (&str, &Arc<ObjectAccess>)> {
        self.schema_access.iter().map(|(schema, access)| (&**schema, access))
    }

    /// Who may use a server of another engine, if that was ever said.
    #[must_use]
    pub fn server_access(&self, server: &str) -> Option<&Arc<ObjectAccess>> {
        self.server_access.get(server)
    }

    /// The servers with a word on who may use them, by name.
    pub fn servers_with_access(&self) -> impl Iterator<Item = (&str, &Arc<ObjectAccess>)> {
        self.server_access.iter().map(|(server, access)| (&**server, access))
    }

    pub(crate) fn put_server_access(&mut self, server: &str, access: ObjectAccess) {
        if access.is_default() {
            self.server_access.remove(server);
        } else {
            self.server_access.insert(Arc::from(server), Arc::new(access));
        }
    }

    /// What new objects of this owner in this schema are granted; without a schema, what they are granted in all of them.
    #[must_use]
    pub fn default_privileges(
        &self,
        owner: Option<&str>,
        schema: Option<&str>,
        objects: NewObjects,
    ) -> Option<&Arc<DefaultPrivileges>> {
        let key = (owner.map(str::to_owned), schema.map(str::to_owned), objects);
        self.default_privileges.get(&key)
    }

    /// All that new objects are granted.
    pub fn all_default_privileges(&self) -> impl Iterator<Item = &Arc<DefaultPrivileges>> {
        self.default_privileges.values()
    }

    pub(crate) fn put_default_privileges(&mut self, defaults: DefaultPrivileges) {
        let key = (defaults.access.owner.clone(), defaults.schema.clone(), defaults.objects);
        if defaults.access.grants.is_empty() {
            self.default_privileges.remove(&key);
        } else {
            self.default_privileges.insert(key, Arc::new(defaults));
        }
    }

    /// The settings that sessions of this role begin with; without a role, those that sessions of all roles do.
    #[must_use]
    pub fn session_defaults(
        &self,
        role: Option<&str>,
        reach: DefaultsReach,
    ) -> Option<&Arc<SessionDefaults>> {
        self.session_defaults.get(&(role.map(str::to_owned), reach))
    }

    /// All settings that sessions begin with.
    pub fn all_session_defaults(&self) -> impl Iterator<Item = &Arc<SessionDefaults>> {
        self.session_defaults.values()
    }

    pub(crate) fn put_session_defaults(&mut self, defaults: SessionDefaults) {
        let key = (defaults.role.clone(), defaults.reach);
        if defaults.settings.is_empty() {
            self.session_defaults.remove(&key);
        } else {
            self.session_defaults.insert(key, Arc::new(defaults));
        }
    }

    /// Which replicas commits wait for, if any.
    #[must_use]
    pub fn synchronous_replicas(&self) -> Option<&SynchronousReplicas> {
        self.synchronous_replicas.as_deref()
    }

    pub(crate) fn put_synchronous_replicas(&mut self, required: Option<SynchronousReplicas>) {
        self.synchronous_replicas = required.map(Arc::new);
    }

    pub(crate) fn put_role(&mut self, role: RoleDef) {
        self.roles.insert(Arc::from(role.name.as_str()), Arc::new(role));
    }

    pub(crate) fn remove_role(&mut self, name: &str) {
        self.roles.remove(name);
    }

    pub(crate) fn put_schema_access(&mut self, schema: &str, access: ObjectAccess) {
        self.schema_access.insert(Arc::from(schema), Arc::new(access));
    }

    /// Takes in a new or changed table; `old` is its definition before.
    pub(crate) fn put_table(&mut self, old: Option<&TableDef>, new: &TableDef) {
        if let Some(old) = old {
            self.remove_table(old);
        }
        self.put_name(&new.name, ObjectRef::Table(new.id));
        for index in &new.indexes {
            let name = QualifiedName::new(&new.name.schema, &index.name);
            self.put_name(&name, ObjectRef::Index(new.id, index.id));
        }
        for foreign_key in &new.foreign_keys {
            put_member(&mut self.children, foreign_key.parent, new.id);
        }
    }

    pub(crate) fn remove_table(&mut self, old: &TableDef) {
        self.names.remove(&old.name);
        for index in &old.indexes {
            self.names.remove(&QualifiedName::new(&old.name.schema, &index.name));
        }
        for foreign_key in &old.foreign_keys {
            remove_member(&mut self.children, foreign_key.parent, &old.id);
        }
    }

    pub(crate) fn put_view(&mut self, view: ViewDef) {
        let name = self.put_name(&view.name, ObjectRef::View);
        self.views.insert(name, Arc::new(view));
    }

    pub(crate) fn remove_view(&mut self, name: &QualifiedName) {
        self.names.remove(name);
        self.views.remove(name);
    }

    pub(crate) fn put_sequence(&mut self, sequence: SequenceDef) {
        self.remove_sequence(sequence.id);
        self.put_name(&sequence.name, ObjectRef::Sequence(sequence.id));
        if let Some((table, _)) = sequence.owned_by {
            put_member(&mut self.owned_sequences, table, sequence.id);
        }
        self.sequences.insert(sequence.id, Arc::new(sequence));
    }

    pub(crate) fn remove_sequence(&mut self, id: SequenceId) {
        let Some(old) = self.sequences.remove(&id) else { return };
        self.names.remove(&old.name);
        if let Some((table, _)) = old.owned_by {
            remove_member(&mut self.owned_sequences, table, &id);
        }
    }

    pub(crate) fn put_type(&mut self, def: TypeDef) {
        self.remove_type(def.id());
        let def = Arc::new(def);
        self.types.insert(Arc::new(def.name().clone()), Arc::clone(&def));
        self.numbered_types.insert(def.id(), def);
    }

    pub(crate) fn remove_type(&mut self, id: SpaceId) {
        if let Some(old) = self.numbered_types.remove(&id) {
            self.types.remove(old.name());
        }
    }

    pub(crate) fn put_schema(&mut self, name: &str) {
        self.schemas.insert(Arc::from(name), ());
    }

    /// Lets a name stand for something.
    fn put_name(&mut self, name: &QualifiedName, object: ObjectRef) -> Arc<QualifiedName> {
        let name = Arc::new(name.clone());
        self.names.insert(Arc::clone(&name), object);
        name
    }

    pub(crate) fn remove_schema(&mut self, name: &str) {
        self.schemas.remove(name);
        self.schema_access.remove(name);
        let is_inside = |(_, schema, _): &&NewObjectsKey| schema.as_deref() == Some(name);
        let inside: Vec<NewObjectsKey> = self.default_privileges.keys().filter(is_inside).cloned().collect();
        for key in &inside {
            self.default_privileges.remove(key);
        }
    }
}

/// Puts a member into the set at a key.
fn put_member<K: Ord + Clone, M: Ord + Clone>(sets: &mut Map<K, Set<M>>, key: K, member: M) {
    sets.upsert(key, |members| members.insert(member, ()));
}

/// Takes a member from the set at a key, and the set with the last one.
fn remove_member<K: Ord + Clone, M: Ord + Clone>(sets: &mut Map<K, Set<M>>, key: K, member: &M) {
    let is_empty = sets.modify(&key, |members| {
        members.remove(member);
        members.is_empty()
    });
    if is_empty == Some(true) {
        sets.remove(&key);
    }
}

#[cfg(test)]
mod tests;
