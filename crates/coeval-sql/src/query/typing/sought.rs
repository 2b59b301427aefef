// SPDX-License-Identifier: Apache-2.0
//! What is looked for in an array, as a value of its elements' type.

use super::beside::decimal;
use super::comparisons::Operand;
use super::declared::without_blanks;
use super::exact_types::{is_any_numeric, is_other_exact};
use super::mixed_floats::as_type;
use crate::scalar::cast_function::{called, literal_as};
use crate::types::column_type_of_arrow;
use arrow::datatypes::{DataType, Field};
use coeval_store::{ColumnType, ElementType, NUMERIC_PRECISION_MAX};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use std::sync::Arc;

/// An array and what is looked for in it, of types that compare; `None` if they are right as they are.
pub(super) fn sought(list: &Expr, element: &Expr, schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    match read_element(list, element, schema)? {
        None => among_doubles(list, element, schema),
        read => Ok(read),
    }
}

/// A text literal that is looked for in an array as a value of its elements' type; `None` of all else, which is right as it is.
///
/// # Errors
/// `22P02` for a literal that is no such value.
fn read_element(list: &Expr, element: &Expr, schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    let DataType::List(item) = list.get_type(schema)? else { return Ok(None) };
    let ty = item.data_type();
    let Expr::Literal(scalar, _) = element else { return Ok(None) };
    if matches!(Operand::of_elements(list, schema), Operand::Of(ColumnType::Char(_))) {
        return Ok(without_blanks(element).map(|element| vec![list.clone(), element]));
    }
    if ty.is_string() || ty.is_null() || !scalar.data_type().is_string() {
        return Ok(None);
    }
    let Some(to) = column_type_of_arrow(ty) else { return Ok(None) };
    match (scalar.try_as_str().flatten(), to) {
        (Some(text), ColumnType::Numeric { .. }) => Ok(Some(among_decimals(list, ty, &decimal(text)?)?)),
        _ => Ok(Some(vec![list.clone(), literal_as(element.clone(), to)?])),
    }
}

/// An array of `numeric`, whose elements are of this type, and a number that is looked for in it, both with all digits that either
/// has: the number came when the types of both were settled.
fn among_decimals(list: &Expr, ty: &DataType, number: &Expr) -> Result<Vec<Expr>> {
    let as_they_are = || Ok(vec![list.clone(), number.clone()]);
    let Expr::Literal(scalar, _) = number else { return as_they_are() };
    let (DataType::Decimal128(digits, scale), DataType::Decimal128(own_digits, own_scale)) =
        (ty, scalar.data_type())
    else {
        return as_they_are();
    };
    let whole = |digits: u8, scale: i8| i16::from(digits) - i16::from(scale);
    let common_scale = own_scale.max(*scale);
    let needed = whole(*digits, *scale).max(whole(own_digits, own_scale)) + i16::from(common_scale);
    let common_digits = u8::try_from(needed).unwrap_or(NUMERIC_PRECISION_MAX).min(NUMERIC_PRECISION_MAX);
    let common = DataType::Decimal128(common_digits, common_scale);
    let number = Expr::Literal(scalar.cast_to(&common)?, None);
    if common == *ty {
        return Ok(vec![list.clone(), number]);
    }
    let lists = DataType::List(Arc::new(Field::new_list_field(common, true)));
    Ok(vec![cast(list.clone(), lists), number])
}

/// An array and a number that is looked for in it, of which one is of floats and the other one of exact numbers, both as `double precision`;
/// `None` of others.
fn among_doubles(list: &Expr, element: &Expr, schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    let (DataType::List(item), ty) = (list.get_type(schema)?, element.get_type(schema)?) else {
        return Ok(None);
    };
    let is_exact = |ty: &DataType| is_any_numeric(ty) || is_other_exact(ty);
    let member = item.data_type();
    if !((member.is_floating() && is_exact(&ty)) || (is_exact(member) && ty.is_floating())) {
        return Ok(None);
    }
    let list = match member {
        DataType::Float64 => list.clone(),
        member if is_any_numeric(member) => called(list.clone(), ColumnType::Array(ElementType::Double))?,
        _ => {
            let doubles = DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)));
            cast(list.clone(), doubles)
        }
    };
    let element = match is_any_numeric(&ty) {
        true => called(element.clone(), ColumnType::Double)?,
        false => as_type(element.clone(), &DataType::Float64, schema),
    };
    Ok(Some(vec![list, element]))
}
