// SPDX-License-Identifier: Apache-2.0
//! Texts of a piece of a scan as codes, `Dictionary(UInt16, Utf8View)`: those of a chunk, which may be a dictionary in its file, and those
//! of new rows.
//!
//! | what there is | texts | codes |
//! |---|---|---|
//! | a chunk that is a dictionary | its entries | as in the file |
//! | the same, and new rows | its entries, then a text of each new row | as in the file, or of the new row |
//! | another chunk, or new rows alone | one of each row | 0, 1, 2 ... |
//! | anything else that is merged, and more texts than codes | one of each row of a batch | 0, 1, 2 ... |

use arrow::array::{Array, ArrayRef, AsArray, UInt16Array, UInt16DictionaryArray};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, UInt16Type};
use arrow::error::ArrowError;
use std::sync::Arc;

/// How many codes there are.
pub(super) const CODES: usize = 1 << 16;

/// The type of texts as codes, as scans [with codes](super::BatchScan::with_codes) give them.
#[must_use]
pub fn coded_text_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8View))
}

/// Texts, at most so many as there are codes, with a code for each row.
///
/// # Errors
/// If there are more.
pub(super) fn each_its_own(texts: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let codes = UInt16Array::from_iter_values((0..=u16::MAX).take(texts.len()));
    if codes.len() < texts.len() {
        return Err(ArrowError::DictionaryKeyOverflowError);
    }
    with_texts(&(Arc::new(codes) as ArrayRef), texts)
}

/// The texts that these are codes of, as codes.
///
/// # Errors
/// If there is a code without a text.
pub(super) fn with_texts(codes: &ArrayRef, texts: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let codes = codes.as_primitive::<UInt16Type>().clone();
    Ok(Arc::new(UInt16DictionaryArray::try_new(codes, Arc::clone(texts))?))
}

/// The text of each row, whether they are codes or texts.
///
/// # Errors
/// If there is a code without a text.
pub(super) fn texts_of(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.as_dictionary_opt::<UInt16Type>() {
        Some(coded) => take(coded.values(), coded.keys(), None),
        None => Ok(Arc::clone(column)),
    }
}

/// Codes of a chunk and of new rows, which are of the same texts.
pub(super) struct SharedTexts {
    pub(super) chunk: ArrayRef,
    pub(super) new: ArrayRef,
    pub(super) texts: ArrayRef,
}

impl SharedTexts {
    /// Those of these columns; `None` if the chunk's has no codes, or there are not enough of them.
    ///
    /// # Errors
    /// If the new rows have no texts.
    pub(super) fn of(chunk: &ArrayRef, new: &ArrayRef) -> Result<Option<Self>, ArrowError> {
        let Some(coded) = chunk.as_dictionary_opt::<UInt16Type>() else { return Ok(None) };
        let known = coded.values().len();
        if known + new.len() > CODES {
            return Ok(None);
        }
        let codes: Vec<u16> = (0..=u16::MAX).skip(known).take(new.len()).collect();
        Ok(Some(Self {
            chunk: Arc::new(coded.keys().clone()),
            new: Arc::new(UInt16Array::new(codes.into(), new.nulls().cloned())),
            texts: concat(&[coded.values().as_ref(), new.as_ref()])?,
        }))
    }
}
