// SPDX-License-Identifier: Apache-2.0
//! Parameters in DataFusion's plans.

use super::numbers::index_of_name;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Placeholder;
use std::sync::Arc;

/// The index of the parameter that an expression of a plan is.
pub(crate) fn index_in_plan(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Placeholder(parameter) => index_of_name(&parameter.id),
        _ => None,
    }
}

/// Whether an expression of a plan is a parameter without a type.
pub(crate) fn is_open(expression: &Expr) -> bool {
    matches!(expression, Expr::Placeholder(Placeholder { field, .. })
        if field.as_ref().is_none_or(|field| field.data_type().is_null()))
}

/// The expression, which has this type if it is a parameter without one.
pub(crate) fn typed_parameter(mut expression: Expr, ty: &DataType) -> Expr {
    if is_open(&expression)
        && let Expr::Placeholder(open) = &mut expression
    {
        open.field = Some(parameter_field(ty.clone()));
    }
    expression
}

/// What a plan keeps of a parameter of this type.
pub(crate) fn parameter_field(ty: DataType) -> FieldRef {
    Arc::new(Field::new("parameter", ty, true))
}
