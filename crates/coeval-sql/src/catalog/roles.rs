// SPDX-License-Identifier: Apache-2.0
//! Roles as the catalog's relations list them. The administrator, who is no role, is listed as the first one.

use super::Source;
use super::rows::{Cell, Table};
use crate::oids;
use crate::relations::CATALOG_NAME;
use crate::rights::{Kind, Standing, access_list, entries, predefined_oid, role_of, roles_of};
use coeval_store::{Catalog, DefaultsReach, NewObjects, RoleAttribute, RoleDef, SessionDefaults};
use std::collections::BTreeSet;

/// Who is listed: the owner of what belongs to no role, the session's user if that is no role, the roles.
pub(super) struct Listed<'a> {
    pub(super) oid: i32,
    pub(super) name: &'a str,
    attributes: BTreeSet<RoleAttribute>,
    def: Option<&'a RoleDef>,
}

/// What is shown in the place of a password.
const HIDDEN: &str = "********";

impl Listed<'_> {
    fn is(&self, attribute: RoleAttribute) -> Cell {
        self.attributes.contains(&attribute).into()
    }

    fn valid_until(&self) -> Cell {
        self.def.and_then(|role| role.valid_until).into()
    }

    /// Stars in the place of its password, if it has one: nobody is shown what proves that, not even a superuser.
    fn password(&self) -> Cell {
        self.def.and_then(|role| role.verifier.as_ref()).map(|_| HIDDEN).into()
    }

    /// Stars, whether it has a password or not.
    fn hidden_password(&self) -> Cell {
        self.def.map(|_| HIDDEN).into()
    }
}

/// The id of a role.
pub(super) fn role_oid(name: &str) -> i32 {
    match predefined_oid(name) {
        Some(oid) => oid,
        None if name == CATALOG_NAME => oids::OWNER,
        None => oids::of_name("role", "", name),
    }
}

/// The id of an owner.
pub(super) fn owner_oid(owner: Option<&str>) -> i32 {
    owner.map_or(oids::OWNER, role_oid)
}

/// The name of an owner.
pub(super) fn owner_name(owner: Option<&str>) -> &str {
    owner.unwrap_or(CATALOG_NAME)
}

/// Fills the relation; whether this module knows it.
pub(super) fn fill(name: &str, table: &mut Table, source: &Source<'_>) -> bool {
    let roles = || listed(source);
    match name {
        "pg_authid" => roles().iter().for_each(|role| {
            table.push_all(cells_of_role(role).into_iter().chain([("rolpassword", role.password())]));
        }),
        "pg_roles" => roles().iter().for_each(|role| {
            let settings = settings_of(role, source.transaction.catalog());
            let others = [("rolpassword", role.hidden_password()), ("rolconfig", settings)];
            table.push_all(cells_of_role(role).into_iter().chain(others));
        }),
        "pg_shadow" | "pg_user" => {
            let logins = roles().into_iter().filter(|role| role.attributes.contains(&RoleAttribute::Login));
            logins.for_each(|role| {
                let password = if name == "pg_user" { role.hidden_password() } else { role.password() };
                push_user(table, &role, password, source.transaction.catalog());
            });
        }
        "pg_group" => {
            let groups = roles().into_iter().filter(|role| !role.attributes.contains(&RoleAttribute::Login));
            groups.for_each(|role| push_group(table, &role, source.transaction.catalog()));
        }
        "pg_auth_members" => push_members(table, source.transaction.catalog()),
        "pg_db_role_setting" => push_settings(table, source.transaction.catalog()),
        "pg_default_acl" => push_default_privileges(table, source.transaction.catalog()),
        _ => return false,
    }
    true
}

/// All who are listed.
fn listed<'a>(source: &Source<'a>) -> Vec<Listed<'a>> {
    use RoleAttribute::{
        BypassRowSecurity, CreateDatabase, CreateRole, Inherit, Login, Replication, Superuser,
    };
    let everything = [Login, Superuser, Inherit, CreateRole, CreateDatabase, Replication, BypassRowSecurity];
    let administrator =
        |name| Listed { oid: role_oid(name), name, attributes: BTreeSet::from(everything), def: None };
    let catalog = source.transaction.catalog();
    let mut listed = vec![administrator(CATALOG_NAME)];
    let user = source.settings.authenticated();
    let is_other = &*user.name != CATALOG_NAME && role_of(catalog, &user.name).is_none();
    if user.standing == Standing::Administrator && is_other {
        listed.push(administrator(&user.name));
    }
    listed.extend(roles_of(catalog).map(|role| Listed {
        oid: role_oid(&role.name),
        name: &role.name,
        attributes: role.attributes.clone(),
        def: Some(role),
    }));
    listed
}

