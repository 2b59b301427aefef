// SPDX-License-Identifier: Apache-2.0
//! RETURNING: result columns made of the rows that a statement has changed.

use super::environment::StatementEnvironment;
use super::expressions::Expressions;
use super::target::Target;
use super::target_view::TargetView;
use crate::column_name::column_name;
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::memory::ReturnedMemory;
use crate::names::fold;
use crate::oids;
use crate::result::RowSet;
use crate::scalar::{Inputs, RowSource, Scalar, Scope, ScopeTable};
use crate::select;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_store::{ColumnBuilder, ColumnType, Value, ValueRef};
use datafusion::sql::sqlparser::ast::{Expr, ObjectNamePart, SelectItem, SelectItemQualifiedWildcardKind};
use std::sync::Arc;

/// A table of the statement as RETURNING sees it: the target, or one that it was joined with.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    pub(super) name: String,
    /// Names and types, by place in the row; `None` for columns that users do not see.
    pub(super) columns: Vec<(Option<String>, ColumnType)>,
    /// The view that is changed, whose columns are named instead.
    pub(super) view: Option<Arc<TargetView>>,
    /// Columns behind those of the row that `*` does not show, and their values.
    system: Vec<(&'static str, ColumnType, Value)>,
}

/// What an INSERT has done to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// It was not there.
    Inserted,
    /// It was, and is another by `ON CONFLICT DO UPDATE`.
    Updated,
}

/// The column of an inserted row that is 0 if it was not there before. In PostgreSQL it is the number of a transaction otherwise.
pub(super) const XMAX: &str = "xmax";

impl Relation {
    /// The target under its name in the statement.
    pub(super) fn of_target(target: &Target) -> Self {
        let columns = target.def.columns.iter();
        let columns = columns.map(|column| (column.is_live().then(|| column.name.clone()), column.ty));
        let (name, view) = (target.name().value.clone(), target.view().cloned());
        let table_id = ("tableoid", ColumnType::Int, Value::Int32(oids::of_space(target.id())));
        Self { name, columns: columns.collect(), view, system: vec![table_id] }
    }

    /// The target of an INSERT, of which it can be told [what was done](Returning::note) to a row.
    pub(super) fn of_inserted(target: &Target) -> Self {
        let mut relation = Self::of_target(target);
        relation.system.push((XMAX, ColumnType::BigInt, Value::Int64(0)));
        relation
    }

    /// One that the target is joined with, of no columns so far.
    pub(super) fn joined(name: String) -> Self {
        Self { name, columns: Vec::new(), view: None, system: Vec::new() }
    }

    /// Whether a column goes by this name.
    pub(super) fn has_column(&self, name: &str) -> bool {
        self.columns.iter().any(|(known, _)| known.as_deref() == Some(name))
    }

    /// What it is in the scope of the list.
    fn scope_table(&self) -> ScopeTable {
        match &self.view {
            None => {
                let system = self.system.iter().map(|(name, ty, _)| (Some((*name).to_owned()), *ty));
                let columns = self.columns.iter().cloned().chain(system);
                ScopeTable::of_columns(self.name.clone(), columns.collect())
            }
            Some(view) => view.scope_table(),
        }
    }

    fn expand(&self, items: &mut Vec<(String, Expr)>) {
        let table = select::quoted(self.name.as_str());
        if let Some(view) = &self.view {
            items.extend(view.column_names().map(|name| (name.to_owned(), select::column(&table, name))));
            return;
        }
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
    memory: ReturnedMemory,
    /// How many columns the target's rows have, and the values of those behind them.
    width: usize,
    system: Vec<Value>,
}

/// Rows with the values of more columns behind those of the target.
struct WithSystem<'a> {
    rows: &'a dyn RowSource,
    width: usize,
    system: &'a [Value],
}

impl RowSource for WithSystem<'_> {
    fn value(&self, table: usize, column: usize) -> ValueRef<'_> {
        match column.checked_sub(self.width) {
            Some(place) if table == 0 => self.system[place].borrow(),
            _ => self.rows.value(table, column),
        }
    }
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
        let scope = Scope::new(relations.iter().map(Relation::scope_table).collect());
        let mut expressions = Expressions::new(context, &scope);
        let mut columns = Vec::new();
        let mut fields = Vec::new();
        for (name, expression) in expand(list, relations)? {
            let expression = of_rows(expression, relations)?;
            let scalar = expressions.result(&expression)?;
            fields.push(crate::types::marked_field(Field::new(name, scalar.ty().arrow(), true), scalar.ty()));
            columns.push(scalar);
        }
        let builders = columns.iter().map(|scalar| ColumnBuilder::new(scalar.ty(), 0)).collect();
        let width = relations.first().map_or(0, |target| target.columns.len());
        let system = relations.first().map(|target| target.system.iter().map(|(.., value)| value.clone()));
        let system = system.into_iter().flatten().collect();
        let (schema, memory) = (Arc::new(Schema::new(fields)), ReturnedMemory::default());
        Ok(Some(Self { columns, builders, schema, rows: 0, memory, width, system }))
    }

    /// Notes what was done to the row whose result is added next.
    pub(super) fn note(&mut self, done: Done) {
        if let [_, xmax] = self.system.as_mut_slice() {
            *xmax = Value::Int64(i64::from(done == Done::Updated));
        }
    }

    /// Adds the result of one changed row.
    ///
    /// # Errors
    /// What the expressions refuse; `53200` if there is no memory for it.
    pub(super) fn push(
        &mut self,
        rows: &dyn RowSource,
        environment: &StatementEnvironment<'_>,
    ) -> Result<(), SqlError> {
        let rows = WithSystem { rows, width: self.width, system: &self.system };
        let inputs = Inputs { rows: &rows, parameters: environment.parameters, environment };
        for (column, builder) in self.columns.iter().zip(&mut self.builders) {
            let value = column.eval(inputs)?;
            self.memory.add(value.value(), environment.queries())?;
            builder.push(value.value());
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
        Ok(match self.memory.taken() {
            Some(memory) => RowSet::reserved(self.schema, vec![batch], memory),
            None => RowSet::new(self.schema, vec![batch]),
        })
    }
}

/// An expression of the list, of the columns of the table below where the target is a view.
fn of_rows(expression: Expr, relations: &[Relation]) -> Result<Expr, SqlError> {
    match relations {
        [Relation { view: Some(view), name, .. }, others @ ..] => {
            view.of_table(&expression, name, &|column| others.iter().any(|other| other.has_column(column)))
        }
        _ => Ok(expression),
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
