// SPDX-License-Identifier: Apache-2.0
//! `has_table_privilege` and its like: whether a role may do something with an object.
//!
//! Each takes the role (by name or id; the current user if it is left out), the object (by name or id) and the
//! privileges, of which one suffices: `'SELECT, INSERT WITH GRANT OPTION'`.

use super::names::role_named;
use super::{Call, Entry, Gives, called, strict};
use crate::catalog::classes::numbered_columns;
use crate::catalog::objects::{Class, Kind};
use crate::catalog::rows::Cell;
use crate::error::{SqlError, SqlState};
use crate::oids;
use crate::quoting::{parts, quoted};
use crate::rights::{self, Principal, Rights, is_member, role_of, schema_access, unknown_role};
use coeval_store::{ObjectAccess, Privilege, Privileges, RoleAttribute};

pub(super) const ENTRIES: &[Entry] = &[
    strict("has_table_privilege", 2..=3, Gives::Bool, |call| on_class(call, 2, Asked::Whole)),
    strict("has_any_column_privilege", 2..=3, Gives::Bool, |call| on_class(call, 2, Asked::AnyColumn)),
    strict("has_column_privilege", 3..=4, Gives::Bool, on_column),
    strict("has_sequence_privilege", 2..=3, Gives::Bool, |call| on_class(call, 2, Asked::Whole)),
    strict("has_schema_privilege", 2..=3, Gives::Bool, on_schema),
    strict("has_database_privilege", 2..=3, Gives::Bool, on_database),
    strict("pg_has_role", 2..=3, Gives::Bool, on_role),
    strict("acldefault", 2..=2, Gives::Texts, default_access),
    // What these are about belongs to everyone.
    called("has_function_privilege", 2..=3, Gives::Bool, |_| Ok(true.into())),
    called("has_type_privilege", 2..=3, Gives::Bool, |_| Ok(true.into())),
    called("has_language_privilege", 2..=3, Gives::Bool, |_| Ok(true.into())),
    called("has_tablespace_privilege", 2..=3, Gives::Bool, |_| Ok(true.into())),
];

/// The rights of the role that a call is about, and the place of the argument behind it.
fn subject(call: &Call<'_>, without: usize) -> Result<(Rights, usize), SqlError> {
    let access = call.access()?;
    if call.arguments.len() == without {
        return Ok((access.rights(), 0));
    }
    Ok((access.rights_of(&principal(call)?), 1))
}

/// The role that the first argument names.
fn principal(call: &Call<'_>) -> Result<Principal, SqlError> {
    let access = call.access()?;
    let name = match (call.oid(0), call.text(0)) {
        (Some(oid), _) => role_named(call, i64::from(oid))?.ok_or_else(|| {
            SqlError::new(SqlState::UndefinedObject, format!("role with OID {oid} does not exist"))
        })?,
        (None, name) => name.unwrap_or_default().to_owned(),
    };
    let user = access.settings().authenticated();
    if *user.name == *name {
        return Ok(user.clone());
    }
    let named = Principal::named(&name);
    if named.as_owner().is_some() && role_of(access.objects().definitions.catalog(), &name).is_none() {
        return Err(unknown_role(&name));
    }
    Ok(named)
}

/// Whether one of the privileges of a list is there.
fn any(
    list: &str,
    grantable: impl Fn(Privilege) -> bool,
    held: impl Fn(Privilege) -> bool,
) -> Result<bool, SqlError> {
    let mut found = false;
    for word in list.split(',') {
        let word = word.trim().to_uppercase();
        let (name, wants_grant) = match word.strip_suffix(" WITH GRANT OPTION") {
            Some(name) => (name.trim_end(), true),
            None => (word.as_str(), false),
        };
        let known = Privilege::ALL.into_iter().find(|privilege| privilege.name() == name);
        let Some(privilege) = known else {
            let message = format!("unrecognized privilege type: \"{}\"", word.to_lowercase());
            return Err(SqlError::new(SqlState::InvalidParameterValue, message));
        };
        found |= if wants_grant { grantable(privilege) } else { held(privilege) };
    }
    Ok(found)
}

