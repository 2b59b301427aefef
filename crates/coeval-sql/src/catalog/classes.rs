// SPDX-License-Identifier: Apache-2.0
//! `pg_class`, `pg_attribute`, `pg_attrdef`, `pg_index`, `pg_sequence`, `pg_namespace`, `pg_init_privs`.

use super::objects::{Class, IndexShape, Kind, Objects};
use super::roles::{owner_oid, role_oid};
use super::rows::{Cell, Table};
use super::{Source, deparse, sequence_row};
use crate::oids;
use crate::relations::{INFORMATION_SCHEMA, PG_CATALOG};
use crate::rights::{self, access_list, entries, schema_access};
use crate::temporary::is_temporary;
use crate::types::{TypeFacts, facts, facts_of_column, facts_of_name, facts_of_view_column};
use coeval_store::{
    CheckOption, ColumnDef, ColumnState, DeclaredOrder, Identity, SequenceDef, SpaceId, TableDef,
    Transaction, Uniqueness, World,
};
use std::sync::Arc;

/// Bytes of a page, by which clients count sizes.
const PAGE_SIZE: usize = 8_192;

/// Whether this module knows the relation.
pub(super) fn has(name: &str) -> bool {
    matches!(
        name,
        "pg_class"
            | "pg_attribute"
            | "pg_attrdef"
            | "pg_index"
            | "pg_sequence"
            | "pg_namespace"
            | "pg_init_privs"
    )
}

/// Fills the relation if this module knows it.
pub(super) fn fill(name: &str, table: &mut Table, objects: &Objects, source: &Source<'_>) {
    match name {
        "pg_class" => objects.classes.iter().for_each(|class| push_class(table, class, source.transaction)),
        "pg_attribute" => objects.classes.iter().for_each(|class| push_columns(table, class, objects)),
        "pg_attrdef" => {
            objects.tables().for_each(|def| push_defaults(table, def, objects));
            objects.classes.iter().for_each(|class| push_view_defaults(table, class, objects));
        }
        "pg_index" => objects.classes.iter().for_each(|class| push_index(table, class)),
        "pg_sequence" => objects.classes.iter().for_each(|class| {
            if let Kind::Sequence(sequence) = &class.kind {
                push_sequence(table, class.oid, sequence);
            }
        }),
        "pg_namespace" => objects.schemas().for_each(|schema| {
            let access = schema_access(objects.definitions.catalog(), schema);
            let acl = access_list(rights::Kind::Schema, &access);
            table.push([
                ("oid", oids::of_schema(schema).into()),
                ("nspname", schema.into()),
                ("nspowner", owner_oid(access.owner.as_deref()).into()),
                ("nspacl", acl.map(Cell::Texts).unwrap_or(Cell::Null)),
            ]);
        }),
        "pg_init_privs" => push_initial_privileges(table, objects),
        _ => {}
    }
}

/// What everyone may do with PostgreSQL's own schemas from the beginning, so that no dump says it.
fn push_initial_privileges(table: &mut Table, objects: &Objects) {
    for schema in [PG_CATALOG, INFORMATION_SCHEMA] {
        let access = schema_access(objects.definitions.catalog(), schema);
        let acl = access_list(rights::Kind::Schema, &access);
        table.push([
            ("objoid", oids::of_schema(schema).into()),
            ("classoid", oids::PG_NAMESPACE.into()),
            ("privtype", "i".into()),
            ("initprivs", acl.map(Cell::Texts).unwrap_or(Cell::Null)),
        ]);
    }
}

/// The number of a column, from 1; hidden columns have none. Dropped columns keep theirs.
pub(super) fn column_number(def: &TableDef, index: usize) -> Option<usize> {
    if !has_number(&def.columns[index]) {
        return None;
    }
    let before = def.columns[..index].iter().filter(|column| has_number(column));
    Some(before.count() + 1)
}

/// The column of a table with this number.
pub(super) fn column_numbered(def: &TableDef, number: i16) -> Option<&ColumnDef> {
    let before = usize::try_from(number).ok()?.checked_sub(1)?;
    numbered_columns(def).nth(before)
}

/// The columns of a table that have numbers, in their order; among them those that were dropped.
pub(super) fn numbered_columns(def: &TableDef) -> impl Iterator<Item = &ColumnDef> {
    def.columns.iter().filter(|column| has_number(column))
}

