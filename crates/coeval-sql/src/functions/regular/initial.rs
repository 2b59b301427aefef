// SPDX-License-Identifier: Apache-2.0
//! What every text begins with that a pattern matches, as far as letters say so that count as written: `ab` of `LIKE 'ab%'` and `~ '^ab'`.

use super::pattern::pattern_of_operator;
use crate::scalar::LetterCase;
use regex_syntax::hir::{HirKind, Look};

/// That of a pattern of LIKE.
pub(crate) fn initial_of_like(pattern: &str) -> String {
    pattern.chars().take_while(|letter| !['%', '_', '\\'].contains(letter)).collect()
}

/// That of a regular expression; `None` if texts may begin with anything.
pub(crate) fn initial_of_regular(pattern: &str) -> Option<String> {
    initial_for_operator(&pattern_of_operator(pattern, LetterCase::Sensitive).ok()??)
}

/// The same of one as DataFusion's operators take it.
pub(crate) fn initial_for_operator(written: &str) -> Option<String> {
    let read = regex_syntax::parse(written).ok()?;
    let HirKind::Concat(parts) = read.kind() else { return None };
    let [first, second, ..] = parts.as_slice() else { return None };
    match (first.kind(), second.kind()) {
        (HirKind::Look(Look::Start), HirKind::Literal(letters)) => String::from_utf8(letters.0.to_vec()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_says_what_texts_begin_with() {
        for (pattern, expected) in [("ab%", "ab"), ("é_b", "é"), (r"a\%b%", "a"), ("%a", ""), ("abc", "abc")]
        {
            assert_eq!(initial_of_like(pattern), expected, "{pattern}");
        }
        for (pattern, expected) in [
            ("^ab", Some("ab")),
            ("^ab.*c$", Some("ab")),
            ("^abc?", Some("ab")),
            (r"^a\.b(?=c)", Some("a.bc")),
            (r"\Aéa+", Some("é")),
            ("(?s)^ab", Some("ab")),
            ("***=^ab", None),
            ("ab", None),
            ("(?i)^ab", None),
            ("(?n)^ab", None),
            ("^ab|^ac", None),
            ("^[ab]c", None),
            ("^", None),
            (r"^(a)\1", None),
            ("(", None),
        ] {
            assert_eq!(initial_of_regular(pattern).as_deref(), expected, "{pattern}");
        }
    }
}