/// What of an object is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// All of it.
    Whole,
    /// The column of a table at this place.
    Column(usize),
    /// Whichever of its columns.
    AnyColumn,
}

/// Whether the privileges of the last argument are there on an object of this kind, or on what is asked about of it.
fn on_object(
    call: &Call<'_>,
    rights: &Rights,
    kind: rights::Kind,
    access: &ObjectAccess,
    asked: Asked,
) -> Result<Cell, SqlError> {
    let list = call.arguments.len().checked_sub(1).and_then(|last| call.text(last)).unwrap_or_default();
    let columns: Vec<usize> = match asked {
        Asked::Whole => Vec::new(),
        Asked::Column(column) => vec![column],
        Asked::AnyColumn => access.columns.iter().map(|granted| granted.column).collect(),
    };
    let of_columns = columns.iter().map(|column| rights.grantable_on(access, *column));
    let grantable = of_columns.fold(rights.grantable(access), Privileges::union);
    let held = |privilege| {
        rights.may_with(kind, access, privilege)
            || columns.iter().any(|column| rights.may_on(access, privilege, *column))
    };
    Ok(any(list, |privilege| grantable.contains(privilege), held)?.into())
}

fn on_class(call: &Call<'_>, without: usize, asked: Asked) -> Result<Cell, SqlError> {
    let (rights, place) = subject(call, without)?;
    let objects = call.access()?.objects();
    let Some(class) = call.class(place)?.and_then(|oid| objects.class(oid)) else { return Ok(Cell::Null) };
    match class.access() {
        Some(access) => on_object(call, &rights, class.privilege_kind(), access, asked),
        // Everyone may read the catalog.
        None => {
            let list = call.text(call.arguments.len() - 1).unwrap_or_default();
            let is_superuser = rights.is_superuser();
            let held = |privilege| {
                is_superuser || privilege == Privilege::Select && !crate::catalog::is_secret(&class.name)
            };
            Ok(any(list, |_| is_superuser, held)?.into())
        }
    }
}

/// On a column, or on its relation. NULL for a column that was dropped, and for a number of none.
fn on_column(call: &Call<'_>) -> Result<Cell, SqlError> {
    let place = call.arguments.len() - 2;
    let objects = call.access()?.objects();
    let Some(class) = call.class(place - 1)?.and_then(|oid| objects.class(oid)) else {
        return Ok(Cell::Null);
    };
    let columns = columns_of(class);
    let found = match (call.text(place), call.int(place)) {
        (Some(name), _) => {
            let is_dropped = name.starts_with("........pg.dropped.");
            let is_there = columns.is_none_or(|columns| columns.contains(&Some(name)));
            if !is_there && !is_dropped {
                let message = format!("column \"{name}\" of relation \"{}\" does not exist", class.name);
                return Err(SqlError::new(SqlState::UndefinedColumn, message));
            }
            is_there.then_some(Some(name))
        }
        (None, number) => {
            let before = number.and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
            match columns {
                None => Some(None),
                Some(columns) => before.and_then(|before| *columns.get(before)?).map(Some),
            }
        }
    };
    // Of what has no columns that are known, the name is not known either.
    let Some(name) = found else { return Ok(Cell::Null) };
    let asked = match (&class.kind, name) {
        (Kind::Table(def), Some(name)) => def.column_index(name).map_or(Asked::Whole, Asked::Column),
        (Kind::View(view), Some(name)) => {
            let place = view.output.iter().flatten().position(|column| column.name == name);
            place.map_or(Asked::Whole, Asked::Column)
        }
        _ => Asked::Whole,
    };
    on_class(call, 3, asked)
}

