// SPDX-License-Identifier: Apache-2.0
//! Object ids to names and back: `to_regclass`, the casts to `regclass` and its like, visibility.

use super::type_names::{entry, formatted, named};
use super::{Call, Entry, Gives, called, strict, undefined};
use crate::catalog::objects::Objects;
use crate::catalog::roles::role_oid;
use crate::catalog::rows::Cell;
use crate::catalog::{fixed, user_types};
use crate::error::{SqlError, SqlState};
use crate::oids;
use crate::quoting::{parts, quoted};
use crate::relations::{self, CATALOG_NAME};
use crate::rights::{role_of, roles_of};
use arrow::array::AsArray;
use arrow::datatypes::Int32Type;
use std::collections::HashMap;
use std::sync::LazyLock;

pub(super) const ENTRIES: &[Entry] = &[
    strict("to_regclass", 1..=1, Gives::Int, |call| {
        Ok(call.text(0).and_then(|name| find_class(call.access().ok()?.objects(), name)).into())
    }),
    strict("to_regtype", 1..=1, Gives::Int, |call| {
        Ok(match call.text(0) {
            Some(name) => find_type(call, name)?.into(),
            None => Cell::Null,
        })
    }),
    strict("to_regnamespace", 1..=1, Gives::Int, |call| {
        let objects = call.access()?.objects();
        Ok(call.text(0).and_then(|name| find_namespace(objects, name)).into())
    }),
    strict("to_regrole", 1..=1, Gives::Int, |call| {
        Ok(find_role(call, call.text(0).unwrap_or_default())?.into())
    }),
    strict("to_regproc", 1..=1, Gives::Text, |call| Ok(call.text(0).and_then(only_function).into())),
    // The casts of the same names, both ways.
    strict("coeval_regclass", 1..=1, Gives::Int, |call| Ok(call.class(0)?.into())),
    strict("coeval_regclass_name", 1..=1, Gives::Text, class_name),
    strict("coeval_regtype", 1..=1, Gives::Int, type_oid),
    strict("coeval_regtype_name", 1..=1, Gives::Text, type_name),
    strict("coeval_regnamespace", 1..=1, Gives::Int, namespace_oid),
    strict("coeval_regnamespace_name", 1..=1, Gives::Text, namespace_name),
    strict("coeval_regrole", 1..=1, Gives::Int, role_cast),
    strict("coeval_regrole_name", 1..=1, Gives::Text, role_name),
    strict("coeval_regproc_name", 1..=1, Gives::Text, function_name),
    strict("coeval_regproc_oid", 1..=1, Gives::Int, |call| {
        Ok(call.oid(0).or_else(|| call.text(0).map(|name| function_named(name).unwrap_or(0))).into())
    }),
    called("format_type", 2..=2, Gives::Text, |call| {
        let modifier = call.int(1).and_then(|modifier| i32::try_from(modifier).ok());
        let oid = match (call.oid(0), call.text(0)) {
            // What a column of the catalog names.
            (None, Some(name)) => find_type(call, name)?,
            (oid, _) => oid,
        };
        Ok(match oid {
            Some(oid) => written_type(call, oid, modifier)?.into(),
            None => Cell::Null,
        })
    }),
    strict("pg_get_userbyid", 1..=1, Gives::Text, role_name),
    strict("pg_table_is_visible", 1..=1, Gives::Bool, |call| {
        let objects = call.access()?.objects();
        Ok(call.oid(0).and_then(|oid| objects.class(oid)).map(|class| objects.is_visible(class)).into())
    }),
    strict("pg_type_is_visible", 1..=1, Gives::Bool, |call| {
        let Some(oid) = call.oid(0) else { return Ok(Cell::Null) };
        if let Some(entry) = entry(oid) {
            return Ok(entry.is_visible.into());
        }
        let objects = call.access()?.objects();
        Ok(user_types::with_oid(objects, oid).map(|found| found.is_visible(objects)).into())
    }),
    strict("pg_function_is_visible", 1..=1, Gives::Bool, |_| Ok(true.into())),
    strict("pg_operator_is_visible", 1..=1, Gives::Bool, |_| Ok(true.into())),
    strict("pg_opclass_is_visible", 1..=1, Gives::Bool, |_| Ok(true.into())),
    strict("pg_opfamily_is_visible", 1..=1, Gives::Bool, |_| Ok(true.into())),
    strict("pg_collation_is_visible", 1..=1, Gives::Bool, |_| Ok(true.into())),
    strict("pg_conversion_is_visible", 1..=1, Gives::Bool, |_| Ok(true.into())),
    strict("pg_statistics_obj_is_visible", 1..=1, Gives::Bool, |_| Ok(true.into())),
    strict("pg_ts_config_is_visible", 1..=1, Gives::Bool, |_| Ok(true.into())),
    strict("pg_ts_dict_is_visible", 1..=1, Gives::Bool, |_| Ok(true.into())),
    strict("pg_ts_parser_is_visible", 1..=1, Gives::Bool, |_| Ok(true.into())),
    strict("pg_ts_template_is_visible", 1..=1, Gives::Bool, |_| Ok(true.into())),
    strict("pg_relation_is_publishable", 1..=1, Gives::Bool, |_| Ok(false.into())),
    strict("pg_get_function_result", 1..=1, Gives::Text, function_result),
    strict("pg_get_function_arguments", 1..=1, Gives::Text, function_arguments),
    strict("pg_get_function_identity_arguments", 1..=1, Gives::Text, function_arguments),
];

