// SPDX-License-Identifier: Apache-2.0
//! `FETCH FIRST n ROWS ONLY`, which is `LIMIT n`: the parser knows no count in parentheses, and what runs queries knows only the
//! latter. `WITH TIES` stays as it is.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Writes each FETCH clause of a query as LIMIT.
pub(super) fn spell_fetch(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "fetch")) {
        return tokens;
    }
    let mut spelled = Vec::with_capacity(tokens.len() + 2);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let clause = if is_word(token, "fetch") { clause(&tokens, at) } else { None };
        let Some(Clause { count, end }) = clause else {
            spelled.push(token.clone());
            at += 1;
            continue;
        };
        let like = |word| TokenWithSpan { token: word, span: token.span };
        spelled.push(like(Token::make_keyword("LIMIT")));
        match count {
            Some(count) => spelled.extend_from_slice(&tokens[count]),
            None => spelled.push(like(Token::Number("1".to_owned(), false))),
        }
        at = end;
    }
    spelled
}

/// Where the count of a FETCH clause is, if it has one, and where the clause ends.
struct Clause {
    count: Option<std::ops::Range<usize>>,
    end: usize,
}

/// The clause that begins with the word FETCH here; `None` of the statement FETCH, and of a clause WITH TIES.
fn clause(tokens: &[TokenWithSpan], fetch: usize) -> Option<Clause> {
    let mut words = (fetch + 1..tokens.len()).filter(|&place| !is_space(&tokens[place]));
    let first = words.next()?;
    if !is_word(&tokens[first], "first") && !is_word(&tokens[first], "next") {
        return None;
    }
    let is_rows = |place: usize| is_word(&tokens[place], "row") || is_word(&tokens[place], "rows");
    let mut next = words.next()?;
    let count = if is_rows(next) {
        None
    } else {
        let begin = next;
        let mut depth = 0_usize;
        loop {
            match tokens[next].token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.checked_sub(1)?,
                _ => {}
            }
            next = words.next()?;
            if depth == 0 && is_rows(next) {
                break Some(begin..next);
            }
        }
    };
    let only = words.next()?;
    is_word(&tokens[only], "only").then_some(Clause { count, end: only + 1 })
}
