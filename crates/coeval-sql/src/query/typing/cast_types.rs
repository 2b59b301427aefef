// SPDX-License-Identifier: Apache-2.0
//! [`Types`]: what the names of types in a query stand for.

use super::literals::is_int_literal;
use crate::types::column_type;
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::DataType as AstType;

/// The types that casts in a query name.
#[derive(Debug)]
pub(in crate::query) struct Types;

impl TypePlanner for Types {
    fn plan_type(&self, ty: &AstType) -> Result<Option<DataType>> {
        match ty {
            // DataFusion's own types for what SQL cannot declare.
            AstType::Array(_) => Ok(column_type(ty).ok().map(ColumnType::arrow)),
            AstType::Struct(..) | AstType::Map(..) => Ok(None),
            AstType::Regclass => Ok(None),
            literal if is_int_literal(literal) => Ok(Some(DataType::Int32)),
            other => Ok(Some(column_type(other)?.arrow())),
        }
    }
}
