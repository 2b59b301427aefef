// SPDX-License-Identifier: Apache-2.0
//! Errors of DataFusion and Arrow as SQL errors.
//!
//! Both tell kinds apart by their text where PostgreSQL has a SQLSTATE of its own, so the texts are matched
//! here and nowhere else.

use super::columns::unknown_column;
use super::memory::out_of_memory;
use crate::error::{SqlError, SqlState};
use arrow::error::ArrowError;
use coeval_store::EnumType;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        let mut error = converted(error);
        error.message = with_enum_names(error.message);
        error
    }
}

/// The message with the names of enums in the place of how Arrow spells their types.
fn with_enum_names(mut message: String) -> String {
    const START: &str = "Struct(\"coeval.enum.";
    const END: &str = "\": Int64)";
    while let Some(start) = message.find(START) {
        let Some(length) = message[start..].find(END) else { break };
        let number = message[start + START.len()..start + length].parse().ok();
        let Some(ty) = number.and_then(EnumType::with_number) else { break };
        message.replace_range(start..start + length + END.len(), &ty.to_string());
    }
    message
}

fn converted(error: DataFusionError) -> SqlError {
    match error {
        DataFusionError::External(error) => match error.downcast::<SqlError>() {
            Ok(error) => *error,
            Err(error) => match error.downcast::<coeval_store::StoreError>() {
                Ok(error) => (*error).into(),
                Err(error) => internal_error(&error.to_string()),
            },
        },
        DataFusionError::ArrowError(error, _) => (*error).into(),
        DataFusionError::SQL(error, _) => super::parser::syntax_error(*error, ""),
        DataFusionError::SchemaError(error, _) => schema_error(&error),
        DataFusionError::Context(_, error) => (*error).into(),
        DataFusionError::Diagnostic(diagnostic, error) => {
            let converted = SqlError::from(*error);
            match diagnostic.span {
                Some(span) if converted.position.is_none() => {
                    converted.at(span.start.line, span.start.column)
                }
                _ => converted,
            }
        }
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(error) => error.into(),
            None => SqlError::internal("an empty collection of errors"),
        },
        DataFusionError::Shared(error) => shared_error(&error),
        DataFusionError::Plan(text) => plan_error(&text),
        DataFusionError::NotImplemented(text) => not_implemented(&text),
        DataFusionError::Execution(text) => execution_error(&text),
        DataFusionError::ResourcesExhausted(text) => out_of_memory(&text),
        DataFusionError::IoError(error) => SqlError::new(SqlState::of_io(&error), error.to_string()),
        DataFusionError::Configuration(text) => SqlError::new(SqlState::InvalidParameterValue, text),
        DataFusionError::Internal(text) => internal_error(&text),
        other => internal_error(&other.strip_backtrace()),
    }
}

impl From<SqlError> for DataFusionError {
    fn from(error: SqlError) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<ArrowError> for SqlError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::DivideByZero => division_by_zero(),
            ArrowError::ArithmeticOverflow(_) => out_of_range("value out of range"),
            ArrowError::CastError(text)
            | ArrowError::ParseError(text)
            | ArrowError::InvalidArgumentError(text) => cast_error(&text),
            ArrowError::ComputeError(text) => execution_error(&text),
            ArrowError::ExternalError(error) => match error.downcast::<Self>() {
                Ok(error) => *error,
                Err(error) => match error.downcast::<DataFusionError>() {
                    Ok(error) => (*error).into(),
                    Err(error) => internal_error(&error.to_string()),
                },
            },
            other => Self::internal(other.to_string()),
        }
    }
}

pub(crate) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DivisionByZero, "division by zero")
}

pub(crate) fn out_of_range(message: &str) -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, message)
}

const PLACE_FLAG: usize = 1 << 63;

/// Line and column, which travel together until the statement's text is at hand; nothing for what stands nowhere.
pub(super) fn packed_place(line: u64, column: u64) -> Option<usize> {
    let (line, column) = (line as usize & 0x3FFF_FFFF, column as usize & 0xFFFF_FFFF);
    (line > 0).then_some(PLACE_FLAG | (line << 32) | column)
}

/// The error with its position counted in characters of this text.
pub(crate) fn place_in(mut error: SqlError, sql: &str) -> SqlError {
    if let Some(position) = error.position
        && position & PLACE_FLAG != 0
    {
        let line = (position >> 32) & 0x3FFF_FFFF;
        let column = position & 0xFFFF_FFFF;
        error.position = super::parser::character_position(sql, line as u64, column as u64);
    }
    error
}

