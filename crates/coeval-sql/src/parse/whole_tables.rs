// SPDX-License-Identifier: Apache-2.0
//! `TABLE t`, which is `SELECT * FROM t`, and `ONLY t` or `ONLY (t)`, which is `t` where no table inherits from another: the parser
//! knows them in few of the places where they may stand.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words behind which a query begins. Behind others TABLE says what kind of object a statement is about.
const BEFORE_A_QUERY: [&str; 7] = ["union", "except", "intersect", "all", "distinct", "as", "explain"];

/// Words behind which a table stands.
const BEFORE_A_TABLE: [&str; 4] = ["from", "join", "update", "using"];

/// Writes each `TABLE t` that is a query in full, and each `ONLY t` without the word, and without the table's parentheses.
pub(super) fn spell_tables(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "table") || is_word(token, "only")) {
        return tokens;
    }
    let mut spelled: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 2);
    let mut before: Option<&TokenWithSpan> = None;
    // Whether TABLE is in front, and a query.
    let mut is_behind_query = false;
    // Whether ONLY is in front, and whether its parenthesis is open.
    let (mut is_behind_only, mut is_in_only) = (false, false);
    for (at, token) in tokens.iter().enumerate() {
        let is_behind =
            |words: &[&str]| before.is_some_and(|before| words.iter().any(|word| is_word(before, word)));
        let begins =
            || before.is_none_or(|before| before.token == Token::LParen) || is_behind(&BEFORE_A_QUERY);
        let next = || tokens[at + 1..].iter().find(|token| !is_space(token)).map(|next| &next.token);
        let is_named = || matches!(next(), Some(Token::Word(_)));
        // ONLY is no name of anything else.
        let is_listed = || before.is_some_and(|before| before.token == Token::Comma);
        let is_only = || {
            is_word(token, "only")
                && matches!(next(), Some(Token::Word(_) | Token::LParen))
                && (is_behind_query || is_behind(&BEFORE_A_TABLE) || is_listed())
        };
        let is_query = is_word(token, "table") && is_named() && begins();
        let is_only = is_only();
        let opens = is_behind_only && token.token == Token::LParen;
        let closes = is_in_only && token.token == Token::RParen;
        if is_query {
            let like = |word| TokenWithSpan { token: word, span: token.span };
            let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            spelled.extend(words.map(like));
        } else if !(is_only || opens || closes) {
            spelled.push(token.clone());
        }
        if !is_space(token) {
            (before, is_behind_query) = (Some(token), is_query);
            (is_behind_only, is_in_only) = (is_only, opens || (is_in_only && !closes));
        }
    }
    spelled
}
