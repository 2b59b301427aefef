// SPDX-License-Identifier: Apache-2.0
//! LIKE, ILIKE, `~` and `~*` as functions that look on their way whether the statement is to end.
//!
//! DataFusion's operators look at nothing while they search, which takes minutes where a text is long. As operators they are
//! understood by the rules that make plans better, as when they look for a prefix. So they stay until the plan is complete, and
//! then functions take their places. Of LIKE they call what [`likes`](super::likes) has, of `~` the search of `regexp_like`.

use super::likes;
use crate::allowance::Meter;
use crate::constants::made_of;
use crate::functions::{LIKE_FUNCTION, Pattern, REGEX_FUNCTION, compiled_for_operator};
use crate::scalar::LetterCase;
use arrow::array::{ArrayRef, AsArray, BooleanArray, StringViewArray};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr::{Like, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// The functions: of LIKE, then of `~`, each first with and then without regard to the case of letters.
pub(super) fn functions() -> &'static [Arc<ScalarUDF>; 4] {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 4]> = LazyLock::new(|| {
        [
            (Kind::Like, LetterCase::Sensitive),
            (Kind::Like, LetterCase::Ignored),
            (Kind::Regex, LetterCase::Sensitive),
            (Kind::Regex, LetterCase::Ignored),
        ]
        .map(|(kind, letters)| Arc::new(ScalarUDF::from(Matches::new(kind, letters))))
    });
    &FUNCTIONS
}

/// The expression with a function where it had an operator that matches a pattern.
pub(super) fn heeding_matches(part: Expr) -> Result<Transformed<Expr>> {
    let (text, pattern, kind, letters, is_negated) = match part {
        // Patterns with another escape are written anew.
        Expr::Like(Like { negated, expr, pattern, escape_char: None | likes::ESCAPE, case_insensitive }) => {
            let letters = if case_insensitive { LetterCase::Ignored } else { LetterCase::Sensitive };
            (expr, pattern, Kind::Like, letters, negated)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if matches!(*right, Expr::Literal(..)) => {
            let (letters, is_negated) = match op {
                Operator::RegexMatch => (LetterCase::Sensitive, false),
                Operator::RegexIMatch => (LetterCase::Ignored, false),
                Operator::RegexNotMatch => (LetterCase::Sensitive, true),
                Operator::RegexNotIMatch => (LetterCase::Ignored, true),
                _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            };
            (left, right, Kind::Regex, letters, is_negated)
        }
        part => return Ok(Transformed::no(part)),
    };
    let func =
        &functions()[2 * usize::from(kind == Kind::Regex) + usize::from(letters == LetterCase::Ignored)];
    let call = Expr::ScalarFunction(ScalarFunction { func: Arc::clone(func), args: vec![*text, *pattern] });
    Ok(Transformed::yes(if is_negated { Expr::Not(Box::new(call)) } else { call }))
}

/// What matches a pattern as the function that it becomes, at once, if DataFusion's rules would take it for something else: they compute
/// ILIKE of constants by their own operator, to which other letters are the same, and LIKE by one to which an escape at the end is a
/// letter, and make ILIKE of `~*`. Nothing for what is right as it is.
pub(super) fn heeding_at_once(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let is_text = |side: &Expr| side.get_type(schema).is_ok_and(|ty| ty.is_string());
    let is_taken_otherwise = match expression {
        Expr::Like(Like { case_insensitive: true, expr, pattern, .. }) => {
            [expr, pattern].into_iter().all(|side| side.column_refs().is_empty() && is_text(side))
        }
        Expr::Like(Like { expr, pattern, .. }) => match pattern.as_ref() {
            Expr::Literal(pattern, _) => {
                pattern.try_as_str().flatten().is_some_and(likes::ends_with_escape) && is_text(expr)
            }
            _ => false,
        },
        Expr::BinaryExpr(BinaryExpr {
            left, op: Operator::RegexIMatch | Operator::RegexNotIMatch, ..
        }) => is_text(left),
        _ => false,
    };
    if !is_taken_otherwise {
        return Ok(None);
    }
    heeding_matches(expression.clone()).map(|heeding| Some(heeding.data))
}

/// What a pattern is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Like,
    Regex,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Matches {
    kind: Kind,
    letters: LetterCase,
    signature: Signature,
}

impl Matches {
    fn new(kind: Kind, letters: LetterCase) -> Self {
        Self { kind, letters, signature: Signature::any(2, Volatility::Immutable) }
    }

    /// Which of the texts match the pattern.
    fn matching(&self, texts: &ArrayRef, pattern: &str, meter: &Meter) -> Result<BooleanArray> {
        match self.kind {
            Kind::Like => of_texts(texts, &|texts| likes::matching(texts, pattern, self.letters, meter)),
            Kind::Regex => {
                let pattern = compiled_for_operator(pattern, self.letters)?;
                of_texts(texts, &|texts| with_pattern(texts, &pattern, meter))
            }
        }
    }
}

/// In which of the texts the pattern is.
fn with_pattern(texts: &StringViewArray, pattern: &Pattern, meter: &Meter) -> Result<BooleanArray> {
    texts.iter().map(|text| Ok(text.map(|text| pattern.is_match(text, meter)).transpose()?)).collect()
}

/// What `answer` says of the texts; of those that are coded once for each code.
fn of_texts(
    texts: &ArrayRef,
    answer: &dyn Fn(&StringViewArray) -> Result<BooleanArray>,
) -> Result<BooleanArray> {
    if let Some(coded) = texts.as_any_dictionary_opt() {
        let found = of_texts(coded.values(), answer)?;
        return Ok(take(&found, coded.keys(), None)?.as_boolean().clone());
    }
    answer(cast(texts, &DataType::Utf8View)?.as_string_view())
}

impl ScalarUDFImpl for Matches {
    fn name(&self) -> &'static str {
        match (self.kind, self.letters) {
            (Kind::Like, LetterCase::Sensitive) => LIKE_FUNCTION,
            (Kind::Like, LetterCase::Ignored) => "coeval_ilike",
            (Kind::Regex, LetterCase::Sensitive) => REGEX_FUNCTION,
            (Kind::Regex, LetterCase::Ignored) => "coeval_imatches",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [text, pattern] = &arguments.args[..] else { return internal_err!("a text matches one pattern") };
        let meter = Meter::begin(&arguments.config_options, self.name());
        made_of(&arguments.args, arguments.number_rows, |rows| {
            Ok(Arc::new(match pattern {
                ColumnarValue::Scalar(constant) => match constant.try_as_str().flatten() {
                    Some(constant) => self.matching(&text.to_array(rows)?, constant, &meter)?,
                    None => BooleanArray::new_null(rows),
                },
                ColumnarValue::Array(_) if self.kind == Kind::Like => {
                    likes::matching_each(text, pattern, (rows, self.letters), &meter)?
                }
                ColumnarValue::Array(_) => return internal_err!("the pattern of ~ is a constant"),
            }))
        })
    }
}
