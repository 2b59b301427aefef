// SPDX-License-Identifier: Apache-2.0
//! GRANT and REVOKE of privileges on objects.

use super::access::Owned;
use super::dependents::Behavior;
use super::lookup;
use super::named_roles::owner_named;
use super::role_syntax::{GrantOption, Named, Objects, RoleName};
use crate::cancel;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::rights::{COLUMN_PRIVILEGES, Kind, all_privileges, denied, insufficient};
use coeval_store::{Grant, ObjectAccess, ObjectRef, Privilege, Privileges};
use datafusion::sql::sqlparser::ast::ObjectName;

/// GRANT privileges; none named: all.
///
/// # Errors
/// `42704` for an unknown role, `42P01` for an unknown object, `0LP01` for a privilege that such objects have not,
/// `42501` without the right to grant.
pub(super) fn grant(
    context: &mut StatementContext<'_>,
    privileges: &Named,
    objects: &Objects,
    to: &[RoleName],
    option: GrantOption,
) -> Result<(), SqlError> {
    let grantees = grantees(context, to)?;
    refuse_option_for_public(&grantees, option)?;
    // What everyone may do with what has no rights of its own needs no grant.
    for owned in found(context, objects)? {
        cancel::check()?;
        let mut access = owned.access().clone();
        for (place, granted) in wanted(&owned, privileges)? {
            let (grantor, granted) = as_grantor(context, &owned, place, granted)?;
            for grantee in &grantees {
                let Some(grantee) = grantee.in_access(&access) else { continue };
                let grantable = if option == GrantOption::Named { granted } else { Privileges::NONE };
                let grant = Grant { grantee, grantor: grantor.clone(), privileges: granted, grantable };
                grant.add_to(place.grants(&mut access));
            }
        }
        owned.put(context, access)?;
    }
    Ok(())
}

/// REVOKE privileges; none named: all.
///
/// # Errors
/// As [`grant`]; `2BP01` if somebody passed them on and CASCADE was not said; `0A000` for what everyone may do.
pub(super) fn revoke(
    context: &mut StatementContext<'_>,
    privileges: &Named,
    objects: &Objects,
    from: &[RoleName],
    option: GrantOption,
    behavior: Behavior,
) -> Result<(), SqlError> {
    if let Objects::Unchecked(kind) = objects {
        return Err(SqlError::unsupported(format!("REVOKE on a {kind}")));
    }
    let grantees = grantees(context, from)?;
    for owned in found(context, objects)? {
        cancel::check()?;
        let mut access = owned.access().clone();
        for (place, revoked) in wanted(&owned, privileges)? {
            let (grantor, revoked) = as_grantor(context, &owned, place, revoked)?;
            for grantee in &grantees {
                let Some(grantee) = grantee.in_access(&access) else { continue };
                for grants in place.grants_within(&mut access) {
                    take_back(grants, &grantee, &grantor, revoked, option, behavior)?;
                }
            }
        }
        access.keep(|_| true);
        owned.put(context, access)?;
    }
    Ok(())
}

/// Refuses to let everyone pass on what they are granted.
///
/// # Errors
/// `0LP01`.
pub(super) fn refuse_option_for_public(grantees: &[Grantee], option: GrantOption) -> Result<(), SqlError> {
    if option == GrantOption::Named && grantees.contains(&Grantee::Public) {
        return Err(invalid("grant options can only be granted to roles"));
    }
    Ok(())
}

/// `0LP01` with this message.
pub(super) fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::InvalidGrantOperation, message)
}

/// To whom something is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Grantee {
    /// Everyone.
    Public,
    /// A role of the catalog.
    Role(String),
    /// The administrator, who may do everything anyway.
    Administrator,
}

impl Grantee {
    /// The name by which an object's grants list it; `None` if it needs no grant on that object.
    pub(super) fn in_access(&self, access: &ObjectAccess) -> Option<Option<String>> {
        match self {
            Self::Public => Some(None),
            Self::Role(name) if access.owner.as_ref() == Some(name) => None,
            Self::Role(name) => Some(Some(name.clone())),
            Self::Administrator => None,
        }
    }
}

/// Those whom a statement names.
///
/// # Errors
/// `42704` for an unknown role.
pub(super) fn grantees(context: &StatementContext<'_>, names: &[RoleName]) -> Result<Vec<Grantee>, SqlError> {
    let grantee = |name: &RoleName| match name {
        RoleName::Public => Ok(Grantee::Public),
        name => Ok(owner_named(context, name)?.map_or(Grantee::Administrator, Grantee::Role)),
    };
    names.iter().map(grantee).collect()
}

