// SPDX-License-Identifier: Apache-2.0
//! Floats beside `numeric`: PostgreSQL takes all of them as floats.

use super::exact_types::is_any_numeric;
use crate::types::common_arrow_type;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};

/// Floats and `numeric` of which one is chosen, all of one type; `None` if there are not both, or others that have none in common
/// with them.
pub(super) fn floats_of_one_type(choices: &[Expr], schema: &DFSchema) -> Option<Vec<Expr>> {
    if !mixes_float_and_numeric(choices, schema) {
        return None;
    }
    let types = choices.iter().map(|choice| choice.get_type(schema)).collect::<Result<Vec<_>>>().ok()?;
    let ty = common_arrow_type(types.iter().filter(|ty| !ty.is_string()))?;
    Some(choices.iter().map(|choice| as_type(choice.clone(), &ty, schema)).collect())
}

/// Whether there are floats among the expressions, and `numeric`.
pub(super) fn mixes_float_and_numeric<'a>(
    expressions: impl IntoIterator<Item = &'a Expr>,
    schema: &DFSchema,
) -> bool {
    let (mut floats, mut decimals) = (false, false);
    for ty in expressions.into_iter().filter_map(|expression| expression.get_type(schema).ok()) {
        floats |= ty.is_floating();
        decimals |= ty.is_decimal() || is_any_numeric(&ty);
    }
    floats && decimals
}

/// The expressions, each as a `double precision`.
pub(super) fn doubles<'a>(expressions: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Vec<Expr> {
    expressions
        .into_iter()
        .map(|expression| as_type(expression.clone(), &DataType::Float64, schema))
        .collect()
}

/// The expression as one of this type, if it is of another one.
pub(super) fn as_type(expression: Expr, ty: &DataType, schema: &DFSchema) -> Expr {
    match expression.get_type(schema) {
        Ok(known) if known == *ty || known.is_null() => expression,
        _ => Expr::Cast(Cast::new(Box::new(expression), ty.clone())),
    }
}
