// SPDX-License-Identifier: Apache-2.0
//! Numbers of as many digits as they need, each with the digits behind the point that it is shown with: values of columns of type
//! `numeric` without digits.
//!
//! # Bytes
//! | bytes | what | of which numbers |
//! |---|---|---|
//! | 1 | class: -Infinity 1, negative 2, zero 3, positive 4, Infinity 5, NaN 6 | all |
//! | 3 | exponent plus 2^23, big-endian: the number is `0.d1 d2 ... * 100^exponent` | negative and positive |
//! | n | digits of base 100, each plus 1; neither the first nor the last one is zero | negative and positive |
//! | 1 | 0, the end of the digits | negative and positive |
//! | 2 | how many decimal digits behind the point are shown, big-endian | all |
//!
//! What stands behind the class of a negative number has all its bits turned, but for the last two bytes. So comparing the bytes
//! without these two compares the numbers as PostgreSQL orders them, and no such bytes are the beginning of others. Keys have the
//! bytes without the last two: `1.0` and `1.00` are one key. A number is written as it is shown with as few digits as it needs
//! (the last two bytes say so) where it is read back from a key.

use std::cmp::Ordering;
use std::fmt;

/// The most digits behind the point that a `numeric` is shown with.
pub const NUMBER_SCALE_MAX: u16 = 16_383;
/// The most decimal digits in front of the point.
pub const NUMBER_WHOLE_DIGITS_MAX: usize = 131_072;

const NEGATIVE_INFINITY: u8 = 1;
const NEGATIVE: u8 = 2;
const ZERO: u8 = 3;
const POSITIVE: u8 = 4;
const INFINITY: u8 = 5;
const NAN: u8 = 6;

/// What is added to an exponent, so that it is not negative.
const EXPONENT_BIAS: i32 = 1 << 23;
/// Bytes of an exponent.
const EXPONENT_BYTES: usize = 3;
/// Behind the digits.
const END: u8 = 0;
/// Bytes that say how many digits are shown.
const SCALE_BYTES: usize = 2;

const _: () = assert!(NUMBER_WHOLE_DIGITS_MAX < EXPONENT_BIAS as usize, "exponents have room in their bytes");

/// What a number is, apart from its digits. In the order of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumberClass {
    /// Below all numbers.
    NegativeInfinity,
    /// A number below zero.
    Negative,
    /// Zero, which has no sign.
    Zero,
    /// A number above zero.
    Positive,
    /// Above all numbers.
    Infinity,
    /// No number; equal to itself, and above all else.
    NaN,
}

/// A number, borrowed from a row, a chunk or an [`AnyNumber`].
#[derive(Clone, Copy)]
pub struct AnyNumberRef<'a>(&'a [u8]);

/// A number of any number of digits.
#[derive(Clone)]
pub struct AnyNumber(Box<[u8]>);

impl<'a> AnyNumberRef<'a> {
    /// The number with these bytes, as [`as_bytes`](Self::as_bytes) gave them; those from outside are [checked](Self::check) first.
    #[must_use]
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether bytes are a number.
    #[must_use]
    pub fn check(bytes: &[u8]) -> bool {
        let Some(length) = comparable_length(bytes) else { return false };
        if bytes.len() != length + SCALE_BYTES {
            return false;
        }
        let number = AnyNumberRef(bytes);
        number.scale() <= NUMBER_SCALE_MAX
            && number.is_made_of_digits()
            && number.scale() >= number.least_scale()
    }

    /// Whether its digits are such, and neither the first nor the last is zero.
    fn is_made_of_digits(self) -> bool {
        match self.class() {
            NumberClass::Negative | NumberClass::Positive => {
                let (digits, _) = self.digits();
                let are_digits = digits.iter().all(|&digit| digit < 100);
                are_digits && digits.first().is_some_and(|&digit| digit != 0) && digits.last() != Some(&0)
            }
            _ => true,
        }
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Bytes that are compared as the numbers are: without how many digits are shown.
    #[must_use]
    #[inline]
    pub fn comparable(self) -> &'a [u8] {
        &self.0[..self.0.len().saturating_sub(SCALE_BYTES)]
    }

    /// How many decimal digits behind the point are shown.
    #[must_use]
    pub fn scale(self) -> u16 {
        match self.0.last_chunk::<SCALE_BYTES>() {
            Some(bytes) => u16::from_be_bytes(*bytes),
            None => 0,
        }
    }

