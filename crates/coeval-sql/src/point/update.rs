// SPDX-License-Identifier: Apache-2.0
//! UPDATE by key.

use super::Outcome;
use super::access::Step;
use super::change::{Reach, Targets, begin_writing};
use super::choice::{Keyless, choose};
use super::found_memory::{FoundMemory, bytes_of_key, bytes_of_row};
use super::insert::value_of;
use super::output::Output;
use super::source::{Conjunct, Planner, Source, table_name};
use super::walk::{Flow, Walk};
use crate::error::SqlError;
use crate::failing_row::refused;
use crate::memory::{QueryEnvironment, ReturnedMemory};
use crate::parse::given_to_column;
use crate::row_locking::strength_of_update;
use crate::scalar::{Environment, Inputs, NewRow, Refusal, Scalar, folded};
use coeval_store::{ColumnDef, Identity, Key, Privilege, Row, RowWriter, TableDef, Transaction, Value};
use coeval_txn::LockStrength;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, ObjectNamePart, TableWithJoins, Update, UpdateTableFromKind,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// The table that is changed, as a bit.
const TARGET: u64 = 1;

/// An UPDATE, compiled.
#[derive(Debug)]
pub(super) struct UpdatePlan {
    table: Arc<TableDef>,
    steps: Vec<Step>,
    /// For each column what it becomes; `None` where it stays.
    changes: Vec<Option<Scalar>>,
    /// The lock that its rows take, where updates take locks.
    strength: LockStrength,
    reach: Reach,
    output: Option<Output>,
}

impl UpdatePlan {
    pub(super) fn output(&self) -> Option<&Output> {
        self.output.as_ref()
    }

    pub(super) fn compile(planner: &mut Planner<'_>, update: &Update) -> Result<Self, Refusal> {
        let plain = update.table.joins.is_empty()
            && update.or.is_none()
            && update.output.is_none()
            && update.order_by.is_empty()
            && update.limit.is_none()
            && update.optimizer_hints.is_empty();
        if !plain {
            return Err(Refusal::unsupported("a clause of this UPDATE"));
        }
        let from: &[TableWithJoins] = match &update.from {
            None => &[],
            Some(UpdateTableFromKind::AfterSet(from)) => from,
            Some(UpdateTableFromKind::BeforeSet(_)) => return Err(Refusal::unsupported("FROM before SET")),
        };
        let (name, alias) = table_name(&update.table.relation)?;
        let target = Source::of_table(planner.table(name, &[Privilege::Update, Privilege::Select])?, alias);
        let table = Arc::clone(&target.tables[0]);
        let mut conditions = Vec::new();
        let source = planner.target(target, from, &mut conditions)?;
        refuse_generated(&table)?;
        // What is assigned comes last: the first place that says what a parameter is counts, and PostgreSQL reads them in this order.
        let selection =
            update.selection.as_ref().ok_or_else(|| Refusal::unsupported("UPDATE of all rows"))?;
        conditions.extend(Conjunct::of_where(selection));
        let steps = choose(planner, &source, &conditions, None, Keyless::Refused)?.steps;
        let output = match &update.returning {
            Some(items) => Some(Output::compile(planner, &source, items, None)?),
            None => None,
        };
        // The rows of the others are gone when the new row is there.
        if output.as_ref().is_some_and(|output| output.tables() & !TARGET != 0) {
            return Err(Refusal::unsupported("RETURNING of tables that are read"));
        }
        let mut changes = vec![None; table.columns.len()];
        for assignment in &update.assignments {
            let column = assigned_column(&table, assignment)?;
            let value = given_to_column(assigned_value(&assignment.value)?, table.columns[column].ty);
            let change = planner.compiler(&source.scope).assignment(&value, &table.columns[column])?;
            if changes[column].replace(change).is_some() {
                return Err(Refusal::unsupported("a column assigned twice"));
            }
        }
        let set = changes.iter().enumerate().filter(|(_, change)| change.is_some());
        let strength = strength_of_update(&table, set.map(|(column, _)| column));
        let reach = Reach::of(&steps, changes.iter().flatten())?;
        Ok(Self { table, steps, changes, strength, reach, output })
    }

    /// Runs it. `None` if it meets more rows than this path is for; then nothing is changed.
    pub(super) fn run(
        &self,
        transaction: &mut Transaction,
        parameters: &[Value],
        environment: &dyn Environment,
        queries: &QueryEnvironment,
    ) -> Result<Option<Outcome>, SqlError> {
        self.reach.run(|visited_max| self.change(transaction, parameters, environment, queries, visited_max))
    }

