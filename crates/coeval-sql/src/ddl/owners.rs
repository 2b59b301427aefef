// SPDX-License-Identifier: Apache-2.0
//! Owners: ALTER ... OWNER TO, REASSIGN OWNED, DROP OWNED.
//!
//! Whoever gives an object away gives it to a role that the session could act as; only a superuser gives anything to the
//! administrator, whose views read everything.
//!
//! | statement | of the old owner | of the new owner |
//! |---|---|---|
//! | `ALTER ... OWNER TO` | its rights | membership; the new owner may create in the schema |
//! | `ALTER SCHEMA ... OWNER TO` | its rights | only superusers make schemas, so only they give them away |
//! | `REASSIGN OWNED` | its rights | its rights |
//! | `DROP OWNED` | its rights | |

use super::access::Owned;
use super::default_privileges;
use super::dependents::{self, Behavior, Users};
use super::drop::{drop_owned_relation, relation_of};
use super::named_roles;
use super::ownership::{hand_over, new_owner};
use super::role_syntax::RoleName;
use crate::cancel;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::rights::{Object, insufficient};
use coeval_store::{ColumnState, ObjectRef, QualifiedName, SequenceDef};

/// ALTER TABLE, VIEW or SEQUENCE ... OWNER TO, of a relation that the caller has found to be the session's own. The
/// sequences that feed a table's columns go along.
///
/// # Errors
/// `42704` for an unknown role, `42501` for one that the session could not act as, `0A000` for a sequence that a column
/// owns.
pub(super) fn of_relation(
    context: &mut StatementContext<'_>,
    name: &QualifiedName,
    object: ObjectRef,
    owner: &RoleName,
) -> Result<(), SqlError> {
    let owned = Owned::of(context, name, object)?;
    let owner = new_owner(context, &owned, owner)?;
    if let Owned::Sequence(sequence) = &owned
        && owned.access().owner != owner
    {
        refuse_of_column(context, sequence, format!("cannot change owner of sequence \"{}\"", name.name))?;
    }
    if let Owned::Table(def) = &owned {
        for sequence in dependents::owned_sequences(context, def) {
            hand_over(context, &Owned::Sequence(sequence), owner.as_deref())?;
        }
    }
    hand_over(context, &owned, owner.as_deref())
}

/// Refuses to part a sequence from the table whose column owns it: both have one owner and one schema.
///
/// # Errors
/// `0A000`; `message` says what was to be done.
pub(super) fn refuse_of_column(
    context: &StatementContext<'_>,
    sequence: &SequenceDef,
    message: impl Into<String>,
) -> Result<(), SqlError> {
    let Some((table, _)) = sequence.owned_by else { return Ok(()) };
    let (name, table) = (&sequence.name.name, &context.transaction.table_def(table)?.name.name);
    Err(SqlError::new(SqlState::FeatureNotSupported, message)
        .with_detail(format!("Sequence \"{name}\" is linked to table \"{table}\".")))
}

/// ALTER SCHEMA ... OWNER TO.
///
/// # Errors
/// As [`of_relation`]; `3F000` for an unknown schema.
pub(super) fn of_schema(
    context: &mut StatementContext<'_>,
    schema: &str,
    owner: &RoleName,
) -> Result<(), SqlError> {
    let owned = Owned::schema(context, schema)?;
    context.rights().require_owner(Object::Schema(schema))?;
    let owner = new_owner(context, &owned, owner)?;
    may_give_away(context, &owned)?;
    hand_over(context, &owned, owner.as_deref())
}

/// Refuses to give away a schema: its new owner would have it by way of somebody who may not make one.
fn may_give_away(context: &StatementContext<'_>, owned: &Owned) -> Result<(), SqlError> {
    match owned {
        Owned::Schema(..) if !context.rights().is_superuser() => Err(super::schema::may_not_create()),
        _ => Ok(()),
    }
}

