// SPDX-License-Identifier: Apache-2.0
//! What other libraries tell of in texts alone. No other file matches a text that is not ours; a test counts the matches here, which
//! are to become fewer (`tests/tests/tidy`).
//!
//! | library | gives no better |
//! |---|---|
//! | DataFusion 55.2 | `Plan`, `NotImplemented`, `Internal` and `Execution` carry a text, whatever the mistake |
//! | Arrow 59.3 | `CastError`, `ParseError` and `InvalidArgumentError` carry a text, with value and type in it |
//! | sqlparser 0.62 | `ParserError` carries a text, with what was expected and what was found |
//! | Rust's library | an [`io::Error`] shows its number behind the words of the system |
//!
//! What DataFusion refuses for a reason that stands in the query is looked for there first (`query/mistakes.rs`). Here is what is left
//! of plans that are made on the way, and what arises while rows are made.

use crate::error::{SqlError, SqlState};
use std::io;

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Mistakes that a plan shows which is made on the way, so that no query is at hand to look for them.
const OF_PLANS: &[(&str, SqlState)] = &[
    // What `x IS TRUE` becomes.
    ("DISTINCT FROM Boolean", SqlState::DatatypeMismatch),
    ("No function matches", SqlState::UndefinedFunction),
    ("Failed to coerce", SqlState::UndefinedFunction),
    ("failed to match any signature", SqlState::UndefinedFunction),
    ("Invalid function", SqlState::UndefinedFunction),
    ("Cannot coerce", SqlState::UndefinedFunction),
    ("Cannot infer common", SqlState::UndefinedFunction),
    ("Cannot automatically convert", SqlState::CannotCoerce),
    ("require unique expression names", SqlState::DuplicateAlias),
    ("names given as column alias", SqlState::InvalidColumnReference),
    ("bound cannot be UNBOUNDED", SqlState::WindowingError),
    ("laceholder", SqlState::UndefinedParameter),
];

fn of_plan(text: &str) -> Option<SqlError> {
    let (_, state) = OF_PLANS.iter().find(|(words, _)| text.contains(words))?;
    Some(SqlError::new(*state, first_line(text)))
}

pub(super) fn plan_error(text: &str) -> SqlError {
    if text.contains("Correlated scalar subquery must be aggregated") {
        return SqlError::unsupported("a subquery that refers to the outer row and is no aggregate");
    }
    of_plan(text)
        .unwrap_or_else(|| SqlError::new(SqlState::SyntaxErrorOrAccessRuleViolation, first_line(text)))
}

/// What DataFusion plans, and cannot run.
const NOT_RUN: &[(&str, &str)] = &[
    ("logical expression Exists", "EXISTS outside a condition"),
    ("logical expression InSubquery", "IN with a subquery outside a condition"),
    ("logical expression OuterReferenceColumn", "LATERAL subquery that refers to a table beside it"),
];

pub(super) fn not_implemented(text: &str) -> SqlError {
    match NOT_RUN.iter().find(|(expression, _)| text.contains(expression)) {
        Some((_, words)) => SqlError::unsupported(words),
        None => SqlError::new(SqlState::FeatureNotSupported, first_line(text)),
    }
}

/// DataFusion calls some mistakes of users a bug of its own.
pub(super) fn internal_error(text: &str) -> SqlError {
    if text.contains("regex parse error") {
        let reason = text.lines().next_back().unwrap_or_default().trim_start_matches("error: ");
        return SqlError::new(
            SqlState::InvalidRegularExpression,
            format!("invalid regular expression: {reason}"),
        );
    }
    of_plan(text).unwrap_or_else(|| SqlError::internal(text))
}

/// Values that functions of DataFusion refuse: what the text begins with, and PostgreSQL's words.
const REFUSED_VALUES: &[(&str, SqlState, &str)] = &[
    ("negative count not allowed", SqlState::SubstringError, "negative substring length not allowed"),
    ("Month value '", SqlState::DatetimeFieldOverflow, "date field value out of range"),
    ("Day value '", SqlState::DatetimeFieldOverflow, "date field value out of range"),
    ("NTILE requires", SqlState::InvalidArgumentForNtile, "argument of ntile must be greater than zero"),
];

pub(super) fn execution_error(text: &str) -> SqlError {
    if let Some((_, state, message)) = REFUSED_VALUES.iter().find(|(begin, ..)| text.starts_with(begin)) {
        return SqlError::new(*state, *message);
    }
    let lower = text.to_ascii_lowercase();
    if lower.contains("overflow") || lower.contains("out of range") || lower.contains("too large") {
        return SqlError::new(SqlState::NumericValueOutOfRange, first_line(text));
    }
    if lower.contains("scalar subquery") && lower.contains("more than one") {
        return SqlError::new(
            SqlState::CardinalityViolation,
            "more than one row returned by a subquery used as an expression",
        );
    }
    if ["regex", "regular expression"].iter().any(|words| lower.contains(words)) {
        return SqlError::new(SqlState::InvalidRegularExpression, first_line(text));
    }
    if lower.contains("cast") || lower.contains("parse") {
        return cast_error(text);
    }
    SqlError::new(SqlState::InvalidParameterValue, first_line(text))
}

/// Arrow's messages of a failed cast. What users cast and store is cast by our own functions (`scalar/cast_function.rs`).
pub(super) fn cast_error(text: &str) -> SqlError {
    // Error parsing timestamp from 'abc': error parsing date
    if let Some((kind, rest)) = text
        .strip_prefix("Error parsing ")
        .or_else(|| text.strip_prefix("Parser error: Error parsing "))
        .and_then(|rest| rest.split_once(" from '"))
    {
        let value = rest.split('\'').next().unwrap_or_default();
        return SqlError::new(
            SqlState::InvalidDatetimeFormat,
            format!("invalid input syntax for type {kind}: \"{value}\""),
        );
    }
    let lower = text.to_ascii_lowercase();
    let is_too_large = lower.contains("too large to store") || lower.contains("can't cast value");
    if is_too_large || lower.contains("overflow") || lower.contains("out of range") {
        return SqlError::new(SqlState::NumericValueOutOfRange, "numeric field overflow")
            .with_detail(first_line(text));
    }
    SqlError::new(SqlState::InvalidTextRepresentation, first_line(text))
}

/// `Expected: an expression, found: FROM` as `syntax error at or near "FROM"`.
pub(super) fn word_as_postgres(text: &str) -> String {
    match text.split_once(", found: ") {
        Some((_, "EOF")) => "syntax error at end of input".to_owned(),
        Some((expected, found)) => {
            let expected = expected.strip_prefix("Expected: ").unwrap_or(expected);
            format!("syntax error at or near \"{found}\": expected {expected}")
        }
        None => format!("syntax error: {text}"),
    }
}

/// The system's words for what went wrong with a file.
pub(super) fn system_words(error: &io::Error) -> String {
    let words = error.to_string();
    words.split(" (os error").next().unwrap_or_default().to_owned()
}
