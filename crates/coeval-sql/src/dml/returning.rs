// SPDX-License-Identifier: Apache-2.0
//! RETURNING: result columns made of the rows that a statement has changed.

use super::environment::StatementEnvironment;
use super::expressions::Expressions;
use super::target::Target;
use crate::column_name::column_name;
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::names::fold;
use crate::result::RowSet;
use crate::scalar::{Inputs, RowSource, Scalar, Scope, ScopeTable};
use crate::select;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_store::{ColumnBuilder, ColumnType};
use datafusion::sql::sqlparser::ast::{Expr, ObjectNamePart, SelectItem, SelectItemQualifiedWildcardKind};
use std::sync::Arc;

/// A table of the statement as RETURNING sees it: the target, or one that it was joined with.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    pub(super) name: String,
    /// Names and types, by place in the row; `None` for columns that users do not see.
    pub(super) columns: Vec<(Option<String>, ColumnType)>,
}

impl Relation {
    /// The target under its name in the statement.
    pub(super) fn of_target(target: &Target) -> Self {
        let columns = target.def.columns.iter();
        let columns = columns.map(|column| (column.is_live().then(|| column.name.clone()), column.ty));
        Self { name: target.name().value.clone(), columns: columns.collect() }
    }

    fn expand(&self, items: &mut Vec<(String, Expr)>) {
        let table = select::quoted(self.name.as_str());
        let live = self.columns.iter().filter_map(|(name, _)| name.as_ref());
        items.extend(live.map(|name| (name.clone(), select::column(&table, name))));
    }
}

/// The rows that a statement returns, as they come.
pub(super) struct Returning {
    columns: Vec<Scalar>,
    builders: Vec<ColumnBuilder>,
    schema: SchemaRef,
    rows: usize,
}

impl Returning {
    /// Compiles a RETURNING list over these tables, the target first; `None` if there is none.
    ///
    /// # Errors
    /// `42703` and the like; `0A000` for subqueries.
    pub(super) fn compile(
        context: &StatementContext<'_>,
        list: Option<&[SelectItem]>,
        relations: &[Relation],
    ) -> Result<Option<Self>, SqlError> {
        let Some(list) = list else { return Ok(None) };
        let tables = relations
            .iter()
            .map(|relation| ScopeTable::of_columns(relation.name.clone(), relation.columns.clone()));
        let scope = Scope::new(tables.collect());
        let mut expressions = Expressions::new(context, &scope);
        let mut columns = Vec::new();
        let mut fields = Vec::new();
        for (name, expression) in expand(list, relations)? {
            let scalar = expressions.result(&expression)?;
            fields.push(crate::types::marked_field(Field::new(name, scalar.ty().arrow(), true), scalar.ty()));
            columns.push(scalar);
        }
        let builders = columns.iter().map(|scalar| ColumnBuilder::new(scalar.ty(), 0)).collect();
        Ok(Some(Self { columns, builders, schema: Arc::new(Schema::new(fields)), rows: 0 }))
    }

    /// Adds the result of one changed row.
    ///
    /// # Errors
    /// What the expressions refuse.
    pub(super) fn push(
        &mut self,
        rows: &dyn RowSource,
        environment: &StatementEnvironment<'_>,
    ) -> Result<(), SqlError> {
        let inputs = Inputs { rows, parameters: environment.parameters, environment };
        for (column, builder) in self.columns.iter().zip(&mut self.builders) {
            builder.push(column.eval(inputs)?.value());
        }
        self.rows += 1;
        Ok(())
    }

    /// All rows.
    ///
    /// # Errors
    /// If the columns do not make a batch: a bug.
    pub(super) fn finish(mut self) -> Result<RowSet, SqlError> {
        let arrays = self.builders.iter_mut().map(ColumnBuilder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        Ok(RowSet::new(self.schema, vec![batch]))
    }
}

/// The list with its wildcards written out, each with the name of its result column.
fn expand(list: &[SelectItem], relations: &[Relation]) -> Result<Vec<(String, Expr)>, SqlError> {
    let mut items = Vec::with_capacity(list.len());
    for item in list {
        match item {
            SelectItem::UnnamedExpr(expression) => {
                items.push((column_name(expression), expression.clone()));
            }
            SelectItem::ExprWithAlias { expr, alias } => items.push((fold(alias), expr.clone())),
            SelectItem::Wildcard(_) => relations.iter().for_each(|relation| relation.expand(&mut items)),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let table = match name.0.last() {
                    Some(ObjectNamePart::Identifier(ident)) => fold(ident),
                    _ => return Err(SqlError::unsupported(item)),
                };
                let relation = relations.iter().find(|relation| relation.name == table);
                relation.ok_or_else(|| SqlError::missing_from(&table))?.expand(&mut items);
            }
            SelectItem::ExprWithAliases { .. } | SelectItem::QualifiedWildcard(..) => {
                return Err(SqlError::unsupported(item));
            }
        }
    }
    Ok(items)
}
