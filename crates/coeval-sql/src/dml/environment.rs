// SPDX-License-Identifier: Apache-2.0
//! What expressions may ask of the statement they belong to, beside the transaction that it changes.

use crate::context::{Clock, SequenceValues, StatementContext};
use crate::engine::Engine;
use crate::error::SqlError;
use crate::scalar::Environment;
use chrono_tz::Tz;
use coeval_store::{SequenceId, StoreError, Transaction, Value, World};
use std::cell::RefCell;
use std::sync::Arc;

/// The statement as its expressions see it.
pub(super) struct StatementEnvironment<'a> {
    engine: &'a Arc<Engine>,
    pub(super) zone: Tz,
    clock: Clock,
    /// Definitions as they were when the statement began; DML changes none.
    world: Arc<World>,
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
        world: Arc::clone(context.transaction.world()),
        sequences: RefCell::new(context.sequences),
        parameters: context.parameters,
    };
    (environment, context.transaction)
}

impl Environment for StatementEnvironment<'_> {
    fn transaction_time(&self) -> i64 {
        self.clock.transaction_micros
    }

    fn zone(&self) -> Tz {
        self.zone
    }

    fn next_value(&self, sequence: SequenceId) -> Result<i64, SqlError> {
        let definition = self.world.catalog().sequence(sequence).ok_or(StoreError::UnknownSequence)?;
        let value = self.engine.store().next_value(definition)?;
        self.sequences.borrow_mut().note(sequence, value);
        Ok(value)
    }
}
