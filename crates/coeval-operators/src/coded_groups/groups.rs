// SPDX-License-Identifier: Apache-2.0
//! The groups that were seen: the codes of their columns side by side in 64 bits, and a number for each.
//!
//! While these bits are few, a table with an entry for each of their values finds a group by one load; beyond, a dictionary does.

use super::dictionary::Dictionary;
use super::keys::{KeyCodes, Recoding, key_codes};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

/// Keys of at most so many bits have a table: 4 MiB.
const TABLE_BITS_MAX: u32 = 20;

/// How a group is found.
enum Numbers {
    /// By key: the group's number and 1, 0 if it was not seen. The keys of groups stand beside.
    Table { numbers: Vec<u32>, keys: Vec<u64> },
    /// By hash.
    Listed(Dictionary<u64>),
    /// By a single column's codes, which last: they are the numbers and 1.
    Codes,
    /// No more: the codes of each column, group by group.
    Ended(Vec<Vec<u32>>),
}

/// Groups are numbered from 0 in the order in which they are first seen.
pub(super) struct Groups {
    columns: Vec<Column>,
    numbers: Numbers,
    /// The keys of a batch, where they have more than 32 bits.
    packed: Vec<u64>,
}

struct Column {
    codes: Box<dyn KeyCodes>,
    /// Its codes have so many bits in a key.
    bits: u32,
    /// Of a batch.
    rows: Vec<u32>,
}

/// Codes of this column no longer fit into keys beside the others'.
#[derive(Debug)]
pub(super) struct TooMany;

impl Groups {
    /// `None` if a column is of a type that has no codes.
    pub(super) fn new(types: impl IntoIterator<Item = DataType>) -> Option<Self> {
        let column = |ty: DataType| Some(Column { codes: key_codes(&ty)?, bits: 0, rows: Vec::new() });
        let columns = types.into_iter().map(column).collect::<Option<Vec<_>>>()?;
        let numbers = match columns.as_slice() {
            [single] if single.codes.are_lasting() => Numbers::Codes,
            _ => Numbers::of(0, Vec::new()),
        };
        Some(Self { columns, numbers, packed: Vec::new() })
    }

    /// How many groups there are. Each has been the group of a row: accumulators rely on that.
    pub(super) fn len(&self) -> usize {
        match &self.numbers {
            Numbers::Table { keys, .. } => keys.len(),
            Numbers::Listed(listed) => listed.values().len(),
            Numbers::Codes => usize::try_from(self.columns[0].codes.count() - 1).expect("codes have 32 bits"),
            Numbers::Ended(codes) => codes.first().map_or(0, Vec::len),
        }
    }

    /// Whether a group is found by a load, and nothing is hashed for it.
    pub(super) fn are_found_by_loads(&self) -> bool {
        let has_table = matches!(self.numbers, Numbers::Table { .. });
        has_table && self.columns.iter().all(|column| column.codes.are_computed())
    }

    /// Puts the number of each row's group into `members`.
    ///
    /// # Errors
    ///
    /// When keys would have more than 64 bits. The groups are those from before, and their values can be asked for.
    pub(super) fn assign(&mut self, values: &[ArrayRef], members: &mut Vec<u32>) -> Result<(), TooMany> {
        if matches!(self.numbers, Numbers::Codes) {
            self.columns[0].codes.encode(&values[0], members);
            members.iter_mut().for_each(|number| *number -= 1);
            return Ok(());
        }
        let encoded = self.columns.iter_mut().zip(values);
        let recodings: Vec<Recoding> =
            encoded.map(|(column, values)| column.codes.encode(values, &mut column.rows)).collect();
        let needed = |column: &Column| bits_of(column.codes.count()).max(column.bits);
        let bits: Vec<u32> = self.columns.iter().map(needed).collect();
        let are_wider = self.columns.iter().zip(&bits).any(|(column, bits)| column.bits != *bits);
        if are_wider || recodings.iter().any(Option::is_some) {
            self.repack(&bits, &recodings);
        }
        if matches!(self.numbers, Numbers::Ended(_)) {
            return Err(TooMany);
        }
        self.pack();
        members.clear();
        match &mut self.numbers {
            Numbers::Table { numbers, keys } => {
                members.extend(self.columns[0].rows.iter().map(|&key| {
                    let number = &mut numbers[key as usize];
                    if *number == 0 {
                        keys.push(u64::from(key));
                        *number = u32::try_from(keys.len()).expect("at most one for each entry");
                    }
                    *number - 1
                }));
            }
            Numbers::Listed(listed) => {
                listed.codes(&self.packed, members);
                members.iter_mut().for_each(|number| *number -= 1);
            }
            Numbers::Codes | Numbers::Ended(_) => unreachable!("just looked at"),
        }
        Ok(())
    }

