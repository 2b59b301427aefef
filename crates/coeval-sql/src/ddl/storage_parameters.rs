// SPDX-License-Identifier: Apache-2.0
//! `WITH (fillfactor = 70, ...)` behind a table or an index: how PostgreSQL lays out pages and cleans up behind
//! updates. There is neither here, so that what PostgreSQL knows is accepted and has no effect.

use crate::error::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, SqlOption};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// The parameters of tables and indexes that are not named by their beginning.
const PARAMETERS: [&str; 11] = [
    "fillfactor",
    "toast_tuple_target",
    "parallel_workers",
    "log_autovacuum_min_duration",
    "user_catalog_table",
    "vacuum_index_cleanup",
    "vacuum_truncate",
    "deduplicate_items",
    "buffering",
    "fastupdate",
    "pages_per_range",
];

/// Parameters that begin with this belong to the process that cleans up.
const CLEANER: &str = "autovacuum_";

/// Of a brick table: on how many nodes each brick is.
const REPLICAS: &str = "replicas";

/// Looks through the parameters of a table.
///
/// # Errors
/// `22023` for one that PostgreSQL does not know either.
pub(super) fn of_table(options: &[SqlOption]) -> Result<(), SqlError> {
    options.iter().try_for_each(|option| match option {
        SqlOption::KeyValue { key, .. } | SqlOption::Ident(key) => known(&key.value),
        other => Err(SqlError::unsupported(format!("table option {other}"))),
    })
}

/// Looks through the parameters of a brick table: on how many nodes of a cluster its bricks are, if `replicas` says so.
///
/// # Errors
/// As [`of_table`]; `22023` too if that is no number.
pub(super) fn replicas(options: &[SqlOption]) -> Result<Option<u32>, SqlError> {
    let mut found = None;
    for option in options {
        match option {
            SqlOption::KeyValue { key, value } if key.value.eq_ignore_ascii_case(REPLICAS) => {
                let text = value.to_string();
                let number: u32 = text.trim_matches('\'').parse().map_err(|_| {
                    let message = format!("invalid value for integer option \"{REPLICAS}\": {text}");
                    SqlError::new(SqlState::InvalidParameterValue, message)
                })?;
                found = Some(number);
            }
            other => of_table(std::slice::from_ref(other))?,
        }
    }
    Ok(found)
}

/// The names in parentheses behind RESET. PostgreSQL does not ask whether there are such parameters.
///
/// # Errors
/// A syntax error if these are no names, also for a name with a value.
pub(super) fn names_to_reset(parser: &mut Parser<'_>) -> Result<Vec<String>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
    parser.expect_token(&Token::RParen)?;
    Ok(names.iter().map(|name| name.to_string().to_lowercase()).collect())
}

/// Looks through the parameters of an index.
///
/// # Errors
/// As [`of_table`].
pub(super) fn of_index(options: &[Expr]) -> Result<(), SqlError> {
    options.iter().try_for_each(|option| match option {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, .. } => known(&left.to_string()),
        other => known(&other.to_string()),
    })
}

fn known(name: &str) -> Result<(), SqlError> {
    let name = name.to_lowercase();
    if PARAMETERS.contains(&name.as_str()) || name.starts_with(CLEANER) {
        return Ok(());
    }
    let message = format!("unrecognized parameter \"{name}\"");
    Err(SqlError::new(SqlState::InvalidParameterValue, message))
}
