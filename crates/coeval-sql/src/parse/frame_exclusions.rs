// SPDX-License-Identifier: Apache-2.0
//! `EXCLUDE ...` at the end of a window's frame, which the parser does not know. `EXCLUDE NO OTHERS` is what goes without saying;
//! any other becomes a function in front of what the window is divided by: `PARTITION BY coeval_excludes_ties(), a`.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use std::ops::Range;

/// What the frame of a window leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Exclusion {
    CurrentRow,
    /// The current row and its peers.
    Group,
    /// The peers of the current row.
    Ties,
}

impl Exclusion {
    pub(crate) const EACH: [Self; 3] = [Self::CurrentRow, Self::Group, Self::Ties];

    /// The function that stands for it in the PARTITION BY of the window.
    pub(crate) const fn mark(self) -> &'static str {
        match self {
            Self::CurrentRow => "coeval_excludes_current_row",
            Self::Group => "coeval_excludes_group",
            Self::Ties => "coeval_excludes_ties",
        }
    }

    /// The clause at the end of the window's frame.
    pub(super) const fn clause(self) -> &'static str {
        match self {
            Self::CurrentRow => "EXCLUDE CURRENT ROW",
            Self::Group => "EXCLUDE GROUP",
            Self::Ties => "EXCLUDE TIES",
        }
    }

    /// The one that a function of this name stands for.
    pub(crate) fn of_mark(name: &str) -> Option<Self> {
        Self::EACH.into_iter().find(|exclusion| exclusion.mark() == name)
    }
}

/// Words that are to stand in front of a place.
struct Mark {
    place: usize,
    words: Vec<TokenWithSpan>,
}

/// Takes `EXCLUDE ...` out of frames.
pub(super) fn take_exclusions(tokens: &mut Vec<TokenWithSpan>) {
    let (mut taken, mut marks) = (Vec::new(), Vec::new());
    for at in (0..tokens.len()).filter(|&place| is_word(&tokens[place], "exclude")) {
        let Some((exclusion, end)) = exclusion(tokens, at) else { continue };
        if let Some(exclusion) = exclusion {
            let Some((place, words)) = mark_of(tokens, at, exclusion) else { continue };
            let span = tokens[at].span;
            let words = words.into_iter().map(|token| TokenWithSpan { token, span }).collect();
            marks.push(Mark { place, words });
        }
        taken.push(at..end);
    }
    if !taken.is_empty() {
        *tokens = without(std::mem::take(tokens), taken, marks);
    }
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
fn exclusion(tokens: &[TokenWithSpan], at: usize) -> Option<(Option<Exclusion>, usize)> {
    const CLAUSES: [(&[&str], Option<Exclusion>); 4] = [
        (&["no", "others"], None),
        (&["current", "row"], Some(Exclusion::CurrentRow)),
        (&["group"], Some(Exclusion::Group)),
        (&["ties"], Some(Exclusion::Ties)),
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

/// The words that say what the window whose frame ends here leaves out, and where they go; `None` if no window begins before.
fn mark_of(tokens: &[TokenWithSpan], end: usize, exclusion: Exclusion) -> Option<(usize, Vec<Token>)> {
    let mut depth = 0_usize;
    let open = (0..end).rev().find(|&place| {
        match tokens[place].token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return true,
            Token::LParen => depth -= 1,
            _ => {}
        }
        false
    })?;
    let mut words = (open + 1..end).filter(|&place| !is_space(&tokens[place]));
    let mut first = words.next()?;
    // A window may be made of a named one, whose name stands in front.
    let is_named =
        !["partition", "order", "rows", "range", "groups"].iter().any(|word| is_word(&tokens[first], word));
    let begin = if is_named { first + 1 } else { open + 1 };
    if is_named {
        first = words.next()?;
    }
    let blank = || Token::Whitespace(Whitespace::Space);
    let call = [blank(), Token::make_word(exclusion.mark(), None), Token::LParen, Token::RParen];
    if is_word(&tokens[first], "partition") {
        let by = words.next().filter(|&place| is_word(&tokens[place], "by"))?;
        return Some((by + 1, call.into_iter().chain([Token::Comma]).collect()));
    }
    let words = [blank(), Token::make_keyword("PARTITION"), blank(), Token::make_keyword("BY")];
    Some((begin, words.into_iter().chain(call).chain([blank()]).collect()))
}
