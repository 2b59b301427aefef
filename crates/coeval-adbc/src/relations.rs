// SPDX-License-Identifier: Apache-2.0
//! What the catalog has, as rows of texts: schemas, tables, columns and constraints.

use crate::client::Open;
use crate::errors::of_database;
use crate::names::literal;
use crate::wanted::Wanted;
use adbc_core::error::Result;
use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use std::collections::HashMap;

/// The schemas of the system, which are shown to who names them.
const OF_THE_SYSTEM: [&str; 2] = ["pg_catalog", "information_schema"];

/// A table or view.
pub(crate) struct Table {
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) kind: String,
}

/// A column, as `information_schema` has it.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) position: Option<i32>,
    pub(crate) remarks: Option<String>,
    pub(crate) default: Option<String>,
    pub(crate) is_nullable: Option<String>,
    pub(crate) data_type: String,
    pub(crate) type_name: Option<String>,
    pub(crate) length_max: Option<i32>,
    pub(crate) octets_max: Option<i32>,
    pub(crate) precision: Option<i32>,
    pub(crate) radix: Option<i32>,
    pub(crate) scale: Option<i32>,
    pub(crate) is_identity: bool,
    pub(crate) is_generated: bool,
}

/// A constraint.
pub(crate) struct Constraint {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) columns: Vec<String>,
    /// For a foreign key: schema, table and column that each of its columns refers to.
    pub(crate) references: Vec<(String, String, String)>,
}

/// Things by the schema and the name of their table.
pub(crate) type ByTable<T> = HashMap<(String, String), Vec<T>>;

/// Whether a schema is the system's: its relations are made when they are read.
pub(crate) fn is_of_the_system(schema: &str) -> bool {
    OF_THE_SYSTEM.contains(&schema)
}

/// The rows of a query, all of whose columns are shown as texts.
///
/// # Errors
/// What the database says.
pub(crate) fn rows(open: &mut Open, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
    let batches = open.session()?.query(sql).map_err(|error| of_database(&error))?;
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| cast(column, &DataType::Utf8));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cell = |column: &arrow::array::ArrayRef| {
                let texts = column.as_string::<i32>();
                texts.is_valid(row).then(|| texts.value(row).to_owned())
            };
            rows.push(columns.iter().map(cell).collect());
        }
    }
    Ok(rows)
}

/// The condition that a name meets a pattern of LIKE.
fn like(column: &str, pattern: Option<&str>) -> String {
    pattern.map_or_else(|| "true".to_owned(), |pattern| format!("{column} LIKE {}", literal(pattern)))
}

/// The condition that a schema is one that is wanted.
fn of_schema(column: &str, wanted: &Wanted<'_>) -> String {
    match wanted.schema {
        Some(name) if OF_THE_SYSTEM.contains(&name) => format!("{column} = {}", literal(name)),
        pattern => {
            let system = OF_THE_SYSTEM.map(literal).join(", ");
            format!("{column} NOT IN ({system}) AND {}", like(column, pattern))
        }
    }
}

