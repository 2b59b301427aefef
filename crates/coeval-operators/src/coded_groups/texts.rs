// SPDX-License-Identifier: Apache-2.0
//! Codes of texts. A short text is its own key: the sixteen bytes that Arrow keeps of it in place.
//!
//! Texts may come as numbers of the texts of a dictionary, which many batches have in common: then each of them is looked up once for all of
//! these batches, when the first row has it. One that no row has gets no code: it is no group.

use super::coded_rows::{CodedTexts, ascend_by_one, text_of_each_row};
use super::dictionary::Dictionary;
use super::keys::{KeyCodes, Recoding};
use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, StringViewArray};
use arrow::datatypes::{DataType, UInt16Type};
use datafusion::common::hash_utils::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

/// Texts of at most so many bytes are within their view.
const INLINE_MAX: u32 = 12;

/// NULL's key: no text is so long.
const NULL: u128 = u128::MAX;

/// In a dictionary of more texts than this, which has at most twice as many rows, few of them are shared.
const SHARED_MAX: usize = 1 << 15;

/// The codes of one column of texts.
pub(super) struct Texts {
    /// Keys are views: of a long text one that has its length and, in place of where it lies, its number among the long texts.
    codes: Dictionary<u128>,
    long: HashMap<Arc<[u8]>, u32, RandomState>,
    /// The long texts by number.
    texts: Vec<Arc<[u8]>>,
    /// Bytes of long texts.
    bytes: usize,
    /// The dictionary of the last rows that came with one.
    shared: Option<Shared>,
}

/// The texts of a dictionary, and the code of each; 0 if no row has come that has it.
struct Shared {
    texts: ArrayRef,
    codes: Vec<u32>,
}

impl Texts {
    pub(super) fn new() -> Self {
        Self { codes: Dictionary::new(), long: HashMap::default(), texts: Vec::new(), bytes: 0, shared: None }
    }

    fn encode_each(&mut self, texts: &StringViewArray, codes: &mut Vec<u32>) {
        codes.clear();
        if texts.null_count() == 0 && texts.data_buffers().is_empty() {
            self.codes.codes(texts.views(), codes);
            return;
        }
        codes.extend((0..texts.len()).map(|row| self.code(texts, row)));
    }

    fn code(&mut self, texts: &StringViewArray, row: usize) -> u32 {
        let view = texts.views()[row];
        if texts.is_null(row) {
            self.codes.code(NULL)
        } else if length(view) <= INLINE_MAX {
            self.codes.code(view)
        } else {
            self.long_code(texts.value(row).as_bytes())
        }
    }

    fn encode_shared(&mut self, coded: &CodedTexts, codes: &mut Vec<u32>) {
        let numbers = coded.keys();
        if coded.values().len() > SHARED_MAX || ascend_by_one(numbers) {
            let texts = text_of_each_row(coded).expect("each number is of a text");
            return self.encode_each(texts.as_string_view(), codes);
        }
        let same = self.shared.take().filter(|shared| Arc::ptr_eq(&shared.texts, coded.values()));
        let mut shared = same.unwrap_or_else(|| Shared {
            texts: Arc::clone(coded.values()),
            codes: vec![0; coded.values().len()],
        });
        codes.clear();
        match numbers.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => codes.extend(numbers.values().iter().map(|number| shared.codes[usize::from(*number)])),
            Some(nulls) => {
                let known = |(is_there, number): (bool, &u16)| {
                    if is_there { shared.codes[usize::from(*number)] } else { 0 }
                };
                codes.extend(nulls.iter().zip(numbers.values()).map(known));
            }
        }
        if codes.contains(&0) {
            let texts = shared.texts.as_string_view();
            let mut null = 0;
            for (row, code) in codes.iter_mut().enumerate().filter(|(_, code)| **code == 0) {
                let known = match numbers.is_valid(row) {
                    true => &mut shared.codes[usize::from(numbers.value(row))],
                    false => &mut null,
                };
                if *known == 0 {
                    *known = match numbers.is_valid(row) {
                        true => self.code(texts, usize::from(numbers.value(row))),
                        false => self.codes.code(NULL),
                    };
                }
                *code = *known;
            }
        }
        self.shared = Some(shared);
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
        match values.as_dictionary_opt::<UInt16Type>() {
            Some(coded) => self.encode_shared(coded, codes),
            None => self.encode_each(values.as_string_view(), codes),
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
        let of_shared = self.shared.as_ref().map_or(0, |shared| shared.codes.capacity() * size_of::<u32>());
        self.codes.bytes() + self.bytes + self.texts.len() * OF_LONG + of_shared
    }
}
