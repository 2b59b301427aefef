// SPDX-License-Identifier: Apache-2.0
//! Expressions outside queries, as plans have them: what the compiler of row-wise expressions hands over.

use super::arithmetic::CheckedArithmetic;
use super::dialect::expression_in_dialect;
use super::expansion::refuse_too_large;
use super::mistakes::{explained_expression, explained_types};
use super::typing::{settled_expression, with_typed_literals};
use crate::error::SqlError;
use crate::scalar::PlanExpressions;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::execution::SessionState;
use datafusion::logical_expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{Expr, ExprWithAlias};
use std::sync::Arc;

impl PlanExpressions for SessionState {
    fn expression_plan(
        &self,
        mut expression: Expr,
        schema: &DFSchema,
    ) -> Result<logical_expr::Expr, SqlError> {
        expression_in_dialect(&mut expression)?;
        with_typed_literals(&mut expression)?;
        // Not by way of its text: the parser of that binds operators otherwise.
        let unnamed = ExprWithAlias { expr: expression.clone(), alias: None };
        let planned = self
            .create_logical_expr_from_sql_expr(unnamed, schema)
            .map_err(|error| explained_expression(error, &expression, schema, self))?;
        refuse_too_large(&planned)?;
        let logical = settled_expression(planned, schema)?;
        let context = SimplifyContext::builder().with_schema(Arc::new(schema.clone())).build();
        let coerced = ExprSimplifier::new(context)
            .coerce(logical.clone(), schema)
            .map_err(|error| explained_types(error, &logical, schema))?;
        let mut logical = CheckedArithmetic::of_expression(coerced, schema)?;
        let options = Arc::clone(self.config_options());
        for rewrite in self.analyzer().function_rewrites() {
            logical = logical.transform_up(|part| rewrite.rewrite(part, schema, &options))?.data;
        }
        Ok(logical)
    }

    fn expression_options(&self) -> &Arc<ConfigOptions> {
        self.config_options()
    }
}
