// SPDX-License-Identifier: Apache-2.0
//! The roles that every database has, as PostgreSQL 15 has them: their members may do what each stands for. They are in no
//! catalog, and nobody changes them; a role of such a name that an older program made counts as the one that it stands for.
//!
//! | role | what its members may do |
//! |---|---|
//! | `pg_read_all_data`, `pg_write_all_data` | read and change all tables, views and sequences ([`given`]) |
//! | `pg_monitor` | see what all sessions do |
//! | `pg_signal_backend` | end what other sessions run, but those of superusers |
//! | `pg_checkpoint` | `CHECKPOINT` |
//! | the others | nothing more than without: what they stand for is everyone's here, or superusers' alone |

use super::Kind;
use coeval_store::{Catalog, Membership, Privilege, RoleDef};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Members of the role of this name see what all sessions do.
pub(crate) const MONITOR: &str = "pg_monitor";

/// Members of the role of this name end what other sessions run.
pub(crate) const SIGNAL_BACKEND: &str = "pg_signal_backend";

/// Members of the role of this name make checkpoints.
pub(crate) const CHECKPOINT: &str = "pg_checkpoint";

/// Its one member is the owner of the database.
pub(crate) const DATABASE_OWNER: &str = "pg_database_owner";

const READ_ALL_DATA: &str = "pg_read_all_data";
const WRITE_ALL_DATA: &str = "pg_write_all_data";

/// What `pg_monitor` is a member of.
const OF_MONITOR: [&str; 3] = ["pg_read_all_settings", "pg_read_all_stats", "pg_stat_scan_tables"];

/// Their names, with their numbers in `pg_authid`.
const ROLES: [(&str, i32); 12] = [
    (CHECKPOINT, 4544),
    (DATABASE_OWNER, 6171),
    ("pg_execute_server_program", 4571),
    (MONITOR, 3373),
    (READ_ALL_DATA, 6181),
    ("pg_read_all_settings", 3374),
    ("pg_read_all_stats", 3375),
    ("pg_read_server_files", 4569),
    (SIGNAL_BACKEND, 4200),
    ("pg_stat_scan_tables", 3377),
    (WRITE_ALL_DATA, 6182),
    ("pg_write_server_files", 4570),
];

static DEFINITIONS: LazyLock<Vec<RoleDef>> = LazyLock::new(|| {
    let membership = |role: &str| Membership { role: role.to_owned(), admin: false };
    let member_of = |name: &str| -> BTreeSet<Membership> {
        let roles: &[&str] = if name == MONITOR { &OF_MONITOR } else { &[] };
        roles.iter().copied().map(membership).collect()
    };
    ROLES.iter().map(|(name, _)| RoleDef { member_of: member_of(name), ..RoleDef::new(*name) }).collect()
});

/// The role of this name, if it is one of them.
pub(crate) fn predefined(name: &str) -> Option<&'static RoleDef> {
    // What all of them begin with.
    name.starts_with("pg_").then(|| DEFINITIONS.iter().find(|role| role.name == name)).flatten()
}

/// Its number in `pg_authid`, if it is one of them.
pub(crate) fn predefined_oid(name: &str) -> Option<i32> {
    ROLES.iter().find(|(role, _)| *role == name).map(|(_, oid)| *oid)
}

/// The role of this name, made by a user or not.
pub(crate) fn role_of<'c>(catalog: &'c Catalog, name: &str) -> Option<&'c RoleDef> {
    catalog.role(name).map(|role| &**role).or_else(|| predefined(name))
}

/// All roles: those that users have made, and the predefined ones.
pub(crate) fn roles_of(catalog: &Catalog) -> impl Iterator<Item = &RoleDef> {
    let others = DEFINITIONS.iter().filter(move |role| catalog.role(&role.name).is_none());
    catalog.roles().map(|role| &**role).chain(others)
}

/// The roles that give this privilege on all objects of a kind.
pub(super) fn given(kind: Kind, privilege: Privilege) -> &'static [&'static str] {
    match (kind, privilege) {
        (Kind::Table | Kind::View | Kind::Sequence, Privilege::Select) => &[READ_ALL_DATA],
        (
            Kind::Table | Kind::View | Kind::Sequence,
            Privilege::Insert | Privilege::Update | Privilege::Delete,
        ) => &[WRITE_ALL_DATA],
        (Kind::Schema, Privilege::Usage) => &[READ_ALL_DATA, WRITE_ALL_DATA],
        _ => &[],
    }
}
