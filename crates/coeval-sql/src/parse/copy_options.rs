// SPDX-License-Identifier: Apache-2.0
//! `COPY ... WITH (FREEZE on, HEADER 1)`: the parser takes TRUE and FALSE, PostgreSQL any way to write a truth. And
//! `MAX_REJECTED 100`, of which the parser knows nothing: it comes through as an encoding with a mark. And `FORCE_QUOTE *`, for which
//! it wants a list of columns.

use super::{is_space, is_word, quoted_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Options that are on or off.
const OPTIONS: [&str; 2] = ["freeze", "header"];

/// Begins the text of an ENCODING that is `MAX_REJECTED`, which the parser does not know: no statement's text holds a
/// zero byte.
pub(crate) const MAX_REJECTED_MARK: &str = "\0max_rejected ";

/// The column that stands for all of them, for the same reason.
pub(crate) const ALL_COLUMNS: &str = "\0*";

/// Writes the options of a COPY as the parser takes them.
pub(super) fn spell_copy_options(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().find(|token| !is_space(token)).is_some_and(|first| is_word(first, "copy")) {
        return;
    }
    spell_max_rejected(tokens);
    spell_all_columns(tokens);
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

/// Inside of parentheses alone, where a list of columns holds no numbers.
fn spell_max_rejected(tokens: &mut [TokenWithSpan]) {
    for at in 0..tokens.len() {
        if !is_word(&tokens[at], "max_rejected") {
            continue;
        }
        let Some(behind) = tokens[at + 1..].iter().position(|token| !is_space(token)) else { continue };
        let value = &mut tokens[at + 1 + behind];
        let (Token::Number(text, _) | Token::SingleQuotedString(text)) = &value.token else { continue };
        value.token = Token::SingleQuotedString(format!("{MAX_REJECTED_MARK}{text}"));
        tokens[at].token = Token::make_keyword("ENCODING");
    }
}

/// `FORCE_QUOTE *`, where a comma, a parenthesis or the end follows: anything else is a product in a query.
fn spell_all_columns(tokens: &mut Vec<TokenWithSpan>) {
    let mut stars = Vec::new();
    for option in (0..tokens.len()).filter(|&place| is_word(&tokens[place], "force_quote")) {
        let star = word_from(tokens, option + 1).filter(|&place| tokens[place].token == Token::Mul);
        stars.extend(star.filter(|star| {
            let behind = word_from(tokens, star + 1).map(|place| &tokens[place].token);
            behind.is_none_or(|behind| matches!(behind, Token::Comma | Token::RParen))
        }));
    }
    if stars.is_empty() {
        return;
    }
    let mut stars = stars.into_iter().peekable();
    let mut spelled = Vec::with_capacity(tokens.len() + 2);
    for (place, token) in std::mem::take(tokens).into_iter().enumerate() {
        if stars.next_if_eq(&place).is_some() {
            let list = [Token::LParen, quoted_word(ALL_COLUMNS), Token::RParen];
            spelled.extend(list.map(|word| TokenWithSpan { token: word, span: token.span }));
        } else {
            spelled.push(token);
        }
    }
    *tokens = spelled;
}

/// The place of the next word or sign from one on.
fn word_from(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    (from..tokens.len()).find(|&place| !is_space(&tokens[place]))
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
