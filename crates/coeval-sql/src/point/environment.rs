// SPDX-License-Identifier: Apache-2.0
//! What expressions of a point statement may ask of it.

use crate::context::{Clock, SequenceValues};
use crate::engine::Engine;
use crate::error::SqlError;
use crate::scalar::Environment;
use chrono_tz::Tz;
use coeval_store::SequenceDef;
use std::cell::RefCell;

/// The statement around an expression.
pub(super) struct StatementEnvironment<'a> {
    engine: &'a Engine,
    clock: Clock,
    zone: Tz,
    sequences: RefCell<&'a mut SequenceValues>,
}

impl<'a> StatementEnvironment<'a> {
    pub(super) fn new(engine: &'a Engine, clock: Clock, zone: Tz, sequences: &'a mut SequenceValues) -> Self {
        Self { engine, clock, zone, sequences: RefCell::new(sequences) }
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
        let value = self.engine.store().next_value(sequence)?;
        self.sequences.borrow_mut().note(sequence.id, value);
        Ok(value)
    }
}
