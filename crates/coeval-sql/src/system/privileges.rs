// SPDX-License-Identifier: Apache-2.0
//! `information_schema` on roles and what they may do.

use super::DATABASE_NAME;
use super::rows::{Rows, table_defs, text, yes_or_no};
use crate::rights::{COLUMN_PRIVILEGES, Kind, Principal, Rights, all_privileges, role_of, roles_of};
use crate::settings::Settings;
use coeval_store::{ColumnType, Grant, ObjectAccess, Privilege, QualifiedName, Transaction, ValueRef};

const TEXT: ColumnType = ColumnType::Text;

/// Whether rights of everyone are listed too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Public {
    Listed,
    Left,
}

/// What the owner has, and what was granted.
fn grants(access: &ObjectAccess) -> Vec<Grant> {
    let owner = access.owner.clone().unwrap_or_else(|| DATABASE_NAME.to_owned());
    let all = all_privileges(Kind::Table);
    let own = Grant { grantee: Some(owner), grantor: access.owner.clone(), privileges: all, grantable: all };
    std::iter::once(own).chain(access.grants.iter().cloned()).collect()
}

/// `table_privileges`, `role_table_grants`: of tables and views, as far as they concern the session's roles.
pub(super) fn table_privileges(transaction: &Transaction, rights: &Rights, public: Public) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "grantor grantee table_catalog table_schema table_name privilege_type is_grantable"),
        (TEXT, "with_hierarchy"),
    ]);
    let mut push = |name: &QualifiedName, access: &ObjectAccess| {
        for grant in grants(access) {
            let is_listed = is_listed(&grant, rights, public);
            for privilege in grant.privileges.iter().filter(|_| is_listed) {
                rows.push([
                    text(grant.grantor.as_deref().unwrap_or(DATABASE_NAME)),
                    text(grant.grantee.as_deref().unwrap_or("PUBLIC")),
                    text(DATABASE_NAME),
                    text(&name.schema),
                    text(&name.name),
                    text(privilege.name()),
                    yes_or_no(grant.grantable.contains(privilege)),
                    yes_or_no(privilege == Privilege::Select),
                ]);
            }
        }
    };
    for (name, def) in table_defs(transaction) {
        push(&name, &def.access);
    }
    for view in transaction.catalog().views() {
        push(&view.name, &view.access);
    }
    rows
}

/// `column_privileges`, `role_column_grants`: what was granted on columns, and what counts for them of what was granted on their tables
/// and views, as far as it concerns the session's roles.
pub(super) fn column_privileges(transaction: &Transaction, rights: &Rights, public: Public) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "grantor grantee table_catalog table_schema table_name column_name privilege_type"),
        (TEXT, "is_grantable"),
    ]);
    let mut push = |name: &QualifiedName, column: &str, on_table: &[Grant], on_column: &[Grant]| {
        let mut granted = on_table.to_vec();
        on_column.iter().cloned().for_each(|grant| grant.add_to(&mut granted));
        for grant in granted.iter().filter(|grant| is_listed(grant, rights, public)) {
            for privilege in COLUMN_PRIVILEGES.into_iter().filter(|one| grant.privileges.contains(*one)) {
                rows.push([
                    text(grant.grantor.as_deref().unwrap_or(DATABASE_NAME)),
                    text(grant.grantee.as_deref().unwrap_or("PUBLIC")),
                    text(DATABASE_NAME),
                    text(&name.schema),
                    text(&name.name),
                    text(column),
                    text(privilege.name()),
                    yes_or_no(grant.grantable.contains(privilege)),
                ]);
            }
        }
    };
    for (name, def) in table_defs(transaction) {
        let on_table = grants(&def.access);
        for (place, column) in def.live_columns() {
            push(&name, &column.name, &on_table, def.access.of_column(place));
        }
    }
    for view in transaction.catalog().views() {
        let on_view = grants(&view.access);
        for (place, column) in view.output.iter().flatten().enumerate() {
            push(&view.name, &column.name, &on_view, view.access.of_column(place));
        }
    }
    rows
}

/// Whether a grant concerns the session's roles.
fn is_listed(grant: &Grant, rights: &Rights, public: Public) -> bool {
    let has = |role: &Option<String>| rights.include(role.as_deref());
    match grant.grantee {
        None => public == Public::Listed,
        Some(_) => has(&grant.grantee) || has(&grant.grantor),
    }
}

/// `enabled_roles`: those whose rights the session has.
pub(super) fn enabled_roles(transaction: &Transaction, rights: &Rights) -> Rows {
    let mut rows = Rows::new(&[(TEXT, "role_name")]);
    for role in roles_of(transaction.catalog()) {
        if rights.include(Some(&role.name)) {
            rows.push([text(&role.name)]);
        }
    }
    rows
}

/// `applicable_roles`: those that the session's role can take on.
pub(super) fn applicable_roles(transaction: &Transaction, settings: &Settings) -> Rows {
    let mut rows = Rows::new(&[(TEXT, "grantee role_name is_grantable")]);
    let Principal { name, .. } = settings.principal();
    let Some(role) = role_of(transaction.catalog(), name) else { return rows };
    for membership in &role.member_of {
        let row: [ValueRef<'_>; 3] = [text(name), text(&membership.role), yes_or_no(membership.admin)];
        rows.push(row);
    }
    rows
}
