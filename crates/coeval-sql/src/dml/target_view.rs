// SPDX-License-Identifier: Apache-2.0
//! A view as what a statement changes: its rows are found by its own query, with its owner's rights, and written to the table below.
//!
//! The query that finds rows reads a relation of the schema [`CHANGED_VIEW`], which the planner knows for as long as the statement's checks say so
//! ([`Checks::OfView`]): the view with the table's primary key in front. What is computed of one row (RETURNING, DO UPDATE, conditions of
//! WITH CHECK OPTION) is written of the table's columns.

use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::{fold, unknown_table};
use crate::needs::{self, WrittenColumns};
use crate::rights::{CHANGED_VIEW, Checks, Object, Rights};
use crate::scalar::ScopeTable;
use crate::select::quoted;
use crate::stored::updatable::{BASE, KEYS, NotUpdatable, Updatable, UpdatableColumn, operand, renamed_base};
use crate::walk::{find_expression, find_relation, try_change_expressions};
use coeval_store::{Privilege, TableDef, ViewDef};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, ObjectNamePart, Visit};
use std::sync::Arc;

/// What the row that was proposed goes by in DO UPDATE.
pub(super) const EXCLUDED: &str = "excluded";

/// What a statement does to the rows of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewChange {
    Insert,
    Update,
    Delete,
    /// `SELECT ... FOR UPDATE`: nothing but lock them.
    Lock,
}

impl ViewChange {
    fn refused(self, why: &NotUpdatable) -> SqlError {
        let (verb, participle, statement) = match self {
            Self::Insert => ("insert into", "inserting into", "INSERT"),
            Self::Update => ("update", "updating", "UPDATE"),
            Self::Delete => ("delete from", "deleting from", "DELETE"),
            Self::Lock => {
                return SqlError::unsupported(format!("a lock of rows of view \"{}\"", why.view.name))
                    .with_detail(why.reason)
                    .with_hint("Lock the rows of the tables that it reads.");
            }
        };
        let message = format!("cannot {verb} view \"{}\"", why.view.name);
        let hint = format!(
            "To enable {participle} the view, provide an INSTEAD OF {statement} trigger or an unconditional ON {statement} DO \
             INSTEAD rule."
        );
        SqlError::new(SqlState::ObjectNotInPrerequisiteState, message).with_detail(why.reason).with_hint(hint)
    }
}

/// A view that a statement changes, or whose rows it locks.
#[derive(Clone, Debug)]
pub(super) struct TargetView {
    updatable: Updatable,
    change: ViewChange,
    view: Arc<ViewDef>,
}

impl TargetView {
    /// The view as what is changed so.
    ///
    /// # Errors
    /// `55000` if rows are not written through it; `0A000` for a view over a table that has no rows of its own, or over a view
    /// with a subquery.
    pub(super) fn resolve(
        context: &StatementContext<'_>,
        view: &Arc<ViewDef>,
        change: ViewChange,
    ) -> Result<Self, SqlError> {
        let found = Updatable::of_view(view, context.transaction);
        let updatable = found.map_err(|why| change.refused(&why))?;
        if matches!(change, ViewChange::Insert | ViewChange::Update) {
            updatable.require_columns().map_err(|why| change.refused(&why))?;
        }
        let name = &view.name.name;
        let what = if change == ViewChange::Lock { "a lock of rows" } else { "a change" };
        if updatable.table.bricks.is_some() || updatable.table.foreign.is_some() {
            let message =
                format!("{what} through view \"{name}\", which is over a brick table or one of a server,");
            return Err(SqlError::unsupported(message).with_hint("Name the table itself."));
        }
        if let Some(below) = updatable.view_below_with_a_subquery() {
            let message =
                format!("{what} through view \"{name}\" over view \"{below}\", which has a subquery,");
            return Err(SqlError::unsupported(message).with_hint("Name that view itself."));
        }
        Ok(Self { updatable, change, view: Arc::clone(view) })
    }

    /// The table below.
    pub(super) fn table(&self) -> &Arc<TableDef> {
        &self.updatable.table
    }

