// SPDX-License-Identifier: Apache-2.0
//! What a query asks of a table, whatever keeps the table's rows.

use super::prune::SourceColumn;
use arrow::datatypes::SchemaRef;
use coeval_store::TableDef;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// What a scan is made of beside the snapshot.
pub(super) struct ScanRequest {
    pub(super) def: Arc<TableDef>,
    /// All columns that the query can name.
    pub(super) schema: SchemaRef,
    /// For each of them its index in the definition.
    pub(super) columns: Vec<usize>,
    /// Those that go out.
    pub(super) projection: Vec<usize>,
    /// All must hold; over `schema`. Where rows are in bricks, those without such rows are left out, and the plan asks of the others.
    pub(super) filters: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) limit: Option<usize>,
    pub(super) partitions: usize,
}

impl ScanRequest {
    /// The columns of the schema as predicates over it see them.
    pub(super) fn source_columns(&self) -> Vec<SourceColumn> {
        let column = |&index: &usize| SourceColumn { index, ty: self.def.columns[index].ty };
        self.columns.iter().map(column).collect()
    }

    /// The places that the columns which go out have in a row; `None` if one has none.
    pub(super) fn places(&self) -> Option<Vec<usize>> {
        let live: Vec<usize> = self.def.live_columns().map(|(index, _)| index).collect();
        let place = |field: &usize| live.iter().position(|index| *index == self.columns[*field]);
        self.projection.iter().map(place).collect()
    }
}
