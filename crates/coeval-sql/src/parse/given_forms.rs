// SPDX-License-Identifier: Apache-2.0
//! Definitions are kept as the parser writes them, in which names of ours stand for forms that it does not know. Who reads a definition
//! is given the forms again, so that it says the same to PostgreSQL:
//!
//! | kept | given |
//! |---|---|
//! | `OVER (PARTITION BY coeval_excludes_ties() ORDER BY a ROWS 1 PRECEDING)` | `OVER (ORDER BY a ROWS 1 PRECEDING EXCLUDE TIES)` |
//! | `f(coeval_variadic => x)` | `f(VARIADIC x)` |
//! | `FROM coeval_rows_from(f(x), g(y))` | `FROM ROWS FROM(f(x), g(y))` |
//! | `GROUP BY coeval_distinct_sets(), ROLLUP (a, b)` | `GROUP BY DISTINCT ROLLUP (a, b)` |
//! | `USING(a, "...join".j)` | `USING(a) AS j` |
//! | `SELECT FROM (SELECT 1) AS "coeval row"` | `SELECT` |
//!
//! `SEARCH` and `CYCLE` are kept as what they compute.

use super::empty_lists::ONE_ROW;
use super::frame_exclusions::Exclusion;
use super::grouping_sets::DISTINCT_SETS;
use super::join_names::JOIN_NAME;
use super::postgres::Postgres;
use super::rows_from::ROWS_FROM;
use super::variadic::VARIADIC;
use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::borrow::Cow;
use std::ops::Range;

/// What all names of ours begin with, but for those of joins and of the one row.
const OURS: &str = "coeval_";

/// How many tokens are in front of the name of the one row: `FROM (SELECT 1) AS`.
const ROW_TOKENS: usize = 6;

/// The text of a kept definition, or of a part of one, with the forms that names of ours stand for.
#[must_use]
pub fn as_given(text: &str) -> Cow<'_, str> {
    if ![OURS, JOIN_NAME, ONE_ROW].iter().any(|name| text.contains(name)) {
        return Cow::Borrowed(text);
    }
    let tokens = Tokenizer::new(&Postgres::for_text(text), text).tokenize_with_location();
    // What was kept can be read.
    let mut words = tokens.unwrap_or_default();
    words.retain(|token| !is_space(token));
    let mut edits: Vec<Edit> = (0..words.len()).flat_map(|at| edits_at(&words, at)).collect();
    edits.sort_by_key(|edit| (edit.from.line, edit.from.column));
    let (mut given, mut done) = (String::with_capacity(text.len()), 0);
    for edit in edits {
        given.push_str(text.get(done..offset(text, edit.from)).unwrap_or_default());
        given.push_str(&edit.words);
        done = offset(text, edit.to);
    }
    given.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(given)
}

/// Words that take the place of a part of a text.
struct Edit {
    from: Location,
    to: Location,
    words: String,
}

impl Edit {
    /// In the place of these tokens.
    fn of(tokens: &[TokenWithSpan], range: Range<usize>, words: impl Into<String>) -> Self {
        Self { from: tokens[range.start].span.start, to: tokens[range.end - 1].span.end, words: words.into() }
    }
}

/// What becomes of the name at this place.
fn edits_at(tokens: &[TokenWithSpan], at: usize) -> Vec<Edit> {
    let Token::Word(name) = &tokens[at].token else { return Vec::new() };
    let is_behind = |distance: usize, token: &Token| {
        tokens.get(at + distance).is_some_and(|behind| behind.token == *token)
    };
    match name.value.as_str() {
        VARIADIC if is_behind(1, &Token::RArrow) => vec![Edit::of(tokens, at..at + 2, "VARIADIC")],
        ROWS_FROM if is_behind(1, &Token::LParen) => vec![Edit::of(tokens, at..at + 1, "ROWS FROM")],
        DISTINCT_SETS if is_behind(3, &Token::Comma) => vec![Edit::of(tokens, at..at + 4, "DISTINCT")],
        JOIN_NAME if at > 0 && is_behind(1, &Token::Period) && is_behind(3, &Token::RParen) => {
            vec![Edit::of(tokens, at - 1..at + 4, format!(") AS {}", tokens[at + 2].token))]
        }
        // It goes with the space before FROM.
        ONE_ROW if at > ROW_TOKENS && is_word(&tokens[at - ROW_TOKENS], "from") => {
            let from = tokens[at - ROW_TOKENS - 1].span.end;
            vec![Edit { from, to: tokens[at].span.end, words: String::new() }]
        }
        mark => Exclusion::of_mark(mark)
            .and_then(|exclusion| exclusion_edits(tokens, at, exclusion))
            .map_or_else(Vec::new, Vec::from),
    }
}

