// SPDX-License-Identifier: Apache-2.0
//! Keys from expressions: what a condition `column = expression` looks up.

use super::access::{Access, Edge, KeyBound, NextColumn};
use crate::error::SqlError;
use crate::scalar::{Datum, Inputs, Scalar, is_integer, power_of_ten};
use crate::types::is_text;
use coeval_store::{ColumnType, Key, KeyRange, KeyWriter, Nullable, Physical, ValueRef};
use smallvec::SmallVec;
use std::ops::Bound;

/// A value for one component of a key.
#[derive(Clone, Debug)]
pub(super) struct KeyPart {
    pub(super) scalar: Scalar,
    pub(super) fitting: Fitting,
    /// The expression as written, for EXPLAIN.
    pub(super) text: String,
}

/// How a value takes the form of its column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fitting {
    /// It has it already.
    Same,
    /// An integer of another width.
    Integer(Physical),
    /// A decimal or integer of a lower scale: multiplied by this.
    Multiplied(i128),
    /// A decimal of a higher scale: equal only if divisible by this. Not for ranges.
    Divided(i128),
}

/// How values of one type can be looked up in a key column of another.
pub(super) fn fitting(value: ColumnType, column: ColumnType) -> Option<Fitting> {
    match (value, column) {
        (ColumnType::Json | ColumnType::Jsonb, _) | (_, ColumnType::Json | ColumnType::Jsonb) => None,
        (value, column) if is_integer(value) && is_integer(column) => {
            Some(if value == column { Fitting::Same } else { Fitting::Integer(column.physical()) })
        }
        (ColumnType::Numeric { scale: from, .. }, ColumnType::Numeric { scale: to, .. }) => {
            match i32::from(to) - i32::from(from) {
                0 => Some(Fitting::Same),
                up @ 1.. => Some(Fitting::Multiplied(power_of_ten(up)?)),
                down => Some(Fitting::Divided(power_of_ten(-down)?)),
            }
        }
        (value, ColumnType::Numeric { scale: to, .. }) if is_integer(value) => {
            Some(Fitting::Multiplied(power_of_ten(i32::from(to))?))
        }
        // Blanks at the end of such a column do not count then, but in its keys they do.
        (ColumnType::Char(_), ColumnType::Varchar(_)) => None,
        (value, column) if is_text(value) && is_text(column) => Some(Fitting::Same),
        (value, column) if value.is_bits() && column.is_bits() => Some(Fitting::Same),
        (value, column) => (value == column).then_some(Fitting::Same),
    }
}

/// A value in the form of its column, or where it would lie.
enum Fitted<'a> {
    Value(ValueRef<'a>),
    /// Above all values of the column.
    Above,
    /// Below all of them.
    Below,
    /// Between two of them.
    Between,
}

impl KeyPart {
    fn fit<'v>(&self, value: ValueRef<'v>) -> Fitted<'v> {
        match self.fitting {
            Fitting::Same => Fitted::Value(value),
            Fitting::Integer(physical) => {
                let wide = value.as_i64().expect("integers are fitted as integers");
                let beyond = if wide > 0 { Fitted::Above } else { Fitted::Below };
                match physical {
                    Physical::Int16 => {
                        i16::try_from(wide).map_or(beyond, |v| Fitted::Value(ValueRef::Int16(v)))
                    }
                    Physical::Int32 => {
                        i32::try_from(wide).map_or(beyond, |v| Fitted::Value(ValueRef::Int32(v)))
                    }
                    _ => Fitted::Value(ValueRef::Int64(wide)),
                }
            }
            Fitting::Multiplied(factor) => {
                let unscaled = unscaled(value);
                match unscaled.checked_mul(factor) {
                    Some(scaled) => Fitted::Value(ValueRef::Decimal(scaled)),
                    None if unscaled > 0 => Fitted::Above,
                    None => Fitted::Below,
                }
            }
            Fitting::Divided(divisor) => {
                let unscaled = unscaled(value);
                if unscaled % divisor == 0 {
                    Fitted::Value(ValueRef::Decimal(unscaled / divisor))
                } else {
                    Fitted::Between
                }
            }
        }
    }
}

fn unscaled(value: ValueRef<'_>) -> i128 {
    value.as_decimal().unwrap_or_else(|| i128::from(value.as_i64().expect("decimals are made of numbers")))
}

/// One lookup.
#[derive(Debug)]
pub(super) enum Probe {
    /// The row with this primary key.
    Get(Key),
    /// The keys of this range.
    Scan(KeyRange),
}

pub(super) type Probes = SmallVec<[Probe; 1]>;

#[inline]
fn push(writer: &mut KeyWriter, nullable: Nullable, value: ValueRef<'_>) {
    match nullable {
        Nullable::No => writer.push(value),
        Nullable::Yes => writer.push_nullable(value),
    }
}

impl Access {
    /// The beginning of the keys, as far as columns are equal to something; `None` if one of these is NULL or cannot be in its column.
    #[inline]
    pub(super) fn prefix(&self, inputs: Inputs<'_>) -> Result<Option<KeyWriter>, SqlError> {
        let nullable = self.nullable();
        let mut writer = KeyWriter::new();
        for part in &self.equals {
            let datum = part.scalar.eval(inputs)?;
            if datum.is_null() {
                return Ok(None);
            }
            match part.fit(datum.value()) {
                Fitted::Value(value) => push(&mut writer, nullable, value),
                Fitted::Above | Fitted::Below | Fitted::Between => return Ok(None),
            }
        }
        Ok(Some(writer))
    }

