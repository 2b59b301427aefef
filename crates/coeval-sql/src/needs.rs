// SPDX-License-Identifier: Apache-2.0
//! The privileges that a statement needs of the table it changes, as PostgreSQL has them: SELECT too, where it depends
//! on what the rows hold.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::rights::Object;
use crate::walk::{any_expression, any_query};
use coeval_store::{Privilege, TableDef};
use datafusion::sql::sqlparser::ast::{Delete, Expr, Insert, OnConflictAction, OnInsert, Update};

/// Of an INSERT.
pub(crate) fn needs_of_insert(insert: &Insert) -> &'static [Privilege] {
    const ADDS: &[Privilege] = &[Privilege::Insert];
    const READS: &[Privilege] = &[Privilege::Insert, Privilege::Select];
    const CHANGES: &[Privilege] = &[Privilege::Insert, Privilege::Select, Privilege::Update];
    match &insert.on {
        Some(OnInsert::OnConflict(conflict)) => match (&conflict.action, &conflict.conflict_target) {
            (OnConflictAction::DoUpdate(_), _) => CHANGES,
            (OnConflictAction::DoNothing, Some(_)) => READS,
            (OnConflictAction::DoNothing, None) if insert.returning.is_some() => READS,
            (OnConflictAction::DoNothing, None) => ADDS,
        },
        Some(_) => CHANGES,
        None if insert.returning.is_some() => READS,
        None => ADDS,
    }
}

/// Of an UPDATE.
pub(crate) fn needs_of_update(update: &Update) -> &'static [Privilege] {
    let reads = update.selection.is_some() || reads_of_update(update) == Reads::Otherwise;
    if reads { &[Privilege::Update, Privilege::Select] } else { &[Privilege::Update] }
}

/// Of a DELETE.
pub(crate) fn needs_of_delete(delete: &Delete) -> &'static [Privilege] {
    let reads = delete.selection.is_some() || reads_of_delete(delete) == Reads::Otherwise;
    if reads { &[Privilege::Delete, Privilege::Select] } else { &[Privilege::Delete] }
}

/// How a statement reads the rows that it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// By the condition of the query that finds them, if at all.
    ByCondition,
    /// By RETURNING, by what is assigned, or beside other tables as well.
    Otherwise,
}

/// Of an UPDATE.
pub(crate) fn reads_of_update(update: &Update) -> Reads {
    let assigned: Vec<Expr> = update.assignments.iter().map(|set| set.value.clone()).collect();
    match update.returning.is_some() || update.from.is_some() || names_columns(&assigned) {
        true => Reads::Otherwise,
        false => Reads::ByCondition,
    }
}

/// Of a DELETE.
pub(crate) fn reads_of_delete(delete: &Delete) -> Reads {
    match delete.returning.is_some() || delete.using.is_some() {
        true => Reads::Otherwise,
        false => Reads::ByCondition,
    }
}

/// Refuses a change of a table if the session lacks one of these privileges.
///
/// # Errors
/// `42501`.
pub(crate) fn require(
    context: &StatementContext<'_>,
    def: &TableDef,
    needs: &[Privilege],
) -> Result<(), SqlError> {
    let rights = context.rights();
    needs.iter().try_for_each(|privilege| rights.require(Object::Table(def), *privilege))
}

/// The columns that a statement gives values for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenColumns<'c> {
    /// Of new rows.
    pub(crate) inserted: &'c [usize],
    /// Of rows that are there.
    pub(crate) updated: &'c [usize],
}

/// As [`require`]; to INSERT and UPDATE it is enough to have the privilege on the columns that are written.
///
/// # Errors
/// As [`require`].
pub(crate) fn require_written(
    context: &StatementContext<'_>,
    def: &TableDef,
    needs: &[Privilege],
    written: WrittenColumns<'_>,
) -> Result<(), SqlError> {
    let rights = context.rights();
    needs.iter().try_for_each(|privilege| match privilege {
        Privilege::Insert => rights.require_on(def, *privilege, written.inserted),
        Privilege::Update => rights.require_on(def, *privilege, written.updated),
        _ => rights.require(Object::Table(def), *privilege),
    })
}

/// Whether expressions name columns, or have subqueries, which may read them without a name.
fn names_columns(expressions: &[Expr]) -> bool {
    let names_one = |expression: &Expr| match expression {
        // DEFAULT is read as a name.
        Expr::Identifier(ident) => !ident.value.eq_ignore_ascii_case("default"),
        Expr::CompoundIdentifier(_) => true,
        _ => false,
    };
    let reads = |expression: &Expr| any_query(expression, |_| true) || any_expression(expression, names_one);
    expressions.iter().any(reads)
}
