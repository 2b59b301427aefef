// SPDX-License-Identifier: Apache-2.0
//! An offset of a window's frame that begins with a text, `RANGE '1 day'::interval PRECEDING`: the parser takes the text alone for the
//! offset. In parentheses it reads all of it.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The function that stands in the PARTITION BY of a window for an offset of its frame that is to be computed.
pub(crate) const FRAME_OFFSET: &str = "coeval_frame_offset";

/// Words that an offset stands behind.
const BEFORE_OFFSETS: [&str; 5] = ["rows", "range", "groups", "between", "and"];

/// Words that an offset stands in front of.
const BEHIND_OFFSETS: [&str; 2] = ["preceding", "following"];

/// Puts such offsets into parentheses.
pub(super) fn enclose_offsets(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let ends = (0..tokens.len()).filter(|&place| is_any(&tokens[place], &BEHIND_OFFSETS));
    let offsets: Vec<(usize, usize)> = ends.filter_map(|end| Some((beginning(&tokens, end)?, end))).collect();
    if offsets.is_empty() {
        return tokens;
    }
    let mut enclosed = Vec::with_capacity(tokens.len() + 2 * offsets.len());
    let mut offsets = offsets.into_iter().peekable();
    for (place, token) in tokens.into_iter().enumerate() {
        let like = |other: Token| TokenWithSpan { token: other, span: token.span };
        if offsets.peek().is_some_and(|&(begin, _)| begin == place) {
            enclosed.push(like(Token::LParen));
        }
        if offsets.next_if(|&(_, end)| end == place).is_some() {
            enclosed.push(like(Token::RParen));
        }
        enclosed.push(token);
    }
    enclosed
}

fn is_any(token: &TokenWithSpan, words: &[&str]) -> bool {
    words.iter().any(|word| is_word(token, word))
}

/// Where the offset begins that ends here, if it begins with a text and has more behind that.
fn beginning(tokens: &[TokenWithSpan], end: usize) -> Option<usize> {
    let (mut depth, mut words, mut begin) = (0_usize, 0_usize, None);
    for place in (0..end).rev().filter(|&place| !is_space(&tokens[place])) {
        let token = &tokens[place];
        match token.token {
            Token::RParen => depth += 1,
            Token::LParen => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            _ if is_any(token, &BEFORE_OFFSETS) => {
                let is_text = |begin: &usize| matches!(tokens[*begin].token, Token::SingleQuotedString(_));
                return begin.filter(is_text).filter(|_| words > 1);
            }
            _ if is_any(token, &BEHIND_OFFSETS) => return None,
            _ => {}
        }
        words += 1;
        begin = Some(place);
    }
    None
}
