// SPDX-License-Identifier: Apache-2.0
//! ON CONFLICT: what becomes of a row whose key has an owner.

use super::insert::{Touched, value_of};
use super::source::{Planner, Source};
use super::update::{assigned_column, assigned_value};
use crate::error::{SqlError, SqlState};
use crate::failing_row::refused;
use crate::row_locking::strength_of_update;
use crate::scalar::{Environment, Inputs, NewRow, Refusal, RowSource, Scalar, Scope, ScopeTable, folded};
use coeval_store::{
    Direction, IndexDef, Key, KeyRange, KeyWriter, LockedState, Row, RowRef, RowWriter, StoreError, TableDef,
    Transaction, Value, ValueRef,
};
use coeval_txn::LockStrength;
use datafusion::sql::sqlparser::ast::{
    ConflictTarget, DoUpdate, ObjectNamePart, OnConflict, OnConflictAction,
};

/// ON CONFLICT, compiled.
#[derive(Debug)]
pub(super) struct ConflictPlan {
    arbiters: Vec<Arbiter>,
    action: Action,
    /// The columns that the statement gives values for.
    given: Vec<usize>,
}

/// A unique key whose owner is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arbiter {
    PrimaryKey,
    /// The unique index at this place of the definition.
    Index(usize),
}

#[derive(Debug)]
enum Action {
    Nothing,
    Update {
        strength: LockStrength,
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
        let arbiters = match &clause.conflict_target {
            Some(target) => vec![arbiter(table, target)?],
            None => {
                let unique =
                    table.indexes.iter().enumerate().filter(|(_, index)| index.uniqueness.is_unique());
                let indexes = unique.map(|(place, _)| Arbiter::Index(place));
                std::iter::once(Arbiter::PrimaryKey).chain(indexes).collect()
            }
        };
        let action = match &clause.action {
            OnConflictAction::DoNothing => Action::Nothing,
            OnConflictAction::DoUpdate(_) if clause.conflict_target.is_none() => {
                return Err(Refusal::unsupported("DO UPDATE without a target"));
            }
            OnConflictAction::DoUpdate(update) => do_update(planner, source, update)?,
        };
        Ok(Self { arbiters, action, given })
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
        let Some(key) = self.owner(transaction, table, row)? else { return Ok(Resolution::Insert) };
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
            let owner = self.found_owner(transaction, table, row)?;
            match (&owner, &self.action) {
                (Some(_), Action::Nothing) => {}
                (Some(key), Action::Update { strength, .. }) => {
                    transaction.lock_ahead(table.id, Some((key, *strength)), row)?;
                }
                (None, _) => transaction.lock_ahead(table.id, None, row)?,
            }
        }
        Ok(())
    }

    fn found_owner(
        &self,
        transaction: &Transaction,
        table: &TableDef,
        row: &Row,
    ) -> Result<Option<Key>, SqlError> {
        let mut owners = self.arbiters.iter().map(|arbiter| arbiter.owner(transaction, table, row));
        owners.find_map(Result::transpose).transpose()
    }

    /// The owner of one of the row's keys. Where writes take locks it is the newest one, and locked if it is going
    /// to be updated; if there is none, the keys are locked.
    fn owner(
        &self,
        transaction: &mut Transaction,
        table: &TableDef,
        row: &Row,
    ) -> Result<Option<Key>, SqlError> {
        loop {
            let owner = self.found_owner(transaction, table, row)?;
            let state = match (&owner, &self.action) {
                (Some(key), Action::Update { strength, .. }) => {
                    transaction.lock_for_update(table.id, key, *strength)?
                }
                (Some(_), Action::Nothing) => LockedState::AsRead,
                (None, _) => transaction.lock_for_insert(table.id, row)?,
            };
            if state == LockedState::AsRead {
                return Ok(owner);
            }
        }
    }

    /// For EXPLAIN.
    pub(super) fn describe(&self) -> &'static str {
        match self.action {
            Action::Nothing => "do nothing",
            Action::Update { .. } => "do update",
        }
    }
}

impl Arbiter {
    /// The primary key of the row that owns this key of `row`.
    fn owner(self, transaction: &Transaction, table: &TableDef, row: &Row) -> Result<Option<Key>, SqlError> {
        match self {
            Self::PrimaryKey => {
                if table.primary_key.iter().any(|&column| value_of(table, row, column).is_null()) {
                    // NOT NULL will refuse the row.
                    return Ok(None);
                }
                let key = table.key_of(|column| value_of(table, row, column));
                Ok(transaction.get(table.id, &key)?.is_some().then_some(key))
            }
            Self::Index(place) => {
                let index = &table.indexes[place];
                let mut writer = KeyWriter::new();
                for &column in &index.columns {
                    let value = value_of(table, row, column);
                    if value.is_null() {
                        return Ok(None);
                    }
                    writer.push_nullable(value);
                }
                let range = KeyRange::prefix(writer.as_slice());
                let mut entries = transaction.scan_index(table.id, index.id, &range, Direction::Forward)?;
                Ok(entries.next().transpose()?.map(|entry| entry.primary_key))
            }
        }
    }
}

fn arbiter(table: &TableDef, target: &ConflictTarget) -> Result<Arbiter, Refusal> {
    let unique = |matches: &dyn Fn(&IndexDef) -> bool| {
        table
            .indexes
            .iter()
            .position(|index| index.uniqueness.is_unique() && matches(index))
            .map(Arbiter::Index)
    };
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
            if same(&table.primary_key) {
                Some(Arbiter::PrimaryKey)
            } else {
                unique(&|index| same(&index.columns))
            }
        }
        ConflictTarget::OnConstraint(name) => {
            let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
                return Err(Refusal::unsupported(name));
            };
            let name = folded(name);
            if name == table.primary_key_name && table.has_declared_primary_key() {
                Some(Arbiter::PrimaryKey)
            } else {
                unique(&|index| index.name == name)
            }
        }
    };
    found.ok_or_else(|| Refusal::unsupported("this ON CONFLICT target"))
}

fn do_update(planner: &mut Planner<'_>, source: &Source, update: &DoUpdate) -> Result<Action, Refusal> {
    let table = &source.tables[0];
    let target = source.scope.tables()[0].clone();
    let scope = Scope::new(vec![target, ScopeTable::of_table(table).with_alias("excluded")]);
    let mut changes = vec![None; table.columns.len()];
    for assignment in &update.assignments {
        let column = assigned_column(table, assignment)?;
        let value = assigned_value(&assignment.value)?;
        let change = planner.compiler(&scope).assignment(value, &table.columns[column])?;
        if changes[column].replace(change).is_some() {
            return Err(Refusal::unsupported("a column assigned twice"));
        }
    }
    let condition = update.selection.as_ref();
    let condition = condition.map(|condition| planner.compiler(&scope).condition(condition)).transpose()?;
    let set = changes.iter().enumerate().filter(|(_, change)| change.is_some());
    let strength = strength_of_update(table, set.map(|(column, _)| column));
    Ok(Action::Update { strength, changes, condition })
}
