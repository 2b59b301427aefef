// SPDX-License-Identifier: Apache-2.0
//! INSERT ... VALUES.

use super::Outcome;
use super::conflict::{ConflictPlan, Resolution};
use super::output::Output;
use super::source::{Planner, Source};
use super::update::{is_always_generated, is_default, refuse_generated};
use crate::error::SqlError;
use crate::failing_row::refused;
use crate::memory::{QueryEnvironment, ReturnedMemory};
use crate::parse::given_to_column;
use crate::scalar::{Environment, Inputs, NewRow, NoRows, Refusal, Scalar, Scope, folded};
use coeval_store::{Key, Row, RowWriter, StoreError, TableDef, Transaction, Value, ValueRef};
use datafusion::sql::sqlparser::ast::{
    Insert, ObjectName, ObjectNamePart, OnInsert, Query, SetExpr, TableObject,
};
use std::collections::HashSet;
use std::sync::Arc;

/// The most rows that are compiled; an INSERT with more is a load, which the general path does better.
const ROWS_MAX: usize = 1_000;

/// An INSERT, compiled.
#[derive(Debug)]
pub(super) struct InsertPlan {
    table: Arc<TableDef>,
    /// The columns that the statement lists, or all.
    given: Vec<usize>,
    /// For each row, the value of each of those columns; `None` where that is the default.
    rows: Vec<Vec<Option<Scalar>>>,
    /// For each column of the table.
    origins: Vec<Origin>,
    conflict: Option<ConflictPlan>,
    output: Option<Output>,
}

/// Where a column has its values from.
#[derive(Debug)]
struct Origin {
    /// The place in each row, if it is given.
    place: Option<usize>,
    default: Scalar,
}

impl InsertPlan {
    pub(super) fn output(&self) -> Option<&Output> {
        self.output.as_ref()
    }

    pub(super) fn compile(planner: &mut Planner<'_>, insert: &Insert) -> Result<Self, Refusal> {
        let (TableObject::TableName(name), true) = (&insert.table, is_plain(insert)) else {
            return Err(Refusal::unsupported("a clause of this INSERT"));
        };
        let table = planner.table(name, crate::needs::needs_of_insert(insert))?;
        refuse_generated(&table)?;
        let alias = insert.table_alias.as_ref().map(|alias| folded(&alias.alias));
        let columns = target_columns(&table, &insert.columns)?;
        let values = insert.source.as_deref().ok_or_else(|| Refusal::unsupported("DEFAULT VALUES"))?;
        let (rows, origins) = compile_rows(planner, &table, &columns, values)?;
        let source = Source::of_table(Arc::clone(&table), alias);
        let conflict = match &insert.on {
            None => None,
            Some(OnInsert::OnConflict(clause)) => {
                Some(ConflictPlan::compile(planner, &source, clause, columns.clone())?)
            }
            Some(_) => return Err(Refusal::unsupported("ON DUPLICATE KEY")),
        };
        let output = match &insert.returning {
            Some(items) => Some(Output::compile(planner, &source, items, None)?),
            None => None,
        };
        Ok(Self { table, given: columns, rows, origins, conflict, output })
    }

    /// Runs it, row by row. What it keeps of its rows beside the transaction's changes is asked for here.
    pub(super) fn run(
        &self,
        transaction: &mut Transaction,
        parameters: &[Value],
        environment: &dyn Environment,
        queries: &QueryEnvironment,
    ) -> Result<Outcome, SqlError> {
        let inputs = Inputs { rows: &NoRows, parameters, environment };
        let mut writer = RowWriter::new(self.table.layout());
        let mut returned = self.output.as_ref().map(Output::rows);
        let mut touched = Touched::new(self.rows.len());
        let (mut count, mut memory) = (0, ReturnedMemory::default());
        let refused = |row: &Row| {
            let (row, table, given) = (row.clone(), &self.table, &self.given);
            move |error| {
                refused(error, table, given, |column| value_of(table, &row, column), environment.zone())
            }
        };
        let mut rows = self.rows.iter().map(|values| -> Result<Row, SqlError> {
            writer.clear();
            for Origin { place, default } in &self.origins {
                let value = place.and_then(|place| values[place].as_ref()).unwrap_or(default);
                writer.push(value.eval(inputs)?.value()).map_err(StoreError::from)?;
            }
            Ok(writer.finish())
        });
        let mut ahead = Vec::new();
        if let Some(conflict) = self.conflict.as_ref().filter(|_| transaction.locks_ahead()) {
            ahead = self.kept(transaction, rows.by_ref(), (&mut memory, queries))?;
            conflict.lock_ahead(transaction, &self.table, &ahead)?;
        }
        for row in ahead.into_iter().map(Ok).chain(rows) {
            let row = transaction.with_generated(self.table.id, row?)?;
            let written = match &self.conflict {
                None => {
                    transaction.insert(self.table.id, row.clone()).map_err(refused(&row))?;
                    Some(row)
                }
                Some(conflict) => {
                    match conflict.resolve(
                        transaction,
                        &self.table,
                        &row,
                        parameters,
                        environment,
                        &touched,
                    )? {
                        Resolution::Insert => {
                            let key =
                                transaction.insert(self.table.id, row.clone()).map_err(refused(&row))?;
                            touched.note(key);
                            Some(row)
                        }
                        Resolution::Skip => None,
                        Resolution::Update(key, new) => {
                            transaction.update(self.table.id, &key, new.clone()).map_err(refused(&new))?;
                            touched.note(self.table.key_of(|column| {
                                new.get(self.table.layout(), column).expect("a new row has all columns")
                            }));
                            Some(new)
                        }
                    }
                }
            };
            let Some(written) = written else { continue };
            count += 1;
            if let (Some(output), Some(returned)) = (&self.output, &mut returned) {
                let source = NewRow { table: &self.table, row: &written };
                output.push_row(Inputs { rows: &source, parameters, environment }, returned)?;
                returned.count_last(&mut memory, queries)?;
            }
        }
        Ok(Outcome { count, rows: returned.map(|rows| rows.within(memory)) })
    }

