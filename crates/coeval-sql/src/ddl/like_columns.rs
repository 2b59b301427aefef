// SPDX-License-Identifier: Apache-2.0
//! `CREATE TABLE t (LIKE s INCLUDING ...)`: what of another table's definition is taken along.
//!
//! Names, types and NOT NULL always are. Checks keep their names, as in PostgreSQL; keys and indexes get new ones. Foreign keys are
//! never taken along.

use super::columns::{DeclaredColumn, Place, owned_sequence};
use super::{expressions, lookup};
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::parse::LIKE_COLUMNS;
use crate::stored::view_query::quoted;
use coeval_store::{ColumnDef, ColumnState, DeclaredOrder, IndexDef, TableDef, Uniqueness};
use datafusion::sql::sqlparser::ast::{
    self, CheckConstraint, CreateTableLike, CreateTableLikeDefaults, DataType, Ident, IndexColumn,
    KeyOrIndexDisplay, NullsDistinctOption, ObjectName, PrimaryKeyConstraint, TableConstraint,
    UniqueConstraint,
};

/// What may be included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Comments,
    Constraints,
    Defaults,
    Generated,
    Identity,
    Indexes,
}

/// One LIKE clause.
pub(super) struct Like {
    /// The table.
    pub(super) name: ObjectName,
    parts: Vec<Part>,
}

impl Like {
    /// The clause that stands in the place of a column, if it is one.
    pub(super) fn of_column(column: &ast::ColumnDef) -> Option<Self> {
        let DataType::Custom(name, parts) = &column.data_type else { return None };
        if lookup::fold(&column.name) != LIKE_COLUMNS {
            return None;
        }
        let part = |word: &String| match word.as_str() {
            "comments" => Some(Part::Comments),
            "constraints" => Some(Part::Constraints),
            "defaults" => Some(Part::Defaults),
            "generated" => Some(Part::Generated),
            "identity" => Some(Part::Identity),
            "indexes" => Some(Part::Indexes),
            _ => None,
        };
        Some(Self { name: name.clone(), parts: parts.iter().filter_map(part).collect() })
    }

    /// The clause as the parser knows it.
    pub(super) fn of_clause(like: &CreateTableLike) -> Self {
        let has_defaults = like.defaults == Some(CreateTableLikeDefaults::Including);
        Self { name: like.name.clone(), parts: if has_defaults { vec![Part::Defaults] } else { Vec::new() } }
    }

    fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// A column of the other table as one at this place.
    ///
    /// # Errors
    /// `0A000` for the default of a serial column, which the other table's sequence feeds.
    pub(super) fn column(
        &self,
        context: &StatementContext<'_>,
        place: &Place<'_>,
        column: &ColumnDef,
    ) -> Result<DeclaredColumn, SqlError> {
        let mut copy = ColumnDef::new(column.name.clone(), column.ty);
        copy.not_null = column.not_null;
        copy.second_digits = column.second_digits;
        copy.domain.clone_from(&column.domain);
        copy.default = column.domain.as_ref().and_then(|domain| domain.default.clone());
        if self.has(Part::Comments) {
            copy.comment.clone_from(&column.comment);
        }
        if self.has(Part::Generated) {
            copy.generated.clone_from(&column.generated);
        }
        let mut sequence = None;
        if let Some(identity) = column.identity {
            if self.has(Part::Identity) {
                copy.identity = Some(identity);
                let mut own = owned_sequence(context, place, &copy, &[])?;
                let catalog = context.transaction.catalog();
                if let Some(known) = column.sequence.and_then(|id| catalog.sequence(id)) {
                    (own.start, own.increment, own.cycle) = (known.start, known.increment, known.cycle);
                    (own.min, own.max) = (known.min, known.max);
                }
                copy.sequence = Some(own.id);
                sequence = Some(own);
            }
        } else if self.has(Part::Defaults) {
            if column.sequence.is_some() {
                return Err(SqlError::unsupported("LIKE with the default of a serial column"));
            }
            copy.default.clone_from(&column.default);
        }
        Ok(DeclaredColumn { column: copy, sequence, constraints: Vec::new() })
    }

