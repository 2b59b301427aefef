// SPDX-License-Identifier: Apache-2.0
//! Expressions that this compiler does not know, run by DataFusion over a batch of one row.
//!
//! For defaults and checks, which may use any function DataFusion has and are not worth a compiler of their
//! own. Costs some microseconds for each evaluation.

use super::datum::Datum;
use super::environment::Inputs;
use super::scope::{Scope, ScopeColumn};
use crate::error::{SqlError, SqlState};
use crate::query::CheckedArithmetic;
use crate::types;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::ColumnarValue;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, VisitMut, VisitorMut};
use std::ops::ControlFlow;
use std::sync::Arc;

/// An expression that DataFusion runs.
#[derive(Debug)]
pub(crate) struct Fallback {
    expression: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    columns: Vec<ScopeColumn>,
    ty: ColumnType,
}

/// Gives each column of the scope that the expression names a place in the one-row batch.
struct Columns<'s> {
    scope: &'s Scope,
    found: Vec<ScopeColumn>,
}

impl Columns<'_> {
    fn place(&mut self, parts: &[Ident]) -> Result<Expr, SqlError> {
        let column = self.scope.resolve(parts)?;
        let place = self.found.iter().position(|found| *found == column).unwrap_or_else(|| {
            self.found.push(column);
            self.found.len() - 1
        });
        Ok(Expr::Identifier(Ident::with_quote('"', column_name(place))))
    }
}

fn column_name(place: usize) -> String {
    format!("c{place}")
}

impl VisitorMut for Columns<'_> {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<SqlError> {
        let replaced = match expression {
            Expr::Identifier(ident) => self.place(std::slice::from_ref(ident)),
            Expr::CompoundIdentifier(parts) => self.place(parts),
            Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)) => {
                Err(SqlError::unsupported("a parameter in this expression"))
            }
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                Err(SqlError::unsupported("a subquery in this expression"))
            }
            _ => return ControlFlow::Continue(()),
        };
        match replaced {
            Ok(replaced) => {
                *expression = replaced;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Fallback {
    /// Compiles the expression with DataFusion.
    pub(super) fn new(expression: &Expr, scope: &Scope, state: &SessionState) -> Result<Self, SqlError> {
        let mut rewritten = expression.clone();
        let mut columns = Columns { scope, found: Vec::new() };
        if let ControlFlow::Break(error) = rewritten.visit(&mut columns) {
            return Err(error);
        }
        let columns = columns.found;
        crate::query::with_typed_literals(&mut rewritten)?;
        let fields: Vec<Field> = columns
            .iter()
            .enumerate()
            .map(|(place, column)| Field::new(column_name(place), column.ty.arrow(), true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let df_schema = DFSchema::try_from(Arc::clone(&schema))?;
        let logical = state.create_logical_expr(&rewritten.to_string(), &df_schema)?;
        let context = SimplifyContext::builder().with_schema(Arc::new(df_schema.clone())).build();
        let simplifier = ExprSimplifier::new(context);
        let coerced = simplifier.coerce(logical, &df_schema)?;
        let checked = CheckedArithmetic::of_expression(coerced, &df_schema)?;
        // Some functions exist only until they are simplified.
        let expression = state.create_physical_expr(simplifier.simplify(checked)?, &df_schema)?;
        let arrow_type = expression.data_type(&schema)?;
        let ty = types::column_type_of_arrow(&arrow_type).ok_or_else(|| {
            SqlError::new(
                SqlState::FeatureNotSupported,
                format!("a value of type {arrow_type} is not supported"),
            )
        })?;
        Ok(Self { expression, schema, columns, ty })
    }

    pub(super) fn ty(&self) -> ColumnType {
        self.ty
    }

    /// The tables of the scope that it reads, a bit each.
    pub(super) fn tables(&self) -> u64 {
        self.columns.iter().fold(0, |tables, column| tables | 1 << column.table)
    }

    pub(super) fn eval(&self, inputs: Inputs<'_>) -> Result<Datum<'static>, SqlError> {
        let arrays = self.columns.iter().map(|column| {
            let value = inputs.rows.value(column.table, column.column).to_owned();
            Ok(types::scalar_of(&value, column.ty)?.to_array()?)
        });
        let arrays = arrays.collect::<Result<Vec<ArrayRef>, SqlError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        let scalar = match self.expression.evaluate(&batch)? {
            ColumnarValue::Scalar(scalar) => scalar,
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0)?,
        };
        types::value_of_scalar(&scalar, self.ty).map(Datum::from)
    }
}
