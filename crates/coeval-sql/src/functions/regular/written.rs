// SPDX-License-Identifier: Apache-2.0
//! Patterns in the syntax of the `regex` crate.
//!
//! | PostgreSQL | there |
//! |---|---|
//! | `\m`, `\M`, `\y`, `\Y`, `\Z` | `\b{start}`, `\b{end}`, `\b`, `\B`, `\z` |
//! | `.`, `^`, `$` | the same, with flags that say whether they mind lines |
//! | `(?=x)`, `(?<=x)`, `\1` | nothing |

use super::syntax::{Atom, Choice, Letters, Piece, Place, Prefers, Syntax, Times};

/// The pattern; `None` if it looks around or refers back, which the crate does not.
pub(super) fn written(syntax: &Syntax) -> Option<String> {
    let mut out = String::new();
    push_choice(&syntax.top, &mut out)?;
    Some(out)
}

/// Writes a part of a pattern; `None` if that looks around or refers back.
pub(super) fn push_choice(choice: &Choice, out: &mut String) -> Option<()> {
    for (place, branch) in choice.branches.iter().enumerate() {
        if place > 0 {
            out.push('|');
        }
        push_branch(branch, out)?;
    }
    Some(())
}

/// As [`push_choice`].
pub(super) fn push_branch(branch: &[Piece], out: &mut String) -> Option<()> {
    branch.iter().filter(|piece| !piece.is_nothing()).try_for_each(|piece| push_piece(piece, out))
}

fn push_piece(piece: &Piece, out: &mut String) -> Option<()> {
    match &piece.atom {
        Atom::Letters(letters) => out.push_str(&letters.written()),
        Atom::Group { number, inside } => {
            out.push_str(if number.is_some() { "(" } else { "(?:" });
            push_choice(inside, out)?;
            out.push(')');
        }
        Atom::Place(place) => out.push_str(place.written()),
        Atom::Look(_) | Atom::Back { .. } => return None,
    }
    push_times(piece.times, out);
    Some(())
}

pub(super) fn push_times(times: Times, out: &mut String) {
    match (times.least, times.most) {
        (1, Some(1)) => return,
        (0, None) => out.push('*'),
        (1, None) => out.push('+'),
        (0, Some(1)) => out.push('?'),
        (least, None) => out.push_str(&format!("{{{least},}}")),
        (least, Some(most)) if least == most => out.push_str(&format!("{{{least}}}")),
        (least, Some(most)) => out.push_str(&format!("{{{least},{most}}}")),
    }
    if times.prefers == Some(Prefers::Shortest) {
        out.push('?');
    }
}

impl Letters {
    pub(super) fn written(&self) -> String {
        match self {
            Self::One(letter) => regex::escape(letter.encode_utf8(&mut [0; 4])),
            Self::Any => ".".to_owned(),
            Self::Set(set) => set.clone(),
        }
    }
}

impl Place {
    pub(super) fn written(self) -> &'static str {
        match self {
            Self::Begin => "^",
            Self::End => "$",
            Self::TextBegin => r"\A",
            Self::TextEnd => r"\z",
            Self::WordBegin => r"\b{start}",
            Self::WordEnd => r"\b{end}",
            Self::WordEdge => r"\b",
            Self::NoWordEdge => r"\B",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Options;
    use super::super::syntax::parsed;
    use super::*;

    #[test]
    fn a_pattern_is_written_as_the_crate_reads_it() {
        for (pattern, expected) in [
            ("^abc", "^abc"),
            ("^(abc)?d", "^(abc)?d"),
            (r"\mdog\M|\Aa\Z", r"\b{start}dog\b{end}|\Aa\z"),
            ("[[:<:]]a{2,3}?b{2}c{2,}d{1,1}", r"\b{start}a{2,3}?b{2}c{2,}d"),
            (r"[^]a-c[:alpha:]\d&]", r"[^\x{5D}a-c[:alpha:]\d\x{26}]"),
            (r"\<a\.\u00e9\x41", r"<a\.éA"),
            ("***=a.b", r"a\.b"),
            ("(a){0}b", "b"),
            ("a{b", r"a\{b"),
        ] {
            let syntax = parsed(pattern, Options::default()).unwrap();
            assert_eq!(written(&syntax).as_deref(), Some(expected), "{pattern}");
        }
        for pattern in ["a(?=b)", "(?<!a)b", r"(a)\1", r"((a)\2)"] {
            assert_eq!(written(&parsed(pattern, Options::default()).unwrap()), None, "{pattern}");
        }
    }
}
