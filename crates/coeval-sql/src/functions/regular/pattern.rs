// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's regular expressions, written for the `regex` crate.
//!
//! | PostgreSQL | here |
//! |---|---|
//! | `.` is any letter, `^` and `$` the ends of the text | the same by `(?s)`; with the flag `n` they stop at lines |
//! | `\m`, `\M`, `\y`, `\Y`, `\Z` | `\b{start}`, `\b{end}`, `\b`, `\B`, `\z` |
//! | `[[]`, `[a&&b]` | letters that mean something only there are escaped |

use super::super::call::invalid;
use super::automaton::{Automaton, Told, Wanted, is_long, is_short};
use crate::allowance::Meter;
use crate::error::{SqlError, SqlState};
use crate::memory::room_for_a_value;
use crate::scalar::LetterCase;
use regex::{Captures, Regex, RegexBuilder};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::{Rc, Weak};

/// What the flags of a function say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Options {
    pub(super) is_global: bool,
    pub(super) ignores_case: bool,
    pub(super) stops_at_lines: bool,
    pub(super) anchors_at_lines: bool,
    pub(super) is_expanded: bool,
    is_literal: bool,
    /// The pattern is written in the crate's syntax.
    is_of_operator: bool,
}

impl Options {
    /// The options of flags such as `gi`; of two that contradict each other the last counts.
    ///
    /// # Errors
    /// `22023` for a letter that is none.
    pub(super) fn parse(flags: &str) -> Result<Self, SqlError> {
        let mut options = Self::default();
        for flag in flags.chars() {
            match flag {
                'g' => options.is_global = true,
                'i' => options.ignores_case = true,
                'c' => options.ignores_case = false,
                'm' | 'n' => (options.stops_at_lines, options.anchors_at_lines) = (true, true),
                'p' => (options.stops_at_lines, options.anchors_at_lines) = (true, false),
                's' => (options.stops_at_lines, options.anchors_at_lines) = (false, false),
                'w' => (options.stops_at_lines, options.anchors_at_lines) = (false, true),
                'x' => options.is_expanded = true,
                't' => options.is_expanded = false,
                'q' => options.is_literal = true,
                'e' => options.is_literal = false,
                other => return Err(invalid(format!("invalid regular expression option: \"{other}\""))),
            }
        }
        Ok(options)
    }
}

/// How many patterns a thread keeps compiled; a query has few.
const KEPT_MAX: usize = 64;

/// What a compiled pattern takes of which so many are kept.
const SMALL_BYTES_MAX: usize = 256 << 10;

/// How many larger ones are kept, such as `\w{100}`, and how many automata.
const LARGE_MAX: usize = 4;

/// What it may take at most: compiling so much takes some 300 ms, and looks at nothing.
const COMPILED_BYTES_MAX: usize = 10 << 20;

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
    /// Automata of long texts, the latest first: each has its states, and some mebibytes of those that were met.
    static AUTOMATA: RefCell<VecDeque<Rc<Automaton>>> = RefCell::default();
}

/// Compiled patterns of the latest queries on a thread.
#[derive(Default)]
struct Kept {
    small: HashMap<Key, Rc<Pattern>>,
    /// The latest first.
    large: VecDeque<(Key, Rc<Pattern>)>,
}

type Key = (String, Options);

/// A pattern that is ready to be looked for.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    written: String,
    options: Options,
    /// Made when it is needed, and kept while it is among the latest.
    automaton: RefCell<Weak<Automaton>>,
    /// How many states it has, once that was asked for: the automaton may have gone since.
    states: Cell<Option<usize>>,
}

impl Pattern {
    fn new(regex: Regex, written: String, options: Options) -> Rc<Self> {
        Rc::new(Self { regex, written, options, automaton: RefCell::default(), states: Cell::default() })
    }

    /// The automaton, if a search in so many bytes is to look on its way. It is looked here in any case.
    fn for_long(&self, bytes: usize, meter: &Meter) -> Result<Option<Rc<Automaton>>, SqlError> {
        meter.look()?;
        if is_short(bytes) || self.states.get().is_some_and(|states| !is_long(bytes, states)) {
            return Ok(None);
        }
        let automaton = self.automaton()?;
        self.states.set(Some(automaton.states()));
        Ok(is_long(bytes, automaton.states()).then_some(automaton))
    }

    fn automaton(&self) -> Result<Rc<Automaton>, SqlError> {
        if let Some(made) = self.automaton.borrow().upgrade() {
            return Ok(made);
        }
        let made = Rc::new(Automaton::of(&self.written, self.options, COMPILED_BYTES_MAX)?);
        *self.automaton.borrow_mut() = Rc::downgrade(&made);
        AUTOMATA.with_borrow_mut(|automata| {
            automata.truncate(LARGE_MAX - 1);
            automata.push_front(Rc::clone(&made));
        });
        Ok(made)
    }

