// SPDX-License-Identifier: Apache-2.0
//! Statements that begin with other words for the same: `ABORT` is `ROLLBACK`, `RESET TIME ZONE` is `RESET timezone`,
//! `SET LOCAL SESSION AUTHORIZATION` is what the parser calls `SET LOCAL AUTHORIZATION`, and `DROP INDEX CONCURRENTLY` is
//! `DROP INDEX`, which keeps nobody from the table. The parser knows only the latter.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The most words that such a beginning has.
const WORDS_MAX: usize = 4;

/// Writes such a beginning in the words that the parser knows.
pub(super) fn spell_synonyms(tokens: &mut Vec<TokenWithSpan>) {
    let words = (0..tokens.len()).filter(|&place| !is_space(&tokens[place]));
    let places: Vec<usize> = words.take(WORDS_MAX).collect();
    let begins = |wanted: &[&str]| {
        wanted.len() <= places.len()
            && wanted.iter().zip(&places).all(|(word, &place)| is_word(&tokens[place], word))
    };
    if begins(&["abort"]) {
        tokens[places[0]].token = Token::make_keyword("ROLLBACK");
    } else if begins(&["reset", "time", "zone"]) {
        tokens[places[1]].token = Token::make_word("timezone", None);
        tokens.remove(places[2]);
    } else if begins(&["drop", "index", "concurrently"])
        || begins(&["set", "local", "session", "authorization"])
        || begins(&["set", "session", "session", "authorization"])
    {
        tokens.remove(places[2]);
    }
}
