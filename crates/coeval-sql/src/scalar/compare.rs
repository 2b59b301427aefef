// SPDX-License-Identifier: Apache-2.0
//! The order of values, as PostgreSQL sorts them.

use coeval_store::ValueRef;
use std::cmp::Ordering;

/// What a comparison asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareOp {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl CompareOp {
    /// Whether values in this order satisfy it.
    #[inline]
    pub(crate) fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// The same comparison with its sides exchanged.
    pub(crate) fn mirrored(self) -> Self {
        match self {
            Self::Equal => Self::Equal,
            Self::NotEqual => Self::NotEqual,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }
}

/// Compares two values that are both not NULL and of one type (integers may differ in width).
///
/// # Panics
/// If the types differ: the compiler has brought both sides to one.
#[inline]
pub(crate) fn compare_values(left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
    match (left, right) {
        (ValueRef::Int32(a), ValueRef::Int32(b)) => a.cmp(&b),
        (ValueRef::Int64(a), ValueRef::Int64(b)) => a.cmp(&b),
        (ValueRef::Decimal(a), ValueRef::Decimal(b)) => a.cmp(&b),
        (ValueRef::Number(a), ValueRef::Number(b)) => a.cmp(&b),
        (ValueRef::Text(a), ValueRef::Text(b)) => a.cmp(b),
        (ValueRef::Float64(a), ValueRef::Float64(b)) => compare_floats(a, b),
        (ValueRef::Float32(a), ValueRef::Float32(b)) => compare_floats(f64::from(a), f64::from(b)),
        (ValueRef::Boolean(a), ValueRef::Boolean(b)) => a.cmp(&b),
        (ValueRef::Bytes(a), ValueRef::Bytes(b)) => a.cmp(b),
        (ValueRef::Uuid(a), ValueRef::Uuid(b)) => a.cmp(&b),
        (ValueRef::List(a), ValueRef::List(b)) => a.encoded().cmp(&b.encoded()),
        (ValueRef::Interval(a), ValueRef::Interval(b)) => a.ordering().cmp(&b.ordering()),
        _ => match (left.as_i64(), right.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => panic!("values of two types are compared: {left} and {right}"),
        },
    }
}

/// NaN equals NaN and is above all numbers; both zeros are equal.
#[inline]
fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Compares decimals of different scales: each side is multiplied by its factor first. A product too large
/// for 128 bits is larger in magnitude than any that is not.
pub(super) fn compare_scaled(left: i128, left_factor: i128, right: i128, right_factor: i128) -> Ordering {
    match (left.checked_mul(left_factor), right.checked_mul(right_factor)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (None, _) => left.cmp(&0),
        (_, None) => 0.cmp(&right),
    }
}

/// Whether two values are the same to SQL: NULL equals nothing.
#[inline]
pub(crate) fn sql_equal(left: ValueRef<'_>, right: ValueRef<'_>) -> Option<bool> {
    if left.is_null() || right.is_null() { None } else { Some(compare_values(left, right).is_eq()) }
}