    /// Whether the text has a match.
    ///
    /// # Errors
    /// The error of a statement that was told to end; `54001` if the search would run too long without looking for that.
    pub(crate) fn is_match(&self, text: &str, meter: &Meter) -> Result<bool, SqlError> {
        if let Some(automaton) = self.for_long(text.len(), meter)? {
            match automaton.search(text, 0, Wanted::Whether, meter)? {
                Told::None => return Ok(false),
                Told::Until(_) => return Ok(true),
                Told::Nothing => automaton.require_short(text.len())?,
            }
        }
        Ok(self.regex.is_match(text))
    }

    /// The first match from a byte of the text on, with its groups.
    ///
    /// # Errors
    /// As [`is_match`](Self::is_match).
    pub(super) fn captures_at<'t>(
        &self,
        text: &'t str,
        from: usize,
        meter: &Meter,
    ) -> Result<Option<Captures<'t>>, SqlError> {
        let bytes = text.len() - from;
        if let Some(automaton) = self.for_long(bytes, meter)? {
            match automaton.search(text, from, Wanted::End, meter)? {
                Told::None => return Ok(None),
                Told::Until(end) => automaton.require_short(end - from)?,
                Told::Nothing => automaton.require_short(bytes)?,
            }
        }
        Ok(self.regex.captures_at(text, from))
    }
}

/// The pattern, ready to be looked for. Those of the latest queries on this thread are kept.
///
/// # Errors
/// `2201B` for what is no pattern, or one that takes more than 10 MiB; `53200` if there is no memory for it.
pub(super) fn compiled(pattern: &str, options: Options) -> Result<Rc<Pattern>, SqlError> {
    kept(
        pattern,
        options,
        || if options.is_literal { Ok(regex::escape(pattern)) } else { translated(pattern) },
    )
}

/// The same of a pattern as DataFusion's operators take it ([`pattern_of_operator`]).
///
/// # Errors
/// As [`compiled`].
pub(crate) fn compiled_for_operator(written: &str, letters: LetterCase) -> Result<Rc<Pattern>, SqlError> {
    let ignores_case = letters == LetterCase::Ignored;
    // Which those do is said in the pattern.
    let options = Options { ignores_case, stops_at_lines: true, is_of_operator: true, ..Options::default() };
    kept(written, options, || Ok(written.to_owned()))
}

/// The pattern of these options, which `write` writes in the crate's syntax if it is not kept.
fn kept(
    pattern: &str,
    options: Options,
    write: impl FnOnce() -> Result<String, SqlError>,
) -> Result<Rc<Pattern>, SqlError> {
    KEPT.with_borrow_mut(|kept| {
        let key = (pattern.to_owned(), options);
        let large = kept.large.iter().find(|(of, _)| *of == key).map(|(_, regex)| regex);
        if let Some(known) = kept.small.get(&key).or(large) {
            return Ok(Rc::clone(known));
        }
        let written = write()?;
        match within(SMALL_BYTES_MAX, &written, options) {
            Ok(regex) => {
                if kept.small.len() >= KEPT_MAX {
                    kept.small.clear();
                }
                let pattern = Pattern::new(regex, written, options);
                kept.small.insert(key, Rc::clone(&pattern));
                Ok(pattern)
            }
            Err(regex::Error::CompiledTooBig(_)) => {
                let _room = room_for_a_value(COMPILED_BYTES_MAX)?;
                let regex =
                    within(COMPILED_BYTES_MAX, &written, options).map_err(|error| wrong(&reason(&error)))?;
                kept.large.truncate(LARGE_MAX - 1);
                let pattern = Pattern::new(regex, written, options);
                kept.large.push_front((key, Rc::clone(&pattern)));
                Ok(pattern)
            }
            Err(error) => Err(wrong(&reason(&error))),
        }
    })
}

/// A pattern as DataFusion's operators take it: in the crate's syntax.
///
/// # Errors
/// `2201B` for what is no pattern, `0A000` for a back reference.
pub(crate) fn pattern_of_operator(pattern: &str) -> Result<String, SqlError> {
    compiled(pattern, Options::default())?;
    let written = translated(pattern)?;
    // It matters for nothing else, and prefixes are found by an index where nothing stands in front of them.
    Ok(if written.contains('.') { format!("(?s){written}") } else { written })
}

