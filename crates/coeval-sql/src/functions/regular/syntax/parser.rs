// SPDX-License-Identifier: Apache-2.0
//! Reads PostgreSQL's advanced regular expressions.

use super::super::pattern::{Options, too_complex, wrong};
use super::escape::Escaped;
use super::{Atom, Choice, Letters, Look, Piece, Place, Prefers, Syntax, Times, Way};
use crate::error::SqlError;
use crate::stack::with_room;
use std::rc::Rc;

/// How deep parentheses may stand within each other.
const NESTED_MAX: usize = 250;

/// The largest number in a quantifier, as in PostgreSQL.
const TIMES_MAX: u32 = 255;

/// The most letters of a pattern: what is made of each takes some sixty bytes.
const LETTERS_MAX: usize = 128 << 10;

const NO_OPERAND: &str = "quantifier operand invalid";
const UNBALANCED: &str = "parentheses () not balanced";
const WRONG_TIMES: &str = "invalid repetition count(s)";

/// The tree of a pattern.
///
/// # Errors
/// `2201B` for what is none.
pub(in crate::functions::regular) fn parsed(pattern: &str, options: Options) -> Result<Syntax, SqlError> {
    let mut parser = Parser {
        letters: pattern.chars().collect(),
        at: 0,
        options,
        groups: Vec::new(),
        nested: 0,
        looks: 0,
    };
    if parser.letters.len() > LETTERS_MAX {
        return Err(too_complex());
    }
    if !parser.options.is_literal {
        parser.options_in_front()?;
    }
    let top = if parser.options.is_literal {
        let rest = parser.letters[parser.at..].iter();
        Choice::of(vec![rest.map(|letter| Piece::once(Atom::Letters(Letters::One(*letter)))).collect()])
    } else {
        parser.choice()?
    };
    let Parser { options, groups, .. } = parser;
    Ok(Syntax { options, top, groups: groups.len() })
}

/// Whether what stands ahead or behind is wanted there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    There,
    NotThere,
}

/// A pattern on its way.
pub(super) struct Parser {
    letters: Vec<char>,
    at: usize,
    pub(super) options: Options,
    /// The groups that were opened; those that were closed with what is in them.
    groups: Vec<Option<Rc<Choice>>>,
    /// How many parentheses are open.
    nested: usize,
    /// How many of them look around.
    looks: usize,
}

impl Parser {
    pub(super) fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    pub(super) fn peek_behind_next(&self) -> Option<char> {
        self.letters.get(self.at + 1).copied()
    }

    pub(super) fn read(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += 1;
        Some(letter)
    }

    pub(super) fn take(&mut self, letter: char) -> bool {
        let is_there = self.peek() == Some(letter);
        self.at += usize::from(is_there);
        is_there
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let ends_at = self.at + word.chars().count();
        let is_there =
            self.letters.get(self.at..ends_at).is_some_and(|found| found.iter().copied().eq(word.chars()));
        if is_there {
            self.at = ends_at;
        }
        is_there
    }

    /// Goes back over so many letters that were read.
    pub(super) fn back(&mut self, letters: usize) {
        self.at -= letters;
    }

    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// How many groups were opened so far.
    pub(super) fn groups_opened(&self) -> usize {
        self.groups.len()
    }

    /// `***=`, `***:` and `(?flags)`.
    fn options_in_front(&mut self) -> Result<(), SqlError> {
        if self.take_word("***=") {
            self.options.is_literal = true;
            return Ok(());
        }
        if !self.take_word("***:") && self.take_word("***") {
            return Err(wrong(NO_OPERAND));
        }
        let flag = self.letters.get(self.at + 2).copied();
        if !flag.is_some_and(|flag| flag.is_ascii_alphabetic()) || !self.take_word("(?") {
            return Ok(());
        }
        while let Some(flag) = self.peek().filter(char::is_ascii_alphabetic) {
            if !self.options.set(flag) {
                return Err(wrong("invalid embedded option"));
            }
            self.at += 1;
        }
        if self.take(')') { Ok(()) } else { Err(wrong("invalid embedded option")) }
    }

    /// Skips comments, and in expanded syntax white space.
    fn skip(&mut self) {
        loop {
            if self.options.is_expanded {
                self.skip_blank();
            }
            if !self.take_word("(?#") {
                return;
            }
            while self.read().is_some_and(|letter| letter != ')') {}
        }
    }

