// SPDX-License-Identifier: Apache-2.0
//! `~` of columns and constants, when the plan is complete.
//!
//! DataFusion's operator looks at nothing while it searches, which takes minutes where a text is long and a pattern has many states. As
//! an operator it is understood by the rules that make plans better, as when it looks for a prefix. So it stays until they are done, and
//! then a function takes its place that searches as `regexp_like` does.

use crate::allowance::Meter;
use crate::functions::{Letters, Pattern, compiled_for_operator};
use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::sync::{Arc, LazyLock};

/// The expression with the function where it had the operator.
pub(super) fn heeding_regexes(part: Expr) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else { return Ok(Transformed::no(part)) };
    let kind = match op {
        Operator::RegexMatch => Some((Letters::Sensitive, false)),
        Operator::RegexIMatch => Some((Letters::Ignored, false)),
        Operator::RegexNotMatch => Some((Letters::Sensitive, true)),
        Operator::RegexNotIMatch => Some((Letters::Ignored, true)),
        _ => None,
    };
    let (Some((letters, is_negated)), Expr::Literal(..)) = (kind, &*right) else {
        return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
    };
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
        [Letters::Sensitive, Letters::Ignored].map(|letters| Arc::new(ScalarUDF::from(Matches::new(letters))))
    });
    let func = Arc::clone(&FUNCTIONS[usize::from(letters == Letters::Ignored)]);
    let call = Expr::ScalarFunction(ScalarFunction { func, args: vec![*left, *right] });
    Ok(Transformed::yes(if is_negated { Expr::Not(Box::new(call)) } else { call }))
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
}

/// In which of the texts the pattern is.
fn matched(texts: &ArrayRef, pattern: &Pattern, meter: &Meter) -> Result<BooleanArray> {
    if let Some(coded) = texts.as_any_dictionary_opt() {
        let found = matched(coded.values(), pattern, meter)?;
        return Ok(take(&found, coded.keys(), None)?.as_boolean().clone());
    }
    let texts = cast(texts, &DataType::Utf8View)?;
    let answers = texts
        .as_string_view()
        .iter()
        .map(|text| Ok(text.map(|text| pattern.is_match(text, meter)).transpose()?));
    answers.collect()
}

impl ScalarUDFImpl for Matches {
    fn name(&self) -> &'static str {
        match self.letters {
            Letters::Sensitive => "coeval_matches",
            Letters::Ignored => "coeval_imatches",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [texts, ColumnarValue::Scalar(pattern)] = &arguments.args[..] else {
            return datafusion::common::internal_err!("a pattern is a constant");
        };
        let is_scalar = matches!(texts, ColumnarValue::Scalar(_));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let found = match pattern.try_as_str().flatten() {
            Some(pattern) => {
                let pattern = compiled_for_operator(pattern, self.letters)?;
                let meter = Meter::begin(&arguments.config_options, self.name());
                matched(&texts.to_array(rows)?, &pattern, &meter)?
            }
            None => BooleanArray::new_null(rows),
        };
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}
