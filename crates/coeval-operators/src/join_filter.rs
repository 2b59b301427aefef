// SPDX-License-Identifier: Apache-2.0
//! Joins with another filter than their own.

use crate::integer_join::IntegerHashJoinExec;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, HashJoinExecBuilder, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use std::sync::Arc;

/// The join with the filter that `change` makes of its own; `None` if it keeps its own, has none, or is no join.
///
/// # Errors
///
/// Those of `change`, and of making the join.
pub fn with_changed_filter(
    node: &dyn ExecutionPlan,
    change: impl FnOnce(&JoinFilter) -> Result<Option<JoinFilter>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let Some(filter) = join.filter().map(change).transpose()?.flatten() else { return Ok(None) };
        return Ok(Some(Arc::new(HashJoinExecBuilder::from(join).with_filter(Some(filter)).build()?)));
    }
    if let Some(join) = node.downcast_ref::<IntegerHashJoinExec>() {
        let Some(filter) = join.filter().map(change).transpose()?.flatten() else { return Ok(None) };
        return Ok(Some(join.with_filter(filter)?));
    }
    let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else { return Ok(None) };
    let Some(filter) = join.filter().map(change).transpose()?.flatten() else { return Ok(None) };
    Ok(Some(Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(Some(filter)).build()?)))
}