/// The class of this name.
///
/// # Errors
/// `42P01` if there is none.
pub(super) fn class_of(objects: &Objects, name: &str) -> Result<i32, SqlError> {
    find_class(objects, name)
        .ok_or_else(|| SqlError::new(SqlState::UndefinedTable, format!("relation \"{name}\" does not exist")))
}

fn find_class(objects: &Objects, name: &str) -> Option<i32> {
    let mut parts = parts(name)?;
    let name = parts.pop()?;
    let schema = parts.pop();
    objects.class_named(schema.as_deref(), &name).map(|class| class.oid)
}

fn class_name(call: &Call<'_>) -> Result<Cell, SqlError> {
    let objects = call.access()?.objects();
    let Some(oid) = call.class(0)? else { return Ok(Cell::Null) };
    if oid == 0 {
        return Ok("-".into());
    }
    Ok(objects.class(oid).map_or_else(|| oid.to_string(), |class| objects.written_name(class)).into())
}

/// The type of this name, PostgreSQL's own or one that users have made.
fn find_type(call: &Call<'_>, name: &str) -> Result<Option<i32>, SqlError> {
    if let Some(oid) = named(name) {
        return Ok(Some(oid));
    }
    let (element, brackets) = match name.trim().strip_suffix("[]") {
        Some(element) => (element, "[]"),
        None => (name, ""),
    };
    let Some(mut parts) = parts(element) else { return Ok(None) };
    let Some(last) = parts.pop() else { return Ok(None) };
    let schema = parts.pop();
    let objects = call.access()?.objects();
    Ok(user_types::named(objects, schema.as_deref(), &format!("{last}{brackets}")))
}

/// `format_type` of any type.
fn written_type(call: &Call<'_>, oid: i32, modifier: Option<i32>) -> Result<String, SqlError> {
    if oid == 0 || entry(oid).is_some() {
        return Ok(formatted(oid, modifier));
    }
    let objects = call.access()?.objects();
    let found = user_types::with_oid(objects, oid);
    Ok(found.map_or_else(|| formatted(oid, modifier), |found| found.written(objects)))
}

fn type_oid(call: &Call<'_>) -> Result<Cell, SqlError> {
    if let Some(oid) = call.oid(0) {
        return Ok(oid.into());
    }
    let name = call.text(0).unwrap_or_default();
    match find_type(call, name)? {
        Some(oid) => Ok(oid.into()),
        None => Err(undefined(format!("type \"{name}\" does not exist"))),
    }
}

fn type_name(call: &Call<'_>) -> Result<Cell, SqlError> {
    Ok(match type_oid(call)? {
        Cell::Int(oid) => match i32::try_from(oid) {
            Ok(oid) => written_type(call, oid, None)?.into(),
            Err(_) => Cell::Null,
        },
        other => other,
    })
}

fn find_namespace(objects: &Objects, name: &str) -> Option<i32> {
    let name = parts(name)?.pop()?;
    objects.schemas().any(|schema| schema == name).then(|| oids::of_schema(&name))
}

fn namespace_oid(call: &Call<'_>) -> Result<Cell, SqlError> {
    if let Some(oid) = call.oid(0) {
        return Ok(oid.into());
    }
    let name = call.text(0).unwrap_or_default();
    match find_namespace(call.access()?.objects(), name) {
        Some(oid) => Ok(oid.into()),
        None => Err(crate::names::unknown_schema(name)),
    }
}

fn namespace_name(call: &Call<'_>) -> Result<Cell, SqlError> {
    let objects = call.access()?.objects();
    let Cell::Int(oid) = namespace_oid(call)? else { return Ok(Cell::Null) };
    let found = objects.schemas().find(|schema| i64::from(oids::of_schema(schema)) == oid);
    Ok(found.map_or_else(|| oid.to_string(), quoted).into())
}

