// SPDX-License-Identifier: Apache-2.0
//! Evaluates a compiled expression for one row.

use super::arithmetic::{as_i128, calculate, negate};
use super::compare::{CompareOp, compare_scaled, compare_values, sql_equal};
use super::datum::Datum;
use super::environment::Inputs;
use super::node::{LikeStyle, Node, Scalar, Scaling, Test};
use super::pattern::like;
use crate::allowance::{VALUE_BYTES_MAX, too_large};
use crate::cancel;
use crate::error::SqlError;
use crate::memory::{Promise, room_for_a_value};
use crate::stack::with_room;
use coeval_store::ValueRef;
use std::cmp::Ordering;

/// A text that `||` makes is asked for if it is longer.
const LARGE_TEXT_BYTES: usize = 1 << 20;

impl Scalar {
    /// The value for these inputs.
    ///
    /// # Errors
    /// What SQL says about the operation: overflow, division by zero, a cast that fails.
    #[inline]
    pub(crate) fn eval<'a>(&'a self, inputs: Inputs<'a>) -> Result<Datum<'a>, SqlError> {
        self.node.eval(inputs)
    }

    /// Whether the condition is true: neither false nor NULL.
    ///
    /// # Errors
    /// As [`Self::eval`].
    #[inline]
    pub(crate) fn holds(&self, inputs: Inputs<'_>) -> Result<bool, SqlError> {
        Ok(self.node.eval(inputs)?.truth() == Some(true))
    }
}

impl Node {
    #[inline]
    pub(crate) fn eval<'a>(&'a self, inputs: Inputs<'a>) -> Result<Datum<'a>, SqlError> {
        match self {
            Self::Column { table, column } => Ok(Datum::Borrowed(inputs.rows.value(*table, *column))),
            Self::Parameter(index) => Ok(Datum::Borrowed(inputs.parameters[*index].borrow())),
            Self::Constant(value) => Ok(Datum::Borrowed(value.borrow())),
            _ => self.eval_operation(inputs),
        }
    }

    fn eval_operation<'a>(&'a self, inputs: Inputs<'a>) -> Result<Datum<'a>, SqlError> {
        match self {
            Self::Arithmetic { op, kind, left, right } => {
                let left = left.eval(inputs)?;
                let right = right.eval(inputs)?;
                if left.is_null() || right.is_null() {
                    return Ok(Datum::NULL);
                }
                calculate(*op, *kind, left.value(), right.value()).map(Datum::Borrowed)
            }
            Self::Negate(input) => {
                let input = input.eval(inputs)?;
                if input.is_null() { Ok(Datum::NULL) } else { negate(input.value()).map(Datum::Borrowed) }
            }
            Self::Cast { input, cast } => {
                let input = input.eval(inputs)?;
                if input.is_null() { Ok(Datum::NULL) } else { cast.apply(input, inputs.environment) }
            }
            Self::Column { .. } | Self::Parameter(_) | Self::Constant(_) => self.eval(inputs),
            Self::Compare { .. }
            | Self::Distinct { .. }
            | Self::And(_)
            | Self::Or(_)
            | Self::Not(_)
            | Self::Is { .. }
            | Self::In { .. }
            | Self::Among { .. }
            | Self::Like { .. } => self.truth(inputs).map(Datum::of_truth),
            Self::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    if condition.truth(inputs)? == Some(true) {
                        return result.eval(inputs);
                    }
                }
                otherwise.as_ref().map_or(Ok(Datum::NULL), |otherwise| otherwise.eval(inputs))
            }
            Self::Coalesce(alternatives) => {
                for alternative in alternatives {
                    let value = alternative.eval(inputs)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Datum::NULL)
            }
            Self::NullIf { left, right } => {
                let left = left.eval(inputs)?;
                let same = sql_equal(left.value(), right.eval(inputs)?.value()) == Some(true);
                Ok(if same { Datum::NULL } else { left })
            }
            Self::Extreme { wanted, inputs: candidates } => extreme(*wanted, candidates, inputs),
            Self::Concat(parts) => concat(parts, inputs),
            Self::Call { function, inputs: arguments } => function.call(arguments, inputs),
            Self::TransactionTime => {
                Ok(Datum::Borrowed(ValueRef::Int64(inputs.environment.transaction_time())))
            }
            Self::NextValue(sequence) => {
                inputs.environment.next_value(sequence).map(|v| Datum::Borrowed(ValueRef::Int64(v)))
            }
            Self::Fallback(fallback) => fallback.eval(inputs),
            Self::WithRoom(inner) => with_room(|| inner.eval(inputs)),
        }
    }

    /// The truth value of a condition; `None` for NULL.
    pub(crate) fn truth(&self, inputs: Inputs<'_>) -> Result<Option<bool>, SqlError> {
        match self {
            Self::Compare { op, scaling, left, right } => {
                let left = left.eval(inputs)?;
                let right = right.eval(inputs)?;
                Ok(compare(*scaling, left.value(), right.value()).map(|ordering| op.holds(ordering)))
            }
            Self::Distinct { polarity, left, right } => {
                let left = left.eval(inputs)?;
                let right = right.eval(inputs)?;
                let same = match (left.is_null(), right.is_null()) {
                    (false, false) => compare_values(left.value(), right.value()).is_eq(),
                    (left_null, right_null) => left_null == right_null,
                };
                Ok(Some(polarity.apply(!same)))
            }
            Self::And(conditions) => {
                decided::<false>(conditions.iter().map(|condition| condition.truth(inputs)))
            }
            Self::Or(conditions) => {
                decided::<true>(conditions.iter().map(|condition| condition.truth(inputs)))
            }
            Self::Not(input) => Ok(input.truth(inputs)?.map(|truth| !truth)),
            Self::WithRoom(inner) => with_room(|| inner.truth(inputs)),
            Self::Is { input, test } => {
                let input = input.eval(inputs)?;
                Ok(Some(match test {
                    Test::Null => input.is_null(),
                    Test::NotNull => !input.is_null(),
                    Test::True => input.truth() == Some(true),
                    Test::NotTrue => input.truth() != Some(true),
                    Test::False => input.truth() == Some(false),
                    Test::NotFalse => input.truth() != Some(false),
                }))
            }
            Self::In { input, list, polarity } => {
                let input = input.eval(inputs)?;
                let equals = |member: &Node| -> Result<Option<bool>, SqlError> {
                    Ok(sql_equal(input.value(), member.eval(inputs)?.value()))
                };
                Ok(decided::<true>(list.iter().map(equals))?.map(|truth| polarity.apply(truth)))
            }
            Self::Among { input, members, polarity } => {
                let input = input.eval(inputs)?;
                Ok(members.contain(input.value()).map(|truth| polarity.apply(truth)))
            }
            Self::Like { input, pattern, style, polarity } => {
                let input = input.eval(inputs)?;
                let pattern = pattern.eval(inputs)?;
                Ok(matches_pattern(&input, &pattern, *style)?.map(|truth| polarity.apply(truth)))
            }
            _ => Ok(self.eval(inputs)?.truth()),
        }
    }
}

