// SPDX-License-Identifier: Apache-2.0
//! `SELECT ... FOR UPDATE LIMIT n`, which is `LIMIT n FOR UPDATE`: the parser knows only the latter.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The words that counts of rows begin with.
const COUNTS: [&str; 3] = ["limit", "offset", "fetch"];

/// How often each token may be moved, on the average. Where queries with locks are within each other, so are the parts that are moved.
const MOVES_PER_TOKEN: usize = 20;

/// Puts locking clauses behind LIMIT, OFFSET and FETCH where they stand in front of these. Costs two passes over the tokens.
pub(super) fn put_locks_last(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut moves_left = tokens.len().saturating_mul(MOVES_PER_TOKEN);
    let mut at = 0;
    while let Some(found) = tokens[at..].iter().position(|token| is_word(token, "for")) {
        at += found;
        let behind = locks_end(&tokens, at);
        if let Some(end) = counts_end(&tokens, behind) {
            // The parser refuses what is left as it is.
            let Some(left) = moves_left.checked_sub(end - at) else { return tokens };
            moves_left = left;
            tokens[at..end].rotate_left(behind - at);
        }
        at = behind.max(at + 1);
    }
    tokens
}

fn is_any(token: &TokenWithSpan, words: &[&str]) -> bool {
    words.iter().any(|word| is_word(token, word))
}

/// Where the locking clauses end of which the first begins here; this place, if there are none.
fn locks_end(tokens: &[TokenWithSpan], first: usize) -> usize {
    const STRENGTHS: [&str; 4] = ["update", "share", "no", "key"];
    const WORDS: [&str; 9] = ["for", "update", "share", "no", "key", "of", "nowait", "skip", "locked"];
    let mut words = (first..tokens.len()).filter(|&place| !is_space(&tokens[place]));
    if !words.clone().nth(1).is_some_and(|place| is_any(&tokens[place], &STRENGTHS)) {
        return first;
    }
    let mut has_names = false;
    let end = words.find(|&place| {
        let token = &tokens[place];
        has_names |= is_word(token, "of");
        let may_name = matches!(token.token, Token::Word(_) | Token::Comma | Token::Period);
        let is_name = has_names && may_name && !is_any(token, &COUNTS);
        !is_name && !is_any(token, &WORDS)
    });
    end.unwrap_or(tokens.len())
}

/// Where the counts end that begin here; `None` if there are none, or if there are locking clauses behind them as well.
fn counts_end(tokens: &[TokenWithSpan], start: usize) -> Option<usize> {
    tokens.get(start).filter(|first| is_any(first, &COUNTS))?;
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(start) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return Some(place),
            Token::RParen => depth -= 1,
            _ if depth > 0 => {}
            _ if is_word(token, "for") => return None,
            // Of the INSERT that the query is a part of.
            _ if is_any(token, &["on", "returning"]) => return Some(place),
            _ => {}
        }
    }
    Some(tokens.len())
}
