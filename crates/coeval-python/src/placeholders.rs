// SPDX-License-Identifier: Apache-2.0
//! Parameters as Python programs write them, `?` and `$name`, as SQL has them: `$1`, `$2`, ...

use coeval_commands::Place;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyMapping};

/// A text with numbered parameters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) sql: String,
    /// The names of `$1`, `$2`, ... where they have some: each `$name` gets a number when it is met first.
    pub(crate) names: Vec<String>,
}

/// What the parameters of a statement are given as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Given {
    /// In their order, for `?` or `$1`.
    InOrder,
    /// By name, for `$name`.
    ByName,
}

impl Given {
    /// How these are given.
    pub(crate) fn of(parameters: &Bound<'_, PyAny>) -> Self {
        if parameters.cast::<PyMapping>().is_ok() { Self::ByName } else { Self::InOrder }
    }
}

/// The text with `$1`, `$2`, ... in place of `?` or `$name`. What stands in quotes and in comments stays; `??` is the operator
/// `?` of SQL, so is each `?` of a text that has a `$1` already.
pub(crate) fn numbered(sql: &str, given: Given) -> Numbered {
    let has_numbers = Pieces::of(sql).any(|piece| piece.is_dollar() && piece.word().starts_with(is_digit));
    let (mut made, mut count, mut read) = (Numbered::default(), 0, 0);
    for piece in Pieces::of(sql) {
        if piece.at < read {
            continue;
        }
        read = piece.at + piece.length;
        if given == Given::ByName && piece.is_dollar() && piece.word().starts_with(|char| !is_digit(char)) {
            made.push_name(piece.word());
            read += piece.word().len();
        } else if given == Given::InOrder && !has_numbers && piece.is_plain("??") {
            made.sql.push('?');
            read += 1;
        } else if given == Given::InOrder && !has_numbers && piece.is_plain("?") {
            count += 1;
            made.sql.push_str(&format!("${count}"));
        } else {
            made.sql.push_str(&sql[piece.at..read]);
        }
    }
    made
}

impl Numbered {
    /// The parameter of this name, by its number.
    fn push_name(&mut self, name: &str) {
        let known = self.names.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.sql.push_str(&format!("${}", index + 1));
    }
}

fn is_digit(char: char) -> bool {
    char.is_ascii_digit()
}

fn is_of_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// What belongs together in a text.
struct Piece<'s> {
    sql: &'s str,
    at: usize,
    length: usize,
    /// Whether it stands neither in quotes nor in a comment, and begins neither.
    is_plain: bool,
}

impl<'s> Piece<'s> {
    /// Whether this stands here, outside of quotes and comments.
    fn is_plain(&self, text: &str) -> bool {
        self.is_plain && self.sql[self.at..].starts_with(text)
    }

    /// Whether it is a `$` that is no part of a name.
    fn is_dollar(&self) -> bool {
        self.is_plain("$") && !self.sql[..self.at].ends_with(is_of_word)
    }

    /// The name or number behind it; none if another character follows.
    fn word(&self) -> &'s str {
        let rest = &self.sql[self.at + self.length..];
        &rest[..rest.find(|char| !is_of_word(char)).unwrap_or(rest.len())]
    }
}

/// The pieces of a text, one after the other.
struct Pieces<'s> {
    sql: &'s str,
    at: usize,
    place: Place,
}

impl<'s> Pieces<'s> {
    fn of(sql: &'s str) -> Self {
        Self { sql, at: 0, place: Place::Plain }
    }
}

impl<'s> Iterator for Pieces<'s> {
    type Item = Piece<'s>;

    fn next(&mut self) -> Option<Piece<'s>> {
        let (sql, at) = (self.sql, self.at);
        if at == sql.len() {
            return None;
        }
        let (length, place) = self.place.next(&sql[at..], sql[..at].chars().next_back());
        let is_plain = self.place == Place::Plain && place == Place::Plain;
        (self.at, self.place) = (at + length, place);
        Some(Piece { sql, at, length, is_plain })
    }
}
