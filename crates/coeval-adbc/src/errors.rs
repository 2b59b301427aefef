// SPDX-License-Identifier: Apache-2.0
//! Errors as ADBC has them: a status by the class of the SQLSTATE, the SQLSTATE itself, and a message.

use adbc_core::error::{Error, Result, Status};
use coeval::{SqlError, SqlState};
use std::os::raw::c_char;

/// The error for what the database says.
pub(crate) fn of_database(error: &coeval::Error) -> Error {
    match error {
        coeval::Error::Sql(error) => of_sql(error),
        other => of_state(other.state().code(), other.to_string(), Vec::new()),
    }
}

/// The error for something that is wrong with a statement or its values.
pub(crate) fn of_sql(error: &SqlError) -> Error {
    let mut message = error.message.clone();
    for (what, text) in [("DETAIL", error.detail.as_deref()), ("HINT", error.hint.as_deref())] {
        if let Some(text) = text {
            message.push_str(&format!("\n{what}: {text}"));
        }
    }
    of_state(error.state.code(), message, diagnostics(error))
}

/// The error for a call that is wrong by itself.
pub(crate) fn refused(state: SqlState, message: impl Into<String>) -> Error {
    of_state(state.code(), message.into(), Vec::new())
}

/// As [`refused`], for a SQLSTATE that the database itself never answers with.
pub(crate) fn refused_by_code(code: &str, message: impl Into<String>) -> Error {
    of_state(code, message.into(), Vec::new())
}

/// The error for an order in which ADBC's calls are not to come, or for what is closed.
pub(crate) fn misplaced(message: impl Into<String>) -> Error {
    Error::with_message_and_status(message, Status::InvalidState)
}

/// The error for what ADBC has and this driver has not.
pub(crate) fn missing<T>(what: &str) -> Result<T> {
    let message = format!("{what} is not supported");
    Err(of_state(SqlState::FeatureNotSupported.code(), message, Vec::new()))
}

/// The same with another status.
pub(crate) fn with_status(mut error: Error, status: Status) -> Error {
    error.status = status;
    error
}

/// Whether an error has this SQLSTATE.
pub(crate) fn is(error: &Error, state: SqlState) -> bool {
    error.sqlstate == characters(state.code())
}

fn of_state(code: &str, message: String, details: Vec<(String, Vec<u8>)>) -> Error {
    Error {
        // A message of C ends at its first zero.
        message: message.replace('\0', "\u{FFFD}"),
        status: status_of(code),
        vendor_code: 0,
        sqlstate: characters(code),
        details: (!details.is_empty()).then_some(details),
    }
}

fn characters(code: &str) -> [c_char; 5] {
    let mut characters = [0; 5];
    for (character, byte) in characters.iter_mut().zip(code.bytes()) {
        *character = byte as c_char;
    }
    characters
}

/// The status that stands for a SQLSTATE.
///
/// A conflict (class 40) has the status of ADBC's driver for PostgreSQL. ADBC has none for it; this one is an
/// `OperationalError` in Python, which PEP 249 wants for a transaction that could not be processed, and it is not taken for
/// what the program has done wrong, nor for a cancellation that somebody asked for.
fn status_of(code: &str) -> Status {
    match code {
        "42P01" | "42704" | "3D000" | "3F000" => return Status::NotFound,
        "42P06" | "42P07" | "42710" | "42723" => return Status::AlreadyExists,
        "42501" => return Status::Unauthorized,
        "57014" => return Status::Cancelled,
        "55P03" | "25P03" | "57P05" => return Status::Timeout,
        _ => {}
    }
    match code.get(..2).unwrap_or_default() {
        "0A" => Status::NotImplemented,
        "21" | "22" => Status::InvalidData,
        "23" | "2B" | "44" => Status::Integrity,
        "24" | "25" | "26" | "2D" | "34" | "3B" | "55" => Status::InvalidState,
        "28" => Status::Unauthenticated,
        "07" | "0L" | "42" | "54" => Status::InvalidArguments,
        "08" | "40" | "53" | "57" | "58" | "HV" => Status::IO,
        "XX" => Status::Internal,
        _ => Status::Unknown,
    }
}

/// What else is known of an error, by the names that ADBC's driver for PostgreSQL uses.
fn diagnostics(error: &SqlError) -> Vec<(String, Vec<u8>)> {
    let object = error.object.as_deref();
    let position = error.position.map(|position| position.to_string());
    let all = [
        ("PG_DIAG_SQLSTATE", Some(error.state.code())),
        ("PG_DIAG_MESSAGE_PRIMARY", Some(error.message.as_str())),
        ("PG_DIAG_MESSAGE_DETAIL", error.detail.as_deref()),
        ("PG_DIAG_MESSAGE_HINT", error.hint.as_deref()),
        ("PG_DIAG_STATEMENT_POSITION", position.as_deref()),
        ("PG_DIAG_CONTEXT", error.context.as_deref()),
        ("PG_DIAG_SCHEMA_NAME", object.and_then(|object| object.schema.as_deref())),
        ("PG_DIAG_TABLE_NAME", object.and_then(|object| object.table.as_deref())),
        ("PG_DIAG_COLUMN_NAME", object.and_then(|object| object.column.as_deref())),
        ("PG_DIAG_CONSTRAINT_NAME", object.and_then(|object| object.constraint.as_deref())),
    ];
    let known = all.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).collect()
}
