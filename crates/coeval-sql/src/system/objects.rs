// SPDX-License-Identifier: Apache-2.0
//! `information_schema` on schemas, tables, columns, views and sequences.

use super::rows::{Rows, integer, table_defs, text, yes_or_no};
use super::{DATABASE_NAME, INFORMATION_SCHEMA};
use crate::catalog::ViewColumns;
use crate::column_name::internal_name;
use crate::parse::as_given;
use crate::stored::updatable::Updatable;
use crate::temporary::is_temporary;
use crate::types;
use coeval_store::{
    CheckOption, ColumnDef, ColumnState, ColumnType, Identity, SECOND_DIGITS_MAX, SequenceDef, Transaction,
    ValueRef, ViewDef,
};
use std::sync::Arc;

const TEXT: ColumnType = ColumnType::Text;
const INT: ColumnType = ColumnType::Int;

pub(super) fn catalog_name() -> Rows {
    let mut rows = Rows::new(&[(TEXT, "catalog_name")]);
    rows.push([text(DATABASE_NAME)]);
    rows
}

pub(super) fn schemata(transaction: &Transaction) -> Rows {
    let mut rows = Rows::new(&[(TEXT, "catalog_name schema_name schema_owner")]);
    for schema in transaction.catalog().schemas().chain([INFORMATION_SCHEMA, crate::relations::PG_CATALOG]) {
        let access = crate::rights::schema_access(transaction.catalog(), schema);
        let owner = access.owner.as_deref().unwrap_or(DATABASE_NAME);
        rows.push([text(DATABASE_NAME), text(schema), text(owner)]);
    }
    rows
}

pub(super) fn tables(transaction: &Transaction) -> Rows {
    let mut rows =
        Rows::new(&[(TEXT, "table_catalog table_schema table_name table_type is_insertable_into")]);
    let mut push = |schema: &str, name: &str, kind: &str, insertable: bool| {
        rows.push([text(DATABASE_NAME), text(schema), text(name), text(kind), yes_or_no(insertable)]);
    };
    for (name, _) in table_defs(transaction) {
        let kind = if is_temporary(&name.schema) { "LOCAL TEMPORARY" } else { "BASE TABLE" };
        push(&name.schema, &name.name, kind, true);
    }
    for view in transaction.catalog().views() {
        push(&view.name.schema, &view.name.name, "VIEW", is_updatable(view, transaction));
    }
    for (schema, name, kind) in crate::relations::own_relations() {
        push(schema, name, kind, false);
    }
    rows
}

pub(super) fn views(transaction: &Transaction) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "table_catalog table_schema table_name view_definition check_option is_updatable"),
        (TEXT, "is_insertable_into is_trigger_updatable is_trigger_deletable is_trigger_insertable_into"),
    ]);
    for view in transaction.catalog().views() {
        let is_updatable = is_updatable(view, transaction);
        rows.push([
            text(DATABASE_NAME),
            text(&view.name.schema),
            text(&view.name.name),
            text(&as_given(&view.query)),
            text(match view.check {
                None => "NONE",
                Some(CheckOption::Local) => "LOCAL",
                Some(CheckOption::Cascaded) => "CASCADED",
            }),
            yes_or_no(is_updatable),
            yes_or_no(is_updatable),
            // There are no triggers.
            yes_or_no(false),
            yes_or_no(false),
            yes_or_no(false),
        ]);
    }
    rows
}

/// Whether rows are written through a view.
fn is_updatable(view: &Arc<ViewDef>, transaction: &Transaction) -> bool {
    updatable_columns(view, transaction).iter().any(|is_updatable| *is_updatable)
}

/// For each column of a view whether values are written through it; none if no rows are.
fn updatable_columns(view: &Arc<ViewDef>, transaction: &Transaction) -> Vec<bool> {
    match Updatable::of_view(view, transaction) {
        Ok(updatable) if updatable.table.bricks.is_none() && updatable.table.foreign.is_none() => {
            updatable.columns.iter().map(|column| column.base.is_some()).collect()
        }
        _ => Vec::new(),
    }
}

