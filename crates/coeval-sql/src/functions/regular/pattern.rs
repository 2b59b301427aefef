// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's regular expressions, ready to be looked for.
//!
//! Whether there is a match says the `regex` crate. Where it is, and its groups, the crate says if it finds
//! [the same](super::settled) as PostgreSQL. Else it says where the first match begins, an [automaton](super::automaton) where the
//! one ends that PostgreSQL takes of those that begin there, and the [search](super::search) of this module what its groups have.
//!
//! A pattern that looks around or refers back the crate does not know. It says still whether there is a match if the pattern can be
//! [written otherwise](super::outline) for that, or else where no match begins; for the rest there is the search alone.

use super::super::call::invalid;
use super::automaton::{Automaton, Told, Wanted, is_long, is_short};
use super::found::Found;
use super::machine::Machine;
use super::outline::{deciding, outline};
use super::search::Search;
use super::settled::is_settled;
use super::syntax::{Prefers, Syntax, parsed};
use super::written::written;
use crate::allowance::Meter;
use crate::error::{SqlError, SqlState};
use crate::memory::room_for_a_value;
use crate::scalar::LetterCase;
use regex::{Regex, RegexBuilder};
use std::cell::{Cell, OnceCell, RefCell};
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
    pub(super) is_literal: bool,
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
            if flag == 'g' {
                options.is_global = true;
            } else if !options.set(flag) {
                return Err(invalid(format!("invalid regular expression option: \"{flag}\"")));
            }
        }
        Ok(options)
    }

    /// Does what a flag says that may stand in a pattern, too. Whether there is such a flag.
    pub(super) fn set(&mut self, flag: char) -> bool {
        match flag {
            'i' => self.ignores_case = true,
            'c' => self.ignores_case = false,
            'm' | 'n' => (self.stops_at_lines, self.anchors_at_lines) = (true, true),
            'p' => (self.stops_at_lines, self.anchors_at_lines) = (true, false),
            's' => (self.stops_at_lines, self.anchors_at_lines) = (false, false),
            'w' => (self.stops_at_lines, self.anchors_at_lines) = (false, true),
            'x' => self.is_expanded = true,
            't' => self.is_expanded = false,
            'q' => self.is_literal = true,
            'e' => self.is_literal = false,
            _ => return false,
        }
        true
    }
}

/// How many patterns a thread keeps compiled; a query has few.
const KEPT_MAX: usize = 64;

/// What a compiled pattern takes of which so many are kept.
const SMALL_BYTES_MAX: usize = 256 << 10;

/// How long such a pattern is: whatever is made of it, what is read of it has to be kept, too.
const SHORT_PATTERN_BYTES_MAX: usize = 4 << 10;

/// What is read takes so much for each byte of a pattern, and in vectors that have grown up to twice as much.
const READ_BYTES_OF_A_BYTE: usize = 128;

/// How long a pattern may be: its letters are counted when it is read.
const PATTERN_BYTES_MAX: usize = 512 << 10;

/// How many larger ones are kept, such as `\w{100}`, and how many automata.
const LARGE_MAX: usize = 4;

/// How many automata are kept that find what PostgreSQL finds, and how many that find where it ends: each takes some mebibytes at most.
const MACHINES_MAX: usize = 16;

/// What it may take at most: compiling so much takes some 300 ms, and looks at nothing.
const COMPILED_BYTES_MAX: usize = 10 << 20;

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
    /// Automata of long texts and of large patterns, the latest first: each has its states, and some mebibytes of those that were met.
    static AUTOMATA: RefCell<VecDeque<Rc<Automaton>>> = RefCell::default();
    static MACHINES: RefCell<VecDeque<Rc<Machine>>> = RefCell::default();
    static ENDS: RefCell<VecDeque<Rc<Automaton>>> = RefCell::default();
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
    read: Read,
    /// What the crate made of it; `None` if it looks around or refers back.
    regex: Option<Regex>,
    /// Whether the crate finds what PostgreSQL finds, once that was asked for.
    is_settled: OnceCell<bool>,
    machine: RefCell<Weak<Machine>>,
    /// Made when it is needed, and kept while it is among the latest.
    automaton: RefCell<Weak<Automaton>>,
    /// How many states it has, once that was asked for: the automaton may have gone since.
    states: Cell<Option<usize>>,
    /// That of the ends of matches.
    ends: RefCell<Weak<Automaton>>,
    /// Whether there is none.
    has_no_ends: Cell<bool>,
    /// What the crate knows and has a match in the same texts, of a pattern that it does not know; `None` within if there is none.
    deciding: OnceCell<Option<Rc<Self>>>,
    /// What the crate knows and begins wherever such a pattern does.
    outline: OnceCell<Option<Rc<Self>>>,
}

