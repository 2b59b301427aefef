// SPDX-License-Identifier: Apache-2.0
//! What becomes of a panic in the places that every commit depends on: the leader, the syncer, the keeper, a checkpoint.
//!
//! A panic there is a bug, and what was under way may be half done: a transaction noted as committed whose record was
//! never written, a version that would be given twice. So commits stop for good, with the reason, as they do when the
//! log fails; everybody who waits is told; the log takes nothing more. Reads go on. The next open finds what is durable.

use super::Publishing;
use crate::error::StoreError;
use crate::log::LogError;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what commits depend on. If it panics, commits stop.
///
/// # Errors
/// [`StoreError::Stopped`] with the panic's text.
pub(crate) fn contained<T>(
    publishing: &Publishing,
    during: &'static str,
    run: impl FnOnce() -> T,
) -> Result<T, StoreError> {
    // What a panic leaves half done is not used again: commits have stopped, and worlds are put in place whole.
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        StoreError::Stopped(stop(publishing, LogError::Panicked { during, text: text_of(&*panic) }))
    })
}

/// Stops commits and the log. Returns the reason that everybody is given: the first one.
pub(crate) fn stop(publishing: &Publishing, reason: LogError) -> LogError {
    tracing::error!(%reason, "commits have stopped");
    if let Some(log) = publishing.log() {
        log.stop(reason.clone());
    }
    publishing.stop(reason)
}

/// What a panic said.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text").to_owned()
}
