// SPDX-License-Identifier: Apache-2.0
//! The answers of a subquery for a batch of rows. One is known for each combination of outer values, and copied for each row that has
//! it: eight thousand copies of a long text, or of many rows, are counted before they are made.

use super::NAME;
use crate::allowance::Meter;
use crate::error::{SqlError, SqlState};
use arrow::array::Array;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::memory_pool::MemoryReservation;

/// Counts copies of answers.
pub(super) struct Copies<'k> {
    values: Meter,
    /// Of rows a batch may have as much as the query.
    rows: &'k MemoryReservation,
    members: usize,
}

impl<'k> Copies<'k> {
    /// None, of a statement with these options. What rows take is added to `rows`.
    pub(super) fn none(options: &ConfigOptions, rows: &'k MemoryReservation) -> Self {
        Self { values: Meter::begin(options, NAME), rows, members: 0 }
    }

    /// One more copy.
    ///
    /// # Errors
    /// `53200`, `54000`.
    pub(super) fn of(&mut self, answer: &ScalarValue) -> Result<ScalarValue> {
        match answer {
            ScalarValue::List(list) => {
                // They are copied when they become one array, whose offsets have 31 bits.
                self.members = self.members.saturating_add(list.values().len());
                if i32::try_from(self.members).is_err() {
                    let message = "the rows of a subquery are too many for a batch of rows around it";
                    return Err(SqlError::new(SqlState::ProgramLimitExceeded, message).into());
                }
                self.rows.try_grow(list.to_data().get_slice_memory_size()?)?;
            }
            // By itself, and in the array that is made of all.
            value => self.values.take(value.size().saturating_mul(2))?,
        }
        Ok(answer.clone())
    }
}