/// The objects that a statement names.
fn found(context: &StatementContext<'_>, objects: &Objects) -> Result<Vec<Owned>, SqlError> {
    let named = |names: &[ObjectName], only: Option<Kind>| {
        names.iter().map(|name| relation(context, name, only)).collect::<Result<Vec<_>, _>>()
    };
    let within = |schemas: &[String], wanted: fn(ObjectRef) -> bool| {
        let mut found = Vec::new();
        for schema in schemas {
            Owned::schema(context, schema)?;
            let names = context.transaction.catalog().names();
            let inside = names.filter(|(name, object)| name.schema == *schema && wanted(*object));
            for (name, object) in inside {
                found.push(Owned::of(context, name, object)?);
            }
        }
        Ok(found)
    };
    match objects {
        Objects::Tables(names) => named(names, None),
        Objects::Sequences(names) => named(names, Some(Kind::Sequence)),
        Objects::Schemas(schemas) => schemas.iter().map(|schema| Owned::schema(context, schema)).collect(),
        Objects::Servers(servers) => servers.iter().map(|server| Owned::server(context, server)).collect(),
        Objects::TablesIn(schemas) => {
            within(schemas, |object| matches!(object, ObjectRef::Table(_) | ObjectRef::View))
        }
        Objects::SequencesIn(schemas) => within(schemas, |object| matches!(object, ObjectRef::Sequence(_))),
        Objects::Unchecked(_) => Ok(Vec::new()),
    }
}

fn relation(
    context: &StatementContext<'_>,
    name: &ObjectName,
    only: Option<Kind>,
) -> Result<Owned, SqlError> {
    let Some((found, object)) = lookup::resolve(context, name)? else {
        return Err(lookup::unknown_relation(name));
    };
    match (object, only) {
        (ObjectRef::Index(..), _) => {
            let message = format!("\"{}\" is an index", found.name);
            Err(SqlError::new(SqlState::WrongObjectType, message))
        }
        (object, Some(kind)) if Kind::of(object) != kind => Err(lookup::wrong_kind(&found, "sequence")),
        _ => Owned::of(context, &found, object),
    }
}

/// What privileges are granted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The object.
    Whole,
    /// A column of a table or view.
    Column(usize),
}

impl Place {
    /// What was granted there.
    fn grants(self, access: &mut ObjectAccess) -> &mut Vec<Grant> {
        match self {
            Self::Whole => &mut access.grants,
            Self::Column(column) => access.of_column_mut(column),
        }
    }

    /// What was granted there and on its columns: what is taken back on a table is taken back on them.
    fn grants_within(self, access: &mut ObjectAccess) -> Vec<&mut Vec<Grant>> {
        match self {
            Self::Whole => access.lists_mut().collect(),
            Self::Column(column) => vec![access.of_column_mut(column)],
        }
    }
}

/// The privileges that are meant, all of which the object or its columns have.
fn wanted(owned: &Owned, privileges: &Named) -> Result<Vec<(Place, Privileges)>, SqlError> {
    let mut wanted = Vec::new();
    // Where privileges on columns are all that is named, there are none on the object.
    if privileges.on_columns.is_empty() || privileges.whole.as_ref().is_none_or(|whole| !whole.is_empty()) {
        wanted.push((Place::Whole, wanted_of_object(owned, privileges.whole.as_deref())?));
    }
    for (privilege, columns) in &privileges.on_columns {
        for column in columns {
            let column = column_of(owned, *privilege, column)?;
            wanted.push((Place::Column(column), Privileges::of(&[*privilege])));
        }
    }
    Ok(wanted)
}

/// The place of a column on which a privilege is granted.
///
/// # Errors
/// `0LP01` for what has no columns, and for a privilege that columns have not; `42703` for one that is not there; `0A000` for columns of
/// tables of other engines.
fn column_of(owned: &Owned, privilege: Privilege, column: &str) -> Result<usize, SqlError> {
    if !COLUMN_PRIVILEGES.contains(&privilege) {
        return Err(invalid(format!("invalid privilege type {} for column", privilege.name())));
    }
    match owned {
        Owned::Table(def) if def.foreign.is_some() => {
            Err(SqlError::unsupported("a privilege on columns of a table of another engine"))
        }
        Owned::Table(def) => lookup::column(def, column),
        Owned::View(view) => {
            let Some(columns) = &view.output else {
                let error = SqlError::unsupported("a privilege on columns of a view of an older program");
                return Err(error.with_hint("Make it anew: CREATE OR REPLACE VIEW."));
            };
            let place = columns.iter().position(|known| known.name == column);
            place.ok_or_else(|| lookup::unknown_column(column, &view.name.name))
        }
        Owned::Sequence(_) | Owned::Schema(..) | Owned::Type(_) | Owned::Server(..) => {
            Err(invalid("column privileges are only valid for relations"))
        }
    }
}

/// The privileges that are meant of a whole object.
fn wanted_of_object(owned: &Owned, privileges: Option<&[Privilege]>) -> Result<Privileges, SqlError> {
    let word = match owned.kind() {
        Kind::Table | Kind::View | Kind::Index => "table",
        Kind::Sequence => "sequence",
        Kind::Schema => "schema",
        Kind::Type => "type",
        Kind::Server => "foreign server",
    };
    privileges_on(owned.kind(), word, privileges)
}

