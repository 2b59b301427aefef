// SPDX-License-Identifier: Apache-2.0
//! The ordinals that rows have in a dimension, and what is made of them.

use std::ops::Range;

use arrow::buffer::Buffer;
use arrow::datatypes::ArrowNativeType;

use crate::brick_id::DimensionLayout;

/// Ordinals in one dimension, row by row.
pub(crate) trait Ordinals {
    /// How many they are.
    fn count(&self) -> usize;

    /// What `value` makes of each.
    fn values<T: ArrowNativeType>(&self, value: impl Fn(u64) -> T) -> Vec<T>;
}

impl Ordinals for [u64] {
    fn count(&self) -> usize {
        self.len()
    }

    fn values<T: ArrowNativeType>(&self, value: impl Fn(u64) -> T) -> Vec<T> {
        self.iter().map(|ordinal| value(*ordinal)).collect()
    }
}

/// The packed offsets of some rows of a brick: the width of a row's bess and its bytes; `None` if no dimension has
/// offsets.
pub(crate) type Bess = Option<(usize, Buffer)>;

/// The packed offsets of one dimension in some rows.
pub(crate) struct Offsets<'a> {
    pub(crate) layout: &'a DimensionLayout,
    /// The first ordinal of the brick's range.
    pub(crate) first: u64,
    pub(crate) bess: Bess,
    pub(crate) rows: Range<usize>,
}

impl Ordinals for Offsets<'_> {
    fn count(&self) -> usize {
        self.rows.len()
    }

    fn values<T: ArrowNativeType>(&self, value: impl Fn(u64) -> T) -> Vec<T> {
        match &self.bess {
            None => vec![value(self.first); self.rows.len()],
            Some(bess) => map_bess(bess, |bess| value(self.first + self.layout.offset(bess))),
        }
    }
}

/// What `value` makes of each row's bess.
pub(crate) fn map_bess<T>((width, bytes): &(usize, Buffer), value: impl Fn(u64) -> T) -> Vec<T> {
    match width {
        1 => unpacked::<u8, T>(bytes, value),
        2 => unpacked::<u16, T>(bytes, value),
        4 => unpacked::<u32, T>(bytes, value),
        _ => unpacked::<u64, T>(bytes, value),
    }
}

fn unpacked<B: ArrowNativeType + Into<u64>, T>(bytes: &Buffer, value: impl Fn(u64) -> T) -> Vec<T> {
    bytes.typed_data::<B>().iter().map(|bess| value((*bess).into())).collect()
}