/// Where the first match begins.
#[derive(Clone, Copy)]
enum Begins {
    Nowhere,
    At(usize),
    /// Not before this byte, if there is one.
    From(usize),
}

/// A pattern that was read.
#[derive(Debug)]
struct Read {
    /// In the crate's syntax; `None` if it cannot be.
    written: Option<String>,
    /// What the flags and the pattern say.
    options: Options,
    /// `None` of one that came in the crate's syntax.
    syntax: Option<Syntax>,
}

impl Pattern {
    fn new(read: Read, regex: Option<Regex>) -> Rc<Self> {
        Rc::new(Self {
            read,
            regex,
            is_settled: OnceCell::new(),
            machine: RefCell::default(),
            automaton: RefCell::default(),
            states: Cell::default(),
            ends: RefCell::default(),
            has_no_ends: Cell::default(),
            deciding: OnceCell::new(),
            outline: OnceCell::new(),
        })
    }

    /// A pattern that the crate is asked in the place of this one; `None` if there is none, or it would be large.
    fn other(&self, written: Option<String>) -> Option<Rc<Self>> {
        let (written, options) = (written?, self.read.options);
        let regex = within(SMALL_BYTES_MAX, &written, options).ok()?;
        Some(Self::new(Read { written: Some(written), options, syntax: None }, Some(regex)))
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
        let written = self.read.written.as_deref().unwrap_or_default();
        let made = Rc::new(Automaton::of(written, self.read.options, COMPILED_BYTES_MAX)?);
        *self.automaton.borrow_mut() = Rc::downgrade(&made);
        AUTOMATA.with_borrow_mut(|automata| {
            automata.truncate(LARGE_MAX - 1);
            automata.push_front(Rc::clone(&made));
        });
        Ok(made)
    }

    /// That which finds where matches end; `None` if there is none, or no room for it.
    fn ends(&self) -> Option<Rc<Automaton>> {
        if self.has_no_ends.get() {
            return None;
        }
        if let Some(made) = self.ends.borrow().upgrade() {
            return Some(made);
        }
        let (written, options) = (self.read.written.as_deref()?, self.read.options);
        let (made, kept, most) = match Automaton::of_ends(written, options, SMALL_BYTES_MAX) {
            Ok(small) => (Ok(small), &ENDS, MACHINES_MAX),
            Err(_) => {
                let _room = room_for_a_value(COMPILED_BYTES_MAX).ok()?;
                (Automaton::of_ends(written, options, COMPILED_BYTES_MAX), &AUTOMATA, LARGE_MAX)
            }
        };
        let Ok(made) = made.map(Rc::new) else {
            self.has_no_ends.set(true);
            return None;
        };
        *self.ends.borrow_mut() = Rc::downgrade(&made);
        kept.with_borrow_mut(|ends| {
            ends.truncate(most - 1);
            ends.push_front(Rc::clone(&made));
        });
        Some(made)
    }

    /// That which finds what PostgreSQL finds.
    fn machine(&self, syntax: &Syntax) -> Result<Rc<Machine>, SqlError> {
        if let Some(made) = self.machine.borrow().upgrade() {
            return Ok(made);
        }
        let made = Rc::new(Machine::of(syntax)?);
        *self.machine.borrow_mut() = Rc::downgrade(&made);
        MACHINES.with_borrow_mut(|machines| {
            machines.truncate(MACHINES_MAX - 1);
            machines.push_front(Rc::clone(&made));
        });
        Ok(made)
    }

