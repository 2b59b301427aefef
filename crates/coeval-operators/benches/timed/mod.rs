// SPDX-License-Identifier: Apache-2.0
//! How long a plan takes, for the benchmarks that compare plans in turn.

use datafusion::error::Result;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use std::time::Instant;

/// The milliseconds of one execution, to the last row.
pub(crate) async fn milliseconds(plan: &Arc<dyn ExecutionPlan>, context: &SessionContext) -> Result<f64> {
    let plan = reset_plan_states(Arc::clone(plan))?;
    let began = Instant::now();
    collect(plan, context.task_ctx()).await?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// The one in the middle.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}
