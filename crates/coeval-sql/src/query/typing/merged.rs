// SPDX-License-Identifier: Apache-2.0
//! The column that `JOIN ... USING` and `NATURAL JOIN` make of two: which value it has, and of which type it is.
//!
//! | join | value | type |
//! |---|---|---|
//! | inner | that of the side that has the type already, else the left one | what both have in common, as results of CASE have it |
//! | LEFT, RIGHT | that of the side which the join never fills up | the same |
//! | FULL | whichever is there, the left one first | the same |
//!
//! But a value that is kept keeps its digits, as it does in PostgreSQL: a `numeric` those that it has, an integer beside one has none
//! behind the point. And a text keeps its length, unless it is a `char(n)` that becomes a text beside another one on its left.
//!
//! `query/scopes/joined.rs` writes an operator between the two columns where it does not know that they are of one type. While the query
//! is planned, what stands for it is the column itself if they are, and else a call of a function, which has the right type. Once the types
//! of both are settled, the column, cast, takes the place of the call.

use super::coalesce::coalesced;
use super::comparisons::{Operand, USING};
use super::declared::is_char;
use super::instants;
use crate::error::SqlError;
use crate::scalar::cast_function::called;
use crate::types::marks::marked_type;
use crate::types::numeric::{decimal_shape, of_digits};
use crate::types::{column_type_of_arrow, common_arrow_type};
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// What is made of the two columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::query) enum Merging {
    /// The condition of the join: whether they are equal.
    Equal,
    /// One of them, where both are there.
    Either,
    /// The left one.
    Left,
    /// The right one.
    Right,
    /// Whichever is there.
    Present,
}

impl Merging {
    const ALL: [Self; 5] = [Self::Equal, Self::Either, Self::Left, Self::Right, Self::Present];

    /// The operator between the two columns.
    pub(in crate::query) fn operator(self) -> BinaryOperator {
        BinaryOperator::Custom(self.name().to_owned())
    }

    /// That of an operator; `None` of all others.
    pub(super) fn of(operator: &BinaryOperator) -> Option<Self> {
        match operator {
            BinaryOperator::Custom(name) => Self::named(name),
            _ => None,
        }
    }

    /// What the operator and the function are called.
    const fn name(self) -> &'static str {
        match self {
            Self::Equal => "coeval_merged_equal",
            Self::Either => "coeval_merged_either",
            Self::Left => "coeval_merged_left",
            Self::Right => "coeval_merged_right",
            Self::Present => "coeval_merged_present",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|merging| merging.name() == name)
    }

    /// Of two columns of these types, whether it is the right one that is kept.
    fn keeps_right(self, left: &DataType, right: &DataType) -> bool {
        match self {
            Self::Right => true,
            Self::Either => {
                common_arrow_type([left, right]).is_some_and(|common| *left != common && *right == common)
            }
            Self::Equal | Self::Left | Self::Present => false,
        }
    }

    /// The type of what is made of columns of these types.
    fn type_of(self, left: &DataType, right: &DataType) -> DataType {
        if self == Self::Equal {
            return DataType::Boolean;
        }
        let kept = if self.keeps_right(left, right) { right } else { left };
        match common_arrow_type([left, right]) {
            Some(common) if self == Self::Present => common,
            Some(common) => type_of_kept(kept, common),
            None => kept.clone(),
        }
    }
}

/// The type that a value of one type has where another one has it in common with it.
fn type_of_kept(kept: &DataType, common: DataType) -> DataType {
    if !common.is_decimal() {
        return if kept.is_string() { kept.clone() } else { common };
    }
    let digits = column_type_of_arrow(kept).and_then(decimal_shape);
    digits.map_or(common, |(precision, scale)| of_digits(precision, scale).arrow())
}

/// What stands in a plan for the operator between two columns.
pub(super) fn planned(merging: Merging, left: Expr, right: Expr, schema: &DFSchema) -> Expr {
    let field = |side: &Expr| side.to_field(schema).ok().map(|(_, field)| field);
    match (field(&left), field(&right)) {
        (Some(of_left), Some(of_right)) if are_of_one_type(&of_left, &of_right) => match merging {
            Merging::Equal => left.eq(right),
            Merging::Either | Merging::Left => left,
            Merging::Right => right,
            Merging::Present => coalesced(vec![left, right]),
        },
        _ => ScalarUDF::from(Merged::new(merging)).call(vec![left, right]),
    }
}

