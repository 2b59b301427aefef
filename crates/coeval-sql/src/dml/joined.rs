// SPDX-License-Identifier: Apache-2.0
//! The tables of UPDATE ... FROM and DELETE ... USING, as far as RETURNING needs them.
//!
//! The query that finds the rows carries all columns of each such table, table by table, with a marker
//! behind each, so that the columns can be told apart whatever their names.

use super::returning::Relation;
use super::rows::FoundRow;
use crate::error::SqlError;
use crate::names::fold;
use crate::result::RowSet;
use crate::select;
use crate::stored::ROW_ID_COLUMN;
use crate::types::{assign_array, column_type_of_arrow};
use arrow::array::ArrayRef;
use chrono_tz::Tz;
use coeval_store::{ColumnType, Value, value_at};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, SelectItem, SelectItemQualifiedWildcardKind, TableFactor,
    TableWithJoins, Value as AstValue, WildcardAdditionalOptions,
};

const MARKER: &str = "end of table";

/// The tables that a statement joins its target with.
pub(super) struct JoinedTables<'s> {
    tables: &'s [TableWithJoins],
    /// The names they go by, if RETURNING needs their columns.
    names: Vec<Ident>,
}

impl<'s> JoinedTables<'s> {
    /// The tables of a FROM or USING list.
    pub(super) fn new(tables: &'s [TableWithJoins], returning: Option<&[SelectItem]>) -> Self {
        let mut names = Vec::new();
        if returning.is_some() {
            let factors = tables.iter().flat_map(|table| {
                std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
            });
            factors.for_each(|factor| names.extend(name_of(factor)));
        }
        Self { tables, names }
    }

    /// The list itself.
    pub(super) fn tables(&self) -> &[TableWithJoins] {
        self.tables
    }

    /// What the query must select for them.
    pub(super) fn items(&self) -> Vec<SelectItem> {
        let items = self.names.iter().flat_map(|name| {
            let name = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![name.clone()]));
            let marker = Expr::Value(AstValue::Null.into());
            [
                SelectItem::QualifiedWildcard(name, WildcardAdditionalOptions::default()),
                select::item(marker, MARKER.to_owned()),
            ]
        });
        // Each marker needs a name of its own.
        let number = |(place, item): (usize, SelectItem)| match item {
            SelectItem::ExprWithAlias { expr, .. } => select::item(expr, format!("{MARKER} {place}")),
            other => other,
        };
        items.enumerate().map(number).collect()
    }

    /// Finds the tables' columns in the result of the query, from column `start` on.
    ///
    /// # Errors
    /// `0A000` for columns of a type that Coeval does not have.
    pub(super) fn read(&self, found: &RowSet, start: usize) -> Result<JoinedColumns, SqlError> {
        let mut relations = Vec::with_capacity(self.names.len());
        let mut places = Vec::new();
        let mut fields = found.schema.fields().iter().enumerate().skip(start);
        for name in &self.names {
            let mut relation = Relation::joined(fold(name));
            let mut columns = Vec::new();
            for (place, field) in fields.by_ref() {
                if field.name().starts_with(MARKER) {
                    break;
                }
                let ty = column_type_of_arrow(field.data_type()).ok_or_else(|| {
                    SqlError::unsupported(format_args!("a value of type {}", field.data_type()))
                })?;
                let is_hidden = field.name() == ROW_ID_COLUMN;
                relation.columns.push(((!is_hidden).then(|| field.name().clone()), ty));
                columns.push((place, ty));
            }
            relations.push(relation);
            places.push(columns);
        }
        let arrays = found.batches.iter().map(|batch| {
            let array = |&(place, ty): &(usize, ColumnType)| assign_array(batch.column(place), ty, Tz::UTC);
            places.iter().map(|columns| columns.iter().map(array).collect()).collect()
        });
        Ok(JoinedColumns { relations, arrays: arrays.collect::<Result<_, SqlError>>()? })
    }
}

fn name_of(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => match name.0.last() {
            Some(ObjectNamePart::Identifier(ident)) => Some(ident.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The columns of the joined tables.
pub(super) struct JoinedColumns {
    relations: Vec<Relation>,
    /// By batch, table and column.
    arrays: Vec<Vec<Vec<ArrayRef>>>,
}

impl JoinedColumns {
    /// The tables as RETURNING sees them.
    pub(super) fn relations(&self) -> &[Relation] {
        &self.relations
    }

    /// The values of each joined table's row that was found together with this one.
    pub(super) fn values(&self, found: &FoundRow) -> Vec<Vec<Value>> {
        let value = |array: &ArrayRef| value_at(array, found.row).to_owned();
        self.arrays[found.batch].iter().map(|columns| columns.iter().map(value).collect()).collect()
    }
}
