// SPDX-License-Identifier: Apache-2.0
//! What constructs compare, and by which operator: each asks here whether there is such an operator between its operands, which
//! [`comparisons`](crate::types::require_comparison) of types decide.
//!
//! | construct | operators |
//! |---|---|
//! | `a = b`, `a < b`, those of rows, `a < ANY (b)`, `a < ALL (b)` | as they are written |
//! | `a IS DISTINCT FROM b`, `CASE a WHEN b`, `nullif(a, b)`, `a = ANY (b)`, `a IN (query)`, `JOIN USING` | `=` |
//! | `a IN (b)` and NOT IN | `=` and `<>` |
//! | `a BETWEEN b AND c` and NOT BETWEEN | `>=`, `<=` and `<`, `>` |
//!
//! The columns of `JOIN USING` become [one](super::merged), so they have a type in common first, and then that operator.
//!
//! They are asked once the types of all operands are settled: until then a CASE of a literal and a date is a text.

use crate::error::SqlError;
use crate::scalar::cast_function::call_parts;
use crate::types::{
    column_type_of_arrow, column_type_of_field, is_text, no_operator, require_comparison, type_of_both,
};
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, JoinConstraint, Result};
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Join, Operator};
use std::fmt::Display;

/// The function that tells whether an element was found in an array: `x = ANY (array)`.
pub(in crate::query) const FOUND: &str = "coeval_array_found";

/// The function that tells whether it was not: `x <> ALL (array)`, which compares by another operator.
pub(in crate::query) const MISSING: &str = "coeval_array_missing";

/// What PostgreSQL calls the construct that makes one column of two of joined tables.
pub(super) const USING: &str = "JOIN/USING";

/// What is known of the type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// It has none by itself and takes that of the other side: a literal, NULL, a parameter.
    Open,
    /// It has this one.
    Of(ColumnType),
    /// It is kept as a text, and may be a document: DataFusion forgets [marks](crate::types::marks).
    TextOrDocument,
    /// Nothing: it is a row, or has an error of its own.
    Unknown,
}

impl Operand {
    /// The one of an expression.
    pub(super) fn of(expression: &Expr, schema: &DFSchema) -> Self {
        if is_text_literal(expression) || matches!(expression, Expr::Placeholder(_)) {
            return Self::Open;
        }
        match expression.get_type(schema) {
            Ok(ty) if ty.is_null() => Self::Open,
            Ok(ty) if ty.is_string() => of_text(expression, schema),
            // An array of nothing but NULLs is one of any type.
            Ok(DataType::List(item)) if item.data_type().is_null() => Self::Unknown,
            Ok(ty) => column_type_of_arrow(&ty).map_or(Self::Unknown, Self::Of),
            Err(_) => Self::Unknown,
        }
    }

    /// The one of what stands behind CASE, where a literal is a text.
    pub(super) fn of_case(expression: &Expr, schema: &DFSchema) -> Self {
        if is_text_literal(expression) { Self::Of(ColumnType::Text) } else { Self::of(expression, schema) }
    }

    /// The one of an array's elements; `Unknown` for what is no array.
    pub(super) fn of_elements(array: &Expr, schema: &DFSchema) -> Self {
        let Ok(DataType::List(item)) = array.get_type(schema) else { return Self::Unknown };
        match item.data_type() {
            ty if ty.is_null() => Self::Unknown,
            ty if ty.is_string() => {
                let field = array.to_field(schema).map(|(_, field)| field);
                match field.ok().and_then(|field| column_type_of_field(&field)) {
                    Some(ColumnType::Array(element)) if element.column_type() != ColumnType::Text => {
                        Self::Of(element.column_type())
                    }
                    _ => Self::TextOrDocument,
                }
            }
            ty => column_type_of_arrow(ty).map_or(Self::Unknown, Self::Of),
        }
    }

