// SPDX-License-Identifier: Apache-2.0
//! `WITH CHECK OPTION`: what rows have to satisfy that are written through a view.

use super::environment::StatementEnvironment;
use super::expressions::{Expressions, Rows};
use super::target::Target;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::failing_row::with_row;
use crate::scalar::{Inputs, Scalar, Scope};
use coeval_store::{TableDef, Value};
use std::sync::Arc;

/// The conditions of the view that a statement changes, and of those below it; none for a table.
pub(super) struct CheckOptions {
    def: Arc<TableDef>,
    /// Each with the name of the view whose it is.
    conditions: Vec<(String, Scalar)>,
    /// The columns that the statement gives.
    given: Vec<usize>,
}

impl CheckOptions {
    /// Those of this target.
    ///
    /// # Errors
    /// `0A000` for one that cannot be evaluated row by row.
    pub(super) fn compile(context: &StatementContext<'_>, target: &Target) -> Result<Self, SqlError> {
        let mut conditions = Vec::new();
        if let Some(view) = target.view() {
            let scope = Scope::new(vec![target.scope_table()]);
            let mut expressions = Expressions::new(context, &scope);
            for (name, condition) in view.conditions()? {
                conditions.push((name.to_owned(), expressions.condition(condition)?));
            }
        }
        Ok(Self { def: Arc::clone(&target.def), conditions, given: Vec::new() })
    }

    /// The same for a statement that gives these columns, which its errors may show.
    pub(super) fn of_given(self, given: Vec<usize>) -> Self {
        Self { given, ..self }
    }

    /// The columns that the statement gives.
    pub(super) fn given(&self) -> &[usize] {
        &self.given
    }

    /// Whether there is nothing to satisfy.
    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Looks whether a row that was written satisfies them.
    ///
    /// # Errors
    /// `44000` if one is not true of it.
    pub(super) fn hold_for(
        &self,
        row: &[Value],
        environment: &StatementEnvironment<'_>,
    ) -> Result<(), SqlError> {
        let rows = [row];
        let rows = Rows(&rows);
        let inputs = Inputs { rows: &rows, parameters: environment.parameters, environment };
        for (view, condition) in &self.conditions {
            if !condition.holds(inputs)? {
                let message = format!("new row violates check option for view \"{view}\"");
                let error = SqlError::new(SqlState::WithCheckOptionViolation, message);
                let value = |column: usize| row[column].borrow();
                return Err(with_row(error, &self.def, &self.given, value, environment.zone));
            }
        }
        Ok(())
    }
}
