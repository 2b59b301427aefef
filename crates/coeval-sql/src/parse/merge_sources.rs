// SPDX-License-Identifier: Apache-2.0
//! `MERGE INTO t USING a JOIN b ON x ON y`, whose source the parser takes for a table alone: written with parentheses around the join.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Writes the source of MERGE in parentheses, if it is a join without.
pub(super) fn enclose_source(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let Some((start, condition)) = joined_source(&tokens) else { return tokens };
    // The one behind comes first, while the places are as they were found.
    for (place, token) in [(condition, Token::RParen), (start, Token::LParen)] {
        let span = tokens[place].span;
        tokens.insert(place, TokenWithSpan { token, span });
    }
    tokens
}

/// Where the source begins, and the ON of the whole statement, if there is a join between them.
fn joined_source(tokens: &[TokenWithSpan]) -> Option<(usize, usize)> {
    if !tokens.iter().any(|token| is_word(token, "merge")) {
        return None;
    }
    let outside = outside_of_others(tokens);
    let is = |at: usize, wanted: &str| outside.get(at).is_some_and(|&place| is_word(&tokens[place], wanted));
    let find = |from: usize, wanted: &str| (from..outside.len()).find(|&at| is(at, wanted));
    let using = find(find(0, "merge")?, "using")?;
    let is_clause =
        |at: usize| is(at, "when") && (is(at + 1, "matched") || (is(at + 1, "not") && is(at + 2, "matched")));
    let clause = (using..outside.len()).find(|&at| is_clause(at))?;
    let condition = (using..clause).rev().find(|&at| is(at, "on"))?;
    let has_join = (using..condition).any(|at| is(at, "join"));
    let start = (outside[using] + 1..tokens.len()).find(|&place| !is_space(&tokens[place]))?;
    has_join.then_some((start, outside[condition]))
}

/// The places of the words and signs that are in no parentheses, and in no CASE: a WHEN of that is none of the statement.
fn outside_of_others(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let mut depth = 0_usize;
    let is_outside = |place: &usize| {
        let token = &tokens[*place];
        if token.token == Token::LParen || is_word(token, "case") {
            depth += 1;
        } else if token.token == Token::RParen || is_word(token, "end") {
            depth = depth.saturating_sub(1);
        }
        depth == 0 && !is_space(token)
    };
    (0..tokens.len()).filter(is_outside).collect()
}
