// SPDX-License-Identifier: Apache-2.0
//! `FETCH FIRST n ROWS ONLY`, which is `LIMIT n`: the parser knows no count in parentheses, and what runs queries knows only the
//! latter. `WITH TIES` stays as it is behind a number or a parameter, and is a function around any other count.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The function in LIMIT around a count of rows to which those are added that are equal to the last one in the query's order.
pub(crate) const WITH_TIES: &str = "coeval_with_ties";

/// Writes each FETCH clause of a query as LIMIT.
pub(super) fn spell_fetch(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "fetch")) {
        return tokens;
    }
    let mut spelled = Vec::with_capacity(tokens.len() + 2);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let clause = if is_word(token, "fetch") { clause(&tokens, at) } else { None };
        let Some(Clause { count, end, ties }) = clause else {
            spelled.push(token.clone());
            at += 1;
            continue;
        };
        let like = |word| TokenWithSpan { token: word, span: token.span };
        spelled.push(like(Token::make_keyword("LIMIT")));
        match (count, ties) {
            (Some(count), Ties::Left) => spelled.extend_from_slice(&tokens[count]),
            (Some(count), Ties::Taken) => {
                let word = |word: &str| like(Token::make_word(word, None));
                spelled.extend([word(WITH_TIES), like(Token::LParen), word("CAST"), like(Token::LParen)]);
                spelled.extend_from_slice(&tokens[count]);
                spelled.extend([word("AS"), word("bigint"), like(Token::RParen), like(Token::RParen)]);
            }
            (None, _) => spelled.push(like(Token::Number("1".to_owned(), false))),
        }
        at = end;
    }
    spelled
}

/// Where the count of a FETCH clause is, if it has one, and where the clause ends.
struct Clause {
    count: Option<std::ops::Range<usize>>,
    end: usize,
    ties: Ties,
}

/// What becomes of rows that are equal to the last one.
#[derive(Clone, Copy)]
enum Ties {
    Left,
    Taken,
}

/// A clause has at most so many words: a text may have the word FETCH at every place.
const WORDS_MAX: usize = 500;

/// The clause that begins with the word FETCH here; `None` of the statement FETCH, and of a clause WITH TIES that the parser knows.
fn clause(tokens: &[TokenWithSpan], fetch: usize) -> Option<Clause> {
    let mut words = (fetch + 1..tokens.len()).filter(|&place| !is_space(&tokens[place])).take(WORDS_MAX);
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
            // A count has no other clause but in parentheses.
            if depth == 0 && is_word(&tokens[next], "fetch") {
                return None;
            }
        }
    };
    let word = words.next()?;
    if is_word(&tokens[word], "only") {
        return Some(Clause { count, end: word + 1, ties: Ties::Left });
    }
    let ties = words.next()?;
    if !is_word(&tokens[word], "with") || !is_word(&tokens[ties], "ties") {
        return None;
    }
    let mut counted = tokens[count.clone()?].iter().filter(|token| !is_space(token));
    let is_known = matches!(counted.next()?.token, Token::Number(..) | Token::Placeholder(_));
    if is_known && counted.next().is_none() {
        return None;
    }
    Some(Clause { count, end: ties + 1, ties: Ties::Taken })
}