    /// Its own name.
    pub(super) fn name(&self) -> &str {
        &self.view.name.name
    }

    /// The names of its columns.
    pub(super) fn column_names(&self) -> impl Iterator<Item = &str> {
        self.updatable.columns.iter().map(|column| column.name.as_str())
    }

    /// The columns of the table that its own ones are, in order; an error in the place of one that is none.
    pub(super) fn columns(&self) -> impl Iterator<Item = Result<usize, SqlError>> {
        self.updatable.columns.iter().map(|column| self.base_of(column))
    }

    /// The column of the table that a column of this name is; `None` if there is none of the name.
    pub(super) fn column(&self, name: &str) -> Option<Result<usize, SqlError>> {
        self.find(name).map(|column| self.base_of(column))
    }

    fn find(&self, name: &str) -> Option<&UpdatableColumn> {
        self.updatable.columns.iter().find(|column| column.name == name)
    }

    fn base_of(&self, column: &UpdatableColumn) -> Result<usize, SqlError> {
        column.base.ok_or_else(|| {
            // DO UPDATE is a part of an INSERT, and PostgreSQL says so.
            let verb = if self.change == ViewChange::Update { "update" } else { "insert into" };
            let message = format!("cannot {verb} column \"{}\" of view \"{}\"", column.name, self.name());
            SqlError::new(SqlState::FeatureNotSupported, message)
                .with_detail("View columns that are not columns of their base relation are not updatable.")
        })
    }

    /// The name of what stands for the view in the query that finds its rows.
    pub(super) fn found_by(&self) -> ObjectName {
        ObjectName::from(vec![quoted(CHANGED_VIEW), quoted(self.name())])
    }