    /// What it is, apart from its digits.
    #[must_use]
    pub fn class(self) -> NumberClass {
        match self.0.first() {
            Some(&NEGATIVE_INFINITY) => NumberClass::NegativeInfinity,
            Some(&NEGATIVE) => NumberClass::Negative,
            Some(&ZERO) => NumberClass::Zero,
            Some(&POSITIVE) => NumberClass::Positive,
            Some(&INFINITY) => NumberClass::Infinity,
            _ => NumberClass::NaN,
        }
    }

    /// Its digits of base 100, none of what has none, and its exponent: it is `0.d1 d2 ... * 100^exponent`, with its sign.
    #[must_use]
    pub fn digits(self) -> (Vec<u8>, i32) {
        let turned = match self.class() {
            NumberClass::Negative => u8::MAX,
            NumberClass::Positive => 0,
            _ => return (Vec::new(), 0),
        };
        let bytes = self.comparable();
        let Some((exponent, rest)) = bytes.get(1..).and_then(|rest| rest.split_at_checked(EXPONENT_BYTES))
        else {
            return (Vec::new(), 0);
        };
        let exponent = exponent.iter().fold(0, |sum, byte| sum << 8 | i32::from(byte ^ turned));
        let digits = rest.iter().take(rest.len().saturating_sub(1));
        let digits = digits.map(|byte| (byte ^ turned).wrapping_sub(1)).collect();
        (digits, exponent - EXPONENT_BIAS)
    }

    /// How many decimal digits behind the point it has without zeros at the end.
    #[must_use]
    pub fn least_scale(self) -> u16 {
        let (digits, exponent) = self.digits();
        least_scale(&digits, exponent)
    }

    /// The same number, shown with as few digits as it needs: of equal numbers the bytes are the same.
    #[must_use]
    pub fn shortest(self) -> AnyNumber {
        AnyNumber::of_comparable(self.comparable())
    }

    /// An owned copy.
    #[must_use]
    pub fn to_owned(self) -> AnyNumber {
        AnyNumber(self.0.into())
    }
}

impl AnyNumber {
    /// What is no number.
    #[must_use]
    pub fn nan() -> Self {
        Self::without_digits(NAN, 0)
    }

    /// What is above all numbers.
    #[must_use]
    pub fn infinity() -> Self {
        Self::without_digits(INFINITY, 0)
    }

    /// What is below all numbers.
    #[must_use]
    pub fn negative_infinity() -> Self {
        Self::without_digits(NEGATIVE_INFINITY, 0)
    }

    /// Zero, shown with so many digits behind the point.
    #[must_use]
    pub fn zero(scale: u16) -> Self {
        Self::without_digits(ZERO, scale)
    }

    fn without_digits(class: u8, scale: u16) -> Self {
        let [high, low] = scale.to_be_bytes();
        Self(Box::new([class, high, low]))
    }

    /// The number above zero `0.d1 d2 ... * 100^exponent`, or of [`NumberClass::Negative`] the one below zero, shown with so many
    /// decimal digits behind the point. Zeros in front of the digits and behind them do not count; of nothing but zeros it is zero.
    ///
    /// # Panics
    /// If it has more digits behind the point than are shown, or a digit is above 99: callers round first.
    #[must_use]
    pub fn finite(class: NumberClass, digits: &[u8], exponent: i32, scale: u16) -> Self {
        let zeros = digits.iter().take_while(|&&digit| digit == 0).count();
        let end = digits.iter().rposition(|&digit| digit != 0).map_or(zeros, |last| last + 1);
        let kept = &digits[zeros..end];
        if kept.is_empty() {
            return Self::zero(scale);
        }
        let exponent =
            exponent - i32::try_from(zeros).expect("a number has fewer digits than an integer counts");
        assert!(least_scale(kept, exponent) <= scale, "all digits behind the point are shown");
        assert!(kept.iter().all(|&digit| digit < 100), "digits are of base 100");
        let (first, turned) =
            if class == NumberClass::Negative { (NEGATIVE, u8::MAX) } else { (POSITIVE, 0) };
        let biased =
            u32::try_from(exponent + EXPONENT_BIAS).expect("an exponent has room in its bytes").to_be_bytes();
        let mut bytes = Vec::with_capacity(kept.len() + 2 + EXPONENT_BYTES + SCALE_BYTES);
        bytes.push(first);
        bytes.extend(biased[1..].iter().map(|byte| byte ^ turned));
        bytes.extend(kept.iter().map(|digit| (digit + 1) ^ turned));
        bytes.push(END ^ turned);
        bytes.extend_from_slice(&scale.to_be_bytes());
        Self(bytes.into())
    }

