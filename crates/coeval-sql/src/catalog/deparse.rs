// SPDX-License-Identifier: Apache-2.0
//! Definitions as SQL: what `pg_get_indexdef` and its like answer.

use super::objects::{Class, IndexShape, Kind, Objects};
use crate::oids;
use crate::parse::{as_given, parse_expression};
use crate::quoting::{literal, quoted};
use crate::types::{cast_name, format_value, read_bits, type_number};
use chrono_tz::Tz;
use coeval_store::{
    BrickDimension, ColumnDef, ColumnState, ColumnType, DeclaredOrder, Deferral, ForeignKeyDef,
    ReferentialAction, TableDef, ValueRef, ViewDef,
};
use datafusion::sql::sqlparser::ast::{Expr, Value};

/// How much room a definition takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// As `pg_dump` wants it: schemas, parentheses.
    Full,
    /// As people want it: what goes without saying is left out.
    Pretty,
}

/// The columns, divided by commas.
pub(super) fn column_list(table: &TableDef, columns: &[usize]) -> String {
    columns.iter().map(|column| quoted(&table.columns[*column].name)).collect::<Vec<_>>().join(", ")
}

/// The least value of a dimension as its column's type writes it, moments without a zone's offset in UTC; texts have none.
pub(crate) fn origin(dimension: &BrickDimension, ty: ColumnType) -> Option<String> {
    let value = match ty {
        ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => return None,
        ColumnType::Date => ValueRef::Int32(i32::try_from(dimension.origin).ok()?),
        _ => ValueRef::Int64(dimension.origin),
    };
    let mut text = String::new();
    format_value(value, ty, Tz::UTC, &mut text);
    Some(text)
}

/// How a brick table is partitioned, as it stands behind PARTITION BY; `None` for another table. Dates are counted in days, other
/// moments in microseconds.
pub(super) fn partition_key(table: &TableDef) -> Option<String> {
    let dimension = |dimension: &BrickDimension| {
        let column = &table.columns[dimension.column];
        let (name, cardinality, size) = (quoted(&column.name), dimension.cardinality, dimension.range_size);
        let mut written = format!("{name} CARDINALITY {cardinality} RANGE SIZE {size}");
        if let Some(origin) = origin(dimension, column.ty).filter(|_| dimension.origin != 0) {
            written.push_str(&format!(" FROM {}", literal(&origin)));
        }
        written
    };
    let dimensions = &table.bricks.as_ref()?.dimensions;
    Some(format!("BRICK ({})", dimensions.iter().map(dimension).collect::<Vec<_>>().join(", ")))
}

/// CREATE INDEX as it would make this index.
pub(super) fn index(objects: &Objects, class: &Class, shape: &IndexShape<'_>, style: Style) -> String {
    let unique = if shape.uniqueness.is_unique() { "UNIQUE " } else { "" };
    let table = objects.class(oids::of_space(shape.table.id));
    let on = match (table, style) {
        (Some(table), Style::Pretty) => objects.written_name(table),
        _ => format!("{}.{}", quoted(&shape.table.name.schema), quoted(&shape.table.name.name)),
    };
    let name = quoted(&class.name);
    let columns: Vec<_> =
        shape.columns.iter().enumerate().map(|(place, _)| index_column(shape, place)).collect();
    let condition = shape.predicate.map(|predicate| format!(" WHERE {}", parenthesized(predicate)));
    let condition = condition.unwrap_or_default();
    format!("CREATE {unique}INDEX {name} ON {on} USING btree ({}){condition}", columns.join(", "))
}

fn parenthesized(expression: &str) -> String {
    let shown = shown_expression(expression);
    if shown.starts_with('(') { shown } else { format!("({shown})") }
}

/// The expressions among the keys of an index; `None` if all are columns.
pub(super) fn index_expressions(shape: &IndexShape<'_>) -> Option<String> {
    let columns = shape.columns.iter().map(|&column| &shape.table.columns[column]);
    let expressions: Vec<String> = columns
        .filter(|column| column.state == ColumnState::Computed)
        .map(|column| shown_expression(&column.name))
        .collect();
    (!expressions.is_empty()).then(|| expressions.join(", "))
}

/// What an index is over at this place: a column, or an expression.
pub(super) fn index_key(shape: &IndexShape<'_>, place: usize) -> String {
    let column = &shape.table.columns[shape.columns[place]];
    match column.state {
        ColumnState::Computed => match shown_expression(&column.name) {
            operation if operation.starts_with('(') => format!("({operation})"),
            call => call,
        },
        ColumnState::Live
        | ColumnState::Hidden
        | ColumnState::Dropped { .. }
        | ColumnState::Retired { .. } => quoted(&column.name),
    }
}

/// A column of an index as it was declared.
pub(super) fn index_column(shape: &IndexShape<'_>, place: usize) -> String {
    let name = index_key(shape, place);
    let order = match shape.declared_order.get(place) {
        None | Some(DeclaredOrder::Ascending) => "",
        Some(DeclaredOrder::AscendingNullsFirst) => " NULLS FIRST",
        Some(DeclaredOrder::Descending) => " DESC",
        Some(DeclaredOrder::DescendingNullsLast) => " DESC NULLS LAST",
    };
    name + order
}

/// What a constraint says, as it stands behind its name.
pub(super) fn check(expression: &str, style: Style) -> String {
    let expression = as_given(expression);
    match style {
        Style::Full => format!("CHECK (({expression}))"),
        Style::Pretty => format!("CHECK ({expression})"),
    }
}

