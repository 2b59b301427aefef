// SPDX-License-Identifier: Apache-2.0
//! The table that a statement changes, and the name its rows go by in the statement.

use super::target_view::{EXCLUDED, TargetView, ViewChange};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::{self, fold};
use crate::needs::{self, Reads, WrittenColumns};
use crate::rights::Checks;
use crate::scalar::ScopeTable;
use crate::select::{self, quoted};
use crate::stored::updatable::key_name;
use coeval_store::{Privilege, SpaceId, TableDef};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, SelectItem, TableAlias, TableFactor, TableWithJoins, Visit, With,
};
use std::sync::Arc;

/// The table that a statement changes.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The table; of a view, the one below it.
    pub(super) def: Arc<TableDef>,
    /// The alias, or the table's own name.
    name: Ident,
    has_alias: bool,
    /// The view, if it is one that is changed.
    view: Option<Arc<TargetView>>,
}

impl Target {
    /// The table of this name, to be changed under this alias.
    ///
    /// # Errors
    /// `42P01` if there is no such table, `42809` if it is something else.
    pub(super) fn resolve(
        context: &StatementContext<'_>,
        name: &ObjectName,
        alias: Option<&Ident>,
    ) -> Result<Self, SqlError> {
        let def = names::table(name, context.settings, context.transaction)?;
        let own = || quoted(def.name.name.clone());
        let name = alias.map_or_else(own, |alias| quoted(fold(alias)));
        Ok(Self { def, name, has_alias: alias.is_some(), view: None })
    }

    /// The table of this name, or the view through which it is changed so.
    ///
    /// # Errors
    /// As [`Self::resolve`]; `55000` for a view through which nothing is written, `0A000` for one that has to be supported yet.
    pub(super) fn resolve_changed(
        context: &StatementContext<'_>,
        name: &ObjectName,
        alias: Option<&Ident>,
        change: ViewChange,
    ) -> Result<Self, SqlError> {
        let found = names::existing_name(name, context.settings, context.transaction)?;
        let view = found.and_then(|found| context.transaction.catalog().view(&found).cloned());
        let Some(view) = view else { return Self::resolve(context, name, alias) };
        let view = TargetView::resolve(context, &view, change)?;
        let name = alias.map_or_else(|| quoted(view.name()), |alias| quoted(fold(alias)));
        let (def, has_alias) = (Arc::clone(view.table()), alias.is_some());
        Ok(Self { def, name, has_alias, view: Some(Arc::new(view)) })
    }

    /// The table or view that stands in a FROM clause.
    ///
    /// # Errors
    /// As [`Self::resolve_changed`]; `0A000` for what cannot be changed: joins, subqueries, functions.
    pub(super) fn of_from(
        context: &StatementContext<'_>,
        table: &TableWithJoins,
        change: ViewChange,
    ) -> Result<Self, SqlError> {
        match &table.relation {
            TableFactor::Table { name, alias, args: None, .. } if table.joins.is_empty() => {
                if let Some(alias) = alias.as_ref().filter(|alias| !alias.columns.is_empty()) {
                    return Err(SqlError::unsupported(format_args!(
                        "an alias with columns, {alias}, of a target"
                    )));
                }
                Self::resolve_changed(context, name, alias.as_ref().map(|alias| &alias.name), change)
            }
            _ => Err(SqlError::unsupported(format_args!("changing {table}"))),
        }
    }

    /// The view that is changed, if it is one.
    pub(super) fn view(&self) -> Option<&Arc<TargetView>> {
        self.view.as_ref()
    }

    /// Refuses a change of these columns of the table if the session lacks one of these privileges; on a view, if it lacks it there, or the
    /// view's owner below.
    ///
    /// # Errors
    /// `42501`.
    pub(super) fn require_written(
        &self,
        context: &StatementContext<'_>,
        needed: &[Privilege],
        written: WrittenColumns<'_>,
    ) -> Result<(), SqlError> {
        match &self.view {
            None => needs::require_written(&context.rights(), &self.def, needed, written),
            Some(view) => view.require(context, needed, written),
        }
    }

    /// As [`Self::require_written`], for a statement that then finds the rows by a query of its own. Where SELECT on the table is all
    /// that is lacking, and rows are read by the condition of that query alone, it is checked column by column, their keys included.
    ///
    /// # Errors
    /// As [`Self::require_written`].
    pub(super) fn require_to_find(
        &self,
        context: &mut StatementContext<'_>,
        needed: &[Privilege],
        updated: &[usize],
        reads: Reads,
    ) -> Result<(), SqlError> {
        let written = WrittenColumns { updated, ..WrittenColumns::NONE };
        if let Some(view) = &self.view {
            view.require(context, needed, written)?;
            context.checks = view.checks_of_reads();
            return Ok(());
        }
        let rights = context.rights();
        context.checks = match needs::require_written(&rights, &self.def, needed, written) {
            Ok(()) => Checks::AllBut(self.def.id),
            Err(refused) if reads == Reads::Otherwise => return Err(refused),
            Err(_) => {
                let others: Vec<Privilege> =
                    needed.iter().copied().filter(|privilege| *privilege != Privilege::Select).collect();
                needs::require_written(&rights, &self.def, &others, written)?;
                Checks::All
            }
        };
        Ok(())
    }