pub(super) fn sequences(transaction: &Transaction) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "sequence_catalog sequence_schema sequence_name data_type"),
        (INT, "numeric_precision numeric_precision_radix numeric_scale"),
        (TEXT, "start_value minimum_value maximum_value increment cycle_option"),
    ]);
    for sequence in transaction.catalog().sequences() {
        let owner = sequence
            .owned_by
            .and_then(|(table, column)| transaction.table_def(table).ok()?.columns.get(column));
        // Those of identity columns and hidden ones are parts of their tables.
        if owner.is_some_and(|column| column.identity.is_some() || column.state != ColumnState::Live) {
            continue;
        }
        let ty = sequence.ty.column_type();
        let number = NumberFacts::of(ty);
        rows.push([
            text(DATABASE_NAME),
            text(&sequence.name.schema),
            text(&sequence.name.name),
            text(&type_name(ty)),
            integer(number.precision),
            integer(number.radix),
            integer(number.scale),
            text(&sequence.start.to_string()),
            text(&sequence.min.to_string()),
            text(&sequence.max.to_string()),
            text(&sequence.increment.to_string()),
            yes_or_no(sequence.cycle),
        ]);
    }
    rows
}

/// Where a column stands.
struct Place<'a> {
    schema: &'a str,
    table: &'a str,
    column: &'a str,
    position: usize,
    is_updatable: bool,
}

/// What is the same for the columns of tables and of views. An identity column takes its values of a sequence.
fn push_column(
    rows: &mut Rows,
    place: &Place<'_>,
    column: &ColumnDef,
    default: Option<&str>,
    identity: Option<&SequenceDef>,
) {
    let number = NumberFacts::of(column.ty);
    let bounds = identity.map(|sequence| {
        [sequence.start, sequence.increment, sequence.max, sequence.min].map(|bound| bound.to_string())
    });
    let bound = |place: usize| bounds.as_ref().map_or(ValueRef::Null, |bounds| text(&bounds[place]));
    rows.push([
        text(DATABASE_NAME),
        text(place.schema),
        text(place.table),
        text(place.column),
        integer(i32::try_from(place.position).ok()),
        default.map_or(ValueRef::Null, text),
        yes_or_no(!column.not_null),
        text(&type_name(column.ty)),
        integer(length_max(column.ty)),
        integer(octets_max(column.ty)),
        integer(number.precision),
        integer(number.radix),
        integer(number.scale),
        integer(datetime_precision(column)),
        text(DATABASE_NAME),
        text(column.ty.user_type().map_or("pg_catalog", |ty| &ty.def().name.schema)),
        text(&internal_type_name(column.ty)),
        text(&place.position.to_string()),
        yes_or_no(false),
        yes_or_no(column.identity.is_some()),
        match column.identity {
            Some(Identity::Always) => text("ALWAYS"),
            Some(Identity::ByDefault) => text("BY DEFAULT"),
            None => ValueRef::Null,
        },
        bound(0),
        bound(1),
        bound(2),
        bound(3),
        yes_or_no(identity.is_some_and(|sequence| sequence.cycle)),
        text(if column.generated.is_some() { "ALWAYS" } else { "NEVER" }),
        column.generated.as_deref().map_or(ValueRef::Null, text),
        yes_or_no(place.is_updatable),
    ]);
}

pub(super) fn columns(transaction: &Transaction, view_columns: &ViewColumns) -> Rows {
    let mut rows = Rows::new(&[
        (TEXT, "table_catalog table_schema table_name column_name"),
        (INT, "ordinal_position"),
        (TEXT, "column_default is_nullable data_type"),
        (INT, "character_maximum_length character_octet_length numeric_precision"),
        (INT, "numeric_precision_radix numeric_scale datetime_precision"),
        (TEXT, "udt_catalog udt_schema udt_name dtd_identifier is_self_referencing is_identity"),
        (TEXT, "identity_generation identity_start identity_increment identity_maximum identity_minimum"),
        (TEXT, "identity_cycle is_generated generation_expression is_updatable"),
    ]);
    for (name, def) in table_defs(transaction) {
        for (position, (_, column)) in def.live_columns().enumerate() {
            let default = default_text(transaction, column);
            let place = Place {
                schema: &name.schema,
                table: &name.name,
                column: &column.name,
                position: position + 1,
                is_updatable: true,
            };
            let default = default.filter(|_| column.generated.is_none());
            let identity = column.sequence.filter(|_| column.identity.is_some());
            let identity = identity.and_then(|sequence| transaction.catalog().sequence(sequence));
            push_column(&mut rows, &place, column, default.as_deref(), identity.map(Arc::as_ref));
        }
    }
    for (name, columns) in view_columns {
        let view = transaction.catalog().view(name);
        let updatable = view.map(|view| updatable_columns(view, transaction)).unwrap_or_default();
        for (position, column) in columns.iter().enumerate() {
            let place = Place {
                schema: &name.schema,
                table: &name.name,
                column: &column.name,
                position: position + 1,
                is_updatable: updatable.get(position).copied().unwrap_or(false),
            };
            let default = column.default.clone();
            let column = ColumnDef { default, ..ColumnDef::new(&column.name, column.ty) };
            let default = default_text(transaction, &column);
            push_column(&mut rows, &place, &column, default.as_deref(), None);
        }
    }
    rows
}

