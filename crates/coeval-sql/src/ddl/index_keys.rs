// SPDX-License-Identifier: Apache-2.0
//! Indexes on expressions, and on some of the rows only.
//!
//! Both stand on columns that nobody sees, whose values are generated: one for each expression, and for a condition one
//! more, behind the keys, that is true where the condition holds and NULL elsewhere. A unique index has no two entries
//! that are the same in all columns, and one with a NULL in it is the same as no other. So two rows may have a key in
//! common where the condition does not hold, and entries of such rows are there for those who look for the first
//! columns.

use super::{computed_column, constraints, expressions};
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::stored::index_keys::{keys_of, plain};
use crate::stored::parse_query;
use crate::types::column_type_of_arrow;
use coeval_store::{ColumnDef, ColumnState, ColumnType, SpaceId, TableDef};
use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, IndexColumn};
use std::sync::Arc;

/// The keys of a new index, and what else is in its entries.
pub(super) struct Keys {
    /// The table, which may have got columns.
    pub(super) table: Arc<TableDef>,
    /// The columns of the index.
    pub(super) columns: Vec<usize>,
}

/// Reads the keys and the condition of CREATE INDEX, and adds the columns that they stand on.
///
/// # Errors
/// 42703 for unknown columns, 42P17 for functions whose results change, 0A000 for subqueries, 42803 for aggregates.
pub(super) fn read(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    create: &CreateIndex,
) -> Result<Keys, SqlError> {
    let mut added = Vec::new();
    let mut columns = Vec::with_capacity(create.columns.len() + 1);
    for key in &create.columns {
        let place = match plain(&key.column.expr) {
            Expr::Identifier(_) => {
                let key =
                    IndexColumn { column: key.column.clone(), operator_class: key.operator_class.clone() };
                constraints::key_columns(&def.columns, &[key])?[0]
            }
            expression => {
                constraints::refuse_operator_class(key)?;
                added.push(computed(context, def, expression)?);
                def.columns.len() + added.len() - 1
            }
        };
        columns.push(place);
    }
    if let Some(predicate) = &create.predicate {
        added.push(marker(plain(predicate)));
        columns.push(def.columns.len() + added.len() - 1);
    }
    let mut id = def.id;
    for column in added {
        let def = Arc::clone(context.transaction.table_def(id)?);
        id = computed_column::add(context, &def, column)?;
    }
    Ok(Keys { table: Arc::clone(context.transaction.table_def(id)?), columns })
}

/// The column that an expression stands in.
fn computed(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    expression: &Expr,
) -> Result<ColumnDef, SqlError> {
    expressions::refuse_subquery(expression, "index expression")?;
    expressions::check_columns(def, expression)?;
    let sql = format!("SELECT ({expression}) FROM {}", super::validate::relation(def));
    let schema = crate::values::schema_of(context, &*parse_query(&sql)?)?;
    let ty = column_type_of_arrow(schema.field(0).data_type())
        .ok_or_else(|| SqlError::unsupported(format!("an index on {expression}")))?;
    Ok(hidden(expression.to_string(), ty, expression.to_string()))
}

/// The column that is true where the condition holds.
fn marker(predicate: &Expr) -> ColumnDef {
    let name = format!("{}{predicate}", ColumnDef::MARKER);
    hidden(name, ColumnType::Boolean, format!("CASE WHEN {predicate} THEN true END"))
}

fn hidden(name: String, ty: ColumnType, generated: String) -> ColumnDef {
    let mut column = ColumnDef::new(name, ty);
    column.state = ColumnState::Computed;
    column.generated = Some(generated);
    column
}

/// The columns that nobody needs any more when these indexes go: they stay where they are, empty.
pub(super) fn retire(def: &mut TableDef, gone: &[SpaceId]) {
    let (going, staying): (Vec<_>, Vec<_>) =
        def.indexes.iter().cloned().partition(|index| gone.contains(&index.id));
    for column in going.iter().flat_map(|index| &index.columns).copied() {
        let is_needed = staying.iter().any(|index| index.columns.contains(&column));
        if def.columns[column].state == ColumnState::Computed && !is_needed {
            def.drop_column(column);
        }
    }
    def.indexes = staying;
}

/// The indexes on expressions or conditions that use this column of their table.
///
/// # Errors
/// If a stored expression cannot be read.
pub(super) fn using(def: &TableDef, column: &str) -> Result<Vec<SpaceId>, SqlError> {
    let mut found = Vec::new();
    for index in &def.indexes {
        for &place in &index.columns {
            let computed = &def.columns[place];
            if let (ColumnState::Computed, Some(text)) = (computed.state, &computed.generated)
                && expressions::names_column(&expressions::parse(text)?, column)
            {
                found.push(index.id);
            }
        }
    }
    Ok(found)
}

/// The names that make up the name of an index that was given none.
pub(super) fn name_parts(def: &TableDef, columns: &[usize]) -> Vec<String> {
    let part = |&column: &usize| match def.columns[column].state {
        ColumnState::Computed => match expressions::parse(&def.columns[column].name) {
            Ok(Expr::Function(function)) => function.name.to_string().to_lowercase(),
            _ => "expr".to_owned(),
        },
        ColumnState::Live
        | ColumnState::Hidden
        | ColumnState::Dropped { .. }
        | ColumnState::Retired { .. } => def.columns[column].name.clone(),
    };
    keys_of(def, columns).iter().map(part).collect()
}
