// SPDX-License-Identifier: Apache-2.0
//! `SELECT ... FOR UPDATE` and its weaker forms that the point path does not take: the rows found are locked.
//!
//! The query runs once, with the primary keys of the tables to lock as further columns, which are cut off
//! its result again. If a row was changed before its lock was granted, the statement runs again. With SKIP LOCKED
//! the query runs without its LIMIT, which then counts the rows that could be locked.

use super::rows::{key_arrays, key_at};
use super::target::Target;
use super::target_view::ViewChange;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::{fold, split_name};
use crate::needs::{self, WrittenColumns};
use crate::parameters::index_of_name;
use crate::query;
use crate::result::{RowSet, StatementResult};
use crate::row_locking::RowLocking;
use crate::select::{column, item};
use crate::stored::ROW_ID_COLUMN;
use crate::stored::updatable::KEYS;
use crate::walk::find_outside_queries;
use arrow::array::{RecordBatch, UInt64Array};
use coeval_store::{IfLocked, Privilege, RowLock};
use coeval_txn::LockStrength;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Fetch, GroupByExpr, JoinOperator, LimitClause, ObjectName, OrderBy, OrderByExpr, OrderByKind,
    Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, Value as AstValue,
};
use std::sync::Arc;

/// A table in the FROM clause whose rows are to be locked, or a view by which they are found.
struct LockedTable {
    target: Target,
    strength: LockStrength,
    if_locked: IfLocked,
}

/// Runs a query with a locking clause.
///
/// # Errors
/// What the query refuses; `0A000` where rows of the result are not rows of tables; `25006` in a read-only
/// transaction.
pub(crate) fn execute(
    context: &mut StatementContext<'_>,
    query: &Query,
) -> Result<StatementResult, SqlError> {
    let clauses = query.locks.iter().map(RowLocking::of_clause).collect::<Result<Vec<_>, _>>()?;
    let clause = clauses.first().map_or("FOR UPDATE", RowLocking::name);
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Err(not_allowed(clause, "UNION/INTERSECT/EXCEPT"));
    };
    refuse_groups(select, clause, context.engine.template())?;
    if context.transaction.is_read_only() {
        let message = format!("cannot execute SELECT {clause} in a read-only transaction");
        return Err(SqlError::new(SqlState::ReadOnlySqlTransaction, message));
    }
    let tables = locked_tables(context, query, select, &clauses)?;
    for LockedTable { target, .. } in &tables {
        target.refuse_inner_names(query, None)?;
        match target.view() {
            Some(view) => {
                view.require(context, &[Privilege::Select, Privilege::Update], WrittenColumns::NONE)?;
                context.checks = view.checks_of_reads();
            }
            None => {
                needs::require(context, &target.def, &[Privilege::Select])?;
                // Whoever may change one column of a row may keep others from changing it.
                context.rights().require_on(&target.def, Privilege::Update, &[])?;
            }
        }
        if target.def.is_spread() {
            super::bricks::refuse_rows(
                &target.def,
                clause,
                "Rows of brick tables are not changed: nobody has to be kept off.",
            )?;
        }
    }
    let window = match tables.iter().any(|table| table.if_locked == IfLocked::Skip) {
        true => Some(SkipWindow::of(context, query)?),
        false => None,
    };
    let mut extended = query.clone();
    extended.locks.clear();
    if window.is_some() {
        extended.limit_clause = None;
        extended.fetch = None;
    }
    let mut select = select.clone();
    add_keys(&mut select, &tables, query.order_by.as_ref())?;
    *extended.body = SetExpr::Select(select);
    let hidden = tables.iter().any(|table| !table.target.def.has_declared_primary_key());
    let found = if hidden {
        query::collect_with_hidden(context, &extended)?
    } else {
        query::collect(context, &extended)?
    };
    let keys: usize = tables.iter().map(|table| table.target.def.primary_key.len()).sum();
    let visible = found.schema.fields().len() - keys;
    let rows = cut(&found, visible)?;
    match window {
        None => {
            lock_all(context, &tables, &found, visible)?;
            Ok(StatementResult::select(rows))
        }
        Some(window) => {
            let kept = window.lock(context, &tables, &found, visible)?;
            Ok(StatementResult::select(taken(&rows, &kept)?))
        }
    }
}

