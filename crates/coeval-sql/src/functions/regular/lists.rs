// SPDX-License-Identifier: Apache-2.0
//! Texts and lists of patterns: what is behind `x LIKE ANY (array)`, `x !~ ALL (array)` and their like.

use super::pattern::{Options, compiled};
use crate::allowance::Meter;
use crate::error::SqlError;
use crate::functions::call::Call;
use crate::functions::choice::{Form, Takes};
use crate::functions::{Entry, strict};
use crate::scalar::{LetterCase, LikeStyle, like};
use coeval_store::{ColumnType, ElementType, Value};

/// The function that tells whether one of the patterns fits.
pub(crate) const MATCHES_ANY: &str = "coeval_matches_any";

/// The one that tells whether each does.
pub(crate) const MATCHES_ALL: &str = "coeval_matches_all";

const TAKEN: &[Takes] =
    &[Takes::Type(ColumnType::Text), Takes::Array(ElementType::Text), Takes::Type(ColumnType::Text)];

/// Of a text, the patterns, and the operator that compares with each.
pub(in crate::functions) const ENTRIES: &[Entry] = &[
    strict(MATCHES_ANY, &[Form::new(TAKEN, ColumnType::Boolean, |call| told(call, Deciding::Match))]),
    strict(MATCHES_ALL, &[Form::new(TAKEN, ColumnType::Boolean, |call| told(call, Deciding::Miss))]),
];

/// What one pattern decides for all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deciding {
    Match,
    Miss,
}

fn told(call: &Call<'_>, deciding: Deciding) -> Result<Value, SqlError> {
    let operator = Operator::of(call.text(2))?;
    let decisive = deciding == Deciding::Match;
    let mut is_unknown = false;
    for pattern in call.elements(1) {
        call.meter.step()?;
        match pattern {
            Value::Text(pattern) => {
                if operator.holds(call.text(0), &pattern, call.meter)? == decisive {
                    return Ok(Value::Boolean(decisive));
                }
            }
            _ => is_unknown = true,
        }
    }
    Ok(if is_unknown { Value::Null } else { Value::Boolean(!decisive) })
}

/// `~~`, `!~~`, `~`, `!~`, and with a star those that ignore the case of letters.
struct Operator {
    is_like: bool,
    is_negated: bool,
    letters: LetterCase,
    options: Options,
}

impl Operator {
    fn of(name: &str) -> Result<Self, SqlError> {
        let ignores_case = name.ends_with('*');
        Ok(Self {
            is_like: name.contains("~~"),
            is_negated: name.starts_with('!'),
            letters: if ignores_case { LetterCase::Ignored } else { LetterCase::Sensitive },
            options: Options::parse(if ignores_case { "i" } else { "" })?,
        })
    }

    fn holds(&self, text: &str, pattern: &str, meter: &Meter) -> Result<bool, SqlError> {
        let fits = if self.is_like {
            let style = LikeStyle { escape: Some('\\'), letters: self.letters };
            like(text, pattern, style, || meter.look())?
        } else {
            compiled(pattern, self.options)?.is_match(text, meter)?
        };
        Ok(fits != self.is_negated)
    }
}