    /// The other table's constraints, as declared of the new one.
    ///
    /// # Errors
    /// If a stored check cannot be read.
    pub(super) fn constraints(&self, source: &TableDef) -> Result<Vec<TableConstraint>, SqlError> {
        let mut constraints = Vec::new();
        if self.has(Part::Constraints) {
            for check in &source.checks {
                let name = Some(Ident::with_quote('"', &check.name));
                let expr = Box::new(expressions::parse(&check.expression)?);
                constraints.push(TableConstraint::Check(CheckConstraint { name, expr, enforced: None }));
            }
        }
        if self.has(Part::Indexes) {
            if source.has_declared_primary_key() {
                constraints.push(primary_key(columns_of(source, &source.primary_key)));
            }
            let keys = source.indexes.iter().filter(|index| index.uniqueness == Uniqueness::Constraint);
            constraints.extend(keys.map(|key| unique(columns_of(source, &key.columns))));
        }
        Ok(constraints)
    }

    /// What CREATE INDEX says of the other table's indexes that are no constraints, on a table of this name.
    pub(super) fn indexes(&self, source: &TableDef, relation: &str) -> Vec<String> {
        if !self.has(Part::Indexes) {
            return Vec::new();
        }
        let indexes = source.indexes.iter().filter(|index| index.uniqueness != Uniqueness::Constraint);
        indexes.map(|index| definition(source, index, relation)).collect()
    }

    /// What is said of the other table's constraints that are taken along under their names.
    pub(super) fn note_comments(&self, source: &TableDef, def: &mut TableDef) {
        if !self.has(Part::Comments) {
            return;
        }
        for check in &source.checks {
            let comment = source.constraint_comments.get(&check.name);
            if let (Some(comment), true) = (comment, def.checks.iter().any(|own| own.name == check.name)) {
                def.constraint_comments.insert(check.name.clone(), comment.clone());
            }
        }
    }
}

fn columns_of(source: &TableDef, columns: &[usize]) -> Vec<IndexColumn> {
    let column = |&column: &usize| IndexColumn::from(Ident::with_quote('"', &source.columns[column].name));
    columns.iter().map(column).collect()
}

fn primary_key(columns: Vec<IndexColumn>) -> TableConstraint {
    TableConstraint::PrimaryKey(PrimaryKeyConstraint {
        name: None,
        index_name: None,
        index_type: None,
        columns,
        index_options: Vec::new(),
        characteristics: None,
    })
}

fn unique(columns: Vec<IndexColumn>) -> TableConstraint {
    TableConstraint::Unique(UniqueConstraint {
        name: None,
        index_name: None,
        index_type_display: KeyOrIndexDisplay::None,
        index_type: None,
        columns,
        index_options: Vec::new(),
        characteristics: None,
        nulls_distinct: NullsDistinctOption::None,
    })
}

fn definition(source: &TableDef, index: &IndexDef, relation: &str) -> String {
    let unique = if index.uniqueness.is_unique() { "UNIQUE " } else { "" };
    let (mut keys, mut condition) = (Vec::new(), String::new());
    for (place, &column) in index.columns.iter().enumerate() {
        let column = &source.columns[column];
        if let (true, Some(predicate)) = (column.is_marker(), column.name.strip_prefix(ColumnDef::MARKER)) {
            condition = format!(" WHERE ({predicate})");
            continue;
        }
        let key = match column.state {
            ColumnState::Computed => format!("({})", column.name),
            ColumnState::Live
            | ColumnState::Hidden
            | ColumnState::Dropped { .. }
            | ColumnState::Retired { .. } => quoted(&column.name).to_string(),
        };
        let order = match index.declared_order.get(place) {
            None | Some(DeclaredOrder::Ascending) => "",
            Some(DeclaredOrder::AscendingNullsFirst) => " NULLS FIRST",
            Some(DeclaredOrder::Descending) => " DESC",
            Some(DeclaredOrder::DescendingNullsLast) => " DESC NULLS LAST",
        };
        keys.push(key + order);
    }
    format!("CREATE {unique}INDEX ON {relation} ({}){condition}", keys.join(", "))
}