fn has_number(column: &ColumnDef) -> bool {
    !matches!(column.state, ColumnState::Hidden | ColumnState::Computed | ColumnState::Retired { .. })
}

/// The numbers of these columns; 0 for expressions.
pub(super) fn column_numbers(def: &TableDef, columns: &[usize]) -> Cell {
    let number = |column: &usize| column_number(def, *column).and_then(|number| i64::try_from(number).ok());
    Cell::Ints(columns.iter().map(|column| number(column).unwrap_or_default()).collect())
}

/// Rows and bytes of a table or an index as the snapshot has them, without the transaction's own changes.
fn size(world: &World, table: SpaceId, space: SpaceId) -> (usize, usize) {
    let Some(found) = world.table(table) else { return (0, 0) };
    let bytes = found
        .spaces()
        .filter(|(id, _)| *id == space)
        .map(|(_, space)| space.base_bytes() + space.delta_bytes());
    (usize::try_from(found.row_count()).unwrap_or(usize::MAX), bytes.sum())
}

/// Rows and bytes of what a class stands for.
pub(super) fn class_size(world: &World, class: &Class) -> (usize, usize) {
    match &class.kind {
        Kind::Table(def) => size(world, def.id, def.id),
        // Rows lie in the order of the primary key: its index takes no room of its own.
        Kind::PrimaryKey(def) => (size(world, def.id, def.id).0, 0),
        Kind::Index(def, place) => size(world, def.id, def.indexes[*place].id),
        Kind::View(_) | Kind::Sequence(_) | Kind::System(_) => (0, 0),
    }
}

fn push_class(table: &mut Table, class: &Class, transaction: &Transaction) {
    let (columns, checks, indexed, references) = match &class.kind {
        Kind::Table(def) => (
            def.columns.iter().filter(|column| has_number(column)).count(),
            def.checks.len(),
            def.has_declared_primary_key() || !def.indexes.is_empty(),
            !def.foreign_keys.is_empty() || transaction.catalog().children(def.id).next().is_some(),
        ),
        Kind::PrimaryKey(_) | Kind::Index(..) => {
            (class.index().map_or(0, |shape| shape.columns.len()), 0, false, false)
        }
        Kind::System(relation) => (relation.columns.len(), 0, false, false),
        Kind::Sequence(_) => (sequence_row::COLUMNS.len(), 0, false, false),
        Kind::View(view) => (view.output.as_ref().map_or(0, Vec::len), 0, false, false),
    };
    let access = match class.letter() {
        "r" => oids::HEAP,
        "i" => oids::BTREE,
        _ => 0,
    };
    let (rows, bytes) = class_size(transaction.world(), class);
    let acl = class.access().and_then(|access| access_list(class.privilege_kind(), access));
    table.push([
        ("oid", class.oid.into()),
        ("relname", class.name.as_str().into()),
        ("relnamespace", oids::of_schema(&class.schema).into()),
        ("relowner", role_oid(class.owner()).into()),
        ("relacl", acl.map(Cell::Texts).unwrap_or(Cell::Null)),
        ("relam", access.into()),
        ("relfilenode", class.oid.into()),
        ("relpages", bytes.div_ceil(PAGE_SIZE).into()),
        ("reltuples", Cell::Float(rows as f64)),
        ("relhasindex", indexed.into()),
        ("relpersistence", (if is_temporary(&class.schema) { "t" } else { "p" }).into()),
        ("relkind", class.letter().into()),
        ("relnatts", columns.into()),
        ("relchecks", checks.into()),
        ("relhasrules", (class.letter() == "v").into()),
        ("relhastriggers", references.into()),
        ("relispopulated", true.into()),
        ("relreplident", (if class.letter() == "r" { "d" } else { "n" }).into()),
        ("relfrozenxid", "0".into()),
        ("relminmxid", "0".into()),
        ("reloptions", options(class)),
    ]);
}

/// `reloptions`: of a view, what is checked of rows that are written through it.
fn options(class: &Class) -> Cell {
    let Kind::View(view) = &class.kind else { return Cell::Null };
    match view.check {
        None => Cell::Null,
        Some(CheckOption::Local) => Cell::Texts(vec!["check_option=local".to_owned()]),
        Some(CheckOption::Cascaded) => Cell::Texts(vec!["check_option=cascaded".to_owned()]),
    }
}

