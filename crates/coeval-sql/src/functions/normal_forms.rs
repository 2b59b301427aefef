// SPDX-License-Identifier: Apache-2.0
//! Normal forms of Unicode: `normalize`, `IS NORMALIZED`.

use super::call::{Call, invalid, text};
use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::allowance::{VALUE_BYTES_MAX, too_large};
use crate::error::SqlError;
use coeval_store::{ColumnType, Value};
use unicode_normalization::UnicodeNormalization;

/// The function behind `IS NORMALIZED`.
pub(crate) const IS_NORMALIZED: &str = "coeval_is_normalized";

const TEXT: Takes = Takes::Type(ColumnType::Text);

pub(super) const ENTRIES: &[Entry] = &[
    strict(
        "normalize",
        &[Form::new(&[TEXT, TEXT], ColumnType::Text, |call| Ok(text(normalized(call)?))).optional(1)],
    ),
    strict(
        IS_NORMALIZED,
        &[Form::new(&[TEXT, TEXT], ColumnType::Boolean, |call| {
            Ok(Value::Boolean(normalized(call)? == call.text(0)))
        })
        .optional(1)],
    ),
];

/// After so many letters the request is looked at.
const LETTERS_PIECE: usize = 1 << 16;

/// The first argument in the form that the second one names, or else in NFC.
///
/// # Errors
/// `22023` for a form that there is not, `54000` for a text that becomes too long.
fn normalized(call: &Call<'_>) -> Result<String, SqlError> {
    let given = call.text(0);
    let form = if call.has(1) { call.text(1).to_ascii_uppercase() } else { "NFC".to_owned() };
    let letters: Box<dyn Iterator<Item = char> + '_> = match form.as_str() {
        "NFC" => Box::new(given.nfc()),
        "NFD" => Box::new(given.nfd()),
        "NFKC" => Box::new(given.nfkc()),
        "NFKD" => Box::new(given.nfkd()),
        _ => return Err(invalid(format!("invalid normalization form: {}", call.text(1)))),
    };
    let mut out = String::with_capacity(given.len());
    for (count, letter) in letters.enumerate() {
        if count.is_multiple_of(LETTERS_PIECE) {
            call.meter.look()?;
            if out.len() > VALUE_BYTES_MAX {
                return Err(too_large());
            }
        }
        out.push(letter);
    }
    Ok(out)
}