/// The names of the schemas, in order.
///
/// # Errors
/// What the database says.
pub(crate) fn schemas(open: &mut Open, wanted: &Wanted<'_>) -> Result<Vec<String>> {
    let sql = format!(
        "SELECT schema_name FROM information_schema.schemata WHERE {} ORDER BY 1",
        of_schema("schema_name", wanted)
    );
    Ok(rows(open, &sql)?.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
}

/// The tables and views, in order.
///
/// # Errors
/// What the database says.
pub(crate) fn tables(open: &mut Open, wanted: &Wanted<'_>) -> Result<Vec<Table>> {
    let sql = format!(
        "SELECT table_schema, table_name, table_type FROM information_schema.tables \
         WHERE {} AND {} ORDER BY 1, 2",
        of_schema("table_schema", wanted),
        like("table_name", wanted.table)
    );
    let found = rows(open, &sql)?.into_iter().map(|row| {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || cells.next().unwrap_or_default();
        Table { schema: next(), name: next(), kind: next() }
    });
    Ok(found.collect())
}

/// The columns, in order.
///
/// # Errors
/// What the database says.
pub(crate) fn columns(open: &mut Open, wanted: &Wanted<'_>) -> Result<ByTable<Column>> {
    let remarks = remarks(open)?;
    let sql = format!(
        "SELECT table_schema, table_name, column_name, ordinal_position, column_default, is_nullable, \
         data_type, udt_name, character_maximum_length, character_octet_length, numeric_precision, \
         numeric_precision_radix, numeric_scale, is_identity, is_generated \
         FROM information_schema.columns WHERE {} AND {} AND {} ORDER BY 1, 2, 4",
        of_schema("table_schema", wanted),
        like("table_name", wanted.table),
        like("column_name", wanted.column)
    );
    let mut found: ByTable<Column> = HashMap::new();
    for row in rows(open, &sql)? {
        let mut cells = row.into_iter();
        let mut next = || cells.next().flatten();
        let table = (next().unwrap_or_default(), next().unwrap_or_default());
        let name = next().unwrap_or_default();
        let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
        let column = Column {
            remarks: remarks.get(&(table.0.clone(), table.1.clone(), name.clone())).cloned(),
            name,
            position: number(next()),
            default: next(),
            is_nullable: next(),
            data_type: next().unwrap_or_default(),
            type_name: next(),
            length_max: number(next()),
            octets_max: number(next()),
            precision: number(next()),
            radix: number(next()),
            scale: number(next()),
            is_identity: next().as_deref() == Some("YES"),
            is_generated: next().as_deref() == Some("ALWAYS"),
        };
        found.entry(table).or_default().push(column);
    }
    Ok(found)
}

/// What was said of columns by COMMENT, by schema, table and column.
fn remarks(open: &mut Open) -> Result<HashMap<(String, String, String), String>> {
    let sql = "SELECT n.nspname, c.relname, a.attname, d.description \
               FROM pg_catalog.pg_description d \
               JOIN pg_catalog.pg_class c ON c.oid = d.objoid \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid \
               WHERE d.objsubid > 0";
    let found = rows(open, sql)?.into_iter().map(|row| {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || cells.next().unwrap_or_default();
        ((next(), next(), next()), next())
    });
    Ok(found.collect())
}

/// The keys and checks. Each row is one column of a constraint, or the constraint alone if it has none.
///
/// # Errors
/// What the database says.
pub(crate) fn constraints(open: &mut Open, wanted: &Wanted<'_>) -> Result<ByTable<Constraint>> {
    let sql = format!(
        "SELECT n.nspname, c.relname, k.conname, k.contype::text, a.attname, fn.nspname, f.relname, fa.attname \
         FROM (SELECT oid, conname, contype, conrelid, confrelid, conkey, confkey, \
                      unnest(CASE WHEN cardinality(conkey) > 0 THEN conkey ELSE ARRAY[0::smallint] END) AS attnum, \
                      generate_subscripts(CASE WHEN cardinality(conkey) > 0 THEN conkey \
                                          ELSE ARRAY[0::smallint] END, 1) AS place \
               FROM pg_catalog.pg_constraint WHERE contype IN ('p', 'u', 'f', 'c')) k \
         JOIN pg_catalog.pg_class c ON c.oid = k.conrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.attnum \
         LEFT JOIN pg_catalog.pg_class f ON f.oid = k.confrelid \
         LEFT JOIN pg_catalog.pg_namespace fn ON fn.oid = f.relnamespace \
         LEFT JOIN pg_catalog.pg_attribute fa ON fa.attrelid = k.confrelid AND fa.attnum = k.confkey[k.place] \
         WHERE {} AND {} ORDER BY 1, 2, 4, 3, k.place",
        of_schema("n.nspname", wanted),
        like("c.relname", wanted.table)
    );
    let mut found: ByTable<Constraint> = HashMap::new();
    for row in rows(open, &sql)? {
        let mut cells = row.into_iter();
        let mut next = || cells.next().flatten();
        let table = (next().unwrap_or_default(), next().unwrap_or_default());
        let (name, kind) = (next().unwrap_or_default(), kind_of(&next().unwrap_or_default()));
        let of_table = found.entry(table).or_default();
        if of_table.last().is_none_or(|last| last.name != name || last.kind != kind) {
            of_table.push(Constraint { name, kind, columns: Vec::new(), references: Vec::new() });
        }
        let Some(constraint) = of_table.last_mut() else { continue };
        constraint.columns.extend(next());
        if let (Some(schema), Some(table), Some(column)) = (next(), next(), next()) {
            constraint.references.push((schema, table, column));
        }
    }
    Ok(found)
}

/// What ADBC calls a kind of constraint.
fn kind_of(letter: &str) -> &'static str {
    match letter {
        "p" => "PRIMARY KEY",
        "u" => "UNIQUE",
        "f" => "FOREIGN KEY",
        _ => "CHECK",
    }
}
