// SPDX-License-Identifier: Apache-2.0
//! Relations about the server: databases, roles, settings.

use super::rows::{Cell, Table};
use super::{Source, oids};
use crate::engine::CATALOG_NAME;

/// The number of UTF-8 among PostgreSQL's encodings.
const UTF8: i32 = 6;

/// Fills the relation; whether this module knows it.
pub(super) fn fill(name: &str, table: &mut Table, source: &Source<'_>) -> bool {
    match name {
        "pg_database" => push_database(table),
        "pg_stat_database" => push_database_statistics(table, source),
        "pg_authid" | "pg_roles" => roles(source).for_each(|(oid, name)| push_role(table, oid, &name)),
        "pg_user" | "pg_shadow" => roles(source).for_each(|(oid, name)| push_user(table, oid, &name)),
        "pg_settings" => push_settings(table, source),
        _ => return false,
    }
    true
}

/// Who may log in: the owner of everything, and the session's user.
fn roles(source: &Source<'_>) -> impl Iterator<Item = (i32, String)> {
    let user = source.settings.user();
    let other = (user != CATALOG_NAME).then(|| (role_oid(user), user.to_owned()));
    std::iter::once((oids::OWNER, CATALOG_NAME.to_owned())).chain(other)
}

/// The id of a role.
pub(super) fn role_oid(name: &str) -> i32 {
    if name == CATALOG_NAME { oids::OWNER } else { oids::of_name("role", "", name) }
}

fn push_database(table: &mut Table) {
    table.push([
        ("oid", oids::DATABASE.into()),
        ("datname", CATALOG_NAME.into()),
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
    let version = i64::try_from(source.store.world().version().get()).unwrap_or(i64::MAX);
    table.push([
        ("datid", oids::DATABASE.into()),
        ("datname", CATALOG_NAME.into()),
        ("numbackends", source.store.active_snapshots().into()),
        // Each version of the world is a commit, of one transaction or of several.
        ("xact_commit", version.into()),
        ("xact_rollback", Cell::Int(0)),
        ("blks_read", Cell::Int(0)),
        ("blks_hit", Cell::Int(0)),
        ("tup_returned", Cell::Int(0)),
        ("tup_fetched", Cell::Int(0)),
        ("tup_inserted", Cell::Int(0)),
        ("tup_updated", Cell::Int(0)),
        ("tup_deleted", Cell::Int(0)),
        ("conflicts", Cell::Int(0)),
        ("temp_files", Cell::Int(0)),
        ("temp_bytes", Cell::Int(0)),
        ("deadlocks", Cell::Int(0)),
    ]);
}

fn push_role(table: &mut Table, oid: i32, name: &str) {
    table.push([
        ("oid", oid.into()),
        ("rolname", name.into()),
        ("rolsuper", true.into()),
        ("rolinherit", true.into()),
        ("rolcreaterole", true.into()),
        ("rolcreatedb", true.into()),
        ("rolcanlogin", true.into()),
        ("rolreplication", true.into()),
        ("rolconnlimit", (-1).into()),
        ("rolbypassrls", true.into()),
    ]);
}

fn push_user(table: &mut Table, oid: i32, name: &str) {
    table.push([
        ("usename", name.into()),
        ("usesysid", oid.into()),
        ("usecreatedb", true.into()),
        ("usesuper", true.into()),
        ("userepl", true.into()),
        ("usebypassrls", true.into()),
    ]);
}

fn push_settings(table: &mut Table, source: &Source<'_>) {
    for setting in source.settings.all() {
        table.push([
            ("name", setting.name.into()),
            ("setting", setting.value.into()),
            ("category", "Coeval".into()),
            ("short_desc", setting.description.into()),
            ("context", "user".into()),
            ("vartype", setting.type_name.into()),
            ("source", (if setting.is_changed { "session" } else { "default" }).into()),
            ("boot_val", setting.default.into()),
            ("reset_val", setting.default.into()),
            ("pending_restart", false.into()),
        ]);
    }
}