    /// The one of what is looked for in an array. A parameter has the type of the array's elements, unless another one was declared.
    pub(super) fn of_element(expression: &Expr, schema: &DFSchema) -> Self {
        match expression {
            Expr::Placeholder(Placeholder { field: Some(field), .. }) if !field.data_type().is_null() => {
                column_type_of_arrow(field.data_type()).map_or(Self::Unknown, Self::Of)
            }
            other => Self::of(other, schema),
        }
    }

    /// Refuses to compare it with another one by this operator, if there is none between them.
    ///
    /// # Errors
    /// `42883`.
    pub(super) fn require(self, operator: &dyn Display, right: Self) -> Result<(), SqlError> {
        match (self, right) {
            // It has no operators, whatever is beside it.
            (Self::Of(ColumnType::Json), Self::Open) => Err(no_operator("json", operator, "unknown")),
            (Self::Open, Self::Of(ColumnType::Json)) => Err(no_operator("unknown", operator, "json")),
            _ => match self.types_with(right) {
                Some((left, right)) => require_comparison(left, operator, right),
                None => Ok(()),
            },
        }
    }

    /// Refuses it beside another one where a construct makes one value of both, if they have no type in common.
    ///
    /// # Errors
    /// `42804` and `42846`.
    pub(super) fn require_one_type(self, construct: &str, right: Self) -> Result<(), SqlError> {
        let Some((left, right)) = self.types_with(right) else { return Ok(()) };
        type_of_both(construct, left, right).map(|_| ())
    }

    /// The types of both; `None` unless they are known so far that they can be held against each other.
    fn types_with(self, right: Self) -> Option<(ColumnType, ColumnType)> {
        let is_document = |ty| matches!(ty, ColumnType::Json | ColumnType::Jsonb);
        match (self, right) {
            (Self::Of(left), Self::Of(right)) => Some((left, right)),
            (Self::TextOrDocument, Self::Of(ty)) if !is_document(ty) => Some((ColumnType::Text, ty)),
            (Self::Of(ty), Self::TextOrDocument) if !is_document(ty) => Some((ty, ColumnType::Text)),
            _ => None,
        }
    }
}

/// Refuses to compare two expressions by an operator that there is not between them.
///
/// # Errors
/// `42883`.
pub(super) fn require(left: &Expr, operator: &dyn Display, right: &Expr, schema: &DFSchema) -> Result<()> {
    Ok(Operand::of(left, schema).require(operator, Operand::of(right, schema))?)
}

/// The same of a comparison. DataFusion writes `x > ANY (array)` as `array_min(array) < x`.
///
/// # Errors
/// `42883`.
pub(super) fn require_of(comparison: &BinaryExpr, schema: &DFSchema) -> Result<()> {
    let BinaryExpr { left, op, right } = comparison;
    let is_extreme = |side: &Expr| match side {
        Expr::ScalarFunction(call) => matches!(call.name(), "array_min" | "array_max"),
        _ => false,
    };
    match op {
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => {
            let is_null = |side: &Expr| matches!(side, Expr::Literal(value, _) if value.is_null());
            // It asks whether the other side is NULL, and compares nothing.
            if is_null(left) || is_null(right) { Ok(()) } else { require(left, &"=", right, schema) }
        }
        op => match op.swap() {
            Some(turned) if is_extreme(left) => require(right, &written(turned), left, schema),
            _ => require(left, &written(*op), right, schema),
        },
    }
}

/// An operator as PostgreSQL writes it in messages.
pub(in crate::query) fn written(operator: Operator) -> String {
    match operator {
        Operator::NotEq => "<>".to_owned(),
        Operator::BitwiseXor => "#".to_owned(),
        other => other.to_string(),
    }
}

