// SPDX-License-Identifier: Apache-2.0
//! CREATE, ALTER and DROP ROLE, and membership in roles.

use super::access::Owned;
use super::existence::Missing;
use super::named_roles::{known, may_make_roles, refuse_predefined, reserved, resolved, role};
use super::role_syntax::{GrantOption, Granted, RoleName, RoleOption, RoleStatement};
use super::{default_privileges, grants, owners, session_defaults};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::password::Verifier;
use crate::relations::CATALOG_NAME;
use crate::result::StatementResult;
use crate::rights::{
    DATABASE_OWNER, FAILOVER, all_memberships, insufficient, is_member, predefined, unknown_role,
};
use crate::types::parse_value;
use coeval_store::{CatalogChange, ColumnType, Membership, RoleAttribute, RoleDef, Value};

/// Runs a statement about roles or rights.
///
/// # Errors
/// `42704`, `42710`, `42501`, `0LP01`, `2BP01`: each statement's own.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    statement: &RoleStatement,
) -> Result<StatementResult, SqlError> {
    let tag = match statement {
        RoleStatement::Create { name, options } => {
            create(context, name, options)?;
            "CREATE ROLE"
        }
        RoleStatement::Alter { name, options } => {
            alter(context, name, options)?;
            "ALTER ROLE"
        }
        RoleStatement::Rename { name, new } => {
            rename(context, name, new)?;
            "ALTER ROLE"
        }
        RoleStatement::Drop { names, missing } => {
            drop_roles(context, names, *missing)?;
            "DROP ROLE"
        }
        RoleStatement::Grant { granted: Granted::Roles(roles), to, option } => {
            for role in roles {
                let role = known(context, role)?;
                for member in to {
                    let member = known(context, member)?;
                    join(context, &member, &role, *option)?;
                }
            }
            "GRANT ROLE"
        }
        RoleStatement::Revoke { granted: Granted::Roles(roles), from, option, .. } => {
            for role in roles {
                let role = known(context, role)?;
                for member in from {
                    let member = known(context, member)?;
                    leave(context, &member, &role, *option)?;
                }
            }
            "REVOKE ROLE"
        }
        RoleStatement::Grant { granted: Granted::Privileges(privileges, objects), to, option } => {
            grants::grant(context, privileges, objects, to, *option)?;
            "GRANT"
        }
        RoleStatement::Revoke {
            granted: Granted::Privileges(privileges, objects),
            from,
            option,
            behavior,
        } => {
            grants::revoke(context, privileges, objects, from, *option, *behavior)?;
            "REVOKE"
        }
        RoleStatement::Reassign { from, to } => {
            owners::reassign(context, from, to)?;
            "REASSIGN OWNED"
        }
        RoleStatement::DropOwned(names, behavior) => {
            owners::drop_owned(context, names, *behavior)?;
            "DROP OWNED"
        }
    };
    Ok(StatementResult::plain(tag))
}

/// Puts a changed role.
///
/// # Errors
/// `42939` for a predefined one.
fn put(context: &mut StatementContext<'_>, role: RoleDef) -> Result<(), SqlError> {
    refuse_predefined(context, &role.name)?;
    Ok(context.transaction.change_catalog(CatalogChange::PutRole(role))?)
}

fn refuse_taken(context: &StatementContext<'_>, name: &str) -> Result<(), SqlError> {
    let is_failover = name == FAILOVER && !context.rights().is_superuser();
    if name.starts_with("pg_") || is_failover || matches!(name, "public" | "none") {
        return Err(reserved(name));
    }
    if name == CATALOG_NAME || context.transaction.catalog().role(name).is_some() {
        let message = format!("role \"{name}\" already exists");
        return Err(SqlError::new(SqlState::DuplicateObject, message));
    }
    Ok(())
}

/// What only a superuser gives to a role, and how PostgreSQL 15 refuses it: to who creates one with it, and to who alters it.
/// REPLICATION reads all that the database has, and says to commits what replicas have.
const SUPERUSERS_ONLY: &[(RoleAttribute, &str, &str)] = &[
    (
        RoleAttribute::Superuser,
        "must be superuser to create superusers",
        "must be superuser to alter superuser roles or change superuser attribute",
    ),
    (
        RoleAttribute::Replication,
        "must be superuser to create replication users",
        "must be superuser to alter replication roles or change replication attribute",
    ),
    (
        RoleAttribute::BypassRowSecurity,
        "must be superuser to create bypassrls users",
        "must be superuser to change bypassrls attribute",
    ),
];

