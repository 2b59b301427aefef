// SPDX-License-Identifier: Apache-2.0
//! Which types have exact numbers: those without digits of their own, as [`any_numeric`](super::any_numeric) has them, and the others.

use arrow::datatypes::DataType;

/// Whether values of a type are numbers without a fixed count of digits.
pub(in crate::query) fn is_any_numeric(ty: &DataType) -> bool {
    *ty == DataType::LargeBinary
}

/// Whether values of a type are exact numbers of another kind.
pub(super) fn is_other_exact(ty: &DataType) -> bool {
    ty.is_integer() || ty.is_decimal()
}
