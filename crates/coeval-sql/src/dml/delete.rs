// SPDX-License-Identifier: Apache-2.0
//! DELETE: a query finds the rows, then they go.

use super::environment;
use super::expressions::Rows;
use super::joined::JoinedTables;
use super::returning::{Relation, Returning};
use super::rows::{found_rows, values_of};
use super::target::Target;
use super::target_view::ViewChange;
use crate::cancel;
use crate::context::{StatementContext, has_written};
use crate::error::SqlError;
use crate::needs::{self, Reads};
use crate::query;
use crate::result::{CommandTag, StatementResult};
use crate::select;
use crate::writing::Writing;
use coeval_txn::LockStrength;
use datafusion::sql::sqlparser::ast::{Delete, FromTable, With};

/// Runs a DELETE. All rows are found before the first one goes.
///
/// # Errors
/// What the query refuses; `23503` for rows that others refer to.
pub(super) fn run(
    context: &mut StatementContext<'_>,
    delete: &Delete,
    with: Option<&With>,
) -> Result<StatementResult, SqlError> {
    refuse_clauses(delete)?;
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    let [table] = tables.as_slice() else {
        return Err(SqlError::unsupported("DELETE from several tables"));
    };
    let target = Target::of_from(context, table, ViewChange::Delete)?;
    // Of bricks the condition is evaluated without a query.
    let reads = if target.def.bricks.is_some() { Reads::Otherwise } else { needs::reads_of_delete(delete) };
    target.require_to_find(context, needs::needs_of_delete(delete), &[], reads)?;
    if target.def.bricks.is_some() {
        return super::bricks::delete(context, delete, &target, with);
    }
    let joined = JoinedTables::new(delete.using.as_deref().unwrap_or_default(), delete.returning.as_deref());
    let mut items = target.key_items();
    let joined_start = items.len();
    items.extend(joined.items());
    let mut from = vec![target.from()];
    from.extend(joined.tables().iter().cloned());
    let select = select::query(with.cloned(), items, from, delete.selection.clone());
    let found = query::collect_with_hidden(context, &select)?;
    let joined = joined.read(&found, joined_start)?;
    let mut relations = vec![Relation::of_target(&target)];
    relations.extend(joined.relations().iter().cloned());
    let mut returning = Returning::compile(context, delete.returning.as_deref(), &relations)?;

    let mut rows = found_rows(&target.def, &found.batches)?;
    let parts = context.parts.clone();
    let (environment, transaction) = environment::split(context);
    rows.retain(|row| !has_written(parts.as_deref(), transaction, target.id(), &row.key));
    transaction.lock_found(target.id(), rows.iter().map(|row| &row.key), LockStrength::Update)?;
    if let Some(returning) = &mut returning {
        for row in &rows {
            cancel::check()?;
            let Some(old) = transaction.get(target.id(), &row.key)?.map(values_of) else { continue };
            let others = joined.values(row);
            let mut all: Vec<&[_]> = vec![&old];
            all.extend(others.iter().map(Vec::as_slice));
            returning.push(&Rows(&all), &environment)?;
        }
    }
    let writing = Writing::begin(rows.len() as u64);
    for row in &rows {
        writing.row()?;
        // A cascade of this very statement may have been first: the row was found, so it counts.
        transaction.delete(target.id(), &row.key)?;
    }
    let returned = returning.map(Returning::finish).transpose()?;
    Ok(StatementResult { tag: CommandTag::Delete(rows.len() as u64), rows: returned })
}

fn refuse_clauses(delete: &Delete) -> Result<(), SqlError> {
    let refused = [
        (!delete.tables.is_empty(), "DELETE with a list of tables"),
        (!delete.order_by.is_empty(), "ORDER BY in DELETE"),
        (delete.limit.is_some(), "LIMIT in DELETE"),
        (delete.output.is_some(), "OUTPUT"),
    ];
    super::refuse_any(&refused)
}
