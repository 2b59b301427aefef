// SPDX-License-Identifier: Apache-2.0
//! Cuts text that comes in line by line into statements.
//!
//! A statement ends at a semicolon outside of strings, quoted names, dollar quotes and comments. What a semicolon
//! means is all this knows of SQL: whether the statement makes sense is for the session to say.

/// Where the next character stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
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
enum Backslash {
    Plain,
    Escape,
}

/// What the text so far waits for, for the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// A new statement.
    Statement,
    /// The rest of one.
    Rest,
    /// The end of a string.
    Text,
    /// The end of a quoted name.
    Name,
    /// The end of a dollar quote.
    Dollar,
    /// The end of a comment.
    Comment,
}

/// A complete statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its text, without the semicolon and without blanks around it.
    pub(crate) text: String,
    /// The line that it begins on, from 1.
    pub(crate) line: usize,
}

/// Text that has come in, and how far it has been read.
pub(crate) struct Splitter {
    text: String,
    /// The line that the text begins on, from 1.
    line: usize,
    /// Everything before this byte has been read; a border of characters.
    read: usize,
    place: Place,
    /// Whether the statement has anything but blanks and comments so far.
    has_words: bool,
}

impl Splitter {
    /// Nothing has come in yet.
    pub(crate) fn new() -> Self {
        Self { text: String::new(), line: 1, read: 0, place: Place::Plain, has_words: false }
    }

    /// Takes in a line without its end.
    pub(crate) fn push_line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// The next statement that is complete; `None` until more comes in. Statements of nothing but comments are
    /// passed over.
    pub(crate) fn next_statement(&mut self) -> Option<Piece> {
        while self.read < self.text.len() {
            if self.step() {
                let piece = self.piece(self.read - 1);
                self.forget(self.read);
                if piece.is_some() {
                    return piece;
                }
            }
        }
        if !self.has_words && self.place == Place::Plain {
            self.forget(self.read);
        }
        None
    }

    /// What is left when nothing more comes in: a statement without its semicolon.
    pub(crate) fn finish(&mut self) -> Option<Piece> {
        let rest = self.piece(self.text.len());
        self.clear();
        rest
    }

    /// Forgets what has come in and is not complete.
    pub(crate) fn clear(&mut self) {
        self.forget(self.text.len());
        self.place = Place::Plain;
    }

    /// Whether the next line may be a command: not inside of a string, a name or a comment.
    pub(crate) fn takes_commands(&self) -> bool {
        matches!(self.waiting(), Waiting::Statement | Waiting::Rest)
    }

    /// A line was taken by somebody else.
    pub(crate) fn pass_line(&mut self) {
        self.push_line("");
    }

    /// The text before this byte, if it has words.
    fn piece(&self, end: usize) -> Option<Piece> {
        let text = &self.text[..end];
        let blanks = text.len() - text.trim_start().len();
        let line = self.line + text[..blanks].matches('\n').count();
        self.has_words.then(|| Piece { text: text.trim().to_owned(), line })
    }

    /// What the text waits for once [`Splitter::next_statement`] has given `None`.
    pub(crate) fn waiting(&self) -> Waiting {
        match self.place {
            Place::Text(_) => Waiting::Text,
            Place::Name => Waiting::Name,
            Place::Dollar(_) => Waiting::Dollar,
            Place::BlockComment(_) => Waiting::Comment,
            Place::Plain | Place::LineComment if self.has_words => Waiting::Rest,
            Place::Plain | Place::LineComment => Waiting::Statement,
        }
    }

    fn forget(&mut self, end: usize) {
        self.line += self.text[..end].matches('\n').count();
        self.text.drain(..end);
        self.read = 0;
        self.has_words = false;
    }

    /// Reads one piece; true if it was the semicolon that ends a statement.
    fn step(&mut self) -> bool {
        let rest = &self.text[self.read..];
        let next = rest.chars().next().expect("the caller has seen that something is left");
        let (taken, place) = match &self.place {
            Place::Plain if next == ';' => {
                self.read += 1;
                return true;
            }
            Place::Plain => {
                let opened = open(rest, self.text[..self.read].chars().next_back());
                let is_comment = matches!(opened.1, Place::LineComment | Place::BlockComment(_));
                self.has_words |= !is_comment && !next.is_whitespace();
                opened
            }
            inside => read_inside(inside, rest, next),
        };
        self.read += taken;
        self.place = place;
        false
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
fn read_inside(inside: &Place, rest: &str, next: char) -> (usize, Place) {
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

#[cfg(test)]
mod tests;