/// An error that several consumers of a stream share: the same conversion without taking it.
fn shared_error(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::External(error) => match error.downcast_ref::<SqlError>() {
            Some(error) => error.clone(),
            None => internal_error(&error.to_string()),
        },
        DataFusionError::ArrowError(error, _) => arrow_error(error),
        DataFusionError::Shared(error) => shared_error(error),
        DataFusionError::Context(_, error) | DataFusionError::Diagnostic(_, error) => shared_error(error),
        DataFusionError::Execution(text) => execution_error(text),
        DataFusionError::Plan(text) => plan_error(text),
        DataFusionError::NotImplemented(text) => not_implemented(text),
        DataFusionError::ResourcesExhausted(text) => out_of_memory(text),
        DataFusionError::Internal(text) => internal_error(text),
        other => internal_error(&other.strip_backtrace()),
    }
}

fn arrow_error(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::DivideByZero => division_by_zero(),
        ArrowError::ArithmeticOverflow(_) => out_of_range("value out of range"),
        ArrowError::CastError(text)
        | ArrowError::ParseError(text)
        | ArrowError::InvalidArgumentError(text) => cast_error(text),
        ArrowError::ComputeError(text) => execution_error(text),
        ArrowError::ExternalError(error) => match (error.downcast_ref(), error.downcast_ref()) {
            (Some(error), _) => SqlError::clone(error),
            (None, Some(error)) => shared_error(error),
            (None, None) => internal_error(&error.to_string()),
        },
        other => SqlError::internal(other.to_string()),
    }
}

fn schema_error(error: &SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => match &field.relation {
            Some(relation)
                if !valid_fields.iter().any(|valid| {
                    valid.relation.as_ref().is_some_and(|known| known.table() == relation.table())
                }) =>
            {
                SqlError::new(
                    SqlState::UndefinedTable,
                    format!("missing FROM-clause entry for table \"{}\"", relation.table()),
                )
            }
            Some(relation) => unknown_column(Some(relation.table()), &field.name),
            None => unknown_column(None, &field.name),
        },
        SchemaError::AmbiguousReference { field } => SqlError::new(
            SqlState::AmbiguousColumn,
            format!("column reference \"{}\" is ambiguous", field.name),
        ),
        SchemaError::DuplicateQualifiedField { name, .. } => {
            SqlError::new(SqlState::DuplicateAlias, format!("column \"{name}\" specified more than once"))
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            SqlError::new(SqlState::DuplicateColumn, format!("column \"{name}\" specified more than once"))
        }
    }
}

/// Functions that are windows and nothing else.
const WINDOWS_ALONE: [&str; 11] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// The name between the first pair of single quotes.
fn quoted(text: &str) -> Option<&str> {
    text.split('\'').nth(1)
}

fn plan_error(text: &str) -> SqlError {
    let line = first_line(text);
    if let Some(name) = line.strip_prefix("Invalid function ").and_then(quoted_rest) {
        if WINDOWS_ALONE.contains(&name) {
            let message = format!("window function {name} requires an OVER clause");
            return SqlError::new(SqlState::WrongObjectType, message);
        }
        return SqlError::new(SqlState::UndefinedFunction, format!("function {name} does not exist"))
            .with_hint("No function matches the given name and argument types.");
    }
    if let Some(error) = super::calls::unmatched(text) {
        return error;
    }
    let contains = |pattern: &str| text.contains(pattern);
    if let Some(error) = known_plan_error(&line) {
        return error;
    }
    if contains("LIMIT must be") {
        return SqlError::new(SqlState::InvalidRowCountInLimitClause, "LIMIT must not be negative");
    }
    if contains("OFFSET must be") {
        return SqlError::new(SqlState::InvalidRowCountInResultOffsetClause, "OFFSET must not be negative");
    }
    if let Some((from, to)) = line.strip_prefix("Cannot cast ").and_then(|rest| rest.split_once(" to ")) {
        let message = format!("cannot cast type {} to {}", type_name(from), type_name(to));
        return SqlError::new(SqlState::CannotCoerce, message);
    }
    let state = if contains("must appear in the GROUP BY") || contains("must be in the GROUP BY") {
        SqlState::GroupingError
    } else if contains("Failed to coerce arguments")
        || contains("No function matches")
        || contains("does not support")
        || contains("Cannot coerce")
        || contains("Cannot infer common")
        || contains("Can't find common type")
    {
        SqlState::UndefinedFunction
    } else if contains("Cannot automatically convert")
        || contains("Unsupported CAST")
        || contains("Cannot cast")
    {
        SqlState::CannotCoerce
    } else if contains("not found") && contains("table") {
        SqlState::UndefinedTable
    } else if contains("Projections require unique") || contains("duplicate") {
        SqlState::DuplicateAlias
    } else if contains("placeholder") || contains("Placeholder") {
        SqlState::UndefinedParameter
    } else if contains("must have the same number of columns")
        || contains("different number of columns")
        || contains("should only return one column")
    {
        SqlState::SyntaxError
    } else {
        SqlState::SyntaxErrorOrAccessRuleViolation
    };
    SqlError::new(state, line)
}