/// The pattern, if it takes at most so many bytes when it is compiled.
fn within(bytes: usize, written: &str, options: Options) -> Result<Regex, regex::Error> {
    RegexBuilder::new(written)
        .case_insensitive(options.ignores_case)
        .dot_matches_new_line(!options.stops_at_lines)
        .multi_line(options.anchors_at_lines)
        .ignore_whitespace(options.is_expanded)
        .size_limit(bytes)
        .build()
}

pub(super) fn wrong(what: &str) -> SqlError {
    SqlError::new(SqlState::InvalidRegularExpression, format!("invalid regular expression: {what}"))
}

/// The last line of the crate's message says what is wrong, those before it show where.
fn reason(error: &regex::Error) -> String {
    let message = error.to_string();
    let last = message.lines().next_back().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

/// The pattern in the crate's syntax.
fn translated(pattern: &str) -> Result<String, SqlError> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '\\' => {
                let escaped = rest.chars().next().ok_or_else(|| wrong("invalid escape \\ sequence"))?;
                rest = &rest[escaped.len_utf8()..];
                push_escape(escaped, &mut out)?;
            }
            '[' => rest = push_bracket(rest, &mut out)?,
            other => out.push(other),
        }
    }
    Ok(out)
}

fn push_escape(escaped: char, out: &mut String) -> Result<(), SqlError> {
    match escaped {
        'm' => out.push_str(r"\b{start}"),
        'M' => out.push_str(r"\b{end}"),
        'y' => out.push_str(r"\b"),
        'Y' => out.push_str(r"\B"),
        'Z' => out.push_str(r"\z"),
        'b' => out.push_str(r"\x08"),
        'e' => out.push_str(r"\x1B"),
        // With a backslash they are something else to the crate.
        '<' | '>' => out.push(escaped),
        '1'..='9' => return Err(SqlError::unsupported("a back reference in a regular expression")),
        other => out.extend(['\\', other]),
    }
    Ok(())
}

/// Appends the bracket that was opened, and gives what follows it.
fn push_bracket<'p>(inside: &'p str, out: &mut String) -> Result<&'p str, SqlError> {
    for (word, boundary) in [("[:<:]]", r"\b{start}"), ("[:>:]]", r"\b{end}")] {
        if let Some(behind) = inside.strip_prefix(word) {
            out.push_str(boundary);
            return Ok(behind);
        }
    }
    out.push('[');
    let mut rest = inside;
    if let Some(behind) = rest.strip_prefix('^') {
        out.push('^');
        rest = behind;
    }
    // In the first place it is a letter of the set.
    if let Some(behind) = rest.strip_prefix(']') {
        out.push_str(r"\]");
        rest = behind;
    }
    while let Some(letter) = rest.chars().next() {
        if let Some(end) = rest.strip_prefix("[:").and_then(|class| class.find(":]")) {
            let class = end + 4;
            out.push_str(&rest[..class]);
            rest = &rest[class..];
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        match letter {
            ']' => {
                out.push(']');
                return Ok(rest);
            }
            '[' | '&' | '~' => out.extend(['\\', letter]),
            '-' if rest.starts_with('-') => out.push_str(r"\-"),
            '\\' => {
                out.push('\\');
                if let Some(escaped) = rest.chars().next() {
                    out.push(escaped);
                    rest = &rest[escaped.len_utf8()..];
                }
            }
            other => out.push(other),
        }
    }
    Err(wrong("brackets [] not balanced"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_otherwise_means_the_same() {
        let meter = Meter::begin(&datafusion::common::config::ConfigOptions::new(), "test");
        for (pattern, text, fits) in [
            (r"\mdog\M", "a dog!", true),
            (r"\mdog\M", "dogs", false),
            (r"[[:<:]]dog", "hotdog", false),
            (r"^[]a]+$", "]a]", true),
            (r"^[^]]$", "]", false),
            (r"^[[]$", "[", true),
            (r"^[a&&b]+$", "&b", true),
            (r"^[[:alpha:]_]+$", "ab_", true),
            (r"a.c", "a\nc", true),
            (r"^\<a\>$", "<a>", true),
        ] {
            let regex = compiled(pattern, Options::default()).unwrap();
            assert_eq!(regex.is_match(text, &meter).unwrap(), fits, "{pattern} in {text:?}");
        }
        let lines = Options::parse("n").unwrap();
        assert!(!compiled("a.c", lines).unwrap().is_match("a\nc", &meter).unwrap());
        assert!(compiled("^c", lines).unwrap().is_match("a\nc", &meter).unwrap());
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for pattern in ["(", "[a", "a{2,1}", "\\"] {
            let error = compiled(pattern, Options::default()).unwrap_err();
            assert_eq!(error.state, SqlState::InvalidRegularExpression, "{pattern}");
        }
        assert_eq!(Options::parse("gz").unwrap_err().state, SqlState::InvalidParameterValue);
    }
}
