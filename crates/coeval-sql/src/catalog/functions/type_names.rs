// SPDX-License-Identifier: Apache-2.0
//! Types by their ids and names: `format_type`, `to_regtype`.

use crate::catalog::fixed;
use crate::relations;
use arrow::array::{Array, AsArray};
use arrow::datatypes::Int32Type;
use std::collections::HashMap;
use std::sync::LazyLock;

/// What `pg_type` says of a type.
#[derive(Clone, Debug)]
pub(super) struct TypeEntry {
    pub(super) name: String,
    /// The type of its elements, if it is an array type.
    pub(super) element: Option<i32>,
    /// Whether it is found without its schema.
    pub(super) is_visible: bool,
}

/// Types whose SQL name is not their name in `pg_type`.
const SQL_NAMES: [(&str, &str); 14] = [
    ("bool", "boolean"),
    ("bpchar", "character"),
    ("char", "\"char\""),
    ("float4", "real"),
    ("float8", "double precision"),
    ("int2", "smallint"),
    ("int4", "integer"),
    ("int8", "bigint"),
    ("time", "time without time zone"),
    ("timestamp", "timestamp without time zone"),
    ("timestamptz", "timestamp with time zone"),
    ("timetz", "time with time zone"),
    ("varbit", "bit varying"),
    ("varchar", "character varying"),
];

/// Further spellings.
const SPELLINGS: [(&str, &str); 8] = [
    ("int", "int4"),
    ("float", "float8"),
    ("decimal", "numeric"),
    ("dec", "numeric"),
    ("char", "bpchar"),
    ("character", "bpchar"),
    ("time", "time"),
    ("timestamp", "timestamp"),
];

static TYPES: LazyLock<HashMap<i32, TypeEntry>> = LazyLock::new(read_types);

static NAMES: LazyLock<HashMap<String, i32>> = LazyLock::new(|| {
    let mut names: HashMap<String, i32> =
        TYPES.iter().map(|(oid, entry)| (entry.name.clone(), *oid)).collect();
    let own = |name: &str| names.get(name).copied();
    let spelled: Vec<(String, i32)> = SQL_NAMES
        .iter()
        .map(|(name, sql)| (*sql, *name))
        .chain(SPELLINGS)
        .filter_map(|(spelling, name)| Some((spelling.to_owned(), own(name)?)))
        .collect();
    names.extend(spelled);
    names
});

fn read_types() -> HashMap<i32, TypeEntry> {
    let mut types = HashMap::new();
    let Some(relation) = relations::find("pg_catalog", "pg_type") else { return types };
    for batch in fixed::batches(relation).unwrap_or_default() {
        let column = |name: &str| batch.column_by_name(name).expect("a column of pg_type");
        let oids = column("oid").as_primitive::<Int32Type>();
        let names = column("typname").as_string_view();
        let elements = column("typelem").as_primitive::<Int32Type>();
        let schemas = column("typnamespace").as_primitive::<Int32Type>();
        let lengths = column("typlen").as_primitive::<arrow::datatypes::Int16Type>();
        for row in 0..batch.num_rows() {
            let is_array = elements.value(row) != 0 && lengths.value(row) == -1 && !names.is_null(row);
            let name = names.value(row).to_owned();
            let element = (is_array && name.starts_with('_')).then(|| elements.value(row));
            let is_visible = schemas.value(row) == crate::oids::PG_CATALOG_NAMESPACE;
            types.insert(oids.value(row), TypeEntry { name, element, is_visible });
        }
    }
    types
}

/// The type with this id.
pub(super) fn entry(oid: i32) -> Option<&'static TypeEntry> {
    TYPES.get(&oid)
}

/// `format_type`: the SQL name with what the modifier says.
pub(in crate::catalog) fn formatted(oid: i32, modifier: Option<i32>) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let Some(entry) = entry(oid) else { return "???".to_owned() };
    if let Some(element) = entry.element {
        return format!("{}[]", formatted(element, modifier));
    }
    let name = entry.name.as_str();
    let sql = SQL_NAMES.iter().find(|(own, _)| *own == name).map_or(name, |(_, sql)| *sql);
    match (name, modifier) {
        ("bpchar", Some(-1)) => "bpchar".to_owned(),
        ("bpchar" | "varchar", Some(modifier)) if modifier >= 4 => format!("{sql}({})", modifier - 4),
        ("numeric", Some(modifier)) if modifier >= 4 => {
            let (precision, scale) = ((modifier - 4) >> 16, (modifier - 4) & 0xffff);
            format!("numeric({precision},{scale})")
        }
        ("timestamp" | "timestamptz" | "time" | "timetz", Some(digits)) if digits >= 0 => {
            let (head, tail) = sql.split_once(' ').unwrap_or((sql, ""));
            format!("{head}({digits}) {tail}")
        }
        // The other half says which fields the interval has.
        ("interval", Some(digits)) if digits >= 0 && digits & 0xffff <= 6 => {
            format!("{sql}({})", digits & 0xffff)
        }
        ("bit" | "varbit", Some(length)) if length > 0 => format!("{sql}({length})"),
        // Without quotes it would be the one of one bit.
        ("bit", Some(-1)) => "\"bit\"".to_owned(),
        _ => sql.to_owned(),
    }
}

/// The type of this name, as SQL or `pg_type` spells it; lengths do not count.
pub(super) fn named(text: &str) -> Option<i32> {
    let lower = text.trim().to_lowercase();
    let bare = lower.strip_prefix("pg_catalog.").unwrap_or(&lower);
    if let Some(element) = bare.strip_suffix("[]") {
        let element = named(element)?;
        return TYPES.iter().find(|(_, entry)| entry.element == Some(element)).map(|(oid, _)| *oid);
    }
    if let Some(exact) = bare.strip_prefix('"').and_then(|bare| bare.strip_suffix('"')) {
        return TYPES.iter().find(|(_, entry)| entry.name == exact).map(|(oid, _)| *oid);
    }
    let without_length = match (bare.find('('), bare.find(')')) {
        (Some(start), Some(end)) if start < end => {
            format!("{}{}", bare[..start].trim_end(), &bare[end + 1..])
        }
        _ => bare.to_owned(),
    };
    // Spellings win over names: `char` is `character`, not the one-byte type.
    let spelled = SPELLINGS.iter().find(|(spelling, _)| *spelling == without_length);
    NAMES.get(spelled.map_or(without_length.as_str(), |(_, name)| name)).copied()
}