/// `PRIMARY KEY (a, b)`.
pub(super) fn key(word: &str, table: &TableDef, columns: &[usize]) -> String {
    format!("{word} ({})", column_list(table, columns))
}

/// `FOREIGN KEY (a) REFERENCES b(c) ON DELETE CASCADE`.
pub(super) fn foreign_key(objects: &Objects, table: &TableDef, constraint: &ForeignKeyDef) -> String {
    let parent = objects.class(oids::of_space(constraint.parent));
    let (name, columns) = match parent.map(|class| (class, &class.kind)) {
        Some((class, Kind::Table(parent))) => {
            (objects.written_name(class), column_list(parent, &constraint.parent_columns))
        }
        _ => ("???".to_owned(), String::new()),
    };
    let mut text =
        format!("FOREIGN KEY ({}) REFERENCES {name}({columns})", column_list(table, &constraint.columns));
    for (event, action) in [("UPDATE", constraint.on_update), ("DELETE", constraint.on_delete)] {
        if let Some(words) = action_words(action) {
            text.push_str(&format!(" ON {event} {words}"));
        }
    }
    text.push_str(match constraint.deferral {
        Deferral::Never => "",
        Deferral::Immediate => " DEFERRABLE",
        Deferral::Deferred => " DEFERRABLE INITIALLY DEFERRED",
    });
    text
}

fn action_words(action: ReferentialAction) -> Option<&'static str> {
    match action {
        ReferentialAction::NoAction => None,
        ReferentialAction::Restrict => Some("RESTRICT"),
        ReferentialAction::Cascade => Some("CASCADE"),
        ReferentialAction::SetNull => Some("SET NULL"),
        ReferentialAction::SetDefault => Some("SET DEFAULT"),
    }
}

/// What a column takes when no value is given; `None` for identity columns and those without a default.
pub(super) fn default(objects: &Objects, column: &ColumnDef) -> Option<String> {
    if column.identity.is_some() {
        return None;
    }
    if let Some(id) = column.sequence {
        let class = objects.class(oids::of_sequence(id))?;
        return Some(next_value(objects, class));
    }
    let written = |ty| written_type(objects, ty);
    if column.generated.is_some() {
        return declared_default(column, &written);
    }
    let text = column.default.as_deref()?;
    match crate::stored::sequences_named(text).as_slice() {
        [(schema, name)] if is_next_value(text) => {
            let named = objects.class_named(schema.as_deref(), name);
            Some(named.map_or_else(|| text.to_owned(), |class| next_value(objects, class)))
        }
        _ => declared_default(column, &written),
    }
}

/// The name of a type as it has to be written in a cast.
fn written_type(objects: &Objects, ty: ColumnType) -> String {
    let found = ty.user_type().and_then(|_| super::user_types::with_oid(objects, type_number(ty)));
    found.map_or_else(|| cast_name(ty), |found| found.written(objects))
}

fn next_value(objects: &Objects, class: &Class) -> String {
    format!("nextval({}::regclass)", literal(&objects.written_name(class)))
}

/// Whether an expression is a call of `nextval` and nothing else.
fn is_next_value(text: &str) -> bool {
    matches!(parse_expression(text), Ok(Expr::Function(function))
        if function.name.to_string().eq_ignore_ascii_case("nextval"))
}

/// An expression of a definition as PostgreSQL shows it: operators stand in parentheses, functions do not.
pub(crate) fn shown_expression(text: &str) -> String {
    let given = as_given(text);
    match parse_expression(text) {
        Ok(Expr::BinaryOp { .. } | Expr::UnaryOp { .. }) => format!("({given})"),
        _ => given.into_owned(),
    }
}

/// The declared default of a column; a text has its type, as PostgreSQL shows it, with the name that `written` gives it.
pub(crate) fn declared_default(column: &ColumnDef, written: &dyn Fn(ColumnType) -> String) -> Option<String> {
    if let Some(generated) = &column.generated {
        return Some(shown_expression(generated));
    }
    let text = column.default.as_ref()?;
    Some(match parse_expression(text) {
        Ok(Expr::Value(value)) if matches!(value.value, Value::SingleQuotedString(_) | Value::Null) => {
            format!("{text}::{}", written(column.ty))
        }
        Ok(Expr::Value(value)) => bit_literal(&value.value).unwrap_or_else(|| text.clone()),
        // As PostgreSQL spells the type.
        Ok(Expr::Cast { expr, data_type, .. }) if matches!(expr.as_ref(), Expr::Value(_)) => {
            // Names of enums are known by the column alone.
            let ty = crate::types::column_type(&data_type).ok().or(column.ty.user_type().map(|_| column.ty));
            ty.map_or_else(|| text.clone(), |ty| format!("{expr}::{}", written(ty)))
        }
        _ => as_given(text).into_owned(),
    })
}

/// A literal of a bit string as PostgreSQL shows it; `None` for any other.
fn bit_literal(value: &Value) -> Option<String> {
    let digits = match value {
        Value::SingleQuotedByteStringLiteral(digits) => format!("b{digits}"),
        Value::HexStringLiteral(digits) => format!("x{digits}"),
        _ => return None,
    };
    let kept = read_bits(&digits).ok()?;
    let mut text = String::new();
    format_value(ValueRef::Bytes(&kept), ColumnType::Bit(None), Tz::UTC, &mut text);
    Some(format!("{}::{}", literal(&text), cast_name(ColumnType::Bit(None))))
}

/// The query of a view, with its semicolon.
pub(super) fn view(view: &ViewDef) -> String {
    format!(" {};", as_given(&view.query))
}
