// SPDX-License-Identifier: Apache-2.0
//! A search that looks on its way whether the statement is to end.
//!
//! The `regex` crate searches a text at one go: gigabytes of it, and in the worst case in time that grows with the product of the
//! text and the pattern. So in long texts the automaton that the crate is built on is stepped here, a byte at a time. It says whether
//! there is a match at all; where it is, and its groups, the crate looks for then, if that is not too much work.
//!
//! Another automaton says where the shortest or the longest match ends of those that begin at a place, which the crate does not.

use super::pattern::{Options, wrong};
use crate::allowance::Meter;
use crate::error::{SqlError, SqlState};
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use std::cell::RefCell;

/// Shorter texts are searched at one go, whatever the pattern is.
const SHORT_BYTES: usize = 256;

/// And so are those in which a search takes no more steps, one for each byte and state in the worst case: some milliseconds.
const FEW_STEPS: usize = 1 << 22;

/// Bytes between two looks. Each may need a new state, which takes as long as the pattern is.
const BYTES_BETWEEN_LOOKS: usize = 256;

/// The most steps that a search at one go may take: seconds, or a minute where the crate has to follow all states at once.
const STEPS_MAX: usize = 1 << 34;

/// What the states that were met may take. Then they are forgotten, and met anew.
const CACHE_BYTES: usize = 2 << 20;

/// The automaton of a pattern.
#[derive(Debug)]
pub(super) struct Automaton {
    dfa: DFA,
    /// Whether matches are to begin where the search does.
    anchored: Anchored,
    states: usize,
    cache: RefCell<Cache>,
}

/// What a search is to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Whether,
    End,
}

/// What a search has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    None,
    /// There is a match, and it ends here, or further on if its end was not wanted.
    Until(usize),
    /// The automaton cannot tell: Unicode's ends of words in a text that is not ASCII.
    Nothing,
}

impl Automaton {
    /// The automaton of a pattern that is written in the crate's syntax, and that the crate has compiled.
    ///
    /// # Errors
    /// `2201B` if there is none of this size.
    pub(super) fn of(written: &str, options: Options, bytes_max: usize) -> Result<Self, SqlError> {
        Self::made(written, options, bytes_max, (Anchored::No, MatchKind::LeftmostFirst))
    }

    /// The same that finds where matches end that begin where a search does: the shortest one if it is to say [`Wanted::Whether`]
    /// there is one, else the longest.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(super) fn of_ends(written: &str, options: Options, bytes_max: usize) -> Result<Self, SqlError> {
        Self::made(written, options, bytes_max, (Anchored::Yes, MatchKind::All))
    }

    fn made(
        written: &str,
        options: Options,
        bytes_max: usize,
        (anchored, kind): (Anchored, MatchKind),
    ) -> Result<Self, SqlError> {
        let nfa = thompson::Compiler::new()
            .syntax(options.syntax())
            .configure(
                thompson::Config::new()
                    .which_captures(WhichCaptures::None)
                    // It has what the compiled one has, and a little more.
                    .nfa_size_limit(Some(bytes_max.saturating_mul(4))),
            )
            .build(written)
            .map_err(|error| wrong(&error.to_string()))?;
        let states = nfa.states().len();
        let config = Config::new()
            .match_kind(kind)
            .unicode_word_boundary(true)
            .cache_capacity(CACHE_BYTES)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(None);
        let dfa = DFA::builder()
            .configure(config)
            .build_from_nfa(nfa)
            .map_err(|error| wrong(&error.to_string()))?;
        let cache = RefCell::new(dfa.create_cache());
        Ok(Self { dfa, anchored, states, cache })
    }

    /// Whether there is a match from a byte of the text on, and if `wanted` is its end, where that ends.
    ///
    /// # Errors
    /// The error of a statement that was told to end.
    pub(super) fn search(
        &self,
        text: &str,
        from: usize,
        wanted: Wanted,
        meter: &Meter,
    ) -> Result<Told, SqlError> {
        self.search_as_far(text, from, wanted, meter).map(|(told, _)| told)
    }

    /// The same, and up to which byte it had to look for that.
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub(super) fn search_as_far(
        &self,
        text: &str,
        from: usize,
        wanted: Wanted,
        meter: &Meter,
    ) -> Result<(Told, usize), SqlError> {
        let mut cache = self.cache.borrow_mut();
        let input = Input::new(text).range(from..).anchored(self.anchored);
        let Ok(mut state) = self.dfa.start_state_forward(&mut cache, &input) else {
            return Ok((Told::Nothing, from));
        };
        let mut told = Told::None;
        let mut place = from;
        for piece in text.as_bytes()[from..].chunks(BYTES_BETWEEN_LOOKS) {
            meter.look()?;
            for &byte in piece {
                let Ok(next) = self.dfa.next_state(&mut cache, state, byte) else {
                    return Ok((Told::Nothing, place));
                };
                state = next;
                if state.is_tagged() {
                    if state.is_match() {
                        // A match is told a byte later.
                        told = Told::Until(place);
                        if wanted == Wanted::Whether {
                            return Ok((told, place));
                        }
                    } else if state.is_dead() {
                        return Ok((told, place));
                    } else if state.is_quit() {
                        return Ok((Told::Nothing, place));
                    }
                }
                place += 1;
            }
        }
        let told = match self.dfa.next_eoi_state(&mut cache, state) {
            Ok(state) if state.is_match() => Told::Until(text.len()),
            Ok(_) => told,
            Err(_) => Told::Nothing,
        };
        Ok((told, text.len()))
    }

    /// How many states the pattern has.
    pub(super) fn states(&self) -> usize {
        self.states
    }

    /// Asks before a search at one go.
    ///
    /// # Errors
    /// `54001` if it may take too long.
    pub(super) fn require_short(&self, bytes: usize) -> Result<(), SqlError> {
        if bytes.saturating_mul(self.states) <= STEPS_MAX {
            return Ok(());
        }
        let message = "regular expression is too complex for a text of this length";
        let detail = format!("The pattern has {} states, and the text {bytes} bytes.", self.states);
        Err(SqlError::new(SqlState::StatementTooComplex, message).with_detail(detail))
    }
}

