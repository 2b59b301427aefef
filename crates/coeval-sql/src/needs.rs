// SPDX-License-Identifier: Apache-2.0
//! The privileges that a statement needs of the table it changes, as PostgreSQL has them: SELECT too, where it depends
//! on what the rows hold.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::rights::{Object, Rights};
use crate::walk::{any_expression, any_query};
use coeval_store::{Privilege, TableDef};
use datafusion::sql::sqlparser::ast::{
    Delete, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Insert, OnConflictAction,
    OnInsert, Update,
};

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

impl<'c> WrittenColumns<'c> {
    /// None: a change of whole rows, or a lock of them.
    pub(crate) const NONE: Self = Self { inserted: &[], updated: &[] };

    /// Those for which this privilege is needed; `None` if it is one to do something else than write columns.
    pub(crate) const fn by(self, privilege: Privilege) -> Option<&'c [usize]> {
        match privilege {
            Privilege::Insert => Some(self.inserted),
            Privilege::Update => Some(self.updated),
            _ => None,
        }
    }
}

/// As [`require`]; to INSERT and UPDATE it is enough to have the privilege on the columns that are written.
///
/// # Errors
/// As [`require`].
pub(crate) fn require_written(
    rights: &Rights,
    def: &TableDef,
    needs: &[Privilege],
    written: WrittenColumns<'_>,
) -> Result<(), SqlError> {
    needs.iter().try_for_each(|privilege| match written.by(*privilege) {
        Some(columns) => rights.require_on(def, *privilege, columns),
        None => rights.require(Object::Table(def), *privilege),
    })
}

/// Whether expressions name columns or whole rows, or have subqueries, which may read them without a name.
fn names_columns(expressions: &[Expr]) -> bool {
    let names_one = |expression: &Expr| match expression {
        // DEFAULT is read as a name; a column of that name has quotes.
        Expr::Identifier(ident) => {
            ident.quote_style.is_some() || !ident.value.eq_ignore_ascii_case("default")
        }
        Expr::CompoundIdentifier(_) | Expr::QualifiedWildcard(..) | Expr::Wildcard(_) => true,
        Expr::Function(function) => takes_rows(function),
        _ => false,
    };
    let reads = |expression: &Expr| any_query(expression, |_| true) || any_expression(expression, names_one);
    expressions.iter().any(reads)
}

/// Whether a call has a star among its arguments, as in `row_to_json(t.*)`: a row, and no expression.
fn takes_rows(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    list.args.iter().any(|argument| {
        let (FunctionArg::Unnamed(value)
        | FunctionArg::Named { arg: value, .. }
        | FunctionArg::ExprNamed { arg: value, .. }) = argument;
        !matches!(value, FunctionArgExpr::Expr(_))
    })
}
