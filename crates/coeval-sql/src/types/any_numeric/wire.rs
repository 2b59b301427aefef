// SPDX-License-Identifier: Apache-2.0
//! The binary form of a `numeric`: how many digits of base 10,000, what the first one counts, the sign, how many decimal digits
//! behind the point are shown, then the digits. NaN and the infinities have a sign of their own and no digits.

use super::super::numeric::overflow;
use crate::error::SqlError;
use coeval_store::{AnyNumber, AnyNumberRef, NUMBER_SCALE_MAX, NUMBER_WHOLE_DIGITS_MAX, NumberClass};

const POSITIVE: u16 = 0;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;

/// Digits are of this base.
const BASE: u16 = 10_000;

/// Appends the binary form.
///
/// # Errors
/// `22003` for more digits than the format counts, which no `numeric` has.
pub(in crate::types) fn encode_wire(number: AnyNumberRef<'_>, out: &mut Vec<u8>) -> Result<(), SqlError> {
    let (mut pairs, exponent) = number.digits();
    let sign = match number.class() {
        NumberClass::NaN => NAN,
        NumberClass::Infinity => INFINITY,
        NumberClass::NegativeInfinity => NEGATIVE_INFINITY,
        NumberClass::Negative => NEGATIVE,
        NumberClass::Zero | NumberClass::Positive => POSITIVE,
    };
    // Two digits of base 100 are one of base 10,000, counted from the point on.
    let is_odd = exponent.rem_euclid(2) == 1 && !pairs.is_empty();
    if is_odd {
        pairs.insert(0, 0);
    }
    let digits: Vec<u16> = pairs
        .chunks(2)
        .map(|pair| u16::from(pair[0]) * 100 + u16::from(pair.get(1).copied().unwrap_or(0)))
        .collect();
    let weight = if digits.is_empty() { 0 } else { (exponent + i32::from(is_odd)).div_euclid(2) - 1 };
    let count = u16::try_from(digits.len()).map_err(|_| overflow())?;
    let weight = i16::try_from(weight).map_err(|_| overflow())?;
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&number.scale().to_be_bytes());
    digits.iter().for_each(|digit| out.extend_from_slice(&digit.to_be_bytes()));
    Ok(())
}

/// The number that the bytes stand for; `None` if they are none. Digits behind those that are shown do not count.
pub(in crate::types) fn decode_wire(bytes: &[u8]) -> Option<AnyNumber> {
    let mut shorts = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let (count, weight, sign, scale) = (shorts.next()?, shorts.next()?, shorts.next()?, shorts.next()?);
    if bytes.len() != 8 + usize::from(count) * 2 || scale > NUMBER_SCALE_MAX {
        return None;
    }
    let class = match sign {
        POSITIVE => NumberClass::Positive,
        NEGATIVE => NumberClass::Negative,
        NAN => return Some(AnyNumber::nan()),
        INFINITY => return Some(AnyNumber::infinity()),
        NEGATIVE_INFINITY => return Some(AnyNumber::negative_infinity()),
        _ => return None,
    };
    let exponent = (i32::from(weight as i16) + 1) * 2;
    if exponent > NUMBER_WHOLE_DIGITS_MAX as i32 / 2 {
        return None;
    }
    let mut pairs = Vec::with_capacity(usize::from(count) * 2);
    for digit in shorts {
        if digit >= BASE {
            return None;
        }
        pairs.extend([(digit / 100) as u8, (digit % 100) as u8]);
    }
    // How many digits of base 100 are shown, the last one perhaps by half.
    let shown = i32::from(scale.div_ceil(2)) + exponent;
    pairs.truncate(usize::try_from(shown).unwrap_or(0));
    if scale % 2 == 1
        && let Some(last) = usize::try_from(shown - 1).ok().and_then(|place| pairs.get_mut(place))
    {
        *last -= *last % 10;
    }
    Some(AnyNumber::finite(class, &pairs, exponent, scale))
}
