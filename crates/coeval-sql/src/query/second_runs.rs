// SPDX-License-Identifier: Apache-2.0
//! First inputs of nested loop joins, which are run twice if they do not fit into memory.
//!
//! DataFusion's nested loop join collects its first input. If memory is refused for that, it executes the same plan once more, puts its rows
//! aside on disk, and joins them in pieces that fit. But an operator that has run may not be ready for a second run:
//!
//! | what is in the input | what it does in a second run |
//! |---|---|
//! | an exchange between threads | it panics |
//! | a hash join with rows without a partner | these come twice or not at all: its parts are counted in both runs together |
//! | a sort with a limit or an extreme, and a scan that is told what it has seen | rows as good as those of the first run are left out |
//! | a recursive query, or the rows that it has found so far | they have been taken |
//!
//! So the second run is one of the plan with its state reset, which is enough for the first two, and is refused for the others: then the
//! query is out of memory, as it is with a hash join. It is refused, too, where the join gives rows of its first input by what they have met
//! in all parts of the second one. In pieces, each part has an account of its own of that, and rows would come once for each part.

use coeval_operators::over_one_input;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, resources_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{replace_children_if_necessary, reset_plan_states};
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The node; as a nested loop join, its first input can be run twice, or says that it cannot.
///
/// # Errors
/// Those of making the join anew.
pub(super) fn with_second_run(node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else { return Ok(node) };
    let parts = join.right().output_partitioning().partition_count();
    let first = FirstInput {
        input: Arc::clone(join.left()),
        can_be_divided: parts == 1 || !gives_by_what_all_parts_met(*join.join_type()),
        has_run: AtomicBool::new(false),
    };
    let inputs: Vec<Arc<dyn ExecutionPlan>> = vec![Arc::new(first), Arc::clone(join.right())];
    replace_children_if_necessary(node, inputs)
}

/// Whether what a join gives of its first input is known when all parts of the second one have ended.
fn gives_by_what_all_parts_met(kind: JoinType) -> bool {
    match kind {
        JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            true
        }
        JoinType::Inner
        | JoinType::Right
        | JoinType::RightSemi
        | JoinType::RightAnti
        | JoinType::RightMark => false,
    }
}

/// See the module. It has one part, as the join asks for.
#[derive(Debug)]
struct FirstInput {
    input: Arc<dyn ExecutionPlan>,
    /// Whether the join can join pieces of it one after the other.
    can_be_divided: bool,
    has_run: AtomicBool,
}

impl DisplayAs for FirstInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for FirstInput {
    /// It is no more to be seen in plans than what watches operators.
    fn name(&self) -> &'static str {
        super::WATCHED
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    over_one_input!(input, |old, input| Arc::new(Self {
        input,
        can_be_divided: old.can_be_divided,
        has_run: AtomicBool::new(false),
    }));

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if !self.has_run.swap(true, Ordering::Relaxed) {
            return self.input.execute(partition, task);
        }
        if !self.can_be_divided || takes_rows_once(&self.input)? || asks_what_was_seen(&self.input)? {
            return resources_err!(
                "the first side of a join by no equality does not fit into memory, and cannot be read twice"
            );
        }
        reset_plan_states(Arc::clone(&self.input))?.execute(partition, task)
    }
}

/// Whether a recursive query is in a plan, or reads what one has found so far.
fn takes_rows_once(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(node.is::<RecursiveQueryExec>() || node.is::<WorkTableExec>()))
}

