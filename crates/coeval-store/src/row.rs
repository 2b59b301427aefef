// SPDX-License-Identifier: Apache-2.0
//! Rows: a compact encoding with O(1) access to each column.
//!
//! ```text
//! column count n   u16
//! nulls            ceil(n / 8) bytes, bit i set: column i is NULL
//! fixed area       a slot for each column: its value, or for text, bytes and arrays the end of its bytes (u32)
//! variable area    text, bytes and arrays in column order
//! ```
//! Numbers are little-endian. Columns are only ever added behind the others, so a row that was written with
//! fewer columns stays readable: the missing ones have the default that `ADD COLUMN` gave them.
//!
//! # Dropped columns
//! A column that is dropped keeps its number and its slot. Once another column has been added, new rows have no slot for it:
//! it is NULL there and takes one bit. The number of columns in a row says which rows these are. Let `d` be how many columns
//! the table had when the column was dropped. A row with more than `d` was written after an `ADD COLUMN` that came after the
//! drop, so it has no slot. One with `d` or fewer has a slot, whether it was written before the drop or behind it.

use crate::types::Physical;
use crate::value::{AnyNumberRef, IntervalValue, ListRef, Value, ValueRef, check_list};
use smallvec::SmallVec;
use std::fmt;
use std::sync::OnceLock;
use triomphe::ThinArc;

/// What the layout of rows depends on, for each column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutColumn {
    /// How its values lie.
    pub physical: Physical,
    /// If it was dropped: how many columns there were then. Rows with more have no slot for it.
    pub dropped_at: Option<u16>,
}

impl From<Physical> for LayoutColumn {
    fn from(physical: Physical) -> Self {
        Self { physical, dropped_at: None }
    }
}

/// Where each column lies in a row. Derived from the columns; the same for all rows of a table.
#[derive(Clone, Debug)]
pub struct Layout {
    columns: Box<[LayoutColumn]>,
    /// The numbers of columns, ascending, behind which a dropped column has no slot.
    drops: Box<[u16]>,
    /// The slots of rows with more columns than the last of `drops`.
    newest: Slots,
    /// The slots of rows with more columns than `drops[i - 1]` and at most `drops[i]`, made when such a row is read: most have
    /// been written anew since.
    older: Box<[OnceLock<Slots>]>,
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns
    }
}

impl Eq for Layout {}

/// The slots of rows that lack the same dropped columns.
#[derive(Clone, Debug)]
struct Slots {
    columns: Box<[Slot]>,
    /// `fixed_sizes[n]`: size of the fixed area of a row with `n` columns.
    fixed_sizes: Box<[u32]>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    physical: Physical,
    /// Bytes in the fixed area; 0 if the column was dropped before the row was written.
    width: u32,
    /// Offset inside the fixed area.
    offset: u32,
    /// The slot of the variable column before this one, if any: its end is this one's start.
    previous_variable: Option<u32>,
}

const COUNT_SIZE: usize = 2;

/// Rows up to this size are copied on the stack while they are changed: nearly all are smaller.
const PATCH_INLINE: usize = 512;

/// Room for the text of a row that is being written.
const VARIABLE_ROOM: usize = 256;

impl Slot {
    #[inline]
    fn is_variable(self) -> bool {
        let is_of_any_length =
            matches!(self.physical, Physical::Text | Physical::Bytes | Physical::Number | Physical::List(_));
        self.width != 0 && is_of_any_length
    }

    /// Where it lies in the fixed area.
    #[inline]
    fn range(self) -> std::ops::Range<usize> {
        self.offset as usize..(self.offset + self.width) as usize
    }
}

impl Slots {
    /// Those of rows with this number of columns, or a few less or more.
    fn of_rows_with(columns: &[LayoutColumn], count: usize) -> Self {
        let mut offset = 0;
        let mut previous_variable = None;
        let mut slots = Vec::with_capacity(columns.len());
        let mut fixed_sizes = vec![0];
        for &LayoutColumn { physical, dropped_at } in columns {
            let is_gone = dropped_at.is_some_and(|dropped_at| count > usize::from(dropped_at));
            let width = if is_gone { 0 } else { slot_size(physical) };
            let slot = Slot { physical, width, offset, previous_variable };
            if slot.is_variable() {
                previous_variable = Some(offset);
            }
            slots.push(slot);
            offset += width;
            fixed_sizes.push(offset);
        }
        Self { columns: slots.into(), fixed_sizes: fixed_sizes.into() }
    }

