// SPDX-License-Identifier: Apache-2.0
//! LIKE and ILIKE of texts that may be long.
//!
//! DataFusion's kernels make a regular expression of most patterns. They are called for so many rows at a time as they have little to do
//! with, and for a row with more the operator's own way of statements on keys (`scalar/pattern.rs`), which looks.

use crate::allowance::Meter;
use crate::functions::{LITTLE_WORK, Letters, product_of_texts};
use crate::scalar::like as is_like;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBuilder, Datum, Scalar, StringViewArray};
use arrow::compute::cast;
use arrow::compute::kernels::comparison::{ilike, like};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use std::ops::Range;

/// What makes the next letter of a pattern stand for itself.
pub(super) const ESCAPE: Option<char> = Some('\\');

fn is_match(text: &str, pattern: &str, letters: Letters, meter: &Meter) -> Result<bool> {
    let look = || meter.look();
    Ok(match letters {
        Letters::Sensitive => is_like(text, pattern, ESCAPE, look)?,
        Letters::Ignored => is_like(&text.to_lowercase(), &pattern.to_lowercase(), ESCAPE, look)?,
    })
}

fn kernel(texts: &dyn Datum, patterns: &dyn Datum, letters: Letters) -> Result<BooleanArray> {
    Ok(match letters {
        Letters::Sensitive => like(texts, patterns)?,
        Letters::Ignored => ilike(texts, patterns)?,
    })
}

/// Which of the texts are like the pattern.
pub(super) fn matching(
    texts: &StringViewArray,
    pattern: &str,
    letters: Letters,
    meter: &Meter,
) -> Result<BooleanArray> {
    let constant = Scalar::new(StringViewArray::from_iter_values([pattern]));
    let mut answers = BooleanBuilder::with_capacity(texts.len());
    let mut start = 0;
    while start < texts.len() {
        meter.look()?;
        let rows = little(texts, start, pattern.len() as u64);
        if rows.is_empty() {
            let text = texts.is_valid(start).then(|| texts.value(start));
            answers.append_option(text.map(|text| is_match(text, pattern, letters, meter)).transpose()?);
            start += 1;
        } else {
            answers.append_array(&kernel(&texts.slice(rows.start, rows.len()), &constant, letters)?);
            start = rows.end;
        }
    }
    Ok(answers.finish())
}

/// Which of the texts are like the pattern of their row.
pub(super) fn matching_each(
    texts: &ColumnarValue,
    patterns: &ColumnarValue,
    (rows, letters): (usize, Letters),
    meter: &Meter,
) -> Result<BooleanArray> {
    if product_of_texts(&[texts.clone(), patterns.clone()], rows) <= LITTLE_WORK {
        let (texts, patterns) = (texts.to_array(rows)?, patterns.to_array(rows)?);
        return kernel(&texts, &cast(&patterns, texts.data_type())?, letters);
    }
    let value = |side: &ColumnarValue, row| if matches!(side, ColumnarValue::Scalar(_)) { 0 } else { row };
    let column =
        |side: &ColumnarValue| -> Result<ArrayRef> { Ok(cast(&side.to_array(1)?, &DataType::Utf8View)?) };
    let (text_of, pattern_of) = (column(texts)?, column(patterns)?);
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