/// Whether the options give an attribute, whatever else they say of it.
fn gives(options: &[RoleOption], attribute: RoleAttribute) -> bool {
    options.iter().any(|option| matches!(option, RoleOption::Has(named) if *named == attribute))
}

/// Whether the options say anything of an attribute.
fn names(options: &[RoleOption], attribute: RoleAttribute) -> bool {
    let is_named = |option: &RoleOption| matches!(option, RoleOption::HasNot(named) if *named == attribute);
    gives(options, attribute) || options.iter().any(is_named)
}

fn create(
    context: &mut StatementContext<'_>,
    name: &RoleName,
    options: &[RoleOption],
) -> Result<(), SqlError> {
    let name = resolved(context, name)?;
    if !context.rights().is_superuser() {
        let refused = SUPERUSERS_ONLY.iter().find(|(attribute, ..)| gives(options, *attribute));
        if let Some((_, to_create, _)) = refused {
            return Err(insufficient(*to_create));
        }
    }
    if !may_make_roles(context) {
        return Err(insufficient("permission denied to create role"));
    }
    refuse_taken(context, &name)?;
    let mut made = RoleDef { number: rand::random_range(1..=u64::MAX), ..RoleDef::new(&name) };
    apply(context, &mut made, options)?;
    put(context, made)?;
    apply_members(context, &name, options)
}

fn alter(
    context: &mut StatementContext<'_>,
    name: &RoleName,
    options: &[RoleOption],
) -> Result<(), SqlError> {
    let name = known(context, name)?;
    let before = role(context, &name)?;
    if !context.rights().is_superuser() {
        // A role that passes row security is one that others may alter, as in PostgreSQL 15: it alone reads no more by that.
        let is_closed =
            |attribute: RoleAttribute| attribute != RoleAttribute::BypassRowSecurity && before.is(attribute);
        let refused = SUPERUSERS_ONLY
            .iter()
            .find(|(attribute, ..)| is_closed(*attribute) || names(options, *attribute));
        if let Some((_, _, to_alter)) = refused {
            return Err(insufficient(*to_alter));
        }
        let only_password = options.iter().all(|option| matches!(option, RoleOption::Password(_)));
        let own = context.settings.principal().role(context.rights().authority()).map(|own| own.number);
        let is_own = only_password && context.settings.user() == name && own == Some(before.number);
        if !may_make_roles(context) && !is_own {
            return Err(insufficient("permission denied"));
        }
    }
    let mut changed = before;
    apply(context, &mut changed, options)?;
    put(context, changed)?;
    apply_members(context, &name, options)
}

/// What the options say of the role itself.
fn apply(context: &StatementContext<'_>, role: &mut RoleDef, options: &[RoleOption]) -> Result<(), SqlError> {
    for option in options {
        match option {
            RoleOption::Has(attribute) => {
                role.attributes.insert(*attribute);
            }
            RoleOption::HasNot(attribute) => {
                role.attributes.remove(attribute);
            }
            RoleOption::Password(password) => {
                let given = password.as_deref().filter(|password| !password.is_empty());
                role.verifier = given.map(Verifier::of_text).transpose()?.map(|verifier| verifier.to_text());
            }
            RoleOption::ValidUntil(text) if text == "infinity" => role.valid_until = None,
            RoleOption::ValidUntil(text) => {
                let value = parse_value(text, ColumnType::TimestampTz, context.settings.zone())?;
                let Value::Int64(micros) = value else {
                    return Err(SqlError::internal("a moment is a number"));
                };
                role.valid_until = Some(micros);
            }
            RoleOption::ConnectionLimit(-1) => {}
            RoleOption::ConnectionLimit(_) => return Err(SqlError::unsupported("CONNECTION LIMIT")),
            RoleOption::InRoles(_) | RoleOption::Members(_) | RoleOption::Admins(_) => {}
        }
    }
    Ok(())
}