/// What `pg_authid` and `pg_roles` both say of a role.
fn cells_of_role(role: &Listed<'_>) -> [(&'static str, Cell); 11] {
    [
        ("oid", role.oid.into()),
        ("rolname", role.name.into()),
        ("rolsuper", role.is(RoleAttribute::Superuser)),
        ("rolinherit", role.is(RoleAttribute::Inherit)),
        ("rolcreaterole", role.is(RoleAttribute::CreateRole)),
        ("rolcreatedb", role.is(RoleAttribute::CreateDatabase)),
        ("rolcanlogin", role.is(RoleAttribute::Login)),
        ("rolreplication", role.is(RoleAttribute::Replication)),
        ("rolconnlimit", (-1).into()),
        ("rolvaliduntil", role.valid_until()),
        ("rolbypassrls", role.is(RoleAttribute::BypassRowSecurity)),
    ]
}

/// The settings that sessions of a role begin with in all databases.
fn settings_of(role: &Listed<'_>, catalog: &Catalog) -> Cell {
    let kept = role.def.and_then(|role| catalog.session_defaults(Some(&role.name), DefaultsReach::Server));
    kept.map_or(Cell::Null, |defaults| assignments(defaults))
}

/// Settings as the catalog lists them.
fn assignments(defaults: &SessionDefaults) -> Cell {
    let settings = defaults.settings.iter();
    Cell::Texts(settings.map(|setting| format!("{}={}", setting.name, setting.value)).collect())
}

fn push_settings(table: &mut Table, catalog: &Catalog) {
    for defaults in catalog.all_session_defaults() {
        let database = match defaults.reach {
            DefaultsReach::Server => 0,
            DefaultsReach::Database => oids::DATABASE,
        };
        table.push([
            ("setdatabase", database.into()),
            ("setrole", defaults.role.as_deref().map_or(0, role_oid).into()),
            ("setconfig", assignments(defaults)),
        ]);
    }
}

fn push_user(table: &mut Table, role: &Listed<'_>, password: Cell, catalog: &Catalog) {
    table.push([
        ("usename", role.name.into()),
        ("usesysid", role.oid.into()),
        ("usecreatedb", role.is(RoleAttribute::CreateDatabase)),
        ("usesuper", role.is(RoleAttribute::Superuser)),
        ("userepl", role.is(RoleAttribute::Replication)),
        ("usebypassrls", role.is(RoleAttribute::BypassRowSecurity)),
        ("passwd", password),
        ("valuntil", role.valid_until()),
        ("useconfig", settings_of(role, catalog)),
    ]);
}

fn push_group(table: &mut Table, group: &Listed<'_>, catalog: &Catalog) {
    let is_member = |role: &&RoleDef| role.member_of.iter().any(|membership| membership.role == group.name);
    let members = roles_of(catalog).filter(is_member).map(|member| i64::from(role_oid(&member.name)));
    table.push([
        ("groname", group.name.into()),
        ("grosysid", group.oid.into()),
        ("grolist", Cell::Ints(members.collect())),
    ]);
}

fn push_members(table: &mut Table, catalog: &Catalog) {
    for member in roles_of(catalog) {
        for membership in &member.member_of {
            table.push([
                ("roleid", role_oid(&membership.role).into()),
                ("member", role_oid(&member.name).into()),
                ("grantor", oids::OWNER.into()),
                ("admin_option", membership.admin.into()),
            ]);
        }
    }
}

/// What new objects are granted. As in PostgreSQL, where that holds in all schemas the list is all that they have, their owner's
/// rights included; in one schema it is what is added there.
fn push_default_privileges(table: &mut Table, catalog: &Catalog) {
    for defaults in catalog.all_default_privileges() {
        let (letter, kind) = match defaults.objects {
            NewObjects::Tables => ("r", Kind::Table),
            NewObjects::Sequences => ("S", Kind::Sequence),
            NewObjects::Schemas => ("n", Kind::Schema),
        };
        let owner = defaults.access.owner.as_deref();
        let (schema, acl) = match &defaults.schema {
            Some(schema) => (oids::of_schema(schema), Some(entries(&defaults.access.grants))),
            None => (0, access_list(kind, &defaults.access)),
        };
        let oid = oids::of_name("default privileges", owner_name(owner), &format!("{letter} {schema}"));
        table.push([
            ("oid", oid.into()),
            ("defaclrole", owner_oid(owner).into()),
            ("defaclnamespace", schema.into()),
            ("defaclobjtype", letter.into()),
            ("defaclacl", acl.map(Cell::Texts).unwrap_or(Cell::Null)),
        ]);
    }
}