    /// Where the variable area of a row with this number of columns begins.
    #[inline]
    fn variable_start(&self, count: usize) -> usize {
        COUNT_SIZE + count.div_ceil(8) + self.fixed_sizes[count] as usize
    }
}

const fn slot_size(physical: Physical) -> u32 {
    match physical {
        Physical::Boolean => 1,
        Physical::Int16 => 2,
        Physical::Int32
        | Physical::Float32
        | Physical::Text
        | Physical::Bytes
        | Physical::Number
        | Physical::List(_) => 4,
        Physical::Int64 | Physical::Float64 | Physical::DecimalShort => 8,
        Physical::DecimalLong | Physical::Interval | Physical::Uuid => 16,
    }
}

impl Layout {
    /// The layout of rows with these columns.
    ///
    /// # Panics
    /// If there are more than 65,535.
    #[must_use]
    pub fn new<C: Into<LayoutColumn>>(columns: impl IntoIterator<Item = C>) -> Self {
        let columns: Box<[LayoutColumn]> = columns.into_iter().map(Into::into).collect();
        assert!(columns.len() <= usize::from(u16::MAX), "a table has at most 65,535 columns");
        let mut drops: Vec<u16> = columns.iter().filter_map(|column| column.dropped_at).collect();
        drops.retain(|&count| usize::from(count) < columns.len());
        drops.sort_unstable();
        drops.dedup();
        Self {
            newest: Slots::of_rows_with(&columns, columns.len()),
            older: drops.iter().map(|_| OnceLock::new()).collect(),
            drops: drops.into(),
            columns,
        }
    }

    /// The slots of a row with this number of columns.
    #[inline]
    fn slots(&self, count: usize) -> &Slots {
        match self.drops.last() {
            Some(&last) if count <= usize::from(last) => self.older_slots(count),
            _ => &self.newest,
        }
    }

    #[cold]
    fn older_slots(&self, count: usize) -> &Slots {
        let at = self.drops.partition_point(|&drop| usize::from(drop) < count);
        self.older[at].get_or_init(|| Slots::of_rows_with(&self.columns, count))
    }

    /// How many columns there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there is no column.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// How values of this column lie.
    #[must_use]
    pub fn physical(&self, column: usize) -> Physical {
        self.columns[column].physical
    }
}

/// An immutable, reference-counted row.
#[derive(Clone)]
pub struct Row(ThinArc<(), u8>);

