// SPDX-License-Identifier: Apache-2.0
//! LIKE and ILIKE of texts that may be long.
//!
//! DataFusion's kernel makes a regular expression of most patterns. It is called for so many rows at a time as it has little to do
//! with, and for a row with more the operator's own way of statements on keys (`scalar/pattern.rs`), which looks. That is also called
//! for a pattern that ends with an escape, which to the kernel is a letter. Either way ILIKE compares the letters that lower() makes,
//! one of each.

use crate::allowance::Meter;
use crate::functions::{LITTLE_WORK, product_of_texts};
use crate::scalar::{LetterCase, LikeStyle, dangles, like as is_like, lower_letter};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBuilder, Scalar, StringViewArray, StringViewBuilder,
};
use arrow::compute::cast;
use arrow::compute::kernels::comparison::like;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use std::ops::Range;

/// What makes the next letter of a pattern stand for itself.
pub(super) const ESCAPE: Option<char> = Some('\\');

/// Whether a pattern ends with an escape that takes no letter.
pub(super) fn ends_with_escape(pattern: &str) -> bool {
    ESCAPE.is_some_and(|escape| dangles(pattern, escape))
}

fn is_match(text: &str, pattern: &str, letters: LetterCase, meter: &Meter) -> Result<bool> {
    Ok(is_like(text, pattern, LikeStyle { escape: ESCAPE, letters }, || meter.look())?)
}

/// The texts as the kernel is to compare them. That for ILIKE is not asked: to it `ſ` and `s` are one, as they are in a regular
/// expression, and to PostgreSQL, which compares what lower() makes of both, they are two.
fn compared(texts: &StringViewArray, letters: LetterCase) -> StringViewArray {
    match letters {
        LetterCase::Sensitive => texts.clone(),
        LetterCase::Ignored => lowered(texts),
    }
}

fn lowered(texts: &StringViewArray) -> StringViewArray {
    let mut all = StringViewBuilder::with_capacity(texts.len());
    let mut lower = String::new();
    for text in texts {
        let Some(text) = text else {
            all.append_null();
            continue;
        };
        lower.clear();
        if text.is_ascii() {
            lower.push_str(text);
            lower.make_ascii_lowercase();
        } else {
            lower.extend(text.chars().map(lower_letter));
        }
        all.append_value(&lower);
    }
    all.finish()
}

/// Which of the texts are like the pattern.
pub(super) fn matching(
    texts: &StringViewArray,
    pattern: &str,
    letters: LetterCase,
    meter: &Meter,
) -> Result<BooleanArray> {
    let constant = Scalar::new(compared(&StringViewArray::from_iter_values([pattern]), letters));
    let is_for_kernel = !ends_with_escape(pattern);
    let mut answers = BooleanBuilder::with_capacity(texts.len());
    let mut start = 0;
    while start < texts.len() {
        meter.look()?;
        let rows = if is_for_kernel { little(texts, start, (pattern.len() as u64).max(1)) } else { 0..0 };
        if rows.is_empty() {
            let text = texts.is_valid(start).then(|| texts.value(start));
            answers.append_option(text.map(|text| is_match(text, pattern, letters, meter)).transpose()?);
            start += 1;
        } else {
            let texts = compared(&texts.slice(rows.start, rows.len()), letters);
            answers.append_array(&like(&texts, &constant)?);
            start = rows.end;
        }
    }
    Ok(answers.finish())
}

/// Which of the texts are like the pattern of their row.
pub(super) fn matching_each(
    texts: &ColumnarValue,
    patterns: &ColumnarValue,
    (rows, letters): (usize, LetterCase),
    meter: &Meter,
) -> Result<BooleanArray> {
    let column = |side: &ColumnarValue, rows| -> Result<ArrayRef> {
        Ok(cast(&side.to_array(rows)?, &DataType::Utf8View)?)
    };
    if product_of_texts(&[texts.clone(), patterns.clone()], rows) <= LITTLE_WORK {
        let (texts, patterns) = (column(texts, rows)?, column(patterns, rows)?);
        let [texts, patterns] = [texts, patterns].map(|side| compared(side.as_string_view(), letters));
        if !patterns.iter().flatten().any(ends_with_escape) {
            return Ok(like(&texts, &patterns)?);
        }
    }
    let value = |side: &ColumnarValue, row| if matches!(side, ColumnarValue::Scalar(_)) { 0 } else { row };
    let (text_of, pattern_of) = (column(texts, 1)?, column(patterns, 1)?);
    let (text_of, pattern_of) = (text_of.as_string_view(), pattern_of.as_string_view());
    let answers = (0..rows).map(|row| {
        let places = (value(texts, row), value(patterns, row));
        if text_of.is_null(places.0) || pattern_of.is_null(places.1) {
            return Ok(None);
        }
        is_match(text_of.value(places.0), pattern_of.value(places.1), letters, meter).map(Some)
    });
    answers.collect()
}

/// The rows from one on that are little work together; none if a single one is more.
fn little(texts: &StringViewArray, start: usize, factor: u64) -> Range<usize> {
    let mut steps = 0;
    // The low half of a view is the length.
    let is_little = |view: &&u128| {
        steps += u64::from(**view as u32) * factor;
        steps <= LITTLE_WORK
    };
    start..start + texts.views()[start..].iter().take_while(is_little).count()
}
