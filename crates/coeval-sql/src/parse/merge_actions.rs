// SPDX-License-Identifier: Apache-2.0
//! `DO NOTHING` and `INSERT DEFAULT VALUES` of MERGE, which the parser does not know: written as actions that it does,
//! on columns that no table has.

use super::{is_space, is_word, quoted_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The column whose change stands for DO NOTHING, which the parser does not know: no column's name begins like this.
pub(crate) const MERGE_NOTHING: &str = "\u{1}nothing";
/// The column that stands for INSERT DEFAULT VALUES.
pub(crate) const MERGE_DEFAULTS: &str = "\u{1}default values";

/// Writes the actions of MERGE in forms that the parser knows.
pub(super) fn spell_merge(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let first = tokens.iter().find(|token| !is_space(token));
    let may_be_merge = |first: &TokenWithSpan| {
        ["merge", "with", "explain", "prepare"].iter().any(|word| is_word(first, word))
    };
    if !first.is_some_and(may_be_merge) || !tokens.iter().any(|token| is_word(token, "merge")) {
        return tokens;
    }
    let words: Vec<usize> = (0..tokens.len()).filter(|&at| !is_space(&tokens[at])).collect();
    let says = |place: usize, wanted: &[&str]| {
        wanted
            .iter()
            .enumerate()
            .all(|(offset, word)| words.get(place + offset).is_some_and(|&at| is_word(&tokens[at], word)))
    };
    let mut spelled = Vec::with_capacity(tokens.len());
    let mut is_matched = false;
    let (mut place, mut next) = (0, 0);
    while place < words.len() {
        if says(place, &["when", "matched"]) {
            is_matched = true;
        } else if says(place, &["when", "not", "matched"]) {
            is_matched = false;
        }
        let written = if says(place, &["then", "do", "nothing"]) {
            let instead = if is_matched { update(MERGE_NOTHING) } else { insert(MERGE_NOTHING) };
            Some((instead, 3))
        } else if says(place, &["then", "insert", "default", "values"]) {
            Some((insert(MERGE_DEFAULTS), 4))
        } else {
            None
        };
        let Some((instead, count)) = written else {
            place += 1;
            continue;
        };
        // Up to THEN, itself included.
        let span = tokens[words[place]].span;
        spelled.extend_from_slice(&tokens[next..=words[place]]);
        spelled.extend(instead.into_iter().map(|token| TokenWithSpan { token, span }));
        next = words[place + count - 1] + 1;
        place += count;
    }
    spelled.extend_from_slice(&tokens[next..]);
    spelled
}

fn zero() -> Token {
    Token::Number("0".to_owned(), false)
}

fn update(name: &str) -> Vec<Token> {
    vec![Token::make_keyword("UPDATE"), Token::make_keyword("SET"), quoted_word(name), Token::Eq, zero()]
}

fn insert(name: &str) -> Vec<Token> {
    let columns = [Token::make_keyword("INSERT"), Token::LParen, quoted_word(name), Token::RParen];
    let values = [Token::make_keyword("VALUES"), Token::LParen, zero(), Token::RParen];
    columns.into_iter().chain(values).collect()
}
