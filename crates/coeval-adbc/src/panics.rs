// SPDX-License-Identifier: Apache-2.0
//! Panics as errors. The exporter catches them as well, and then refuses every further call of the process.

use crate::errors::refused;
use adbc_core::error::{Error, Result};
use coeval::SqlState;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the work returns, or `XX000` if it panics. What it has left behind must bear that.
///
/// # Errors
/// What the work returns; `XX000`.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|cause| Err(of_cause(cause.as_ref())))
}

fn of_cause(cause: &(dyn Any + Send)) -> Error {
    let text = cause.downcast_ref::<&str>().copied();
    let text = text.or_else(|| cause.downcast_ref::<String>().map(String::as_str));
    let message = format!("a bug of Coeval: {}", text.unwrap_or("a panic without a text"));
    refused(SqlState::InternalError, message)
}