/// Whether somebody in a plan asks a filter that a sort or an aggregate makes of what it has seen. Those of joins are as right in another
/// run: they are of all rows of a side.
fn asks_what_was_seen(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut made = HashSet::new();
    plan.apply(|node| {
        if sees_rows(node.as_ref()) {
            let filters = node.dynamic_expressions_produced();
            made.extend(filters.iter().filter_map(|filter| filter.expression_id()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if made.is_empty() {
        return Ok(false);
    }
    plan.exists(|node| {
        let mut asks = false;
        if !sees_rows(node.as_ref()) {
            node.apply_expressions(&mut |expression| {
                asks |= expression
                    .exists(|part| Ok(part.expression_id().is_some_and(|id| made.contains(&id))))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(asks)
    })
}

fn sees_rows(node: &dyn ExecutionPlan) -> bool {
    node.is::<SortExec>() || node.is::<AggregateExec>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::error::DataFusionError;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr};
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::collect;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::filter::FilterExec;
    use datafusion::physical_plan::repartition::RepartitionExec;

    /// Ten rows.
    fn numbers() -> Arc<dyn ExecutionPlan> {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        let rows = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        MemorySourceConfig::try_new_exec(&[vec![rows.clone()]], rows.schema(), None).unwrap()
    }

    fn column() -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new("n", 0))
    }

    /// What a join of this kind with so many parts of other rows has as its first input.
    fn first_input(first: Arc<dyn ExecutionPlan>, kind: JoinType, parts: usize) -> Arc<dyn ExecutionPlan> {
        let other = EmptyExec::new(first.schema()).with_partitions(parts);
        let join = NestedLoopJoinExec::try_new(first, Arc::new(other), None, &kind, None).unwrap();
        let join = with_second_run(Arc::new(join)).unwrap();
        Arc::clone(join.children()[0])
    }

    /// How many rows come.
    fn run(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let batches = runtime.block_on(collect(Arc::clone(plan), Arc::default()))?;
        Ok(batches.iter().map(RecordBatch::num_rows).sum())
    }

    fn is_refused(rows: &Result<usize>) -> bool {
        rows.as_ref().is_err_and(|error| matches!(error, DataFusionError::ResourcesExhausted(_)))
    }

    /// To break it: execute the same plan again.
    #[test]
    fn an_exchange_is_run_twice() {
        let exchange = RepartitionExec::try_new(numbers(), Partitioning::Hash(vec![column()], 2)).unwrap();
        let gathered = CoalescePartitionsExec::new(Arc::new(exchange));
        let first = first_input(Arc::new(gathered), JoinType::Inner, 2);
        assert_eq!(run(&first).unwrap(), 10);
        assert_eq!(run(&first).unwrap(), 10);
    }

    #[test]
    fn what_gives_rows_by_what_all_parts_met_is_run_twice_for_one_part_alone() {
        for (kind, parts, is_run) in [
            (JoinType::Left, 1, true),
            (JoinType::Left, 2, false),
            (JoinType::LeftSemi, 2, false),
            (JoinType::Inner, 2, true),
            (JoinType::Right, 2, true),
        ] {
            let first = first_input(numbers(), kind, parts);
            assert_eq!(run(&first).unwrap(), 10);
            let again = run(&first);
            assert_eq!((again.is_ok(), is_refused(&again)), (is_run, !is_run), "{kind}, {parts} parts");
        }
    }

    /// To break it: reset the plan, and no more. Its filter has the third of the numbers as a bound, which the third is not below.
    #[test]
    fn what_has_told_a_filter_what_it_has_seen_is_not_run_twice() {
        let order = LexOrdering::new([PhysicalSortExpr::new(column(), Default::default())]).unwrap();
        let sort = || SortExec::new(order.clone(), numbers()).with_fetch(Some(3));
        let untold = first_input(Arc::new(sort()), JoinType::Inner, 2);
        assert_eq!(run(&untold).unwrap(), 3);
        assert_eq!(run(&untold).unwrap(), 3);
        let sort = sort();
        let seen = sort.dynamic_expressions_produced().remove(0);
        let asked = FilterExec::try_new(seen, numbers()).unwrap();
        let sort = replace_children_if_necessary(Arc::new(sort), vec![Arc::new(asked)]).unwrap();
        let told = first_input(sort, JoinType::Inner, 2);
        assert_eq!(run(&told).unwrap(), 3);
        assert!(is_refused(&run(&told)));
    }
}
