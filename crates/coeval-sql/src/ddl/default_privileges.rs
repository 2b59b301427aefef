// SPDX-License-Identifier: Apache-2.0
//! What new objects are granted to others from the start, and what becomes of that when a role is renamed or goes.
//!
//! ALTER DEFAULT PRIVILEGES says it, see `alter_default_privileges.rs`. It counts when an object is made: what it says later
//! changes nothing of objects that there are. Of default privileges, as of all rights, those of now count, whatever snapshot the
//! transaction reads.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::relations::CATALOG_NAME;
use coeval_store::{CatalogChange, DefaultPrivileges, NewObjects, ObjectAccess};
use std::sync::Arc;

/// Whose a new object of the session is, and what others may do with it. A schema lies in none.
pub(super) fn access_of_new(
    context: &StatementContext<'_>,
    objects: NewObjects,
    schema: Option<&str>,
) -> ObjectAccess {
    access_of_new_by(context, context.settings.principal().as_owner(), objects, schema)
}

/// As [`access_of_new`], of an object that the session makes for this owner.
pub(super) fn access_of_new_by(
    context: &StatementContext<'_>,
    owner: Option<&str>,
    objects: NewObjects,
    schema: Option<&str>,
) -> ObjectAccess {
    let authority = context.authority();
    let everywhere = authority.default_privileges(owner, None, objects);
    let inside = schema.and_then(|schema| authority.default_privileges(owner, Some(schema), objects));
    let mut access = ObjectAccess::owned_by(owner);
    for defaults in everywhere.into_iter().chain(inside) {
        defaults.access.grants.iter().cloned().for_each(|grant| grant.add_to(&mut access.grants));
    }
    access
}

/// Gives a role another name wherever default privileges name it.
///
/// # Errors
/// `25006` in a read-only transaction.
pub(super) fn rename_role(context: &mut StatementContext<'_>, old: &str, new: &str) -> Result<(), SqlError> {
    for before in naming(context, old) {
        let mut renamed = DefaultPrivileges::clone(&before);
        renamed.access.rename_role(old, new);
        if renamed.access.owner != before.access.owner {
            // They are found by their owner's name.
            let access = ObjectAccess::owned_by(Some(old));
            put(context, DefaultPrivileges { access, ..DefaultPrivileges::clone(&before) })?;
        }
        put(context, renamed)?;
    }
    Ok(())
}

/// What keeps a role from being dropped, in PostgreSQL's words.
pub(super) fn dependents_of_role(context: &StatementContext<'_>, role: &str) -> Vec<String> {
    let of_role = |defaults: &Arc<DefaultPrivileges>| {
        let is_own = defaults.access.owner.as_deref() == Some(role);
        format!("{} {}", if is_own { "owner of" } else { "privileges for" }, described(defaults))
    };
    naming(context, role).iter().map(of_role).collect()
}

/// DROP OWNED: what objects of the role would be granted, and what it would be granted.
///
/// # Errors
/// `25006` in a read-only transaction.
pub(super) fn drop_of_role(context: &mut StatementContext<'_>, role: &str) -> Result<(), SqlError> {
    for defaults in naming(context, role) {
        let mut left = DefaultPrivileges::clone(&defaults);
        let is_own = left.access.owner.as_deref() == Some(role);
        left.access.keep(|grant| !is_own && grant.grantee.as_deref() != Some(role));
        put(context, left)?;
    }
    Ok(())
}

/// Puts what new objects are granted in the place of what they were granted before.
///
/// # Errors
/// `25006` in a read-only transaction.
pub(super) fn put(context: &mut StatementContext<'_>, defaults: DefaultPrivileges) -> Result<(), SqlError> {
    Ok(context.transaction.change_catalog(CatalogChange::PutDefaultPrivileges(defaults))?)
}

/// Those that name a role.
fn naming(context: &StatementContext<'_>, role: &str) -> Vec<Arc<DefaultPrivileges>> {
    let all = context.transaction.catalog().all_default_privileges();
    all.filter(|defaults| defaults.access.roles().any(|named| named == role)).cloned().collect()
}

/// `default privileges on new relations belonging to role r in schema s`.
fn described(defaults: &DefaultPrivileges) -> String {
    let objects = match defaults.objects {
        NewObjects::Tables => "relations",
        NewObjects::Sequences => "sequences",
        NewObjects::Schemas => "schemas",
    };
    let owner = defaults.access.owner.as_deref().unwrap_or(CATALOG_NAME);
    let place = defaults.schema.as_ref().map(|schema| format!(" in schema {schema}")).unwrap_or_default();
    format!("default privileges on new {objects} belonging to role {owner}{place}")
}