/// What the options say of memberships.
fn apply_members(
    context: &mut StatementContext<'_>,
    name: &str,
    options: &[RoleOption],
) -> Result<(), SqlError> {
    for option in options {
        let (others, is_member, with) = match option {
            RoleOption::InRoles(roles) => (roles, true, GrantOption::Unnamed),
            RoleOption::Members(members) => (members, false, GrantOption::Unnamed),
            RoleOption::Admins(members) => (members, false, GrantOption::Named),
            _ => continue,
        };
        for other in others {
            let other = known(context, other)?;
            let (member, role) = if is_member { (name, other.as_str()) } else { (other.as_str(), name) };
            join(context, member, role, with)?;
        }
    }
    Ok(())
}

/// Refuses to change who is a member of a role.
fn require_admin(context: &StatementContext<'_>, name: &str) -> Result<(), SqlError> {
    if context.rights().is_superuser() {
        return Ok(());
    }
    let of = role(context, name)?;
    if of.is(RoleAttribute::Superuser) {
        return Err(insufficient("must be superuser to alter superusers"));
    }
    let authority = context.authority();
    let own = context.settings.principal().role(&authority);
    let is_admin = own.is_some_and(|own| {
        own.member_of.iter().any(|membership| membership.role == name && membership.admin)
    });
    // Beyond PostgreSQL 15, as in 16: who takes on a role with REPLICATION reads the changes of all tables, and a predefined role may
    // give all data. A member of FAILOVER can stop the primary. The same holds of a role that is a member of one of these.
    let is_closed = |role: &String| {
        let attributes = [RoleAttribute::Superuser, RoleAttribute::Replication];
        let has_one = authority.role(role).is_some_and(|role| attributes.iter().any(|one| role.is(*one)));
        has_one || role == FAILOVER || predefined(role).is_some()
    };
    if is_admin || may_make_roles(context) && !all_memberships(name, &authority).iter().any(is_closed) {
        return Ok(());
    }
    Err(insufficient(format!("must have admin option on role \"{name}\"")))
}

fn join(
    context: &mut StatementContext<'_>,
    member: &str,
    of: &str,
    option: GrantOption,
) -> Result<(), SqlError> {
    require_admin(context, of)?;
    if of == DATABASE_OWNER {
        let message = format!("role \"{DATABASE_OWNER}\" cannot have explicit members");
        return Err(SqlError::new(SqlState::InvalidGrantOperation, message));
    }
    if is_member(of, member, &context.authority()) {
        let message = format!("role \"{member}\" is a member of role \"{of}\"");
        return Err(SqlError::new(SqlState::InvalidGrantOperation, message));
    }
    let mut changed = role(context, member)?;
    let had_admin = changed.member_of.iter().any(|known| known.role == of && known.admin);
    changed.member_of.retain(|known| known.role != of);
    let admin = had_admin || option == GrantOption::Named;
    changed.member_of.insert(Membership { role: of.to_owned(), admin });
    put(context, changed)
}

fn leave(
    context: &mut StatementContext<'_>,
    member: &str,
    of: &str,
    option: GrantOption,
) -> Result<(), SqlError> {
    require_admin(context, of)?;
    let mut changed = role(context, member)?;
    let was_member = changed.member_of.iter().any(|known| known.role == of);
    changed.member_of.retain(|known| known.role != of);
    if was_member && option == GrantOption::Named {
        changed.member_of.insert(Membership { role: of.to_owned(), admin: false });
    }
    put(context, changed)
}

/// Refuses to take away the role whose members may ask for promises: without it nobody but a superuser is promoted.
fn keep_failover(context: &StatementContext<'_>, name: &str) -> Result<(), SqlError> {
    if name != FAILOVER || context.rights().is_superuser() {
        return Ok(());
    }
    Err(insufficient(format!("must be superuser to rename or drop role \"{FAILOVER}\"")))
}

