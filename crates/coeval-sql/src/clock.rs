// SPDX-License-Identifier: Apache-2.0
//! The time of a statement and of its transaction.

use chrono::Utc;

/// The two times that stand still: `now()` in a transaction, `statement_timestamp()` in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// When the transaction began, in microseconds since 1970-01-01 UTC.
    pub transaction_micros: i64,
    /// When the statement began, likewise.
    pub statement_micros: i64,
}

impl Clock {
    /// A transaction that begins now, with BEGIN or with its only statement.
    #[must_use]
    pub fn start() -> Self {
        let now = Utc::now().timestamp_micros();
        Self { transaction_micros: now, statement_micros: now }
    }

    /// The next statement of the same transaction.
    #[must_use]
    pub fn next_statement(self) -> Self {
        Self { statement_micros: Utc::now().timestamp_micros(), ..self }
    }
}
