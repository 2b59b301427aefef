// SPDX-License-Identifier: Apache-2.0
//! Values as components of keys: written so that comparing the bytes compares the values, and read back.
//!
//! A key is the concatenation of its components: integers big-endian with the sign bit turned, floats with their order
//! made unsigned, numbers without digits of their type as `number.rs` says, text and bytes with 0x00 escaped as 0x00 0xFF and closed by 0x00 0x01. Each component ends by itself, so a
//! key can be read back, and no key of a space is a proper prefix of another.
//! A nullable component starts with a byte: 0x01 for a value, 0x02 for NULL (NULL sorts last).

use super::list::check_list;
use super::number::comparable_length;
use super::{AnyNumber, AnyNumberRef, IntervalValue, Value, ValueRef};
use crate::key::Key;
use crate::types::Physical;
use smallvec::SmallVec;

/// Whether a component of a key may be NULL, and so carries a tag byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nullable {
    /// Never NULL: no tag (primary keys).
    No,
    /// May be NULL: tagged (secondary indexes).
    Yes,
}

const TAG_VALUE: u8 = 0x01;
const TAG_NULL: u8 = 0x02;
const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xFF;
const TERMINATOR: u8 = 0x01;

/// Writes a key component by component.
#[derive(Clone, Debug, Default)]
pub struct KeyWriter {
    bytes: SmallVec<[u8; 64]>,
}

impl KeyWriter {
    /// An empty key.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts with these bytes, such as the prefix of an index entry.
    #[must_use]
    pub fn with_prefix(prefix: &[u8]) -> Self {
        Self { bytes: SmallVec::from_slice(prefix) }
    }

    /// Appends a component of an index, tagged; NULL is allowed.
    #[inline]
    pub fn push_nullable(&mut self, value: ValueRef<'_>) {
        if value.is_null() {
            self.bytes.push(TAG_NULL);
        } else {
            self.bytes.push(TAG_VALUE);
            self.push(value);
        }
    }

    /// Appends a component that is never NULL.
    ///
    /// # Panics
    /// If the value is NULL: the caller checks NOT NULL first.
    #[inline]
    pub fn push(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => panic!("a component that is never NULL was NULL"),
            ValueRef::Boolean(v) => self.bytes.push(u8::from(v)),
            ValueRef::Int16(v) => self.bytes.extend_from_slice(&(v as u16 ^ (1 << 15)).to_be_bytes()),
            ValueRef::Int32(v) => self.bytes.extend_from_slice(&(v as u32 ^ (1 << 31)).to_be_bytes()),
            ValueRef::Int64(v) => self.bytes.extend_from_slice(&(v as u64 ^ (1 << 63)).to_be_bytes()),
            ValueRef::Float32(v) => self.bytes.extend_from_slice(&ordered_f32(v).to_be_bytes()),
            ValueRef::Float64(v) => self.bytes.extend_from_slice(&ordered_f64(v).to_be_bytes()),
            ValueRef::Decimal(v) => self.bytes.extend_from_slice(&(v as u128 ^ (1 << 127)).to_be_bytes()),
            ValueRef::Number(v) => self.bytes.extend_from_slice(v.comparable()),
            ValueRef::Text(v) => self.push_escaped(v.as_bytes()),
            ValueRef::Bytes(v) => self.push_escaped(v),
            ValueRef::Interval(v) => {
                self.bytes.extend_from_slice(&(v.ordering() as u128 ^ (1 << 127)).to_be_bytes());
            }
            ValueRef::Uuid(v) => self.bytes.extend_from_slice(&v),
            ValueRef::List(v) => self.push_escaped(&v.encoded()),
        }
    }

    fn push_escaped(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(zero) = rest.iter().position(|&byte| byte == ESCAPE) {
            self.bytes.extend_from_slice(&rest[..=zero]);
            self.bytes.push(ESCAPED_ZERO);
            rest = &rest[zero + 1..];
        }
        self.bytes.extend_from_slice(rest);
        self.bytes.extend_from_slice(&[ESCAPE, TERMINATOR]);
    }

    /// Appends bytes that are already memcomparable, such as a primary key behind index components.
    #[inline]
    pub fn push_raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes so far.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The key.
    #[must_use]
    #[inline]
    pub fn finish(&self) -> Key {
        Key::from_slice(&self.bytes)
    }

    /// Empties the writer so that its buffer serves the next key.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// `-0.0` and `0.0` are one key; every NaN is one key above all numbers, as PostgreSQL orders them.
