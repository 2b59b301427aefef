// SPDX-License-Identifier: Apache-2.0
//! Offsets of a window's frame that are no plain numbers of rows: `ROWS $1 PRECEDING`, `RANGE interval '7 days' PRECEDING`,
//! `RANGE 0.75 PRECEDING`.
//!
//! DataFusion has values for them in its plans. So the offset goes into a call of [`FRAME_OFFSET`] that is the first thing which the
//! window is divided by, the same for all rows, and the bound is that of the current row until the offset is known
//! ([`frame_offsets`](crate::query::frame_offsets)).

use super::tables::names_columns;
use super::{call, casts, text};
use crate::parse::FRAME_OFFSET;
use crate::query::subqueries::has_subquery;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, Interval, Value, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

/// Takes such offsets out of the frame of a call's window.
pub(super) fn take_of_call(function: &mut Function) {
    if let Some(WindowType::WindowSpec(window)) = &mut function.over {
        take(window);
    }
}

/// Takes such offsets out of a window's frame.
pub(super) fn take(window: &mut WindowSpec) {
    let Some(frame) = &mut window.window_frame else { return };
    let units = frame.units;
    let start = taken("starting", &mut frame.start_bound, units);
    let end = frame.end_bound.as_mut().and_then(|bound| taken("ending", bound, units));
    drop(window.partition_by.splice(0..0, start.into_iter().chain(end)));
}

/// The call for the offset of a bound, whose place the current row takes; `None` if the bound stays as it is.
fn taken(end: &str, bound: &mut WindowFrameBound, units: WindowFrameUnits) -> Option<Expr> {
    let (side, offset): (&str, &Expr) = match &*bound {
        WindowFrameBound::Preceding(Some(offset)) => ("preceding", offset.as_ref()),
        WindowFrameBound::Following(Some(offset)) => ("following", offset.as_ref()),
        _ => return None,
    };
    if is_literal(offset, units) || names_columns(offset) || has_subquery(offset) {
        return None;
    }
    let offset = match units {
        WindowFrameUnits::Range => as_written(offset).map_or_else(|| offset.clone(), text),
        WindowFrameUnits::Rows | WindowFrameUnits::Groups => {
            casts::cast(offset.clone(), DataType::BigInt(None))
        }
    };
    *bound = WindowFrameBound::CurrentRow;
    Some(call(FRAME_OFFSET, vec![text(end), text(side), offset]))
}

/// The text that an offset is, without a type: `RANGE '0.5' PRECEDING`. The parser reads each text here as an interval, as if that word stood in
/// front of it, and the two cannot be told apart. So those that have a word for a unit stay intervals, which they are where they can be added.
fn as_written(offset: &Expr) -> Option<&str> {
    let Expr::Interval(interval) = offset else { return None };
    let Interval {
        value,
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    } = interval
    else {
        return None;
    };
    let Expr::Value(value) = value.as_ref() else { return None };
    let Value::SingleQuotedString(written) = &value.value else { return None };
    let is_length =
        written.contains(|letter: char| letter.is_ascii_digit()) && written.parse::<f64>().is_err();
    (!is_length).then_some(written)
}

/// Whether DataFusion takes the offset as it is written.
fn is_literal(offset: &Expr, units: WindowFrameUnits) -> bool {
    match units {
        // It would make an offset of anything, such as of 1 beside a date or of one below zero.
        WindowFrameUnits::Range => false,
        WindowFrameUnits::Rows | WindowFrameUnits::Groups => is_count(offset),
    }
}

/// Whether the offset is a number of rows, and not of more than there are numbers for.
fn is_count(offset: &Expr) -> bool {
    match offset {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_count(inner),
        Expr::Interval(interval) => matches!(interval.value.as_ref(), Expr::Value(_)),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse::<i64>().is_ok(),
            Value::SingleQuotedString(_) => true,
            _ => false,
        },
        _ => false,
    }
}
