// SPDX-License-Identifier: Apache-2.0
//! Changes of a feed as JSON: what `coeval feed` and `coeval_changes()` give.

use super::written::push_typed;
use crate::temporary::is_temporary;
use crate::types::format_value;
use crate::types::json::push_string;
use chrono_tz::Tz;
use coeval_store::{ChangedRow, ColumnType, FedChange, TableDef, ValueRef, missing_value};

/// A change: its kind, and the rows as objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeAsJson {
    /// `insert`, `update`, `delete`, `truncate`, `definition`, `drop`.
    pub operation: &'static str,
    /// The primary key, if one is declared; values by the names of the columns.
    pub key: Option<String>,
    /// The row before, by the names of the columns; of a definition, what the table was.
    pub before: Option<String>,
    /// The row, by the names of the columns; of a definition, what the table is.
    pub after: Option<String>,
}

impl ChangeAsJson {
    /// What a change is. Values are as `to_json` makes them, times with time zone in UTC.
    #[must_use]
    pub fn of(change: &FedChange<'_>) -> Self {
        let of = |key, before, after| Self { operation: Self::operation_of(change), key, before, after };
        match change {
            FedChange::Inserted { table, after, .. } => {
                of(key_of(table, after), None, Some(row_of(table, after)))
            }
            FedChange::Updated { table, before, after, .. } => {
                of(key_of(table, after), Some(row_of(table, before)), Some(row_of(table, after)))
            }
            FedChange::Deleted { table, before, .. } => {
                of(key_of(table, before), Some(row_of(table, before)), None)
            }
            FedChange::Emptied { .. } => of(None, None, None),
            FedChange::Defined { before, table } => {
                of(None, before.map(definition_of), Some(definition_of(table)))
            }
            FedChange::Dropped { table } => of(None, Some(definition_of(table)), None),
        }
    }

    /// What a change is called, without its rows.
    #[must_use]
    pub fn operation_of(change: &FedChange<'_>) -> &'static str {
        match change {
            FedChange::Inserted { .. } => "insert",
            FedChange::Updated { .. } => "update",
            FedChange::Deleted { .. } => "delete",
            FedChange::Emptied { .. } => "truncate",
            FedChange::Defined { .. } => "definition",
            FedChange::Dropped { .. } => "drop",
        }
    }

    /// What a table is: what [`after`](Self::after) says of its definition.
    #[must_use]
    pub fn definition_of(table: &TableDef) -> String {
        definition_of(table)
    }

    /// Whether changes of a table are part of a feed: all but those of temporary tables.
    #[must_use]
    pub fn is_fed(table: &TableDef) -> bool {
        !is_temporary(&table.name.schema)
    }
}

fn key_of(table: &TableDef, row: &ChangedRow<'_>) -> Option<String> {
    let is_declared = table.bricks.is_none() && table.has_declared_primary_key();
    is_declared.then(|| object(table, table.primary_key.iter().copied(), row))
}

fn row_of(table: &TableDef, row: &ChangedRow<'_>) -> String {
    object(table, table.live_columns().map(|(index, _)| index), row)
}

fn object(table: &TableDef, columns: impl Iterator<Item = usize>, row: &ChangedRow<'_>) -> String {
    let mut out = String::from("{");
    for (place, index) in columns.enumerate() {
        let column = &table.columns[index];
        out.push_str(if place == 0 { "" } else { "," });
        push_string(&column.name, &mut out);
        out.push(':');
        push_value(row.get(index), column.ty, &mut out);
    }
    out.push('}');
    out
}

fn push_value(value: ValueRef<'_>, ty: ColumnType, out: &mut String) {
    match (value, ty) {
        (ValueRef::Null, _) => out.push_str("null"),
        (ValueRef::List(list), ColumnType::Array(element)) => {
            let mut before = "[";
            list.for_each(element, |value| {
                out.push_str(std::mem::replace(&mut before, ","));
                push_value(value, element.column_type(), out);
            });
            out.push_str(if before == "[" { "[]" } else { "]" });
        }
        _ => {
            let mut text = String::new();
            format_value(value, ty, Tz::UTC, &mut text);
            push_typed(&text, ty, out);
        }
    }
}

/// `{"table":"public.t","columns":[{"name":"a","type":"integer","not_null":true}],"key":["a"]}`
fn definition_of(table: &TableDef) -> String {
    let mut out = String::from("{\"table\":");
    push_string(&format!("{}.{}", table.name.schema, table.name.name), &mut out);
    out.push_str(",\"columns\":[");
    for (place, (_, column)) in table.live_columns().enumerate() {
        out.push_str(if place == 0 { "{\"name\":" } else { ",{\"name\":" });
        push_string(&column.name, &mut out);
        out.push_str(",\"type\":");
        push_string(&column.ty.to_string(), &mut out);
        out.push_str(if column.not_null { ",\"not_null\":true" } else { ",\"not_null\":false" });
        if column.missing.is_some() {
            out.push_str(",\"missing\":");
            let missing = missing_value(column.missing.as_deref(), column.ty.physical());
            push_value(missing.borrow(), column.ty, &mut out);
        }
        out.push('}');
    }
    out.push_str("],\"key\":[");
    if table.bricks.is_none() && table.has_declared_primary_key() {
        for (place, column) in table.primary_key.iter().enumerate() {
            out.push_str(if place == 0 { "" } else { "," });
            push_string(&table.columns[*column].name, &mut out);
        }
    }
    out.push_str("]}");
    out
}
