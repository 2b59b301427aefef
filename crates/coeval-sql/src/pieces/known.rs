// SPDX-License-Identifier: Apache-2.0
//! [`Known`]: the functions that a piece may call, and how it names them.
//!
//! A piece names a function by its name in the engine's registry, or by its place among those that no registry has. It does so only if
//! the function of the plan is that very one, told by its value: so the same is called on the other side.

use super::wire::{Reader, Writer, malformed};
use crate::error::SqlError;
use crate::query::{
    ZONED_FUNCTIONS, checked_function, checked_operators, unregistered_aggregates, unregistered_scalars,
};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{AggregateUDF, Operator, ScalarUDF, Volatility, WindowUDF};
use std::collections::HashMap;
use std::sync::Arc;

const REGISTERED: u8 = 0;
const UNREGISTERED: u8 = 1;
const CHECKED: u8 = 2;

/// Operators between two values, each with its place for a number.
const OPERATORS: [Operator; 28] = [
    Operator::Eq,
    Operator::NotEq,
    Operator::Lt,
    Operator::LtEq,
    Operator::Gt,
    Operator::GtEq,
    Operator::Plus,
    Operator::Minus,
    Operator::Multiply,
    Operator::Divide,
    Operator::Modulo,
    Operator::And,
    Operator::Or,
    Operator::IsDistinctFrom,
    Operator::IsNotDistinctFrom,
    Operator::RegexMatch,
    Operator::RegexIMatch,
    Operator::RegexNotMatch,
    Operator::RegexNotIMatch,
    Operator::LikeMatch,
    Operator::ILikeMatch,
    Operator::NotLikeMatch,
    Operator::NotILikeMatch,
    Operator::BitwiseAnd,
    Operator::BitwiseOr,
    Operator::BitwiseXor,
    Operator::BitwiseShiftRight,
    Operator::BitwiseShiftLeft,
];

/// Writes an operator; `None` if pieces have no such.
pub(super) fn put_operator(out: &mut Writer, operator: Operator) -> Option<()> {
    let place = OPERATORS.iter().position(|known| *known == operator)?;
    out.byte(u8::try_from(place).ok()?);
    Some(())
}

pub(super) fn take_operator(from: &mut Reader<'_>) -> Result<Operator, SqlError> {
    let place = usize::from(from.byte()?);
    OPERATORS.get(place).copied().ok_or_else(|| malformed("there is no such operator"))
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Known {
    scalars: HashMap<String, Arc<ScalarUDF>>,
    aggregates: HashMap<String, Arc<AggregateUDF>>,
    windows: HashMap<String, Arc<WindowUDF>>,
    unregistered_scalars: Vec<Arc<ScalarUDF>>,
    unregistered_aggregates: Vec<Arc<AggregateUDF>>,
}

impl Known {
    /// Those of an engine's state.
    pub(crate) fn of(state: &SessionState) -> Self {
        Self {
            scalars: state.scalar_functions().clone(),
            aggregates: state.aggregate_functions().clone(),
            windows: state.window_functions().clone(),
            unregistered_scalars: unregistered_scalars(),
            unregistered_aggregates: unregistered_aggregates(),
        }
    }

    /// Writes how a function is named; `None` if it cannot be, or is not the same wherever it runs.
    pub(super) fn put_scalar(&self, out: &mut Writer, function: &ScalarUDF) -> Option<()> {
        if let Some(operators) = checked_operators(function) {
            out.byte(CHECKED);
            out.number(operators.len());
            return operators.iter().try_for_each(|operator| put_operator(out, *operator));
        }
        if let Some(place) = self.unregistered_scalars.iter().position(|known| known.as_ref() == function) {
            out.byte(UNREGISTERED);
            out.number(place);
            return Some(());
        }
        let registered = self.scalars.get(function.name())?;
        let is_same_everywhere = function.signature().volatility == Volatility::Immutable
            || ZONED_FUNCTIONS.contains(&function.name());
        if registered.as_ref() != function || !is_same_everywhere {
            return None;
        }
        out.byte(REGISTERED);
        out.text(function.name());
        Some(())
    }

    pub(super) fn take_scalar(&self, from: &mut Reader<'_>) -> Result<Arc<ScalarUDF>, SqlError> {
        let found = match from.byte()? {
            REGISTERED => self.scalars.get(from.text()?).cloned(),
            UNREGISTERED => self.unregistered_scalars.get(from.number()?).cloned(),
            CHECKED => checked_function(from.list(take_operator)?),
            _ => None,
        };
        found.ok_or_else(|| malformed("there is no such function"))
    }

    /// The same of a function of groups.
    pub(super) fn put_aggregate(&self, out: &mut Writer, function: &AggregateUDF) -> Option<()> {
        let is_this = |known: &Arc<AggregateUDF>| known.as_ref() == function;
        if let Some(place) = self.unregistered_aggregates.iter().position(is_this) {
            out.byte(UNREGISTERED);
            out.number(place);
            return Some(());
        }
        self.aggregates.get(function.name()).filter(|known| is_this(known))?;
        out.byte(REGISTERED);
        out.text(function.name());
        Some(())
    }

    pub(super) fn take_aggregate(&self, from: &mut Reader<'_>) -> Result<Arc<AggregateUDF>, SqlError> {
        let found = match from.byte()? {
            REGISTERED => self.aggregates.get(from.text()?).cloned(),
            UNREGISTERED => self.unregistered_aggregates.get(from.number()?).cloned(),
            _ => None,
        };
        found.ok_or_else(|| malformed("there is no such aggregate"))
    }

    /// The same of a function of windows alone.
    pub(super) fn put_window(&self, out: &mut Writer, function: &WindowUDF) -> Option<()> {
        let known = self.windows.get(function.name())?;
        if known.as_ref() != function {
            return None;
        }
        out.text(function.name());
        Some(())
    }

    pub(super) fn take_window(&self, from: &mut Reader<'_>) -> Result<Arc<WindowUDF>, SqlError> {
        let found = self.windows.get(from.text()?).cloned();
        found.ok_or_else(|| malformed("there is no such function of windows"))
    }
}
