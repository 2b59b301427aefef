// SPDX-License-Identifier: Apache-2.0
//! Errors of DataFusion and Arrow as SQL errors. Where both tell kinds apart by their text alone, [`texts`](super::texts) does.

use super::columns::unknown_column;
use super::memory::out_of_memory;
use super::texts::{cast_error, execution_error, internal_error, not_implemented, plan_error};
use crate::error::{SqlError, SqlState};
use arrow::error::ArrowError;
use coeval_store::EnumType;
use datafusion::common::{Column, SchemaError};
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

/// Whether what an error is about stands in a text alone: it has no type of its own, and is none of ours.
pub(crate) fn is_in_words(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::Plan(_)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Execution(_)
        | DataFusionError::Internal(_) => true,
        DataFusionError::Context(_, error) | DataFusionError::Diagnostic(_, error) => is_in_words(error),
        DataFusionError::Shared(error) => is_in_words(error),
        DataFusionError::Collection(errors) => errors.first().is_some_and(is_in_words),
        _ => false,
    }
}

/// The error of ours that one of DataFusion's carries.
pub(crate) fn own_error(error: &DataFusionError) -> Option<&SqlError> {
    match error {
        DataFusionError::External(error) => error.downcast_ref(),
        DataFusionError::Context(_, error) | DataFusionError::Diagnostic(_, error) => own_error(error),
        DataFusionError::Shared(error) => own_error(error),
        DataFusionError::Collection(errors) => errors.first().and_then(own_error),
        _ => None,
    }
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

/// The columns that have a table's name, behind it.
fn of_tables(columns: &[Column]) -> impl Iterator<Item = (&str, &str)> {
    columns.iter().filter_map(|column| Some((column.relation.as_ref()?.table(), column.name.as_str())))
}

fn schema_error(error: &SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => match &field.relation {
            Some(relation)
                if !valid_fields.iter().any(|valid| {
                    valid.relation.as_ref().is_some_and(|known| known.table() == relation.table())
                }) =>
            {
                SqlError::missing_from(relation.table())
            }
            Some(relation) => unknown_column(Some(relation.table()), &field.name, of_tables(valid_fields)),
            None => unknown_column(None, &field.name, of_tables(valid_fields)),
        },
        SchemaError::AmbiguousReference { field } => SqlError::new(
            SqlState::AmbiguousColumn,
            format!("column reference \"{}\" is ambiguous", field.name),
        ),
        // No relation has two columns of one name, so two relations have one name.
        SchemaError::DuplicateQualifiedField { qualifier, .. } => {
            let message = format!("table name \"{}\" specified more than once", qualifier.table());
            SqlError::new(SqlState::DuplicateAlias, message)
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            SqlError::new(SqlState::DuplicateColumn, format!("column \"{name}\" specified more than once"))
        }
    }
}
