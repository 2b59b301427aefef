// SPDX-License-Identifier: Apache-2.0
//! What is known of the rows of tables, as ADBC has it: counts of rows, NULLs and distinct values, least and greatest values.
//!
//! Nothing is estimated. Whoever takes approximate values gets what is known without a look at a row, and it is exact all the
//! same; whoever asks for exact ones gets what needs one, too.

use crate::client::Open;
use crate::errors::{of_database, refused};
use crate::names::{CATALOG, quoted, relation};
use crate::nesting::{lists, pushed, structs};
use crate::objects::{has_catalog, texts};
use crate::relations::{self, Column, Constraint, Table};
use crate::results::{Batches, of_batch};
use crate::wanted::Wanted;
use adbc_core::constants::{
    ADBC_STATISTIC_DISTINCT_COUNT_KEY, ADBC_STATISTIC_MAX_VALUE_KEY, ADBC_STATISTIC_MIN_VALUE_KEY,
    ADBC_STATISTIC_NULL_COUNT_KEY, ADBC_STATISTIC_ROW_COUNT_KEY,
};
use adbc_core::error::Result;
use adbc_core::schemas::{
    GET_STATISTIC_NAMES_SCHEMA, GET_STATISTICS_SCHEMA, STATISTIC_VALUE_SCHEMA, STATISTICS_DB_SCHEMA_SCHEMA,
    STATISTICS_SCHEMA,
};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int16Array, Int64Array, RecordBatch,
    StringArray, UnionArray, new_empty_array,
};
use arrow::buffer::ScalarBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use coeval::SqlState;
use std::sync::Arc;

/// How `information_schema` calls a table whose rows are the database's own, for all sessions.
const BASE_TABLE: &str = "BASE TABLE";

/// The types whose least and greatest values are given, as `information_schema` calls them.
const BOUNDED: [&str; 13] = [
    "smallint",
    "integer",
    "bigint",
    "real",
    "double precision",
    "numeric",
    "text",
    "character varying",
    "character",
    "date",
    "time without time zone",
    "timestamp without time zone",
    "timestamp with time zone",
];

/// What may be done for statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Looking at what is known of tables.
    Looking,
    /// Reading them, where that does not tell.
    Reading,
}

/// A value of one of the union's members.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Integer(i64),
    Float(f64),
    Bytes(Vec<u8>),
}

/// A statistic of a table, or of one of its columns.
struct Statistic {
    table: String,
    column: Option<String>,
    key: i16,
    value: Value,
    is_approximate: bool,
}

/// The names of statistics that no other driver has: there are none.
pub(crate) fn names() -> Batches {
    of_batch(RecordBatch::new_empty(Arc::clone(&GET_STATISTIC_NAMES_SCHEMA)))
}

/// The statistics of the tables that are wanted, as one row for the catalog, if that is.
///
/// # Errors
/// What the database says.
pub(crate) fn batches(open: &mut Open, wanted: &Wanted<'_>, effort: Effort) -> Result<Batches> {
    let schema = Arc::clone(&GET_STATISTICS_SCHEMA);
    if !has_catalog(open, wanted)? {
        return Ok(of_batch(RecordBatch::new_empty(schema)));
    }
    let (count, schemas) = open.reading_as_one(|open| schemas(open, wanted, effort))?;
    let columns = vec![texts([CATALOG]), lists(&[Some(count)], schemas)?];
    Ok(of_batch(RecordBatch::try_new(schema, columns)?))
}

/// The schemas with what is known of their tables, and how many they are.
fn schemas(open: &mut Open, wanted: &Wanted<'_>, effort: Effort) -> Result<(usize, ArrayRef)> {
    let names = relations::schemas(open, wanted)?;
    let tables = relations::tables(open, wanted)?;
    let (columns, constraints) = (relations::columns(open, wanted)?, relations::constraints(open, wanted)?);
    let (mut found, mut lengths) = (Vec::new(), Vec::new());
    for name in &names {
        let before = found.len();
        let has_rows = |table: &&Table| table.kind == BASE_TABLE && !relations::is_of_the_system(name);
        for table in tables.iter().filter(|table| table.schema == *name).filter(has_rows) {
            open.go_on()?;
            let place = (table.schema.clone(), table.name.clone());
            let columns = columns.get(&place).map(Vec::as_slice).unwrap_or_default();
            let keys = keys(constraints.get(&place).map(Vec::as_slice).unwrap_or_default());
            found.extend(of_table(open, table, (columns, keys.as_slice()), effort)?);
        }
        lengths.push(Some(found.len() - before));
    }
    let held = lists(&lengths, array(&found)?)?;
    Ok((names.len(), structs(&STATISTICS_DB_SCHEMA_SCHEMA, vec![texts(names), held])?))
}

/// The columns that no two rows have the same value of.
fn keys(constraints: &[Constraint]) -> Vec<&str> {
    let unique = constraints.iter().filter(|found| matches!(found.kind, "PRIMARY KEY" | "UNIQUE"));
    let alone = unique.filter_map(|found| match found.columns.as_slice() {
        [column] => Some(column.as_str()),
        _ => None,
    });
    alone.collect()
}

