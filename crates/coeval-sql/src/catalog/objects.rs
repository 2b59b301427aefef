// SPDX-License-Identifier: Apache-2.0
//! The objects of a snapshot with their ids: what the catalog's relations and functions look things up in.

use super::roles::owner_name;
use crate::definitions::Definitions;
use crate::oids;
use crate::relations::{self, INFORMATION_SCHEMA, PG_CATALOG};
use crate::rights;
use crate::settings::Settings;
use crate::stored::index_keys;
use coeval_store::{
    DeclaredOrder, IndexDef, ObjectAccess, ObjectRef, QualifiedName, SequenceDef, TableDef, Transaction,
    Uniqueness, ViewColumn, ViewDef,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// For each view its columns, as far as they are known.
pub(crate) type ViewColumns = BTreeMap<QualifiedName, Vec<ViewColumn>>;

/// What a row of `pg_class` stands for.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A table.
    Table(Arc<TableDef>),
    /// The index behind a table's primary key.
    PrimaryKey(Arc<TableDef>),
    /// Another index of a table, by its place among them.
    Index(Arc<TableDef>, usize),
    /// A view.
    View(Arc<ViewDef>),
    /// A sequence.
    Sequence(Arc<SequenceDef>),
    /// A relation of the catalog itself.
    System(&'static relations::Relation),
}

/// A row of `pg_class`.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) oid: i32,
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// The columns and properties of an index, be it a primary key's or another.
pub(super) struct IndexShape<'a> {
    pub(super) table: &'a Arc<TableDef>,
    pub(super) columns: &'a [usize],
    /// The condition of a partial index.
    pub(super) predicate: Option<&'a str>,
    pub(super) uniqueness: Uniqueness,
    /// Empty: all ascend.
    pub(super) declared_order: &'a [DeclaredOrder],
    pub(super) is_primary: bool,
}

impl Class {
    /// `relkind`.
    pub(super) fn letter(&self) -> &'static str {
        match &self.kind {
            Kind::Table(_) => "r",
            Kind::PrimaryKey(_) | Kind::Index(..) => "i",
            Kind::View(_) => "v",
            Kind::Sequence(_) => "S",
            Kind::System(relation) => match relation.kind {
                relations::RelationKind::Table => "r",
                relations::RelationKind::View => "v",
            },
        }
    }

    /// Whose it is and what others may do with it; `None`: the administrator's.
    pub(super) fn access(&self) -> Option<&ObjectAccess> {
        match &self.kind {
            Kind::Table(def) | Kind::PrimaryKey(def) | Kind::Index(def, _) => Some(&def.access),
            Kind::View(view) => Some(&view.access),
            Kind::Sequence(sequence) => Some(&sequence.access),
            Kind::System(_) => None,
        }
    }

    /// The name of its owner.
    pub(super) fn owner(&self) -> &str {
        owner_name(self.access().and_then(|access| access.owner.as_deref()))
    }

    /// Its kind, as privileges know it.
    pub(super) fn privilege_kind(&self) -> rights::Kind {
        match &self.kind {
            Kind::Table(_) => rights::Kind::Table,
            Kind::PrimaryKey(_) | Kind::Index(..) => rights::Kind::Index,
            Kind::View(_) | Kind::System(_) => rights::Kind::View,
            Kind::Sequence(_) => rights::Kind::Sequence,
        }
    }

    /// What it is as an index; `None` for anything else.
    pub(super) fn index(&self) -> Option<IndexShape<'_>> {
        match &self.kind {
            Kind::PrimaryKey(table) => Some(IndexShape {
                table,
                columns: &table.primary_key,
                uniqueness: Uniqueness::Constraint,
                predicate: None,
                declared_order: &[],
                is_primary: true,
            }),
            Kind::Index(table, place) => {
                let IndexDef { columns, uniqueness, declared_order, .. } = &table.indexes[*place];
                Some(IndexShape {
                    table,
                    columns: index_keys::keys_of(table, columns),
                    predicate: index_keys::predicate_of(table, &table.indexes[*place]),
                    uniqueness: *uniqueness,
                    declared_order,
                    is_primary: false,
                })
            }
            _ => None,
        }
    }
}

