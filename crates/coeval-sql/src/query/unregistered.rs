// SPDX-License-Identifier: Apache-2.0
//! Functions that stand in plans and that no registry has: rules of this module put them there. Who writes a plan down names them by
//! their place in these lists.

use super::{concatenation, matching, typing};
use crate::scalar::cast_function::CAST;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use std::sync::Arc;

/// Registered functions that are the same wherever they run, given the session's time zone.
pub(crate) const ZONED_FUNCTIONS: [&str; 4] = [typing::EXTRACT, "date_part", "date_trunc", CAST];

/// Those of rows. They are the same wherever they run.
pub(crate) fn unregistered_scalars() -> Vec<Arc<ScalarUDF>> {
    matching::functions().iter().chain([concatenation::function()]).map(Arc::clone).collect()
}

/// Those of groups.
pub(crate) fn unregistered_aggregates() -> Vec<Arc<AggregateUDF>> {
    typing::unregistered_aggregates()
}
