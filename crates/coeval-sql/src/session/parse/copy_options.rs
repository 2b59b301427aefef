// SPDX-License-Identifier: Apache-2.0
//! `COPY ... WITH (FREEZE on, HEADER 1)`: the parser takes TRUE and FALSE, PostgreSQL any way to write a truth.

use super::is_word;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Options that are on or off.
const OPTIONS: [&str; 2] = ["freeze", "header"];

/// Writes the truth behind each option of a COPY as the parser takes it.
pub(super) fn spell_truths(tokens: &mut [TokenWithSpan]) {
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    if !tokens.iter().find(|token| !is_space(token)).is_some_and(|first| is_word(first, "copy")) {
        return;
    }
    for at in 0..tokens.len() {
        if !OPTIONS.iter().any(|option| is_word(&tokens[at], option)) {
            continue;
        }
        let next = tokens[at + 1..].iter_mut().find(|token| !is_space(token));
        if let Some((token, truth)) = next.and_then(|token| truth_of(token).map(|truth| (token, truth))) {
            token.token = Token::make_keyword(if truth { "TRUE" } else { "FALSE" });
        }
    }
}

fn truth_of(token: &TokenWithSpan) -> Option<bool> {
    let text = match &token.token {
        Token::Word(Word { value, quote_style: None, .. }) => value.to_lowercase(),
        Token::Number(digits, _) => digits.clone(),
        Token::SingleQuotedString(text) => text.to_lowercase(),
        _ => return None,
    };
    match text.as_str() {
        "on" | "true" | "1" => Some(true),
        "off" | "false" | "0" => Some(false),
        _ => None,
    }
}