    /// Refuses a statement, with what is in front of it, that names what only the queries and expressions have by which a view is changed.
    ///
    /// # Errors
    /// `42703`, `42P01`.
    pub(super) fn refuse_inner_names(
        &self,
        statement: &impl Visit,
        with: Option<&With>,
    ) -> Result<(), SqlError> {
        let Some(view) = &self.view else { return Ok(()) };
        view.refuse_inner_names(statement)?;
        with.map_or(Ok(()), |with| view.refuse_inner_names(with))
    }

    /// The columns that an INSERT without a list gives values for, in order; an error in the place of one that takes none.
    pub(super) fn all_columns(&self) -> Vec<Result<usize, SqlError>> {
        match &self.view {
            None => self.def.live_columns().map(|(column, _)| Ok(column)).collect(),
            Some(view) => view.columns().collect(),
        }
    }

    /// Its number.
    pub(super) fn id(&self) -> SpaceId {
        self.def.id
    }

    /// The name its rows go by.
    pub(super) fn name(&self) -> &Ident {
        &self.name
    }

    /// The column of the table that a SET or INSERT list names.
    ///
    /// # Errors
    /// `42703` if there is none; `0A000` for a column of a view that is none of the table.
    pub(super) fn column(&self, name: &Ident) -> Result<usize, SqlError> {
        let found = match &self.view {
            None => self.def.column_index(&fold(name)).map(Ok),
            Some(view) => view.column(&fold(name)),
        };
        found.unwrap_or_else(|| Err(self.unknown_column(name)))
    }

    /// As [`Self::column`], of a name that may be qualified (which PostgreSQL refuses: it reads `t.a` as a
    /// field of column `t`).
    pub(super) fn column_of_name(&self, name: &ObjectName) -> Result<usize, SqlError> {
        match name.0.as_slice() {
            [ObjectNamePart::Identifier(column)] => self.column(column),
            [ObjectNamePart::Identifier(first), ..] => Err(self.unknown_column(first)),
            _ => Err(SqlError::unsupported(format_args!("the column name {name}"))),
        }
    }

    fn unknown_column(&self, name: &Ident) -> SqlError {
        let table = self.view.as_ref().map_or(self.def.name.name.as_str(), |view| view.name());
        let (column, start) = (fold(name), name.span.start);
        let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
        SqlError::new(SqlState::UndefinedColumn, message).at(start.line, start.column)
    }

    /// Its entry in a FROM clause. The table is named with its schema, so that no common table expression
    /// hides it.
    pub(super) fn from(&self) -> TableWithJoins {
        let parts = [&self.def.name.schema, &self.def.name.name].map(|part| quoted(part.as_str()));
        let own = || ObjectName::from(parts.to_vec());
        let name = self.view.as_ref().map_or_else(own, |view| view.found_by());
        let alias = TableAlias { explicit: true, name: self.name.clone(), columns: Vec::new(), at: None };
        select::table(name, Some(alias))
    }

    /// Its primary key as the first columns of a query.
    pub(super) fn key_items(&self) -> Vec<SelectItem> {
        self.key_items_named("key")
    }

    /// Its primary key as columns of a query whose names begin so.
    pub(super) fn key_items_named(&self, prefix: &str) -> Vec<SelectItem> {
        let name = |(number, &column): (usize, &usize)| match self.view {
            None => self.def.columns[column].name.clone(),
            Some(_) => key_name(number),
        };
        let names = self.def.primary_key.iter().enumerate().map(name);
        let items = names.enumerate().map(|(number, name)| {
            let value: Expr = select::column(&self.name, &name);
            select::item(value, format!("{prefix} {number}"))
        });
        items.collect()
    }

    /// An expression of DO UPDATE, over the row that is there and [the one that was proposed](Self::proposed_table), of the columns that
    /// [`Self::scope_table`] has.
    ///
    /// # Errors
    /// `42702`, `42703` and `0A000` for columns of a view.
    pub(super) fn of_rows(&self, expression: &Expr) -> Result<Expr, SqlError> {
        match &self.view {
            None => Ok(expression.clone()),
            // Both rows have all of its columns: a name alone is one of two.
            Some(view) => view.of_table(expression, &self.name.value, &|_| true),
        }
    }

    /// The row that was proposed, for expressions of DO UPDATE.
    pub(super) fn proposed_table(&self) -> ScopeTable {
        ScopeTable::of_table(&self.def).with_alias(EXCLUDED)
    }

    /// Its columns for expressions over one row; of a view, those of the table, for expressions as [`Self::of_rows`] writes them.
    pub(super) fn scope_table(&self) -> ScopeTable {
        if let Some(view) = &self.view {
            return view.scope_table();
        }
        let table = ScopeTable::of_table(&self.def);
        if self.has_alias { table.with_alias(self.name.value.clone()) } else { table }
    }
}