/// The id of the role of this name, if there is one.
pub(super) fn find_role(call: &Call<'_>, name: &str) -> Result<Option<i32>, SqlError> {
    let access = call.access()?;
    let catalog = access.objects().definitions.catalog();
    let name = parts(name).and_then(|mut parts| parts.pop()).unwrap_or_else(|| name.to_owned());
    let is_known = name == CATALOG_NAME || *name == *access.settings().authenticated().name;
    Ok((is_known || role_of(catalog, &name).is_some()).then(|| role_oid(&name)))
}

fn role_cast(call: &Call<'_>) -> Result<Cell, SqlError> {
    if let Some(oid) = call.oid(0) {
        return Ok(oid.into());
    }
    let name = call.text(0).unwrap_or_default();
    match find_role(call, name)? {
        Some(oid) => Ok(oid.into()),
        None => Err(crate::rights::unknown_role(name)),
    }
}

/// The name of the role with this id, if there is one.
pub(super) fn role_named(call: &Call<'_>, oid: i64) -> Result<Option<String>, SqlError> {
    let access = call.access()?;
    let roles = roles_of(access.objects().definitions.catalog()).map(|role| role.name.as_str());
    let mut names = [CATALOG_NAME, &access.settings().authenticated().name].into_iter().chain(roles);
    Ok(names.find(|name| i64::from(role_oid(name)) == oid).map(str::to_owned))
}

fn role_name(call: &Call<'_>) -> Result<Cell, SqlError> {
    let Cell::Int(oid) = role_cast(call)? else { return Ok(Cell::Null) };
    Ok(role_named(call, oid)?.unwrap_or_else(|| format!("unknown (OID={oid})")).into())
}

/// A function of PostgreSQL's.
struct FunctionEntry {
    name: String,
    result: i32,
    gives_set: bool,
    arguments: Vec<i32>,
}

static FUNCTIONS: LazyLock<HashMap<i32, FunctionEntry>> = LazyLock::new(|| {
    let mut functions = HashMap::new();
    let Some(relation) = relations::find("pg_catalog", "pg_proc") else { return functions };
    for batch in fixed::batches(relation).unwrap_or_default() {
        let column = |name: &str| batch.column_by_name(name).expect("a column of pg_proc");
        let oids = column("oid").as_primitive::<Int32Type>();
        let names = column("proname").as_string_view();
        let results = column("prorettype").as_primitive::<Int32Type>();
        let sets = column("proretset").as_boolean();
        let arguments = column("proargtypes").as_list::<i32>();
        for row in 0..batch.num_rows() {
            let entry = FunctionEntry {
                name: names.value(row).to_owned(),
                result: results.value(row),
                gives_set: sets.value(row),
                arguments: arguments.value(row).as_primitive::<Int32Type>().values().to_vec(),
            };
            functions.insert(oids.value(row), entry);
        }
    }
    functions
});

fn function_named(name: &str) -> Option<i32> {
    let name = parts(name)?.pop()?;
    FUNCTIONS.iter().filter(|(_, entry)| entry.name == name).map(|(oid, _)| *oid).min()
}

/// The function of a name that no other function has.
fn only_function(name: &str) -> Option<String> {
    let mut parts = parts(name)?;
    let name = parts.pop()?;
    let is_here = parts.last().is_none_or(|schema| schema == "pg_catalog");
    let mut named = FUNCTIONS.values().filter(|entry| is_here && entry.name == name);
    (named.next().is_some() && named.next().is_none()).then_some(name)
}

/// `regproc` as text: functions are kept by name in the catalog, and by number in `pg_proc.oid`.
fn function_name(call: &Call<'_>) -> Result<Cell, SqlError> {
    let Some(oid) = call.oid(0) else {
        let name = call.text(0).and_then(parts).and_then(|mut parts| parts.pop());
        return Ok(name.into());
    };
    if oid == 0 {
        return Ok("-".into());
    }
    Ok(FUNCTIONS.get(&oid).map_or_else(|| oid.to_string(), |entry| entry.name.clone()).into())
}

fn function_result(call: &Call<'_>) -> Result<Cell, SqlError> {
    let entry = call.oid(0).and_then(|oid| FUNCTIONS.get(&oid));
    Ok(entry
        .map(|entry| {
            let name = formatted(entry.result, None);
            if entry.gives_set { format!("SETOF {name}") } else { name }
        })
        .into())
}

fn function_arguments(call: &Call<'_>) -> Result<Cell, SqlError> {
    let entry = call.oid(0).and_then(|oid| FUNCTIONS.get(&oid));
    let list = |entry: &FunctionEntry| {
        entry.arguments.iter().map(|oid| formatted(*oid, None)).collect::<Vec<_>>().join(", ")
    };
    Ok(entry.map(list).into())
}