/// The same of an element that is looked for in an array, which `= ANY (array)` and `<> ALL (array)` become.
///
/// # Errors
/// `42883`.
pub(super) fn require_sought(call: &ScalarFunction, schema: &DFSchema) -> Result<()> {
    let operator = match call.name() {
        FOUND => "=",
        MISSING => "<>",
        _ => return Ok(()),
    };
    let Some(Expr::ScalarFunction(has)) = call.args.first() else { return Ok(()) };
    let ("array_has", [array, element]) = (has.name(), &has.args[..]) else { return Ok(()) };
    Ok(Operand::of_element(element, schema).require(&operator, Operand::of_elements(array, schema))?)
}

/// The same of the columns that two tables are joined by.
///
/// # Errors
/// `42883`; of columns of USING that have no type in common `42804` and `42846`.
pub(super) fn require_keys(join: &Join) -> Result<()> {
    join.on.iter().try_for_each(|(left, right)| {
        let left = Operand::of(left, join.left.schema());
        let right = Operand::of(right, join.right.schema());
        if join.join_constraint == JoinConstraint::Using {
            left.require_one_type(USING, right)?;
        }
        Ok(left.require(&"=", right)?)
    })
}

/// Whether an expression is a text literal, which is of the type of what it stands beside.
pub(super) fn is_text_literal(expression: &Expr) -> bool {
    matches!(expression, Expr::Literal(scalar, _) if scalar.data_type().is_string())
}

/// What is known of an expression that is kept as a text. To ask a long chain of operators for its mark takes the square of its length,
/// and none gives a document.
fn of_text(expression: &Expr, schema: &DFSchema) -> Operand {
    if matches!(expression, Expr::BinaryExpr(_)) {
        return Operand::Of(ColumnType::Text);
    }
    let cast_to = call_parts(expression).map(|(_, ty)| ty);
    if let Some(ty) = cast_to.filter(|ty| is_text(*ty) || *ty == ColumnType::Json) {
        return Operand::Of(ty);
    }
    let field = expression.to_field(schema).map(|(_, field)| field);
    match field.ok().and_then(|field| column_type_of_field(&field)) {
        // A function takes what has lost its mark for a `json`.
        Some(ColumnType::Json) if !matches!(expression, Expr::Column(_)) => Operand::TextOrDocument,
        Some(ColumnType::Text) | None => Operand::TextOrDocument,
        Some(ty) => Operand::Of(ty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::ScalarValue;
    use datafusion::functions_nested::expr_fn::array_min;
    use datafusion::logical_expr::{cast, lit};

    fn refused(left: &Expr, right: &Expr) -> Option<String> {
        let refused = require(left, &"=", right, &DFSchema::empty()).err()?;
        crate::error::own_error(&refused).map(|error| error.message.clone())
    }

    #[test]
    fn what_has_no_type_is_compared_with_anything() {
        let date = cast(lit("2026-01-01"), DataType::Date32);
        for open in [lit("x"), lit(ScalarValue::Null), lit(ScalarValue::Utf8View(None))] {
            assert_eq!(refused(&open, &lit(1)), None);
            assert_eq!(refused(&date, &open), None);
        }
    }

    #[test]
    fn a_text_that_is_no_literal_is_compared_with_texts_alone() {
        let text = cast(lit("x"), DataType::Utf8View);
        assert_eq!(refused(&text, &text), None);
        let refusal = |pair: &str| Some(format!("operator does not exist: {pair}"));
        assert_eq!(refused(&text, &lit(1)), refusal("text = integer"));
        assert_eq!(refused(&lit(true), &text), refusal("boolean = text"));
    }

    #[test]
    fn the_element_of_an_extreme_is_on_the_right() {
        let list = ScalarValue::List(ScalarValue::new_list_nullable(&[], &DataType::Int32));
        let least = array_min(lit(list));
        let text = Box::new(cast(lit("x"), DataType::Utf8View));
        let comparison = BinaryExpr::new(Box::new(least), Operator::Lt, text);
        let refused = require_of(&comparison, &DFSchema::empty()).unwrap_err();
        let message = crate::error::own_error(&refused).map(|error| error.message.as_str());
        assert_eq!(message, Some("operator does not exist: text > integer"));
    }
}
