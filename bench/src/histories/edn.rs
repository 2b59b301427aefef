// SPDX-License-Identifier: Apache-2.0
//! Reads histories in EDN, as Elle and Jepsen write them: maps of operations, one after another or in a vector.
//!
//! Of a transaction only its end is looked at (`:ok`, `:fail`, `:info`); that it began (`:invoke`) says nothing more.
//! A transaction that has `:ok` was told what its reads found; of one with `:info` only what it appended counts.

use super::history::{Ending, History, Operation, Transaction};
use std::collections::HashSet;

/// How deep vectors and maps may be nested: a history needs four.
const DEPTH_MAX: usize = 16;

/// Why a text is no history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct HistoryError {
    /// Where, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// What is used of EDN.
#[derive(Clone, Debug, PartialEq)]
enum Datum {
    Nil,
    Integer(i64),
    /// Without its colon.
    Keyword(String),
    /// A string, a symbol or a number that is no integer: nothing that a history depends on.
    Other,
    Sequence(Vec<Datum>),
    Map(Vec<(Datum, Datum)>),
}

impl Datum {
    fn keyword(&self) -> Option<&str> {
        match self {
            Self::Keyword(name) => Some(name),
            _ => None,
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Self::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => {
                entries.iter().find(|(key, _)| key.keyword() == Some(name)).map(|(_, value)| value)
            }
            _ => None,
        }
    }
}

impl History {
    /// The history that a text in EDN holds.
    ///
    /// # Errors
    /// Where the text is no EDN, or no history of appends and reads of lists of numbers from 0 on; or a value is appended
    /// twice to a key, so that nobody can tell who has read what.
    pub fn from_edn(text: &str) -> Result<Self, HistoryError> {
        let mut reader = Reader { rest: text.as_bytes(), line: 1 };
        let mut history = Self::default();
        let mut appended = HashSet::new();
        while let Some(datum) = reader.next(0)? {
            let all = match datum {
                Datum::Sequence(all) => all,
                one => vec![one],
            };
            for one in &all {
                let transaction = transaction(one).map_err(|what| reader.error(what))?;
                let Some(transaction) = transaction else { continue };
                for operation in &transaction.operations {
                    if let Operation::Append { key, value } = operation
                        && !appended.insert((*key, *value))
                    {
                        return Err(reader.error(format!("{value} is appended to {key} for the second time")));
                    }
                }
                history.transactions.push(transaction);
            }
        }
        Ok(history)
    }
}

/// The transaction that a map tells the end of.
fn transaction(datum: &Datum) -> Result<Option<Transaction>, String> {
    let ending = match datum.get("type").and_then(Datum::keyword) {
        Some("invoke") => return Ok(None),
        Some("ok") => Ending::Committed,
        Some("fail") => Ending::Aborted,
        Some("info") => Ending::Unknown,
        _ => return Err("a map with :type :invoke, :ok, :fail or :info is wanted".to_owned()),
    };
    // What a client is called matters to nobody; Jepsen's nemesis has a name in place of a number.
    let process = datum.get("process").and_then(Datum::number);
    let process = process.and_then(|process| usize::try_from(process).ok()).unwrap_or(usize::MAX);
    let Some(Datum::Sequence(operations)) = datum.get("value") else {
        return if datum.get("process").and_then(Datum::number).is_none() {
            Ok(None)
        } else {
            Err("a transaction has a vector of operations as its :value".to_owned())
        };
    };
    let mut done = Vec::with_capacity(operations.len());
    for operation in operations {
        done.extend(self::operation(operation)?);
    }
    Ok(Some(Transaction { process, operations: done, ending }))
}

