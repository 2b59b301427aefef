// SPDX-License-Identifier: Apache-2.0
//! `UPDATE t SET ... WHERE CURRENT OF cursor`, the row at which a cursor stands: for the parser, which would take CURRENT for a column, a
//! function of the cursor's name. Who runs the statement finds the row (`dml/current_rows.rs`).

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use std::ops::Range;

/// The function.
pub(crate) const CURRENT_OF: &str = "coeval_current_of";

/// Puts the function in the place of `CURRENT OF` in changes of rows.
pub(super) fn spell_current_rows(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has = |word: &str| tokens.iter().any(|token| is_word(token, word));
    if !has("current") || !(has("update") || has("delete")) {
        return tokens;
    }
    let places: Vec<usize> = (0..tokens.len()).filter(|&place| !is_space(&tokens[place])).collect();
    let clauses: Vec<(Range<usize>, String)> =
        places.windows(4).filter_map(|four| clause(&tokens, four)).collect();
    let mut clauses = clauses.into_iter().peekable();
    let mut spelled = Vec::with_capacity(tokens.len());
    let mut end = 0;
    for (place, token) in tokens.into_iter().enumerate() {
        if place < end {
            continue;
        }
        let Some((range, cursor)) = clauses.next_if(|(range, _)| range.start == place) else {
            spelled.push(token);
            continue;
        };
        end = range.end;
        let cursor = Token::SingleQuotedString(cursor);
        let words = [Token::make_word(CURRENT_OF, None), Token::LParen, cursor, Token::RParen];
        spelled.extend(words.map(|word| TokenWithSpan { token: word, span: token.span }));
    }
    spelled
}

/// Where `CURRENT OF cursor` stands, if these are the places of `WHERE CURRENT OF cursor`; and the cursor.
fn clause(tokens: &[TokenWithSpan], places: &[usize]) -> Option<(Range<usize>, String)> {
    let [before, current, of, cursor] = *places else { return None };
    let words = [(before, "where"), (current, "current"), (of, "of")];
    let is_clause = words.iter().all(|&(place, word)| is_word(&tokens[place], word));
    match &tokens[cursor].token {
        Token::Word(name) if is_clause => Some((current..cursor + 1, meant(name))),
        _ => None,
    }
}

/// The name that a word means.
fn meant(word: &Word) -> String {
    if word.quote_style.is_some() { word.value.clone() } else { word.value.to_lowercase() }
}
