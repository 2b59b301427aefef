// SPDX-License-Identifier: Apache-2.0
//! Parameters in DataFusion's plans.

use super::numbers::index_of_name;
use super::operands::{Side, of_parameter};
use crate::types::{column_type_of_arrow, column_type_of_field, marked_field};
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::ColumnType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// The index of the parameter that an expression of a plan is.
pub(super) fn index_in_plan(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Placeholder(parameter) => index_of_name(&parameter.id),
        _ => None,
    }
}

/// What a plan keeps of a parameter of this type.
pub(crate) fn parameter_field(ty: DataType) -> FieldRef {
    Arc::new(Field::new("parameter", ty, true))
}

/// The same of a column type. Arrow does not tell documents from texts, nor a `bit varying` from a `bit`; a text of some length is any text
/// as a parameter.
pub(crate) fn parameter_of(ty: ColumnType) -> FieldRef {
    match ty {
        ColumnType::Json | ColumnType::Jsonb | ColumnType::Bit(_) | ColumnType::Varbit(_) => {
            Arc::new(marked_field(Field::new("parameter", ty.arrow(), true), ty))
        }
        ty => parameter_field(ty.arrow()),
    }
}

/// The operands of an operator. If one of them is a parameter without a type, it has the type that the other one gives it.
pub(crate) fn typed_operands(
    operator: &BinaryOperator,
    left: Expr,
    right: Expr,
    schema: &DFSchema,
) -> (Expr, Expr) {
    let typed = |open: Expr, side, other: &Expr| {
        let ty = operand_type(other, schema).and_then(|ty| of_parameter(operator, side, ty));
        match ty {
            Some(ty) => with_type(open, ty),
            None => open,
        }
    };
    match (is_open(&left), is_open(&right)) {
        (true, false) => (typed(left, Side::Left, &right), right),
        (false, true) => {
            let right = typed(right, Side::Right, &left);
            (left, right)
        }
        _ => (left, right),
    }
}

/// The type of an operand, with what Arrow does not tell of it; `None` if it has none by itself, or is of a type that no column has.
pub(super) fn operand_type(operand: &Expr, schema: &DFSchema) -> Option<ColumnType> {
    let ty = operand.get_type(schema).ok()?;
    match &ty {
        ty if ty.is_null() => None,
        DataType::List(item) if item.data_type().is_null() => None,
        // No operator gives a document; to ask a long chain of them for its field takes the square of its length.
        ty if ty.is_string() && matches!(operand, Expr::BinaryExpr(_)) => Some(ColumnType::Text),
        ty => {
            let field = operand.to_field(schema).map(|(_, field)| field);
            field.ok().and_then(|field| column_type_of_field(&field)).or_else(|| column_type_of_arrow(ty))
        }
    }
}

/// Whether an expression of a plan is a parameter without a type.
fn is_open(expression: &Expr) -> bool {
    matches!(expression, Expr::Placeholder(Placeholder { field, .. })
        if field.as_ref().is_none_or(|field| field.data_type().is_null()))
}

/// The parameter, which has this type.
fn with_type(mut parameter: Expr, ty: ColumnType) -> Expr {
    if let Expr::Placeholder(open) = &mut parameter {
        open.field = Some(Arc::new(marked_field(Field::new("parameter", ty.arrow(), true), ty)));
    }
    parameter
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{cast, lit, placeholder};

    #[test]
    fn the_parameter_beside_an_operand_has_a_type() {
        let schema = DFSchema::empty();
        let ty = |left: Expr, operator: BinaryOperator, right: Expr| {
            let (left, right) = typed_operands(&operator, left, right, &schema);
            let parameter = if index_in_plan(&left).is_some() { left } else { right };
            operand_type(&parameter, &schema)
        };
        let date = || cast(lit("2026-01-01"), DataType::Date32);
        let parameter = || placeholder("$1");
        assert_eq!(ty(date(), BinaryOperator::Eq, parameter()), Some(ColumnType::Date));
        assert_eq!(ty(parameter(), BinaryOperator::Lt, lit(1_i64)), Some(ColumnType::BigInt));
        assert_eq!(ty(lit(1), BinaryOperator::StringConcat, parameter()), Some(ColumnType::Text));
        assert_eq!(ty(parameter(), BinaryOperator::Eq, placeholder("$2")), None);
        let known = Expr::Placeholder(Placeholder {
            id: "$1".to_owned(),
            field: Some(parameter_field(DataType::Int32)),
        });
        assert_eq!(ty(date(), BinaryOperator::Eq, known), Some(ColumnType::Int));
    }
}
