// SPDX-License-Identifier: Apache-2.0
//! Forms that leave something out and that the parser takes for others or does not know: `x ISNULL`, where it takes the word
//! for the name of an output, and `trim(LEADING FROM x)`, which is `trim(LEADING x)`.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Words that say where `trim` takes letters away.
const SIDES: [&str; 3] = ["leading", "trailing", "both"];

/// Writes these forms in full.
pub(super) fn spell_short_forms(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "isnull") || is_word(token, "trim")) {
        return tokens;
    }
    let mut spelled: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 2);
    // The last words that are no blanks, the newest first.
    let mut before: [Option<&TokenWithSpan>; 3] = [None; 3];
    for token in &tokens {
        if is_word(token, "isnull") && is_question(before[0]) {
            let blank = Token::Whitespace(Whitespace::Space);
            let words = [Token::make_keyword("IS"), blank, Token::make_keyword("NULL")];
            spelled.extend(words.map(|word| TokenWithSpan { token: word, span: token.span }));
        } else if !(is_word(token, "from") && is_of_trim(&before)) {
            spelled.push(token.clone());
        }
        if !is_space(token) {
            before = [Some(token), before[0], before[1]];
        }
    }
    spelled
}

/// Whether ISNULL asks about what is before it, and names nothing.
fn is_question(before: Option<&TokenWithSpan>) -> bool {
    before.is_some_and(|before| before.token != Token::Period && !is_word(before, "as"))
}

/// Whether FROM stands behind `trim(` or `trim(LEADING`.
fn is_of_trim(before: &[Option<&TokenWithSpan>; 3]) -> bool {
    let is = |place: usize, word: &str| before[place].is_some_and(|token| is_word(token, word));
    let opens = |place: usize| before[place].is_some_and(|token| token.token == Token::LParen);
    let names_a_side = SIDES.iter().any(|side| is(0, side));
    (opens(0) && is(1, "trim")) || (names_a_side && opens(1) && is(2, "trim"))
}