    /// What to look up for these inputs; nothing if a component is NULL or cannot be in the column.
    ///
    /// # Panics
    /// If a subquery gives the keys: the walk looks for them.
    #[inline]
    pub(super) fn probes(&self, inputs: Inputs<'_>) -> Result<Probes, SqlError> {
        let Some(writer) = self.prefix(inputs)? else { return Ok(Probes::new()) };
        if self.is_single() {
            return Ok(Probes::from_buf([Probe::Get(writer.finish())]));
        }
        match &self.next {
            NextColumn::Free if writer.as_slice().is_empty() => {
                Ok(Probes::from_buf([Probe::Scan(KeyRange::all())]))
            }
            NextColumn::Free => Ok(Probes::from_buf([Probe::Scan(KeyRange::prefix(writer.as_slice()))])),
            NextColumn::List(list) => self.list_probes(list, &writer, inputs),
            NextColumn::Range { lower, upper } => {
                range_probe(lower.as_ref(), upper.as_ref(), &writer, self.nullable(), inputs)
            }
            NextColumn::Found(_) => unreachable!("the walk looks for the keys that a subquery gives"),
        }
    }

    fn list_probes(
        &self,
        list: &[KeyPart],
        prefix: &KeyWriter,
        inputs: Inputs<'_>,
    ) -> Result<Probes, SqlError> {
        let mut keys: Vec<Key> = Vec::with_capacity(list.len());
        for part in list {
            keys.extend(self.member_key(part, prefix, inputs)?);
        }
        Ok(self.probes_of(keys))
    }

    /// The key of one of several values for the column behind the prefix; `None` if it is NULL or cannot be in the column.
    pub(super) fn member_key(
        &self,
        part: &KeyPart,
        prefix: &KeyWriter,
        inputs: Inputs<'_>,
    ) -> Result<Option<Key>, SqlError> {
        let datum = part.scalar.eval(inputs)?;
        if datum.is_null() {
            return Ok(None);
        }
        let Fitted::Value(value) = part.fit(datum.value()) else { return Ok(None) };
        let mut writer = prefix.clone();
        push(&mut writer, self.nullable(), value);
        Ok(Some(writer.finish()))
    }

    /// A lookup for each different one of these keys, in key order.
    pub(super) fn probes_of(&self, mut keys: Vec<Key>) -> Probes {
        keys.sort_unstable();
        keys.dedup();
        if self.direction == coeval_store::Direction::Backward {
            keys.reverse();
        }
        let single = self.nullable() == Nullable::No && self.equals.len() + 1 == self.table.primary_key.len();
        let probe = |key: Key| {
            if single { Probe::Get(key) } else { Probe::Scan(KeyRange::prefix(key.as_slice())) }
        };
        keys.into_iter().map(probe).collect()
    }
}

fn range_probe(
    lower: Option<&KeyBound>,
    upper: Option<&KeyBound>,
    prefix: &KeyWriter,
    nullable: Nullable,
    inputs: Inputs<'_>,
) -> Result<Probes, SqlError> {
    let whole = KeyRange::prefix(prefix.as_slice());
    let mut range = if prefix.as_slice().is_empty() { KeyRange::all() } else { whole };
    if nullable == Nullable::Yes {
        // NULLs come behind all values of the column; no range holds them.
        let mut nulls = prefix.clone();
        nulls.push_nullable(ValueRef::Null);
        range.upper = Bound::Excluded(nulls.finish());
    }
    if let Some(bound) = lower {
        let datum = bound.part.scalar.eval(inputs)?;
        match end_of(bound, &datum, prefix, nullable) {
            End::Key(key) if bound.edge == Edge::Included => range.lower = Bound::Included(key),
            End::Key(key) => match Key::after_prefix(key.as_slice()) {
                Some(after) => range.lower = Bound::Included(after),
                None => return Ok(Probes::new()),
            },
            End::Below => {}
            End::Above | End::Null => return Ok(Probes::new()),
        }
    }
    if let Some(bound) = upper {
        let datum = bound.part.scalar.eval(inputs)?;
        match end_of(bound, &datum, prefix, nullable) {
            End::Key(key) if bound.edge == Edge::Excluded => range.upper = Bound::Excluded(key),
            End::Key(key) => {
                if let Some(after) = Key::after_prefix(key.as_slice()) {
                    range.upper = Bound::Excluded(after);
                }
            }
            End::Above => {}
            End::Below | End::Null => return Ok(Probes::new()),
        }
    }
    Ok(if range.is_empty() { Probes::new() } else { Probes::from_buf([Probe::Scan(range)]) })
}

enum End {
    Key(Key),
    Above,
    Below,
    Null,
}

fn end_of(bound: &KeyBound, datum: &Datum<'_>, prefix: &KeyWriter, nullable: Nullable) -> End {
    if datum.is_null() {
        return End::Null;
    }
    match bound.part.fit(datum.value()) {
        Fitted::Value(value) => {
            let mut writer = prefix.clone();
            push(&mut writer, nullable, value);
            End::Key(writer.finish())
        }
        Fitted::Above => End::Above,
        Fitted::Below => End::Below,
        Fitted::Between => unreachable!("ranges are not fitted by division"),
    }
}
