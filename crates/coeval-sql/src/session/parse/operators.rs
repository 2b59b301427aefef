// SPDX-License-Identifier: Apache-2.0
//! Operators in front of a sign: `x->-1` is `x -> -1`, where the tokenizer sees an operator `->-`.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Takes the sign off operators that end in one. In PostgreSQL no operator of these characters does.
pub(super) fn split_signs(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let operator = |token: &Token| match token {
        Token::CustomBinaryOperator(text) if text == "->-" => Some(Token::Arrow),
        Token::CustomBinaryOperator(text) if text == "->>-" => Some(Token::LongArrow),
        _ => None,
    };
    if !tokens.iter().any(|token| operator(&token.token).is_some()) {
        return tokens;
    }
    let mut split = Vec::with_capacity(tokens.len() + 1);
    for token in tokens {
        match operator(&token.token) {
            Some(operator) => {
                split.push(TokenWithSpan { token: operator, span: token.span });
                split.push(TokenWithSpan { token: Token::Minus, span: token.span });
            }
            None => split.push(token),
        }
    }
    split
}