/// An operation; none for a read that was not answered.
fn operation(datum: &Datum) -> Result<Option<Operation>, String> {
    let wanted = || "an operation is [:append key value] or [:r key [value ...]]".to_owned();
    let Datum::Sequence(parts) = datum else { return Err(wanted()) };
    let [kind, key, argument] = &parts[..] else { return Err(wanted()) };
    let key = key.number().ok_or_else(wanted)?;
    match (kind.keyword(), argument) {
        (Some("append"), value) => {
            Ok(Some(Operation::Append { key, value: value.number().ok_or_else(wanted)? }))
        }
        (Some("r"), Datum::Nil) => Ok(None),
        (Some("r"), Datum::Sequence(list)) => {
            let list = list.iter().map(Datum::number).collect::<Option<Vec<_>>>().ok_or_else(wanted)?;
            Ok(Some(Operation::Read { key, list }))
        }
        _ => Err(wanted()),
    }
}

struct Reader<'t> {
    rest: &'t [u8],
    line: usize,
}

impl Reader<'_> {
    fn error(&self, what: impl Into<String>) -> HistoryError {
        HistoryError { line: self.line, what: what.into() }
    }

    fn take(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        self.line += usize::from(first == b'\n');
        Some(first)
    }

    /// Passes over blanks, commas and comments.
    fn skip_blanks(&mut self) {
        while let Some(&next) = self.rest.first() {
            match next {
                b',' => {}
                b';' => {
                    while self.rest.first().is_some_and(|&next| next != b'\n') {
                        self.take();
                    }
                    continue;
                }
                blank if blank.is_ascii_whitespace() => {}
                _ => return,
            }
            self.take();
        }
    }

    /// The next datum; none at the end of the text.
    fn next(&mut self, depth: usize) -> Result<Option<Datum>, HistoryError> {
        if depth > DEPTH_MAX {
            return Err(self.error("vectors and maps are nested too deeply"));
        }
        self.skip_blanks();
        Ok(Some(match self.rest.first() {
            None => return Ok(None),
            Some(b'[') => Datum::Sequence(self.sequence(b']', depth)?),
            Some(b'(') => Datum::Sequence(self.sequence(b')', depth)?),
            Some(b'{') => {
                let mut entries = self.sequence(b'}', depth)?.into_iter();
                let mut map = Vec::new();
                while let Some(key) = entries.next() {
                    let value = entries.next().ok_or_else(|| self.error("a key of a map has no value"))?;
                    map.push((key, value));
                }
                Datum::Map(map)
            }
            Some(b'"') => self.string()?,
            Some(b'#') => {
                // A tag, as in #jepsen.history.Op{...}, or a set: what follows counts.
                self.take();
                self.word();
                return self.next(depth + 1);
            }
            Some(b']' | b')' | b'}') => return Err(self.error("a bracket is closed that was not opened")),
            Some(_) => self.atom()?,
        }))
    }

    fn sequence(&mut self, end: u8, depth: usize) -> Result<Vec<Datum>, HistoryError> {
        self.take();
        let mut members = Vec::new();
        loop {
            self.skip_blanks();
            if self.rest.first() == Some(&end) {
                self.take();
                return Ok(members);
            }
            let member = self.next(depth + 1)?;
            members.push(member.ok_or_else(|| self.error("the text ends within brackets"))?);
        }
    }

    fn string(&mut self) -> Result<Datum, HistoryError> {
        self.take();
        loop {
            match self.take() {
                Some(b'"') => return Ok(Datum::Other),
                Some(b'\\') => drop(self.take()),
                Some(_) => {}
                None => return Err(self.error("the text ends within a string")),
            }
        }
    }

    fn word(&mut self) -> String {
        let ends = |next: &u8| next.is_ascii_whitespace() || b",;()[]{}\"".contains(next);
        let length = self.rest.iter().position(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        String::from_utf8_lossy(word).into_owned()
    }

    fn atom(&mut self) -> Result<Datum, HistoryError> {
        let word = self.word();
        if word == "nil" {
            return Ok(Datum::Nil);
        }
        if let Some(name) = word.strip_prefix(':') {
            return Ok(Datum::Keyword(name.to_owned()));
        }
        match word.parse() {
            Ok(number) => Ok(Datum::Integer(number)),
            Err(_) if word.is_empty() => Err(self.error("this is no EDN")),
            Err(_) => Ok(Datum::Other),
        }
    }
}

#[cfg(test)]
mod tests;
