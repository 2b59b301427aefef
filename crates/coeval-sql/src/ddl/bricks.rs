// SPDX-License-Identifier: Apache-2.0
//! Brick tables: their dimensions, and how long their rows are kept.

use super::storage_parameters;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::parse::{BrickClause, DimensionClause};
use crate::types::{is_text, read_date, read_interval, read_timestamp};
use chrono_tz::Tz;
use coeval_store::{
    BrickDef, BrickDimension, CatalogChange, ColumnDef, ColumnType, QualifiedName, Retention,
};
use datafusion::sql::sqlparser::ast::{Ident, SqlOption, TableConstraint};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// How far dates and timestamps without a CARDINALITY reach from their origin, 1970 if there is none: into the 23rd
/// century.
const DAYS_REACHED: i64 = 84_000;

/// The layout of a table of these columns. Dimensions become NOT NULL.
///
/// # Errors
/// `42703` for an unknown column, `42701` for one named twice, `42P16` for a dimension that cannot be one, `0A000` for
/// a constraint.
pub(super) fn layout(
    clause: &BrickClause,
    columns: &mut [ColumnDef],
    constraints: &[TableConstraint],
    zone: Tz,
) -> Result<BrickDef, SqlError> {
    if let Some(constraint) = constraints.first() {
        let message = format!("a brick table takes no constraint such as {constraint}");
        return Err(SqlError::new(SqlState::FeatureNotSupported, message).with_hint(
            "Its rows are appended without being looked for. Columns may be NOT NULL, and dimensions bound their values.",
        ));
    }
    let refused = columns.iter().find_map(|column| Some((column, in_place_of(column.ty)?)));
    if let Some((column, hint)) = refused {
        let message = format!("column \"{}\": a brick table holds no {}", column.name, column.ty);
        return Err(SqlError::new(SqlState::FeatureNotSupported, message).with_hint(hint));
    }
    if let Some(column) = columns.iter().find(|column| column.ty == ColumnType::AnyNumeric) {
        let message = format!("column \"{}\": a brick table holds no numeric without digits", column.name);
        return Err(SqlError::new(SqlState::FeatureNotSupported, message)
            .with_hint("Say how many digits it has: numeric(38,10)."));
    }
    let mut dimensions: Vec<BrickDimension> = Vec::new();
    for dimension in &clause.dimensions {
        let name = fold(&dimension.column);
        let Some(column) = columns.iter().position(|column| column.name == name) else {
            let message = format!("column \"{name}\" named in PARTITION BY does not exist");
            return Err(SqlError::new(SqlState::UndefinedColumn, message));
        };
        if dimensions.iter().any(|known| known.column == column) {
            let message = format!("column \"{name}\" appears twice in PARTITION BY");
            return Err(SqlError::new(SqlState::DuplicateColumn, message));
        }
        dimensions.push(read(dimension, column, &columns[column], zone)?);
        columns[column].not_null = true;
    }
    dimensions.sort_by_key(|dimension| dimension.column);
    Ok(BrickDef { dimensions, retention: None, replicas: None })
}

/// What to have in the place of a column of a type that brick tables do not hold; `None` if they hold it.
fn in_place_of(ty: ColumnType) -> Option<&'static str> {
    match ty {
        ColumnType::Array(_) => Some("Append a row for each element, or keep the array as jsonb."),
        ColumnType::Enum(_) => Some("Keep its labels as text."),
        ColumnType::PgLsn | ColumnType::Bit(_) | ColumnType::Varbit(_) => Some("Keep it as text."),
        ColumnType::TimeTz => Some("Use timestamptz, or time and the name of the zone."),
        _ => None,
    }
}

/// On how many nodes of a cluster each brick of a new table is; `None` for a table that is here alone. In a database of a
/// cluster a table is spread unless `replicas = 0` says otherwise: whoever makes a brick table there wants it on all nodes.
///
/// # Errors
/// `22023` for another number than the cluster has, `55000` for replicas without a cluster; those of parameters.
pub(super) fn replicas(
    context: &StatementContext<'_>,
    options: &[SqlOption],
) -> Result<Option<u32>, SqlError> {
    let asked = storage_parameters::replicas(options)?;
    let Some(cluster) = context.engine.cluster() else {
        return match asked {
            None | Some(0) => Ok(None),
            Some(_) => {
                let message =
                    "replicas of bricks are on other nodes of a cluster, and this database is in none";
                Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
                    .with_hint("Serve it with --cluster, or leave out replicas."))
            }
        };
    };
    let there = cluster.replicas();
    match asked {
        Some(0) => Ok(None),
        Some(asked) if usize::try_from(asked) != Ok(there) => {
            let message = format!("the cluster keeps each brick on {there} nodes, and not on {asked}");
            Err(SqlError::new(SqlState::InvalidParameterValue, message).with_hint(
                "Leave out replicas. With 0 the table is this database's own, and on its replicas by the log.",
            ))
        }
        Some(_) | None => Ok(Some(u32::try_from(there).unwrap_or(u32::MAX))),
    }
}

