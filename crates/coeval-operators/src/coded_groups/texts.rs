// SPDX-License-Identifier: Apache-2.0
//! Codes of texts. A short text is its own key: the sixteen bytes that Arrow keeps of it in place.

use super::dictionary::Dictionary;
use super::keys::{KeyCodes, Recoding};
use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, StringViewArray};
use arrow::datatypes::DataType;
use datafusion::common::hash_utils::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

/// Texts of at most so many bytes are within their view.
const INLINE_MAX: u32 = 12;

/// NULL's key: no text is so long.
const NULL: u128 = u128::MAX;

/// The codes of one column of texts.
pub(super) struct Texts {
    /// Keys are views: of a long text one that has its length and, in place of where it lies, its number among the long texts.
    codes: Dictionary<u128>,
    long: HashMap<Arc<[u8]>, u32, RandomState>,
    /// The long texts by number.
    texts: Vec<Arc<[u8]>>,
    /// Bytes of long texts.
    bytes: usize,
}

impl Texts {
    pub(super) fn new() -> Self {
        Self { codes: Dictionary::new(), long: HashMap::default(), texts: Vec::new(), bytes: 0 }
    }

    fn long_code(&mut self, text: &[u8]) -> u32 {
        let number = match self.long.get(text) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.texts.len()).expect("callers stop long before so many texts");
                let text: Arc<[u8]> = Arc::from(text);
                self.bytes += text.len();
                self.texts.push(Arc::clone(&text));
                self.long.insert(text, number);
                number
            }
        };
        // The length stands in the lowest bits, as in a view, and is no short text's.
        self.codes.code(text.len() as u128 | u128::from(number) << 64)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lowest four bytes of a view are the length")]
fn length(view: u128) -> u32 {
    view as u32
}

impl KeyCodes for Texts {
    fn encode(&mut self, values: &ArrayRef, codes: &mut Vec<u32>) -> Recoding {
        let texts: &StringViewArray = values.as_string_view();
        codes.clear();
        if texts.null_count() == 0 && texts.data_buffers().is_empty() {
            self.codes.codes(texts.views(), codes);
            return None;
        }
        for (row, view) in texts.views().iter().enumerate() {
            codes.push(if texts.is_null(row) {
                self.codes.code(NULL)
            } else if length(*view) <= INLINE_MAX {
                self.codes.code(*view)
            } else {
                self.long_code(texts.value(row).as_bytes())
            });
        }
        None
    }

    fn are_lasting(&self) -> bool {
        true
    }

    fn count(&self) -> u64 {
        self.codes.values().len() as u64 + 1
    }

    fn decode(&self, codes: &[u32]) -> ArrayRef {
        let mut texts = BinaryViewBuilder::with_capacity(codes.len());
        for &code in codes {
            let key = self.codes.values()[code as usize - 1];
            if key == NULL {
                texts.append_null();
            } else if length(key) <= INLINE_MAX {
                texts.append_value(&key.to_le_bytes()[4..4 + length(key) as usize]);
            } else {
                texts.append_value(&self.texts[usize::try_from(key >> 64).expect("a number of 32 bits")]);
            }
        }
        let texts = arrow::compute::cast(&texts.finish(), &DataType::Utf8View);
        texts.expect("they were texts before")
    }

    fn bytes(&self) -> usize {
        // A long text is pointed to twice, and its entry in the map has its number, too.
        const OF_LONG: usize = 2 * size_of::<Arc<[u8]>>() + 2 * size_of::<u64>() + 16;
        self.codes.bytes() + self.bytes + self.texts.len() * OF_LONG
    }
}