/// Selects the primary keys of the tables to lock behind the outputs. A view is read with the key of the table below it, which is none of
/// its columns, nor ordered by.
///
/// # Errors
/// `42P10` for the place of a key of such a table in ORDER BY.
fn add_keys(select: &mut Select, tables: &[LockedTable], order: Option<&OrderBy>) -> Result<(), SqlError> {
    if let Some(target) = tables.iter().map(|table| &table.target).find(|target| target.view().is_some()) {
        let columns: Vec<&str> = target.view().into_iter().flat_map(|view| view.column_names()).collect();
        let outputs = std::mem::take(&mut select.projection).into_iter();
        select.projection = outputs
            .flat_map(|output| match output {
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => columns
                    .iter()
                    .map(|name| item(column(target.name(), name), (*name).to_owned()))
                    .collect::<Vec<SelectItem>>(),
                output => vec![output],
            })
            .collect();
        select.from = vec![target.from()];
        refuse_places_behind(select.projection.len(), order)?;
    }
    for (number, table) in tables.iter().enumerate() {
        select.projection.extend(table.target.key_items_named(&format!("{KEYS}of lock {number}")));
    }
    Ok(())
}

/// Refuses to order by places behind so many outputs.
fn refuse_places_behind(outputs: usize, order: Option<&OrderBy>) -> Result<(), SqlError> {
    let Some(OrderByKind::Expressions(order)) = order.map(|order| &order.kind) else { return Ok(()) };
    let place_of = |ordered: &OrderByExpr| match &ordered.expr {
        Expr::Value(value) => match &value.value {
            AstValue::Number(digits, _) => digits.parse::<usize>().ok(),
            _ => None,
        },
        _ => None,
    };
    match order.iter().filter_map(place_of).find(|place| *place > outputs) {
        Some(place) => {
            let message = format!("ORDER BY position {place} is not in select list");
            Err(SqlError::new(SqlState::InvalidColumnReference, message))
        }
        None => Ok(()),
    }
}

/// Locks all rows, of one batch after the other: what is made of their keys for that is gone before the next one.
fn lock_all(
    context: &mut StatementContext<'_>,
    tables: &[LockedTable],
    found: &RowSet,
    visible: usize,
) -> Result<(), SqlError> {
    for if_locked in [IfLocked::Fail, IfLocked::Wait] {
        if tables.iter().all(|table| table.if_locked != if_locked) {
            continue;
        }
        for batch in &found.batches {
            let locks = row_locks(tables, batch, visible)?;
            let of_kind = |(kind, lock): (IfLocked, RowLock)| (kind == if_locked).then_some(lock);
            let of_kind: Vec<RowLock> = locks.into_iter().flatten().filter_map(of_kind).collect();
            let locked = context.transaction.lock_rows(&of_kind, if_locked)?;
            context.transaction.require_as_read(&locked)?;
        }
    }
    Ok(())
}

/// For each row of a batch of the result the locks that it takes.
fn row_locks(
    tables: &[LockedTable],
    batch: &RecordBatch,
    visible: usize,
) -> Result<Vec<Vec<(IfLocked, RowLock)>>, SqlError> {
    let mut keys = Vec::with_capacity(tables.len());
    let mut start = visible;
    for table in tables {
        let arrays = key_arrays(&table.target.def, batch, start)?;
        start += arrays.len();
        keys.push(arrays);
    }
    let mut locks = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        let lock = |(table, keys): (&LockedTable, &Vec<_>)| {
            let key = key_at(keys, row)?;
            let lock = RowLock { table: table.target.id(), key, strength: table.strength };
            Some((table.if_locked, lock))
        };
        locks.push(tables.iter().zip(&keys).filter_map(lock).collect());
    }
    Ok(locks)
}

/// Which of the rows that could be locked are returned.
struct SkipWindow {
    offset: usize,
    limit: usize,
}

