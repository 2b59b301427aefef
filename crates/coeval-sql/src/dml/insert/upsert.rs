// SPDX-License-Identifier: Apache-2.0
//! `ON CONFLICT DO NOTHING` and `DO UPDATE`.

use crate::context::StatementContext;
use crate::dml::assignments::{self, SetColumn, SetValue};
use crate::dml::conflict::arbiters;
use crate::dml::environment::StatementEnvironment;
use crate::dml::expressions::{ColumnExpression, Expressions, Rows};
use crate::dml::generated::{Generator, generators};
use crate::dml::returning::Done;
use crate::dml::rows::{TouchedRows, encoded, values_of};
use crate::dml::target::Target;
use crate::error::{SqlError, SqlState};
use crate::failing_row::refused;
use crate::row_locking::strength_of_update;
use crate::scalar::{Inputs, Scalar, Scope};
use crate::unique_keys::Arbiters;
use coeval_store::{ConstraintError, Key, StoreError, TableDef, Transaction, Value};
use coeval_txn::LockStrength;
use datafusion::sql::sqlparser::ast::{DoUpdate, OnConflict, OnConflictAction};

/// An ON CONFLICT clause, ready to run.
pub(super) struct Upsert {
    arbiters: Arbiters,
    action: Action,
    /// The rows this statement has inserted or updated; it may not come back to them.
    touched: TouchedRows,
}

enum Action {
    Nothing,
    Update { changes: Vec<(usize, NewValue)>, condition: Option<Scalar> },
}

enum NewValue {
    Expression(ColumnExpression),
    Generated(Generator),
}

/// What became of a proposed row.
pub(super) enum Written {
    /// It, or the row it was merged into, is now this.
    Row(Done, Vec<Value>),
    /// Nothing.
    Skipped,
}

impl Upsert {
    /// Compiles the clause.
    ///
    /// # Errors
    /// `42P10`, `42704`, `42703`, `42601`; `0A000` for subqueries in DO UPDATE.
    pub(super) fn compile(
        context: &StatementContext<'_>,
        target: &Target,
        clause: &OnConflict,
    ) -> Result<Self, SqlError> {
        let keys = arbiters(target, clause.conflict_target.as_ref())?;
        let (action, update) = match &clause.action {
            OnConflictAction::DoNothing => (Action::Nothing, None),
            OnConflictAction::DoUpdate(_) if clause.conflict_target.is_none() => {
                let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                return Err(SqlError::syntax(message).with_hint("For example, ON CONFLICT (column_name)."));
            }
            OnConflictAction::DoUpdate(update) => compile_update(context, target, update)?,
        };
        Ok(Self { arbiters: Arbiters { keys, update }, action, touched: TouchedRows::new() })
    }

    /// Inserts the proposed row, of which the statement gives these columns, or does what the clause says if one of its keys has
    /// an owner.
    ///
    /// # Errors
    /// `21000` if the owner was written by this very statement; constraints; what the expressions refuse.
    pub(super) fn write(
        &mut self,
        transaction: &mut Transaction,
        environment: &StatementEnvironment<'_>,
        target: &Target,
        given: &[usize],
        values: Vec<Value>,
    ) -> Result<Written, SqlError> {
        let def = &target.def;
        let (row, values) = encoded(transaction, def, values)?;
        let not_a_row =
            |error| refused(error, def, given, |column| values[column].borrow(), environment.zone);
        check_not_null(def, &values).map_err(not_a_row)?;
        let owner = self.arbiters.owner(transaction, def, &row, &|column| values[column].borrow())?;
        if let Some(owner) = owner {
            // What is proposed has to be a row of the table, though it will not be one.
            transaction.check_proposed(def.id, &row).map_err(not_a_row)?;
            return match &self.action {
                Action::Nothing => Ok(Written::Skipped),
                Action::Update { .. } => self.update(transaction, environment, def, &owner, &values),
            };
        }
        let key = transaction.insert(def.id, row).map_err(not_a_row)?;
        if matches!(self.action, Action::Update { .. }) {
            self.touched.insert(key);
        }
        Ok(Written::Row(Done::Inserted, values))
    }

