// SPDX-License-Identifier: Apache-2.0
//! Hash joins with a small input, written down and read: the input goes along, as rows.
//!
//! Each node joins its bricks with all of that input. So this is done for joins that look at each row of the other input alone, and only
//! where what comes of them is gathered: rows that a join makes larger travel better without it.

use super::codec::{Decoder, Encoder};
use super::first_rows::parts;
use super::sent_input::SentInput;
use super::wire::{malformed, read_rows, written};
use crate::plan_rule::has_node;
use crate::provider::SpreadScan;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use std::sync::Arc;

/// Inputs that are estimated to have more rows are not sent.
const SENT_ROWS_MAX: usize = 10_000;

/// Joins whose rows are those of one row of the larger input each.
const KINDS: [JoinType; 4] = [JoinType::Inner, JoinType::Right, JoinType::RightSemi, JoinType::RightAnti];

/// Whether a join can be done with some rows of its larger input here and with others elsewhere.
pub(super) fn can_be_divided(join: &HashJoinExec) -> bool {
    KINDS.contains(join.join_type())
        && *join.partition_mode() == PartitionMode::CollectLeft
        && !join.null_aware
        && join.fetch().is_none()
        && parts(join.left().as_ref()) == 1
}

/// Whether the collected input of a join is small, as far as is known, and not itself worth pieces.
pub(super) fn has_small_input(join: &HashJoinExec) -> bool {
    let statistics = StatisticsContext::new().compute(join.left().as_ref(), &StatisticsArgs::new());
    let rows = statistics.ok().and_then(|statistics| statistics.num_rows.get_value().copied());
    rows.is_some_and(|rows| rows <= SENT_ROWS_MAX) && !reads_bricks(join.left())
}

/// Whether a plan has a scan of a spread table.
pub(super) fn reads_bricks(plan: &Arc<dyn ExecutionPlan>) -> bool {
    has_node(plan, |node| node.is::<SpreadScan>())
}

impl Encoder<'_> {
    /// Writes a join, with the rows of its input if they are known.
    pub(super) fn join(&mut self, join: &HashJoinExec) -> Option<()> {
        let kind = KINDS.iter().position(|kind| kind == join.join_type())?;
        self.out.byte(u8::try_from(kind).ok()?);
        self.out.byte(u8::from(join.null_equality() == NullEquality::NullEqualsNull));
        let rows = self.next_input();
        self.out.bytes(&written(&join.left().schema(), rows.iter()).ok()?);
        self.out.number(join.on().len());
        for (left, right) in join.on() {
            self.expression(left)?;
            self.expression(right)?;
        }
        self.out.byte(u8::from(join.filter().is_some()));
        if let Some(filter) = join.filter() {
            self.join_filter(filter)?;
        }
        self.kept(join.projection.as_deref());
        Some(())
    }

    fn join_filter(&mut self, filter: &JoinFilter) -> Option<()> {
        self.out.number(filter.column_indices().len());
        for (column, field) in filter.column_indices().iter().zip(filter.schema().fields()) {
            self.out.byte(match column.side {
                JoinSide::Left => 0,
                JoinSide::Right => 1,
                JoinSide::None => return None,
            });
            self.out.number(column.index);
            self.field(field);
        }
        self.expression(filter.expression())
    }
}

impl Decoder<'_> {
    /// Reads a join with these rows.
    pub(super) fn join(&mut self, right: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let kind = KINDS.get(usize::from(self.from.byte()?)).copied();
        let kind = kind.ok_or_else(|| malformed("there is no such join"))?;
        let has_equal_nulls = self.flag()?;
        let nulls =
            if has_equal_nulls { NullEquality::NullEqualsNull } else { NullEquality::NullEqualsNothing };
        let left = self.input()?;
        let schemas = (left.schema(), right.schema());
        let count = self.from.count()?;
        let mut on = Vec::new();
        for _ in 0..count {
            let key = self.expression(&schemas.0)?;
            on.push((key, self.expression(&schemas.1)?));
        }
        let filter = if self.flag()? { Some(self.join_filter(&schemas)?) } else { None };
        let kept = self.kept()?;
        let mode = PartitionMode::CollectLeft;
        let join = HashJoinExec::try_new(left, right, on, filter, &kind, kept, mode, nulls, false)?;
        Ok(Arc::new(join))
    }

    /// The small input: what it is here, or the rows that were sent.
    fn input(&mut self) -> Result<Arc<dyn ExecutionPlan>> {
        let (schema, rows) = read_rows(self.from.bytes()?)?;
        let place = self.inputs_read;
        self.inputs_read += 1;
        if let Some(input) = self.inputs.get(place) {
            return Ok(Arc::new(SentInput::new(place, Arc::clone(input))));
        }
        let rows: Arc<dyn ExecutionPlan> = MemorySourceConfig::try_new_exec(&[rows], schema, None)?;
        Ok(rows)
    }

    fn join_filter(&mut self, (left, right): &(SchemaRef, SchemaRef)) -> Result<JoinFilter> {
        let count = self.from.count()?;
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (side, of) = if self.flag()? { (JoinSide::Right, right) } else { (JoinSide::Left, left) };
            let index = self.from.number()?;
            if index >= of.fields().len() {
                return Err(malformed("there is no such column of a join").into());
            }
            columns.push(ColumnIndex { index, side });
            fields.push(self.field()?);
        }
        let schema = Arc::new(Schema::new(fields));
        let condition = self.expression(&schema)?;
        Ok(JoinFilter::new(condition, columns, schema))
    }
}
