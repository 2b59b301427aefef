// SPDX-License-Identifier: Apache-2.0
//! SELECT of nothing without FROM, as in `EXISTS (SELECT)`, `SELECT WHERE false` and `CREATE VIEW v AS SELECT`: the parser knows `SELECT
//! FROM t` alone. There is one row, as of any SELECT without FROM.

use super::{is_space, is_word, quoted_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The name of the one row.
pub(super) const ONE_ROW: &str = "coeval row";

/// Words that may follow a list of nothing. None of them begins an expression.
const BEHIND: [&str; 13] = [
    "where",
    "group",
    "having",
    "window",
    "union",
    "intersect",
    "except",
    "order",
    "limit",
    "offset",
    "fetch",
    "with",
    "returning",
];

/// Writes a FROM of one row behind each such SELECT.
pub(super) fn spell_empty_lists(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    // Behind AS it may be the name of what is selected or returned; in front of all that is, it begins a query.
    let has_outputs = |token: &TokenWithSpan| is_word(token, "select") || is_word(token, "returning");
    let first = tokens.iter().position(has_outputs);
    let is_one = |&place: &usize| is_word(&tokens[place], "select") && is_alone(&tokens, place, first);
    let places: Vec<usize> = (0..tokens.len()).filter(is_one).collect();
    if places.is_empty() {
        return tokens;
    }
    let row = one_row();
    let mut spelled = Vec::with_capacity(tokens.len() + places.len() * row.len());
    let mut places = places.into_iter().peekable();
    for (place, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        spelled.push(token);
        if places.next_if_eq(&place).is_some() {
            spelled.extend(row.iter().map(|word| TokenWithSpan { token: word.clone(), span }));
        }
    }
    spelled
}

/// Whether nothing is selected by the SELECT at a place, and it is no name: behind AS it is one, unless it is the first that
/// says what a statement gives.
fn is_alone(tokens: &[TokenWithSpan], place: usize, first: Option<usize>) -> bool {
    let before = tokens[..place].iter().rev().find(|token| !is_space(token));
    let is_name = before.is_some_and(|before| {
        before.token == Token::Period || (is_word(before, "as") && first != Some(place))
    });
    !is_name && ends_list(tokens[place + 1..].iter().filter(|token| !is_space(token)))
}

/// Whether a list of nothing ends where these tokens follow, spaces left out. In front of another ON than that of ON CONFLICT stands the name
/// of a privilege: `GRANT SELECT ON conflict TO r` is about a table.
fn ends_list<'t>(mut behind: impl Iterator<Item = &'t TokenWithSpan>) -> bool {
    let Some(next) = behind.next() else { return true };
    if is_word(next, "on") {
        let is_of_conflict =
            |next: &TokenWithSpan| next.token == Token::LParen || is_word(next, "do") || is_word(next, "on");
        return behind.next().is_some_and(|next| is_word(next, "conflict"))
            && behind.next().is_some_and(is_of_conflict);
    }
    matches!(next.token, Token::RParen | Token::EOF) || BEHIND.iter().any(|word| is_word(next, word))
}

/// `FROM (SELECT 1) AS "coeval row"`.
fn one_row() -> [Token; 7] {
    [
        Token::make_keyword("FROM"),
        Token::LParen,
        Token::make_keyword("SELECT"),
        Token::Number("1".to_owned(), false),
        Token::RParen,
        Token::make_keyword("AS"),
        quoted_word(ONE_ROW),
    ]
}