fn not_implemented(text: &str) -> SqlError {
    if text.contains("does not support logical expression WindowFunction") {
        return SqlError::new(SqlState::WindowingError, "window functions are not allowed here");
    }
    for (expression, words) in [
        ("logical expression Exists", "EXISTS outside a condition"),
        ("logical expression InSubquery", "IN with a subquery outside a condition"),
        ("logical expression OuterReferenceColumn", "LATERAL subquery that refers to a table beside it"),
    ] {
        if text.contains(expression) {
            return SqlError::unsupported(words);
        }
    }
    let line = first_line(text);
    if let Some((from, to)) =
        line.strip_prefix("Unsupported CAST from ").and_then(|rest| rest.split_once(" to "))
    {
        let message = format!("cannot cast type {} to {}", type_name(from), type_name(to));
        return SqlError::new(SqlState::CannotCoerce, message);
    }
    SqlError::new(SqlState::FeatureNotSupported, line)
}

/// DataFusion calls some mistakes of users a bug of its own.
fn internal_error(text: &str) -> SqlError {
    if let Some(error) = super::calls::unmatched(text) {
        return error;
    }
    let is_mistake = ["Failed to coerce", "failed to match any signature", "No function matches"];
    if is_mistake.iter().any(|words| text.contains(words)) {
        return SqlError::new(SqlState::UndefinedFunction, first_line(text));
    }
    if text.contains("regex parse error") {
        let reason = text.lines().next_back().unwrap_or_default().trim_start_matches("error: ");
        return SqlError::new(
            SqlState::InvalidRegularExpression,
            format!("invalid regular expression: {reason}"),
        );
    }
    SqlError::internal(text)
}

/// Mistakes for which PostgreSQL has words of its own.
fn known_plan_error(line: &str) -> Option<SqlError> {
    let number = |behind: &str| {
        let rest = line.split_once(behind)?.1;
        rest.split(|c: char| !c.is_ascii_digit()).next().map(str::to_owned)
    };
    if let Some(place) = number("Order by column out of bounds, specified: ") {
        let message = format!("ORDER BY position {place} is not in select list");
        return Some(SqlError::new(SqlState::InvalidColumnReference, message));
    }
    if line.contains("Cannot create filter with non-boolean predicate") {
        let ty = line.rsplit_once("returning ").map_or("text", |(_, ty)| type_name(ty));
        let message = format!("argument of WHERE must be type boolean, not type {ty}");
        return Some(SqlError::new(SqlState::DatatypeMismatch, message));
    }
    if let Some((_, rest)) = line.split_once("column \"")
        && let Some((column, rest)) = rest.split_once('"')
        && rest.starts_with(" must appear in the GROUP BY clause")
    {
        let message = format!(
            "column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function"
        );
        return Some(SqlError::new(SqlState::GroupingError, message));
    }
    if line.contains("Aggregate functions are not allowed in the WHERE clause") {
        let message = "aggregate functions are not allowed in WHERE";
        return Some(SqlError::new(SqlState::GroupingError, message));
    }
    if line.contains("DISTINCT ON expressions must match initial ORDER BY expressions") {
        return Some(SqlError::new(SqlState::InvalidColumnReference, line));
    }
    if line.contains("Inconsistent data length across values list") {
        return Some(SqlError::syntax("VALUES lists must all be the same length"));
    }
    if line.contains("UNION queries have different number of columns") {
        return Some(SqlError::syntax("each UNION query must have the same number of columns"));
    }
    if line.contains("Correlated scalar subquery must be aggregated") {
        return Some(SqlError::unsupported("a subquery that refers to the outer row and is no aggregate"));
    }
    super::plan_words::in_words(line)
}

