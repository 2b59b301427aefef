// SPDX-License-Identifier: Apache-2.0
//! Arrays in ORDER BY where NULL stands on the other side: `ASC NULLS FIRST`, `DESC NULLS LAST`.
//!
//! An element that is NULL is above all others, whatever is said of arrays that are NULL. DataFusion puts both on the same
//! side. So the place of NULL becomes a key of its own in front:
//!
//! ```text
//! ORDER BY a NULLS FIRST  ->  ORDER BY a IS NULL DESC, a
//! ```

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::{ExprSchemable, LogicalPlan};
use std::sync::Arc;

/// The keys of an order; whether there was such an array among them.
pub(super) fn settle_keys(keys: &mut Vec<Sort>, schema: &DFSchema) -> bool {
    let is_divided =
        |key: &Sort| key.nulls_first == key.asc && matches!(key.expr.get_type(schema), Ok(DataType::List(_)));
    if !keys.iter().any(is_divided) {
        return false;
    }
    let mut settled = Vec::with_capacity(keys.len() + 1);
    for mut key in std::mem::take(keys) {
        if is_divided(&key) {
            settled.push(Sort::new(key.expr.clone().is_null(), !key.nulls_first, false));
            key.nulls_first = !key.asc;
        }
        settled.push(key);
    }
    *keys = settled;
    true
}

/// The ORDER BY with such keys.
pub(super) fn settle_sort(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Sort(mut sort) = plan else { return Ok(Transformed::no(plan)) };
    let schema = Arc::clone(sort.input.schema());
    let is_changed = settle_keys(&mut sort.expr, &schema);
    Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed))
}

/// A window with such keys; `None` if it has none.
pub(super) fn settle_window(call: &WindowFunction, schema: &DFSchema) -> Result<Option<WindowFunction>> {
    let mut call = call.clone();
    Ok(settle_keys(&mut call.params.order_by, schema).then_some(call))
}
