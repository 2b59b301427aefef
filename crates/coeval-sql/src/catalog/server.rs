// SPDX-License-Identifier: Apache-2.0
//! Relations about the server and the session: databases, settings, prepared statements, cursors, time zones.

use super::Source;
use super::rows::{Cell, Table, zeros};
use super::time_zones;
use crate::oids;
use crate::settings::{of_database, written_name};

/// The number of UTF-8 among PostgreSQL's encodings.
const UTF8: i32 = 6;

/// Fills the relation; whether this module knows it.
pub(super) fn fill(name: &str, table: &mut Table, source: &Source<'_>) -> bool {
    match name {
        "pg_database" => push_database(table, source),
        "pg_stat_database" => push_database_statistics(table, source),
        "pg_settings" => push_settings(table, source),
        "pg_prepared_statements" => push_prepared_statements(table, source),
        "pg_cursors" => push_cursors(table, source),
        "pg_timezone_abbrevs" => time_zones::push_abbreviations(table),
        "pg_timezone_names" => time_zones::push_names(table),
        _ => return false,
    }
    true
}

fn push_database(table: &mut Table, source: &Source<'_>) {
    table.push([
        ("oid", oids::DATABASE.into()),
        ("datname", source.settings.database().into()),
        ("datdba", oids::OWNER.into()),
        ("encoding", UTF8.into()),
        ("datlocprovider", "c".into()),
        ("datallowconn", true.into()),
        ("datconnlimit", (-1).into()),
        ("datfrozenxid", "0".into()),
        ("datminmxid", "0".into()),
        ("dattablespace", 1_663.into()),
        ("datcollate", "C".into()),
        ("datctype", "C".into()),
    ]);
}

fn push_database_statistics(table: &mut Table, source: &Source<'_>) {
    let version = i64::try_from(source.engine.store().world().version().get()).unwrap_or(i64::MAX);
    let known: [(&str, Cell); 4] = [
        ("datid", oids::DATABASE.into()),
        ("datname", source.settings.database().into()),
        ("numbackends", source.engine.store().active_snapshots().into()),
        // Each version of the world is a commit, of one transaction or of several.
        ("xact_commit", version.into()),
    ];
    let blocks = zeros("xact_rollback blks_read blks_hit");
    let rows = zeros("tup_returned tup_fetched tup_inserted tup_updated tup_deleted");
    let others = zeros("conflicts temp_files temp_bytes deadlocks");
    table.push_all(known.into_iter().chain(blocks).chain(rows).chain(others));
}

fn push_prepared_statements(table: &mut Table, source: &Source<'_>) {
    for statement in source.open.prepared_statements() {
        table.push([
            ("name", statement.name.into()),
            ("statement", statement.sql.into()),
            ("prepare_time", statement.since_micros.into()),
            ("parameter_types", Cell::Texts(statement.parameters.iter().map(ToString::to_string).collect())),
            ("from_sql", statement.from_sql.into()),
        ]);
    }
}

fn push_cursors(table: &mut Table, source: &Source<'_>) {
    for cursor in source.open.cursors() {
        table.push([
            ("name", cursor.name.into()),
            ("statement", cursor.sql.into()),
            ("is_holdable", cursor.is_holdable.into()),
            ("is_binary", false.into()),
            ("is_scrollable", cursor.is_scrollable.into()),
            ("creation_time", cursor.since_micros.into()),
        ]);
    }
}

fn push_settings(table: &mut Table, source: &Source<'_>) {
    let (store, registry) = (source.engine.store(), source.engine.registry());
    let upstream = source.engine.upstream_handle();
    for setting in source.settings.all() {
        let shared = of_database(setting.name, store, registry, upstream.as_deref());
        table.push([
            ("name", written_name(setting.name).into()),
            ("setting", shared.unwrap_or_else(|| setting.value.to_owned()).into()),
            ("category", "Coeval".into()),
            ("short_desc", setting.description.into()),
            ("context", "user".into()),
            ("vartype", setting.type_name.into()),
            ("source", (if setting.is_changed { "session" } else { "default" }).into()),
            ("boot_val", setting.default.into()),
            ("reset_val", setting.initial.into()),
            ("pending_restart", false.into()),
        ]);
    }
}
