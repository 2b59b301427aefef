// SPDX-License-Identifier: Apache-2.0
//! What a server answers, as SQL errors.

use crate::error::{SqlError, SqlState};
use coeval_tique::{SqlState as TiqueState, TiqueError};

/// When a server that has stopped goes on.
const OPENED_AGAIN: &str = "Recovery settles what was being committed when the server is opened again, which the next \
                            transaction does if it is a PostgreSQL server, and Coeval's next start if not";

impl From<TiqueError> for SqlError {
    fn from(error: TiqueError) -> Self {
        let state = SqlState::of_code(error.state.code()).unwrap_or(SqlState::FdwError);
        let mut known = Self::new(state, error.message);
        (known.detail, known.hint) = (error.detail, error.hint.map(String::into_boxed_str));
        // The library's users open it themselves.
        match state {
            SqlState::TransactionResolutionUnknown if error.state != TiqueState::CommittedUnseen => {
                known.hint =
                    Some(format!("{OPENED_AGAIN}; then look for what the transaction wrote.").into());
            }
            SqlState::CannotConnectNow => {
                known.hint = Some(format!("Nothing of this was done. {OPENED_AGAIN}.").into());
            }
            _ => {}
        }
        match error.place {
            Some(place) => known.at(place.line, place.column),
            None => known,
        }
    }
}

/// `42704`.
pub(crate) fn unknown_server(name: &str) -> SqlError {
    SqlError::new(SqlState::UndefinedObject, format!("server \"{name}\" does not exist"))
        .with_hint("CREATE SERVER makes one; it is there for others once its transaction has committed.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_state_is_the_clients() {
        for state in [
            "08006", "08007", "0A000", "23505", "25P02", "40001", "42622", "42939", "54000", "55P03",
            "57014", "57P03", "HV000",
        ] {
            assert_eq!(SqlState::of_code(state).map(SqlState::code), Some(state));
        }
    }
}
