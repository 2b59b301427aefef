// SPDX-License-Identifier: Apache-2.0
//! Who a session belongs to and acts as: what opens it, SET SESSION AUTHORIZATION, SET ROLE.

use super::Session;
use super::variables::Scope;
use crate::error::{SqlError, SqlState, TableName};
use crate::registry::Registry;
use crate::relations::CATALOG_NAME;
use crate::rights::{Authority, Object, Principal, Rights, Standing, insufficient, is_member, role_of};
use coeval_store::{Catalog, STATEMENT_MARK};

impl Session {
    /// Names its user and itself, as a server does that opens it for a client: `current_user` and
    /// `pg_backend_pid()` answer so, and what the session may do follows from the user's standing.
    pub fn identify(&mut self, user: &str, standing: Standing, backend_pid: i32) {
        let user = Principal::new(user, standing).taken_on(&self.authority());
        self.settings.identify(user, backend_pid);
        let rights = self.rights_of(self.settings.principal());
        self.settings.note_rights(&rights);
    }

    fn rights_of(&self, principal: &Principal) -> Rights {
        Rights::of(principal, self.authority())
    }

    /// Where its rights are looked up.
    pub(super) fn authority(&self) -> Authority {
        let store = self.engine.store();
        match self.running_transaction() {
            Some(transaction) => Authority::of(transaction, store),
            None => Authority::of_world(&store.world()),
        }
    }

    /// An error without what the session may not see of it.
    pub(super) fn shown(&self, error: SqlError) -> SqlError {
        match error.secrets {
            Some(_) => shown_to(error, &self.rights_of(self.settings.principal()), self.engine.registry()),
            None => error,
        }
    }

    /// The superuser that the session acts as, or `42501`.
    pub(super) fn require_superuser(&self, message: &str) -> Result<(), SqlError> {
        if self.rights_of(self.settings.principal()).is_superuser() {
            Ok(())
        } else {
            Err(insufficient(message))
        }
    }

    /// Whether who has opened the session may have the server promise that it acknowledges no primary of before: a superuser, or a
    /// member of `coeval_failover`.
    ///
    /// # Errors
    /// `42501`.
    pub fn check_asks_for_promises(&self) -> Result<(), SqlError> {
        if self.rights_of(self.settings.principal()).may_ask_for_promises() {
            return Ok(());
        }
        Err(insufficient("must be superuser or a member of coeval_failover to ask for a promise").with_hint(
            "On the primary, as a superuser: CREATE ROLE coeval_failover; then GRANT coeval_failover TO the role that --peer names.",
        ))
    }

    /// SET ROLE; `None` and `none` end what it began.
    ///
    /// # Errors
    /// `22023` for a role that is not there, `42501` for one that the session's user is no member of.
    pub(super) fn set_role(&mut self, scope: Scope, name: Option<&str>) -> Result<(), SqlError> {
        let user = self.settings.session_principal().clone();
        let role = match name {
            None | Some("none") => None,
            Some(name) if *name == *user.name => Some(user.clone()),
            Some(name) => {
                self.with_catalog(|catalog| refuse_unknown(catalog, name))?;
                let authority = self.authority();
                let is_allowed = self.rights_of(&user).is_superuser()
                    || name != CATALOG_NAME
                        && user.role(&authority).is_some_and(|own| is_member(&own.name, name, &authority));
                if !is_allowed {
                    return Err(insufficient(format!("permission denied to set role \"{name}\"")));
                }
                Some(Principal::named(name).taken_on(&authority))
            }
        };
        let rights = self.rights_of(role.as_ref().unwrap_or(&user));
        self.change(scope, |settings| {
            settings.assume(role.clone());
            settings.note_rights(&rights);
            Ok(())
        })
    }

    /// SET SESSION AUTHORIZATION; `None` goes back to the role that opened the session.
    ///
    /// # Errors
    /// `22023` for a role that is not there, `42501` unless a superuser has opened the session.
    pub(super) fn set_authorization(&mut self, scope: Scope, name: Option<&str>) -> Result<(), SqlError> {
        let authenticated = self.settings.authenticated().clone();
        let user = match name.filter(|name| **name != *authenticated.name) {
            None => authenticated,
            Some(name) => {
                self.with_catalog(|catalog| refuse_unknown(catalog, name))?;
                if !self.rights_of(&authenticated).is_superuser() {
                    let message = format!("permission denied to set session authorization \"{name}\"");
                    return Err(insufficient(message));
                }
                Principal::named(name).taken_on(&self.authority())
            }
        };
        let rights = self.rights_of(&user);
        self.change(scope, |settings| {
            settings.authorize(user.clone());
            settings.note_rights(&rights);
            Ok(())
        })
    }
}

/// Refuses a checkpoint to a session that has no right to make one.
///
/// # Errors
/// `42501`.
pub(super) fn require_checkpoint(session: &Session) -> Result<(), SqlError> {
    if session.rights_of(session.settings.principal()).may_checkpoint() {
        return Ok(());
    }
    Err(insufficient("must be superuser or have privileges of pg_checkpoint to do CHECKPOINT"))
}

fn refuse_unknown(catalog: &Catalog, name: &str) -> Result<(), SqlError> {
    if name == CATALOG_NAME || role_of(catalog, name).is_some() {
        return Ok(());
    }
    Err(SqlError::new(SqlState::InvalidParameterValue, format!("role \"{name}\" does not exist")))
}

/// The error without what the owner of these rights may not see.
fn shown_to(mut error: SqlError, rights: &Rights, registry: &Registry) -> SqlError {
    let Some(secrets) = error.secrets.take() else { return error };
    if rights.is_superuser() {
        return error;
    }
    if !secrets.tables.iter().all(|table| may_read(table, rights)) {
        error.detail = secrets.instead;
        return error;
    }
    let ran_it =
        |pid| registry.find(pid).is_some_and(|session| rights.include(session.principal().as_owner()));
    if !secrets.session.is_some_and(ran_it)
        && let Some(detail) = &mut error.detail
        && let Some(mark) = detail.find(STATEMENT_MARK)
    {
        detail.truncate(mark);
        detail.push('.');
    }
    error
}

fn may_read(table: &TableName, rights: &Rights) -> bool {
    let world = rights.authority().seen();
    let found = match table {
        TableName::Name(name) => world.table_named(name),
        TableName::Space(space) => world.table(*space),
    };
    found.is_some_and(|table| rights.may_read(Object::Table(table.def())))
}
