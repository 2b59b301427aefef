// SPDX-License-Identifier: Apache-2.0
//! What expressions may ask of the statement they belong to, beside the transaction that it changes.

use crate::clock::Clock;
use crate::context::{SequenceValues, StatementContext};
use crate::engine::Engine;
use crate::error::SqlError;
use crate::memory::QueryEnvironment;
use crate::scalar::Environment;
use chrono_tz::Tz;
use coeval_store::{SequenceDef, Transaction, Value};
use std::cell::RefCell;
use std::sync::Arc;

/// The statement as its expressions see it.
pub(super) struct StatementEnvironment<'a> {
    engine: &'a Arc<Engine>,
    pub(super) zone: Tz,
    clock: Clock,
    sequences: RefCell<&'a mut SequenceValues>,
    pub(super) parameters: &'a [Value],
}

/// The statement's parts: what expressions need, and the transaction that is changed meanwhile.
pub(super) fn split<'a>(
    context: &'a mut StatementContext<'_>,
) -> (StatementEnvironment<'a>, &'a mut Transaction) {
    let environment = StatementEnvironment {
        engine: context.engine,
        zone: context.settings.zone(),
        clock: context.clock,
        sequences: RefCell::new(context.sequences),
        parameters: context.parameters,
    };
    (environment, context.transaction)
}

impl StatementEnvironment<'_> {
    /// Where it asks for memory.
    pub(super) fn queries(&self) -> &QueryEnvironment {
        &self.engine.queries
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
        self.sequences.borrow_mut().note(sequence, value);
        Ok(value)
    }
}
