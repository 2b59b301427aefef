// SPDX-License-Identifier: Apache-2.0
//! Cuts text that comes in line by line into statements and commands.
//!
//! A statement ends at a semicolon outside of strings, quoted names, dollar quotes and comments, and a backslash there begins a
//! command. That is all this knows of SQL: whether the statement makes sense is for the session to say.

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
    /// The end of an `\if` whose statements are not run.
    Branch,
    /// The rows of a COPY.
    Rows,
}

/// What a text is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Statement(Piece),
    /// A command with its arguments, from the backslash on.
    Command(String),
}

/// What was read in one step.
enum Step {
    /// A part of a statement, or what stands between two.
    Part,
    /// The semicolon that ends a statement.
    Statement,
    /// Nothing: a command begins.
    Command,
}

/// A statement that goes on behind text that is passed over.
struct Begun {
    text: String,
    line: usize,
    has_words: bool,
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
    /// The statement that had begun when [`Splitter::skip`] was called.
    begun: Option<Begun>,
}

impl Splitter {
    /// Nothing has come in yet.
    pub(crate) fn new() -> Self {
        Self { text: String::new(), line: 1, read: 0, place: Place::Plain, has_words: false, begun: None }
    }

    /// Takes in a line without its end.
    pub(crate) fn push_line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// The next statement or command that is complete; `None` until more comes in. Statements of nothing but comments are
    /// passed over.
    pub(crate) fn next_token(&mut self) -> Option<Token> {
        while self.read < self.text.len() {
            match self.step() {
                Step::Part => {}
                Step::Statement => {
                    let piece = self.piece(self.read - 1);
                    self.forget(self.read);
                    if let Some(piece) = piece {
                        return Some(Token::Statement(piece));
                    }
                }
                Step::Command => return Some(Token::Command(self.take_command())),
            }
        }
        if !self.has_words && self.place == Place::Plain {
            self.forget(self.read);
        }
        None
    }

    /// Takes out the command that begins here; the line goes on behind it.
    fn take_command(&mut self) -> String {
        let (length, taken) = command_length(&self.text[self.read..]);
        let command = self.text[self.read..self.read + length].trim_end().to_owned();
        self.text.drain(self.read..self.read + taken);
        command
    }

    /// The statement in front of a command, without a semicolon; `None` if there is none.
    pub(crate) fn take_begun(&mut self) -> Option<Piece> {
        let piece = self.piece(self.read);
        self.forget(self.read);
        piece
    }

    /// What comes from now on belongs to no statement, up to [`Self::resume`].
    pub(crate) fn skip(&mut self) {
        if self.begun.is_none() {
            let text = self.text[..self.read].to_owned();
            self.begun = Some(Begun { text, line: self.line, has_words: self.has_words });
            self.forget(self.read);
        }
    }

    /// What comes from now on continues the statement that had begun before [`Self::skip`]. Lines that were passed over are blank
    /// lines of it, so that those behind it have their numbers.
    pub(crate) fn resume(&mut self) {
        let Some(begun) = self.begun.take() else { return };
        self.forget(self.read);
        let behind = begun.line + begun.text.matches('\n').count();
        let passed_over = self.line - behind;
        let before = begun.text + &"\n".repeat(passed_over);
        self.text.insert_str(0, &before);
        self.read = before.len();
        self.line = begun.line;
        self.has_words = begun.has_words;
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

    /// The line of what is read next, from 1.
    pub(crate) fn line(&self) -> usize {
        self.line + self.text[..self.read].matches('\n').count()
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

    /// What the text waits for once [`Splitter::next_token`] has given `None`.
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

    /// Reads one piece.
    fn step(&mut self) -> Step {
        let rest = &self.text[self.read..];
        let next = rest.chars().next().expect("the caller has seen that something is left");
        let (taken, place) = match &self.place {
            Place::Plain if next == ';' => {
                self.read += 1;
                return Step::Statement;
            }
            // A semicolon that sends nothing yet: several statements are one text.
            Place::Plain if rest.starts_with("\\;") => {
                self.text.remove(self.read);
                self.read += 1;
                self.has_words = true;
                return Step::Part;
            }
            Place::Plain if next == '\\' => return Step::Command,
            place => place.next(rest, self.text[..self.read].chars().next_back()),
        };
        if self.place == Place::Plain {
            let is_comment = matches!(place, Place::LineComment | Place::BlockComment(_));
            self.has_words |= !is_comment && !next.is_whitespace();
        }
        self.read += taken;
        self.place = place;
        Step::Part
    }
}

/// How long the command is that a text begins with, and how much of the text goes with it: it ends with its line, where another
/// command begins, or at `\\`, behind which statements go on.
fn command_length(text: &str) -> (usize, usize) {
    let line = text.split('\n').next().unwrap_or_default();
    let name_end = line.chars().skip(1).take_while(|next| !next.is_whitespace() && *next != '\\');
    let name_end = 1 + name_end.map(char::len_utf8).sum::<usize>();
    let (name, arguments) = line.split_at(name_end);
    if takes_whole_line(name, arguments.trim_start()) {
        return (line.len(), line.len());
    }
    let mut quote = None;
    let mut characters = arguments.char_indices();
    while let Some((at, character)) = characters.next() {
        match quote {
            Some(open) if character == open => quote = None,
            // A quote behind a backslash is one of the text.
            Some('\'') if character == '\\' => {
                characters.next();
            }
            Some(_) => {}
            None if matches!(character, '\'' | '"' | '`') => quote = Some(character),
            None if character == '\\' => {
                let end = name_end + at;
                let separator = if line[end..].starts_with("\\\\") { 2 } else { 0 };
                return (end, end + separator);
            }
            None => {}
        }
    }
    (line.len(), line.len())
}

/// Whether a command takes all of its line as it stands.
fn takes_whole_line(name: &str, arguments: &str) -> bool {
    match name {
        "\\copy" => true,
        "\\o" | "\\out" | "\\g" | "\\gx" => arguments.starts_with('|'),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
