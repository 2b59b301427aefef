// SPDX-License-Identifier: Apache-2.0
//! Views for people over what the tables of the catalog hold: `pg_tables`, `pg_views`, `pg_indexes`,
//! `pg_sequences`, and the statistics of tables and indexes.

use super::classes::class_size;
use super::deparse::{self, Style};
use super::objects::{Class, Kind, Objects};
use super::rows::{Cell, Table, zeros};
use super::{Source, sequence_row};
use crate::oids;
use crate::relations::RelationKind;
use coeval_store::Transaction;

/// Whether this module knows the relation.
pub(super) fn has(name: &str) -> bool {
    matches!(name, "pg_tables" | "pg_views" | "pg_indexes" | "pg_sequences") || statistics_of(name).is_some()
}

/// Fills the relation if this module knows it.
pub(super) fn fill(name: &str, table: &mut Table, objects: &Objects, source: &Source<'_>) {
    for class in &objects.classes {
        match name {
            "pg_tables" => push_table(table, class, source.transaction),
            "pg_views" => push_view(table, class),
            "pg_indexes" => push_index(table, class, objects),
            "pg_sequences" => push_sequence(table, class, source),
            _ => match statistics_of(name) {
                Some(Statistics::Tables) => push_table_statistics(table, class, source.transaction),
                Some(Statistics::TableBlocks) => push_names(table, class, "r"),
                Some(Statistics::Indexes) => push_index_statistics(table, class, source),
                Some(Statistics::IndexBlocks) => push_index_names(table, class),
                Some(Statistics::Sequences) => push_names(table, class, "S"),
                None => {}
            },
        }
    }
}

/// What a view of statistics is about.
#[derive(Clone, Copy)]
enum Statistics {
    Tables,
    TableBlocks,
    Indexes,
    IndexBlocks,
    Sequences,
}

/// The statistics that a view of this name shows; those of system tables are empty.
fn statistics_of(name: &str) -> Option<Statistics> {
    Some(match name {
        "pg_stat_user_tables" | "pg_stat_all_tables" => Statistics::Tables,
        "pg_statio_user_tables" | "pg_statio_all_tables" => Statistics::TableBlocks,
        "pg_stat_user_indexes" | "pg_stat_all_indexes" => Statistics::Indexes,
        "pg_statio_user_indexes" | "pg_statio_all_indexes" => Statistics::IndexBlocks,
        "pg_statio_user_sequences" | "pg_statio_all_sequences" => Statistics::Sequences,
        _ => return None,
    })
}

fn push_table(table: &mut Table, class: &Class, transaction: &Transaction) {
    let (indexed, references) = match &class.kind {
        Kind::Table(def) => (
            def.has_declared_primary_key() || !def.indexes.is_empty(),
            !def.foreign_keys.is_empty() || transaction.catalog().children(def.id).next().is_some(),
        ),
        Kind::System(relation) if relation.kind == RelationKind::Table => (false, false),
        _ => return,
    };
    table.push([
        ("schemaname", class.schema.as_str().into()),
        ("tablename", class.name.as_str().into()),
        ("tableowner", class.owner().into()),
        ("hasindexes", indexed.into()),
        ("hasrules", false.into()),
        ("hastriggers", references.into()),
        ("rowsecurity", false.into()),
    ]);
}

fn push_view(table: &mut Table, class: &Class) {
    let definition = match &class.kind {
        Kind::View(view) => Some(deparse::view(view)),
        Kind::System(relation) if relation.kind == RelationKind::View => None,
        _ => return,
    };
    table.push([
        ("schemaname", class.schema.as_str().into()),
        ("viewname", class.name.as_str().into()),
        ("viewowner", class.owner().into()),
        ("definition", definition.into()),
    ]);
}

fn push_index(table: &mut Table, class: &Class, objects: &Objects) {
    let Some(shape) = class.index() else { return };
    table.push([
        ("schemaname", class.schema.as_str().into()),
        ("tablename", shape.table.name.name.as_str().into()),
        ("indexname", class.name.as_str().into()),
        ("indexdef", deparse::index(objects, class, &shape, Style::Full).into()),
    ]);
}

fn push_sequence(table: &mut Table, class: &Class, source: &Source<'_>) {
    let Kind::Sequence(sequence) = &class.kind else { return };
    let (last, is_called) = sequence_row::standing(source.engine.store(), sequence);
    table.push([
        ("schemaname", class.schema.as_str().into()),
        ("sequencename", class.name.as_str().into()),
        ("sequenceowner", class.owner().into()),
        ("data_type", sequence.ty.column_type().to_string().into()),
        ("start_value", sequence.start.into()),
        ("min_value", sequence.min.into()),
        ("max_value", sequence.max.into()),
        ("increment_by", sequence.increment.into()),
        ("cycle", sequence.cycle.into()),
        ("cache_size", 1.into()),
        ("last_value", is_called.then_some(last).into()),
    ]);
}

fn push_table_statistics(table: &mut Table, class: &Class, transaction: &Transaction) {
    if !matches!(class.kind, Kind::Table(_)) {
        return;
    }
    let known: [(&str, Cell); 4] = [
        ("relid", class.oid.into()),
        ("schemaname", class.schema.as_str().into()),
        ("relname", class.name.as_str().into()),
        ("n_live_tup", class_size(transaction.world(), class).0.into()),
    ];
    let read = zeros("seq_scan seq_tup_read idx_scan idx_tup_fetch");
    let changed = zeros(
        "n_dead_tup n_tup_ins n_tup_upd n_tup_del n_tup_hot_upd n_mod_since_analyze n_ins_since_vacuum",
    );
    let cleaned = zeros("vacuum_count autovacuum_count analyze_count autoanalyze_count");
    table.push_all(known.into_iter().chain(read).chain(changed).chain(cleaned));
}

fn push_names(table: &mut Table, class: &Class, letter: &str) {
    if class.letter() != letter || matches!(class.kind, Kind::System(_)) {
        return;
    }
    table.push([
        ("relid", class.oid.into()),
        ("schemaname", class.schema.as_str().into()),
        ("relname", class.name.as_str().into()),
    ]);
}

/// Of indexes the store counts how often they were walked. Rows lie in the order of the primary key: nobody walks an index of that.
fn push_index_statistics(table: &mut Table, class: &Class, source: &Source<'_>) {
    let Some(names) = index_names(class) else { return };
    let walks = match &class.kind {
        Kind::Index(def, place) => {
            i64::try_from(source.engine.store().index_walks(def.indexes[*place].id)).ok()
        }
        _ => None,
    };
    table.push_all(names.into_iter().chain([("idx_scan", walks.into())]));
}

fn push_index_names(table: &mut Table, class: &Class) {
    if let Some(names) = index_names(class) {
        table.push(names);
    }
}

fn index_names(class: &Class) -> Option<[(&'static str, Cell); 5]> {
    let shape = class.index()?;
    Some([
        ("relid", oids::of_space(shape.table.id).into()),
        ("indexrelid", class.oid.into()),
        ("schemaname", class.schema.as_str().into()),
        ("relname", shape.table.name.name.as_str().into()),
        ("indexrelname", class.name.as_str().into()),
    ])
}
