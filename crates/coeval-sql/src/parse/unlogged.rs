// SPDX-License-Identifier: Apache-2.0
//! `CREATE UNLOGGED TABLE`: the parser does not know the word, and a table that is in the log does all that one without it does.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

/// Takes the word away.
pub(super) fn take_unlogged(tokens: &mut Vec<TokenWithSpan>) {
    const WORDS: [&str; 3] = ["create", "unlogged", "table"];
    let places: Vec<usize> =
        (0..tokens.len()).filter(|&place| !is_space(&tokens[place])).take(WORDS.len()).collect();
    if let [create, unlogged, table] = places[..]
        && [create, unlogged, table].iter().zip(WORDS).all(|(&place, word)| is_word(&tokens[place], word))
    {
        tokens.remove(unlogged);
    }
}
