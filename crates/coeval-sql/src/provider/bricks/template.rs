// SPDX-License-Identifier: Apache-2.0
//! What a scan of bricks was planned with, without what its statement sees of them.
//!
//! Who sees the same epochs sees the same rows in the same bricks, so these are read again, by their ids. In between others may have appended
//! rows that nobody else sees yet, or purge may have removed some that nobody sees any more. Bricks are divided by all their rows, so they
//! may come to be divided otherwise. But there are as many parts as there were, which operators above count on; some may have nothing to read.

use super::{BrickPart, BrickScan, BrickSource, divided};
use crate::provider::StatementSnapshot;
use crate::provider::brick_hints::BrickHints;
use crate::provider::scan_template::Template;
use arrow::datatypes::SchemaRef;
use coeval_store::{BrickId, BrickView, TableDef};
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use std::sync::Arc;

/// Of a scan of more bricks nothing is kept: their ids take memory that is in no estimate of a plan.
const BRICKS_MAX: usize = 4_096;

/// See the module. Of the other fields each is the scan's own.
pub(in crate::provider) struct BrickScanTemplate {
    def: Arc<TableDef>,
    /// The bricks, in ascending order.
    bricks: Vec<BrickId>,
    rows: usize,
    pruned: usize,
    output: SchemaRef,
    projection: Arc<[usize]>,
    limit: Option<usize>,
    hints: BrickHints,
    parts_max: usize,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
}

impl BrickScan {
    /// What it was planned with; `None` if it has been told already what those above it look for, or reads very many bricks.
    pub(in crate::provider) fn template(&self) -> Option<BrickScanTemplate> {
        if !self.hints.is_empty() || self.source.bricks > BRICKS_MAX {
            return None;
        }
        let parts = self.source.parts.iter().flatten();
        let mut bricks: Vec<BrickId> = parts.map(|part| part.brick.id()).collect();
        bricks.sort_unstable();
        bricks.dedup();
        Some(BrickScanTemplate {
            def: Arc::clone(&self.source.def),
            bricks,
            rows: self.source.rows,
            pruned: self.source.pruned,
            output: Arc::clone(&self.output),
            projection: Arc::clone(&self.projection),
            limit: self.limit,
            hints: self.hints.clone(),
            parts_max: self.parts_max,
            statistics: Arc::clone(&self.statistics),
            properties: Arc::clone(&self.properties),
        })
    }
}

impl Template for BrickScanTemplate {
    fn scan(&self, snapshot: &StatementSnapshot) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(snapshot) = snapshot.bricks(self.def.id).cloned() else {
            return internal_err!("a kept plan reads a table that the statement does not name");
        };
        let is_read = |brick: &&BrickView| self.bricks.binary_search(&brick.id()).is_ok();
        let bricks: Vec<BrickView> = snapshot.bricks().iter().filter(is_read).cloned().collect();
        if bricks.len() != self.bricks.len() {
            return internal_err!("a kept plan reads another version of a table");
        }
        debug_assert_eq!(
            bricks.iter().map(|brick| snapshot.visible_rows(brick)).sum::<usize>(),
            self.rows,
            "who sees the same epochs sees the same rows"
        );
        let count = self.properties.output_partitioning().partition_count();
        let parts = in_parts(bricks, self.parts_max, count).into();
        let (def, bricks) = (Arc::clone(&self.def), self.bricks.len());
        let source = BrickSource { snapshot, def, parts, bricks, rows: self.rows, pruned: self.pruned };
        Ok(Arc::new(BrickScan {
            source,
            output: Arc::clone(&self.output),
            projection: Arc::clone(&self.projection),
            limit: self.limit,
            hints: self.hints.clone(),
            parts_max: self.parts_max,
            statistics: Arc::clone(&self.statistics),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }
}

/// The bricks in this many parts: as they are divided for at most `count_max` parts, if that gives so many of them.
fn in_parts(bricks: Vec<BrickView>, count_max: usize, count: usize) -> Vec<Vec<BrickPart>> {
    let mut parts = divided(bricks.clone(), count_max);
    if parts.len() > count {
        parts = divided(bricks, count);
    }
    parts.resize_with(count, Vec::new);
    parts
}

#[cfg(test)]
mod tests;
