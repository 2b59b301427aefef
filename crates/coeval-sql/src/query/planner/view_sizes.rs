// SPDX-License-Identifier: Apache-2.0
//! How large the views of one statement are together: a short text can stand for a plan that fills the memory, when each
//! view uses the one before twice.

use crate::error::{SqlError, SqlState};
use coeval_store::ViewDef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use std::cell::Cell;

/// The text of the views that one statement is planned from, each as often as it is used. A plan takes some fifty bytes for
/// each of its text, so such views take 200 MB.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// What a view counts at least: reading and planning the shortest takes as much as a text of this size.
const TEXT_BYTES_LEAST: usize = 1024;

/// The columns of all steps of the plans of these views, some hundred bytes each: a star is a short text for many.
const COLUMNS_MAX: usize = 1 << 19;

/// What the views of one statement have come to.
#[derive(Debug, Default)]
pub(super) struct ViewSizes {
    text_bytes: Cell<usize>,
    columns: Cell<usize>,
}

impl ViewSizes {
    /// A view is about to be planned. Gives what [`note_plan`](Self::note_plan) takes.
    ///
    /// # Errors
    /// `54001` if the views are too large together.
    pub(super) fn note_text(&self, view: &ViewDef) -> Result<usize> {
        let text_bytes = self.text_bytes.get().saturating_add(view.query.len().max(TEXT_BYTES_LEAST));
        self.text_bytes.set(text_bytes);
        if text_bytes > TEXT_BYTES_MAX {
            return Err(too_large(view).into());
        }
        Ok(self.columns.get())
    }

    /// A view has this plan, the plans of the views below it within; `before` is what it began with.
    ///
    /// # Errors
    /// As [`note_text`](Self::note_text).
    pub(super) fn note_plan(&self, view: &ViewDef, plan: &LogicalPlan, before: usize) -> Result<()> {
        let columns = before.saturating_add(columns_of(plan)?);
        self.columns.set(columns);
        if columns > COLUMNS_MAX { Err(too_large(view).into()) } else { Ok(()) }
    }
}

fn too_large(view: &ViewDef) -> SqlError {
    let message = format!("the views of the statement are too large together at \"{}\"", view.name.name);
    SqlError::new(SqlState::StatementTooComplex, message)
        .with_detail("Each view counts as often as it is used, itself or by other views.")
        .with_hint("Keep the rows of one in a table, or use it once, in WITH.")
}

/// How many columns the steps of a plan have, those of its subqueries included.
fn columns_of(plan: &LogicalPlan) -> Result<usize> {
    let mut columns = 0_usize;
    let mut waiting = vec![plan];
    while let Some(step) = waiting.pop() {
        columns = columns.saturating_add(step.schema().fields().len());
        step.apply_subqueries(|subquery| {
            columns = columns.saturating_add(columns_of(subquery)?);
            Ok(TreeNodeRecursion::Continue)
        })?;
        waiting.extend(step.inputs());
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_store::{ObjectAccess, QualifiedName};
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};

    #[test]
    fn the_columns_of_every_step_count() {
        let plan = LogicalPlanBuilder::values(vec![vec![lit(1), lit(2)]]).unwrap();
        let plan = plan.project(vec![col("column1")]).unwrap().build().unwrap();
        assert_eq!(columns_of(&plan).unwrap(), 3);
        let view = ViewDef {
            name: QualifiedName::new("public", "v"),
            columns: Vec::new(),
            query: String::new(),
            access: ObjectAccess::default(),
            comment: None,
            output: None,
            check: None,
        };
        let sizes = ViewSizes::default();
        assert!(sizes.note_plan(&view, &plan, COLUMNS_MAX - 3).is_ok());
        assert!(sizes.note_plan(&view, &plan, COLUMNS_MAX - 2).is_err());
    }
}
