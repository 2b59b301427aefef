// SPDX-License-Identifier: Apache-2.0
//! The rows that go out: of which columns of both sides they are made, and which kinds of join give which rows.

use super::built::batch;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{FilterBuilder, FilterPredicate, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) kind: JoinType,
    /// What makes the columns of a looked-up row's key.
    pub(super) keys: Vec<PhysicalExprRef>,
    /// What a pair of rows must satisfy beside having equal keys.
    pub(super) filter: Option<JoinFilter>,
    columns: Vec<ColumnIndex>,
    pub(super) schema: SchemaRef,
    /// Of the looked-up rows.
    pub(super) looked_up: SchemaRef,
}

/// Rows of one side, for columns that go out.
pub(super) enum Rows<'a> {
    /// All, as they are.
    All,
    /// Those with a bit.
    Masked(FilterPredicate),
    /// These; where there is none, NULL.
    At(&'a UInt32Array),
}

impl Rows<'_> {
    pub(super) fn masked(mask: &BooleanArray) -> Self {
        Rows::Masked(FilterBuilder::new(mask).optimize().build())
    }

    fn of(&self, column: &ArrayRef) -> Result<ArrayRef> {
        Ok(match self {
            Self::All => Arc::clone(column),
            Self::Masked(mask) => mask.filter(column)?,
            // What is nowhere may be looked for in a side without rows.
            Self::At(rows) if rows.null_count() == rows.len() => {
                new_null_array(column.data_type(), rows.len())
            }
            Self::At(rows) => take(column, *rows, None)?,
        })
    }
}

impl Shape {
    /// That of this join.
    pub(super) fn of(join: &HashJoinExec) -> Self {
        let (left, right) = (join.left().schema(), join.right().schema());
        let (_, all) = build_join_schema(&left, &right, join.join_type());
        let columns = match &join.projection {
            Some(projection) => projection.iter().map(|place| all[*place].clone()).collect(),
            None => all,
        };
        let keys = join.on().iter().map(|(_, key)| Arc::clone(key)).collect();
        let (kind, filter) = (*join.join_type(), join.filter().cloned());
        Self { kind, keys, filter, columns, schema: join.schema(), looked_up: right }
    }

    /// Whether rows that are looked up and meet none go out.
    pub(super) const fn gives_unmet(&self) -> bool {
        matches!(self.kind, JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark)
    }

    /// Whether what goes out is decided by what each looked-up row meets, and has none of its columns.
    pub(super) const fn is_of_looked_up(&self) -> bool {
        matches!(self.kind, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark)
    }

    /// Whether what goes out is decided by what each built row has met, when all have been looked up.
    pub(super) const fn is_of_built(&self) -> bool {
        matches!(self.kind, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark)
    }

    /// Whether it counts which built rows have met any.
    pub(super) const fn notes_met(&self) -> bool {
        self.is_of_built() || matches!(self.kind, JoinType::Left | JoinType::Full)
    }

    /// So many rows that go out.
    pub(super) fn outgoing(
        &self,
        (built, of_built): (&RecordBatch, &Rows<'_>),
        (looked_up, of_looked_up): (&RecordBatch, &Rows<'_>),
        mark: Option<BooleanArray>,
        rows: usize,
    ) -> Result<RecordBatch> {
        let mark = mark.map(|mark| Arc::new(mark) as ArrayRef);
        let columns = self.columns.iter().map(|column| match column.side {
            JoinSide::Left => of_built.of(built.column(column.index)),
            JoinSide::Right => of_looked_up.of(looked_up.column(column.index)),
            JoinSide::None => Ok(mark.clone().unwrap_or_else(|| new_null_array(&BOOLEAN, rows))),
        });
        batch(&self.schema, columns.collect::<Result<_>>()?, rows)
    }

    /// Whether pairs of rows satisfy the filter.
    pub(super) fn passing(
        filter: &JoinFilter,
        (built, of_built): (&RecordBatch, &UInt32Array),
        (looked_up, of_looked_up): (&RecordBatch, &UInt32Array),
    ) -> Result<BooleanArray> {
        let rows = of_built.len();
        let columns = filter.column_indices().iter().map(|column| match column.side {
            JoinSide::Left => Rows::At(of_built).of(built.column(column.index)),
            _ => Rows::At(of_looked_up).of(looked_up.column(column.index)),
        });
        let pairs = batch(filter.schema(), columns.collect::<Result<_>>()?, rows)?;
        let passing = filter.expression().evaluate(&pairs)?.into_array(rows)?;
        Ok(datafusion::common::cast::as_boolean_array(&passing)?.clone())
    }
}

const BOOLEAN: arrow::datatypes::DataType = arrow::datatypes::DataType::Boolean;
