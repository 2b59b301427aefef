// SPDX-License-Identifier: Apache-2.0
//! Tables of servers in the text of a statement: `CREATE TABLE ... USING tique SERVER name`. The parser does not know the
//! clause, so it is taken out of the tokens.

use super::{is_space, is_word};
use crate::error::SqlError;
use crate::names::fold;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// Removes the clause from the tokens of a CREATE TABLE; the server's name.
///
/// # Errors
/// `42601` if no SERVER and name stand behind USING tique.
pub(super) fn take_server(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<String>, SqlError> {
    let words = || (0..tokens.len()).filter(|&at| !is_space(&tokens[at]));
    let begins = |word: usize, wanted: &str| words().nth(word).is_some_and(|at| is_word(&tokens[at], wanted));
    if !(begins(0, "create") && begins(1, "table")) {
        return Ok(None);
    }
    let places: Vec<usize> = words().collect();
    let is_at = |word: usize, wanted: &str| places.get(word).is_some_and(|&at| is_word(&tokens[at], wanted));
    let mut depth = 0_usize;
    for word in 2..places.len() {
        match &tokens[places[word]].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_at(word, "using") && is_at(word + 1, "tique") => {
                let name = places.get(word + 3).map(|&at| &tokens[at].token);
                let Some(Token::Word(name)) = name.filter(|_| is_at(word + 2, "server")) else {
                    return Err(SqlError::syntax("USING tique is followed by SERVER and its name"));
                };
                let server = fold(&name.to_ident(Span::empty()));
                tokens.drain(places[word]..=places[word + 3]);
                return Ok(Some(server));
            }
            _ => {}
        }
    }
    Ok(None)
}
