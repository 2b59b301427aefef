// SPDX-License-Identifier: Apache-2.0
//! The options of a view, of CREATE VIEW and ALTER VIEW: what is checked of rows that are written through it. The others that
//! PostgreSQL knows may be off, as they are here.

use super::lookup;
use crate::error::{SqlError, SqlState};
use crate::parse::CHECK_OPTION;
use coeval_store::CheckOption;
use datafusion::sql::sqlparser::ast::{Expr, Ident, SqlOption};

/// Options that are on or off.
const SWITCHES: [&str; 2] = ["security_barrier", "security_invoker"];

/// What the options say of the check; `None` if they say nothing.
///
/// # Errors
/// `22023` for an option that is none, or a value that it does not take; `0A000` for a switch that is on.
pub(super) fn check(options: &[SqlOption]) -> Result<Option<CheckOption>, SqlError> {
    let mut check = None;
    for option in options {
        match option {
            SqlOption::KeyValue { key, value } if lookup::fold(key) == CHECK_OPTION => {
                check = Some(check_of(value)?);
            }
            SqlOption::KeyValue { key, value } => require_off(key, &text_of(value))?,
            SqlOption::Ident(key) => require_off(key, "true")?,
            other => return Err(SqlError::unsupported(format!("option {other} of a view"))),
        }
    }
    Ok(check)
}

fn check_of(value: &Expr) -> Result<CheckOption, SqlError> {
    match text_of(value).as_str() {
        "local" => Ok(CheckOption::Local),
        "cascaded" => Ok(CheckOption::Cascaded),
        _ => {
            let message = format!("invalid value for enum option \"{CHECK_OPTION}\": {value}");
            Err(SqlError::new(SqlState::InvalidParameterValue, message)
                .with_detail("Valid values are \"local\" and \"cascaded\"."))
        }
    }
}

fn require_off(key: &Ident, value: &str) -> Result<(), SqlError> {
    let name = lookup::fold(key);
    let invalid = |message: String| Err(SqlError::new(SqlState::InvalidParameterValue, message));
    if !SWITCHES.contains(&name.as_str()) {
        return invalid(format!("unrecognized parameter \"{name}\""));
    }
    match value {
        "false" | "off" | "no" | "0" => Ok(()),
        "true" | "on" | "yes" | "1" => Err(SqlError::unsupported(format!("option {name} of a view"))),
        _ => invalid(format!("invalid value for boolean option \"{name}\": {value}")),
    }
}

fn text_of(value: &Expr) -> String {
    value.to_string().trim_matches('\'').to_lowercase()
}
