// SPDX-License-Identifier: Apache-2.0
//! Texts and lists of patterns: what is behind `x LIKE ANY (array)`, `x !~ ALL (array)` and their like.
//!
//! A thread keeps some patterns compiled. Where one that fits decides, those of a longer list are compiled as one pattern: they would be
//! compiled anew for each row, each in the place of another.

use super::pattern::{Options, Pattern, compiled, compiled_for_operator, pattern_of_operator};
use crate::allowance::Meter;
use crate::error::SqlError;
use crate::functions::call::Call;
use crate::functions::choice::{Form, Takes};
use crate::functions::{Entry, strict};
use crate::scalar::{LetterCase, LikeStyle, like};
use coeval_store::{ColumnType, ElementType, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// The function that tells whether one of the patterns fits.
pub(crate) const MATCHES_ANY: &str = "coeval_matches_any";

/// The one that tells whether each does.
pub(crate) const MATCHES_ALL: &str = "coeval_matches_all";

/// So many patterns are looked for one by one.
const FEW_PATTERNS: usize = 16;

/// How long the patterns are together that are compiled as one.
const JOINED_BYTES_MAX: usize = 32 << 10;

thread_local! {
    /// The list that was compiled last: it is the same for all rows most of the time.
    static LAST: RefCell<Option<Joined>> = const { RefCell::new(None) };
}

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
    let patterns = call.elements(1);
    // A pattern that fits decides where that is what the operator asks for, and one such is enough; or where neither is so.
    let is_decided_by_fit = decisive != operator.is_negated;
    let joined = if is_decided_by_fit { operator.joined(&patterns) } else { None };
    let is_decided = match joined {
        Some(joined) => joined.is_match(call.text(0), call.meter)?,
        None => operator.is_decided_by_one(call, &patterns, deciding)?,
    };
    let is_unknown = || patterns.iter().any(|pattern| !matches!(pattern, Value::Text(_)));
    Ok(match is_decided {
        true => Value::Boolean(decisive),
        false if is_unknown() => Value::Null,
        false => Value::Boolean(!decisive),
    })
}

/// Patterns that are compiled as one.
struct Joined {
    patterns: Vec<Value>,
    letters: LetterCase,
    /// `None` if that cannot be.
    one: Option<Rc<Pattern>>,
}

impl Joined {
    fn of(patterns: &[Value], letters: LetterCase) -> Self {
        Self { patterns: patterns.to_vec(), letters, one: Self::compiled(patterns, letters) }
    }

    fn compiled(patterns: &[Value], letters: LetterCase) -> Option<Rc<Pattern>> {
        let mut all: Vec<String> = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            if let Value::Text(pattern) = pattern {
                // What is no pattern is a mistake only if none before it fits.
                all.push(format!("(?:{})", pattern_of_operator(pattern, letters).ok()??));
            }
        }
        if all.is_empty() { None } else { compiled_for_operator(&all.join("|"), letters).ok() }
    }
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

    /// The patterns of a longer list as one; `None` for few of them, and if that cannot be.
    fn joined(&self, patterns: &[Value]) -> Option<Rc<Pattern>> {
        let length = |pattern: &Value| if let Value::Text(pattern) = pattern { pattern.len() } else { 0 };
        let is_short = patterns.iter().map(length).sum::<usize>() <= JOINED_BYTES_MAX;
        if self.is_like || patterns.len() <= FEW_PATTERNS || patterns.len() > JOINED_BYTES_MAX || !is_short {
            return None;
        }
        LAST.with_borrow_mut(|last| {
            let known = last.take().filter(|last| last.letters == self.letters && last.patterns == patterns);
            last.insert(known.unwrap_or_else(|| Joined::of(patterns, self.letters))).one.clone()
        })
    }

    /// Whether what is asked of one of the patterns is so.
    fn is_decided_by_one(
        &self,
        call: &Call<'_>,
        patterns: &[Value],
        deciding: Deciding,
    ) -> Result<bool, SqlError> {
        let decisive = deciding == Deciding::Match;
        for pattern in patterns {
            call.meter.step()?;
            if let Value::Text(pattern) = pattern
                && self.holds(call.text(0), pattern, call.meter)? == decisive
            {
                return Ok(true);
            }
        }
        Ok(false)
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