    /// The rows as the table keeps them, by which their keys are found.
    fn kept(
        &self,
        transaction: &Transaction,
        rows: impl Iterator<Item = Result<Row, SqlError>>,
        (memory, queries): (&mut ReturnedMemory, &QueryEnvironment),
    ) -> Result<Vec<Row>, SqlError> {
        let mut kept = Vec::with_capacity(self.rows.len());
        for row in rows {
            let row = transaction.with_generated(self.table.id, row?)?;
            memory.add(ValueRef::Bytes(row.as_bytes()), queries)?;
            kept.push(row);
        }
        Ok(kept)
    }

    /// For EXPLAIN.
    pub(super) fn explain(&self) -> Vec<String> {
        let mut lines =
            vec![format!("Point path: insert into {}, rows: {}", self.table.name, self.rows.len())];
        if let Some(conflict) = &self.conflict {
            lines.push(format!("  on conflict {}", conflict.describe()));
        }
        lines
    }
}

/// The rows that a statement has written so far: ON CONFLICT DO UPDATE may touch each only once.
pub(super) struct Touched {
    keys: Option<HashSet<Key>>,
}

impl Touched {
    fn new(rows: usize) -> Self {
        // A single row cannot meet itself.
        Self { keys: (rows > 1).then(HashSet::new) }
    }

    fn note(&mut self, key: Key) {
        if let Some(keys) = &mut self.keys {
            keys.insert(key);
        }
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.contains(key))
    }
}

fn is_plain(insert: &Insert) -> bool {
    insert.into
        && insert.or.is_none()
        && !insert.ignore
        && !insert.overwrite
        && insert.assignments.is_empty()
        && insert.partitioned.is_none()
        && insert.after_columns.is_empty()
        && !insert.has_table_keyword
        && insert.output.is_none()
        && !insert.replace_into
        && insert.priority.is_none()
        && insert.insert_alias.is_none()
        && insert.settings.is_none()
        && insert.format_clause.is_none()
        && insert.multi_table_insert_type.is_none()
        && insert.optimizer_hints.is_empty()
}

/// The columns that values are given for: those named, or all.
fn target_columns(table: &TableDef, named: &[ObjectName]) -> Result<Vec<usize>, Refusal> {
    if named.is_empty() {
        return Ok(table.live_columns().map(|(column, _)| column).collect());
    }
    let mut columns = Vec::with_capacity(named.len());
    for name in named {
        let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
            return Err(Refusal::unsupported(name));
        };
        let column = table.column_index(&folded(ident)).ok_or_else(|| Refusal::unsupported(name))?;
        if columns.contains(&column) {
            return Err(Refusal::unsupported("a column named twice"));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// What the rows give, and where each column of the table has its value from.
type CompiledRows = (Vec<Vec<Option<Scalar>>>, Vec<Origin>);

/// What is kept grows with the statement's text, however many columns the table has.
fn compile_rows(
    planner: &mut Planner<'_>,
    table: &TableDef,
    columns: &[usize],
    query: &Query,
) -> Result<CompiledRows, Refusal> {
    let plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty();
    let (SetExpr::Values(values), true) = (query.body.as_ref(), plain) else {
        return Err(Refusal::unsupported("INSERT from a query"));
    };
    if values.rows.len() > ROWS_MAX {
        return Err(Refusal::unsupported("so many rows"));
    }
    let origins = table
        .columns
        .iter()
        .enumerate()
        .map(|(column, def)| {
            let place = columns.iter().position(|&target| target == column);
            // A value is given for every row, or the default is needed.
            let always_given = place.is_some_and(|place| {
                values.rows.iter().all(|row| row.content.get(place).is_some_and(|value| !is_default(value)))
            });
            let default = if always_given { Scalar::null(def.ty) } else { planner.default_of(def)? };
            Ok(Origin { place, default })
        })
        .collect::<Result<Vec<_>, Refusal>>()?;
    let scope = Scope::empty();
    let mut rows = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        let given = &row.content;
        if given.len() != columns.len() {
            return Err(Refusal::unsupported("a row of another width"));
        }
        let mut compiled = Vec::with_capacity(given.len());
        for (value, &column) in given.iter().zip(columns) {
            if is_default(value) {
                compiled.push(None);
                continue;
            }
            if is_always_generated(&table.columns[column]) {
                return Err(Refusal::unsupported("a value for an identity column"));
            }
            let column = &table.columns[column];
            let value = given_to_column(value, column.ty);
            compiled.push(Some(planner.compiler(&scope).assignment(&value, column)?));
        }
        rows.push(compiled);
    }
    Ok((rows, origins))
}

/// The value of each column of a row that is not yet in its table.
pub(super) fn value_of<'r>(table: &TableDef, row: &'r Row, column: usize) -> coeval_store::ValueRef<'r> {
    row.get(table.layout(), column).expect("a new row has all columns of its table")
}
