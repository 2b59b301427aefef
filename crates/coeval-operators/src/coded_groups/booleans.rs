// SPDX-License-Identifier: Apache-2.0
//! Codes of truth values: 0 for NULL, 1 for false, 2 for true.

use super::keys::{KeyCodes, Recoding};
use arrow::array::{ArrayRef, AsArray, BooleanArray};
use std::sync::Arc;

/// The codes of one column of truth values.
pub(super) struct Booleans;

impl KeyCodes for Booleans {
    fn encode(&mut self, values: &ArrayRef, codes: &mut Vec<u32>) -> Recoding {
        codes.clear();
        codes.extend(values.as_boolean().iter().map(|value| value.map_or(0, |value| 1 + u32::from(value))));
        None
    }

    fn are_computed(&self) -> bool {
        true
    }

    fn count(&self) -> u64 {
        3
    }

    fn decode(&self, codes: &[u32]) -> ArrayRef {
        let values: BooleanArray = codes.iter().map(|&code| (code > 0).then_some(code == 2)).collect();
        Arc::new(values)
    }

    fn bytes(&self) -> usize {
        0
    }
}
