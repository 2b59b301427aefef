// SPDX-License-Identifier: Apache-2.0
//! UPDATE: a query finds the rows, then each is replaced.
//!
//! New values are made row by row from the old row where that is possible; what needs the database (a
//! subquery, a joined table) is a column of the query that finds the rows. The query is read to its end
//! before the first row is changed, so no row is met twice.

use super::assignments::{self, SetColumn, SetValue};
use super::check_options::CheckOptions;
use super::environment::{self, StatementEnvironment};
use super::expressions::{ColumnExpression, Expressions, Rows, StoredRow};
use super::generated::{Generator, generators};
use super::joined::JoinedTables;
use super::returning::{Relation, Returning};
use super::rows::{FoundRow, found_rows};
use super::selected::{self, source_type};
use super::target::Target;
use super::target_view::ViewChange;
use crate::context::{StatementContext, has_written};
use crate::error::SqlError;
use crate::failing_row::refused;
use crate::needs;
use crate::query;
use crate::result::{CommandTag, RowSet, StatementResult};
use crate::row_locking::strength_of_update;
use crate::scalar::{Inputs, Scope};
use crate::select;
use crate::writing::Writing;
use arrow::array::ArrayRef;
use coeval_store::{Row, RowRef, TableDef, Value, ValueRef, value_at};
use datafusion::sql::sqlparser::ast::{Expr, SelectItem, TableWithJoins, Update, UpdateTableFromKind, With};

/// What to do instead of an UPDATE of a brick table.
const REPLACE: &str = "Append corrected rows, or delete whole bricks and load them again.";

/// Where the new value of a column comes from.
enum NewValue {
    /// From the row itself.
    Expression(ColumnExpression),
    /// The column's default.
    Generated(Generator),
    /// From this column of the query.
    Selected(usize),
}

/// A column and its new value.
struct Change {
    column: usize,
    value: NewValue,
}

/// Runs an UPDATE.
///
/// # Errors
/// What the query and the expressions refuse; constraints.
pub(super) fn run(
    context: &mut StatementContext<'_>,
    update: &Update,
    with: Option<&With>,
) -> Result<StatementResult, SqlError> {
    refuse_clauses(update)?;
    let target = Target::of_from(context, &update.table, ViewChange::Update)?;
    let sets = assignments::resolve(&target, &update.assignments)?;
    let updated: Vec<usize> = sets.iter().map(|set| set.column).collect();
    let reads = needs::reads_of_update(update);
    target.require_to_find(context, needs::needs_of_update(update), &updated, reads)?;
    super::bricks::refuse_rows(&target.def, "UPDATE", REPLACE)?;
    let options = CheckOptions::compile(context, &target)?.of_given(updated);
    let from = from_tables(update);
    let mut items = target.key_items();
    let changes = new_values(context, &target, &sets, from, &mut items)?;
    let joined = JoinedTables::new(from, update.returning.as_deref());
    let joined_start = items.len();
    items.extend(joined.items());
    let mut tables = vec![target.from()];
    tables.extend(from.iter().cloned());
    let select = select::query(with.cloned(), items, tables, update.selection.clone());
    let found = query::collect_with_hidden(context, &select)?;

    let selected = selected_columns(context, &target.def, &sets, &changes, &found)?;
    let joined = joined.read(&found, joined_start)?;
    let mut relations = vec![Relation::of_target(&target)];
    relations.extend(joined.relations().iter().cloned());
    let mut returning = Returning::compile(context, update.returning.as_deref(), &relations)?;

    let rows = found_rows(&target.def, &found.batches)?;
    let parts = context.parts.clone();
    let (environment, transaction) = environment::split(context);
    let strength = strength_of_update(&target.def, changes.iter().map(|change| change.column));
    transaction.lock_found(target.id(), rows.iter().map(|row| &row.key), strength)?;
    let mut updated = 0;
    let writing = Writing::begin(rows.len() as u64);
    for row in &rows {
        writing.row()?;
        if has_written(parts.as_deref(), transaction, target.id(), &row.key) {
            continue;
        }
        // A referential action of this very statement may have moved the row.
        let Some(old) = transaction.get(target.id(), &row.key)? else { continue };
        let new = changed_row(old, row, &changes, &selected, &environment)?;
        let new = transaction.with_generated(target.id(), new)?;
        transaction.update(target.id(), &row.key, new.clone()).map_err(|error| {
            let given: Vec<usize> = changes.iter().map(|change| change.column).collect();
            refused(
                error,
                &target.def,
                &given,
                |column| value_of(&new, &target.def, column),
                environment.zone,
            )
        })?;
        updated += 1;
        if returning.is_none() && options.is_empty() {
            continue;
        }
        let columns = 0..target.def.columns.len();
        let new: Vec<Value> = columns.map(|column| value_of(&new, &target.def, column).to_owned()).collect();
        options.hold_for(&new, &environment)?;
        if let Some(returning) = &mut returning {
            let others = joined.values(row);
            let mut all: Vec<&[Value]> = vec![&new];
            all.extend(others.iter().map(Vec::as_slice));
            returning.push(&Rows(&all), &environment)?;
        }
    }
    let rows = returning.map(Returning::finish).transpose()?;
    Ok(StatementResult { tag: CommandTag::Update(updated), rows })
}

