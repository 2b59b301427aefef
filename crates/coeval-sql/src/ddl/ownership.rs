// SPDX-License-Identifier: Apache-2.0
//! Who may be given an object, and what becomes of its rights then.

use super::access::Owned;
use super::named_roles::owner_named;
use super::role_syntax::RoleName;
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::rights::{Object, Rights, insufficient, is_member};
use coeval_store::{ObjectAccess, Privilege, TypeDef};
use std::sync::Arc;

/// ALTER TYPE ... OWNER TO, of a type that the caller has found to be the session's own.
///
/// # Errors
/// `42704` for an unknown role, `42501` for one that the session could not act as.
pub(super) fn of_type(
    context: &mut StatementContext<'_>,
    def: &Arc<TypeDef>,
    owner: &RoleName,
) -> Result<(), SqlError> {
    let owned = Owned::Type(Arc::clone(def));
    let owner = new_owner(context, &owned, owner)?;
    hand_over(context, &owned, owner.as_deref())
}

/// The role that is to own something.
pub(super) fn new_owner(
    context: &StatementContext<'_>,
    owned: &Owned,
    owner: &RoleName,
) -> Result<Option<String>, SqlError> {
    let owner = owner_named(context, owner)?;
    require_member(context, owner.as_deref())?;
    if let Some(schema) = owned.schema_name().filter(|_| !context.rights().is_superuser()) {
        let rights = Rights::of_owner(owner.as_deref(), context.authority());
        rights.require(Object::Schema(schema), Privilege::Create)?;
    }
    Ok(owner)
}

/// Refuses a role, or the administrator, that the session could not act as.
///
/// # Errors
/// `42501`.
pub(super) fn require_member(context: &StatementContext<'_>, role: Option<&str>) -> Result<(), SqlError> {
    if context.rights().is_superuser() {
        return Ok(());
    }
    let authority = context.authority();
    let own = context.settings.principal().role(&authority);
    let is_own = |role: &str| own.is_some_and(|own| is_member(&own.name, role, &authority));
    if role.is_some_and(is_own) {
        return Ok(());
    }
    let name = role.unwrap_or(crate::relations::CATALOG_NAME);
    Err(insufficient(format!("must be member of role \"{name}\"")))
}

/// Gives an object to somebody else; what its owner has granted is then granted by the new one.
pub(super) fn hand_over(
    context: &mut StatementContext<'_>,
    owned: &Owned,
    owner: Option<&str>,
) -> Result<(), SqlError> {
    let before = owned.access();
    let mut access = ObjectAccess { owner: owner.map(str::to_owned), ..before.clone() };
    for grant in access.lists_mut().flatten().filter(|grant| grant.grantor == before.owner) {
        grant.grantor = owner.map(str::to_owned);
    }
    // What the new owner was granted is its own now.
    access.keep(|grant| grant.grantee.is_none() || grant.grantee.as_deref() != owner);
    owned.put(context, access)
}