/// The names of a relation's columns in the order of their numbers, nothing in the place of one that was dropped; `None` if they
/// are not known.
fn columns_of(class: &Class) -> Option<Vec<Option<&str>>> {
    Some(match &class.kind {
        Kind::Table(def) => {
            numbered_columns(def).map(|column| column.is_live().then_some(column.name.as_str())).collect()
        }
        Kind::View(view) => view.output.as_ref()?.iter().map(|column| Some(column.name.as_str())).collect(),
        Kind::System(relation) => relation.columns.iter().map(|column| Some(column.name)).collect(),
        Kind::Sequence(_) | Kind::PrimaryKey(_) | Kind::Index(..) => return None,
    })
}

fn on_schema(call: &Call<'_>) -> Result<Cell, SqlError> {
    let (rights, place) = subject(call, 2)?;
    let objects = call.access()?.objects();
    let wanted = call.text(place).and_then(parts).and_then(|mut parts| parts.pop());
    let oid = call.oid(place);
    let found = objects
        .schemas()
        .find(|schema| oid.map_or(wanted.as_deref() == Some(*schema), |oid| oids::of_schema(schema) == oid));
    match (found, wanted) {
        (Some(schema), _) => {
            let access = schema_access(objects.definitions.catalog(), schema);
            on_object(call, &rights, rights::Kind::Schema, &access, Asked::Whole)
        }
        (None, Some(name)) => Err(crate::names::unknown_schema(&name)),
        (None, None) => Ok(Cell::Null),
    }
}

/// Everyone may connect; only superusers may make schemas.
fn on_database(call: &Call<'_>) -> Result<Cell, SqlError> {
    let (rights, place) = subject(call, 2)?;
    let list = call.text(place + 1).unwrap_or_default().to_uppercase();
    let is_open = |word: &str| matches!(word.trim(), "CONNECT" | "TEMP" | "TEMPORARY");
    Ok((rights.is_superuser() || list.split(',').any(is_open)).into())
}

/// The access list of an object to which nobody has granted anything, by the letter of its kind and its owner.
fn default_access(call: &Call<'_>) -> Result<Cell, SqlError> {
    let owner = match call.oid(1) {
        Some(oid) => role_named(call, i64::from(oid))?.unwrap_or_else(|| oid.to_string()),
        None => return Ok(Cell::Null),
    };
    let owner = quoted(&owner);
    // What everyone may do, and what the owner may.
    let (everyone, own) = match call.text(0).unwrap_or_default() {
        "c" => ("", ""),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "p" => ("", "sA"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        other => {
            let message = format!("unrecognized object type abbreviation: {other}");
            return Err(SqlError::new(SqlState::InvalidParameterValue, message));
        }
    };
    let entries = [("", everyone), (owner.as_str(), own)];
    let granted = entries.iter().filter(|(_, letters)| !letters.is_empty());
    Ok(Cell::Texts(granted.map(|(who, letters)| format!("{who}={letters}/{owner}")).collect()))
}

/// Whether a role is a member of another.
fn on_role(call: &Call<'_>) -> Result<Cell, SqlError> {
    let access = call.access()?;
    let catalog = access.objects().definitions.catalog();
    let (member, place) = match call.arguments.len() {
        2 => (access.settings().principal().clone(), 0),
        _ => (principal(call)?, 1),
    };
    let role = match call.oid(place) {
        Some(oid) => role_named(call, i64::from(oid))?,
        None => call.text(place).map(str::to_owned),
    };
    let Some(role) = role else { return Ok(Cell::Null) };
    let is_superuser = access.rights_of(&member).is_superuser();
    let usage = call.text(place + 1).unwrap_or_default().to_uppercase();
    let inherits = role_of(catalog, &member.name).is_some_and(|role| role.is(RoleAttribute::Inherit));
    let counts = inherits || !usage.starts_with("USAGE") || *member.name == *role;
    Ok((is_superuser || counts && is_member(&member.name, &role, access.authority())).into())
}
