// SPDX-License-Identifier: Apache-2.0
//! Codes of decimals, by a dictionary.

use super::dictionary::Dictionary;
use super::keys::{KeyCodes, Recoding};
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type};
use std::sync::Arc;

/// NULL's key: no decimal has more than 38 digits.
const NULL: i128 = i128::MIN;

/// The codes of one column of decimals.
pub(super) struct Decimals {
    codes: Dictionary<i128>,
    ty: DataType,
}

impl Decimals {
    pub(super) fn new(ty: DataType) -> Self {
        Self { codes: Dictionary::new(), ty }
    }
}

impl KeyCodes for Decimals {
    fn encode(&mut self, values: &ArrayRef, codes: &mut Vec<u32>) -> Recoding {
        let values = values.as_primitive::<Decimal128Type>();
        if values.null_count() == 0 {
            self.codes.codes(values.values(), codes);
            return None;
        }
        codes.clear();
        codes.extend(values.iter().map(|value| self.codes.code(value.unwrap_or(NULL))));
        None
    }

    fn are_lasting(&self) -> bool {
        true
    }

    fn count(&self) -> u64 {
        self.codes.values().len() as u64 + 1
    }

    fn decode(&self, codes: &[u32]) -> ArrayRef {
        let values = codes.iter().map(|&code| {
            let value = self.codes.values()[code as usize - 1];
            (value != NULL).then_some(value)
        });
        let values: PrimitiveArray<Decimal128Type> = values.collect();
        Arc::new(values.with_data_type(self.ty.clone()))
    }

    fn bytes(&self) -> usize {
        self.codes.bytes()
    }
}
