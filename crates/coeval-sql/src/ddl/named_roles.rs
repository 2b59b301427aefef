// SPDX-License-Identifier: Apache-2.0
//! Which role a statement means, and whether it may be changed.

use super::role_syntax::RoleName;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::relations::CATALOG_NAME;
use crate::rights::{Standing, predefined, role_of, unknown_role};
use coeval_store::{RoleAttribute, RoleDef};

/// The name that a statement means.
pub(super) fn resolved(context: &StatementContext<'_>, name: &RoleName) -> Result<String, SqlError> {
    match name {
        RoleName::Named(name) => Ok(name.clone()),
        RoleName::CurrentUser => Ok(context.settings.user().to_owned()),
        RoleName::SessionUser => Ok(context.settings.session_user().to_owned()),
        RoleName::Public => Err(unknown_role("public")),
    }
}

/// The name of a role of the catalog.
///
/// # Errors
/// `42704` if there is none.
pub(super) fn known(context: &StatementContext<'_>, name: &RoleName) -> Result<String, SqlError> {
    let name = resolved(context, name)?;
    if role_of(context.transaction.catalog(), &name).is_none() {
        return Err(unknown_role(&name));
    }
    Ok(name)
}

/// The owner that a statement means: a role of the catalog, or the administrator, who is none.
///
/// # Errors
/// `42704` if there is no such role.
pub(super) fn owner_named(
    context: &StatementContext<'_>,
    name: &RoleName,
) -> Result<Option<String>, SqlError> {
    let resolved = resolved(context, name)?;
    if role_of(context.transaction.catalog(), &resolved).is_some() {
        return Ok(Some(resolved));
    }
    let user = context.settings.authenticated();
    let is_administrator = user.standing == Standing::Administrator && *user.name == *resolved;
    if is_administrator || resolved == CATALOG_NAME { Ok(None) } else { Err(unknown_role(&resolved)) }
}

/// The definition of a role.
///
/// # Errors
/// `42704` if there is none.
pub(super) fn role(context: &StatementContext<'_>, name: &str) -> Result<RoleDef, SqlError> {
    role_of(context.transaction.catalog(), name).cloned().ok_or_else(|| unknown_role(name))
}

/// `42939` for a predefined role, which nobody changes.
pub(super) fn refuse_predefined(context: &StatementContext<'_>, name: &str) -> Result<(), SqlError> {
    if predefined(name).is_some() && context.transaction.catalog().role(name).is_none() {
        return Err(reserved(name).with_detail("Cannot alter reserved roles."));
    }
    Ok(())
}

/// Whether the session's role may make and change roles that have nothing of what only superusers give.
pub(super) fn may_make_roles(context: &StatementContext<'_>) -> bool {
    let rights = context.rights();
    let own = context.settings.principal().role(rights.authority());
    rights.is_superuser() || own.is_some_and(|role| role.is(RoleAttribute::CreateRole))
}

/// `42939`: a name that no role of a user may have.
pub(super) fn reserved(name: &str) -> SqlError {
    SqlError::new(SqlState::ReservedName, format!("role name \"{name}\" is reserved"))
}
