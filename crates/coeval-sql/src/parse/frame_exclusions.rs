// SPDX-License-Identifier: Apache-2.0
//! `EXCLUDE ...` at the end of a window's frame, which the parser does not know. `EXCLUDE NO OTHERS` is what goes without saying;
//! `ROWS ... EXCLUDE CURRENT ROW` becomes a function that nobody knows, in front of what the window is divided by.

use super::{is_space, is_word};
use crate::error::SqlError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use std::ops::Range;

/// The function that stands in the PARTITION BY of a window whose frame leaves out the current row.
pub(crate) const EXCLUDES_CURRENT_ROW: &str = "coeval_excludes_current_row";

const CURRENT_ROW: &str = "CURRENT ROW";

/// Words that are to stand in front of a place.
struct Mark {
    place: usize,
    words: Vec<TokenWithSpan>,
}

/// Takes `EXCLUDE ...` out of frames.
///
/// # Errors
/// `0A000` for groups and ties, and where the current row is left out of a frame of other units than rows, or of a window that is
/// made of a named one.
pub(super) fn take_exclusions(tokens: &mut Vec<TokenWithSpan>) -> Result<(), SqlError> {
    let (mut taken, mut marks) = (Vec::new(), Vec::new());
    for at in (0..tokens.len()).filter(|&place| is_word(&tokens[place], "exclude")) {
        let Some((what, end)) = exclusion(tokens, at) else { continue };
        if let Some(what) = what {
            let mark = if what == CURRENT_ROW { mark_of_rows(tokens, at) } else { None };
            let Some((place, words)) = mark else {
                return Err(SqlError::unsupported(format!("EXCLUDE {what} in the frame of a window")));
            };
            let span = tokens[at].span;
            let words = words.into_iter().map(|token| TokenWithSpan { token, span }).collect();
            marks.push(Mark { place, words });
        }
        taken.push(at..end);
    }
    if !taken.is_empty() {
        *tokens = without(std::mem::take(tokens), taken, marks);
    }
    Ok(())
}

/// The tokens without those in these ranges, which are in order and do not touch, and with marks.
fn without(tokens: Vec<TokenWithSpan>, taken: Vec<Range<usize>>, mut marks: Vec<Mark>) -> Vec<TokenWithSpan> {
    // That of a window within another one comes behind it.
    marks.sort_by_key(|mark| mark.place);
    let (mut taken, mut marks) = (taken.into_iter().peekable(), marks.into_iter().peekable());
    let mut kept = Vec::with_capacity(tokens.len());
    for (place, token) in tokens.into_iter().enumerate() {
        if let Some(mark) = marks.next_if(|mark| mark.place == place) {
            kept.extend(mark.words);
        }
        while taken.next_if(|range| range.end <= place).is_some() {}
        if taken.peek().is_none_or(|range| place < range.start) {
            kept.push(token);
        }
    }
    kept
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
