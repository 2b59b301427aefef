// SPDX-License-Identifier: Apache-2.0
//! What there is in the database, nested as ADBC has it: catalogs, schemas, tables, columns and constraints.

use crate::client::Open;
use crate::names::{CATALOG, literal};
use crate::nesting::{lists, structs};
use crate::relations::{self, ByTable, Column, Constraint, Table};
use crate::results::{Batches, of_batch};
use crate::wanted::Wanted;
use adbc_core::error::Result;
use adbc_core::schemas::{
    COLUMN_SCHEMA, CONSTRAINT_SCHEMA, GET_OBJECTS_SCHEMA, GET_TABLE_TYPES_SCHEMA, OBJECTS_DB_SCHEMA_SCHEMA,
    TABLE_SCHEMA, USAGE_SCHEMA,
};
use arrow::array::{
    ArrayRef, BooleanArray, Int16Array, Int32Array, RecordBatch, StringArray, new_null_array,
};
use arrow::datatypes::DataType;
use std::sync::Arc;

/// The kinds of tables by the names of ADBC's driver for PostgreSQL, and how `information_schema` calls them.
const TABLE_TYPES: [(&str, &str); 5] = [
    ("table", "BASE TABLE"),
    ("view", "VIEW"),
    ("temporary_table", "LOCAL TEMPORARY"),
    ("foreign_table", "FOREIGN"),
    ("system_view", "SYSTEM VIEW"),
];

/// The kinds of tables that there are.
///
/// # Errors
/// If the columns are not those of ADBC's schema, which would be a bug.
pub(crate) fn table_types() -> Result<Batches> {
    let types = texts(TABLE_TYPES.map(|(name, _)| name));
    Ok(of_batch(RecordBatch::try_new(Arc::clone(&GET_TABLE_TYPES_SCHEMA), vec![types])?))
}

/// Texts of which none is NULL.
pub(crate) fn texts(all: impl IntoIterator<Item = impl Into<String>>) -> ArrayRef {
    Arc::new(StringArray::from(all.into_iter().map(Into::into).collect::<Vec<String>>()))
}

fn table_type(kind: &str) -> &str {
    TABLE_TYPES.iter().find(|(_, of_sql)| *of_sql == kind).map_or(kind, |(name, _)| name)
}

/// What is wanted, as one row for the catalog, if that is.
///
/// # Errors
/// What the database says.
pub(crate) fn batches(open: &mut Open, wanted: &Wanted<'_>) -> Result<Batches> {
    let has_catalog = has_catalog(open, wanted)?;
    let names: ArrayRef = texts(has_catalog.then_some(CATALOG));
    let schemas = if has_catalog && wanted.has_schemas() {
        let (count, schemas) = schemas(open, wanted)?;
        lists(&[Some(count)], schemas)?
    } else {
        new_null_array(GET_OBJECTS_SCHEMA.field(1).data_type(), names.len())
    };
    Ok(of_batch(RecordBatch::try_new(Arc::clone(&GET_OBJECTS_SCHEMA), vec![names, schemas])?))
}

/// Whether the only catalog is wanted.
///
/// # Errors
/// What the database says of the pattern.
pub(crate) fn has_catalog(open: &mut Open, wanted: &Wanted<'_>) -> Result<bool> {
    let Some(pattern) = wanted.catalog else { return Ok(true) };
    let (name, pattern) = (literal(CATALOG), literal(pattern));
    Ok(!relations::rows(open, &format!("SELECT 1 WHERE {name} LIKE {pattern}"))?.is_empty())
}

/// The schemas with what is in them, and how many they are.
fn schemas(open: &mut Open, wanted: &Wanted<'_>) -> Result<(usize, ArrayRef)> {
    let names = relations::schemas(open, wanted)?;
    let tables = if wanted.has_tables() { Some(Tables::read(open, wanted)?) } else { None };
    let held: ArrayRef = match &tables {
        Some(tables) => {
            let of_schema = |name: &String| tables.all.iter().filter(|table| table.schema == *name).count();
            let lengths: Vec<_> = names.iter().map(|name| Some(of_schema(name))).collect();
            lists(&lengths, tables.array(&names)?)?
        }
        None => new_null_array(&DataType::new_list(TABLE_SCHEMA.clone(), true), names.len()),
    };
    let count = names.len();
    let names = texts(names);
    Ok((count, structs(&OBJECTS_DB_SCHEMA_SCHEMA, vec![names, held])?))
}

/// The tables of all schemas that are wanted.
struct Tables {
    all: Vec<Table>,
    /// None of what is not wanted.
    columns: Option<ByTable<Column>>,
    constraints: Option<ByTable<Constraint>>,
}

impl Tables {
    fn read(open: &mut Open, wanted: &Wanted<'_>) -> Result<Self> {
        let mut all = relations::tables(open, wanted)?;
        if let Some(types) = &wanted.table_type {
            all.retain(|table| types.contains(&table_type(&table.kind)));
        }
        let (columns, constraints) = if wanted.has_columns() {
            (Some(relations::columns(open, wanted)?), Some(relations::constraints(open, wanted)?))
        } else {
            (None, None)
        };
        Ok(Self { all, columns, constraints })
    }