/// Changes a role's name wherever it stands.
fn rename(context: &mut StatementContext<'_>, name: &RoleName, new: &str) -> Result<(), SqlError> {
    let name = known(context, name)?;
    let before = role(context, &name)?;
    refuse_predefined(context, &name)?;
    if !may_make_roles(context) {
        return Err(insufficient("permission denied to rename role"));
    }
    if before.is(RoleAttribute::Superuser) && !context.rights().is_superuser() {
        return Err(insufficient("must be superuser to rename superusers"));
    }
    keep_failover(context, &name)?;
    refuse_current(context, &name, "renamed")?;
    refuse_taken(context, new)?;
    // One that an older program made gets its number now: sessions of the old name have nothing of another role that gets it.
    let number = if before.number == 0 { rand::random_range(1..=u64::MAX) } else { before.number };
    put(context, RoleDef { name: new.to_owned(), number, ..before })?;
    for owned in Owned::all(context) {
        let mut access = owned.access().clone();
        access.rename_role(&name, new);
        owned.put(context, access)?;
    }
    default_privileges::rename_role(context, &name, new)?;
    session_defaults::rename_role(context, &name, new)?;
    let members: Vec<RoleDef> =
        context.transaction.catalog().roles().map(|role| role.as_ref().clone()).collect();
    for mut member in members {
        let renamed = member.member_of.iter().map(|known| match known.role == name {
            true => Membership { role: new.to_owned(), ..known.clone() },
            false => known.clone(),
        });
        let renamed = renamed.collect();
        if member.member_of != renamed {
            member.member_of = renamed;
            put(context, member)?;
        }
    }
    Ok(context.transaction.change_catalog(CatalogChange::RemoveRole(name))?)
}

/// `55006` for a role that the session itself is.
fn refuse_current(context: &StatementContext<'_>, name: &str, verb: &str) -> Result<(), SqlError> {
    let whose = match name {
        name if name == context.settings.user() => "current user",
        name if name == context.settings.session_user() => "session user",
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlState::ObjectInUse, format!("{whose} cannot be {verb}")))
}

fn drop_roles(
    context: &mut StatementContext<'_>,
    names: &[RoleName],
    missing: Missing,
) -> Result<(), SqlError> {
    if !may_make_roles(context) {
        return Err(insufficient("permission denied to drop role"));
    }
    for name in names {
        let name = resolved(context, name)?;
        let Some(found) = context.transaction.catalog().role(&name).cloned() else {
            if predefined(&name).is_some() {
                let message =
                    format!("cannot drop role {name} because it is required by the database system");
                return Err(SqlError::new(SqlState::DependentObjectsStillExist, message));
            }
            if missing == Missing::Skip {
                continue;
            }
            return Err(unknown_role(&name));
        };
        refuse_current(context, &name, "dropped")?;
        keep_failover(context, &name)?;
        if found.is(RoleAttribute::Superuser) && !context.rights().is_superuser() {
            return Err(insufficient("must be superuser to drop superusers"));
        }
        refuse_dependents(context, &name)?;
        session_defaults::drop_role(context, &name)?;
        let others: Vec<RoleDef> =
            context.transaction.catalog().roles().map(|role| role.as_ref().clone()).collect();
        for mut other in others {
            let before = other.member_of.len();
            other.member_of.retain(|known| known.role != name);
            if other.member_of.len() != before {
                put(context, other)?;
            }
        }
        context.transaction.change_catalog(CatalogChange::RemoveRole(name))?;
    }
    Ok(())
}

/// `2BP01` for a role that owns something or was granted something.
fn refuse_dependents(context: &StatementContext<'_>, name: &str) -> Result<(), SqlError> {
    let mut details: Vec<String> = Owned::all(context)
        .iter()
        .filter_map(|owned| match owned.access() {
            access if access.owner.as_deref() == Some(name) => {
                Some(format!("owner of {}", owned.described()))
            }
            access if access.roles().any(|role| role == name) => {
                Some(format!("privileges for {}", owned.described()))
            }
            _ => None,
        })
        .collect();
    details.extend(default_privileges::dependents_of_role(context, name));
    if details.is_empty() {
        return Ok(());
    }
    let message = format!("role \"{name}\" cannot be dropped because some objects depend on it");
    Err(SqlError::new(SqlState::DependentObjectsStillExist, message).with_detail(details.join("\n")))
}