/// The privileges that are meant, all of which objects of the kind have. The word is what a refusal calls these.
///
/// # Errors
/// `0LP01` for one that they have not.
pub(super) fn privileges_on(
    kind: Kind,
    word: &str,
    privileges: Option<&[Privilege]>,
) -> Result<Privileges, SqlError> {
    let all = all_privileges(kind);
    let Some(privileges) = privileges else { return Ok(all) };
    if let Some(other) = privileges.iter().find(|privilege| !all.contains(**privilege)) {
        return Err(invalid(format!("invalid privilege type {} for {word}", other.name())));
    }
    Ok(Privileges::of(privileges))
}

/// The role in whose name the session grants, which is the owner if the session has the owner's rights; and those of the wanted
/// privileges that it may grant.
fn as_grantor(
    context: &StatementContext<'_>,
    owned: &Owned,
    place: Place,
    wanted: Privileges,
) -> Result<(Option<String>, Privileges), SqlError> {
    let rights = context.rights();
    let access = rights.authority().access(owned.as_object());
    if rights.owns(&access) {
        return Ok((access.owner.clone(), wanted));
    }
    let grantable = match place {
        Place::Whole => rights.grantable(&access),
        Place::Column(column) => rights.grantable_on(&access, column),
    };
    let granted = grantable.intersection(wanted);
    if granted.is_empty() {
        return Err(match column_name(owned, place) {
            Some(column) => {
                let relation = owned.bare_name();
                insufficient(format!("permission denied for column \"{column}\" of relation \"{relation}\""))
            }
            None => denied(owned.kind(), owned.bare_name()),
        });
    }
    Ok((Some(context.settings.user().to_owned()), granted))
}

/// The name of a column.
fn column_name(owned: &Owned, place: Place) -> Option<&str> {
    match (place, owned) {
        (Place::Column(column), Owned::Table(def)) => Some(&def.columns.get(column)?.name),
        (Place::Column(column), Owned::View(view)) => Some(&view.output.as_ref()?.get(column)?.name),
        _ => None,
    }
}

/// Takes back what one granted to another, and with CASCADE what that one passed on. However long the chain is, it takes no more of
/// the stack.
///
/// # Errors
/// `2BP01` if it was passed on and CASCADE was not said.
pub(super) fn take_back(
    grants: &mut [Grant],
    grantee: &Option<String>,
    grantor: &Option<String>,
    privileges: Privileges,
    option: GrantOption,
    behavior: Behavior,
) -> Result<(), SqlError> {
    let mut left = vec![(grantee.clone(), grantor.clone(), privileges, option)];
    while let Some((grantee, grantor, privileges, option)) = left.pop() {
        let known = grants.iter_mut().find(|grant| grant.grantee == grantee && grant.grantor == grantor);
        let Some(grant) = known else { continue };
        let lost = grant.grantable.intersection(privileges);
        grant.grantable = grant.grantable.without(privileges);
        if option == GrantOption::Unnamed {
            grant.privileges = grant.privileges.without(privileges);
        }
        if lost.is_empty() || grantee.is_none() {
            continue;
        }
        let is_passed_on =
            |other: &&Grant| other.grantor == grantee && !other.privileges.intersection(lost).is_empty();
        let before = left.len();
        left.extend(
            grants
                .iter()
                .filter(is_passed_on)
                .map(|other| (other.grantee.clone(), grantee.clone(), lost, GrantOption::Unnamed)),
        );
        if behavior == Behavior::Restrict && left.len() > before {
            let error = SqlError::new(SqlState::DependentObjectsStillExist, "dependent privileges exist");
            return Err(error.with_hint("Use CASCADE to revoke them too."));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each link of a chain took a part of the stack: a long one ended the process.
    #[test]
    fn a_chain_of_grants_is_taken_back_however_long_it_is() {
        const LINKS: usize = 4_000;
        let select = Privileges::of(&[Privilege::Select]);
        let role = |number: usize| (number > 0).then(|| format!("r{number}"));
        let mut access = ObjectAccess::owned_by(None);
        access.grants.extend((0..LINKS).map(|number| Grant {
            grantee: role(number + 1),
            grantor: role(number),
            privileges: select,
            grantable: select,
        }));
        let mut taken = access.clone();
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        let work = thread.spawn(move || {
            let (first, owner) = (role(1), role(0));
            let (option, behavior) = (GrantOption::Unnamed, Behavior::Cascade);
            take_back(&mut taken.grants, &first, &owner, select, option, behavior).unwrap();
            taken
        });
        let taken = work.unwrap().join().unwrap();
        assert!(taken.grants.iter().all(|grant| grant.privileges.is_empty() && grant.grantable.is_empty()));
        // Of one in the middle, what was granted before it stays.
        let (one, by) = (role(LINKS / 2), role(LINKS / 2 - 1));
        take_back(&mut access.grants, &one, &by, select, GrantOption::Named, Behavior::Cascade).unwrap();
        let left = access.grants.iter().filter(|grant| !grant.privileges.is_empty()).count();
        assert_eq!(left, LINKS / 2, "it keeps the privilege, and those behind it lose theirs");
    }
}
