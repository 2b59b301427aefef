// SPDX-License-Identifier: Apache-2.0
//! `GENERATED ... AS IDENTITY (options)`: the parser wants the options in one order, PostgreSQL takes any.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The options, in the parser's order.
const ORDER: [&str; 6] = ["increment", "minvalue", "maxvalue", "start", "cache", "cycle"];

/// Puts the options of each identity column into the parser's order.
pub(super) fn order_identity_options(tokens: &mut [TokenWithSpan]) {
    let mut from = 0;
    while let Some(found) = tokens[from..].iter().position(|token| is_word(token, "identity")) {
        from += found + 1;
        let Some(open) = (from..tokens.len()).find(|&place| !is_space(&tokens[place])) else { return };
        if tokens[open].token != Token::LParen {
            continue;
        }
        let Some(length) = tokens[open..].iter().position(|token| token.token == Token::RParen) else {
            return;
        };
        sort_options(&mut tokens[open + 1..open + length]);
        from = open + length;
    }
}

fn sort_options(tokens: &mut [TokenWithSpan]) {
    let mut options: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
    let mut negation: Option<TokenWithSpan> = None;
    for token in tokens.iter() {
        if is_word(token, "no") {
            negation = Some(token.clone());
            continue;
        }
        match ORDER.iter().position(|word| is_word(token, word)) {
            Some(rank) => options.push((rank, negation.take().into_iter().chain([token.clone()]).collect())),
            None => match options.last_mut() {
                Some((_, option)) => option.push(token.clone()),
                // Something that is no option stands first: the parser says what is wrong with it.
                None if is_space(token) => {}
                None => return,
            },
        }
    }
    options.sort_by_key(|(rank, _)| *rank);
    let sorted: Vec<TokenWithSpan> = options.into_iter().flat_map(|(_, option)| option).collect();
    // Blanks before the first option and behind a NO fall away; what is left over stays what it was.
    let Some(first) = tokens.len().checked_sub(sorted.len()) else { return };
    if negation.is_some() {
        return;
    }
    let (blanks, rest) = tokens.split_at_mut(first);
    blanks.iter_mut().for_each(|token| token.token = Token::Whitespace(Whitespace::Space));
    rest.clone_from_slice(&sorted);
}
