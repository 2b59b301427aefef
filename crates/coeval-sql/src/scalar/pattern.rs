// SPDX-License-Identifier: Apache-2.0
//! `LIKE`: `%` stands for any characters, `_` for one, the escape character takes the next one literally.

use super::node::{LetterCase, LikeStyle};
use crate::error::{SqlError, SqlState};

/// Whether the text matches the pattern. Where the case of letters is ignored, each of both is compared [as a small
/// one](lower_letter).
///
/// Backtracks only to the last `%`, so it takes at most text times pattern steps. It looks once in so many of them whether it is to
/// end.
pub(crate) fn like(
    text: &str,
    pattern: &str,
    style: LikeStyle,
    look: impl Fn() -> Result<(), SqlError>,
) -> Result<bool, SqlError> {
    let compared = |letter: char| match style.letters {
        LetterCase::Sensitive => letter,
        LetterCase::Ignored => lower_letter(letter),
    };
    let mut steps: u32 = 0;
    let mut text_rest = text.chars();
    let mut pattern_rest = pattern.chars();
    let mut restart: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        steps = steps.wrapping_add(1);
        if steps.is_multiple_of(STEPS_BETWEEN_LOOKS) {
            look()?;
        }
        let mut ahead = pattern_rest.clone();
        let step = match ahead.next() {
            None => Step::End,
            Some(symbol) if Some(symbol) == style.escape => match ahead.next() {
                Some(letter) => Step::Literal(letter),
                // Behind the text nothing is compared with it.
                None if text_rest.next().is_none() => return Ok(false),
                None => return Err(dangling()),
            },
            Some('%') => Step::Any,
            Some('_') => Step::One,
            Some(symbol) => Step::Literal(symbol),
        };
        let fits = match step {
            Step::Any => {
                restart = Some((text_rest.clone(), ahead.clone()));
                pattern_rest = ahead;
                continue;
            }
            Step::End => match text_rest.clone().next() {
                None => return Ok(true),
                Some(_) => false,
            },
            Step::One => text_rest.next().is_some(),
            Step::Literal(wanted) => text_rest.next().map(compared) == Some(compared(wanted)),
        };
        if fits {
            pattern_rest = ahead;
            continue;
        }
        let Some((text_from, pattern_from)) = restart.as_mut() else { return Ok(false) };
        if text_from.next().is_none() {
            return Ok(false);
        }
        text_rest = text_from.clone();
        pattern_rest = pattern_from.clone();
    }
}

/// Whether a pattern ends with an escape that takes no letter: a mistake where something is compared with it.
pub(crate) fn dangles(pattern: &str, escape: char) -> bool {
    pattern.chars().rev().take_while(|letter| *letter == escape).count() % 2 == 1
}

/// The letter as lower() of PostgreSQL makes it, for which the library of the system knows one letter for each: `İ` is `i`, `Σ` is `σ`
/// wherever it stands, and what is small already stays as it is (`ſ`, `ς`).
pub(crate) fn lower_letter(letter: char) -> char {
    match letter {
        // The only one that Unicode makes two of.
        'İ' => 'i',
        letter => letter.to_lowercase().next().unwrap_or(letter),
    }
}

const STEPS_BETWEEN_LOOKS: u32 = 1 << 14;

enum Step {
    End,
    Any,
    One,
    Literal(char),
}

fn dangling() -> SqlError {
    SqlError::new(SqlState::InvalidEscapeSequence, "LIKE pattern must not end with escape character")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_letter_alone_has_a_small_form_of_two() {
        let of_two: Vec<char> =
            ('\0'..=char::MAX).filter(|letter| letter.to_lowercase().count() > 1).collect();
        assert_eq!(of_two, ['İ']);
    }

    #[test]
    fn an_escape_without_a_letter_is_a_mistake_where_one_is_compared_with_it() {
        let style = LikeStyle { escape: Some('\\'), letters: LetterCase::Sensitive };
        let is_like = |text, pattern| like(text, pattern, style, || Ok(()));
        for (text, pattern) in [("ab", r"abc\"), ("abc", r"abc\"), ("", r"%\"), ("xb", r"%b\")] {
            assert!(dangles(pattern, '\\') && is_like(text, pattern) == Ok(false), "{text} {pattern}");
        }
        for (text, pattern) in [("abcd", r"abc\"), (r"abc\", r"abc\"), ("a", r"%\")] {
            assert_eq!(is_like(text, pattern).unwrap_err().state, SqlState::InvalidEscapeSequence, "{text}");
        }
        assert!(!dangles(r"a\\", '\\') && is_like(r"a\", r"a\\") == Ok(true));
    }

    #[test]
    fn an_escape_is_none_of_the_letters_whose_case_is_ignored() {
        let style = LikeStyle { escape: Some('X'), letters: LetterCase::Ignored };
        let is_like = |text, pattern| like(text, pattern, style, || Ok(())).unwrap();
        assert!(is_like("Ax%", "axX%") && is_like("AX%", "axX%"));
        assert!(!is_like("axb", "axX%"));
    }
}
