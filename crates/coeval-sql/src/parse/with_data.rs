// SPDX-License-Identifier: Apache-2.0
//! `CREATE TABLE t AS query WITH [NO] DATA`, which the parser does not know: the clause is taken away, and a table that is to have no
//! rows is made of none of the query's.

use super::{is_space, is_word, quoted_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// How many words there are at most in front of TABLE: `CREATE GLOBAL TEMPORARY`.
const WORDS_BEFORE: usize = 3;

/// Takes the clause away.
pub(super) fn take_with_data(tokens: &mut Vec<TokenWithSpan>) {
    let Some((with, is_empty)) = clause(tokens) else { return };
    let Some(query) = query_place(&tokens[..with]) else { return };
    tokens.truncate(with);
    if !is_empty {
        return;
    }
    let span = tokens[query - 1].span;
    let like = |token| TokenWithSpan { token, span };
    let head = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM"), Token::LParen];
    drop(tokens.splice(query..query, head.map(like)));
    let alias = [Token::RParen, Token::make_keyword("AS"), quoted_word("coeval inner")];
    tokens.extend(alias.map(like));
    tokens.extend([Token::make_keyword("LIMIT"), Token::Number("0".to_owned(), false)].map(like));
}

/// Where the clause begins at the end of a CREATE TABLE, and whether it says NO.
fn clause(tokens: &[TokenWithSpan]) -> Option<(usize, bool)> {
    let mut words = (0..tokens.len()).filter(|&place| !is_space(&tokens[place]));
    let is = |place: usize, word: &str| is_word(&tokens[place], word);
    if !is(words.next()?, "create") || !words.by_ref().take(WORDS_BEFORE).any(|place| is(place, "table")) {
        return None;
    }
    let mut last = words.rev();
    if !is(last.next()?, "data") {
        return None;
    }
    let before = last.next()?;
    if is(before, "with") {
        return Some((before, false));
    }
    let with = last.next()?;
    (is(before, "no") && is(with, "with")).then_some((with, true))
}

/// Where the query begins: behind the first AS outside of parentheses.
fn query_place(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ if depth == 0 && is_word(token, "as") => return Some(place + 1),
            _ => {}
        }
    }
    None
}