/// What a column takes when no value is given, as SQL; identity columns show none, as in PostgreSQL.
fn default_text(transaction: &Transaction, column: &ColumnDef) -> Option<String> {
    match (column.identity, column.sequence) {
        (None, Some(id)) => transaction
            .catalog()
            .sequence(id)
            .map(|sequence| format!("nextval('{}'::regclass)", sequence.name)),
        (None, None) => crate::catalog::declared_default(column, &crate::types::cast_name),
        (Some(_), _) => None,
    }
}

struct NumberFacts {
    precision: Option<i32>,
    radix: Option<i32>,
    scale: Option<i32>,
}

impl NumberFacts {
    fn of(ty: ColumnType) -> Self {
        let (precision, radix, scale) = match ty {
            ColumnType::SmallInt => (16, 2, Some(0)),
            ColumnType::Int => (32, 2, Some(0)),
            ColumnType::BigInt => (64, 2, Some(0)),
            ColumnType::Real => (24, 2, None),
            ColumnType::Double => (53, 2, None),
            ColumnType::Numeric { precision, scale } => (i32::from(precision), 10, Some(i32::from(scale))),
            ColumnType::AnyNumeric => return Self { precision: None, radix: Some(10), scale: None },
            ColumnType::Boolean
            | ColumnType::Text
            | ColumnType::Varchar(_)
            | ColumnType::Char(_)
            | ColumnType::Bytea
            | ColumnType::Bit(_)
            | ColumnType::Varbit(_)
            | ColumnType::Date
            | ColumnType::Time
            | ColumnType::TimeTz
            | ColumnType::Timestamp
            | ColumnType::TimestampTz
            | ColumnType::Interval
            | ColumnType::Uuid
            | ColumnType::PgLsn
            | ColumnType::Json
            | ColumnType::Jsonb
            | ColumnType::Enum(_)
            | ColumnType::Array(_) => return Self { precision: None, radix: None, scale: None },
        };
        Self { precision: Some(precision), radix: Some(radix), scale }
    }
}

fn length_max(ty: ColumnType) -> Option<i32> {
    match ty {
        ColumnType::Varchar(length)
        | ColumnType::Char(length)
        | ColumnType::Bit(Some(length))
        | ColumnType::Varbit(Some(length)) => i32::try_from(length).ok(),
        _ => None,
    }
}

/// Bytes that a text can take at most: four for each of its letters.
fn octets_max(ty: ColumnType) -> Option<i32> {
    match ty {
        ColumnType::Varchar(length) | ColumnType::Char(length) => i32::try_from(length).ok()?.checked_mul(4),
        ColumnType::Text => Some(1 << 30),
        _ => None,
    }
}

fn datetime_precision(column: &ColumnDef) -> Option<i32> {
    match column.ty {
        ColumnType::Date => Some(0),
        ColumnType::Time
        | ColumnType::TimeTz
        | ColumnType::Timestamp
        | ColumnType::TimestampTz
        | ColumnType::Interval => Some(column.second_digits.unwrap_or(SECOND_DIGITS_MAX).into()),
        _ => None,
    }
}

/// The type without its length or precision.
fn type_name(ty: ColumnType) -> String {
    match ty {
        ColumnType::Enum(_) => "USER-DEFINED".to_owned(),
        ColumnType::Array(_) => "ARRAY".to_owned(),
        other => types::type_name(other),
    }
}

/// The name of the type in PostgreSQL's catalog.
fn internal_type_name(ty: ColumnType) -> String {
    match ty {
        ColumnType::Array(element) => format!("_{}", internal_type_name(element.column_type())),
        ColumnType::Enum(ty) => ty.def().name.name.clone(),
        other => internal_name(&types::type_name(other)),
    }
}
