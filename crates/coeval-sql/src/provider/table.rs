// SPDX-License-Identifier: Apache-2.0
//! A table's provider: its definition, without rows. The rows come from the snapshot of the statement.

use super::bricks::BrickScan;
use super::column_field::field_of_column;
use super::dimensions::selected;
use super::extent::extents;
use super::prune::Pruner;
use super::request::ScanRequest;
use super::scan::Scan;
use super::snapshot::StatementSnapshot;
use super::spread::SpreadScan;
use crate::carried::Carry;
use crate::error::SqlError;
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use coeval_store::{BrickSnapshot, ColumnState, NOTED_ROWS_MAX, Scanned, TableDef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Constraint, Constraints, DFSchema};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;

/// Whether the hidden row id of a table without a primary key is among its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HiddenColumns {
    /// As users see the table.
    Left,
    /// DML, which addresses rows by their key.
    Shown,
}

/// Whether the planner is told the primary keys of tables. What it makes of them is wrong where groups of a join have
/// several rows of the key's table: it takes the key for one of the groups, and drops what stands behind it in GROUP BY
/// and ORDER BY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// For queries that select what is not grouped by and depends on a key that is.
    Told,
    Untold,
}

/// A row table as DataFusion's planner sees it.
#[derive(Debug)]
pub(crate) struct CoevalTable {
    def: Arc<TableDef>,
    schema: SchemaRef,
    /// For each field of the schema the column's index in the definition.
    columns: Vec<usize>,
    /// The columns of the definition that may be read, if these are not all.
    readable: Option<Vec<usize>>,
    constraints: Constraints,
}

impl CoevalTable {
    /// The provider of this table.
    pub(crate) fn new(def: Arc<TableDef>, hidden: HiddenColumns, keys: Keys) -> Self {
        let is_shown = |state: ColumnState| match state {
            ColumnState::Live => true,
            // Rows of bricks have no row id.
            ColumnState::Hidden => hidden == HiddenColumns::Shown && def.bricks.is_none(),
            ColumnState::Computed | ColumnState::Dropped { .. } | ColumnState::Retired { .. } => false,
        };
        let columns: Vec<usize> =
            (0..def.columns.len()).filter(|&index| is_shown(def.columns[index].state)).collect();
        let fields: Vec<Field> = columns.iter().map(|&index| field_of_column(&def.columns[index])).collect();
        let place = |column: &usize| columns.iter().position(|shown| shown == column);
        let key: Option<Vec<usize>> = def.primary_key.iter().map(place).collect();
        let told = key.filter(|_| keys == Keys::Told);
        let constraints = told.map(Constraint::PrimaryKey).into_iter().collect();
        Self {
            def,
            schema: Arc::new(Schema::new(fields)),
            columns,
            readable: None,
            constraints: Constraints::new_unverified(constraints),
        }
    }

    /// The same for a statement that may read these columns of the definition alone. Its plan has to be checked for others.
    pub(crate) fn of_columns(self, readable: Vec<usize>) -> Self {
        Self { readable: Some(readable), ..self }
    }

    /// Whether the column of this name may be read.
    pub(crate) fn is_readable(&self, name: &str) -> bool {
        let Some(readable) = &self.readable else { return true };
        // Rights are those of now, and may be of columns that the statement's snapshot does not have.
        let mut columns = readable.iter().filter_map(|column| self.def.columns.get(*column));
        columns.any(|column| column.is_live() && column.name == name)
    }

    /// The table's definition.
    pub(crate) fn def(&self) -> &Arc<TableDef> {
        &self.def
    }

