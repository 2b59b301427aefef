// SPDX-License-Identifier: Apache-2.0
//! What is estimated of operators while one rule runs over one plan, kept.
//!
//! DataFusion gives an estimator a reference to an operator and nothing to know it by, so it is known by its place in memory. An
//! operator that went could leave its place to another one. What is kept holds the inputs of the operator, and counts for an operator
//! at the same place with the same inputs only; of a leaf, which has none, whoever runs the rule holds the plan. An operator that the
//! rule puts at the place of another one with the same inputs is the same join in another mode, whose rows are as many.

use crate::stack::with_room;
use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::operator_statistics::{
    ExtendedStatistics, StatisticsProvider, StatisticsRegistry, StatisticsResult,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs, StatisticsContext};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// What was found of operators.
///
/// # Locking
/// `found` is a leaf lock, held for a look or an insertion. One thread plans a statement, but a rule must be `Sync`.
#[derive(Debug)]
struct Kept<T> {
    found: Mutex<HashMap<usize, Found<T>>>,
}

/// What was found of an operator with these inputs.
#[derive(Debug)]
struct Found<T> {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    value: T,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { found: Mutex::default() }
    }
}

impl<T: Clone> Kept<T> {
    fn get(&self, plan: &dyn ExecutionPlan) -> Option<T> {
        let found = self.found.lock();
        let Found { inputs, value } = found.get(&place(plan))?;
        let now = plan.children();
        let are_same = inputs.len() == now.len()
            && inputs.iter().zip(now).all(|(then, now)| place(then.as_ref()) == place(now.as_ref()));
        are_same.then(|| value.clone())
    }

    fn insert(&self, plan: &dyn ExecutionPlan, value: T) {
        let inputs = plan.children().into_iter().cloned().collect();
        self.found.lock().insert(place(plan), Found { inputs, value });
    }
}

/// Where an operator is in memory.
fn place(plan: &dyn ExecutionPlan) -> usize {
    std::ptr::from_ref(plan).cast::<()>().addr()
}

/// Estimates of others, each made once.
#[derive(Debug)]
pub(super) struct KeptEstimates {
    each: StatisticsRegistry,
    kept: Kept<ExtendedStatistics>,
}

impl KeptEstimates {
    pub(super) fn of(each: StatisticsRegistry) -> Self {
        Self { each, kept: Kept::default() }
    }
}

impl StatisticsProvider for KeptEstimates {
    fn compute_statistics(
        &self,
        plan: &dyn ExecutionPlan,
        inputs: &[ExtendedStatistics],
    ) -> Result<StatisticsResult> {
        if let Some(known) = self.kept.get(plan) {
            return Ok(StatisticsResult::Computed(known));
        }
        for estimator in self.each.providers() {
            if let StatisticsResult::Computed(estimate) = estimator.compute_statistics(plan, inputs)? {
                self.kept.insert(plan, estimate.clone());
                return Ok(StatisticsResult::Computed(estimate));
            }
        }
        Ok(StatisticsResult::Delegate)
    }
}

/// What operators say of themselves, each asked once.
#[derive(Debug, Default)]
pub(in crate::query) struct KeptStatistics {
    kept: Kept<Arc<Statistics>>,
}

impl KeptStatistics {
    /// What an operator says of all that it gives.
    ///
    /// # Errors
    /// What it finds wrong.
    pub(in crate::query) fn of(&self, plan: &dyn ExecutionPlan) -> Result<Arc<Statistics>> {
        if let Some(known) = self.kept.get(plan) {
            return Ok(known);
        }
        let of_input = |(input, asked): (&Arc<dyn ExecutionPlan>, ChildStats)| match asked {
            ChildStats::At(None) => with_room(|| self.of(input.as_ref())),
            ChildStats::At(partition) => {
                let part = StatisticsArgs::new().with_partition(partition);
                StatisticsContext::new().compute(input.as_ref(), &part)
            }
            ChildStats::Skip => Ok(Arc::new(Statistics::new_unknown(&input.schema()))),
        };
        let inputs = plan.children().into_iter().zip(plan.child_stats_requests(None));
        let inputs = inputs.map(of_input).collect::<Result<Vec<_>>>()?;
        let statistics = plan.statistics_from_inputs(&inputs, &StatisticsArgs::new())?;
        self.kept.insert(plan, Arc::clone(&statistics));
        Ok(statistics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Schema;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::empty::EmptyExec;

    fn leaf() -> Arc<dyn ExecutionPlan> {
        Arc::new(EmptyExec::new(Arc::new(Schema::empty())))
    }

    fn over(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(CoalescePartitionsExec::new(Arc::clone(input)))
    }

    #[test]
    fn what_is_kept_is_of_one_operator_and_the_inputs_that_it_had() {
        let (one, other) = (leaf(), leaf());
        let (over_one, over_other) = (over(&one), over(&other));
        let kept = Kept::default();
        kept.insert(over_one.as_ref(), 1);
        assert_eq!(kept.get(over_one.as_ref()), Some(1));
        assert_eq!(kept.get(over_other.as_ref()), None);
        assert_eq!(kept.get(one.as_ref()), None);
        // As if another operator had come to the same place.
        let found = Found { inputs: vec![Arc::clone(&other)], value: 2 };
        kept.found.lock().insert(place(over_one.as_ref()), found);
        assert_eq!(kept.get(over_one.as_ref()), None);
    }

    #[test]
    fn what_operators_say_is_what_datafusion_finds() {
        let plan = over(&leaf());
        let kept = KeptStatistics::default();
        let first = kept.of(plan.as_ref()).unwrap();
        let expected = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).unwrap();
        assert_eq!(first, expected);
        assert!(Arc::ptr_eq(&first, &kept.of(plan.as_ref()).unwrap()));
    }
}