/// A column as `pg_attribute` lists it.
struct Attribute<'a> {
    name: &'a str,
    number: usize,
    facts: TypeFacts,
    not_null: bool,
    has_default: bool,
    identity: &'static str,
    is_generated: bool,
    dropped: bool,
    /// What was granted on it, if anything was.
    acl: Option<Vec<String>>,
}

impl<'a> Attribute<'a> {
    fn plain(name: &'a str, number: usize, facts: TypeFacts) -> Self {
        let (not_null, has_default, is_generated) = (false, false, false);
        let (identity, dropped, acl) = ("", false, None);
        Self { name, number, facts, not_null, has_default, identity, is_generated, dropped, acl }
    }

    /// The column at a place of a table.
    fn of(def: &'a TableDef, place: usize, number: usize, dropped_name: &'a str) -> Self {
        let column = &def.columns[place];
        let granted = def.access.of_column(place);
        let dropped = column.is_dropped();
        let facts = facts_of_column(column);
        Self {
            name: if dropped { dropped_name } else { &column.name },
            number,
            facts: if dropped { TypeFacts { oid: 0, ..facts } } else { facts },
            not_null: column.not_null && !dropped,
            has_default: has_default(column) && def.id.get() != 0,
            identity: match column.identity {
                Some(Identity::Always) => "a",
                Some(Identity::ByDefault) => "d",
                None => "",
            },
            is_generated: column.generated.is_some(),
            dropped,
            acl: (!granted.is_empty()).then(|| entries(granted)),
        }
    }
}

/// Whether the column has a default that shows: identity columns have none.
fn has_default(column: &ColumnDef) -> bool {
    let is_filled = column.default.is_some() || column.sequence.is_some() || column.generated.is_some();
    column.is_live() && column.identity.is_none() && is_filled
}

fn push_columns(table: &mut Table, class: &Class, objects: &Objects) {
    match &class.kind {
        Kind::Table(def) => {
            for place in 0..def.columns.len() {
                let Some(number) = column_number(def, place) else { continue };
                let dropped = format!("........pg.dropped.{number}........");
                push_attribute(table, class.oid, &Attribute::of(def, place, number, &dropped));
            }
        }
        Kind::PrimaryKey(def) | Kind::Index(def, _) => {
            let Some(shape) = class.index() else { return };
            for (place, index) in shape.columns.iter().enumerate() {
                let column = &def.columns[*index];
                let attribute = Attribute::plain(&column.name, place + 1, facts_of_column(column));
                push_attribute(table, class.oid, &attribute);
            }
        }
        Kind::View(view) => {
            let columns = objects.view_columns.get(&view.name).into_iter().flatten();
            for (place, column) in columns.enumerate() {
                let facts = facts_of_view_column(column);
                let plain = Attribute::plain(&column.name, place + 1, facts);
                let has_default = column.default.is_some();
                let granted = view.access.of_column(place);
                let acl = (!granted.is_empty()).then(|| entries(granted));
                push_attribute(table, class.oid, &Attribute { has_default, acl, ..plain });
            }
        }
        Kind::System(relation) => {
            for (place, column) in relation.columns.iter().enumerate() {
                let facts = facts_of_name(column.type_name);
                push_attribute(table, class.oid, &Attribute::plain(column.name, place + 1, facts));
            }
        }
        Kind::Sequence(_) => {
            for (place, (name, ty)) in sequence_row::COLUMNS.into_iter().enumerate() {
                let attribute =
                    Attribute { not_null: true, ..Attribute::plain(name, place + 1, facts_of_name(ty)) };
                push_attribute(table, class.oid, &attribute);
            }
        }
    }
}

fn push_attribute(table: &mut Table, class: i32, attribute: &Attribute<'_>) {
    let facts = attribute.facts;
    table.push([
        ("attrelid", class.into()),
        ("attname", attribute.name.into()),
        ("atttypid", facts.oid.into()),
        ("attstattarget", (-1).into()),
        ("attlen", i32::from(facts.length).into()),
        ("attnum", attribute.number.into()),
        ("attndims", i32::from(facts.is_array).into()),
        ("attcacheoff", (-1).into()),
        ("atttypmod", facts.modifier.into()),
        ("attbyval", (facts.length > 0 && facts.length <= 8).into()),
        ("attalign", facts.align.into()),
        ("attstorage", facts.storage.into()),
        ("attnotnull", attribute.not_null.into()),
        ("atthasdef", attribute.has_default.into()),
        ("attidentity", attribute.identity.into()),
        ("attgenerated", (if attribute.is_generated { "s" } else { "" }).into()),
        ("attisdropped", attribute.dropped.into()),
        ("attislocal", true.into()),
        ("attcollation", facts.collation.into()),
        ("attacl", attribute.acl.clone().map(Cell::Texts).unwrap_or(Cell::Null)),
    ]);
}