    /// As structs, schema by schema.
    fn array(&self, schemas: &[String]) -> Result<ArrayRef> {
        let ordered =
            schemas.iter().flat_map(|name| self.all.iter().filter(move |table| table.schema == *name));
        let ordered: Vec<_> = ordered.collect();
        let names = ordered.iter().map(|table| &table.name);
        let types = ordered.iter().map(|table| table_type(&table.kind));
        structs(
            &TABLE_SCHEMA,
            vec![
                texts(names),
                texts(types),
                held(&ordered, self.columns.as_ref(), &COLUMN_SCHEMA, columns)?,
                held(&ordered, self.constraints.as_ref(), &CONSTRAINT_SCHEMA, constraints)?,
            ],
        )
    }
}

/// What tables have of something, as a list each; NULL if that is not wanted.
fn held<T>(
    tables: &[&Table],
    all: Option<&ByTable<T>>,
    ty: &DataType,
    array: impl Fn(&[&T]) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let Some(all) = all else {
        return Ok(new_null_array(&DataType::new_list(ty.clone(), true), tables.len()));
    };
    let of_table = |table: &&Table| all.get(&(table.schema.clone(), table.name.clone()));
    let found: Vec<_> = tables.iter().map(of_table).collect();
    let lengths: Vec<_> = found.iter().map(|found| Some(found.map_or(0, Vec::len))).collect();
    let items: Vec<&T> = found.into_iter().flatten().flatten().collect();
    lists(&lengths, array(&items)?)
}

fn columns(columns: &[&Column]) -> Result<ArrayRef> {
    let texts = |text: &dyn Fn(&Column) -> Option<String>| -> ArrayRef {
        Arc::new(columns.iter().map(|column| text(column)).collect::<StringArray>())
    };
    let numbers = |number: &dyn Fn(&Column) -> Option<i32>| -> ArrayRef {
        Arc::new(columns.iter().map(|column| number(column)).collect::<Int32Array>())
    };
    let shorts = |number: &dyn Fn(&Column) -> Option<i32>| -> ArrayRef {
        let number = |column: &&Column| number(column).and_then(|number| i16::try_from(number).ok());
        Arc::new(columns.iter().map(number).collect::<Int16Array>())
    };
    let switches = |is_on: &dyn Fn(&Column) -> bool| -> ArrayRef {
        Arc::new(columns.iter().map(|column| Some(is_on(column))).collect::<BooleanArray>())
    };
    let none = |_: &Column| None;
    structs(
        &COLUMN_SCHEMA,
        vec![
            texts(&|column| Some(column.name.clone())),
            numbers(&|column| column.position),
            texts(&|column| column.remarks.clone()),
            shorts(&|column| Some(code_of_type(&column.data_type))),
            texts(&|column| column.type_name.clone()),
            numbers(&|column| column.length_max.or(column.precision)),
            shorts(&|column| column.scale),
            shorts(&|column| column.radix),
            shorts(&|column| Some(i32::from(column.is_nullable.as_deref() == Some("YES")))),
            texts(&|column| column.default.clone()),
            shorts(&|column| Some(code_of_type(&column.data_type))),
            shorts(&none),
            numbers(&|column| column.octets_max),
            texts(&|column| column.is_nullable.clone()),
            texts(&|_| None),
            texts(&|_| None),
            texts(&|_| None),
            switches(&takes_numbers),
            switches(&|column| column.is_generated),
        ],
    )
}

/// Whether a column without a value gets the next number of a sequence.
fn takes_numbers(column: &Column) -> bool {
    column.is_identity || column.default.as_deref().is_some_and(|default| default.starts_with("nextval("))
}

/// ODBC's number for a type, which JDBC has too.
fn code_of_type(data_type: &str) -> i32 {
    match data_type {
        "character" => 1,
        "numeric" => 2,
        "integer" => 4,
        "smallint" => 5,
        "real" => 7,
        "double precision" => 8,
        "text" | "character varying" => 12,
        "bigint" => -5,
        "boolean" => -7,
        "bytea" => -3,
        "uuid" => -11,
        "date" => 91,
        "time without time zone" => 92,
        "timestamp without time zone" | "timestamp with time zone" => 93,
        // What JDBC calls OTHER.
        _ => 1111,
    }
}

fn constraints(constraints: &[&Constraint]) -> Result<ArrayRef> {
    let names = constraints.iter().map(|constraint| &constraint.name);
    let kinds = constraints.iter().map(|constraint| constraint.kind);
    let columns = constraints.iter().flat_map(|constraint| &constraint.columns);
    let columns = texts(columns);
    let lengths: Vec<_> = constraints.iter().map(|constraint| Some(constraint.columns.len())).collect();
    let references: Vec<_> = constraints.iter().flat_map(|constraint| &constraint.references).collect();
    let usage = structs(
        &USAGE_SCHEMA,
        vec![
            texts(references.iter().map(|_| CATALOG)),
            texts(references.iter().map(|(schema, ..)| schema)),
            texts(references.iter().map(|(_, table, _)| table)),
            texts(references.iter().map(|(.., column)| column)),
        ],
    )?;
    let is_reference = |constraint: &&Constraint| constraint.kind == "FOREIGN KEY";
    let counts =
        constraints.iter().map(|constraint| is_reference(constraint).then_some(constraint.references.len()));
    structs(
        &CONSTRAINT_SCHEMA,
        vec![
            texts(names),
            texts(kinds),
            lists(&lengths, columns)?,
            lists(&counts.collect::<Vec<_>>(), usage)?,
        ],
    )
}
