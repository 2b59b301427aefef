// SPDX-License-Identifier: Apache-2.0
//! Statements of several parts: those whose WITH changes or locks rows, or gives different rows each time it runs.
//!
//! The parts run one after another: first those that the statement reads, then the statement itself, then the parts that nothing
//! reads, as in PostgreSQL. All of them see the rows that were there when the statement began. Later parts see what an earlier
//! part returned as a table, and nothing else that it did. Each part that changes rows runs once. A part that only reads runs
//! once too, if it is read: a value of a sequence in it is the same for all that read it. If two parts change one row, the change
//! of the first counts. If waiting for a lock has moved the snapshot, what was written is undone and all parts run again.

use super::{execute, execute_query, execute_with, part_values, statement_of};
use crate::context::{Parts, StatementContext};
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::point::PointPlan;
use crate::query;
use crate::result::{RowSet, StatementResult};
use crate::select;
use crate::walk::each_relation;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_store::Savepoint;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, FromTable, Ident, ObjectName, ObjectNamePart, Query, SelectItem, Statement, TableAlias, TableFactor,
    TableObject, WildcardAdditionalOptions, With,
};
use std::sync::Arc;

/// Whether a query's WITH changes or locks rows, or makes rows that are others each time and are read several times.
pub(crate) fn is_in_parts(query: &Query) -> bool {
    let mut tables = query.with.iter().flat_map(|with| &with.cte_tables);
    tables.any(|table| {
        statement_of(&table.query).is_some() || query::locks_rows(&table.query) || is_read_anew(query, table)
    })
}

/// Whether a part of a query's WITH makes rows that are others each time, and is read several times.
pub(super) fn is_read_anew(query: &Query, part: &Cte) -> bool {
    query::calls_volatile(&part.query) && count_named(query, &fold(&part.alias.name)) > 1
}

/// Whether a query changes and locks nothing.
pub(crate) fn is_plain_query(query: &Query) -> bool {
    !query::locks_rows(query)
        && statement_of(query).is_none()
        && !is_in_parts(query)
        && !super::locks_in_front::locks_inside(query)
        && !super::parts_in_front::has_parts_inside(query)
}

/// The first statement in a query that changes rows.
pub(crate) fn first_change(query: &Query) -> Option<&Statement> {
    let mut tables = query.with.iter().flat_map(|with| &with.cte_tables);
    tables.find_map(|table| statement_of(&table.query)).or_else(|| statement_of(query))
}

/// Runs a query whose WITH changes or locks rows.
///
/// # Errors
/// As those of its parts; what they have written is undone.
pub(crate) fn execute_in_parts(
    context: &mut StatementContext<'_>,
    query: &Query,
) -> Result<StatementResult, SqlError> {
    let parts = Parts::begin(context.transaction);
    let began = Arc::clone(parts.began());
    context.parts = Some(Arc::new(parts));
    let outcome = run(context, query, &began);
    context.parts = None;
    if outcome.is_err() {
        context.transaction.undo_writes_since(&began);
    }
    outcome
}

fn run(
    context: &mut StatementContext<'_>,
    query: &Query,
    began: &Savepoint,
) -> Result<StatementResult, SqlError> {
    let checks = context.checks.clone();
    let (read, unread): (Vec<_>, Vec<_>) =
        parts_of(query).partition(|(part, _)| is_named(query, &part.alias.name));
    let has_written = read.iter().any(|(part, _)| statement_of(&part.query).is_some());
    let writes = if has_written { Writes::Some } else { Writes::None };
    for (part, recursive) in read {
        let rows = match statement_of(&part.query) {
            Some(statement) => change(context, part, statement)?,
            None if query::locks_rows(&part.query) => locked(context, part, writes)?,
            None => Some(query::collect(context, &alone(part, recursive))?),
        };
        context.checks = checks.clone();
        context.transaction.require_unmoved_since(began)?;
        let rows = rows.map(|rows| under_names(rows, &part.alias)).transpose()?;
        add(context, fold(&part.alias.name), rows);
    }
    let rest = part_values::with_values(context, without_with(query))?;
    let result = match by_keys(context, &rest, writes)? {
        Some(result) => result,
        None => match statement_of(&rest) {
            Some(statement) => execute(context, statement)?,
            None => execute_query(context, &rest)?,
        },
    };
    for (part, _) in unread {
        if let Some(statement) = statement_of(&part.query) {
            context.checks = checks.clone();
            context.transaction.require_unmoved_since(began)?;
            change(context, part, statement)?;
        }
    }
    Ok(result)
}

/// Whether parts in front of the statement itself change rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    None,
    Some,
}

/// Runs a part by keys; `None` if that is no way to run it. What parts have written is hidden from the others, and what they
/// have returned is a table, which is nothing for this path.
fn by_keys(
    context: &mut StatementContext<'_>,
    query: &Query,
    writes: Writes,
) -> Result<Option<StatementResult>, SqlError> {
    let parts = context.parts.as_deref();
    if writes == Writes::Some
        || parts.is_some_and(|parts| parts.names().any(|name| count_named(query, name) > 0))
    {
        return Ok(None);
    }
    let plan = match statement_of(query) {
        Some(statement) => PointPlan::compile_to_run(context, statement),
        None => PointPlan::compile_to_run(context, &Statement::Query(Box::new(query.clone()))),
    };
    plan.map_or(Ok(None), |plan| plan.execute(context))
}

