// SPDX-License-Identifier: Apache-2.0
//! The table that a statement changes, and the name its rows go by in the statement.

use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::{self, fold};
use crate::scalar::ScopeTable;
use crate::select::{self, quoted};
use coeval_store::{SpaceId, TableDef};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, SelectItem, TableAlias, TableFactor, TableWithJoins,
};
use std::sync::Arc;

/// The table that a statement changes.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) def: Arc<TableDef>,
    /// The alias, or the table's own name.
    name: Ident,
    has_alias: bool,
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
        Ok(Self { def, name, has_alias: alias.is_some() })
    }

    /// The table that stands in a FROM clause.
    ///
    /// # Errors
    /// As [`Self::resolve`]; `0A000` for what cannot be changed: joins, subqueries, functions.
    pub(super) fn of_from(context: &StatementContext<'_>, table: &TableWithJoins) -> Result<Self, SqlError> {
        match &table.relation {
            TableFactor::Table { name, alias, args: None, .. } if table.joins.is_empty() => {
                if let Some(alias) = alias.as_ref().filter(|alias| !alias.columns.is_empty()) {
                    return Err(SqlError::unsupported(format_args!(
                        "an alias with columns, {alias}, of a target"
                    )));
                }
                Self::resolve(context, name, alias.as_ref().map(|alias| &alias.name))
            }
            _ => Err(SqlError::unsupported(format_args!("changing {table}"))),
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

    /// The column that a SET or INSERT list names.
    ///
    /// # Errors
    /// `42703` if there is none.
    pub(super) fn column(&self, name: &Ident) -> Result<usize, SqlError> {
        self.def.column_index(&fold(name)).ok_or_else(|| self.unknown_column(name))
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
        let (column, table, start) = (fold(name), &self.def.name.name, name.span.start);
        let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
        SqlError::new(SqlState::UndefinedColumn, message).at(start.line, start.column)
    }

    /// Its entry in a FROM clause. The table is named with its schema, so that no common table expression
    /// hides it.
    pub(super) fn from(&self) -> TableWithJoins {
        let parts = [&self.def.name.schema, &self.def.name.name].map(|part| quoted(part.as_str()));
        let alias = TableAlias { explicit: true, name: self.name.clone(), columns: Vec::new(), at: None };
        select::table(ObjectName::from(parts.to_vec()), Some(alias))
    }

    /// Its primary key as the first columns of a query.
    pub(super) fn key_items(&self) -> Vec<SelectItem> {
        key_items(&self.def, &self.name, "key")
    }

    /// Its columns for expressions over one row.
    pub(super) fn scope_table(&self) -> ScopeTable {
        let table = ScopeTable::of_table(&self.def);
        if self.has_alias { table.with_alias(self.name.value.clone()) } else { table }
    }
}

/// The primary key of a table that goes by this name, as columns of a query.
pub(super) fn key_items(def: &TableDef, table: &Ident, prefix: &str) -> Vec<SelectItem> {
    let column = |(number, &column): (usize, &usize)| {
        let value: Expr = select::column(table, &def.columns[column].name);
        select::item(value, format!("{prefix} {number}"))
    };
    def.primary_key.iter().enumerate().map(column).collect()
}