    fn skip_blank(&mut self) {
        while let Some(letter) = self.peek() {
            if letter == '#' {
                while self.peek().is_some_and(|letter| letter != '\n') {
                    self.at += 1;
                }
            } else if letter.is_whitespace() {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    fn choice(&mut self) -> Result<Choice, SqlError> {
        let mut branches = vec![self.branch()?];
        while self.take('|') {
            branches.push(self.branch()?);
        }
        Ok(Choice::of(branches))
    }

    fn branch(&mut self) -> Result<Vec<Piece>, SqlError> {
        let mut pieces = Vec::new();
        loop {
            self.skip();
            match self.peek() {
                None | Some('|') => return Ok(pieces),
                Some(')') if self.nested > 0 => return Ok(pieces),
                Some(_) => pieces.push(self.piece()?),
            }
        }
    }

    fn piece(&mut self) -> Result<Piece, SqlError> {
        let atom = match self.read() {
            Some('^') => Atom::Place(Place::Begin),
            Some('$') => Atom::Place(Place::End),
            Some('(') => self.parenthesis()?,
            Some(')') => return Err(wrong(UNBALANCED)),
            Some('[') => self.bracket()?,
            Some('.') => Atom::Letters(Letters::Any),
            Some('*' | '+' | '?') => return Err(wrong(NO_OPERAND)),
            Some('{') if self.begins_times() => return Err(wrong(NO_OPERAND)),
            Some('\\') => match self.escape()? {
                Escaped::Letter(letter) => Atom::Letters(Letters::One(letter)),
                Escaped::Class(class) => Atom::Letters(Letters::Set(class.to_owned())),
                Escaped::Place(place) => Atom::Place(place),
                Escaped::Back(number) => self.back_reference(number)?,
            },
            Some(letter) => Atom::Letters(Letters::One(letter)),
            None => return Err(SqlError::internal("a pattern ended before its piece")),
        };
        let piece = Piece::once(atom);
        if piece.is_constraint() {
            return Ok(piece);
        }
        let times = self.times()?;
        Ok(Piece { times, ..piece })
    }

    /// Behind an open brace: whether a number follows, so that it begins a quantifier.
    fn begins_times(&mut self) -> bool {
        if self.options.is_expanded {
            self.skip_blank();
        }
        self.peek().is_some_and(|letter| letter.is_ascii_digit())
    }

    fn parenthesis(&mut self) -> Result<Atom, SqlError> {
        if self.take('?') {
            return match self.read() {
                Some(':') => Ok(Atom::Group { number: None, inside: Rc::new(self.inside()?) }),
                Some('=') => self.look(Way::Ahead, Wish::There),
                Some('!') => self.look(Way::Ahead, Wish::NotThere),
                Some('<') => match self.read() {
                    Some('=') => self.look(Way::Behind, Wish::There),
                    Some('!') => self.look(Way::Behind, Wish::NotThere),
                    _ => Err(wrong(NO_OPERAND)),
                },
                _ => Err(wrong(NO_OPERAND)),
            };
        }
        if self.looks > 0 {
            return Ok(Atom::Group { number: None, inside: Rc::new(self.inside()?) });
        }
        let place = self.groups.len();
        self.groups.push(None);
        let inside = Rc::new(self.inside()?);
        self.groups[place] = Some(Rc::clone(&inside));
        Ok(Atom::Group { number: Some(place + 1), inside })
    }

    fn look(&mut self, way: Way, wish: Wish) -> Result<Atom, SqlError> {
        self.looks += 1;
        let inside = self.inside()?;
        self.looks -= 1;
        Ok(Atom::Look(Look { way, is_wanted: wish == Wish::There, inside }))
    }

    /// What stands in parentheses of which the first is read.
    fn inside(&mut self) -> Result<Choice, SqlError> {
        if self.nested == NESTED_MAX {
            return Err(too_complex());
        }
        self.nested += 1;
        let inside = with_room(|| self.choice())?;
        self.nested -= 1;
        if self.take(')') { Ok(inside) } else { Err(wrong(UNBALANCED)) }
    }

    fn back_reference(&self, number: usize) -> Result<Atom, SqlError> {
        let closed = number.checked_sub(1).and_then(|place| self.groups.get(place)?.as_ref());
        match closed {
            Some(inside) if self.looks == 0 => Ok(Atom::Back { number, inside: Rc::clone(inside) }),
            _ => Err(wrong("invalid backreference number")),
        }
    }

    fn times(&mut self) -> Result<Times, SqlError> {
        self.skip();
        let (least, most) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let place = self.at;
                self.at += 1;
                if self.begins_times() {
                    return self.times_in_braces();
                }
                self.at = place;
                return Ok(Times::ONCE);
            }
            _ => return Ok(Times::ONCE),
        };
        self.at += 1;
        Ok(Times { least, most, prefers: Some(self.preference()) })
    }

    fn preference(&mut self) -> Prefers {
        if self.take('?') { Prefers::Shortest } else { Prefers::Longest }
    }

    fn times_in_braces(&mut self) -> Result<Times, SqlError> {
        let least = self.number()?;
        let (is_range, most) = if self.take(',') {
            let has_most = self.begins_times();
            (true, if has_most { Some(self.number()?) } else { None })
        } else {
            (false, Some(least))
        };
        if most.is_some_and(|most| least > most) {
            return Err(wrong(WRONG_TIMES));
        }
        match self.read() {
            Some('}') => {
                let preference = self.preference();
                Ok(Times { least, most, prefers: is_range.then_some(preference) })
            }
            Some(_) => Err(wrong(WRONG_TIMES)),
            None => Err(wrong("braces {} not balanced")),
        }
    }

    fn number(&mut self) -> Result<u16, SqlError> {
        let mut number = 0;
        while let Some(digit) = self.peek().and_then(|letter| letter.to_digit(10)) {
            number = number * 10 + digit;
            if number > TIMES_MAX {
                return Err(wrong(WRONG_TIMES));
            }
            self.at += 1;
        }
        if self.options.is_expanded {
            self.skip_blank();
        }
        u16::try_from(number).map_err(|_| wrong(WRONG_TIMES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_as_postgresql_says_it() {
        for (pattern, what) in [
            ("(a", UNBALANCED),
            ("a)", UNBALANCED),
            ("*a", NO_OPERAND),
            ("^*", NO_OPERAND),
            ("a**", NO_OPERAND),
            ("(?<a)", NO_OPERAND),
            ("***a", NO_OPERAND),
            ("a{2,1}", WRONG_TIMES),
            ("a{256}", WRONG_TIMES),
            ("a{1", "braces {} not balanced"),
            ("[a", "brackets [] not balanced"),
            ("[b-a]", "invalid character range"),
            ("[a-c-e]", "invalid character range"),
            ("[[:letters:]]", "invalid character class"),
            ("[[.letters.]]", "invalid collating element"),
            (r"\", r"invalid escape \ sequence"),
            (r"\q", r"invalid escape \ sequence"),
            (r"\x7fffffff", r"invalid escape \ sequence"),
            (r"(a)\2", "invalid backreference number"),
            (r"(a\1)", "invalid backreference number"),
            (r"x(\w)(?=\1)", "invalid backreference number"),
            (r"x(\w)(?=(\1))", "invalid backreference number"),
            ("(?z)a", "invalid embedded option"),
        ] {
            let error = parsed(pattern, Options::default()).unwrap_err();
            assert_eq!(error.message, format!("invalid regular expression: {what}"), "{pattern}");
        }
        for pattern in ["a{", "a{,1}", "[]a]", "[a-]", r"(a)\12", "a|", "()", "(?i)a", r"(a){0}\1", "x(?#[)"]
        {
            assert!(parsed(pattern, Options::default()).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn a_branch_prefers_what_its_first_part_prefers() {
        for (pattern, prefers) in [
            ("ab", None),
            ("ab*c*?", Some(Prefers::Longest)),
            ("ab*?c*", Some(Prefers::Shortest)),
            ("(b*?)c*", Some(Prefers::Shortest)),
            ("(b*?){1,1}c*", Some(Prefers::Longest)),
            ("(b*?){2}c*", Some(Prefers::Shortest)),
            ("b*?|c", Some(Prefers::Longest)),
        ] {
            assert_eq!(parsed(pattern, Options::default()).unwrap().top.traits.prefers, prefers, "{pattern}");
        }
    }
}