    /// The rows are found first and changed afterwards, so that no change is met again. `None` if more than so many have to be visited;
    /// then nothing is changed.
    fn change(
        &self,
        transaction: &mut Transaction,
        parameters: &[Value],
        environment: &dyn Environment,
        queries: &QueryEnvironment,
        visited_max: usize,
    ) -> Result<Option<Outcome>, SqlError> {
        let mut memory = FoundMemory::of(queries);
        let mut changed: SmallVec<[(Key, Row); 1]> = SmallVec::new();
        let mut writer = RowWriter::new(self.table.layout());
        let mut targets = Targets::of(&self.steps);
        let mut walk = Walk::new(transaction, parameters, environment, visited_max).counted_elsewhere();
        let flow = walk.run(&self.steps, &mut |frame| {
            let inputs = Inputs { rows: frame, parameters, environment };
            let (key, old) = frame.row(0);
            if !targets.take(key) {
                return Ok(Flow::Continue);
            }
            writer.clear();
            for (column, change) in self.changes.iter().enumerate() {
                match change {
                    None => writer.push(old.get(column)),
                    Some(change) => writer.push(change.eval(inputs)?.value()),
                }
                .map_err(coeval_store::StoreError::from)?;
            }
            let row = writer.finish();
            memory.keep(bytes_of_key(key) + bytes_of_row(&row))?;
            changed.push((key.clone(), row));
            Ok(Flow::Continue)
        })?;
        if flow == Flow::Abandon {
            return Ok(None);
        }
        transaction.lock_found(self.table.id, changed.iter().map(|(key, _)| key), self.strength)?;
        let count = changed.len() as u64;
        let mut rows = self.output.as_ref().map(Output::rows);
        let mut returned = ReturnedMemory::default();
        let writing = begin_writing(count);
        for (key, row) in changed {
            if let Some(writing) = &writing {
                writing.row()?;
            }
            memory.let_go(bytes_of_key(&key) + bytes_of_row(&row));
            let row = transaction.with_generated(self.table.id, row)?;
            if let (Some(output), Some(rows)) = (&self.output, &mut rows) {
                let source = NewRow { table: &self.table, row: &row };
                output.push_row(Inputs { rows: &source, parameters, environment }, rows)?;
                rows.count_last(&mut returned, queries)?;
            }
            transaction.update(self.table.id, &key, row.clone()).map_err(|error| {
                let changed = self.changes.iter().enumerate().filter(|(_, change)| change.is_some());
                let given: Vec<usize> = changed.map(|(column, _)| column).collect();
                let value = |column| value_of(&self.table, &row, column);
                refused(error, &self.table, &given, value, environment.zone())
            })?;
        }
        Ok(Some(Outcome { count, rows: rows.map(|rows| rows.within(returned)) }))
    }

    /// For EXPLAIN.
    pub(super) fn explain(&self) -> Vec<String> {
        let columns: Vec<&str> = (self.changes.iter().zip(&self.table.columns))
            .filter(|(change, _)| change.is_some())
            .map(|(_, column)| column.name.as_str())
            .collect();
        let mut lines = vec![format!("Point path: update {} set {}", self.table.name, columns.join(", "))];
        lines.extend(self.steps.iter().flat_map(Step::explain).map(|line| format!("  {line}")));
        lines
    }
}

/// The column that an assignment is to.
pub(super) fn assigned_column(table: &TableDef, assignment: &Assignment) -> Result<usize, Refusal> {
    let AssignmentTarget::ColumnName(name) = &assignment.target else {
        return Err(Refusal::unsupported("assignment to several columns"));
    };
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
        return Err(Refusal::unsupported(name));
    };
    let column = table.column_index(&folded(ident)).ok_or_else(|| Refusal::unsupported(name))?;
    if is_always_generated(&table.columns[column]) {
        return Err(Refusal::unsupported("assignment to an identity column"));
    }
    Ok(column)
}

/// The value of an assignment; `DEFAULT` is not one.
pub(super) fn assigned_value(value: &Expr) -> Result<&Expr, Refusal> {
    if is_default(value) { Err(Refusal::unsupported("DEFAULT")) } else { Ok(value) }
}

/// Whether an expression is the word DEFAULT.
pub(super) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// Generated columns are computed as a row is written, and the general path looks at it then.
pub(super) fn refuse_generated(table: &TableDef) -> Result<(), Refusal> {
    match table.columns.iter().any(|column| column.generated.is_some()) {
        true => Err(Refusal::unsupported("generated columns")),
        false => Ok(()),
    }
}

pub(super) fn is_always_generated(column: &ColumnDef) -> bool {
    column.identity == Some(Identity::Always)
}
