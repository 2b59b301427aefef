// SPDX-License-Identifier: Apache-2.0
//! What DataFusion finds wrong with operands and clauses of a query, in PostgreSQL's words and with its SQLSTATEs.

use super::datafusion::type_name;
use crate::error::{SqlError, SqlState};

/// The error that a line of DataFusion's stands for; `None` if it is another one.
pub(super) fn in_words(line: &str) -> Option<SqlError> {
    operands(line).or_else(|| clauses(line))
}

/// Operands of types that do not go together.
fn operands(line: &str) -> Option<SqlError> {
    if let Some(rest) = line.strip_prefix("Cannot infer common argument type for logical boolean operation ")
    {
        let (left, operator, right) = operation(rest)?;
        let wrong = if left == "Boolean" { right } else { left };
        return Some(no_condition(operator, wrong));
    }
    if let Some(wrong) = line.strip_prefix("Unary operator 'NOT' requires a boolean expression, got ") {
        return Some(no_condition("NOT", wrong));
    }
    if line.starts_with("Unary operator '-' only supports") {
        return Some(SqlError::new(SqlState::UndefinedFunction, "operator does not exist: - of this type"));
    }
    if let Some(rest) = line.strip_prefix("There isn't a common type to coerce ") {
        let (left, right) = rest.strip_suffix(" in LIKE expression")?.split_once(" and ")?;
        return Some(no_operator(left, "~~", right));
    }
    let rest = line
        .strip_prefix("Cannot get result type for temporal operation ")
        .and_then(|rest| rest.split_once(": ").map(|(operation, _)| operation))
        .or_else(|| {
            line.strip_prefix("Cannot coerce arithmetic expression ")?.strip_suffix(" to valid types")
        })
        .or_else(|| line.strip_prefix("Cannot infer common argument type for comparison operation "))?;
    // A question about truth is made one of these.
    if let Some((value, "Boolean")) =
        rest.split_once(" IS DISTINCT FROM ").or_else(|| rest.split_once(" IS NOT DISTINCT FROM "))
    {
        return Some(no_condition("IS TRUE", value));
    }
    let (left, operator, right) = operation(rest)?;
    Some(no_operator(left, operator, right))
}

/// The parts of `Date32 * Int32`; `None` where a type is written with blanks.
fn operation(text: &str) -> Option<(&str, &str, &str)> {
    let mut words = text.split(' ');
    let parts = (words.next()?, words.next()?, words.next()?);
    words.next().is_none().then_some(parts)
}

/// `42883`.
fn no_operator(left: &str, operator: &str, right: &str) -> SqlError {
    let message = format!("operator does not exist: {} {operator} {}", type_name(left), type_name(right));
    SqlError::new(SqlState::UndefinedFunction, message).with_hint(
        "No operator matches the given name and argument types. You might need to add explicit type casts.",
    )
}

/// `42804`.
fn no_condition(operator: &str, ty: &str) -> SqlError {
    let message = format!("argument of {operator} must be type boolean, not type {}", type_name(ty));
    SqlError::new(SqlState::DatatypeMismatch, message)
}

/// Clauses that say what they may not.
fn clauses(line: &str) -> Option<SqlError> {
    if let Some(rest) = line.strip_prefix("Cannot find column with position ") {
        let place = rest.split(' ').next()?;
        let message = format!("GROUP BY position {place} is not in select list");
        return Some(SqlError::new(SqlState::InvalidColumnReference, message));
    }
    let known = [
        (
            "For SELECT DISTINCT, ORDER BY expressions",
            SqlState::InvalidColumnReference,
            "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
        ),
        (
            "Aggregate function calls cannot be nested",
            SqlState::GroupingError,
            "aggregate function calls cannot be nested",
        ),
        (
            "Invalid window frame: frame offsets for",
            SqlState::InvalidPrecedingOrFollowingSize,
            "frame starting and ending offset must not be negative",
        ),
        (
            "Invalid window frame: start bound cannot be UNBOUNDED FOLLOWING",
            SqlState::WindowingError,
            "frame start cannot be UNBOUNDED FOLLOWING",
        ),
        (
            "Invalid window frame: end bound cannot be UNBOUNDED PRECEDING",
            SqlState::WindowingError,
            "frame end cannot be UNBOUNDED PRECEDING",
        ),
        (
            "unnest() can only be applied to array",
            SqlState::UndefinedFunction,
            "function unnest of this type does not exist",
        ),
        (
            "OVER and WITHIN GROUP clause cannot be used together",
            SqlState::FeatureNotSupported,
            "OVER is not supported for ordered-set aggregates",
        ),
    ];
    if line.starts_with("WITH query name ") && line.ends_with(" specified more than once") {
        return Some(SqlError::new(SqlState::DuplicateAlias, line));
    }
    if line.starts_with("Source table contains ") && line.ends_with(" names given as column alias") {
        return Some(SqlError::new(SqlState::InvalidColumnReference, line));
    }
    let (_, state, message) = known.into_iter().find(|(begin, ..)| line.starts_with(begin))?;
    Some(SqlError::new(state, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_told_by_the_names_of_their_types() {
        for (line, state, message) in [
            (
                "Cannot coerce arithmetic expression Utf8View / Int32 to valid types",
                SqlState::UndefinedFunction,
                "operator does not exist: text / integer",
            ),
            (
                "Cannot get result type for temporal operation Date32 * Int32: Invalid argument error: Invalid",
                SqlState::UndefinedFunction,
                "operator does not exist: date * integer",
            ),
            (
                "Cannot infer common argument type for logical boolean operation Int32 OR Boolean",
                SqlState::DatatypeMismatch,
                "argument of OR must be type boolean, not type integer",
            ),
            (
                "There isn't a common type to coerce Int32 and Utf8 in LIKE expression",
                SqlState::UndefinedFunction,
                "operator does not exist: integer ~~ text",
            ),
        ] {
            let error = in_words(line).unwrap();
            assert_eq!((error.state, error.message.as_str()), (state, message), "{line}");
        }
        assert!(in_words("This line is of something else").is_none());
    }
}