    /// The number that these bytes of a key are, shown with as few digits as it needs.
    pub(super) fn of_comparable(bytes: &[u8]) -> Self {
        let mut all = Vec::with_capacity(bytes.len() + SCALE_BYTES);
        all.extend_from_slice(bytes);
        all.extend_from_slice(&[0; SCALE_BYTES]);
        let scale = AnyNumberRef(&all).least_scale().to_be_bytes();
        all[bytes.len()..].copy_from_slice(&scale);
        Self(all.into())
    }

    /// The same number, borrowed.
    #[must_use]
    #[inline]
    pub fn borrow(&self) -> AnyNumberRef<'_> {
        AnyNumberRef(&self.0)
    }
}

/// How many decimal digits behind the point there are in `0.d1 d2 ... * 100^exponent`.
fn least_scale(digits: &[u8], exponent: i32) -> u16 {
    let Some(last) = digits.last() else { return 0 };
    let behind = i32::try_from(digits.len()).unwrap_or(i32::MAX).saturating_sub(exponent);
    if behind <= 0 {
        return 0;
    }
    let half = i32::from(last % 10 == 0);
    u16::try_from(behind.saturating_mul(2).saturating_sub(half)).unwrap_or(u16::MAX)
}

/// How long a number is that begins these bytes, without how many digits are shown; `None` if none does.
pub(super) fn comparable_length(bytes: &[u8]) -> Option<usize> {
    let end = match *bytes.first()? {
        NEGATIVE_INFINITY | ZERO | INFINITY | NAN => return Some(1),
        NEGATIVE => END ^ u8::MAX,
        POSITIVE => END,
        _ => return None,
    };
    let before = 1 + EXPONENT_BYTES;
    let digits = bytes.get(before..)?.iter().position(|&byte| byte == end)?;
    Some(before + digits + 1)
}

impl PartialEq for AnyNumberRef<'_> {
    /// However many digits are shown.
    fn eq(&self, other: &Self) -> bool {
        self.comparable() == other.comparable()
    }
}

impl Eq for AnyNumberRef<'_> {}

impl PartialOrd for AnyNumberRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AnyNumberRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.comparable().cmp(other.comparable())
    }
}

impl PartialEq for AnyNumber {
    fn eq(&self, other: &Self) -> bool {
        self.borrow() == other.borrow()
    }
}

impl Eq for AnyNumber {}

impl PartialOrd for AnyNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AnyNumber {
    fn cmp(&self, other: &Self) -> Ordering {
        self.borrow().cmp(&other.borrow())
    }
}

impl fmt::Display for AnyNumberRef<'_> {
    /// As PostgreSQL shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class() {
            NumberClass::NaN => f.write_str("NaN"),
            NumberClass::Infinity => f.write_str("Infinity"),
            NumberClass::NegativeInfinity => f.write_str("-Infinity"),
            NumberClass::Negative => {
                f.write_str("-")?;
                write_digits(f, *self)
            }
            NumberClass::Zero | NumberClass::Positive => write_digits(f, *self),
        }
    }
}

fn write_digits(f: &mut fmt::Formatter<'_>, number: AnyNumberRef<'_>) -> fmt::Result {
    let (digits, exponent) = number.digits();
    let digit =
        |place: i32| usize::try_from(place).ok().and_then(|place| digits.get(place)).copied().unwrap_or(0);
    if exponent <= 0 {
        f.write_str("0")?;
    } else {
        write!(f, "{}", digit(0))?;
        for place in 1..exponent {
            write!(f, "{:02}", digit(place))?;
        }
    }
    let scale = i32::from(number.scale());
    if scale > 0 {
        f.write_str(".")?;
    }
    for place in 0..scale {
        let pair = digit(exponent + place / 2);
        write!(f, "{}", if place % 2 == 0 { pair / 10 } else { pair % 10 })?;
    }
    Ok(())
}

impl fmt::Debug for AnyNumberRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Number({self})")
    }
}

impl fmt::Display for AnyNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.borrow().fmt(f)
    }
}

impl fmt::Debug for AnyNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.borrow())
    }
}

#[cfg(test)]
mod tests;
