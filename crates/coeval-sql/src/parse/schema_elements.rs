// SPDX-License-Identifier: Apache-2.0
//! `CREATE SCHEMA s CREATE TABLE ... GRANT ...`: a statement that holds others, each of which is read by itself.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens of a statement, and behind them those of each that it holds.
pub(super) fn split_elements(tokens: &[TokenWithSpan]) -> Vec<&[TokenWithSpan]> {
    let mut words = tokens.iter().filter(|token| !is_space(token));
    let is_schema =
        ["create", "schema"].iter().all(|word| words.next().is_some_and(|token| is_word(token, word)));
    if !is_schema {
        return vec![tokens];
    }
    let mut pieces = Vec::new();
    let (mut from, mut depth) = (0, 0_usize);
    let mut before: Option<&TokenWithSpan> = None;
    for (place, token) in tokens.iter().enumerate() {
        match token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 && before.is_some_and(|before| begins_element(before, token)) => {
                pieces.push(&tokens[from..place]);
                from = place;
            }
            _ => {}
        }
        before = Some(token);
    }
    pieces.push(&tokens[from..]);
    pieces
}

/// Whether a statement begins here. CREATE and GRANT are reserved words; elsewhere CREATE is a right, GRANT stands behind WITH, and both
/// may name an output behind AS and a column behind a point.
fn begins_element(before: &TokenWithSpan, token: &TokenWithSpan) -> bool {
    if is_word(before, "as") || before.token == Token::Period {
        return false;
    }
    let is_right = before.token == Token::Comma || is_word(before, "grant");
    (is_word(token, "create") && !is_right) || (is_word(token, "grant") && !is_word(before, "with"))
}
