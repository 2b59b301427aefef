// SPDX-License-Identifier: Apache-2.0
//! Floats as whole numbers that have their order.
//!
//! Arrow orders floats by IEEE 754's `totalOrder`, in which NaN is beyond all numbers and -0 before 0; DataFusion makes 0 of -0 before it
//! compares. Both are done here for a value at a time, without a branch, so that a loop compares several at once.

/// A float.
pub(super) trait Float: Copy {
    /// Numbers of as many bits.
    type Order;

    /// Its place among all floats. Those that DataFusion takes for equal have the same one.
    fn order(self) -> Self::Order;
}

impl Float for f32 {
    type Order = i32;

    #[inline(always)]
    fn order(self) -> i32 {
        let bits = if self == 0.0 { 0 } else { self.to_bits().cast_signed() };
        // The bits of what is negative, but for its sign, count the other way round.
        bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()
    }
}

impl Float for f64 {
    type Order = i64;

    #[inline(always)]
    fn order(self) -> i64 {
        let bits = if self == 0.0 { 0 } else { self.to_bits().cast_signed() };
        bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
    }
}
