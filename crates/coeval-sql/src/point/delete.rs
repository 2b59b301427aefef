// SPDX-License-Identifier: Apache-2.0
//! DELETE by key.

use super::Outcome;
use super::access::Step;
use super::change::{Reach, Targets, begin_writing};
use super::choice::{Keyless, choose};
use super::found_memory::{FoundMemory, bytes_of_key};
use super::output::Output;
use super::source::{Conjunct, Planner, Source, table_name};
use super::walk::{Flow, Walk};
use crate::error::SqlError;
use crate::memory::{QueryEnvironment, ReturnedMemory};
use crate::scalar::{Environment, Inputs, Refusal};
use coeval_store::{Key, Privilege, TableDef, Transaction, Value};
use coeval_txn::LockStrength;
use datafusion::sql::sqlparser::ast::{Delete, FromTable};
use smallvec::SmallVec;
use std::sync::Arc;

/// A DELETE, compiled.
#[derive(Debug)]
pub(super) struct DeletePlan {
    table: Arc<TableDef>,
    steps: Vec<Step>,
    reach: Reach,
    output: Option<Output>,
}

impl DeletePlan {
    pub(super) fn output(&self) -> Option<&Output> {
        self.output.as_ref()
    }

    pub(super) fn compile(planner: &mut Planner<'_>, delete: &Delete) -> Result<Self, Refusal> {
        let plain = delete.tables.is_empty()
            && delete.output.is_none()
            && delete.order_by.is_empty()
            && delete.limit.is_none()
            && delete.optimizer_hints.is_empty();
        let (FromTable::WithFromKeyword(from), true) = (&delete.from, plain) else {
            return Err(Refusal::unsupported("a clause of this DELETE"));
        };
        let [from] = from.as_slice() else { return Err(Refusal::unsupported("DELETE from several tables")) };
        if !from.joins.is_empty() {
            return Err(Refusal::unsupported("DELETE from a join"));
        }
        let (name, alias) = table_name(&from.relation)?;
        let target = Source::of_table(planner.table(name, &[Privilege::Delete, Privilege::Select])?, alias);
        let mut conditions = Vec::new();
        let source = planner.target(target, delete.using.as_deref().unwrap_or_default(), &mut conditions)?;
        let selection =
            delete.selection.as_ref().ok_or_else(|| Refusal::unsupported("DELETE of all rows"))?;
        conditions.extend(Conjunct::of_where(selection));
        let steps = choose(planner, &source, &conditions, None, Keyless::Refused)?.steps;
        let output = match &delete.returning {
            Some(items) => Some(Output::compile(planner, &source, items, None)?),
            None => None,
        };
        let reach = Reach::of(&steps, output.iter().flat_map(|output| &output.columns))?;
        Ok(Self { table: Arc::clone(&source.tables[0]), steps, reach, output })
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

    /// The rows are found first and removed afterwards. `None` if more than so many have to be visited; then nothing is changed.
    fn change(
        &self,
        transaction: &mut Transaction,
        parameters: &[Value],
        environment: &dyn Environment,
        queries: &QueryEnvironment,
        visited_max: usize,
    ) -> Result<Option<Outcome>, SqlError> {
        let (mut memory, mut returned) = (FoundMemory::of(queries), ReturnedMemory::default());
        let mut found: SmallVec<[Key; 1]> = SmallVec::new();
        let mut rows = self.output.as_ref().map(Output::rows);
        let mut targets = Targets::of(&self.steps);
        let mut walk = Walk::new(transaction, parameters, environment, visited_max).counted_elsewhere();
        let flow = walk.run(&self.steps, &mut |frame| {
            let (key, _) = frame.row(0);
            if !targets.take(key) {
                return Ok(Flow::Continue);
            }
            if let (Some(output), Some(rows)) = (&self.output, &mut rows) {
                output.push_row(Inputs { rows: frame, parameters, environment }, rows)?;
                rows.count_last(&mut returned, queries)?;
            }
            memory.keep(bytes_of_key(key))?;
            found.push(key.clone());
            Ok(Flow::Continue)
        })?;
        if flow == Flow::Abandon {
            return Ok(None);
        }
        transaction.lock_found(self.table.id, &found, LockStrength::Update)?;
        let count = found.len() as u64;
        let writing = begin_writing(count);
        for key in found {
            if let Some(writing) = &writing {
                writing.row()?;
            }
            memory.let_go(bytes_of_key(&key));
            transaction.delete(self.table.id, &key)?;
        }
        Ok(Some(Outcome { count, rows: rows.map(|rows| rows.within(returned)) }))
    }

    /// For EXPLAIN.
    pub(super) fn explain(&self) -> Vec<String> {
        let mut lines = vec![format!("Point path: delete from {}", self.table.name)];
        lines.extend(self.steps.iter().flat_map(Step::explain).map(|line| format!("  {line}")));
        lines
    }
}
