// SPDX-License-Identifier: Apache-2.0
//! Codes of integers, dates and moments: their distance from the least one while they are close together, else by a dictionary.

use super::dictionary::Dictionary;
use super::keys::{Recoding, codes_of};
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::DataType;
use std::sync::Arc;

/// Distances have at most so many codes: a table by them stays in a core's cache.
const SPAN_MAX: u64 = 1 << 18;

/// A native value that fits into 64 bits.
pub(super) trait Whole: Copy + Send {
    fn widened(self) -> i64;
    fn narrowed(value: i64) -> Self;
}

macro_rules! whole {
    ($($native:ty),*) => {$(
        impl Whole for $native {
            #[inline]
            fn widened(self) -> i64 {
                i64::from(self)
            }

            #[inline]
            #[allow(clippy::allow_attributes, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was such a value")]
            fn narrowed(value: i64) -> Self {
                value as Self
            }
        }
    )*};
}

whole!(i8, i16, i32, i64, u8, u16, u32);

/// How values become codes. 0 is NULL's.
enum Codes {
    /// No value was seen yet.
    None,
    /// A value's code is its distance from `least`, and 1; values up to `most` have one.
    Distances {
        least: i64,
        most: i64,
    },
    Listed(Dictionary<i64>),
}

/// The codes of one column of type `T`.
pub(super) struct Integers<T> {
    codes: Codes,
    ty: DataType,
    native: std::marker::PhantomData<fn() -> T>,
}

impl<T: ArrowPrimitiveType<Native: Whole>> Integers<T> {
    pub(super) fn new(ty: DataType) -> Self {
        Self { codes: Codes::None, ty, native: std::marker::PhantomData }
    }

    /// Puts the codes of values that are all within the span into `codes`; `false` if one is not, or there is no span.
    fn near(&self, values: &[T::Native], codes: &mut Vec<u32>) -> bool {
        let Codes::Distances { least, most } = &self.codes else { return false };
        let (least, span) = (*least, least.abs_diff(*most));
        let mut are_near = true;
        codes.clear();
        codes.extend(values.iter().map(|value| {
            let value = value.widened();
            are_near &= value.wrapping_sub(least).cast_unsigned() <= span;
            distance_code(value, least)
        }));
        are_near
    }

    /// Makes sure that values from `least` to `most` have codes.
    fn reach(&mut self, least: i64, most: i64) -> Recoding {
        let (old_least, old_most) = match &self.codes {
            Codes::None => (least, most),
            Codes::Distances { least, most } => (*least, *most),
            Codes::Listed(_) => return None,
        };
        let is_new = matches!(self.codes, Codes::None);
        if !is_new && least >= old_least && most <= old_most {
            return None;
        }
        // Twice as far as was needed, so that values that go on and on are not coded anew with each batch.
        let (mut new_least, mut new_most) = (least.min(old_least), most.max(old_most));
        let span = new_least.abs_diff(new_most);
        if !is_new && span < SPAN_MAX / 2 {
            let slack = i64::try_from(span).unwrap_or(0);
            (new_least, new_most) = (
                if new_least < old_least { new_least.saturating_sub(slack) } else { new_least },
                if new_most > old_most { new_most.saturating_add(slack) } else { new_most },
            );
        }
        if new_least.abs_diff(new_most) < SPAN_MAX {
            self.codes = Codes::Distances { least: new_least, most: new_most };
            let moved = u32::try_from(old_least.abs_diff(new_least)).expect("within the span");
            let recoded =
                || std::iter::once(0).chain(distance_codes(old_least, old_most).map(|code| code + moved));
            return (!is_new && moved > 0).then(|| recoded().collect());
        }
        let mut listed = Dictionary::new();
        let recoded = (!is_new).then(|| {
            let old = (old_least..=old_most).map(|value| listed.code(value));
            std::iter::once(0).chain(old).collect()
        });
        self.codes = Codes::Listed(listed);
        recoded
    }
}

/// The code of a value that is at least this.
#[inline]
fn distance_code(value: i64, least: i64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the span")]
    {
        value.wrapping_sub(least).wrapping_add(1) as u32
    }
}

/// The codes of all values from `least` to `most`.
fn distance_codes(least: i64, most: i64) -> impl Iterator<Item = u32> {
    (0..=least.abs_diff(most)).map(|distance| u32::try_from(distance + 1).expect("within the span"))
}

impl<T: ArrowPrimitiveType<Native: Whole>> super::keys::KeyCodes for Integers<T> {
    fn encode(&mut self, values: &ArrayRef, codes: &mut Vec<u32>) -> Recoding {
        let values = values.as_primitive::<T>();
        if values.null_count() == 0 && self.near(values.values(), codes) {
            return None;
        }
        let bounds = match &self.codes {
            Codes::Listed(_) => None,
            _ => bounds(values),
        };
        let recoding = bounds.and_then(|(least, most)| self.reach(least, most));
        match &mut self.codes {
            Codes::None => codes_of(values.nulls(), values.values(), codes, |_| 0),
            Codes::Distances { least, .. } => {
                let least = *least;
                codes_of(values.nulls(), values.values(), codes, |value| {
                    distance_code(value.widened(), least)
                });
            }
            Codes::Listed(listed) => {
                codes_of(values.nulls(), values.values(), codes, |value| listed.code(value.widened()));
            }
        }
        recoding
    }

    fn are_computed(&self) -> bool {
        matches!(self.codes, Codes::Distances { .. })
    }

    fn count(&self) -> u64 {
        match &self.codes {
            Codes::None => 1,
            Codes::Distances { least, most } => least.abs_diff(*most) + 2,
            Codes::Listed(listed) => listed.values().len() as u64 + 1,
        }
    }

    fn decode(&self, codes: &[u32]) -> ArrayRef {
        let value = |code: u32| match &self.codes {
            Codes::Distances { least, .. } => least.wrapping_add(i64::from(code) - 1),
            Codes::Listed(listed) => listed.values()[code as usize - 1],
            Codes::None => unreachable!("only NULL has a code"),
        };
        let values = codes.iter().map(|&code| (code > 0).then(|| T::Native::narrowed(value(code))));
        let values: PrimitiveArray<T> = values.collect();
        Arc::new(values.with_data_type(self.ty.clone()))
    }

    fn bytes(&self) -> usize {
        match &self.codes {
            Codes::Listed(listed) => listed.bytes(),
            _ => 0,
        }
    }
}

/// The least and the largest value that is not NULL.
fn bounds<T: ArrowPrimitiveType<Native: Whole>>(values: &PrimitiveArray<T>) -> Option<(i64, i64)> {
    let least = arrow::compute::min(values)?;
    let most = arrow::compute::max(values)?;
    Some((least.widened(), most.widened()))
}