#[inline]
fn compare(scaling: Scaling, left: ValueRef<'_>, right: ValueRef<'_>) -> Option<Ordering> {
    if left.is_null() || right.is_null() {
        return None;
    }
    Some(match scaling {
        Scaling::Same => compare_values(left, right),
        Scaling::Factors(left_factor, right_factor) => {
            compare_scaled(as_i128(left), left_factor, as_i128(right), right_factor)
        }
    })
}

/// The answer that decides if one has it, else NULL if one is NULL, else the other answer.
#[inline]
fn decided<const DECIDING: bool>(
    answers: impl Iterator<Item = Result<Option<bool>, SqlError>>,
) -> Result<Option<bool>, SqlError> {
    let mut result = Some(!DECIDING);
    for answer in answers {
        match answer? {
            Some(answer) if answer == DECIDING => return Ok(Some(answer)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

fn matches_pattern(
    input: &Datum<'_>,
    pattern: &Datum<'_>,
    style: LikeStyle,
) -> Result<Option<bool>, SqlError> {
    let (Some(text), Some(pattern)) = (input.value().as_str(), pattern.value().as_str()) else {
        return Ok(None);
    };
    like(text, pattern, style, cancel::check).map(Some)
}

fn extreme<'a>(wanted: CompareOp, candidates: &'a [Node], inputs: Inputs<'a>) -> Result<Datum<'a>, SqlError> {
    let mut best = Datum::NULL;
    for candidate in candidates {
        let value = candidate.eval(inputs)?;
        if value.is_null() {
            continue;
        }
        if best.is_null() || wanted.holds(compare_values(value.value(), best.value())) {
            best = value;
        }
    }
    Ok(best)
}

fn concat<'a>(parts: &'a [Node], inputs: Inputs<'a>) -> Result<Datum<'a>, SqlError> {
    let mut text = String::new();
    for part in parts {
        let part = part.eval(inputs)?;
        match part.value() {
            ValueRef::Null => return Ok(Datum::NULL),
            ValueRef::Text(piece) => {
                let _room = room_to_grow(&text, piece.len())?;
                text.push_str(piece);
            }
            other => panic!("the compiler makes text of what is concatenated, not {other}"),
        }
    }
    Ok(Datum::Text(text.into()))
}

/// A text is about to become this much longer: its buffer doubles while the shorter one is there. What this gives is held
/// until it has.
fn room_to_grow(text: &String, more: usize) -> Result<Option<Promise>, SqlError> {
    let length = text.len() + more;
    if length > VALUE_BYTES_MAX {
        return Err(too_large());
    }
    let is_asked_for = length > LARGE_TEXT_BYTES && length > text.capacity();
    is_asked_for.then(|| room_for_a_value(2 * length)).transpose()
}
