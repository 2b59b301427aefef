// SPDX-License-Identifier: Apache-2.0
//! Forms that leave something out and that the parser takes for others or does not know: `x ISNULL`, where it takes the word
//! for the name of an output, and `trim(LEADING FROM x)`, which is `trim(LEADING x)`. And one with more words:
//! `substring(x SIMILAR y ESCAPE z)` is `substring(x, y, z)`. And `interval(2) '1.234'`, which is `'1.234'::interval(2)`, and of which it
//! forgets the digits.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Words that say where `trim` takes letters away.
const SIDES: [&str; 3] = ["leading", "trailing", "both"];

/// Writes these forms in full.
pub(super) fn spell_short_forms(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if tokens.iter().any(|token| is_word(token, "substring")) {
        spell_parts(&mut tokens);
    }
    if tokens.iter().any(|token| is_word(token, "interval")) {
        tokens = spell_intervals(tokens);
    }
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

/// Puts the literal behind `interval(2)` in front of it, as what is cast.
fn spell_intervals(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len()).filter(|&place| !is_space(&tokens[place])).collect();
    let ends_of_form = |form: &[usize]| {
        let &[interval, open, digits, close, literal] = form else { return None };
        let is_form = is_word(&tokens[interval], "interval")
            && tokens[open].token == Token::LParen
            && matches!(tokens[digits].token, Token::Number(..))
            && tokens[close].token == Token::RParen
            && matches!(tokens[literal].token, Token::SingleQuotedString(_));
        is_form.then_some((interval, literal))
    };
    let forms: Vec<(usize, usize)> = places.windows(5).filter_map(ends_of_form).collect();
    if forms.is_empty() {
        return tokens;
    }
    let mut spelled = Vec::with_capacity(tokens.len() + forms.len());
    let mut forms = forms.into_iter().peekable();
    for (place, token) in tokens.iter().enumerate() {
        match forms.peek() {
            Some(&(interval, literal)) if interval == place => {
                let text = tokens[literal].clone();
                let cast = TokenWithSpan { token: Token::DoubleColon, span: text.span };
                spelled.extend([text, cast, token.clone()]);
            }
            Some(&(_, literal)) if literal == place => drop(forms.next()),
            _ => spelled.push(token.clone()),
        }
    }
    spelled
}

/// Puts commas in the places of SIMILAR and ESCAPE between the parentheses of `substring(...)`, but not of those of a test inside of
/// it, `x SIMILAR TO y ESCAPE z`.
fn spell_parts(tokens: &mut [TokenWithSpan]) {
    /// What has been read of one pair of parentheses.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Inside {
        Other,
        Substring,
        BehindSimilar,
    }
    let places: Vec<usize> = (0..tokens.len()).filter(|&place| !is_space(&tokens[place])).collect();
    let mut open = vec![Inside::Other];
    for (index, &place) in places.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| &tokens[places[before]]);
        let behind = places.get(index + 1).map(|&behind| &tokens[behind]);
        let token = &tokens[place];
        let inside = open.last().copied().unwrap_or(Inside::Other);
        let next = match inside {
            Inside::Substring
                if is_word(token, "similar")
                    && before.is_some_and(ends_operand)
                    && behind.is_none_or(|next| !is_word(next, "to")) =>
            {
                Some(Inside::BehindSimilar)
            }
            Inside::BehindSimilar if is_word(token, "escape") => Some(Inside::Other),
            _ => None,
        };
        match &token.token {
            Token::LParen if before.is_some_and(|before| is_word(before, "substring")) => {
                open.push(Inside::Substring);
            }
            Token::LParen => open.push(Inside::Other),
            Token::RParen => drop(open.pop()),
            _ => {}
        }
        if let Some(next) = next {
            if let Some(inside) = open.last_mut() {
                *inside = next;
            }
            tokens[place].token = Token::Comma;
        }
    }
}

/// Whether an operand may end with a token, behind which a word is no name of a column then.
fn ends_operand(token: &TokenWithSpan) -> bool {
    matches!(
        token.token,
        Token::Word(_) | Token::SingleQuotedString(_) | Token::Number(..) | Token::RParen | Token::RBracket
    )
}
