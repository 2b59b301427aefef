// SPDX-License-Identifier: Apache-2.0
//! The memory of rows that a statement keeps of those that it changes until it is done: what it returns of them, and what it proposes.

use super::QueryEnvironment;
use crate::error::SqlError;
use coeval_store::{Value, ValueRef};
use datafusion::execution::memory_pool::MemoryReservation;
use std::sync::Arc;

/// Memory is asked for in steps of this size: most statements return next to nothing.
const STEP_BYTES: usize = 256 << 10;

/// What a value takes, whatever stands beside it.
const SLOT_BYTES: usize = size_of::<Value>();

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ReturnedMemory {
    /// None as long as the rows are small.
    reservation: Option<MemoryReservation>,
    /// What was not asked for yet.
    bytes: usize,
}

impl ReturnedMemory {
    /// Takes memory for a value.
    ///
    /// # Errors
    /// `53200` if there is none for it.
    #[inline]
    pub(crate) fn add(&mut self, value: ValueRef<'_>, queries: &QueryEnvironment) -> Result<(), SqlError> {
        let beside = match value {
            ValueRef::Text(text) => text.len(),
            ValueRef::Bytes(bytes) => bytes.len(),
            ValueRef::Number(number) => number.as_bytes().len(),
            ValueRef::List(list) => list.encoded().len(),
            _ => 0,
        };
        self.bytes += SLOT_BYTES + beside;
        if self.bytes < STEP_BYTES { Ok(()) } else { self.ask(queries) }
    }

    #[cold]
    fn ask(&mut self, queries: &QueryEnvironment) -> Result<(), SqlError> {
        if self.reservation.is_none() {
            self.reservation = Some(queries.reserve(0, "rows of a change")?);
        }
        if let Some(reservation) = &self.reservation {
            reservation.try_grow(std::mem::take(&mut self.bytes))?;
        }
        Ok(())
    }

    /// What was taken, to be held as long as anybody has the rows; nothing if they are small.
    pub(crate) fn taken(self) -> Option<Arc<MemoryReservation>> {
        self.reservation.map(Arc::new)
    }
}
