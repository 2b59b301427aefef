// SPDX-License-Identifier: Apache-2.0
//! LIKE and ILIKE of long texts, or with long patterns.
//!
//! DataFusion's make a regular expression of most patterns, and look at nothing while they search. So a function takes the operator's
//! place where plans are complete, unless a column is compared with a short constant. It calls the same kernels where they have little
//! to do, and else the operator's own way of statements on keys (`scalar/pattern.rs`), which looks.

use crate::allowance::Meter;
use crate::functions::{LITTLE_WORK, product_of_texts};
use crate::scalar::like as is_like;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::compute::kernels::comparison::{ilike, like};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{Like, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// Columns are compared with constants that are no longer by DataFusion alone.
const SHORT_BYTES: usize = 64;

/// What makes the next letter of a pattern stand for itself: patterns with another escape are written anew.
const ESCAPE: Option<char> = Some('\\');

/// The expression with the function where it had the operator.
pub(super) fn heeding_likes(part: Expr) -> Result<Transformed<Expr>> {
    let Expr::Like(Like { negated, expr, pattern, escape_char: None | ESCAPE, case_insensitive }) = part
    else {
        return Ok(Transformed::no(part));
    };
    let is_short = matches!(&*pattern, Expr::Literal(constant, _)
        if constant.try_as_str().flatten().is_none_or(|text| text.len() <= SHORT_BYTES));
    if is_short && matches!(*expr, Expr::Column(_)) {
        let like = Like { negated, expr, pattern, escape_char: None, case_insensitive };
        return Ok(Transformed::no(Expr::Like(like)));
    }
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
        [Letters::Sensitive, Letters::Ignored].map(|letters| Arc::new(ScalarUDF::from(Matches::new(letters))))
    });
    let function = Arc::clone(&FUNCTIONS[usize::from(case_insensitive)]);
    let call = Expr::ScalarFunction(ScalarFunction { func: function, args: vec![*expr, *pattern] });
    Ok(Transformed::yes(if negated { Expr::Not(Box::new(call)) } else { call }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Letters {
    Sensitive,
    Ignored,
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
        let is_scalar = matches!((text, pattern), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let found = if product_of_texts(&arguments.args, rows) <= LITTLE_WORK {
            let (texts, patterns) = (text.to_array(rows)?, pattern.to_array(rows)?);
            let patterns = cast(&patterns, texts.data_type())?;
            match self.letters {
                Letters::Sensitive => like(&texts, &patterns)?,
                Letters::Ignored => ilike(&texts, &patterns)?,
            }
        } else {
            let meter = Meter::begin(&arguments.config_options, self.name());
            let column = |side: &ColumnarValue| -> Result<ArrayRef> {
                Ok(cast(&side.to_array(1)?, &DataType::Utf8View)?)
            };
            let (texts, patterns) = (column(text)?, column(pattern)?);
            let value =
                |side: &ColumnarValue, row| if matches!(side, ColumnarValue::Scalar(_)) { 0 } else { row };
            let answers = (0..rows).map(|row| {
                let places = (value(text, row), value(pattern, row));
                if texts.is_null(places.0) || patterns.is_null(places.1) {
                    return Ok(None);
                }
                let (text, pattern) =
                    (texts.as_string_view().value(places.0), patterns.as_string_view().value(places.1));
                self.one(text, pattern, &meter).map(Some)
            });
            answers.collect::<Result<BooleanArray>>()?
        };
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}