fn push_defaults(table: &mut Table, def: &Arc<TableDef>, objects: &Objects) {
    for (index, column) in def.columns.iter().enumerate().filter(|(_, column)| has_default(column)) {
        let Some(number) = column_number(def, index) else { continue };
        table.push([
            ("oid", oids::of_default(def.id, index).into()),
            ("adrelid", oids::of_space(def.id).into()),
            ("adnum", number.into()),
            ("adbin", deparse::default(objects, column).into()),
        ]);
    }
}

fn push_view_defaults(table: &mut Table, class: &Class, objects: &Objects) {
    let Kind::View(view) = &class.kind else { return };
    let columns = view.output.iter().flatten().enumerate();
    for (place, column) in columns.filter(|(_, column)| column.default.is_some()) {
        let default = column.default.clone();
        let default = ColumnDef { default, ..ColumnDef::new(&column.name, column.ty) };
        table.push([
            ("oid", oids::of_view_default(&view.name, place).into()),
            ("adrelid", class.oid.into()),
            ("adnum", (place + 1).into()),
            ("adbin", deparse::default(objects, &default).into()),
        ]);
    }
}

fn push_index(table: &mut Table, class: &Class) {
    let Some(shape) = class.index() else { return };
    let columns = shape.columns.len();
    let collations = shape.columns.iter().map(|index| facts(shape.table.columns[*index].ty).collation.into());
    let classes = shape.columns.iter().map(|index| operator_class(facts(shape.table.columns[*index].ty).oid));
    table.push([
        ("indexrelid", class.oid.into()),
        ("indrelid", oids::of_space(shape.table.id).into()),
        ("indnatts", columns.into()),
        ("indnkeyatts", columns.into()),
        ("indisunique", (shape.uniqueness != Uniqueness::Any).into()),
        ("indisprimary", shape.is_primary.into()),
        ("indimmediate", true.into()),
        ("indisvalid", true.into()),
        ("indisready", true.into()),
        ("indislive", true.into()),
        ("indexprs", deparse::index_expressions(&shape).into()),
        ("indpred", shape.predicate.map(deparse::shown_expression).into()),
        ("indkey", column_numbers(shape.table, shape.columns)),
        ("indcollation", Cell::Ints(collations.collect())),
        ("indclass", Cell::Ints(classes.collect())),
        ("indoption", Cell::Ints((0..columns).map(|place| order_bits(&shape, place)).collect())),
    ]);
}

/// `indoption`: 1 for DESC, 2 for NULLS FIRST.
fn order_bits(shape: &IndexShape<'_>, place: usize) -> i64 {
    match shape.declared_order.get(place) {
        None | Some(DeclaredOrder::Ascending) => 0,
        Some(DeclaredOrder::DescendingNullsLast) => 1,
        Some(DeclaredOrder::AscendingNullsFirst) => 2,
        Some(DeclaredOrder::Descending) => 3,
    }
}

/// The default operator class of B-trees for a type.
fn operator_class(ty: i32) -> i64 {
    match ty {
        16 => 424,
        17 => 428,
        20 => 3124,
        21 => 1979,
        23 => 1978,
        700 => 1970,
        701 => 3123,
        1042 => 426,
        1082 => 3122,
        1083 => 3129,
        1114 => 3128,
        1184 => 3127,
        1186 => 10_047,
        1266 => 10_041,
        1560 => 10_002,
        1562 => 10_043,
        1700 => 3125,
        2950 => 2968,
        3220 => 10_067,
        _ => 3126,
    }
}

fn push_sequence(table: &mut Table, class: i32, sequence: &SequenceDef) {
    table.push([
        ("seqrelid", class.into()),
        ("seqtypid", facts(sequence.ty.column_type()).oid.into()),
        ("seqstart", sequence.start.into()),
        ("seqincrement", sequence.increment.into()),
        ("seqmax", sequence.max.into()),
        ("seqmin", sequence.min.into()),
        ("seqcache", 1.into()),
        ("seqcycle", sequence.cycle.into()),
    ]);
}