    /// Whether the text has a match.
    ///
    /// # Errors
    /// The error of a statement that was told to end; `54001` if the search would run too long without looking for that, or takes
    /// too many steps.
    pub(crate) fn is_match(&self, text: &str, meter: &Meter) -> Result<bool, SqlError> {
        let regex = match (&self.regex, &self.read.syntax) {
            (Some(regex), _) => regex,
            (None, Some(syntax)) => return self.is_match_by_machine(syntax, text, meter),
            (None, None) => return Err(SqlError::internal("a pattern was neither compiled nor read")),
        };
        if let Some(automaton) = self.for_long(text.len(), meter)? {
            match automaton.search(text, 0, Wanted::Whether, meter)? {
                Told::None => return Ok(false),
                Told::Until(_) => return Ok(true),
                Told::Nothing => automaton.require_short(text.len())?,
            }
        }
        Ok(regex.is_match(text))
    }

    fn is_match_by_machine(&self, syntax: &Syntax, text: &str, meter: &Meter) -> Result<bool, SqlError> {
        if let Some(other) = self.deciding.get_or_init(|| self.other(deciding(syntax))) {
            return other.is_match(text, meter);
        }
        meter.look()?;
        let (Begins::At(from) | Begins::From(from)) = self.begins(syntax, text, 0, meter)? else {
            return Ok(false);
        };
        let machine = self.machine(syntax)?;
        Search::new(&machine, text, meter).matches(from)
    }

    /// Where the first match from a byte of the text on begins.
    fn begins(&self, syntax: &Syntax, text: &str, from: usize, meter: &Meter) -> Result<Begins, SqlError> {
        if self.regex.is_some() {
            return self.begins_by_crate(text, from, meter);
        }
        let outline = self.outline.get_or_init(|| self.other(outline(syntax)));
        let Some(outline) = outline else { return Ok(Begins::From(from)) };
        Ok(match outline.begins_by_crate(text, from, meter)? {
            // What begins here may be no match.
            Begins::At(begin) => Begins::From(begin),
            begins => begins,
        })
    }

    fn begins_by_crate(&self, text: &str, from: usize, meter: &Meter) -> Result<Begins, SqlError> {
        let Some(regex) = &self.regex else { return Ok(Begins::From(from)) };
        let found = || regex.find_at(text, from).map_or(Begins::Nowhere, |found| Begins::At(found.start()));
        let Some(automaton) = self.for_long(text.len() - from, meter)? else { return Ok(found()) };
        Ok(match automaton.search_as_far(text, from, Wanted::End, meter)? {
            (Told::None, _) => Begins::Nowhere,
            // The crate looks no further.
            (Told::Until(_), seen) if !is_long(seen - from, automaton.states()) => found(),
            (Told::Until(_) | Told::Nothing, _) => Begins::From(from),
        })
    }

    /// The end of the match that PostgreSQL takes of those that begin here; `None` if the automaton cannot tell.
    fn end(
        &self,
        syntax: &Syntax,
        text: &str,
        begin: usize,
        meter: &Meter,
    ) -> Result<Option<usize>, SqlError> {
        let Some(ends) = self.ends() else { return Ok(None) };
        let wanted = match syntax.top.traits.prefers {
            Some(Prefers::Shortest) => Wanted::Whether,
            Some(Prefers::Longest) | None => Wanted::End,
        };
        Ok(match ends.search(text, begin, wanted, meter)? {
            Told::Until(end) => Some(end),
            Told::None | Told::Nothing => None,
        })
    }

