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
    if !tokens.iter().any(|token| is_any(token, &BEHIND_OFFSETS)) {
        return tokens;
    }
    let (mut begins, ends): (Vec<usize>, Vec<usize>) = offsets(&tokens).into_iter().unzip();
    if begins.is_empty() {
        return tokens;
    }
    // One may be within another.
    begins.sort_unstable();
    let mut enclosed = Vec::with_capacity(tokens.len() + 2 * begins.len());
    let (mut begins, mut ends) = (begins.into_iter().peekable(), ends.into_iter().peekable());
    for (place, token) in tokens.into_iter().enumerate() {
        let like = |other: Token| TokenWithSpan { token: other, span: token.span };
        if begins.next_if_eq(&place).is_some() {
            enclosed.push(like(Token::LParen));
        }
        if ends.next_if_eq(&place).is_some() {
            enclosed.push(like(Token::RParen));
        }
        enclosed.push(token);
    }
    enclosed
}

fn is_any(token: &TokenWithSpan, words: &[&str]) -> bool {
    words.iter().any(|word| is_word(token, word))
}

/// What may be an offset, as far as it was read.
#[derive(Clone, Copy, Default)]
struct Begun {
    first: Option<usize>,
    words: usize,
}

impl Begun {
    fn note(&mut self, place: usize) {
        self.first.get_or_insert(place);
        self.words += 1;
    }

    /// Where it begins, if it begins with a text and has more behind that.
    fn beginning(self, tokens: &[TokenWithSpan]) -> Option<usize> {
        let is_text = |first: &usize| matches!(tokens[*first].token, Token::SingleQuotedString(_));
        self.first.filter(is_text).filter(|_| self.words > 1)
    }
}

/// Where such offsets begin and end, in the order of their ends.
fn offsets(tokens: &[TokenWithSpan]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    // What was begun in front of each parenthesis that is open, and behind the last one.
    let (mut around, mut here): (Vec<Option<Begun>>, Option<Begun>) = (Vec::new(), None);
    for (place, token) in tokens.iter().enumerate().filter(|(_, token)| !is_space(token)) {
        match token.token {
            Token::LParen => {
                if let Some(begun) = &mut here {
                    begun.note(place);
                }
                around.push(here.take());
            }
            Token::RParen => here = around.pop().flatten(),
            _ if is_any(token, &BEFORE_OFFSETS) => here = Some(Begun::default()),
            _ if is_any(token, &BEHIND_OFFSETS) => {
                let begun = here.take().and_then(|begun| begun.beginning(tokens));
                found.extend(begun.map(|begin| (begin, place)));
            }
            _ => {
                if let Some(begun) = &mut here {
                    begun.note(place);
                }
            }
        }
    }
    found
}
