// SPDX-License-Identifier: Apache-2.0
//! Conditions of paths: true, false, or unknown, as what cannot be compared is, and what meets an error.

use super::following::{Failure, Following, Outcome, Scope, number_of, part};
use super::{CompareOp, Item, Predicate};
use crate::functions::compiled_for_operator;
use crate::scalar::LetterCase;
use crate::stack::with_room;
use crate::types::json::Kind;
use chrono_tz::Tz;
use std::cmp::Ordering;

impl<'d> Following<'_, 'd> {
    /// What a condition says; `None` if it is unknown.
    pub(super) fn truth(
        &self,
        predicate: &Predicate,
        item: &Item<'d>,
        scope: Scope<'_, 'd>,
    ) -> Outcome<Option<bool>> {
        match predicate {
            Predicate::And(left, right) => {
                let left = with_room(|| self.truth(left, item, scope))?;
                if left == Some(false) {
                    return Ok(left);
                }
                let right = with_room(|| self.truth(right, item, scope))?;
                Ok(if right == Some(true) { left } else { right })
            }
            Predicate::Or(left, right) => {
                let left = with_room(|| self.truth(left, item, scope))?;
                if left == Some(true) {
                    return Ok(left);
                }
                let right = with_room(|| self.truth(right, item, scope))?;
                Ok(if right == Some(false) { left } else { right })
            }
            Predicate::Not(inner) => Ok(with_room(|| self.truth(inner, item, scope))?.map(|truth| !truth)),
            Predicate::IsUnknown(inner) => Ok(Some(with_room(|| self.truth(inner, item, scope))?.is_none())),
            Predicate::Exists(expression) => {
                let mut found = Vec::new();
                let outcome = self.expression(expression, item, scope, &mut found);
                // Who is lax looks no further than to the first.
                if self.is_lax() && !found.is_empty() {
                    return without_error(outcome.map(|()| true)).map(|_| Some(true));
                }
                Ok(without_error(outcome)?.map(|()| !found.is_empty()))
            }
            Predicate::Compare(comparison, left, right) => {
                let Some(left) = without_error(self.opened_values(left, item, scope))? else {
                    return Ok(None);
                };
                let Some(right) = without_error(self.opened_values(right, item, scope))? else {
                    return Ok(None);
                };
                self.any(&left, &right, |left, right| compared(*comparison, left, right, self.zone()))
            }
            Predicate::StartsWith(value, initial) => {
                let Some(values) = without_error(self.opened_values(value, item, scope))? else {
                    return Ok(None);
                };
                let Some(initials) = without_error(self.values(initial, item, scope))? else {
                    return Ok(None);
                };
                self.any(&values, &initials, |value, initial| {
                    let (Some(value), Some(initial)) = (value.string(), initial.string()) else {
                        return Ok(None);
                    };
                    Ok(Some(value.starts_with(&*initial)))
                })
            }
            Predicate::LikeRegex(value, pattern) => {
                let Some(values) = without_error(self.opened_values(value, item, scope))? else {
                    return Ok(None);
                };
                let regex = compiled_for_operator(&pattern.compiled, LetterCase::Sensitive)
                    .map_err(Failure::OfStatement)?;
                self.any(&values, &[Item::part("null")], |value, _| {
                    let Some(text) = value.string() else { return Ok(None) };
                    regex.is_match(&text, self.meter()).map(Some).map_err(Failure::OfStatement)
                })
            }
        }
    }

    /// Whether something is so of any pair: at once in lax mode, and in strict mode if nothing is unknown.
    fn any(
        &self,
        left: &[Item<'d>],
        right: &[Item<'d>],
        is_so: impl Fn(&Item<'d>, &Item<'d>) -> Outcome<Option<bool>>,
    ) -> Outcome<Option<bool>> {
        let (mut is_unknown, mut is_any) = (false, false);
        for left in left {
            for right in right {
                self.meter().step().map_err(Failure::OfStatement)?;
                match is_so(left, right)? {
                    None if !self.is_lax() => return Ok(None),
                    None => is_unknown = true,
                    Some(true) if self.is_lax() => return Ok(Some(true)),
                    Some(truth) => is_any |= truth,
                }
            }
        }
        Ok(if is_any { Some(true) } else { (!is_unknown).then_some(false) })
    }
}

/// What came of it; `None` if that is an error of the path.
fn without_error<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(Failure::OfPath(_)) => Ok(None),
        Err(Failure::OfStatement(error)) => Err(Failure::OfStatement(error)),
    }
}

/// How two values compare; `None` if they do not.
fn compared(
    comparison: CompareOp,
    left: &Item<'_>,
    right: &Item<'_>,
    zone: Option<Tz>,
) -> Outcome<Option<bool>> {
    let (left_part, right_part) = (part(left), part(right));
    let order = match (left_part.kind(), right_part.kind()) {
        (Kind::Null, Kind::Null) => Ordering::Equal,
        (Kind::Null, _) | (_, Kind::Null) => return Ok(Some(comparison == CompareOp::NotEqual)),
        (Kind::Boolean, Kind::Boolean) => (left_part.text() == "true").cmp(&(right_part.text() == "true")),
        (Kind::String, Kind::String) => match (left.moment(), right.moment()) {
            (None, None) => left_part.string().cmp(&right_part.string()),
            (Some(left), Some(right)) => match left.compare(right, zone).map_err(Failure::OfStatement)? {
                Some(order) => order,
                None => return Ok(None),
            },
            _ => return Ok(None),
        },
        (Kind::Number, Kind::Number) => {
            let (Some(left), Some(right)) = (number_of(left)?, number_of(right)?) else { return Ok(None) };
            left.compare(right).map_err(Failure::OfPath)?
        }
        _ => return Ok(None),
    };
    Ok(Some(comparison.holds(order)))
}
