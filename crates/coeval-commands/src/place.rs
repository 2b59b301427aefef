// SPDX-License-Identifier: Apache-2.0
//! [`Place`]: where a character of SQL stands, in plain text or within a string, a quoted name, a dollar quote or a comment.
//!
//! That is all this knows of SQL: enough to find semicolons and parameters that are none of a text's contents.

/// Where the next character stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In plain text.
    Plain,
    /// In `'...'`; with backslash escapes if it began with `E`.
    Text(Backslash),
    /// In `"..."`.
    Name,
    /// In `$tag$...$tag$`; this is the closing mark.
    Dollar(String),
    /// Behind `--`.
    LineComment,
    /// In `/* ... */`, so many deep.
    BlockComment(usize),
}

/// What a backslash in a string means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backslash {
    /// It is one.
    Plain,
    /// It makes something else of the next character.
    Escape,
}

impl Place {
    /// Reads what `rest` begins with, which stands here, behind the character `before`: how many bytes belong together (one at
    /// least, of a text that is not at its end), and where the text behind them stands.
    #[must_use]
    pub fn next(&self, rest: &str, before: Option<char>) -> (usize, Self) {
        match self {
            Self::Plain => open(rest, before),
            inside => read_inside(inside, rest),
        }
    }
}

/// What plain text begins with: how many bytes of it belong together, and where the text behind them stands.
fn open(rest: &str, before: Option<char>) -> (usize, Place) {
    let next = rest.chars().next().map_or(0, char::len_utf8);
    if rest.starts_with("--") {
        return (2, Place::LineComment);
    }
    if rest.starts_with("/*") {
        return (2, Place::BlockComment(1));
    }
    match rest.as_bytes()[0] {
        b'\'' => (1, Place::Text(Backslash::Plain)),
        b'"' => (1, Place::Name),
        b'e' | b'E' if rest[1..].starts_with('\'') && !before.is_some_and(in_word) => {
            (2, Place::Text(Backslash::Escape))
        }
        b'$' if !before.is_some_and(in_word) => match dollar_mark(rest) {
            Some(mark) => (mark.len(), Place::Dollar(mark.to_owned())),
            None => (1, Place::Plain),
        },
        _ => (next, Place::Plain),
    }
}

/// Reads one piece of a quote or comment: how many bytes, and where the text behind them stands.
fn read_inside(inside: &Place, rest: &str) -> (usize, Place) {
    let next = rest.chars().next().unwrap_or_default();
    let same = (next.len_utf8(), inside.clone());
    match inside {
        // A doubled quote is one that belongs to the contents.
        Place::Text(_) if rest.starts_with("''") => (2, inside.clone()),
        Place::Name if rest.starts_with("\"\"") => (2, inside.clone()),
        Place::Text(_) if next == '\'' => (1, Place::Plain),
        Place::Text(Backslash::Escape) if next == '\\' => {
            let escaped = rest[1..].chars().next().map_or(0, char::len_utf8);
            (1 + escaped, inside.clone())
        }
        Place::Name if next == '"' => (1, Place::Plain),
        Place::Dollar(mark) if rest.starts_with(mark.as_str()) => (mark.len(), Place::Plain),
        Place::LineComment if next == '\n' => (1, Place::Plain),
        Place::BlockComment(depth) if rest.starts_with("*/") => match depth {
            1 => (2, Place::Plain),
            deeper => (2, Place::BlockComment(deeper - 1)),
        },
        Place::BlockComment(depth) if rest.starts_with("/*") => (2, Place::BlockComment(depth + 1)),
        _ => same,
    }
}

fn in_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// `$$` or `$tag$` at the beginning of the text.
fn dollar_mark(rest: &str) -> Option<&str> {
    let end = rest[1..].find('$')? + 1;
    let tag = &rest[1..end];
    let mut characters = tag.chars();
    let begins_well = characters.next().is_none_or(|first| first.is_alphabetic() || first == '_');
    let is_tag = begins_well && characters.all(|character| character.is_alphanumeric() || character == '_');
    is_tag.then(|| &rest[..=end])
}
