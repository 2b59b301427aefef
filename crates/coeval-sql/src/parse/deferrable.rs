// SPDX-License-Identifier: Apache-2.0
//! `[NOT] DEFERRABLE` among the modes of a transaction: the parser does not know the word, so it is taken out of the tokens.

use super::{is_space, is_word};
use crate::settings::Deferrable;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Removes `[NOT] DEFERRABLE` from tokens that begin a transaction or set its modes; which of them it was.
pub(super) fn take_deferrable(tokens: &mut Vec<TokenWithSpan>) -> Option<Deferrable> {
    let words = || tokens.iter().filter(|token| !is_space(token));
    let is = |place: usize, wanted: &str| words().nth(place).is_some_and(|token| is_word(token, wanted));
    let sets_modes =
        is(0, "begin") || is(0, "start") || is(0, "set") && (is(1, "transaction") || is(1, "session"));
    if !sets_modes || !words().any(|token| is_word(token, "deferrable")) {
        return None;
    }
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut found = Deferrable::Yes;
    for token in words() {
        if is_word(token, "deferrable") {
            found = if kept.last().is_some_and(|last| is_word(last, "not")) {
                Deferrable::No
            } else {
                Deferrable::Yes
            };
            while kept.last().is_some_and(|last| is_word(last, "not") || last.token == Token::Comma) {
                kept.pop();
            }
        } else if token.token == Token::Comma && kept.last().is_none_or(ends_introduction) {
            // The comma behind a mode that has gone.
        } else {
            kept.push(token.clone());
        }
    }
    *tokens = kept;
    Some(found)
}

/// Whether no transaction mode stands before a comma here.
fn ends_introduction(token: &TokenWithSpan) -> bool {
    match &token.token {
        Token::Word(word) => matches!(word.keyword, Keyword::BEGIN | Keyword::TRANSACTION | Keyword::WORK),
        _ => false,
    }
}
