// SPDX-License-Identifier: Apache-2.0
//! `LIKE`: `%` stands for any characters, `_` for one, the escape character takes the next one literally.

use crate::error::{SqlError, SqlState};

/// Whether the text matches the pattern.
///
/// Backtracks only to the last `%`, so it takes at most text times pattern steps. It looks once in so many of them whether it is to
/// end.
pub(crate) fn like(
    text: &str,
    pattern: &str,
    escape: Option<char>,
    look: impl Fn() -> Result<(), SqlError>,
) -> Result<bool, SqlError> {
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
            Some(symbol) if Some(symbol) == escape => Step::Literal(ahead.next().ok_or_else(dangling)?),
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
            Step::Literal(wanted) => text_rest.next() == Some(wanted),
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
