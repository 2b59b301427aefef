// SPDX-License-Identifier: Apache-2.0
//! What a part of a scan counts.

use super::row_filter::Filter;
use coeval_store::ScanCounters;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder};

/// What a scan counts, shown by EXPLAIN ANALYZE.
pub(super) struct ScanMetrics {
    pub(super) baseline: BaselineMetrics,
    /// Rows that filters were asked of.
    pub(super) rows_scanned: Count,
    chunks_read: Count,
    chunks_pruned: Count,
    delta_rows: Count,
    /// Rows that joins do not look for.
    pub(super) without_partner: WithoutPartner,
}

/// Counts rows that joins do not look for, if their keys are noted.
#[derive(Default)]
pub(super) struct WithoutPartner(Option<Count>);

impl ScanMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            baseline: BaselineMetrics::new(metrics, partition),
            chunks_read: count("chunks_read"),
            chunks_pruned: count("chunks_pruned"),
            delta_rows: count("delta_rows"),
            rows_scanned: count("rows_scanned"),
            without_partner: WithoutPartner::default(),
        }
    }

    /// Those of a scan that asks for keys of joins.
    pub(super) fn with_join_keys(self, metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self { without_partner: WithoutPartner::counted(metrics, partition), ..self }
    }

    /// Takes note of what has been read since it was last told.
    pub(super) fn note_read(&self, now: ScanCounters) {
        for (metric, value) in [
            (&self.chunks_read, now.chunks_read),
            (&self.chunks_pruned, now.chunks_pruned),
            (&self.delta_rows, now.delta_rows),
        ] {
            metric.add(value - metric.value().min(value));
        }
    }
}

impl WithoutPartner {
    /// Those of a part of a scan that asks for keys of joins.
    pub(super) fn counted(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self(Some(MetricBuilder::new(metrics).counter("rows_without_partner", partition)))
    }

    /// So many rows were left before a filter was asked, and so many behind it.
    pub(super) fn note(&self, filter: &Filter, asked: usize, passed: usize) {
        if let Some(rows) = self.0.as_ref().filter(|_| filter.is_of_join_keys()) {
            rows.add(asked - passed);
        }
    }
}
