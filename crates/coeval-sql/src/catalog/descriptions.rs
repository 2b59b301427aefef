// SPDX-License-Identifier: Apache-2.0
//! `pg_description`: what COMMENT ON has said of tables and columns.

use super::classes::column_number;
use super::objects::{Kind, Objects};
use super::oids;
use super::rows::Table;

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
    for def in objects.tables() {
        let columns = def
            .live_columns()
            .filter_map(|(index, column)| Some((column_number(def, index)?, column.comment.as_deref()?)));
        for (number, text) in def.comment.as_deref().map(|text| (0, text)).into_iter().chain(columns) {
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

/// What was said of a table, or of its column of this number.
pub(super) fn of_class(objects: &Objects, oid: i32, number: usize) -> Option<String> {
    let Kind::Table(def) = &objects.class(oid)?.kind else { return None };
    if number == 0 {
        return def.comment.clone();
    }
    let mut columns = def.live_columns();
    columns.find(|(index, _)| column_number(def, *index) == Some(number))?.1.comment.clone()
}