fn are_of_one_type(left: &Field, right: &Field) -> bool {
    let are_texts = left.data_type().is_string() && right.data_type().is_string();
    (are_texts || left.data_type() == right.data_type()) && marked_type(left) == marked_type(right)
}

/// What stands in the place of a call, once the types of its arguments are settled; `None` of a call of another function.
///
/// # Errors
/// `42804` and `42846` for columns that have no type in common.
pub(super) fn settled(call: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let Some(merging) = Merging::named(call.name()) else { return Ok(None) };
    let [left, right] = &call.args[..] else { return Ok(None) };
    let own = left.clone();
    match merging {
        Merging::Equal => {
            Operand::of(left, schema).require_one_type(USING, Operand::of(right, schema))?;
            return Ok(Some(own.eq(right.clone())));
        }
        Merging::Present => return Ok(Some(coalesced(vec![own, right.clone()]))),
        Merging::Either | Merging::Left | Merging::Right => {}
    }
    let (left_type, right_type) = (left.get_type(schema)?, right.get_type(schema)?);
    let keeps_right = merging.keeps_right(&left_type, &right_type);
    let kept = if keeps_right { right.clone() } else { own };
    if keeps_right && is_char(right, schema) && !is_char(left, schema) {
        return Ok(Some(called(kept, ColumnType::Text)?));
    }
    let ty = merging.type_of(&left_type, &right_type);
    Ok(Some(if kept.get_type(schema)? == ty {
        kept
    } else if ty.is_temporal() {
        instants::as_type(kept, &ty)?
    } else {
        Expr::Cast(Cast::new(Box::new(kept), ty))
    }))
}

/// The function that stands for the operator until the types are settled.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Merged {
    merging: Merging,
    signature: Signature,
}

impl Merged {
    fn new(merging: Merging) -> Self {
        Self { merging, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Merged {
    fn name(&self) -> &str {
        self.merging.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else {
            return Err(SqlError::internal("two columns become one").into());
        };
        Ok(self.merging.type_of(left, right))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [left, right] = arguments.arg_fields else {
            return Err(SqlError::internal("two columns become one").into());
        };
        let ty = self.merging.type_of(left.data_type(), right.data_type());
        let keeps_right = self.merging.keeps_right(left.data_type(), right.data_type());
        let (kept, other) = if keeps_right { (right, left) } else { (left, right) };
        let has_length = |field: &FieldRef| matches!(marked_type(field), Some(ColumnType::Char(_)));
        let loses_mark = match self.merging {
            Merging::Equal => true,
            Merging::Present => marked_type(kept) != marked_type(other),
            Merging::Either | Merging::Left => false,
            Merging::Right => has_length(kept) && !has_length(other),
        };
        let field = Field::new(self.name(), ty, left.is_nullable() || right.is_nullable());
        let is_marked = !loses_mark && kept.data_type() == field.data_type();
        Ok(Arc::new(if is_marked { field.with_metadata(kept.metadata().clone()) } else { field }))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(SqlError::internal("the types of merged columns were not settled").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{Date32, Decimal128, Float32, Int32, Int64, Utf8View};

    #[test]
    fn the_one_column_has_the_type_that_both_have_in_common_and_the_digits_of_its_value() {
        let price = || Decimal128(5, 2);
        for (left, right, either, of_left, of_right, present) in [
            (Int32, Int64, Int64, Int64, Int64, Int64),
            (Int64, Int32, Int64, Int64, Int64, Int64),
            (Int32, Float32, Float32, Float32, Float32, Float32),
            (Int32, price(), Decimal128(10, 0), Decimal128(10, 0), price(), Decimal128(12, 2)),
            (price(), Decimal128(8, 1), price(), price(), Decimal128(8, 1), Decimal128(9, 2)),
            (Utf8View, Utf8View, Utf8View, Utf8View, Utf8View, Utf8View),
            // They have none in common, which their comparison says.
            (Int32, Date32, Int32, Int32, Date32, Int32),
        ] {
            let types = [Merging::Either, Merging::Left, Merging::Right, Merging::Present]
                .map(|merging| merging.type_of(&left, &right));
            assert_eq!(types, [either, of_left, of_right, present], "{left} and {right}");
        }
    }

    #[test]
    fn an_inner_join_keeps_the_column_that_has_the_type_already() {
        let keeps_right = |left, right| Merging::Either.keeps_right(&left, &right);
        assert!(keeps_right(Int32, Int64));
        assert!(!keeps_right(Int64, Int32) && !keeps_right(Int32, Int32) && !keeps_right(Int32, Utf8View));
    }
}
