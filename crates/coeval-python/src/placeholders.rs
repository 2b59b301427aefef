// SPDX-License-Identifier: Apache-2.0
//! Parameters as Python programs write them, `?` and `$name`, as SQL has them: `$1`, `$2`, ...

use pyo3::prelude::*;
use pyo3::types::{PyAny, PyMapping};
use std::iter::Peekable;
use std::str::CharIndices;

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
    let mut reading = Reading { sql, rest: sql.char_indices().peekable(), made: Numbered::default() };
    let has_numbers = given == Given::InOrder && has_numbers(sql);
    let mut count = 0;
    while let Some((at, char)) = reading.rest.next() {
        match char {
            '?' if given == Given::InOrder && !has_numbers => {
                if reading.rest.next_if(|&(_, next)| next == '?').is_some() {
                    reading.made.sql.push('?');
                } else {
                    count += 1;
                    reading.made.sql.push_str(&format!("${count}"));
                }
            }
            '$' => reading.dollar(at, given),
            _ => reading.other(at, char),
        }
    }
    reading.made
}

/// Whether the text has a `$1` outside of quotes and comments.
fn has_numbers(sql: &str) -> bool {
    let mut reading = Reading { sql, rest: sql.char_indices().peekable(), made: Numbered::default() };
    while let Some((at, char)) = reading.rest.next() {
        let is_number = |next: &(usize, char)| next.1.is_ascii_digit();
        match char {
            '$' if reading.rest.peek().is_some_and(is_number) => return true,
            '$' => reading.dollar(at, Given::InOrder),
            _ => reading.other(at, char),
        }
    }
    false
}

struct Reading<'s> {
    sql: &'s str,
    rest: Peekable<CharIndices<'s>>,
    made: Numbered,
}

impl Reading<'_> {
    /// Goes on behind the text from `at` up to `end`, which stays as it is.
    fn keep(&mut self, at: usize, end: usize) {
        self.made.sql.push_str(&self.sql[at..end]);
        self.go_on_at(end);
    }

    fn go_on_at(&mut self, end: usize) {
        while self.rest.next_if(|&(next, _)| next < end).is_some() {}
    }

    /// What a `$` begins: a named parameter, a text in dollar quotes, or itself.
    fn dollar(&mut self, at: usize, given: Given) {
        let word = word_end(self.sql, at + 1);
        let is_name = self.sql[at + 1..word].starts_with(|first: char| !first.is_ascii_digit());
        if self.sql[word..].starts_with('$') && (is_name || word == at + 1) && !self.is_within_word(at) {
            let quote = &self.sql[at..=word];
            let close = self.sql[word + 1..].find(quote).map(|found| word + 1 + found + quote.len());
            return self.keep(at, close.unwrap_or(self.sql.len()));
        }
        if given == Given::ByName && is_name && word > at + 1 && !self.is_within_word(at) {
            let name = &self.sql[at + 1..word];
            let names = &mut self.made.names;
            let known = names.iter().position(|known| known == name);
            let number = known.unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            self.made.sql.push_str(&format!("${}", number + 1));
            return self.go_on_at(word);
        }
        self.made.sql.push('$');
    }

    /// Whether what is at `at` belongs to a name that began before.
    fn is_within_word(&self, at: usize) -> bool {
        self.sql[..at].chars().next_back().is_some_and(is_word_char)
    }

    /// What any other character begins: a text in quotes, a comment, or itself.
    fn other(&mut self, at: usize, char: char) {
        let rest = &self.sql[at..];
        let end = match char {
            '\'' => quoted_end(self.sql, at, '\'', self.has_escapes(at)),
            '"' => quoted_end(self.sql, at, '"', Escapes::None),
            '-' if rest.starts_with("--") => at + rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => comment_end(self.sql, at),
            _ => at + char.len_utf8(),
        };
        self.keep(at, end);
    }

    /// Whether the quote at `at` begins a text `E'...'`.
    fn has_escapes(&self, at: usize) -> Escapes {
        let mut before = self.sql[..at].chars().rev();
        let is_marked = before.next().is_some_and(|mark| mark == 'e' || mark == 'E');
        if is_marked && !before.next().is_some_and(is_word_char) { Escapes::Backslash } else { Escapes::None }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    None,
    Backslash,
}

fn is_word_char(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

fn word_end(sql: &str, from: usize) -> usize {
    sql[from..].find(|char| !is_word_char(char)).map_or(sql.len(), |length| from + length)
}

/// Behind the quote that ends the text which begins with the quote at `at`.
fn quoted_end(sql: &str, at: usize, quote: char, escapes: Escapes) -> usize {
    let mut rest = sql[at + 1..].char_indices().peekable();
    while let Some((index, char)) = rest.next() {
        if char == '\\' && escapes == Escapes::Backslash {
            rest.next();
        } else if char == quote && rest.next_if(|&(_, next)| next == quote).is_none() {
            return at + 1 + index + quote.len_utf8();
        }
    }
    sql.len()
}

/// Behind the comment that begins at `at`; comments nest.
fn comment_end(sql: &str, at: usize) -> usize {
    let (mut depth, mut index) = (0_usize, at);
    while index < sql.len() {
        let rest = &sql[index..];
        if rest.starts_with("/*") {
            depth += 1;
            index += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            index += 2;
            if depth == 0 {
                return index;
            }
        } else {
            index += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    sql.len()
}
