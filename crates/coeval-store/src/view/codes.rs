// SPDX-License-Identifier: Apache-2.0
//! Texts of a piece of a scan as codes, `Dictionary(UInt16, Utf8View)`: those of a chunk, which may be a dictionary in its file, and those
//! of new rows.
//!
//! | what there is | texts | codes |
//! |---|---|---|
//! | a chunk that is a dictionary | its entries | as in the file |
//! | the same, with new values in its rows | its entries, then each text that is none of them | as in the file, or of the new value |
//! | one of these, and new rows | its texts, then a text of each new row | as it has them, or of the new row |
//! | another chunk, or new rows | one of each row | 0, 1, 2 ... |
//! | the same, if it has more rows than there are codes | one of each row of a batch | 0, 1, 2 ... |
//! | rows of both that have no texts in common, put together | one of each row of a batch | 0, 1, 2 ... |

use super::merge::Merge;
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

/// Gives a column of texts codes, as a chunk has it and as its new rows have it, of which either may not be there: both of the same texts
/// where codes number all of them, and each of its own otherwise. What has more rows than there are codes stays as it is.
///
/// # Errors
/// If the new rows have no texts.
pub(super) fn give_codes(chunk: Option<&mut ArrayRef>, new: Option<&mut ArrayRef>) -> Result<(), ArrowError> {
    let mut sides = [chunk, new];
    if let [Some(chunk), Some(new)] = &mut sides
        && let Some((of_chunk, of_new)) = of_the_same_texts(chunk, new)?
    {
        (**chunk, **new) = (of_chunk, of_new);
    }
    for column in sides.into_iter().flatten() {
        if *column.data_type() == DataType::Utf8View && column.len() <= CODES {
            *column = each_its_own(column)?;
        }
    }
    Ok(())
}

/// A chunk's column and that of its new rows, which have codes of the same texts; `None` if the chunk's has no codes, or there are not enough
/// of them.
fn of_the_same_texts(chunk: &ArrayRef, new: &ArrayRef) -> Result<Option<(ArrayRef, ArrayRef)>, ArrowError> {
    let Some(coded) = chunk.as_dictionary_opt::<UInt16Type>() else { return Ok(None) };
    let known = coded.values().len();
    if known + new.len() > CODES {
        return Ok(None);
    }
    let texts = match new.is_empty() {
        true => Arc::clone(coded.values()),
        false => concat(&[coded.values().as_ref(), new.as_ref()])?,
    };
    let codes: Vec<u16> = (0..=u16::MAX).skip(known).take(new.len()).collect();
    let codes: ArrayRef = Arc::new(UInt16Array::new(codes.into(), new.nulls().cloned()));
    Ok(Some((Arc::new(coded.with_values(Arc::clone(&texts))), with_texts(&codes, &texts)?)))
}

/// A column of rows of both sides put together, out of columns of which each has codes or texts.
///
/// # Errors
/// If there are more rows than codes, and no texts in common.
pub(super) fn merged(merge: &Merge, old: &ArrayRef, new: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match (old.as_dictionary_opt::<UInt16Type>(), new.as_dictionary_opt::<UInt16Type>()) {
        (Some(old), Some(new)) if Arc::ptr_eq(old.values(), new.values()) => {
            let keys = |coded: &UInt16DictionaryArray| -> ArrayRef { Arc::new(coded.keys().clone()) };
            with_texts(&merge.column(&keys(old), &keys(new))?, old.values())
        }
        _ => each_its_own(&merge.column(&texts_of(old)?, &texts_of(new)?)?),
    }
}
