// SPDX-License-Identifier: Apache-2.0
//! Cuts text that comes in line by line into statements.
//!
//! A statement ends at a semicolon outside of strings, quoted names, dollar quotes and comments. What a semicolon
//! means is all this knows of SQL: whether the statement makes sense is for the session to say.

use crate::place::Place;

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

    /// Where the next line begins.
    pub(crate) fn place(&self) -> &Place {
        &self.place
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
            place => place.next(rest, self.text[..self.read].chars().next_back()),
        };
        if self.place == Place::Plain {
            let is_comment = matches!(place, Place::LineComment | Place::BlockComment(_));
            self.has_words |= !is_comment && !next.is_whitespace();
        }
        self.read += taken;
        self.place = place;
        false
    }
}

#[cfg(test)]
mod tests;