    /// Locks what the rows are going to write, where that is worth while before anything is written.
    ///
    /// # Errors
    /// As those of locks; what is wrong with a row is left to [`write`](Self::write).
    pub(super) fn lock_ahead(
        &self,
        transaction: &mut Transaction,
        target: &Target,
        rows: &[Vec<Value>],
    ) -> Result<(), SqlError> {
        let def = &target.def;
        for values in rows {
            let Ok((row, values)) = encoded(transaction, def, values.clone()) else { continue };
            if check_not_null(def, &values).is_err() {
                continue;
            }
            self.arbiters.lock_ahead(transaction, def, &row, &|column| values[column].borrow())?;
        }
        Ok(())
    }

    fn update(
        &mut self,
        transaction: &mut Transaction,
        environment: &StatementEnvironment<'_>,
        def: &TableDef,
        owner: &Key,
        proposed: &[Value],
    ) -> Result<Written, SqlError> {
        let Action::Update { changes, condition, .. } = &self.action else { return Ok(Written::Skipped) };
        if self.touched.contains(owner) {
            return Err(twice());
        }
        let Some(old) = transaction.get(def.id, owner)?.map(values_of) else { return Ok(Written::Skipped) };
        let rows = Rows(&[&old, proposed]);
        let inputs = Inputs { rows: &rows, parameters: environment.parameters, environment };
        if let Some(condition) = condition
            && !condition.holds(inputs)?
        {
            // The decision rests on the row as it is, so it joins the write set.
            transaction.rely_on_row(def.id, owner)?;
            return Ok(Written::Skipped);
        }
        let mut new = old.clone();
        for (column, value) in changes {
            new[*column] = match value {
                NewValue::Expression(expression) => expression.value(inputs, environment.zone)?,
                NewValue::Generated(generator) => generator.value(environment)?,
            };
        }
        let (row, new) = encoded(transaction, def, new)?;
        transaction.update(def.id, owner, row).map_err(|error| {
            let given: Vec<usize> = changes.iter().map(|(column, _)| *column).collect();
            refused(error, def, &given, |column| new[column].borrow(), environment.zone)
        })?;
        self.touched.insert(def.key_of(|column| new[column].borrow()));
        self.touched.insert(owner.clone());
        Ok(Written::Row(Done::Updated, new))
    }
}

fn compile_update(
    context: &StatementContext<'_>,
    target: &Target,
    update: &DoUpdate,
) -> Result<(Action, Option<LockStrength>), SqlError> {
    let scope = Scope::new(vec![target.scope_table(), target.proposed_table()]);
    let mut expressions = Expressions::new(context, &scope);
    let mut changes = Vec::with_capacity(update.assignments.len());
    for SetColumn { column, value } in assignments::resolve(target, &update.assignments)? {
        let value = match value {
            SetValue::Default => NewValue::Generated(generators(context, &target.def)?[column].clone()),
            SetValue::Expression(expression) => {
                let expression = target.of_rows(&expression)?;
                let compiled = expressions.column(&expression, &target.def.columns[column])?;
                NewValue::Expression(
                    compiled.ok_or_else(|| SqlError::unsupported("a subquery in ON CONFLICT DO UPDATE"))?,
                )
            }
        };
        changes.push((column, value));
    }
    let condition = match &update.selection {
        Some(condition) => Some(expressions.condition(&target.of_rows(condition)?)?),
        None => None,
    };
    let strength = strength_of_update(&target.def, changes.iter().map(|(column, _)| *column));
    Ok((Action::Update { changes, condition }, Some(strength)))
}

fn check_not_null(def: &TableDef, values: &[Value]) -> Result<(), StoreError> {
    let null =
        def.columns.iter().zip(values).find(|(column, value)| column.not_null && **value == Value::Null);
    match null {
        None => Ok(()),
        Some((column, _)) => {
            Err(ConstraintError::NotNull { table: Box::new(def.name.clone()), column: column.name.clone() }
                .into())
        }
    }
}

fn twice() -> SqlError {
    let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    SqlError::new(SqlState::CardinalityViolation, message).with_hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
}
