// SPDX-License-Identifier: Apache-2.0
//! What a join on several columns looks for in one of them, asked by the scan that the column comes from.
//!
//! A row of the larger side of which one key is in no row of the smaller side has no partner, whatever the others are. So rows of a scan
//! may be dropped by a column that goes through all that is between the scan and the join as DataFusion's filters go: not below an
//! aggregate unless it groups by the column, as then whole groups are dropped, and never below what is read by others, too. Where such a
//! filter would find the column by a name that others have as well, it is not followed (`query/pushdown.rs` tells why).

use super::told_scan::ToldScan;
use super::{SCANNED_ROWS_MIN, keys_for, looks_for_members};
use crate::provider::scan_keys::ScanKeys;
use arrow::datatypes::Schema;
use coeval_operators::coded_groups::CodedGroupsExec;
use coeval_operators::join_keys::{NotedKeysExec, Numbers};
use coeval_operators::packed_groups::PackedGroupsExec;
use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{Column, IsNotNullExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPhase, PushedDown, PushedDownPredicate};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;

/// The inputs of a join of which columns are noted, and looked for by scans of its larger side; `None` if there are no such scans.
pub(super) fn told_inputs(join: &HashJoinExec) -> Result<Option<Vec<Arc<dyn ExecutionPlan>>>> {
    if join.on().len() < 2 || !looks_for_members(join) || !loses_rows_without_partner(*join.join_type()) {
        return Ok(None);
    }
    let (mut smaller, mut larger) = (Arc::clone(join.left()), Arc::clone(join.right()));
    let mut is_told = false;
    for (noted, sought) in join.on() {
        let (Some(noted), Some(sought)) = (noted.downcast_ref::<Column>(), sought.downcast_ref::<Column>())
        else {
            continue;
        };
        let (schema, source) = (smaller.schema(), larger.schema());
        let ty = schema.field(noted.index()).data_type();
        if !Numbers::are_of(ty) || source.field(sought.index()).data_type() != ty {
            continue;
        }
        let mut rows = 0;
        with_scans(&larger, sought, &mut |scan, _| {
            rows = rows.max(scan.row_count());
            None
        })?;
        if rows < SCANNED_ROWS_MIN {
            continue;
        }
        let keys = keys_for(rows);
        let mut tell =
            |scan: ToldScan<'_>, column| Some(scan.with_join_keys(ScanKeys::of_column(&keys, column)));
        if let Some(told) = with_scans(&larger, sought, &mut tell)? {
            larger = told;
            smaller = Arc::new(NotedKeysExec::new(smaller, [noted.index()], keys));
            is_told = true;
        }
    }
    Ok(is_told.then(|| vec![smaller, larger]))
}

/// Whether rows of the larger side, which is the right one, come to nothing where no row of the other has their keys.
fn loses_rows_without_partner(join_type: JoinType) -> bool {
    match join_type {
        JoinType::Inner
        | JoinType::Left
        | JoinType::LeftSemi
        | JoinType::LeftAnti
        | JoinType::LeftMark
        | JoinType::RightSemi => true,
        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark => false,
    }
}

/// What is made of a scan and the place of a column in it.
type Change<'c> = dyn FnMut(ToldScan<'_>, usize) -> Option<Arc<dyn ExecutionPlan>> + 'c;

/// The plan with what `change` makes of the scans that a column comes from and of its place in them; `None` if nothing is changed.
fn with_scans(
    node: &Arc<dyn ExecutionPlan>,
    column: &Column,
    change: &mut Change<'_>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = ToldScan::of(node) {
        return Ok(if scan.is_limited() { None } else { change(scan, column.index()) });
    }
    let mut inputs: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
    let mut is_changed = false;
    for (input, column) in inputs.iter_mut().zip(columns_of_inputs(node, column)?) {
        if let Some(column) = column
            && let Some(changed) = with_scans(input, &column, change)?
        {
            *input = changed;
            is_changed = true;
        }
    }
    if !is_changed {
        return Ok(None);
    }
    replace_children_if_necessary(Arc::clone(node), inputs).map(Some)
}

/// For each input of a node the column that a column of the node is, if rows may be dropped by it there.
fn columns_of_inputs(node: &Arc<dyn ExecutionPlan>, column: &Column) -> Result<Vec<Option<Column>>> {
    let inputs = node.children();
    // Among the first so many rows none may be missing.
    if node.fetch().is_some() {
        return Ok(vec![None; inputs.len()]);
    }
    if let Some(aggregate) = aggregate_of(node) {
        return Ok(vec![grouped_column(aggregate, column)]);
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let output = projection.expr().get(column.index());
        return Ok(vec![output.and_then(|output| output.expr.downcast_ref::<Column>()).cloned()]);
    }
    if node.is::<UnionExec>() {
        let of_input = |input: &Arc<dyn ExecutionPlan>| {
            Column::new(input.schema().field(column.index()).name(), column.index())
        };
        return Ok(inputs.into_iter().map(of_input).map(Some).collect());
    }
    let passing = Arc::new(IsNotNullExpr::new(Arc::new(column.clone()))) as Arc<dyn PhysicalExpr>;
    let phase = FilterPushdownPhase::Post;
    let passed = node.gather_filters_for_pushdown(phase, vec![passing], &ConfigOptions::default())?;
    let column_of = |filters: Vec<_>| match filters.into_iter().next() {
        Some(PushedDownPredicate { discriminant: PushedDown::Yes, predicate }) => {
            predicate.downcast_ref::<IsNotNullExpr>()?.arg().downcast_ref::<Column>().cloned()
        }
        _ => None,
    };
    let passed = passed.parent_filters().into_iter().map(column_of).zip(inputs);
    let mut found: Vec<Option<Column>> = passed
        .map(|(found, input)| found.filter(|found| is_only_one_of_its_name(found, &input.schema())))
        .collect();
    // Here the column is of the side that comes out. What has its name on the other side may be anything.
    match node.downcast_ref::<HashJoinExec>().map(HashJoinExec::join_type) {
        Some(JoinType::LeftSemi) => found[1] = None,
        Some(JoinType::RightSemi) => found[0] = None,
        _ => {}
    }
    Ok(found)
}

/// Whether no other column has this one's name. DataFusion's operators look by names for what filters read, and take the first.
fn is_only_one_of_its_name(column: &Column, rows: &Schema) -> bool {
    rows.fields().iter().filter(|field| field.name() == column.name()).count() == 1
}

/// The aggregate that a node is, or that it stands for.
fn aggregate_of(node: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    let coded = || node.downcast_ref::<CodedGroupsExec>().map(CodedGroupsExec::aggregate);
    let packed = || node.downcast_ref::<PackedGroupsExec>().map(PackedGroupsExec::aggregate);
    node.downcast_ref::<AggregateExec>().or_else(coded).or_else(packed)
}

/// The column that an aggregate without grouping sets groups by at the place of a column of its output.
fn grouped_column(aggregate: &AggregateExec, column: &Column) -> Option<Column> {
    let groups = aggregate.group_expr();
    let (group, _) = groups.is_single().then(|| groups.expr().get(column.index()))??;
    group.downcast_ref::<Column>().cloned()
}
