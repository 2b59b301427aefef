// SPDX-License-Identifier: Apache-2.0
//! Sets of letters, with those that the `regex` crate has in them.

use super::pattern::{Options, wrong};
use super::syntax::Letters;
use crate::error::SqlError;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, HirKind};
use std::cmp::Ordering;

/// Letters.
#[derive(Clone, Debug)]
pub(super) struct LetterSet {
    /// A bit for each letter of ASCII.
    ascii: u128,
    /// The first and the last one of each range, in order.
    ranges: Vec<(char, char)>,
}

impl LetterSet {
    /// The letters of which a pattern of these options takes one.
    ///
    /// # Errors
    /// `2201B` for a set that the crate does not know.
    pub(super) fn of(letters: &Letters, options: Options) -> Result<Self, SqlError> {
        let parsed = ParserBuilder::new()
            .case_insensitive(options.ignores_case)
            .dot_matches_new_line(!options.stops_at_lines)
            .build()
            .parse(&letters.written());
        let ranges = match parsed.as_ref().map(|set| set.kind()) {
            Ok(HirKind::Class(Class::Unicode(class))) => {
                class.ranges().iter().map(|range| (range.start(), range.end())).collect()
            }
            // So the crate has a set without letters, such as `[^\s\S]`.
            Ok(HirKind::Class(Class::Bytes(class))) if class.ranges().is_empty() => Vec::new(),
            Ok(HirKind::Literal(literal)) => {
                let text = String::from_utf8_lossy(&literal.0);
                text.chars().map(|letter| (letter, letter)).collect()
            }
            _ => return Err(wrong("invalid character class")),
        };
        Ok(Self::of_ranges(ranges))
    }

    fn of_ranges(ranges: Vec<(char, char)>) -> Self {
        let mut ascii = 0_u128;
        for (first, last) in ranges.iter().take_while(|(first, _)| first.is_ascii()) {
            for letter in *first..=(*last).min('\x7F') {
                ascii |= 1_u128 << u32::from(letter);
            }
        }
        Self { ascii, ranges }
    }

    /// How many ranges of letters it has, of eight bytes each.
    pub(super) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    #[inline]
    pub(super) fn contains(&self, letter: char) -> bool {
        if letter.is_ascii() {
            return (self.ascii >> u32::from(letter)) & 1 == 1;
        }
        let side = |(first, last): &(char, char)| {
            if *last < letter {
                Ordering::Less
            } else if *first > letter {
                Ordering::Greater
            } else {
                Ordering::Equal
            }
        };
        self.ranges.binary_search_by(side).is_ok()
    }

    /// Whether a letter is in both.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let (mut one, mut another) = (self.ranges.iter(), other.ranges.iter());
        let (mut left, mut right) = (one.next(), another.next());
        while let (Some((first, last)), Some((other_first, other_last))) = (left, right) {
            if last < other_first {
                left = one.next();
            } else if other_last < first {
                right = another.next();
            } else {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_letters_that_the_crate_says() {
        let set = |written: &str, options| LetterSet::of(&Letters::Set(written.to_owned()), options).unwrap();
        let (plain, of_case) = (Options::default(), Options::parse("i").unwrap());
        let word = set(r"\w", plain);
        assert!(["a", "_", "é", "9", "字"].iter().all(|text| word.contains(text.chars().next().unwrap())));
        assert!(!word.contains('-') && !word.contains('–'));
        assert!(set("[a]", of_case).contains('A') && !set("[a]", plain).contains('A'));
        assert!(word.meets(&set("[^a-z]", plain)) && !word.meets(&set(r"\s", plain)));
        assert!(LetterSet::of(&Letters::Any, plain).unwrap().contains('\n'));
        assert!(!LetterSet::of(&Letters::Any, Options::parse("n").unwrap()).unwrap().contains('\n'));
        assert!(LetterSet::of(&Letters::One('é'), of_case).unwrap().contains('É'));
        let none = set(r"[^\s\S]", plain);
        assert!(!none.contains('a') && !none.contains(' ') && !none.meets(&word));
    }
}