impl Row {
    /// The row with these encoded bytes, as [`Row::as_bytes`] gave them. Bytes from outside are checked with
    /// [`Row::check`] first.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(ThinArc::from_header_and_slice((), bytes))
    }

    /// Looks at the reference count, so that it is in the cache when a clone changes it.
    #[inline]
    pub(crate) fn touch(&self) {
        std::hint::black_box(ThinArc::strong_count(&self.0));
    }

    /// The encoded bytes.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.slice
    }

    /// How many columns the row was written with.
    #[must_use]
    #[inline]
    pub fn column_count(&self) -> usize {
        column_count(self.as_bytes())
    }

    /// The value of a column; `None` if the row was written before the column was added.
    ///
    /// # Panics
    /// If the layout has no such column or the row is not of this layout.
    #[must_use]
    #[inline]
    pub fn get<'a>(&'a self, layout: &Layout, column: usize) -> Option<ValueRef<'a>> {
        value_in(self.as_bytes(), layout, column)
    }

    /// The columns that are NULL, of those the row was written with.
    #[inline]
    pub(crate) fn null_columns(&self) -> impl Iterator<Item = usize> {
        let bytes = self.as_bytes();
        let nulls = &bytes[COUNT_SIZE..COUNT_SIZE + column_count(bytes).div_ceil(8)];
        nulls.iter().enumerate().filter(|(_, byte)| **byte != 0).flat_map(|(index, byte)| {
            (0..8).filter(move |bit| byte & (1 << bit) != 0).map(move |bit| 8 * index + bit)
        })
    }

    /// Whether this column is the same in both rows, bit by bit. Both must have been written with it.
    ///
    /// # Panics
    /// If one was not, or is not of this layout.
    #[must_use]
    #[inline]
    pub(crate) fn has_same(&self, other: &Self, layout: &Layout, column: usize) -> bool {
        raw_value(self.as_bytes(), layout, column) == raw_value(other.as_bytes(), layout, column)
    }

    /// A copy with some columns changed, made by copying the bytes: `(column, value)` pairs, of which the first
    /// for a column counts. `None` if that is not possible, because text, bytes or an array change, or the row lacks
    /// columns of the layout.
    ///
    /// # Panics
    /// If a value is not of its column's physical type.
    #[must_use]
    pub(crate) fn patched(&self, layout: &Layout, changes: &[(usize, Value)]) -> Option<Self> {
        let old = self.as_bytes();
        let count = layout.len();
        if column_count(old) != count
            || changes.iter().any(|(column, _)| layout.newest.columns[*column].is_variable())
        {
            return None;
        }
        let mut bytes: SmallVec<[u8; PATCH_INLINE]> = SmallVec::from_slice(old);
        let (head, fixed) = bytes.split_at_mut(COUNT_SIZE + count.div_ceil(8));
        for (column, value) in changes.iter().rev() {
            let slot = layout.newest.columns[*column];
            let place = &mut fixed[slot.range()];
            let (null_byte, null_bit) = (COUNT_SIZE + column / 8, 1 << (column % 8));
            if value.borrow().is_null() {
                head[null_byte] |= null_bit;
                place.fill(0);
            } else {
                head[null_byte] &= !null_bit;
                let fits = put_fixed(slot.physical, value.borrow(), place);
                assert!(fits, "changed values are of their columns' types");
            }
        }
        Some(Self::from_bytes(&bytes))
    }

    /// Whether the bytes are a row of this layout: every column readable, every text UTF-8.
    #[must_use]
    pub fn check(bytes: &[u8], layout: &Layout) -> bool {
        if bytes.len() < COUNT_SIZE {
            return false;
        }
        let count = column_count(bytes);
        if count > layout.len() {
            return false;
        }
        let slots = layout.slots(count);
        let variable = slots.variable_start(count);
        if bytes.len() < variable {
            return false;
        }
        let fixed = COUNT_SIZE + count.div_ceil(8);
        let mut end = variable;
        for (column, slot) in slots.columns[..count].iter().enumerate() {
            if slot.width == 0 && !is_null(bytes, column) {
                return false;
            }
            if slot.is_variable() {
                let next = variable + read_u32(bytes, fixed + slot.offset as usize) as usize;
                if next < end || next > bytes.len() {
                    return false;
                }
                let is_whole = match slot.physical {
                    Physical::Text => std::str::from_utf8(&bytes[end..next]).is_ok(),
                    Physical::Number => is_null(bytes, column) || AnyNumberRef::check(&bytes[end..next]),
                    Physical::List(element) => check_list(&bytes[end..next], element),
                    _ => true,
                };
                if !is_whole {
                    return false;
                }
                end = next;
            }
        }
        end == bytes.len()
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Row {}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Row({} columns, {} bytes)", self.column_count(), self.as_bytes().len())
    }
}

#[inline]
fn column_count(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[0], bytes[1]]))
}

#[inline]
fn is_null(bytes: &[u8], column: usize) -> bool {
    bytes[COUNT_SIZE + column / 8] & (1 << (column % 8)) != 0
}