impl SkipWindow {
    fn of(context: &StatementContext<'_>, query: &Query) -> Result<Self, SqlError> {
        let number = |expression: Option<&Expr>| -> Result<Option<usize>, SqlError> {
            let Some(Expr::Value(value)) = expression else {
                return match expression {
                    None => Ok(None),
                    Some(other) => Err(SqlError::unsupported(format_args!("LIMIT {other} with SKIP LOCKED"))),
                };
            };
            let number = match &value.value {
                AstValue::Null => return Ok(None),
                AstValue::Number(number, _) => number.parse().ok(),
                AstValue::Placeholder(name) => {
                    let value = index_of_name(name).and_then(|index| context.parameters.get(index));
                    match value.map(|value| value.borrow()) {
                        Some(value) if value.is_null() => return Ok(None),
                        value => value.and_then(|value| usize::try_from(value.as_i64()?).ok()),
                    }
                }
                _ => None,
            };
            number
                .map(Some)
                .ok_or_else(|| SqlError::unsupported(format_args!("LIMIT {value} with SKIP LOCKED")))
        };
        let (limit, offset) = match &query.limit_clause {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(other) => return Err(SqlError::unsupported(format_args!("{other} with SKIP LOCKED"))),
        };
        let fetch = match &query.fetch {
            None => None,
            Some(Fetch { with_ties: false, percent: false, quantity: Some(quantity) }) => Some(quantity),
            Some(other) => return Err(SqlError::unsupported(format_args!("{other} with SKIP LOCKED"))),
        };
        let limit = number(limit.or(fetch))?.unwrap_or(usize::MAX);
        Ok(Self { offset: number(offset)?.unwrap_or(0), limit })
    }

    /// Locks rows, in their order, until there are enough; returns the places of those to return.
    fn lock(
        &self,
        context: &mut StatementContext<'_>,
        tables: &[LockedTable],
        found: &RowSet,
        visible: usize,
    ) -> Result<Vec<usize>, SqlError> {
        let wanted = self.offset.saturating_add(self.limit);
        let (mut locked, mut before) = (Vec::new(), 0);
        for batch in &found.batches {
            if locked.len() == wanted {
                break;
            }
            for (row, locks) in row_locks(tables, batch, visible)?.into_iter().enumerate() {
                if locked.len() == wanted {
                    break;
                }
                let mut is_skipped = false;
                for (if_locked, lock) in locks {
                    let outcome = context.transaction.lock_rows(&[lock], if_locked)?;
                    context.transaction.require_as_read(&outcome)?;
                    is_skipped |= !outcome.skipped.is_empty();
                }
                if !is_skipped {
                    locked.push(before + row);
                }
            }
            before += batch.num_rows();
        }
        Ok(locked.split_off(self.offset.min(locked.len())))
    }
}

/// These rows of the set, by their place in all of it.
fn taken(rows: &RowSet, places: &[usize]) -> Result<RowSet, SqlError> {
    let mut batches = Vec::with_capacity(rows.batches.len());
    let mut start = 0;
    for batch in &rows.batches {
        let end = start + batch.num_rows();
        let here = places.iter().filter(|place| (start..end).contains(*place));
        let here: UInt64Array = here.map(|&place| (place - start) as u64).collect::<Vec<_>>().into();
        batches.push(arrow::compute::take_record_batch(batch, &here)?);
        start = end;
    }
    Ok(rows.remade(Arc::clone(&rows.schema), batches))
}

/// The first columns of the rows, without the row ids that a `*` may have brought along.
fn cut(rows: &RowSet, width: usize) -> Result<RowSet, SqlError> {
    let columns: Vec<usize> =
        (0..width).filter(|&column| rows.schema.field(column).name() != ROW_ID_COLUMN).collect();
    let batches = rows.batches.iter().map(|batch| batch.project(&columns));
    let batches = batches.collect::<Result<Vec<RecordBatch>, _>>()?;
    Ok(rows.remade(Arc::new(rows.schema.project(&columns)?), batches))
}

fn not_allowed(clause: &str, with: &str) -> SqlError {
    SqlError::new(SqlState::FeatureNotSupported, format!("{clause} is not allowed with {with}"))
}

/// Refuses queries whose result rows are not rows of their tables.
fn refuse_groups(select: &Select, clause: &str, functions: &SessionState) -> Result<(), SqlError> {
    let grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(expressions, _) => !expressions.is_empty(),
    };
    if select.distinct.is_some() {
        return Err(not_allowed(clause, "DISTINCT clause"));
    }
    if grouped {
        return Err(not_allowed(clause, "GROUP BY clause"));
    }
    if select.having.is_some() {
        return Err(not_allowed(clause, "HAVING clause"));
    }
    let calls = find_outside_queries(&select.projection, |expression| {
        let Expr::Function(function) = expression else { return None };
        if function.over.is_some() {
            return Some("window functions");
        }
        let name = function.name.to_string().to_lowercase();
        let is_aggregate =
            !function.within_group.is_empty() || functions.aggregate_functions().contains_key(&name);
        is_aggregate.then_some("aggregate functions")
    });
    calls.map_or(Ok(()), |what| Err(not_allowed(clause, what)))
}

