// SPDX-License-Identifier: Apache-2.0
//! Patterns that say what texts begin with: `x LIKE 'ab%'` and `x ~ '^ab'` are true of no text below `ab`, and of none from `ac` on.

use super::{Pruner, SourceColumn, all, column_of};
use crate::functions::{
    HAS_MATCH, LIKE_FUNCTION, REGEX_FUNCTION, initial_for_operator, initial_of_like, initial_of_regular,
};
use coeval_store::{ColumnType, Value};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// What statistics can say of a call of the function of this name.
pub(super) fn of_call(name: &str, arguments: &[Arc<dyn PhysicalExpr>], columns: &[SourceColumn]) -> Pruner {
    let initial = || {
        let [text, pattern] = arguments else { return None };
        let column = column_of(text, columns)?;
        if !matches!(column.ty, ColumnType::Text | ColumnType::Varchar(_)) {
            return None;
        }
        let pattern = pattern.downcast_ref::<Literal>()?.value().try_as_str()??;
        let initial = match name {
            LIKE_FUNCTION => Some(initial_of_like(pattern)),
            REGEX_FUNCTION => initial_for_operator(pattern),
            HAS_MATCH => initial_of_regular(pattern),
            _ => None,
        };
        Some((column.index, initial.filter(|initial| !initial.is_empty())?))
    };
    let Some((column, initial)) = initial() else { return Pruner::Unknown };
    let end = behind(&initial).map(|end| Pruner::Compare(column, Operator::Lt, Value::Text(end.into())));
    let begin = Pruner::Compare(column, Operator::GtEq, Value::Text(initial.into()));
    all([Some(begin), end].into_iter().flatten().collect())
}

/// The first text behind all that begin with this one, as texts are ordered by their bytes; `None` if there is none.
fn behind(initial: &str) -> Option<String> {
    let mut letters: Vec<char> = initial.chars().collect();
    while let Some(last) = letters.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            letters.push(next);
            return Some(letters.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_begin_with_something_end_before_the_next_letter() {
        for (initial, expected) in [
            ("ab", Some("ac")),
            ("a\u{7F}", Some("a\u{80}")),
            ("a\u{D7FF}", Some("a\u{E000}")),
            ("a\u{10FFFF}\u{10FFFF}", Some("b")),
            ("\u{10FFFF}", None),
        ] {
            let end = behind(initial);
            assert_eq!(end.as_deref(), expected);
            let within = [initial.to_owned(), format!("{initial}\u{10FFFF}")];
            assert!(within.iter().all(|text| end.as_ref().is_none_or(|end| text < end)));
        }
    }
}