#[inline]
fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[inline]
fn value_in<'a>(bytes: &'a [u8], layout: &Layout, column: usize) -> Option<ValueRef<'a>> {
    let count = column_count(bytes);
    if column >= count {
        return None;
    }
    if is_null(bytes, column) {
        return Some(ValueRef::Null);
    }
    let fixed = COUNT_SIZE + count.div_ceil(8);
    let slots = layout.slots(count);
    let slot = slots.columns[column];
    let at = fixed + slot.offset as usize;
    Some(match slot.physical {
        Physical::Boolean => ValueRef::Boolean(bytes[at] != 0),
        Physical::Int16 => ValueRef::Int16(i16::from_le_bytes(array(bytes, at))),
        Physical::Int32 => ValueRef::Int32(i32::from_le_bytes(array(bytes, at))),
        Physical::Int64 => ValueRef::Int64(i64::from_le_bytes(array(bytes, at))),
        Physical::Float32 => ValueRef::Float32(f32::from_le_bytes(array(bytes, at))),
        Physical::Float64 => ValueRef::Float64(f64::from_le_bytes(array(bytes, at))),
        Physical::DecimalShort => ValueRef::Decimal(i128::from(i64::from_le_bytes(array(bytes, at)))),
        Physical::DecimalLong => ValueRef::Decimal(i128::from_le_bytes(array(bytes, at))),
        Physical::Interval => ValueRef::Interval(IntervalValue {
            months: i32::from_le_bytes(array(bytes, at)),
            days: i32::from_le_bytes(array(bytes, at + 4)),
            nanoseconds: i64::from_le_bytes(array(bytes, at + 8)),
        }),
        Physical::Uuid => ValueRef::Uuid(array(bytes, at)),
        Physical::Text => {
            let text = std::str::from_utf8(&bytes[variable_span(bytes, slots, slot)]);
            ValueRef::Text(text.expect("rows hold UTF-8: writers take &str, readers of files check"))
        }
        Physical::Bytes => ValueRef::Bytes(&bytes[variable_span(bytes, slots, slot)]),
        Physical::Number => ValueRef::Number(AnyNumberRef::new(&bytes[variable_span(bytes, slots, slot)])),
        Physical::List(_) => ValueRef::List(ListRef::Encoded(&bytes[variable_span(bytes, slots, slot)])),
    })
}

/// The encoded bytes of a column that is there; `None` for NULL.
#[inline]
fn raw_value<'a>(bytes: &'a [u8], layout: &Layout, column: usize) -> Option<&'a [u8]> {
    let count = column_count(bytes);
    assert!(column < count, "the row was written with this column");
    if is_null(bytes, column) {
        return None;
    }
    let fixed = COUNT_SIZE + count.div_ceil(8);
    let slots = layout.slots(count);
    let slot = slots.columns[column];
    let at = fixed + slot.offset as usize;
    if slot.is_variable() {
        return Some(&bytes[variable_span(bytes, slots, slot)]);
    }
    Some(&bytes[at..at + slot.width as usize])
}

/// Where the bytes of a variable column lie.
#[inline]
fn variable_span(bytes: &[u8], slots: &Slots, slot: Slot) -> std::ops::Range<usize> {
    let count = column_count(bytes);
    let fixed = COUNT_SIZE + count.div_ceil(8);
    let variable = fixed + slots.fixed_sizes[count] as usize;
    let start = slot.previous_variable.map_or(0, |previous| read_u32(bytes, fixed + previous as usize));
    variable + start as usize..variable + read_u32(bytes, fixed + slot.offset as usize) as usize
}

/// Writes a value of fixed size, which is not NULL, into its slot; returns whether it is of this type.
#[inline]
fn put_fixed(physical: Physical, value: ValueRef<'_>, slot: &mut [u8]) -> bool {
    match (physical, value) {
        (Physical::Boolean, ValueRef::Boolean(v)) => slot[0] = u8::from(v),
        (Physical::Int16, ValueRef::Int16(v)) => slot.copy_from_slice(&v.to_le_bytes()),
        (Physical::Int32, ValueRef::Int32(v)) => slot.copy_from_slice(&v.to_le_bytes()),
        (Physical::Int64, ValueRef::Int64(v)) => slot.copy_from_slice(&v.to_le_bytes()),
        (Physical::Float32, ValueRef::Float32(v)) => slot.copy_from_slice(&v.to_le_bytes()),
        (Physical::Float64, ValueRef::Float64(v)) => slot.copy_from_slice(&v.to_le_bytes()),
        (Physical::DecimalShort, ValueRef::Decimal(v)) => match i64::try_from(v) {
            Ok(short) => slot.copy_from_slice(&short.to_le_bytes()),
            Err(_) => return false,
        },
        (Physical::DecimalLong, ValueRef::Decimal(v)) => slot.copy_from_slice(&v.to_le_bytes()),
        (Physical::Interval, ValueRef::Interval(v)) => {
            slot[..4].copy_from_slice(&v.months.to_le_bytes());
            slot[4..8].copy_from_slice(&v.days.to_le_bytes());
            slot[8..].copy_from_slice(&v.nanoseconds.to_le_bytes());
        }
        (Physical::Uuid, ValueRef::Uuid(v)) => slot.copy_from_slice(&v),
        _ => return false,
    }
    true
}