/// Runs a part that locks rows.
fn locked(
    context: &mut StatementContext<'_>,
    part: &Cte,
    writes: Writes,
) -> Result<Option<RowSet>, SqlError> {
    if let Some(result) = by_keys(context, &part.query, writes)? {
        return Ok(result.rows);
    }
    let is_subquery = part.alias.name.value.starts_with(super::locks_in_front::PART);
    execute_query(context, &part.query).map(|result| result.rows).map_err(|error| {
        if is_subquery && error.may_name_outer_row() {
            return SqlError::unsupported("a locking subquery that refers to a row outside of it")
                .with_detail(error.message)
                .with_hint("Lock the rows by a statement of its own, in the same transaction.");
        }
        error
    })
}

/// Runs a part that changes rows.
fn change(
    context: &mut StatementContext<'_>,
    part: &Cte,
    statement: &Statement,
) -> Result<Option<RowSet>, SqlError> {
    refuse_bricks(context, statement)?;
    Ok(execute_with(context, statement, part.query.with.as_ref())?.rows)
}

/// What a part has returned can be read from here on.
pub(super) fn add(context: &mut StatementContext<'_>, name: String, rows: Option<RowSet>) {
    let parts = context.parts.as_deref().expect("the statement runs in parts");
    context.parts = Some(Arc::new(parts.with(name, rows)));
}

/// The parts before the statement itself, each with whether it may read itself.
pub(super) fn parts_of(query: &Query) -> impl Iterator<Item = (&Cte, Recursive)> {
    query.with.iter().flat_map(|with| {
        let recursive = if with.recursive { Recursive::Yes } else { Recursive::No };
        with.cte_tables.iter().map(move |table| (table, recursive))
    })
}

/// Whether RECURSIVE was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recursive {
    No,
    Yes,
}

/// The statement itself.
pub(super) fn without_with(query: &Query) -> Query {
    Query { with: None, ..query.clone() }
}

/// `WITH part SELECT * FROM part`.
pub(super) fn alone(part: &Cte, recursive: Recursive) -> Query {
    let with_token = AttachedToken::empty();
    let with = With { with_token, recursive: recursive == Recursive::Yes, cte_tables: vec![part.clone()] };
    whole_table(Some(with), &part.alias.name)
}

/// `WITH with SELECT * FROM name`.
pub(super) fn whole_table(with: Option<With>, name: &Ident) -> Query {
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let table = select::table(ObjectName::from(vec![name.clone()]), None);
    select::query(with, vec![all], vec![table], None)
}

/// Whether a query names a table so.
fn is_named(query: &Query, name: &Ident) -> bool {
    count_named(query, &fold(name)) > 0
}

/// How often a query names a table so.
fn count_named(query: &Query, name: &str) -> usize {
    let mut count = 0;
    each_relation(query, |relation| {
        if let [ObjectNamePart::Identifier(ident)] = relation.0.as_slice() {
            count += usize::from(fold(ident) == name);
        }
    });
    count
}

/// The rows with their columns named as the part says.
pub(super) fn under_names(rows: RowSet, alias: &TableAlias) -> Result<RowSet, SqlError> {
    if alias.columns.is_empty() {
        return Ok(rows);
    }
    let (given, there) = (alias.columns.len(), rows.schema.fields().len());
    if given > there {
        let name = fold(&alias.name);
        let message =
            format!("WITH query \"{name}\" has {there} columns available but {given} columns specified");
        return Err(SqlError::new(SqlState::InvalidColumnReference, message));
    }
    let field = |(place, field): (usize, &Arc<Field>)| match alias.columns.get(place) {
        Some(column) => Arc::new(field.as_ref().clone().with_name(fold(&column.name))),
        None => Arc::clone(field),
    };
    let fields: Vec<_> = rows.schema.fields().iter().enumerate().map(field).collect();
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let renamed = |batch: &RecordBatch| {
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&schema), batch.columns().to_vec(), &options)
    };
    let batches = rows.batches.iter().map(renamed).collect::<Result<_, _>>()?;
    Ok(rows.remade(schema, batches))
}

/// Rows of bricks are appended where other parts would see them.
fn refuse_bricks(context: &StatementContext<'_>, statement: &Statement) -> Result<(), SqlError> {
    let target = match statement {
        Statement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => name,
            _ => return Ok(()),
        },
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
            match tables.first().map(|table| &table.relation) {
                Some(TableFactor::Table { name, .. }) => name,
                _ => return Ok(()),
            }
        }
        _ => return Ok(()),
    };
    // What is no table is none with bricks, and refused where it is changed if it is to be.
    let Ok(def) = crate::names::table(target, context.settings, context.transaction) else { return Ok(()) };
    let instead = "Change the brick table in a statement of its own, in the same transaction.";
    super::bricks::refuse_rows(&def, "a change in WITH", instead)
}