/// What is known of a table with these columns, of which some are keys.
fn of_table(
    open: &mut Open,
    table: &Table,
    (columns, keys): (&[Column], &[&str]),
    effort: Effort,
) -> Result<Vec<Statistic>> {
    let is_read = effort == Effort::Reading;
    let row = one_row(open, &question(table, if is_read { columns } else { &[] }))?;
    let mut cells = row.columns().iter();
    let mut found = Vec::new();
    let mut note = |column: Option<&Column>, key: i16, (value, is_approximate): (Value, bool)| {
        let column = column.map(|column| column.name.clone());
        found.push(Statistic { table: table.name.clone(), column, key, value, is_approximate });
    };
    let exact = |count: i64| (Value::Integer(count), false);
    let rows = count(cells.next())?;
    note(None, ADBC_STATISTIC_ROW_COUNT_KEY, exact(rows));
    for column in columns {
        let nulls = if is_read {
            Some(rows - count(cells.next())?)
        } else {
            (column.is_nullable.as_deref() == Some("NO")).then_some(0)
        };
        if let Some(nulls) = nulls {
            note(Some(column), ADBC_STATISTIC_NULL_COUNT_KEY, exact(nulls));
            if keys.contains(&column.name.as_str()) {
                note(Some(column), ADBC_STATISTIC_DISTINCT_COUNT_KEY, exact(rows - nulls));
            }
        }
        if is_read && is_bounded(column) {
            for key in [ADBC_STATISTIC_MIN_VALUE_KEY, ADBC_STATISTIC_MAX_VALUE_KEY] {
                if let Some(bound) = cells.next().map(bound).transpose()?.flatten() {
                    note(Some(column), key, bound);
                }
            }
        }
    }
    Ok(found)
}

fn is_bounded(column: &Column) -> bool {
    BOUNDED.contains(&column.data_type.as_str())
}

/// The question how many rows a table has, and for each of the columns how many values, and the least and the greatest one if
/// it is bounded. The database counts rows without reading them, and knows the rest of tables that have not changed since a
/// checkpoint.
fn question(table: &Table, columns: &[Column]) -> String {
    let mut asked = vec!["count(*)".to_owned()];
    for column in columns {
        let name = quoted(&column.name);
        asked.push(format!("count({name})"));
        if is_bounded(column) {
            asked.extend([format!("min({name})"), format!("max({name})")]);
        }
    }
    let named = asked.iter().enumerate().map(|(place, what)| format!("{what} AS s{place}"));
    let named = named.collect::<Vec<_>>().join(", ");
    format!("SELECT {named} FROM {}", relation(Some(&table.schema), &table.name))
}

/// The row of a query that has one.
fn one_row(open: &mut Open, sql: &str) -> Result<RecordBatch> {
    let batches = open.session()?.query(sql).map_err(|error| of_database(&error))?;
    let row = batches.into_iter().find(|batch| batch.num_rows() == 1);
    row.ok_or_else(|| refused(SqlState::InternalError, "counting the rows of a table gave no row"))
}

/// A count that a query gave.
fn count(cell: Option<&ArrayRef>) -> Result<i64> {
    let counts = cell.and_then(|cell| cell.as_primitive_opt::<Int64Type>());
    let count = counts.filter(|counts| counts.is_valid(0)).map(|counts| counts.value(0));
    count.ok_or_else(|| refused(SqlState::InternalError, "counting the rows of a table gave no number"))
}

/// A least or greatest value, if there are values, and whether it is approximate. A date is its days since 1970, a time or
/// timestamp its microseconds since midnight or 1970; a `numeric` is the float next to it.
fn bound(cell: &ArrayRef) -> Result<Option<(Value, bool)>> {
    if cell.is_null(0) {
        return Ok(None);
    }
    Ok(Some(match cell.data_type() {
        DataType::Float32 | DataType::Float64 => (Value::Float(float(cell)?), false),
        DataType::Decimal128(..) => (Value::Float(float(cell)?), true),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let text = cast(cell, &DataType::Utf8)?;
            (Value::Bytes(text.as_string::<i32>().value(0).as_bytes().to_vec()), false)
        }
        _ => {
            let number = cast(cell, &DataType::Int64)?;
            (Value::Integer(number.as_primitive::<Int64Type>().value(0)), false)
        }
    }))
}

fn float(cell: &ArrayRef) -> Result<f64> {
    Ok(cast(cell, &DataType::Float64)?.as_primitive::<Float64Type>().value(0))
}

fn array(found: &[Statistic]) -> Result<ArrayRef> {
    let columns: StringArray = found.iter().map(|one| one.column.as_deref()).collect();
    let keys = Int16Array::from_iter_values(found.iter().map(|one| one.key));
    let approximate: Vec<bool> = found.iter().map(|one| one.is_approximate).collect();
    structs(
        &STATISTICS_SCHEMA,
        vec![
            texts(found.iter().map(|one| one.table.as_str())),
            Arc::new(columns),
            Arc::new(keys),
            values(found)?,
            Arc::new(BooleanArray::from(approximate)),
        ],
    )
}

/// The values as members of ADBC's union.
fn values(found: &[Statistic]) -> Result<ArrayRef> {
    let DataType::Union(fields, _) = &*STATISTIC_VALUE_SCHEMA else {
        unreachable!("ADBC's values are a union")
    };
    let (mut members, mut places) = (Vec::new(), Vec::new());
    let (mut integers, mut floats, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for one in found {
        let (member, place) = match &one.value {
            Value::Integer(number) => (0_i8, pushed(&mut integers, *number)),
            Value::Float(number) => (2, pushed(&mut floats, *number)),
            Value::Bytes(text) => (3, pushed(&mut bytes, text.as_slice())),
        };
        members.push(member);
        places.push(place);
    }
    let children: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(integers)),
        new_empty_array(&DataType::UInt64),
        Arc::new(Float64Array::from(floats)),
        Arc::new(BinaryArray::from(bytes)),
    ];
    let (members, places) = (ScalarBuffer::from(members), ScalarBuffer::from(places));
    Ok(Arc::new(UnionArray::try_new(fields.clone(), members, Some(places), children)?))
}