/// Whether so many bytes are searched at one go, whatever is looked for.
pub(super) fn is_short(bytes: usize) -> bool {
    bytes <= SHORT_BYTES
}

/// Whether a search in so many bytes, for a pattern of so many states, is to look on its way.
pub(super) fn is_long(bytes: usize, states: usize) -> bool {
    bytes.saturating_mul(states) > FEW_STEPS
}

impl Options {
    /// As the automaton's builder takes them; the same as [`RegexBuilder`](regex::RegexBuilder) does.
    fn syntax(self) -> syntax::Config {
        syntax::Config::new()
            .case_insensitive(self.ignores_case)
            .dot_matches_new_line(!self.stops_at_lines)
            .multi_line(self.anchors_at_lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::config::ConfigOptions;
    use regex::Regex;

    #[test]
    fn the_automaton_finds_what_the_crate_finds() {
        let meter = Meter::begin(&ConfigOptions::new(), "test");
        let patterns =
            ["", "a", "^a", "a$", "^$", "(a|b)*c", "a.c", r"\bab\b", r"\w+é", "[^a]", "(?s)a.*c$", "x{2,3}y"];
        let texts = ["", "a", "ba", "ab", "abc", "a\nc", "aéc", "ab cd", "é", "xxy", "xxxxxy", "\n", "c"];
        let mut told = 0;
        for pattern in patterns {
            let (regex, automaton) =
                (Regex::new(pattern).unwrap(), Automaton::of(pattern, Options::default(), 1 << 20).unwrap());
            // The crate's default is another one than that of `Options`.
            let regex = Regex::new(&format!("(?s){}", regex.as_str())).unwrap();
            for text in texts {
                for from in (0..=text.len()).filter(|from| text.is_char_boundary(*from)) {
                    let expected =
                        regex.find_at(text, from).map_or(Told::None, |found| Told::Until(found.end()));
                    let found = automaton.search(text, from, Wanted::End, &meter).unwrap();
                    let is_there = automaton.search(text, from, Wanted::Whether, &meter).unwrap();
                    if found != Told::Nothing && is_there != Told::Nothing {
                        assert_eq!(found, expected, "{pattern} in {text:?} from {from}");
                        assert_eq!(is_there == Told::None, expected == Told::None);
                        told += 1;
                    }
                }
            }
        }
        assert!(told > 300, "{told}");
    }

    #[test]
    fn the_automaton_of_ends_finds_the_shortest_and_the_longest_match_from_a_place_on() {
        let meter = Meter::begin(&ConfigOptions::new(), "test");
        for (pattern, text, from, shortest, longest) in [
            ("a|ab|abcd", "abcd", 0, Some(1), Some(4)),
            ("(?:ab)*", "ababa", 0, Some(0), Some(4)),
            ("a*?b*?", "aabbc", 1, Some(1), Some(4)),
            ("a$|a", "aa", 0, Some(1), Some(1)),
            (r"\Ba+", "aaa", 1, Some(2), Some(3)),
            ("é|é+x?", "ééx", 0, Some(2), Some(5)),
            ("b", "ab", 0, None, None),
            ("^a", "aa", 1, None, None),
        ] {
            let automaton = Automaton::of_ends(pattern, Options::default(), 1 << 20).unwrap();
            for (wanted, end) in [(Wanted::Whether, shortest), (Wanted::End, longest)] {
                let told = automaton.search(text, from, wanted, &meter).unwrap();
                assert_eq!(told, end.map_or(Told::None, Told::Until), "{wanted:?} of {pattern} in {text:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_stopped_is_refused_if_it_takes_long() {
        let automaton = Automaton::of("(a{100}){100}", Options::default(), 10 << 20).unwrap();
        assert!(automaton.require_short(100_000).is_ok());
        let error = automaton.require_short(100_000_000).unwrap_err();
        assert_eq!(error.state, SqlState::StatementTooComplex, "{error}");
    }
}
