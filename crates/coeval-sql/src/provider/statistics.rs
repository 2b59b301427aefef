// SPDX-License-Identifier: Apache-2.0
//! What the planner is told of a table: rows, bounds, NULLs, distinct values.
//!
//! Nothing is read for it. How many values there are in a column without bounds it tells if that was found out before: the rules for joins
//! ask samples of columns by which tables are joined.

use super::answers::Answers;
use crate::types::scalar_of;
use coeval_store::{ColumnType, TableDef, TableSummary, TableView, Value};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};

/// Assumed bytes of a text or bytea value beyond its view.
const TEXT_BYTES: usize = 24;

/// How many distinct values are assumed, at most, in a column about which nothing is known.
pub(crate) const UNKNOWN_DISTINCT: u64 = 200;

/// Distinct values of a column, roughly; a guess if nothing tells.
fn distinct_values(def: &TableDef, summary: &TableSummary, column: usize, answers: &Answers) -> u64 {
    let of_sample = || answers.column_values(def.id, column).map(|values| values as u64);
    let known = known_distinct_values(def, summary, column).or_else(of_sample);
    known.unwrap_or(summary.rows.min(UNKNOWN_DISTINCT))
}

/// Distinct values of a column, roughly: of a key as many as rows, of whole numbers as many as fit between its bounds;
/// `None` of others.
pub(crate) fn known_distinct_values(def: &TableDef, summary: &TableSummary, column: usize) -> Option<u64> {
    let is_key = def.primary_key == [column]
        || def.indexes.iter().any(|index| index.uniqueness.is_unique() && index.columns == [column]);
    if is_key {
        return Some(summary.rows);
    }
    let (min, max) = known_bounds(summary, column)?;
    Some(summary.rows.min(max.abs_diff(min).saturating_add(1)))
}

/// The least and the greatest value of a column of whole numbers, roughly: rows that were written lately may lie beyond.
pub(crate) fn known_bounds(summary: &TableSummary, column: usize) -> Option<(i64, i64)> {
    let number = |value: &Option<Value>| match value {
        Some(Value::Int16(value)) => Some(i64::from(*value)),
        Some(Value::Int32(value)) => Some(i64::from(*value)),
        Some(Value::Int64(value)) => Some(*value),
        _ => None,
    };
    let bounds = &summary.columns[column];
    Some((number(&bounds.min)?, number(&bounds.max)?))
}

/// The statistics of these columns of a view, of whose table samples have told this.
pub(super) fn of_view(view: &TableView, columns: &[usize], answers: &Answers) -> Statistics {
    let def = view.def();
    let summary = view.summary();
    let rows = usize::try_from(summary.rows).unwrap_or(usize::MAX);
    let column_statistics: Vec<_> =
        columns.iter().map(|&column| of_column(def, summary, column, rows, answers)).collect();
    let total: usize =
        column_statistics.iter().filter_map(|column| column.byte_size.get_value().copied()).sum();
    Statistics {
        num_rows: Precision::Exact(rows),
        total_byte_size: Precision::Inexact(total),
        column_statistics,
    }
}

/// The statistics of what a filter leaves, with the row count of its input times the share that passed.
pub(super) fn scaled(mut statistics: Statistics, rows: Precision<usize>, share: f64) -> Statistics {
    let scale = |count: usize| (count as f64 * share).ceil() as usize;
    let left = rows.map(scale).to_inexact();
    if let (Some(&now), Some(&then)) = (left.get_value(), statistics.num_rows.get_value()) {
        let per_row = |bytes: usize| bytes / then.max(1) * now;
        statistics.total_byte_size = statistics.total_byte_size.map(per_row).to_inexact();
        for column in &mut statistics.column_statistics {
            column.byte_size = column.byte_size.map(per_row).to_inexact();
            column.distinct_count = column.distinct_count.map(|count| count.min(now)).to_inexact();
        }
    }
    statistics.num_rows = left;
    statistics
}

fn of_column(
    def: &TableDef,
    summary: &TableSummary,
    column: usize,
    rows: usize,
    answers: &Answers,
) -> ColumnStatistics {
    let known = &summary.columns[column];
    let ty = def.columns[column].ty;
    let bound = |value: &Option<Value>| match value.as_ref().and_then(|value| scalar_of(value, ty).ok()) {
        Some(scalar) if summary.exact => Precision::Exact(scalar),
        Some(scalar) => Precision::Inexact(scalar),
        None => Precision::Absent,
    };
    let null_count = known.null_count.and_then(|count| usize::try_from(count).ok());
    let distinct = usize::try_from(distinct_values(def, summary, column, answers)).unwrap_or(usize::MAX);
    // Never exact: joins pass it on as it is, and a count of distinct values would be answered with it.
    let distinct_count = Precision::Inexact(distinct.min(rows.saturating_sub(null_count.unwrap_or(0))));
    ColumnStatistics {
        null_count: null_count.map_or(Precision::Absent, Precision::Exact),
        max_value: bound(&known.max),
        min_value: bound(&known.min),
        sum_value: Precision::<ScalarValue>::Absent,
        distinct_count,
        byte_size: Precision::Inexact(rows.saturating_mul(width(ty))),
    }
}

fn width(ty: ColumnType) -> usize {
    ty.arrow().primitive_width().unwrap_or(match ty {
        ColumnType::Boolean => 1,
        ColumnType::Uuid => 16,
        ColumnType::PgLsn => 8,
        ColumnType::TimeTz => 12,
        _ => 16 + TEXT_BYTES,
    })
}
