// SPDX-License-Identifier: Apache-2.0
//! ON CONFLICT: what becomes of a row whose key has an owner.

use super::insert::{Touched, value_of};
use super::source::{Planner, Source};
use super::update::{assigned_column, assigned_value};
use crate::error::{SqlError, SqlState};
use crate::failing_row::refused;
use crate::parse::given_to_column;
use crate::row_locking::strength_of_update;
use crate::scalar::{Environment, Inputs, NewRow, Refusal, RowSource, Scalar, Scope, ScopeTable, folded};
use crate::unique_keys::{Arbiters, UniqueKey};
use coeval_store::{Key, Row, RowRef, RowWriter, StoreError, TableDef, Transaction, Value, ValueRef};
use coeval_txn::LockStrength;
use datafusion::sql::sqlparser::ast::{
    ConflictTarget, DoUpdate, ObjectNamePart, OnConflict, OnConflictAction,
};

/// ON CONFLICT, compiled.
#[derive(Debug)]
pub(super) struct ConflictPlan {
    arbiters: Arbiters,
    action: Action,
    /// The columns that the statement gives values for.
    given: Vec<usize>,
}

#[derive(Debug)]
enum Action {
    Nothing,
    Update {
        /// For each column what it becomes; `None` where it stays.
        changes: Vec<Option<Scalar>>,
        condition: Option<Scalar>,
    },
}

/// What is to be done with a row.
pub(super) enum Resolution {
    Insert,
    Skip,
    /// Replace the row with this key.
    Update(Key, Row),
}

/// The owner's row and the one that was to be inserted, as `t` and `excluded`.
struct Pair<'a> {
    owner: RowRef<'a>,
    excluded: NewRow<'a>,
}

impl RowSource for Pair<'_> {
    fn value(&self, table: usize, column: usize) -> ValueRef<'_> {
        if table == 0 { self.owner.get(column) } else { self.excluded.value(0, column) }
    }
}

impl ConflictPlan {
    pub(super) fn compile(
        planner: &mut Planner<'_>,
        source: &Source,
        clause: &OnConflict,
        given: Vec<usize>,
    ) -> Result<Self, Refusal> {
        let table = &source.tables[0];
        let keys = match &clause.conflict_target {
            Some(target) => vec![arbiter(table, target)?],
            None => UniqueKey::all(table),
        };
        let (action, update) = match &clause.action {
            OnConflictAction::DoNothing => (Action::Nothing, None),
            OnConflictAction::DoUpdate(_) if clause.conflict_target.is_none() => {
                return Err(Refusal::unsupported("DO UPDATE without a target"));
            }
            OnConflictAction::DoUpdate(update) => do_update(planner, source, update)?,
        };
        Ok(Self { arbiters: Arbiters { keys, update }, action, given })
    }

    /// Looks for an owner of the row's keys.
    pub(super) fn resolve(
        &self,
        transaction: &mut Transaction,
        table: &TableDef,
        row: &Row,
        parameters: &[Value],
        environment: &dyn Environment,
        touched: &Touched,
    ) -> Result<Resolution, SqlError> {
        let owner = self.arbiters.owner(transaction, table, row, &|column| value_of(table, row, column))?;
        let Some(key) = owner else { return Ok(Resolution::Insert) };
        // What is proposed has to be a row of the table, though it will not be one.
        transaction.check_proposed(table.id, row).map_err(|error| {
            refused(error, table, &self.given, |column| value_of(table, row, column), environment.zone())
        })?;
        let Action::Update { changes, condition, .. } = &self.action else { return Ok(Resolution::Skip) };
        if touched.contains(&key) {
            let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
            return Err(SqlError::new(SqlState::CardinalityViolation, message).with_hint(
                "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
            ));
        }
        let owner = transaction.get(table.id, &key)?;
        let owner = owner.ok_or_else(|| SqlError::internal("the owner of a key has no row"))?;
        let pair = Pair { owner, excluded: NewRow { table, row } };
        let inputs = Inputs { rows: &pair, parameters, environment };
        if let Some(condition) = condition
            && !condition.holds(inputs)?
        {
            return Ok(Resolution::Skip);
        }
        let mut writer = RowWriter::new(table.layout());
        for (column, change) in changes.iter().enumerate() {
            match change {
                None => writer.push(owner.get(column)),
                Some(change) => writer.push(change.eval(inputs)?.value()),
            }
            .map_err(StoreError::from)?;
        }
        let new = transaction.with_generated(table.id, writer.finish())?;
        Ok(Resolution::Update(key, new))
    }

    /// Locks what the rows are going to write, where that is worth while before anything is written.
    pub(super) fn lock_ahead(
        &self,
        transaction: &mut Transaction,
        table: &TableDef,
        rows: &[Row],
    ) -> Result<(), SqlError> {
        for row in rows {
            self.arbiters.lock_ahead(transaction, table, row, &|column| value_of(table, row, column))?;
        }
        Ok(())
    }

    /// For EXPLAIN.
    pub(super) fn describe(&self) -> &'static str {
        match self.action {
            Action::Nothing => "do nothing",
            Action::Update { .. } => "do update",
        }
    }
}

fn arbiter(table: &TableDef, target: &ConflictTarget) -> Result<UniqueKey, Refusal> {
    let found = match target {
        ConflictTarget::Columns(names) => {
            let columns =
                names.iter().map(|name| table.column_index(&folded(name))).collect::<Option<Vec<_>>>();
            let mut columns = columns.ok_or_else(|| Refusal::unsupported("an unknown column"))?;
            columns.sort_unstable();
            let same = |key: &[usize]| {
                let mut key = key.to_vec();
                key.sort_unstable();
                key == columns
            };
            UniqueKey::all(table).into_iter().find(|key| same(key.columns(table)))
        }
        ConflictTarget::OnConstraint(name) => {
            let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
                return Err(Refusal::unsupported(name));
            };
            UniqueKey::of_constraint(table, &folded(name))
        }
    };
    found.ok_or_else(|| Refusal::unsupported("this ON CONFLICT target"))
}

fn do_update(
    planner: &mut Planner<'_>,
    source: &Source,
    update: &DoUpdate,
) -> Result<(Action, Option<LockStrength>), Refusal> {
    let table = &source.tables[0];
    let target = source.scope.tables()[0].clone();
    let scope = Scope::new(vec![target, ScopeTable::of_table(table).with_alias("excluded")]);
    let mut changes = vec![None; table.columns.len()];
    for assignment in &update.assignments {
        let column = assigned_column(table, assignment)?;
        let value = given_to_column(assigned_value(&assignment.value)?, table.columns[column].ty);
        let change = planner.compiler(&scope).assignment(&value, &table.columns[column])?;
        if changes[column].replace(change).is_some() {
            return Err(Refusal::unsupported("a column assigned twice"));
        }
    }
    let condition = update.selection.as_ref();
    let condition = condition.map(|condition| planner.compiler(&scope).condition(condition)).transpose()?;
    let set = changes.iter().enumerate().filter(|(_, change)| change.is_some());
    let strength = strength_of_update(table, set.map(|(column, _)| column));
    Ok((Action::Update { changes, condition }, Some(strength)))
}
