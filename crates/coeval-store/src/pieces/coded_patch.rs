// SPDX-License-Identifier: Apache-2.0
//! New texts of a column that a chunk has as numbers of a dictionary's texts.
//!
//! A new text that the chunk knows has the number that it has there; the others stand behind the chunk's texts, each once. So whoever
//! takes note of something for each text finds as few of them as there are, and the chunk's own array of them if none is new. Of few new
//! texts it is not asked whether they are among many of the chunk: a text may stand there twice.

use arrow::array::{Array, ArrayRef, AsArray, UInt16Array, UInt32Array};
use arrow::compute::{concat, take};
use arrow::error::ArrowError;
use hashbrown::HashMap;
use std::sync::Arc;

/// The texts of a chunk are looked through if there are at most so many for each new one.
const KNOWN_MAX: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct CodedPatch {
    /// The chunk's texts.
    of: ArrayRef,
    /// These and others, and the number of each new text; `None` if they have no numbers for all.
    texts_and_codes: Option<(ArrayRef, ArrayRef)>,
}

impl CodedPatch {
    /// Numbers for new texts, and NULLs, of a column of which the chunk has these texts.
    ///
    /// # Errors
    /// If the texts are of another type.
    pub(super) fn new(of: &ArrayRef, new: &ArrayRef) -> Result<Self, ArrowError> {
        let known = of.as_string_view();
        let texts = new.as_string_view();
        let is_worth_it = known.len() <= texts.len() * KNOWN_MAX;
        let numbered = (0..=u16::MAX).zip(known).filter(|_| is_worth_it);
        let mut numbers: HashMap<&str, u16> =
            numbered.filter_map(|(number, text)| Some((text?, number))).collect();
        // Rows of `new` whose texts the chunk does not have.
        let mut unknown: Vec<u32> = Vec::new();
        let mut codes = Vec::with_capacity(texts.len());
        for (row, text) in (0..).zip(texts) {
            let code = match text {
                None => 0,
                Some(text) => match numbers.get(text) {
                    Some(number) => *number,
                    None => {
                        let Ok(number) = u16::try_from(known.len() + unknown.len()) else {
                            return Ok(Self { of: Arc::clone(of), texts_and_codes: None });
                        };
                        unknown.push(row);
                        numbers.insert(text, number);
                        number
                    }
                },
            };
            codes.push(code);
        }
        let all = if unknown.is_empty() {
            Arc::clone(of)
        } else {
            let behind = take(new, &UInt32Array::from(unknown), None)?;
            concat(&[of.as_ref(), behind.as_ref()])?
        };
        let codes: ArrayRef = Arc::new(UInt16Array::new(codes.into(), new.nulls().cloned()));
        Ok(Self { of: Arc::clone(of), texts_and_codes: Some((all, codes)) })
    }

    /// Whether it was made for this array of a chunk's texts.
    pub(super) fn is_of(&self, texts: &ArrayRef) -> bool {
        Arc::ptr_eq(&self.of, texts)
    }

    /// The chunk's texts with the others behind them, and the number of each new text; `None` if there are more texts than numbers.
    pub(super) fn texts_and_codes(&self) -> Option<&(ArrayRef, ArrayRef)> {
        self.texts_and_codes.as_ref()
    }
}
