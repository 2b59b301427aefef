// SPDX-License-Identifier: Apache-2.0
//! What expressions of a point statement may ask of it.

use crate::clock::Clock;
use crate::context::SequenceValues;
use crate::engine::Engine;
use crate::error::{SqlError, SqlState};
use crate::scalar::Environment;
use chrono_tz::Tz;
use coeval_store::{AccessMode, SequenceDef};
use std::cell::RefCell;

/// The statement around an expression.
pub(super) struct StatementEnvironment<'a> {
    engine: &'a Engine,
    clock: Clock,
    zone: Tz,
    sequences: RefCell<&'a mut SequenceValues>,
    access: AccessMode,
}

impl<'a> StatementEnvironment<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        clock: Clock,
        zone: Tz,
        sequences: &'a mut SequenceValues,
        access: AccessMode,
    ) -> Self {
        Self { engine, clock, zone, sequences: RefCell::new(sequences), access }
    }
}

impl Environment for StatementEnvironment<'_> {
    fn transaction_time(&self) -> i64 {
        self.clock.transaction_micros
    }

    fn zone(&self) -> Tz {
        self.zone
    }

    fn next_value(&self, sequence: &SequenceDef) -> Result<i64, SqlError> {
        if self.access == AccessMode::ReadOnly {
            return Err(SqlError::new(
                SqlState::ReadOnlySqlTransaction,
                "cannot execute nextval() in a read-only transaction",
            ));
        }
        let value = self.engine.store().next_value(sequence)?;
        self.sequences.borrow_mut().note(sequence, value);
        Ok(value)
    }
}
