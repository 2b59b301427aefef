// SPDX-License-Identifier: Apache-2.0
//! `SELECT ... FOR UPDATE` and `FOR SHARE` that the point path does not take: the rows found join the write
//! set, so whoever changes one of them first wins.
//!
//! The query runs once, with the primary keys of the tables to lock as further columns, which are cut off
//! its result again. There are no locks to wait for: NOWAIT is what happens anyway, and SKIP LOCKED, which
//! would have nothing to skip, is refused.

use super::rows::{key_arrays, key_at};
use super::target::{Target, key_items};
use crate::context::StatementContext;
use crate::ddl::ROW_ID_COLUMN;
use crate::error::{SqlError, SqlState};
use crate::names::{fold, split_name};
use crate::query;
use crate::result::{RowSet, StatementResult};
use arrow::array::RecordBatch;
use coeval_store::{StoreError, TableDef};
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, LockType, NonBlock, ObjectName, Query, Select, SetExpr, TableFactor, Visit,
    Visitor,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A table in the FROM clause whose rows are to be locked.
struct LockedTable {
    def: Arc<TableDef>,
    name: Ident,
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
    let clause = clause_name(query);
    if query.locks.iter().any(|lock| lock.nonblock == Some(NonBlock::SkipLocked)) {
        return Err(SqlError::unsupported("SKIP LOCKED"));
    }
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Err(not_allowed(clause, "UNION/INTERSECT/EXCEPT"));
    };
    refuse_groups(select, clause, context.engine.template())?;
    if context.transaction.is_read_only() {
        return Err(StoreError::ReadOnly(if clause == "FOR SHARE" {
            "SELECT FOR SHARE"
        } else {
            "SELECT FOR UPDATE"
        })
        .into());
    }
    let tables = locked_tables(context, query, select, clause)?;
    let mut items = select.projection.clone();
    for (number, table) in tables.iter().enumerate() {
        items.extend(key_items(&table.def, &table.name, &format!("lock {number} key")));
    }
    let mut extended = query.clone();
    extended.locks.clear();
    let mut select = select.clone();
    select.projection = items;
    *extended.body = SetExpr::Select(select);
    let hidden = tables.iter().any(|table| !table.def.has_declared_primary_key());
    let found = if hidden {
        query::collect_with_hidden(context, &extended)?
    } else {
        query::collect(context, &extended)?
    };
    let keys: usize = tables.iter().map(|table| table.def.primary_key.len()).sum();
    let visible = found.schema.fields().len() - keys;
    for batch in &found.batches {
        let mut start = visible;
        for table in &tables {
            let keys = key_arrays(&table.def, batch, start)?;
            start += keys.len();
            for row in 0..batch.num_rows() {
                if let Some(key) = key_at(&keys, row) {
                    context.transaction.lock_row(table.def.id, &key)?;
                }
            }
        }
    }
    cut(&found, visible).map(StatementResult::select)
}

/// The first columns of the rows, without the row ids that a `*` may have brought along.
fn cut(rows: &RowSet, width: usize) -> Result<RowSet, SqlError> {
    let columns: Vec<usize> =
        (0..width).filter(|&column| rows.schema.field(column).name() != ROW_ID_COLUMN).collect();
    let batches = rows.batches.iter().map(|batch| batch.project(&columns));
    Ok(RowSet {
        schema: Arc::new(rows.schema.project(&columns)?),
        batches: batches.collect::<Result<Vec<RecordBatch>, _>>()?,
    })
}

fn clause_name(query: &Query) -> &'static str {
    match query.locks.first().map(|lock| &lock.lock_type) {
        Some(LockType::Share) => "FOR SHARE",
        _ => "FOR UPDATE",
    }
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
    match select.projection.visit(&mut Groups { functions, depth: 0 }) {
        ControlFlow::Break(what) => Err(not_allowed(clause, what)),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Looks for aggregates and window functions outside subqueries.
struct Groups<'s> {
    functions: &'s SessionState,
    depth: usize,
}

impl Visitor for Groups<'_> {
    type Break = &'static str;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<Self::Break> {
        let Expr::Function(function) = expression else { return ControlFlow::Continue(()) };
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        if function.over.is_some() {
            return ControlFlow::Break("window functions");
        }
        let name = function.name.to_string().to_lowercase();
        if self.functions.aggregate_functions().contains_key(&name) {
            return ControlFlow::Break("aggregate functions");
        }
        ControlFlow::Continue(())
    }
}

/// The tables of the FROM clause that the locking clauses mean.
fn locked_tables(
    context: &StatementContext<'_>,
    query: &Query,
    select: &Select,
    clause: &str,
) -> Result<Vec<LockedTable>, SqlError> {
    let factors = select.from.iter().flat_map(|table| {
        std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
    });
    let factors: Vec<&TableFactor> = factors.collect();
    let mut tables = Vec::new();
    for lock in &query.locks {
        match &lock.of {
            None => {
                for factor in &factors {
                    tables.extend(locked_table(context, query, factor, clause)?);
                }
            }
            Some(name) => {
                let (_, name) = split_name(name)?;
                let named = factors.iter().find(|factor| exposed_name(factor).as_ref() == Some(&name));
                let factor = named.ok_or_else(|| {
                    let message = format!("relation \"{name}\" in {clause} clause not found in FROM clause");
                    SqlError::new(SqlState::UndefinedTable, message)
                })?;
                let table = locked_table(context, query, factor, clause)?;
                tables.push(table.ok_or_else(|| {
                    SqlError::unsupported(format_args!("{clause} of \"{name}\", which is not a table,"))
                })?);
            }
        }
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

/// The table; `None` for what has no rows of its own to lock.
fn locked_table(
    context: &StatementContext<'_>,
    query: &Query,
    factor: &TableFactor,
    clause: &str,
) -> Result<Option<LockedTable>, SqlError> {
    match factor {
        TableFactor::Table { name, args: None, .. } if is_common_table(query, name) => Ok(None),
        TableFactor::Table { name, alias, args: None, .. } => {
            let target = Target::resolve(context, name, alias.as_ref().map(|alias| &alias.name))?;
            Ok(Some(LockedTable { name: target.name().clone(), def: target.def }))
        }
        TableFactor::Table { .. } | TableFactor::Function { .. } | TableFactor::UNNEST { .. } => Ok(None),
        TableFactor::Derived { alias: Some(alias), .. } => {
            Err(SqlError::unsupported(format_args!("{clause} of the subquery \"{}\"", alias.name.value)))
        }
        _ => Err(SqlError::unsupported(format_args!("{clause} of {factor}"))),
    }
}

fn is_common_table(query: &Query, name: &ObjectName) -> bool {
    let Ok((None, name)) = split_name(name) else { return false };
    query.with.iter().flat_map(|with| &with.cte_tables).any(|table| fold(&table.alias.name) == name)
}
