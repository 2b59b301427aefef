// SPDX-License-Identifier: Apache-2.0
//! `pg_description`: what COMMENT ON has said of tables, columns, views, indexes and constraints.

use super::classes::column_number;
use super::constraints;
use super::objects::{Kind, Objects};
use super::rows::Table;
use crate::oids;

/// The schema that every database has.
const PUBLIC: &str = "public";
/// What PostgreSQL says of it.
const OF_PUBLIC: &str = "standard public schema";

/// Whether this module knows the relation.
pub(super) fn has(name: &str) -> bool {
    name == "pg_description"
}

/// Fills the relation if this module knows it.
pub(super) fn fill(name: &str, table: &mut Table, objects: &Objects) {
    if !has(name) {
        return;
    }
    if objects.definitions.catalog().has_schema(PUBLIC) {
        table.push([
            ("objoid", oids::of_schema(PUBLIC).into()),
            ("classoid", oids::PG_NAMESPACE.into()),
            ("description", OF_PUBLIC.into()),
        ]);
    }
    for class in &objects.classes {
        if let Some(text) = of_relation(&class.kind) {
            table.push([
                ("objoid", class.oid.into()),
                ("classoid", oids::PG_CLASS.into()),
                ("description", text.as_str().into()),
            ]);
        }
    }
    for def in objects.tables() {
        for constraint in constraints::of_table(def) {
            if let Some(text) = def.constraint_comments.get(&constraint.name) {
                table.push([
                    ("objoid", constraint.oid.into()),
                    ("classoid", oids::PG_CONSTRAINT.into()),
                    ("description", text.as_str().into()),
                ]);
            }
        }
        let columns = def
            .live_columns()
            .filter_map(|(index, column)| Some((column_number(def, index)?, column.comment.as_deref()?)));
        for (number, text) in columns {
            table.push([
                ("objoid", oids::of_space(def.id).into()),
                ("classoid", oids::PG_CLASS.into()),
                ("objsubid", number.into()),
                ("description", text.into()),
            ]);
        }
    }
}

/// What is said of a schema.
pub(super) fn of_schema(oid: i32) -> Option<&'static str> {
    (oid == oids::of_schema(PUBLIC)).then_some(OF_PUBLIC)
}

/// What was said of a relation as a whole.
fn of_relation(kind: &Kind) -> Option<String> {
    match kind {
        Kind::Table(def) => def.comment.clone(),
        Kind::View(view) => view.comment.clone(),
        Kind::PrimaryKey(def) => def.index_comments.get(&def.primary_key_name).cloned(),
        Kind::Index(def, place) => def.index_comments.get(&def.indexes.get(*place)?.name).cloned(),
        Kind::Sequence(_) | Kind::System(_) => None,
    }
}

/// What was said of a constraint.
pub(super) fn of_constraint(objects: &Objects, oid: i32) -> Option<String> {
    objects.tables().find_map(|def| {
        let constraint = constraints::of_table(def).into_iter().find(|constraint| constraint.oid == oid)?;
        def.constraint_comments.get(&constraint.name).cloned()
    })
}

/// What was said of a relation, or of its column of this number.
pub(super) fn of_class(objects: &Objects, oid: i32, number: usize) -> Option<String> {
    let kind = &objects.class(oid)?.kind;
    if number == 0 {
        return of_relation(kind);
    }
    let Kind::Table(def) = kind else { return None };
    let mut columns = def.live_columns();
    columns.find(|(index, _)| column_number(def, *index) == Some(number))?.1.comment.clone()
}
