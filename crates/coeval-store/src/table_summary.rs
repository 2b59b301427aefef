// SPDX-License-Identifier: Apache-2.0
//! What is known of a table without reading its rows: how many there are, and bounds and NULLs of its columns.
//!
//! It is put together of what is known of each chunk when it is first asked for, and kept with the version of the table: a
//! planner asks many times in a statement, and mostly the next statement finds the same version. It goes when the version goes.

use crate::catalog::TableDef;
use crate::chunk_stats::ChunkStats;
use crate::space::Space;
use crate::value::Value;
use std::sync::{Arc, OnceLock};

/// What is known of a column without reading it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnSummary {
    /// The least value; of the base alone unless the summary is `exact`.
    pub min: Option<Value>,
    /// The greatest value; of the base alone unless the summary is `exact`.
    pub max: Option<Value>,
    /// How many are NULL, if known exactly.
    pub null_count: Option<u64>,
}

/// What is known of a table without reading it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSummary {
    /// How many rows, exactly.
    pub rows: u64,
    /// Whether the columns' bounds are exact: the delta is empty.
    pub exact: bool,
    /// Per column of the definition.
    pub columns: Vec<ColumnSummary>,
}

impl TableSummary {
    /// The summary of these rows, which are as many.
    fn of(def: &TableDef, space: &Space, rows: u64) -> Self {
        let exact = space.delta().is_empty();
        let mut columns: Vec<Option<ColumnSummary>> = vec![None; def.columns.len()];
        for (_, chunk) in space.base().iter() {
            for (column, summary) in columns.iter_mut().enumerate() {
                merge_stats(summary, chunk.stats(), column);
            }
        }
        let mut columns: Vec<_> = columns.into_iter().map(Option::unwrap_or_default).collect();
        for (summary, column) in columns.iter_mut().zip(&def.columns) {
            if column.not_null {
                summary.null_count = Some(0);
            } else if !exact {
                summary.null_count = None;
            }
        }
        Self { rows, exact, columns }
    }
}

/// The summary of one version of a table, made when it is first asked for. A copy of a table becomes another version, so that it
/// starts without.
#[derive(Debug, Default)]
pub(crate) struct KeptSummary(OnceLock<Arc<TableSummary>>);

impl Clone for KeptSummary {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl KeptSummary {
    /// The summary of these rows, which are as many.
    pub(crate) fn of(&self, def: &TableDef, space: &Space, rows: u64) -> &Arc<TableSummary> {
        self.0.get_or_init(|| Arc::new(TableSummary::of(def, space, rows)))
    }
}

fn merge_stats(summary: &mut Option<ColumnSummary>, stats: &ChunkStats, column: usize) {
    let Some(stats) = stats.columns.get(column) else {
        *summary = Some(ColumnSummary::default());
        return;
    };
    let of_chunk =
        ColumnSummary { min: stats.min.clone(), max: stats.max.clone(), null_count: Some(stats.null_count) };
    *summary = Some(match summary.take() {
        None => of_chunk,
        Some(sum) => ColumnSummary {
            min: pick(sum.min, of_chunk.min, |a, b| a <= b),
            max: pick(sum.max, of_chunk.max, |a, b| a >= b),
            null_count: sum.null_count.zip(of_chunk.null_count).map(|(a, b)| a + b),
        },
    });
}

fn pick(a: Option<Value>, b: Option<Value>, keep: impl Fn(&Value, &Value) -> bool) -> Option<Value> {
    let (a, b) = (a?, b?);
    Some(if keep(&a, &b) { a } else { b })
}
