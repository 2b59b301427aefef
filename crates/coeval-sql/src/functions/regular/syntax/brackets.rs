// SPDX-License-Identifier: Apache-2.0
//! Sets of letters in brackets, and `[[:<:]]` and `[[:>:]]`.

use super::super::pattern::wrong;
use super::escape::{Escaped, wrong_escape};
use super::parser::Parser;
use super::{Atom, Letters, Place};
use crate::error::SqlError;

const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// A part of a set.
enum Element {
    Letter(char),
    /// A class in the syntax of the `regex` crate; it is no begin and no end of a range.
    Class(String),
    /// A letter that is neither.
    Equivalent(char),
}

impl Parser {
    /// What stands in a bracket that is open.
    pub(super) fn bracket(&mut self) -> Result<Atom, SqlError> {
        if self.take_word("[:<:]]") {
            return Ok(Atom::Place(Place::WordBegin));
        }
        if self.take_word("[:>:]]") {
            return Ok(Atom::Place(Place::WordEnd));
        }
        let mut set = String::from("[");
        if self.take('^') {
            set.push('^');
            if self.options.stops_at_lines {
                set.push_str(r"\n");
            }
        }
        let begin = self.place();
        while self.place() == begin || !self.take(']') {
            // A hyphen is one of the set where it stands first or last.
            if self.place() != begin && self.peek() == Some('-') && self.peek_behind_next() != Some(']') {
                return Err(wrong_range());
            }
            let first = match self.element()? {
                Element::Letter(letter) => letter,
                Element::Class(class) => {
                    set.push_str(&class);
                    continue;
                }
                Element::Equivalent(letter) => {
                    push_letter(letter, &mut set);
                    continue;
                }
            };
            push_letter(first, &mut set);
            if self.peek() != Some('-') || self.peek_behind_next() == Some(']') {
                continue;
            }
            self.read();
            match self.element()? {
                Element::Letter(last) if first <= last => {
                    set.push('-');
                    push_letter(last, &mut set);
                }
                _ => return Err(wrong_range()),
            }
        }
        set.push(']');
        Ok(Atom::Letters(Letters::Set(set)))
    }

    fn element(&mut self) -> Result<Element, SqlError> {
        match self.read() {
            Some('\\') => match self.escape()? {
                Escaped::Letter(letter) => Ok(Element::Letter(letter)),
                Escaped::Class(class) => Ok(Element::Class(class.to_owned())),
                Escaped::Place(_) | Escaped::Back(_) => Err(wrong_escape()),
            },
            Some('[') if self.take('.') => {
                self.named('.').and_then(|name| letter(&name)).map(Element::Letter)
            }
            Some('[') if self.take('=') => {
                self.named('=').and_then(|name| letter(&name)).map(Element::Equivalent)
            }
            Some('[') if self.take(':') => {
                let name = self.named(':')?;
                let name = match name.as_str() {
                    "lower" | "upper" if self.options.ignores_case => "alpha",
                    name => name,
                };
                if !CLASSES.contains(&name) {
                    return Err(wrong("invalid character class"));
                }
                Ok(Element::Class(format!("[:{name}:]")))
            }
            Some(letter) => Ok(Element::Letter(letter)),
            None => Err(unbalanced()),
        }
    }

    /// The name up to this mark and a bracket.
    fn named(&mut self, mark: char) -> Result<String, SqlError> {
        let mut name = String::new();
        loop {
            let letter = self.read().ok_or_else(unbalanced)?;
            if letter == mark && self.take(']') {
                return Ok(name);
            }
            name.push(letter);
        }
    }
}

/// The letter of a collating element.
fn letter(name: &str) -> Result<char, SqlError> {
    let mut letters = name.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => Ok(letter),
        _ => Err(wrong("invalid collating element")),
    }
}

/// As the `regex` crate reads it in brackets.
fn push_letter(letter: char, set: &mut String) {
    if letter.is_alphanumeric() {
        set.push(letter);
    } else {
        set.push_str(&format!(r"\x{{{:X}}}", u32::from(letter)));
    }
}

fn wrong_range() -> SqlError {
    wrong("invalid character range")
}

fn unbalanced() -> SqlError {
    wrong("brackets [] not balanced")
}