fn read(
    clause: &DimensionClause,
    column: usize,
    def: &ColumnDef,
    zone: Tz,
) -> Result<BrickDimension, SqlError> {
    let invalid = |what: String| {
        SqlError::new(SqlState::InvalidTableDefinition, format!("dimension \"{}\": {what}", def.name))
    };
    let is_text = is_text(def.ty);
    let is_number = matches!(def.ty, ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt);
    let is_moment = matches!(def.ty, ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz);
    if !(is_text || is_number || is_moment) {
        let what = format!("{} cannot be a dimension; integers, dates, timestamps and texts can", def.ty);
        return Err(invalid(what));
    }
    let amount = |text: &String, what: &str| {
        let found = amount(text, def.ty).filter(|amount| *amount > 0);
        let hint = if is_moment { "a number or an interval without months" } else { "a number" };
        found.ok_or_else(|| invalid(format!("{what} {text} is not {hint} above zero")))
    };
    let range_size =
        clause.range_size.as_ref().map(|text| amount(text, "RANGE SIZE")).transpose()?.unwrap_or(1);
    let cardinality = match &clause.cardinality {
        Some(text) => amount(text, "CARDINALITY")?,
        None if is_moment => {
            let reach = if def.ty == ColumnType::Date { DAYS_REACHED } else { DAYS_REACHED * MICROS_PER_DAY };
            (reach as u64).div_ceil(range_size).saturating_mul(range_size)
        }
        None => return Err(invalid("CARDINALITY, the number of different values, is missing".to_owned())),
    };
    let origin = match &clause.origin {
        None => 0,
        Some(_) if is_text => return Err(invalid("texts are in no order, so FROM means nothing".to_owned())),
        Some(text) => origin(text, def.ty, zone)
            .ok_or_else(|| invalid(format!("FROM '{text}' is no value of type {}", def.ty)))?,
    };
    Ok(BrickDimension { column, cardinality, range_size, origin })
}

/// A number of values, written as such or as an interval.
fn amount(text: &str, ty: ColumnType) -> Option<u64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    span(text, ty)?.try_into().ok()
}

/// An interval in the unit of a column: days or microseconds.
fn span(text: &str, ty: ColumnType) -> Option<i64> {
    let interval = read_interval(text).ok().filter(|interval| interval.months == 0)?;
    let micros =
        i64::from(interval.days).checked_mul(MICROS_PER_DAY)?.checked_add(interval.nanoseconds / 1_000)?;
    match ty {
        ColumnType::Date => (micros % MICROS_PER_DAY == 0).then_some(micros / MICROS_PER_DAY),
        ColumnType::Timestamp | ColumnType::TimestampTz => Some(micros),
        _ => None,
    }
}

fn origin(text: &str, ty: ColumnType, zone: Tz) -> Option<i64> {
    match ty {
        ColumnType::Date => read_date(text).ok().map(i64::from),
        ColumnType::Timestamp => read_timestamp(text, None).ok(),
        ColumnType::TimestampTz => read_timestamp(text, Some(zone)).ok(),
        _ => text.parse().ok(),
    }
}

/// How long rows are kept, as `SET RETENTION 'interval' ON column` and `DROP RETENTION` say it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RetentionChange {
    /// For so long.
    Keep(String, Ident),
    /// For ever.
    Drop,
}

/// ALTER TABLE ... SET RETENTION.
///
/// # Errors
/// `42809` for another table, `42P16` for a column that is no date or timestamp dimension, `22007` for what is no
/// interval.
pub(super) fn set_retention(
    context: &mut StatementContext<'_>,
    name: &QualifiedName,
    change: &RetentionChange,
) -> Result<(), SqlError> {
    let found = context.transaction.resolve_table(name).filter(|def| def.bricks.is_some());
    let Some(def) = found else {
        return Err(SqlError::new(SqlState::WrongObjectType, format!("\"{name}\" is not a brick table")));
    };
    if def.is_spread() && *change != RetentionChange::Drop {
        let message = format!("SET RETENTION of \"{name}\", whose bricks are spread over a cluster,");
        return Err(SqlError::unsupported(message).with_hint(
            "Delete what is too old: DELETE FROM a_table WHERE day < a_day, at the borders of ranges.",
        ));
    }
    let mut changed = def.as_ref().clone();
    let bricks = changed.bricks.as_mut().expect("it is a brick table");
    bricks.retention = match change {
        RetentionChange::Drop => None,
        RetentionChange::Keep(text, column) => {
            let column = fold(column);
            let dimension = def.column_index(&column).filter(|index| bricks.dimension_of(*index).is_some());
            let ty = dimension.map(|index| def.columns[index].ty);
            let (
                Some(index),
                Some(ty @ (ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz)),
            ) = (dimension, ty)
            else {
                let message = format!("\"{column}\" is no date or timestamp dimension of \"{name}\"");
                return Err(SqlError::new(SqlState::InvalidTableDefinition, message));
            };
            let keep = span(text, ty).filter(|keep| *keep > 0).ok_or_else(|| {
                let message = format!("retention '{text}' is no interval above zero in days or less");
                SqlError::new(SqlState::InvalidDatetimeFormat, message)
            })?;
            Some(Retention { column: index, keep })
        }
    };
    context.transaction.change_catalog(CatalogChange::PutTable(Box::new(changed)))?;
    Ok(())
}