/// Encodes rows of one layout, column by column; its buffer serves one row after the other.
#[derive(Debug)]
pub struct RowWriter<'l> {
    layout: &'l Layout,
    bytes: Vec<u8>,
    column: usize,
    variable: usize,
}

/// A value does not fit the column's physical type: a bug of the caller, who casts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column} holds {expected:?}, the value is of another type")]
pub struct ValueTypeMismatch {
    /// Which column.
    pub column: usize,
    /// What it holds.
    pub expected: Physical,
}

impl<'l> RowWriter<'l> {
    /// A writer for rows of this layout.
    #[must_use]
    pub fn new(layout: &'l Layout) -> Self {
        let fixed = layout.newest.variable_start(layout.len());
        let bytes = Vec::with_capacity(fixed + VARIABLE_ROOM);
        let mut writer = Self { layout, bytes, column: 0, variable: 0 };
        writer.clear();
        writer
    }

    /// Starts the next row.
    pub fn clear(&mut self) {
        let count = self.layout.len();
        self.variable = self.layout.newest.variable_start(count);
        self.bytes.clear();
        self.bytes.resize(self.variable, 0);
        self.bytes[..COUNT_SIZE].copy_from_slice(&(count as u16).to_le_bytes());
        self.column = 0;
    }

    /// Writes the next column. Of a dropped column that has no slot, NULL is written whatever is given.
    ///
    /// # Errors
    /// If the value is not of the column's physical type; the row is then unusable until [`Self::clear`].
    ///
    /// # Panics
    /// If all columns have been written, or the row passes 4 GiB.
    pub fn push(&mut self, value: ValueRef<'_>) -> Result<(), ValueTypeMismatch> {
        let column = self.column;
        let slot = self.layout.newest.columns[column];
        let at = COUNT_SIZE + self.layout.len().div_ceil(8) + slot.offset as usize;
        let value = if slot.width == 0 { ValueRef::Null } else { value };
        match (slot.physical, value) {
            (_, ValueRef::Null) => self.bytes[COUNT_SIZE + column / 8] |= 1 << (column % 8),
            (Physical::Text, ValueRef::Text(v)) => self.bytes.extend_from_slice(v.as_bytes()),
            (Physical::Bytes, ValueRef::Bytes(v)) => self.bytes.extend_from_slice(v),
            (Physical::Number, ValueRef::Number(v)) => self.bytes.extend_from_slice(v.as_bytes()),
            (Physical::List(_), ValueRef::List(v)) => self.bytes.extend_from_slice(&v.encoded()),
            (physical, value) => {
                let place = &mut self.bytes[at..at + slot.width as usize];
                if !put_fixed(physical, value, place) {
                    return Err(self.mismatch(slot));
                }
            }
        }
        if slot.is_variable() {
            let end = u32::try_from(self.bytes.len() - self.variable).expect("a row is smaller than 4 GiB");
            self.bytes[at..at + 4].copy_from_slice(&end.to_le_bytes());
        }
        self.column += 1;
        Ok(())
    }

    fn mismatch(&self, slot: Slot) -> ValueTypeMismatch {
        ValueTypeMismatch { column: self.column, expected: slot.physical }
    }

    /// The row, complete.
    ///
    /// # Panics
    /// If not all columns have been written.
    #[must_use]
    pub fn finish(&mut self) -> Row {
        assert_eq!(self.column, self.layout.len(), "every column is written before the row is finished");
        let row = Row::from_bytes(&self.bytes);
        self.clear();
        row
    }
}

#[cfg(test)]
mod tests;
