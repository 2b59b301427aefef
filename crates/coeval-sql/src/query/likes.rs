// SPDX-License-Identifier: Apache-2.0
//! LIKE and ILIKE of long texts, or with long patterns.
//!
//! DataFusion's make a regular expression of most patterns, and look at nothing while they search. So a function takes the operator's
//! place where plans are complete. It calls the same kernels for so many rows at a time as they have little to do with, and for a row
//! with more the operator's own way of statements on keys (`scalar/pattern.rs`), which looks.

use crate::allowance::Meter;
use crate::functions::{LITTLE_WORK, Letters, product_of_texts};
use crate::scalar::like as is_like;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Datum, Scalar, StringViewArray};
use arrow::compute::kernels::comparison::{ilike, like};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{Like, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// What makes the next letter of a pattern stand for itself: patterns with another escape are written anew.
const ESCAPE: Option<char> = Some('\\');

/// The expression with the function where it had the operator.
pub(super) fn heeding_likes(part: Expr) -> Result<Transformed<Expr>> {
    let Expr::Like(Like { negated, expr, pattern, escape_char: None | ESCAPE, case_insensitive }) = part
    else {
        return Ok(Transformed::no(part));
    };
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
        [Letters::Sensitive, Letters::Ignored].map(|letters| Arc::new(ScalarUDF::from(Matches::new(letters))))
    });
    let function = Arc::clone(&FUNCTIONS[usize::from(case_insensitive)]);
    let call = Expr::ScalarFunction(ScalarFunction { func: function, args: vec![*expr, *pattern] });
    Ok(Transformed::yes(if negated { Expr::Not(Box::new(call)) } else { call }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Matches {
    letters: Letters,
    signature: Signature,
}

impl Matches {
    fn new(letters: Letters) -> Self {
        Self { letters, signature: Signature::any(2, Volatility::Immutable) }
    }

    fn one(&self, text: &str, pattern: &str, meter: &Meter) -> Result<bool> {
        let look = || meter.look();
        Ok(match self.letters {
            Letters::Sensitive => is_like(text, pattern, ESCAPE, look)?,
            Letters::Ignored => is_like(&text.to_lowercase(), &pattern.to_lowercase(), ESCAPE, look)?,
        })
    }

    fn kernel(&self, texts: &dyn Datum, patterns: &dyn Datum) -> Result<BooleanArray> {
        Ok(match self.letters {
            Letters::Sensitive => like(texts, patterns)?,
            Letters::Ignored => ilike(texts, patterns)?,
        })
    }

    /// Which of the texts are like the pattern.
    fn like_one(&self, texts: &ArrayRef, pattern: &str, meter: &Meter) -> Result<BooleanArray> {
        if let Some(coded) = texts.as_any_dictionary_opt() {
            let found = self.like_one(coded.values(), pattern, meter)?;
            return Ok(take(&found, coded.keys(), None)?.as_boolean().clone());
        }
        let texts = cast(texts, &DataType::Utf8View)?;
        let texts = texts.as_string_view();
        let constant = Scalar::new(StringViewArray::from_iter_values([pattern]));
        let mut answers = Vec::new();
        let mut rows = 0..0;
        while rows.end < texts.len() {
            meter.look()?;
            rows = little(texts, rows.end, pattern.len() as u64);
            answers.push(if rows.is_empty() {
                rows.end += 1;
                let text = texts.is_valid(rows.start).then(|| texts.value(rows.start));
                BooleanArray::from(vec![text.map(|text| self.one(text, pattern, meter)).transpose()?])
            } else {
                self.kernel(&texts.slice(rows.start, rows.len()), &constant)?
            });
        }
        match &answers[..] {
            [one] => Ok(one.clone()),
            several => {
                let several: Vec<&dyn Array> = several.iter().map(|array| array as &dyn Array).collect();
                Ok(if several.is_empty() {
                    BooleanArray::new_null(0)
                } else {
                    concat(&several)?.as_boolean().clone()
                })
            }
        }
    }

    /// Which of the texts are like the pattern of their row.
    fn like_each(
        &self,
        texts: &ColumnarValue,
        patterns: &ColumnarValue,
        rows: usize,
        meter: &Meter,
    ) -> Result<BooleanArray> {
        if product_of_texts(&[texts.clone(), patterns.clone()], rows) <= LITTLE_WORK {
            let (texts, patterns) = (texts.to_array(rows)?, patterns.to_array(rows)?);
            return self.kernel(&texts, &cast(&patterns, texts.data_type())?);
        }
        let value =
            |side: &ColumnarValue, row| if matches!(side, ColumnarValue::Scalar(_)) { 0 } else { row };
        let column =
            |side: &ColumnarValue| -> Result<ArrayRef> { Ok(cast(&side.to_array(1)?, &DataType::Utf8View)?) };
        let (text_of, pattern_of) = (column(texts)?, column(patterns)?);
        let (text_of, pattern_of) = (text_of.as_string_view(), pattern_of.as_string_view());
        let answers = (0..rows).map(|row| {
            let places = (value(texts, row), value(patterns, row));
            if text_of.is_null(places.0) || pattern_of.is_null(places.1) {
                return Ok(None);
            }
            self.one(text_of.value(places.0), pattern_of.value(places.1), meter).map(Some)
        });
        answers.collect()
    }
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

impl ScalarUDFImpl for Matches {
    fn name(&self) -> &'static str {
        match self.letters {
            Letters::Sensitive => "coeval_like",
            Letters::Ignored => "coeval_ilike",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [text, pattern] = &arguments.args[..] else {
            return datafusion::common::internal_err!("LIKE of two");
        };
        let meter = Meter::begin(&arguments.config_options, self.name());
        let is_scalar = matches!((text, pattern), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let found = match pattern {
            ColumnarValue::Scalar(constant) => match constant.try_as_str().flatten() {
                Some(constant) => self.like_one(&text.to_array(rows)?, constant, &meter)?,
                None => BooleanArray::new_null(rows),
            },
            ColumnarValue::Array(_) => self.like_each(text, pattern, rows, &meter)?,
        };
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}