fn quoted_rest(text: &str) -> Option<&str> {
    quoted(text)
}

fn execution_error(text: &str) -> SqlError {
    let lower = text.to_ascii_lowercase();
    if lower.contains("divide by zero") || lower.contains("division by zero") {
        return division_by_zero();
    }
    if let Some(error) = known_execution_error(text) {
        return error;
    }
    if lower.contains("overflow") || lower.contains("out of range") || lower.contains("too large") {
        return SqlError::new(SqlState::NumericValueOutOfRange, first_line(text));
    }
    if lower.contains("scalar subquery") && lower.contains("more than one") {
        return SqlError::new(
            SqlState::CardinalityViolation,
            "more than one row returned by a subquery used as an expression",
        );
    }
    if lower.contains("regex") || lower.contains("regular expression") {
        return SqlError::new(SqlState::InvalidRegularExpression, first_line(text));
    }
    if lower.contains("cast") || lower.contains("parse") {
        return cast_error(text);
    }
    SqlError::new(SqlState::InvalidParameterValue, first_line(text))
}

/// Values that functions of DataFusion refuse, for which PostgreSQL has words of its own.
fn known_execution_error(text: &str) -> Option<SqlError> {
    let known = [
        ("negative count not allowed", SqlState::SubstringError, "negative substring length not allowed"),
        ("Month value '", SqlState::DatetimeFieldOverflow, "date field value out of range"),
        ("Day value '", SqlState::DatetimeFieldOverflow, "date field value out of range"),
        (
            "NTILE requires a positive integer",
            SqlState::InvalidArgumentForNtile,
            "argument of ntile must be greater than zero",
        ),
    ];
    let (_, state, message) = known.into_iter().find(|(begin, ..)| text.starts_with(begin))?;
    Some(SqlError::new(state, message))
}

/// Arrow's messages of a failed cast, in PostgreSQL's words.
fn cast_error(text: &str) -> SqlError {
    // Cannot cast string 'abc' to value of Int32 type
    if let Some(rest) = text.strip_prefix("Cannot cast string '")
        && let Some((value, ty)) = rest.rsplit_once("' to value of ")
    {
        let ty = ty.trim_end_matches(" type");
        let name = type_name(ty);
        if matches!(name, "smallint" | "integer" | "bigint") && is_whole(value) {
            return out_of_range(&format!("value \"{value}\" is out of range for type {name}"));
        }
        let state = match name {
            "date" | "time" | "timestamp" | "interval" => SqlState::InvalidDatetimeFormat,
            _ => SqlState::InvalidTextRepresentation,
        };
        return SqlError::new(state, format!("invalid input syntax for type {name}: \"{value}\""));
    }
    // Can't cast value 3000000000 to type Int32
    if let Some((_, ty)) =
        text.strip_prefix("Can't cast value ").and_then(|rest| rest.split_once(" to type "))
    {
        return out_of_range(&format!("{} out of range", type_name(ty)));
    }
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
    if lower.contains("too large to store") || lower.contains("overflow") || lower.contains("out of range") {
        return SqlError::new(SqlState::NumericValueOutOfRange, "numeric field overflow")
            .with_detail(first_line(text));
    }
    if lower.contains("divide by zero") {
        return division_by_zero();
    }
    SqlError::new(SqlState::InvalidTextRepresentation, first_line(text))
}

/// Whether a text is a whole number, of however many digits.
fn is_whole(text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// PostgreSQL's name of an Arrow type as Arrow prints it.
pub(super) fn type_name(arrow: &str) -> &str {
    match arrow {
        "Int16" => "smallint",
        "Int32" => "integer",
        "Int64" => "bigint",
        "Float32" => "real",
        "Float64" => "double precision",
        "Boolean" => "boolean",
        "Date32" => "date",
        "Utf8" | "LargeUtf8" | "Utf8View" => "text",
        "Binary" | "LargeBinary" | "BinaryView" => "bytea",
        "FixedSizeBinary(8)" => "pg_lsn",
        "FixedSizeBinary(16)" => "uuid",
        other if other.starts_with("Decimal") => "numeric",
        other if other.starts_with("Timestamp") => "timestamp",
        other if other.starts_with("Time") => "time",
        other if other.starts_with("Interval") => "interval",
        other => other,
    }
}
