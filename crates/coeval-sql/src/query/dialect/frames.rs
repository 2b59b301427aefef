// SPDX-License-Identifier: Apache-2.0
//! Frames of windows that PostgreSQL refuses, in its words. DataFusion refuses most of them, later and without saying that they are about
//! windows.

use crate::error::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{WindowFrameBound as Bound, WindowFrameUnits, WindowSpec};

/// Looks at the frame of a window that has what it takes from another one.
///
/// # Errors
/// `42P20` for bounds that no row lies between, and for a window without the order that its frame needs.
pub(super) fn check(window: &WindowSpec) -> Result<(), SqlError> {
    let Some(frame) = &window.window_frame else { return Ok(()) };
    let (start, end) = (&frame.start_bound, frame.end_bound.as_ref());
    let has_offset = [Some(start), end].into_iter().flatten().any(has_offset);
    let refused = of_bounds(start, end).or(match frame.units {
        WindowFrameUnits::Range if has_offset && window.order_by.len() != 1 => {
            Some("RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column")
        }
        WindowFrameUnits::Groups if window.order_by.is_empty() => {
            Some("GROUPS mode requires an ORDER BY clause")
        }
        _ => None,
    });
    match refused {
        Some(message) => Err(SqlError::new(SqlState::WindowingError, message)),
        None => Ok(()),
    }
}

/// What is wrong with bounds; without an end the frame ends with the current row.
fn of_bounds(start: &Bound, end: Option<&Bound>) -> Option<&'static str> {
    match (start, end) {
        (Bound::Following(None), _) => Some("frame start cannot be UNBOUNDED FOLLOWING"),
        (_, Some(Bound::Preceding(None))) => Some("frame end cannot be UNBOUNDED PRECEDING"),
        (Bound::CurrentRow, Some(Bound::Preceding(_))) => {
            Some("frame starting from current row cannot have preceding rows")
        }
        (Bound::Following(_), None) => Some("frame starting from following row cannot end with current row"),
        (Bound::Following(_), Some(Bound::CurrentRow | Bound::Preceding(_))) => {
            Some("frame starting from following row cannot have preceding rows")
        }
        _ => None,
    }
}

fn has_offset(bound: &Bound) -> bool {
    matches!(bound, Bound::Preceding(Some(_)) | Bound::Following(Some(_)))
}