    /// For each field of the schema the column's index in the definition.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Filters as they run on rows of the schema. Without any, its names need no index.
    fn compiled(&self, filters: &[Expr], state: &dyn Session) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        if filters.is_empty() {
            return Ok(Vec::new());
        }
        let schema = DFSchema::try_from(self.schema.clone())?;
        filters.iter().map(|filter| state.create_physical_expr(filter.clone(), &schema)).collect()
    }

    /// The scan of bricks that are here.
    fn scan_bricks(
        &self,
        (snapshot, bricks): (&StatementSnapshot, &BrickSnapshot),
        request: ScanRequest,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if snapshot.collects_scans() {
            let selection =
                selected(bricks.selection(), &self.def, &request.filters, &request.source_columns());
            snapshot.add_scan((self.def.id, bricks.scanned(&selection)))?;
        }
        Ok(Arc::new(BrickScan::try_new(bricks.clone(), request)?))
    }
}

#[async_trait]
impl TableProvider for CoevalTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        if self.def.foreign.is_some() {
            return Ok(vec![TableProviderFilterPushDown::Unsupported; filters.len()]);
        }
        Ok(filters
            .iter()
            .map(|filter| {
                if is_plain(filter) && self.def.bricks.is_some() {
                    TableProviderFilterPushDown::Inexact
                } else if is_plain(filter) {
                    TableProviderFilterPushDown::Exact
                } else {
                    TableProviderFilterPushDown::Unsupported
                }
            })
            .collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (logical, filters_are_empty) = (filters, filters.is_empty());
        let snapshot = StatementSnapshot::carried_by(state.config_options());
        let filters = self.compiled(logical, state)?;
        let projection = projection.cloned().unwrap_or_else(|| (0..self.columns.len()).collect());
        let unknown =
            || SqlError::internal(format!("table \"{}\" is planned without a snapshot", self.def.name));
        if self.def.foreign.is_some() {
            let rows = snapshot.and_then(|snapshot| snapshot.foreign(self.def.id)).ok_or_else(unknown)?;
            let batches = [rows.batches.clone()];
            let plan = MemorySourceConfig::try_new_exec(&batches, self.schema.clone(), Some(projection))?;
            return Ok(plan);
        }
        let (def, schema, columns) = (Arc::clone(&self.def), self.schema.clone(), self.columns.clone());
        let partitions = state.config().target_partitions();
        let mut request = ScanRequest { def, schema, columns, projection, filters, limit, partitions };
        if self.def.is_spread() {
            let seen = snapshot.and_then(StatementSnapshot::spread).ok_or_else(unknown)?;
            return Ok(Arc::new(SpreadScan::try_new(Arc::clone(seen), request).await?));
        }
        if self.def.bricks.is_some() {
            let found = snapshot.and_then(|snapshot| Some((snapshot, snapshot.bricks(self.def.id)?)));
            // Filters are above the scan, so a limit is not the scan's.
            request.limit = limit.filter(|_| filters_are_empty);
            return self.scan_bricks(found.ok_or_else(unknown)?, request);
        }
        let found = snapshot.and_then(|snapshot| Some((snapshot, snapshot.view(self.def.id)?)));
        let (snapshot, view) = found.ok_or_else(unknown)?;
        if snapshot.collects_scans() {
            let first = limit.filter(|&rows| request.filters.is_empty() && rows <= NOTED_ROWS_MAX);
            if first.is_some() {
                // Which rows are the first does not depend on how the scan is divided then.
                request.partitions = 1;
            }
            let extents = match first {
                Some(rows) => vec![Scanned::First(rows)],
                None => extents(&self.def, &Pruner::of_all(&request.filters, &request.source_columns())),
            };
            snapshot.add_scan((self.def.id, extents))?;
        }
        Ok(Arc::new(Scan::try_new(view.clone(), request)?.asking(snapshot.answers(), logical)))
    }
}

/// Whether a predicate can be evaluated on a row alone, as often as one likes. A parameter in it has its value before the table is scanned.
fn is_plain(filter: &Expr) -> bool {
    let mut plain = !filter.is_volatile();
    // The closure cannot fail.
    let _ = filter.apply(|part| {
        if matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        ) {
            plain = false;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    plain
}