    /// The first match from a byte of the text on, with its groups.
    ///
    /// # Errors
    /// As [`is_match`](Self::is_match).
    pub(super) fn found_at<'t>(
        &self,
        text: &'t str,
        from: usize,
        meter: &Meter,
    ) -> Result<Option<Found<'t>>, SqlError> {
        match (&self.regex, &self.read.syntax) {
            (Some(regex), syntax) => {
                let unsettled =
                    syntax.as_ref().filter(|syntax| !*self.is_settled.get_or_init(|| is_settled(syntax)));
                match unsettled {
                    Some(syntax) => self.found_by_machine(syntax, text, from, meter),
                    None => self.found_by_crate(regex, text, from, meter),
                }
            }
            (None, Some(syntax)) => self.found_by_machine(syntax, text, from, meter),
            (None, None) => Err(SqlError::internal("a pattern was neither compiled nor read")),
        }
    }

    fn found_by_machine<'t>(
        &self,
        syntax: &Syntax,
        text: &'t str,
        from: usize,
        meter: &Meter,
    ) -> Result<Option<Found<'t>>, SqlError> {
        meter.look()?;
        let begins = self.begins(syntax, text, from, meter)?;
        let end = match begins {
            Begins::Nowhere => return Ok(None),
            Begins::At(begin) => self.end(syntax, text, begin, meter)?,
            Begins::From(_) => None,
        };
        if let (Begins::At(begin), Some(end), 0) = (begins, end, syntax.groups) {
            return Ok(Some(Found::new(text, begin..end, Vec::new())));
        }
        let machine = self.machine(syntax)?;
        let search = Search::new(&machine, text, meter);
        let groups = match (begins, end) {
            (Begins::At(begin), Some(end)) => search.groups_between(begin, end)?,
            (Begins::At(begin), None) => search.groups_at(begin)?,
            (Begins::From(begin), _) => search.groups_from(begin)?,
            (Begins::Nowhere, _) => None,
        };
        let Some(mut groups) = groups else { return Ok(None) };
        let Some(whole) = groups.first_mut().and_then(Option::take) else { return Ok(None) };
        Ok(Some(Found::new(text, whole, groups.split_off(1))))
    }

    fn found_by_crate<'t>(
        &self,
        regex: &Regex,
        text: &'t str,
        from: usize,
        meter: &Meter,
    ) -> Result<Option<Found<'t>>, SqlError> {
        let bytes = text.len() - from;
        if let Some(automaton) = self.for_long(bytes, meter)? {
            match automaton.search(text, from, Wanted::End, meter)? {
                Told::None => return Ok(None),
                Told::Until(end) => automaton.require_short(end - from)?,
                Told::Nothing => automaton.require_short(bytes)?,
            }
        }
        if regex.captures_len() == 1 {
            return Ok(regex.find_at(text, from).map(|whole| Found::new(text, whole.range(), Vec::new())));
        }
        Ok(regex.captures_at(text, from).map(|captures| Found::of_captures(text, &captures)))
    }
}

/// The pattern, ready to be looked for. Those of the latest queries on this thread are kept.
///
/// # Errors
/// `2201B` for what is no pattern, or one that takes more than 10 MiB; `53200` if there is no memory for it.
pub(super) fn compiled(pattern: &str, options: Options) -> Result<Rc<Pattern>, SqlError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(too_complex());
    }
    kept(pattern, options, || {
        let syntax = parsed(pattern, options)?;
        Ok(Read { written: written(&syntax), options: syntax.options, syntax: Some(syntax) })
    })
}

/// The same of a pattern as DataFusion's operators take it ([`pattern_of_operator`]).
///
/// # Errors
/// As [`compiled`].
pub(crate) fn compiled_for_operator(written: &str, letters: LetterCase) -> Result<Rc<Pattern>, SqlError> {
    let ignores_case = letters == LetterCase::Ignored;
    // Which those do is said in the pattern.
    let options = Options { ignores_case, stops_at_lines: true, is_of_operator: true, ..Options::default() };
    kept(written, options, || Ok(Read { written: Some(written.to_owned()), options, syntax: None }))
}

