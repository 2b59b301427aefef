// SPDX-License-Identifier: Apache-2.0
//! Rows of one partition that are on their way already, as the input of another operator.

use crate::over_no_input;
use datafusion::common::{internal_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
///
/// # Locking
///
/// `rows` is locked while the stream is taken out, and nothing else is locked meanwhile.
pub(super) struct Remainder {
    properties: Arc<PlanProperties>,
    partition: usize,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

impl Remainder {
    /// The rest of this partition of `plan`, which may have given it in columns of other types.
    pub(super) fn new(
        plan: &Arc<dyn ExecutionPlan>,
        partition: usize,
        rows: SendableRecordBatchStream,
    ) -> Self {
        let (before, schema) = (plan.properties(), rows.schema());
        let properties = match plan.schema() == schema {
            true => Arc::clone(before),
            false => Arc::new(PlanProperties::new(
                EquivalenceProperties::new(schema),
                before.partitioning.clone(),
                before.emission_type,
                before.boundedness,
            )),
        };
        Self { properties, partition, rows: Mutex::new(Some(rows)) }
    }
}

impl fmt::Debug for Remainder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remainder").field("partition", &self.partition).finish_non_exhaustive()
    }
}

impl DisplayAs for Remainder {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remainder: partition={}", self.partition)
    }
}

impl ExecutionPlan for Remainder {
    fn name(&self) -> &'static str {
        "Remainder"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    over_no_input!();

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != self.partition {
            return internal_err!("the rest of partition {} was asked for as {partition}", self.partition);
        }
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        rows.ok_or_else(|| internal_datafusion_err!("the rest was taken before"))
    }
}