/// REASSIGN OWNED.
///
/// # Errors
/// `42704` for unknown roles, `42501` unless the session has the rights of all of them, the new owner included.
pub(super) fn reassign(
    context: &mut StatementContext<'_>,
    from: &[RoleName],
    to: &RoleName,
) -> Result<(), SqlError> {
    let to = named_roles::owner_named(context, to)?;
    may_act_for(context, to.as_deref(), "reassign objects")?;
    for role in from {
        let from = named_roles::known(context, role)?;
        may_act_for(context, Some(&from), "reassign objects")?;
        for owned in Owned::all(context) {
            cancel::check()?;
            if owned.access().owner.as_deref() == Some(from.as_str()) {
                may_give_away(context, &owned)?;
                hand_over(context, &owned, to.as_deref())?;
            }
        }
    }
    Ok(())
}

/// Refuses to act for a role, or for the administrator, whose rights the session has not.
fn may_act_for(context: &StatementContext<'_>, role: Option<&str>, what: &str) -> Result<(), SqlError> {
    if context.rights().include(role) {
        return Ok(());
    }
    Err(insufficient(format!("permission denied to {what}")))
}

/// DROP OWNED: what belongs to the roles goes, and so does what they were granted; with CASCADE also what depends on it.
///
/// # Errors
/// As [`reassign`]; without CASCADE `2BP01` if something of others depends on what goes.
pub(super) fn drop_owned(
    context: &mut StatementContext<'_>,
    names: &[RoleName],
    behavior: Behavior,
) -> Result<(), SqlError> {
    let mut users = Users::default();
    let mut old = Vec::with_capacity(names.len());
    for name in names {
        let role = named_roles::known(context, name)?;
        may_act_for(context, Some(&role), "drop objects")?;
        old.push(role);
    }
    let is_doomed = |owned: &Owned| owned.access().owner.as_ref().is_some_and(|owner| old.contains(owner));
    let mut doomed = Owned::all(context);
    doomed.retain(|owned| is_doomed(owned) && !matches!(owned, Owned::Schema(..) | Owned::Server(..)));
    let count = doomed.iter().filter(|owned| is_shown(context, owned)).count();
    let doomed: Vec<_> = doomed.iter().filter_map(relation_of).collect();
    for role in &old {
        for owned in Owned::all(context) {
            cancel::check()?;
            // What went before may have taken it along, or changed it.
            let Some(owned) = owned.current(context) else { continue };
            let is_own = owned.access().owner.as_deref() == Some(role.as_str());
            match (&owned, is_own) {
                (Owned::Table(_) | Owned::View(_) | Owned::Sequence(_) | Owned::Type(_), true) => {
                    drop_owned_relation(context, &owned, behavior, &doomed, &mut users)
                        .map_err(|error| of_several(error, count))?;
                }
                (Owned::Schema(..) | Owned::Server(..), true) => hand_over(context, &owned, None)?,
                (_, false) => {
                    let is_of = |name: &Option<String>| name.as_deref() == Some(role.as_str());
                    let mut access = owned.access().clone();
                    access.keep(|grant| !is_of(&grant.grantee) && !is_of(&grant.grantor));
                    owned.put(context, access)?;
                }
            }
        }
        default_privileges::drop_of_role(context, role)?;
    }
    Ok(())
}

/// Whether users know of an object: they do not of the sequence of a hidden row id.
fn is_shown(context: &StatementContext<'_>, owned: &Owned) -> bool {
    let Owned::Sequence(sequence) = owned else { return true };
    let state = sequence.owned_by.and_then(|(table, column)| {
        let def = context.transaction.table_def(table).ok()?;
        def.columns.get(column).map(|column| column.state)
    });
    state != Some(ColumnState::Hidden)
}

/// The error of one of so many objects that go together: PostgreSQL names it if it is the only one.
fn of_several(mut error: SqlError, count: usize) -> SqlError {
    if error.state == SqlState::DependentObjectsStillExist && count > 1 {
        error.message = "cannot drop desired object(s) because other objects depend on them".to_owned();
    }
    error
}