    /// Refuses syntax of the statement with names that are none of a user's: of the keys of the table below and of what stands for the
    /// view in the query that finds its rows, and of the table in expressions of one row. By them columns were read that the view has not.
    ///
    /// # Errors
    /// `42703`; `42P01` for what stands for the view.
    pub(super) fn refuse_inner_names(&self, syntax: &impl Visit) -> Result<(), SqlError> {
        let is_inner = |name: &String| name.starts_with(KEYS) || name == BASE;
        let named = |expression: &Expr| match expression {
            Expr::Identifier(name) => Some(fold(name)).filter(is_inner),
            Expr::CompoundIdentifier(names) => names.iter().map(fold).find(is_inner),
            _ => None,
        };
        if let Some(name) = find_expression(syntax, named) {
            let message = format!("column \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UndefinedColumn, message));
        }
        let stands_for_it = |name: &ObjectName| {
            let mut parts = name.0.iter().filter_map(ObjectNamePart::as_ident);
            parts.any(|part| fold(part) == CHANGED_VIEW).then(|| name.to_string())
        };
        find_relation(syntax, stands_for_it).map_or(Ok(()), |name| Err(unknown_table(&name.replace('"', ""))))
    }

    /// The table below for expressions of one row.
    pub(super) fn scope_table(&self) -> ScopeTable {
        ScopeTable::of_table(self.table()).with_alias(BASE)
    }

    /// Refuses a change of the view if the session lacks one of these privileges, and of what is below it if the owner of what
    /// is above lacks one. To write columns, which are those of the table, a privilege on them is enough, and on a view one on any of
    /// those that they are there.
    ///
    /// # Errors
    /// `42501`.
    pub(super) fn require(
        &self,
        context: &StatementContext<'_>,
        needs: &[Privilege],
        written: WrittenColumns<'_>,
    ) -> Result<(), SqlError> {
        let authority = context.authority();
        let mut rights = context.rights();
        for (view, bases) in self.updatable.views() {
            let places = |column: &usize| -> Vec<usize> {
                let own = bases.iter().enumerate().filter(|(_, base)| **base == Some(*column));
                own.map(|(place, _)| place).collect()
            };
            for privilege in needs {
                match written.by(*privilege) {
                    Some(columns) => {
                        let columns: Vec<Vec<usize>> = columns.iter().map(places).collect();
                        rights.require_on_view(view, *privilege, &columns)?;
                    }
                    None => rights.require(Object::View(view), *privilege)?,
                }
            }
            rights = Rights::of_view(view, &authority)?;
        }
        needs::require_written(&rights, self.table(), needs, written)?;
        // The query that finds rows may read the table, but a subquery in it is the view's like that of any other table.
        if self.change != ViewChange::Insert && self.updatable.reads_table_besides() {
            let rights = Rights::of_view(&self.view, &authority)?;
            rights.require(Object::Table(self.table()), Privilege::Select)?;
        }
        Ok(())
    }

    /// What is checked of the reads of the query that finds its rows.
    pub(super) fn checks_of_reads(&self) -> Checks {
        let keyed = ViewDef {
            query: self.updatable.keyed().to_string(),
            columns: Vec::new(),
            output: None,
            ..ViewDef::clone(&self.view)
        };
        Checks::OfView(self.table().id, Arc::new(keyed))
    }

    /// The conditions that its new rows have to satisfy, each with the view whose it is.
    ///
    /// # Errors
    /// `0A000` for one with a subquery.
    pub(super) fn conditions(&self) -> Result<Vec<(&str, &Expr)>, SqlError> {
        let checks = self.updatable.checks().into_iter();
        checks
            .map(|check| match check.condition {
                Some(condition) => Ok((check.view, condition)),
                None => Err(SqlError::unsupported(format!(
                    "a subquery in the condition of view \"{}\", which checks what is written,",
                    check.view
                ))),
            })
            .collect()
    }

    /// An expression over the view, which goes by `name` in it, of the columns of the table. Other tables have the columns of which
    /// `is_of_others` says so.
    ///
    /// # Errors
    /// `42702` for a name of several; `42703` for a column of the table that the view has not; `0A000` for a column with a subquery.
    pub(super) fn of_table(
        &self,
        expression: &Expr,
        name: &str,
        is_of_others: &dyn Fn(&str) -> bool,
    ) -> Result<Expr, SqlError> {
        let mut written = expression.clone();
        try_change_expressions(&mut written, |part| -> Result<(), SqlError> {
            if let Some(replaced) = self.part_of_table(part, name, is_of_others)? {
                *part = replaced;
            }
            Ok(())
        })?;
        Ok(written)
    }

    fn part_of_table(
        &self,
        part: &Expr,
        name: &str,
        is_of_others: &dyn Fn(&str) -> bool,
    ) -> Result<Option<Expr>, SqlError> {
        match part {
            Expr::Identifier(column) => self.bare(column, is_of_others),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] if fold(table) == name => self.qualified(table, column).map(Some),
                [table, column] if fold(table) == EXCLUDED && self.change == ViewChange::Insert => {
                    let known = self.qualified(table, column)?;
                    Ok(Some(renamed_base(&known, EXCLUDED)))
                }
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn bare(&self, ident: &Ident, is_of_others: &dyn Fn(&str) -> bool) -> Result<Option<Expr>, SqlError> {
        let name = fold(ident);
        let is_others = is_of_others(&name);
        match self.find(&name) {
            Some(_) if is_others => {
                let message = format!("column reference \"{name}\" is ambiguous");
                Err(SqlError::new(SqlState::AmbiguousColumn, message))
            }
            Some(column) => self.expression(column).map(Some),
            None if !is_others && self.table().column_index(&name).is_some() => {
                let message = format!("column \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UndefinedColumn, message))
            }
            None => Ok(None),
        }
    }

    fn qualified(&self, table: &Ident, column: &Ident) -> Result<Expr, SqlError> {
        let found = self.find(&fold(column));
        let found = found.ok_or_else(|| {
            let message = format!("column {}.{} does not exist", fold(table), fold(column));
            SqlError::new(SqlState::UndefinedColumn, message)
        })?;
        self.expression(found)
    }

    fn expression(&self, column: &UpdatableColumn) -> Result<Expr, SqlError> {
        let known = column.expression.as_ref().map(operand);
        known.ok_or_else(|| {
            SqlError::unsupported(format!(
                "column \"{}\" of view \"{}\", which has a subquery, in this clause",
                column.name,
                self.name()
            ))
        })
    }
}