    /// Puts the codes of a batch side by side: where they have few bits into those of the first column.
    fn pack(&mut self) {
        let Some((first, others)) = self.columns.split_first_mut() else { return };
        let mut shift = first.bits;
        if matches!(self.numbers, Numbers::Table { .. }) {
            for column in others {
                let codes = first.rows.iter_mut().zip(&column.rows);
                codes.for_each(|(key, code)| *key |= code << shift);
                shift += column.bits;
            }
            return;
        }
        self.packed.clear();
        self.packed.extend(first.rows.iter().map(|code| u64::from(*code)));
        // A column of NULLs alone has no bits, and may come behind the last of them.
        for column in others.iter().filter(|column| column.bits > 0) {
            let codes = self.packed.iter_mut().zip(&column.rows);
            codes.for_each(|(key, code)| *key |= u64::from(*code) << shift);
            shift += column.bits;
        }
    }

    /// Makes the keys anew: codes have changed, or have more bits.
    fn repack(&mut self, bits: &[u32], recodings: &[Recoding]) {
        let mut codes = self.codes();
        for (codes, recoding) in codes.iter_mut().zip(recodings) {
            if let Some(new) = recoding {
                codes.iter_mut().for_each(|code| *code = new[*code as usize]);
            }
        }
        if bits.iter().sum::<u32>() > u64::BITS {
            self.numbers = Numbers::Ended(codes);
            return;
        }
        let mut keys = vec![0; self.len()];
        let mut shift = 0;
        for ((column, codes), bits) in self.columns.iter_mut().zip(&codes).zip(bits) {
            let placed = |code: u32| u64::from(code).checked_shl(shift).unwrap_or(0);
            keys.iter_mut().zip(codes).for_each(|(key, code)| *key |= placed(*code));
            column.bits = *bits;
            shift += bits;
        }
        self.numbers = Numbers::of(shift, keys);
    }

    /// The codes of each column, group by group.
    fn codes(&self) -> Vec<Vec<u32>> {
        let keys = match &self.numbers {
            Numbers::Table { keys, .. } => keys.as_slice(),
            Numbers::Listed(listed) => listed.values(),
            Numbers::Codes => return vec![(1..).take(self.len()).collect()],
            Numbers::Ended(codes) => return codes.clone(),
        };
        let mut shift = 0;
        let codes = |column: &Column| {
            let mask = u32::try_from((1_u64 << column.bits) - 1).expect("codes have 32 bits at most");
            #[expect(clippy::cast_possible_truncation, reason = "the bits above are other columns'")]
            let code = |key: &u64| key.checked_shr(shift).unwrap_or(0) as u32 & mask;
            let codes = keys.iter().map(code).collect();
            shift += column.bits;
            codes
        };
        self.columns.iter().map(codes).collect()
    }

    /// The values of the groups' columns, number by number.
    pub(super) fn values(&self) -> Vec<ArrayRef> {
        self.columns.iter().zip(self.codes()).map(|(column, codes)| column.codes.decode(&codes)).collect()
    }

    pub(super) fn bytes(&self) -> usize {
        let numbers = match &self.numbers {
            Numbers::Table { numbers, keys } => {
                numbers.capacity() * size_of::<u32>() + keys.capacity() * size_of::<u64>()
            }
            Numbers::Listed(listed) => listed.bytes(),
            Numbers::Codes => 0,
            Numbers::Ended(codes) => codes.iter().map(Vec::len).sum::<usize>() * size_of::<u32>(),
        };
        let columns = self
            .columns
            .iter()
            .map(|column| column.codes.bytes() + column.rows.capacity() * size_of::<u32>());
        numbers + self.packed.capacity() * size_of::<u64>() + columns.sum::<usize>()
    }
}

impl Numbers {
    fn of(bits: u32, keys: Vec<u64>) -> Self {
        if bits > TABLE_BITS_MAX {
            let mut listed = Dictionary::new();
            for key in keys {
                listed.code(key);
            }
            return Self::Listed(listed);
        }
        let mut numbers = vec![0; 1 << bits];
        for (number, key) in (1..).zip(&keys) {
            numbers[usize::try_from(*key).expect("within the table")] = number;
        }
        Self::Table { numbers, keys }
    }
}

/// How many bits codes below this have.
fn bits_of(count: u64) -> u32 {
    u64::BITS - (count - 1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use std::sync::Arc;

    /// Values of which each is far from the others and has a code of 16 bits.
    const ROWS: i64 = 40_000;

    /// To break it: place the codes of NULLs behind the last bit.
    #[test]
    fn a_column_of_nulls_stands_behind_64_bits_of_others() {
        let far = |step: i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row * step)))
        };
        let mut columns: Vec<ArrayRef> = [1_000, 1_001, 1_002, 1_003].map(far).to_vec();
        columns.push(Arc::new(Int64Array::new_null(ROWS as usize)));
        let mut groups = Groups::new(vec![DataType::Int64; columns.len()]).unwrap();
        let mut members = Vec::new();
        // The second time keys are made of codes that are known.
        for _ in 0..2 {
            groups.assign(&columns, &mut members).unwrap();
            assert!(members.iter().copied().eq(0..ROWS as u32));
        }
        let values = groups.values();
        assert_eq!(values[3].as_primitive::<Int64Type>(), columns[3].as_primitive::<Int64Type>());
        assert_eq!(values[4].null_count(), ROWS as usize);
    }
}
