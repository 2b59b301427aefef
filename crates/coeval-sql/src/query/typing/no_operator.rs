// SPDX-License-Identifier: Apache-2.0
//! The error of an operator that there is not for operands of these types.

use crate::error::SqlError;
use crate::types::type_in_words;
use arrow::datatypes::DataType;

/// `42883` for an operator that there is not for operands of these types.
pub(in crate::query) fn no_operator(
    left: &DataType,
    operator: &dyn std::fmt::Display,
    right: &DataType,
) -> SqlError {
    crate::types::no_operator(&type_in_words(left), operator, &type_in_words(right))
}