fn refuse_clauses(update: &Update) -> Result<(), SqlError> {
    let refused = [
        (!update.order_by.is_empty(), "ORDER BY in UPDATE"),
        (update.limit.is_some(), "LIMIT in UPDATE"),
        (update.output.is_some(), "OUTPUT"),
        (update.or.is_some(), "UPDATE OR"),
    ];
    super::refuse_any(&refused)
}

fn from_tables(update: &Update) -> &[TableWithJoins] {
    match &update.from {
        None => &[],
        Some(UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables)) => tables,
    }
}

/// The new values of all columns that are set; adds to `items` what the query must select for them.
fn new_values(
    context: &StatementContext<'_>,
    target: &Target,
    sets: &[SetColumn],
    from: &[TableWithJoins],
    items: &mut Vec<SelectItem>,
) -> Result<Vec<Change>, SqlError> {
    // With other tables in play, or a view, names are for the query to resolve; only what names nothing is made here.
    let is_for_query = !from.is_empty() || target.view().is_some();
    let scope = if is_for_query { Scope::empty() } else { Scope::new(vec![target.scope_table()]) };
    let mut expressions = Expressions::new(context, &scope);
    let mut defaults = None;
    let mut changes = Vec::with_capacity(sets.len());
    for set in sets {
        let value = match &set.value {
            SetValue::Default => {
                let defaults = match &mut defaults {
                    Some(defaults) => defaults,
                    empty => empty.insert(generators(context, &target.def)?),
                };
                NewValue::Generated(defaults[set.column].clone())
            }
            SetValue::Expression(expression) => {
                let column = &target.def.columns[set.column];
                let rowwise = match expressions.column(expression, column) {
                    Err(_) if is_for_query && !matches!(expression, Expr::Value(_)) => None,
                    result => result?,
                };
                rowwise.map_or_else(
                    || {
                        items.push(select::item(expression.clone(), format!("value {}", items.len())));
                        NewValue::Selected(items.len() - 1)
                    },
                    NewValue::Expression,
                )
            }
        };
        changes.push(Change { column: set.column, value });
    }
    Ok(changes)
}

/// The query's columns with new values, as the table's types, by batch and change; `None` for changes that
/// are made from the row.
fn selected_columns(
    context: &StatementContext<'_>,
    def: &TableDef,
    sets: &[SetColumn],
    changes: &[Change],
    found: &RowSet,
) -> Result<Vec<Vec<Option<ArrayRef>>>, SqlError> {
    for (set, change) in sets.iter().zip(changes) {
        if let (SetValue::Expression(expression), NewValue::Selected(place)) = (&set.value, &change.value) {
            let from = found.schema.field(*place).data_type();
            selected::check(from, source_type(expression), &def.columns[change.column])?;
        }
    }
    let zone = context.settings.zone();
    let columns = found.batches.iter().map(|batch| {
        let column = |change: &Change| match change.value {
            NewValue::Selected(place) => {
                selected::assigned(batch.column(place), &def.columns[change.column], zone).map(Some)
            }
            NewValue::Expression(_) | NewValue::Generated(_) => Ok(None),
        };
        changes.iter().map(column).collect()
    });
    columns.collect()
}

fn changed_row(
    old: RowRef<'_>,
    found: &FoundRow,
    changes: &[Change],
    selected: &[Vec<Option<ArrayRef>>],
    environment: &StatementEnvironment<'_>,
) -> Result<Row, SqlError> {
    let stored = StoredRow(old);
    let inputs = Inputs { rows: &stored, parameters: environment.parameters, environment };
    let mut values = Vec::with_capacity(changes.len());
    for (position, change) in changes.iter().enumerate() {
        let value = match &change.value {
            NewValue::Expression(expression) => expression.value(inputs, environment.zone)?,
            NewValue::Generated(generator) => generator.value(environment)?,
            NewValue::Selected(_) => {
                let array = selected[found.batch][position].as_ref();
                array.map_or(Value::Null, |array| value_at(array, found.row).to_owned())
            }
        };
        values.push((change.column, value));
    }
    Ok(old.with(&values))
}

/// A column of a row of the present layout.
fn value_of<'r>(row: &'r Row, def: &TableDef, column: usize) -> ValueRef<'r> {
    row.get(def.layout(), column).unwrap_or(ValueRef::Null)
}