/// The objects that a statement sees.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(super) definitions: Definitions,
    /// The schemas of unqualified names that exist, in order.
    pub(super) path: Vec<String>,
    pub(super) classes: Vec<Class>,
    pub(super) view_columns: ViewColumns,
    places: HashMap<i32, usize>,
    names: HashMap<(String, String), usize>,
}

impl Objects {
    /// Those of a transaction, its own changes included.
    pub(super) fn of(transaction: &Transaction, settings: &Settings, view_columns: &ViewColumns) -> Self {
        let definitions = Definitions::of(transaction);
        let mut classes: Vec<Class> = relations::all()
            .iter()
            .map(|relation| class(relation.oid, relation.schema, relation.name, Kind::System(relation)))
            .collect();
        for (name, object) in definitions.names() {
            add(&mut classes, &definitions, name, object);
        }
        let places = classes.iter().enumerate().map(|(place, class)| (class.oid, place)).collect();
        let names = classes
            .iter()
            .enumerate()
            .map(|(place, class)| ((class.schema.clone(), class.name.clone()), place))
            .collect();
        let path = settings.name_path().iter();
        let path = path.filter(|schema| definitions.catalog().has_schema(schema)).cloned().collect();
        Self { definitions, path, classes, view_columns: view_columns.clone(), places, names }
    }

    /// All schemas, PostgreSQL's own among them.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &str> {
        let own = self.definitions.catalog().schemas();
        own.chain([PG_CATALOG, INFORMATION_SCHEMA])
    }

    /// The class with this id.
    pub(super) fn class(&self, oid: i32) -> Option<&Class> {
        self.places.get(&oid).map(|place| &self.classes[*place])
    }

    /// The class of this name, by the search path if no schema is given.
    pub(super) fn class_named(&self, schema: Option<&str>, name: &str) -> Option<&Class> {
        let in_schema = |schema: &str| {
            let place = self.names.get(&(schema.to_owned(), name.to_owned()));
            place.map(|place| &self.classes[*place])
        };
        match schema {
            Some(schema) => in_schema(schema),
            None => in_schema(PG_CATALOG).or_else(|| self.path.iter().find_map(|schema| in_schema(schema))),
        }
    }

    /// Whether the class is found by its name alone.
    pub(super) fn is_visible(&self, class: &Class) -> bool {
        self.class_named(None, &class.name).is_some_and(|found| found.oid == class.oid)
    }

    /// The name of a class as it has to be written: with its schema if it is not found without.
    pub(super) fn written_name(&self, class: &Class) -> String {
        let name = crate::quoting::quoted(&class.name);
        if self.is_visible(class) {
            name
        } else {
            format!("{}.{name}", crate::quoting::quoted(&class.schema))
        }
    }

    /// The tables, by number.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.definitions.tables()
    }
}

fn class(oid: i32, schema: &str, name: &str, kind: Kind) -> Class {
    Class { oid, schema: schema.to_owned(), name: name.to_owned(), kind }
}

fn add(classes: &mut Vec<Class>, definitions: &Definitions, name: &QualifiedName, object: ObjectRef) {
    let mut push = |oid, name: &str, kind, schema: &str| classes.push(class(oid, schema, name, kind));
    match object {
        ObjectRef::Table(id) => {
            let Some(table) = definitions.table(id) else { return };
            push(oids::of_space(id), &name.name, Kind::Table(table.clone()), &name.schema);
            if table.has_declared_primary_key() {
                let oid = oids::of_primary_key(id);
                push(oid, &table.primary_key_name, Kind::PrimaryKey(table.clone()), &name.schema);
            }
        }
        ObjectRef::Index(table, id) => {
            let Some(table) = definitions.table(table) else { return };
            let Some(place) = table.indexes.iter().position(|index| index.id == id) else { return };
            push(oids::of_space(id), &name.name, Kind::Index(table.clone(), place), &name.schema);
        }
        ObjectRef::View => {
            let Some(view) = definitions.catalog().view(name) else { return };
            let oid = oids::of_name("view", &name.schema, &name.name);
            push(oid, &name.name, Kind::View(view.clone()), &name.schema);
        }
        ObjectRef::Sequence(id) => {
            let Some(sequence) = definitions.catalog().sequence(id) else { return };
            push(oids::of_sequence(id), &name.name, Kind::Sequence(sequence.clone()), &name.schema);
        }
    }
}
