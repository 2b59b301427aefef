// SPDX-License-Identifier: Apache-2.0
//! Which names an expression can use, and where their values are.

use crate::error::{SqlError, SqlState, unknown_column};
use coeval_store::{ColumnType, TableDef};
use datafusion::sql::sqlparser::ast::Ident;

/// The name that an identifier stands for: folded to lower case unless quoted.
#[must_use]
pub(crate) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// A table, or something that looks like one, whose columns can be named.
#[derive(Clone, Debug)]
pub(crate) struct ScopeTable {
    schema: Option<String>,
    name: String,
    /// By index in the table; `None` for columns that users do not see.
    columns: Vec<(Option<String>, ColumnType)>,
    /// The columns that are named with the table alone.
    merged: Vec<usize>,
}

impl ScopeTable {
    /// The columns of a table under its own name.
    #[must_use]
    pub(crate) fn of_table(def: &TableDef) -> Self {
        let columns =
            def.columns.iter().map(|column| (column.is_live().then(|| column.name.clone()), column.ty));
        Self {
            schema: Some(def.name.schema.clone()),
            name: def.name.name.clone(),
            columns: columns.collect(),
            merged: Vec::new(),
        }
    }

    /// These columns, by place in the row; `None` for names that users do not see.
    #[must_use]
    pub(crate) fn of_columns(name: impl Into<String>, columns: Vec<(Option<String>, ColumnType)>) -> Self {
        Self { schema: None, name: name.into(), columns, merged: Vec::new() }
    }

    /// The same columns under another name, without a schema.
    #[must_use]
    pub(crate) fn with_alias(mut self, alias: impl Into<String>) -> Self {
        self.schema = None;
        self.name = alias.into();
        self
    }

    /// The name it goes by.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn find(&self, column: &str) -> Option<(usize, ColumnType)> {
        let place = self.columns.iter().position(|(name, _)| name.as_deref() == Some(column))?;
        Some((place, self.columns[place].1))
    }

    /// The column that a name without a table stands for.
    pub(crate) fn find_bare(&self, column: &str) -> Option<(usize, ColumnType)> {
        self.find(column).filter(|(place, _)| !self.merged.contains(place))
    }

    /// Has a column named with the table alone, because `USING` has made one column of it and another table's; its type, if it is there.
    pub(crate) fn merge(&mut self, column: &str) -> Option<ColumnType> {
        let (place, ty) = self.find(column)?;
        self.merged.push(place);
        Some(ty)
    }

    /// Whether it has such columns.
    #[must_use]
    pub(crate) fn has_merged(&self) -> bool {
        !self.merged.is_empty()
    }
}

/// A column that a name was resolved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScopeColumn {
    /// The number of its table.
    pub(crate) table: usize,
    /// Which column of it.
    pub(crate) column: usize,
    /// Its type.
    pub(crate) ty: ColumnType,
}

/// The tables whose columns an expression can name. Those of a query around come behind its own: a name that its own tables do not have
/// is looked for there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    tables: Vec<ScopeTable>,
    /// The number of the first of them.
    first: usize,
    around: Option<Box<Self>>,
}

impl Scope {
    /// A scope without columns.
    #[must_use]
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    /// A scope over these tables, numbered in this order.
    #[must_use]
    pub(crate) fn new(tables: Vec<ScopeTable>) -> Self {
        Self { tables, first: 0, around: None }
    }

    /// A scope for the tables of a subquery, numbered behind those of the query around it, if there is one.
    #[must_use]
    pub(crate) fn within(around: &Self) -> Self {
        let first = around.end();
        Self { tables: Vec::new(), first, around: (first > 0).then(|| Box::new(around.clone())) }
    }

    /// A scope over the columns of one table.
    #[must_use]
    pub(crate) fn of_table(def: &TableDef) -> Self {
        Self::new(vec![ScopeTable::of_table(def)])
    }

    /// Adds a table behind the others.
    pub(crate) fn push(&mut self, table: ScopeTable) {
        self.tables.push(table);
    }

    /// The tables, to be changed.
    pub(crate) fn tables_mut(&mut self) -> &mut [ScopeTable] {
        &mut self.tables
    }

    /// The tables, without those of a query around.
    #[must_use]
    pub(crate) fn tables(&self) -> &[ScopeTable] {
        &self.tables
    }

    /// The number of the first table.
    #[must_use]
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// The number behind that of the last table.
    #[must_use]
    pub(crate) fn end(&self) -> usize {
        self.first + self.tables.len()
    }

    /// The number of the table that goes by this name; those of a query around are not looked at.
    #[must_use]
    pub(crate) fn table_index(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|table| table.name == name).map(|place| self.first + place)
    }

    /// The columns that users see, each behind its table; those of queries around come last.
    fn known(&self) -> impl Iterator<Item = (&str, &str)> {
        let scopes = std::iter::successors(Some(self), |scope| scope.around.as_deref());
        scopes.flat_map(|scope| &scope.tables).flat_map(|table| {
            table.columns.iter().filter_map(|(column, _)| Some((table.name.as_str(), column.as_deref()?)))
        })
    }

    /// The column that an identifier of one to three parts names.
    ///
    /// # Errors
    /// 42703 if there is none, 42702 if there are several, 42P01 if the table is not in the scope.
    pub(crate) fn resolve(&self, parts: &[Ident]) -> Result<ScopeColumn, SqlError> {
        let names: Vec<String> = parts.iter().map(folded).collect();
        match names.as_slice() {
            [column] => self.resolve_bare(column),
            [table, column] => self.resolve_in(column, table, &|candidate| candidate.name == *table),
            [schema, table, column] => self.resolve_in(column, table, &|candidate| {
                candidate.name == *table && candidate.schema.as_ref() == Some(schema)
            }),
            _ => Err(SqlError::new(SqlState::SyntaxError, "improper qualified name (too many dotted names)")),
        }
    }

    fn resolve_bare(&self, name: &str) -> Result<ScopeColumn, SqlError> {
        self.find_bare(name)?.ok_or_else(|| unknown_column(None, name, self.known()))
    }

    fn find_bare(&self, name: &str) -> Result<Option<ScopeColumn>, SqlError> {
        let mut found = None;
        for (place, candidate) in self.tables.iter().enumerate() {
            if let Some((column, ty)) = candidate.find_bare(name) {
                if found.is_some() {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return Err(SqlError::new(SqlState::AmbiguousColumn, message));
                }
                found = Some(ScopeColumn { table: self.first + place, column, ty });
            }
        }
        match (found, &self.around) {
            (None, Some(around)) => around.find_bare(name),
            (found, _) => Ok(found),
        }
    }

    fn resolve_in(
        &self,
        column: &str,
        table_name: &str,
        matches: &dyn Fn(&ScopeTable) -> bool,
    ) -> Result<ScopeColumn, SqlError> {
        let Some(place) = self.tables.iter().position(matches) else {
            return match &self.around {
                Some(around) => around.resolve_in(column, table_name, matches),
                None => Err(SqlError::missing_from(table_name)),
            };
        };
        let found = self.tables[place].find(column);
        let (column, ty) = found.ok_or_else(|| unknown_column(Some(table_name), column, self.known()))?;
        Ok(ScopeColumn { table: self.first + place, column, ty })
    }
}
