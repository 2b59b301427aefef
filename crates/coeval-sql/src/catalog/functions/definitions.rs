// SPDX-License-Identifier: Apache-2.0
//! `pg_get_indexdef` and the other functions that give a definition as SQL, and comments.

use super::{Call, Entry, Gives, called, strict};
use crate::catalog::deparse::{self, Style};
use crate::catalog::objects::Kind;
use crate::catalog::rows::Cell;
use crate::catalog::{constraints, descriptions, functions::names};
use crate::error::{SqlError, SqlState};
use crate::oids;
use crate::quoting;

pub(super) const ENTRIES: &[Entry] = &[
    strict("pg_get_indexdef", 1..=3, Gives::Text, index),
    strict("pg_get_constraintdef", 1..=2, Gives::Text, constraint),
    strict("pg_get_expr", 2..=3, Gives::Text, |call| Ok(call.text(0).into())),
    strict("pg_get_partkeydef", 1..=1, Gives::Text, partition_key),
    strict("pg_get_viewdef", 1..=2, Gives::Text, view),
    strict("pg_get_serial_sequence", 2..=2, Gives::Text, serial_sequence),
    // There are no such objects.
    called("pg_get_triggerdef", 1..=2, Gives::Text, |_| Ok(Cell::Null)),
    called("pg_get_ruledef", 1..=2, Gives::Text, |_| Ok(Cell::Null)),
    called("pg_get_statisticsobjdef", 1..=1, Gives::Text, |_| Ok(Cell::Null)),
    called("pg_get_statisticsobjdef_columns", 1..=1, Gives::Text, |_| Ok(Cell::Null)),
    called("pg_get_functiondef", 1..=1, Gives::Text, |_| Ok(Cell::Null)),
    called("pg_get_function_sqlbody", 1..=1, Gives::Text, |_| Ok(Cell::Null)),
    strict("obj_description", 1..=2, Gives::Text, object_comment),
    strict("col_description", 2..=2, Gives::Text, column_comment),
    // Nothing of all databases has a comment.
    called("shobj_description", 2..=2, Gives::Text, |_| Ok(Cell::Null)),
];

/// Of a relation, a constraint or a schema; what else there is has no comment.
fn object_comment(call: &Call<'_>) -> Result<Cell, SqlError> {
    if call.text(1) == Some("pg_namespace") {
        return Ok(call.oid(0).and_then(descriptions::of_schema).into());
    }
    if call.text(1) == Some("pg_constraint") {
        let objects = call.access()?.objects();
        return Ok(call.oid(0).and_then(|oid| descriptions::of_constraint(objects, oid)).into());
    }
    if call.text(1).is_some_and(|catalog| catalog != "pg_class") {
        return Ok(Cell::Null);
    }
    let Some(oid) = call.class(0)? else { return Ok(Cell::Null) };
    Ok(descriptions::of_class(call.access()?.objects(), oid, 0).into())
}

fn column_comment(call: &Call<'_>) -> Result<Cell, SqlError> {
    let (Some(oid), Some(number)) =
        (call.class(0)?, call.int(1).and_then(|number| usize::try_from(number).ok()))
    else {
        return Ok(Cell::Null);
    };
    if number == 0 {
        return Ok(Cell::Null);
    }
    Ok(descriptions::of_class(call.access()?.objects(), oid, number).into())
}

fn style(call: &Call<'_>, index: usize) -> Style {
    if call.truth(index) == Some(true) { Style::Pretty } else { Style::Full }
}

fn index(call: &Call<'_>) -> Result<Cell, SqlError> {
    let objects = call.access()?.objects();
    let Some(class) = call.class(0)?.and_then(|oid| objects.class(oid)) else { return Ok(Cell::Null) };
    let Some(shape) = class.index() else { return Ok(Cell::Null) };
    let column = call.int(1).unwrap_or(0);
    if column == 0 {
        return Ok(deparse::index(objects, class, &shape, style(call, 2)).into());
    }
    let place = usize::try_from(column - 1).ok().filter(|place| *place < shape.columns.len());
    Ok(place.map_or_else(String::new, |place| deparse::index_key(&shape, place)).into())
}

fn constraint(call: &Call<'_>) -> Result<Cell, SqlError> {
    let objects = call.access()?.objects();
    let found = call.oid(0).and_then(|oid| constraints::by_oid(objects, oid));
    Ok(found.map(|constraint| constraint.definition(objects, style(call, 1))).into())
}

/// Of a brick table; no other is partitioned.
fn partition_key(call: &Call<'_>) -> Result<Cell, SqlError> {
    let objects = call.access()?.objects();
    let class = call.class(0)?.and_then(|oid| objects.class(oid));
    Ok(match class.map(|class| &class.kind) {
        Some(Kind::Table(def)) => deparse::partition_key(def).into(),
        _ => Cell::Null,
    })
}

fn view(call: &Call<'_>) -> Result<Cell, SqlError> {
    let objects = call.access()?.objects();
    let class = call.class(0)?.and_then(|oid| objects.class(oid));
    Ok(match class.map(|class| &class.kind) {
        Some(Kind::View(view)) => deparse::view(view).into(),
        _ => Cell::Null,
    })
}

fn serial_sequence(call: &Call<'_>) -> Result<Cell, SqlError> {
    let objects = call.access()?.objects();
    let (Some(table), Some(column)) = (call.text(0), call.text(1)) else { return Ok(Cell::Null) };
    let oid = names::class_of(objects, table)?;
    let Some(Kind::Table(def)) = objects.class(oid).map(|class| &class.kind) else { return Ok(Cell::Null) };
    let Some(index) = def.column_index(column) else {
        let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
        return Err(SqlError::new(SqlState::UndefinedColumn, message));
    };
    let sequence = def.columns[index].sequence.and_then(|id| objects.class(oids::of_sequence(id)));
    let full = |schema: &str, name: &str| format!("{}.{}", quoting::quoted(schema), quoting::quoted(name));
    Ok(sequence.map(|class| full(&class.schema, &class.name)).into())
}
