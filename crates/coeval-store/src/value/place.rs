// SPDX-License-Identifier: Apache-2.0
//! Places in a log as values of columns of type `pg_lsn`.
//!
//! A place is a number of 64 bits without a sign. Rows and keys keep it as an integer that has a sign and the same order; arrays
//! keep its eight bytes, the highest first, whose order as bytes is that of places, too.

/// Bytes of a place in an array.
pub(crate) const PLACE_SIZE: i32 = 8;

/// Between a place and the integer that is kept of it: the least place is the least integer.
const SIGN: u64 = 1 << 63;

/// The integer that rows and keys keep of a place. Its order is that of places.
#[must_use]
pub const fn kept_place(place: u64) -> i64 {
    (place ^ SIGN).cast_signed()
}

/// The place that rows and keys keep as this integer.
#[must_use]
pub const fn place_of(kept: i64) -> u64 {
    kept.cast_unsigned() ^ SIGN
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the bits of the place as they are, the upper half of all places would be below the lower one.
    #[test]
    fn what_is_kept_has_the_order_of_places_and_gives_them_back() {
        let places = [0, 1, u64::MAX >> 1, 1 << 63, u64::MAX];
        assert!(places.map(kept_place).is_sorted());
        assert_eq!(places.map(kept_place).map(place_of), places);
    }
}