/// An item of the FROM clause.
struct FromItem<'q> {
    factor: &'q TableFactor,
    /// Whether an outer join fills it up with NULLs.
    is_filled: bool,
}

impl<'q> FromItem<'q> {
    fn all(from: &'q [TableWithJoins]) -> Vec<Self> {
        let mut items: Vec<Self> = Vec::new();
        for table in from {
            let begin = items.len();
            items.push(Self { factor: &table.relation, is_filled: false });
            for join in &table.joins {
                let (left, right) = filled_sides(&join.join_operator);
                items[begin..].iter_mut().for_each(|item| item.is_filled |= left);
                items.push(Self { factor: &join.relation, is_filled: right });
            }
        }
        items
    }
}

/// Whether a join fills up its left side, and whether its right one.
fn filled_sides(operator: &JoinOperator) -> (bool, bool) {
    match operator {
        JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
        JoinOperator::FullOuter(_) => (true, true),
        _ => (false, false),
    }
}

/// The tables of the FROM clause that the locking clauses mean.
fn locked_tables(
    context: &StatementContext<'_>,
    query: &Query,
    select: &Select,
    clauses: &[RowLocking],
) -> Result<Vec<LockedTable>, SqlError> {
    let items = FromItem::all(&select.from);
    let is_alone = items.len() == 1;
    let mut tables = Vec::new();
    for clause in clauses {
        let Some(name) = &clause.of else {
            for item in &items {
                tables.extend(locked_table(context, query, (item, is_alone), clause)?);
            }
            continue;
        };
        let what = clause.name();
        let named = items.iter().find(|item| exposed_name(item.factor).as_ref() == Some(name));
        let item = named.ok_or_else(|| {
            let message = format!("relation \"{name}\" in {what} clause not found in FROM clause");
            SqlError::new(SqlState::UndefinedTable, message)
        })?;
        let table = locked_table(context, query, (item, is_alone), clause)?;
        tables.push(table.ok_or_else(|| {
            SqlError::unsupported(format_args!("{what} of \"{name}\", which is not a table,"))
        })?);
    }
    Ok(tables)
}

/// The name that a table of the FROM clause goes by.
fn exposed_name(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(fold(&alias.name))
        }
        TableFactor::Table { name, .. } => split_name(name).ok().map(|(_, name)| name),
        _ => None,
    }
}

/// The table, or the view if it is all that there is in FROM; `None` for what has no rows of its own to lock.
fn locked_table(
    context: &StatementContext<'_>,
    query: &Query,
    (item, is_alone): (&FromItem<'_>, bool),
    clause: &RowLocking,
) -> Result<Option<LockedTable>, SqlError> {
    let (what, factor) = (clause.name(), item.factor);
    match factor {
        TableFactor::Table { name, args: None, .. } if is_common_table(context, query, name) => Ok(None),
        TableFactor::Table { name, alias, args: None, .. } => {
            let has_columns = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
            let alias = alias.as_ref().map(|alias| &alias.name);
            let target = if is_alone && !has_columns {
                Target::resolve_changed(context, name, alias, ViewChange::Lock)?
            } else {
                Target::resolve(context, name, alias)?
            };
            if item.is_filled {
                let message = format!("{what} cannot be applied to the nullable side of an outer join");
                return Err(SqlError::new(SqlState::FeatureNotSupported, message));
            }
            let RowLocking { strength, if_locked, .. } = *clause;
            Ok(Some(LockedTable { target, strength, if_locked }))
        }
        TableFactor::Table { .. } | TableFactor::Function { .. } | TableFactor::UNNEST { .. } => Ok(None),
        TableFactor::Derived { alias: Some(alias), .. } => {
            Err(SqlError::unsupported(format_args!("{what} of the subquery \"{}\"", alias.name.value)))
        }
        _ => Err(SqlError::unsupported(format_args!("{what} of {factor}"))),
    }
}

fn is_common_table(context: &StatementContext<'_>, query: &Query, name: &ObjectName) -> bool {
    let Ok((None, name)) = split_name(name) else { return false };
    context.parts.as_deref().is_some_and(|parts| parts.has(&name))
        || query.with.iter().flat_map(|with| &with.cte_tables).any(|table| fold(&table.alias.name) == name)
}
