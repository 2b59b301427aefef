// SPDX-License-Identifier: Apache-2.0
//! `f(x, VARIADIC array)`, whose word the parser does not know: it becomes the name of the argument, which no function takes.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The name of an argument whose elements are arguments.
pub(crate) const VARIADIC: &str = "coeval_variadic";

/// Writes each such word as a name.
pub(super) fn spell_variadic(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "variadic")) {
        return tokens;
    }
    let mut spelled: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 1);
    let mut may_follow = false;
    for token in tokens {
        if may_follow && is_word(&token, "variadic") {
            let like = |other| TokenWithSpan { token: other, span: token.span };
            spelled.extend([Token::make_word(VARIADIC, None), Token::RArrow].map(like));
            may_follow = false;
            continue;
        }
        if !is_space(&token) {
            may_follow = matches!(token.token, Token::LParen | Token::Comma);
        }
        spelled.push(token);
    }
    spelled
}