fn ordered_f64(value: f64) -> u64 {
    let bits = if value.is_nan() { f64::NAN.to_bits() & !(1 << 63) } else { (value + 0.0).to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
}

fn ordered_f32(value: f32) -> u32 {
    let bits = if value.is_nan() { f32::NAN.to_bits() & !(1 << 31) } else { (value + 0.0).to_bits() };
    if bits >> 31 == 1 { !bits } else { bits | (1 << 31) }
}

/// Reads a key back component by component.
#[derive(Clone, Debug)]
pub struct KeyReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The key's bytes do not read as its components: damage, or a key of another space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is damaged at byte {offset}")]
pub struct KeyDamage {
    /// Where reading stopped.
    pub offset: usize,
}

impl<'a> KeyReader<'a> {
    /// Reads these bytes from their start.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes have been read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// What has not been read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// The next component.
    ///
    /// # Errors
    /// If the bytes end too early or are not of this type.
    pub fn read(&mut self, physical: Physical, nullable: Nullable) -> Result<Value, KeyDamage> {
        if nullable == Nullable::Yes {
            match self.take::<1>()? {
                [TAG_NULL] => return Ok(Value::Null),
                [TAG_VALUE] => {}
                _ => return Err(KeyDamage { offset: self.at - 1 }),
            }
        }
        Ok(match physical {
            Physical::Boolean => Value::Boolean(self.take::<1>()?[0] != 0),
            Physical::Int16 => Value::Int16((u16::from_be_bytes(self.take()?) ^ (1 << 15)) as i16),
            Physical::Int32 => Value::Int32((u32::from_be_bytes(self.take()?) ^ (1 << 31)) as i32),
            Physical::Int64 => Value::Int64((u64::from_be_bytes(self.take()?) ^ (1 << 63)) as i64),
            Physical::Float32 => {
                let bits = u32::from_be_bytes(self.take()?);
                Value::Float32(f32::from_bits(if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits }))
            }
            Physical::Float64 => {
                let bits = u64::from_be_bytes(self.take()?);
                Value::Float64(f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits }))
            }
            Physical::DecimalShort | Physical::DecimalLong => {
                Value::Decimal((u128::from_be_bytes(self.take()?) ^ (1 << 127)) as i128)
            }
            Physical::Number => {
                let offset = self.at;
                let number = AnyNumber::of_comparable(self.take_number()?);
                if !AnyNumberRef::check(number.borrow().as_bytes()) {
                    return Err(KeyDamage { offset });
                }
                Value::Number(number)
            }
            Physical::Text => {
                let offset = self.at;
                let bytes = self.take_escaped()?;
                let text = String::from_utf8(bytes).map_err(|_| KeyDamage { offset })?;
                Value::Text(text.into())
            }
            Physical::Bytes => Value::Bytes(self.take_escaped()?.into()),
            Physical::Interval => Value::Interval(interval_of_ordering(
                (u128::from_be_bytes(self.take()?) ^ (1 << 127)) as i128,
            )),
            Physical::Uuid => Value::Uuid(self.take()?),
            Physical::List(element) => {
                let offset = self.at;
                let bytes = self.take_escaped()?;
                if !check_list(&bytes, element) {
                    return Err(KeyDamage { offset });
                }
                Value::List(bytes.into())
            }
        })
    }

    /// Passes over the next component.
    ///
    /// # Errors
    /// If the bytes end too early.
    pub fn skip(&mut self, physical: Physical, nullable: Nullable) -> Result<(), KeyDamage> {
        if nullable == Nullable::Yes && self.take::<1>()? == [TAG_NULL] {
            return Ok(());
        }
        match physical {
            Physical::Boolean => self.advance(1),
            Physical::Int16 => self.advance(2),
            Physical::Int32 | Physical::Float32 => self.advance(4),
            Physical::Int64 | Physical::Float64 => self.advance(8),
            Physical::DecimalShort | Physical::DecimalLong | Physical::Interval | Physical::Uuid => {
                self.advance(16)
            }
            Physical::Number => self.take_number().map(|_| ()),
            Physical::Text | Physical::Bytes | Physical::List(_) => {
                while self.take_segment()?.1 == ESCAPED_ZERO {}
                Ok(())
            }
        }
    }

    fn advance(&mut self, count: usize) -> Result<(), KeyDamage> {
        if self.bytes.len() - self.at < count {
            return Err(KeyDamage { offset: self.at });
        }
        self.at += count;
        Ok(())
    }

    /// The next bytes as they are.
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], KeyDamage> {
        let start = self.at;
        self.advance(N)?;
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[start..self.at]);
        Ok(out)
    }

    /// The bytes of a number, which end by themselves.
    fn take_number(&mut self) -> Result<&'a [u8], KeyDamage> {
        let rest = self.rest();
        let length = comparable_length(rest).ok_or(KeyDamage { offset: self.at })?;
        self.at += length;
        Ok(&rest[..length])
    }

    /// The bytes up to the next escape byte, and the byte behind that.
    fn take_segment(&mut self) -> Result<(&'a [u8], u8), KeyDamage> {
        let rest = self.rest();
        let zero =
            rest.iter().position(|&byte| byte == ESCAPE).ok_or(KeyDamage { offset: self.bytes.len() })?;
        match rest.get(zero + 1) {
            Some(&code @ (ESCAPED_ZERO | TERMINATOR)) => {
                self.at += zero + 2;
                Ok((&rest[..zero], code))
            }
            _ => Err(KeyDamage { offset: self.at + zero }),
        }
    }

    fn take_escaped(&mut self) -> Result<Vec<u8>, KeyDamage> {
        let mut out = Vec::new();
        loop {
            let (segment, code) = self.take_segment()?;
            out.extend_from_slice(segment);
            if code == TERMINATOR {
                return Ok(out);
            }
            out.push(0);
        }
    }
}

/// An interval of this length, in days and nanoseconds: equal to, not always the same as, the one that was
/// written (a month and 30 days are one key). Keys compare intervals; rows keep them.
fn interval_of_ordering(ordering: i128) -> IntervalValue {
    const DAY: i128 = 86_400_000_000_000;
    IntervalValue { months: 0, days: (ordering / DAY) as i32, nanoseconds: (ordering % DAY) as i64 }
}

#[cfg(test)]
mod tests;