/// Takes the mark of an exclusion out of the PARTITION BY of its window, and puts the clause at the end of that.
fn exclusion_edits(tokens: &[TokenWithSpan], at: usize, exclusion: Exclusion) -> Option<[Edit; 2]> {
    let is_alone = tokens.get(at + 3)?.token != Token::Comma;
    // The words PARTITION BY go, too, if there is nothing else behind them.
    let (first, behind) = if is_alone { (at.checked_sub(2)?, at + 3) } else { (at, at + 4) };
    let taken =
        Edit { from: tokens[first].span.start, to: tokens.get(behind)?.span.start, words: String::new() };
    let mut depth = 0_usize;
    let close = tokens[behind..].iter().find(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return true,
            Token::RParen => depth -= 1,
            _ => {}
        }
        false
    })?;
    let place = close.span.start;
    Some([taken, Edit { from: place, to: place, words: format!(" {}", exclusion.clause()) }])
}

/// How many bytes of a text are in front of a place.
fn offset(text: &str, place: Location) -> usize {
    let number = |one_based: u64| usize::try_from(one_based.saturating_sub(1)).unwrap_or(usize::MAX);
    let lines_before = number(place.line);
    let start = match lines_before.checked_sub(1) {
        None => 0,
        Some(line) => text.match_indices('\n').nth(line).map_or(text.len(), |(end, _)| end + 1),
    };
    let line = &text[start..];
    start + line.char_indices().nth(number(place.column)).map_or(line.len(), |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ours_are_given_as_the_forms_that_they_stand_for() {
        for (kept, given) in [
            (
                "sum(b) OVER (PARTITION BY coeval_excludes_ties() ORDER BY f(a) ROWS 1 PRECEDING) AS s",
                "sum(b) OVER (ORDER BY f(a) ROWS 1 PRECEDING EXCLUDE TIES) AS s",
            ),
            (
                "'\u{e4}' || x,\n sum(b) OVER (w PARTITION BY coeval_excludes_current_row(), c RANGE 1 PRECEDING)",
                "'\u{e4}' || x,\n sum(b) OVER (w PARTITION BY c RANGE 1 PRECEDING EXCLUDE CURRENT ROW)",
            ),
            ("concat(coeval_variadic => ARRAY['it''s'])", "concat(VARIADIC ARRAY['it''s'])"),
            ("FROM coeval_rows_from(f(1), g(2)) AS q (x, y)", "FROM ROWS FROM(f(1), g(2)) AS q (x, y)"),
            ("GROUP BY coeval_distinct_sets(), ROLLUP (a, b)", "GROUP BY DISTINCT ROLLUP (a, b)"),
            ("a JOIN b USING(i, \"\u{1}join\".j) WHERE j.i = 1", "a JOIN b USING(i) AS j WHERE j.i = 1"),
            ("SELECT FROM (SELECT 1) AS \"coeval row\" WHERE false", "SELECT WHERE false"),
        ] {
            assert_eq!(as_given(kept), given);
        }
    }

    #[test]
    fn texts_and_other_names_stay() {
        for text in ["SELECT 'coeval_variadic => a' AS \"coeval_rows_from\"", "a = 1", "coeval_own(x)"] {
            assert_eq!(as_given(text), text);
        }
    }
}
