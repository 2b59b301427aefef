// SPDX-License-Identifier: Apache-2.0
//! `EXCLUDE ...` at the end of a window's frame, which the parser does not know. `EXCLUDE NO OTHERS` is what goes without saying;
//! `ROWS ... EXCLUDE CURRENT ROW` becomes a function that nobody knows, in front of what the window is divided by.

use super::{is_space, is_word};
use crate::error::SqlError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The function that stands in the PARTITION BY of a window whose frame leaves out the current row.
pub(crate) const EXCLUDES_CURRENT_ROW: &str = "coeval_excludes_current_row";

const CURRENT_ROW: &str = "CURRENT ROW";

/// Takes `EXCLUDE ...` out of frames.
///
/// # Errors
/// `0A000` for groups and ties, and where the current row is left out of a frame of other units than rows, or of a window that is
/// made of a named one.
pub(super) fn take_exclusions(tokens: &mut Vec<TokenWithSpan>) -> Result<(), SqlError> {
    let mut at = 0;
    while let Some(found) = tokens[at..].iter().position(|token| is_word(token, "exclude")) {
        at += found;
        match exclusion(tokens, at) {
            Some((None, end)) => drop(tokens.drain(at..end)),
            Some((Some(what), end)) => {
                let mark = if what == CURRENT_ROW { mark_of_rows(tokens, at) } else { None };
                let Some((place, mark)) = mark else {
                    return Err(SqlError::unsupported(format!("EXCLUDE {what} in the frame of a window")));
                };
                let span = tokens[at].span;
                drop(tokens.drain(at..end));
                at += mark.len();
                let mark = mark.into_iter().map(|token| TokenWithSpan { token, span });
                drop(tokens.splice(place..place, mark));
            }
            None => at += 1,
        }
    }
    Ok(())
}

/// What the clause at this place leaves out, nothing if that is nothing, and where it ends; `None` if it is no such clause.
fn exclusion(tokens: &[TokenWithSpan], at: usize) -> Option<(Option<&'static str>, usize)> {
    const CLAUSES: [(&[&str], Option<&str>); 4] = [
        (&["no", "others"], None),
        (&["current", "row"], Some(CURRENT_ROW)),
        (&["group"], Some("GROUP")),
        (&["ties"], Some("TIES")),
    ];
    let before = tokens[..at].iter().rev().find(|token| !is_space(token))?;
    if !["row", "preceding", "following"].iter().any(|word| is_word(before, word)) {
        return None;
    }
    let behind: Vec<usize> =
        (at + 1..tokens.len()).filter(|&place| !is_space(&tokens[place])).take(3).collect();
    CLAUSES.iter().find_map(|(words, what)| {
        let end = *behind.get(words.len())?;
        let is_it = words.iter().zip(&behind).all(|(word, &place)| is_word(&tokens[place], word));
        (is_it && tokens[end].token == Token::RParen).then_some((*what, end))
    })
}

/// The words that say of the window whose frame ends here that its current row is left out, and where they go; `None` if its frame
/// is not of rows, or if it is made of a named window.
fn mark_of_rows(tokens: &[TokenWithSpan], end: usize) -> Option<(usize, Vec<Token>)> {
    let mut depth = 0_usize;
    let mut is_rows = None;
    let open = (0..end).rev().find(|&place| {
        let token = &tokens[place];
        match token.token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return true,
            Token::LParen => depth -= 1,
            // The last of these words names the units.
            _ if depth == 0 && is_rows.is_none() => {
                let units = ["rows", "range", "groups"].iter().find(|units| is_word(token, units));
                is_rows = units.map(|units| *units == "rows");
            }
            _ => {}
        }
        false
    })?;
    if is_rows != Some(true) {
        return None;
    }
    let mut words = (open + 1..end).filter(|&place| !is_space(&tokens[place]));
    let (first, second) = (words.next()?, words.next()?);
    let blank = || Token::Whitespace(Whitespace::Space);
    let call = [Token::make_word(EXCLUDES_CURRENT_ROW, None), Token::LParen, Token::RParen];
    if is_word(&tokens[first], "partition") && is_word(&tokens[second], "by") {
        return Some((second + 1, [blank()].into_iter().chain(call).chain([Token::Comma]).collect()));
    }
    let is_plain = ["order", "rows"].iter().any(|word| is_word(&tokens[first], word));
    let words = [Token::make_keyword("PARTITION"), blank(), Token::make_keyword("BY"), blank()];
    is_plain.then(|| (open + 1, words.into_iter().chain(call).chain([blank()]).collect()))
}
