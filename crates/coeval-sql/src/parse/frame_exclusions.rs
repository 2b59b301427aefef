// SPDX-License-Identifier: Apache-2.0
//! `EXCLUDE ...` at the end of a window's frame, which the parser does not know. `EXCLUDE NO OTHERS` is what goes without saying.

use super::{is_space, is_word};
use crate::error::SqlError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Takes `EXCLUDE NO OTHERS` out of frames.
///
/// # Errors
/// `0A000` for what leaves rows out.
pub(super) fn take_exclusions(tokens: &mut Vec<TokenWithSpan>) -> Result<(), SqlError> {
    let mut at = 0;
    while let Some(found) = tokens[at..].iter().position(|token| is_word(token, "exclude")) {
        at += found;
        match exclusion(tokens, at) {
            Some((None, end)) => drop(tokens.drain(at..end)),
            Some((Some(what), _)) => {
                return Err(SqlError::unsupported(format!("EXCLUDE {what} in the frame of a window")));
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
        (&["current", "row"], Some("CURRENT ROW")),
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