/// The pattern of these options, which `read` reads if it is not kept.
fn kept(
    pattern: &str,
    options: Options,
    read: impl FnOnce() -> Result<Read, SqlError>,
) -> Result<Rc<Pattern>, SqlError> {
    KEPT.with_borrow_mut(|kept| {
        let key = (pattern.to_owned(), options);
        let large = kept.large.iter().find(|(of, _)| *of == key).map(|(_, regex)| regex);
        if let Some(known) = kept.small.get(&key).or(large) {
            return Ok(Rc::clone(known));
        }
        // What is read of a pattern takes more than the pattern.
        let is_short = pattern.len() <= SHORT_PATTERN_BYTES_MAX;
        let room = || room_for_a_value(pattern.len() * READ_BYTES_OF_A_BYTE);
        let _room = if is_short { None } else { Some(room()?) };
        let read = read()?;
        let small = match &read.written {
            Some(written) => within(SMALL_BYTES_MAX, written, read.options).map(Some),
            None => Ok(None),
        };
        let (regex, is_small) = match small {
            Ok(regex) => (regex, is_short),
            Err(regex::Error::CompiledTooBig(_)) => {
                let _room = room_for_a_value(COMPILED_BYTES_MAX)?;
                let written = read.written.as_deref().unwrap_or_default();
                let regex = within(COMPILED_BYTES_MAX, written, read.options)
                    .map_err(|error| wrong(&reason(&error)))?;
                (Some(regex), false)
            }
            Err(error) => return Err(wrong(&reason(&error))),
        };
        let pattern = Pattern::new(read, regex);
        if is_small {
            if kept.small.len() >= KEPT_MAX {
                kept.small.clear();
            }
            kept.small.insert(key, Rc::clone(&pattern));
        } else {
            kept.large.truncate(LARGE_MAX - 1);
            kept.large.push_front((key, Rc::clone(&pattern)));
        }
        Ok(pattern)
    })
}

/// A pattern as DataFusion's operators take it: in the crate's syntax, with a match in the same texts; `None` if the crate cannot say
/// whether there is one.
///
/// # Errors
/// As [`compiled`].
pub(crate) fn pattern_of_operator(pattern: &str, letters: LetterCase) -> Result<Option<String>, SqlError> {
    let ignores_case = letters == LetterCase::Ignored;
    written_for_operator(pattern, Options { ignores_case, ..Options::default() })
}

/// The same of a pattern behind `like_regex` in a JSON path, with its flags: without `s`, nothing takes the end of a line that does not
/// name it.
///
/// # Errors
/// As [`compiled`].
pub(crate) fn pattern_of_path(pattern: &str, flags: &str) -> Result<Option<String>, SqlError> {
    let ignores_case = flags.contains('i');
    let options = Options {
        ignores_case,
        stops_at_lines: !flags.contains('s'),
        anchors_at_lines: flags.contains('m'),
        ..Options::default()
    };
    let written = written_for_operator(pattern, options)?;
    Ok(written.map(|written| if ignores_case { format!("(?i){written}") } else { written }))
}

/// The same with all that is given in front, but whether the case of letters is ignored: that the operator is to do.
fn written_for_operator(pattern: &str, given: Options) -> Result<Option<String>, SqlError> {
    let compiled = compiled(pattern, given)?;
    let Read { written, options, syntax } = &compiled.read;
    let decides = || syntax.as_ref().and_then(deciding);
    let Some(written) = written.clone().or_else(decides) else { return Ok(None) };
    let mut flags = String::new();
    // It matters for nothing else, and prefixes are found by an index where nothing stands in front of them.
    if !options.stops_at_lines && written.contains('.') {
        flags.push('s');
    }
    if options.anchors_at_lines {
        flags.push('m');
    }
    match (options.ignores_case, given.ignores_case) {
        (true, false) => flags.push('i'),
        (false, true) => flags.push_str("-i"),
        _ => {}
    }
    Ok(Some(if flags.is_empty() { written } else { format!("(?{flags}){written}") }))
}

/// The pattern, if it takes at most so many bytes when it is compiled.
fn within(bytes: usize, written: &str, options: Options) -> Result<Regex, regex::Error> {
    RegexBuilder::new(written)
        .case_insensitive(options.ignores_case)
        .dot_matches_new_line(!options.stops_at_lines)
        .multi_line(options.anchors_at_lines)
        .size_limit(bytes)
        .build()
}

pub(super) fn wrong(what: &str) -> SqlError {
    SqlError::new(SqlState::InvalidRegularExpression, format!("invalid regular expression: {what}"))
}

pub(super) fn too_complex() -> SqlError {
    wrong("regular expression is too complex")
}

/// The last line of the crate's message says what is wrong, those before it show where.
fn reason(error: &regex::Error) -> String {
    let message = error.to_string();
    let last = message.lines().next_back().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
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
