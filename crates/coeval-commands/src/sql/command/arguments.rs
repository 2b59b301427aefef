// SPDX-License-Identifier: Apache-2.0
//! The arguments of a command, as psql reads them.
//!
//! They are divided by blanks. `'...'` is a text, with `\n`, `\t`, `\'` and the like, `"..."` keeps its quotes, as a name of SQL has
//! them, `` `...` `` is what a program prints, and `:name` the value of a variable.

use super::super::variables::Variables;
use std::process::{Command, Stdio};

/// What is left of the arguments of a command.
pub(super) struct Arguments<'a> {
    rest: &'a str,
    variables: &'a Variables,
}

impl<'a> Arguments<'a> {
    /// All of them are left.
    pub(super) fn new(text: &'a str, variables: &'a Variables) -> Self {
        Self { rest: text, variables }
    }

    /// All that are left.
    ///
    /// # Errors
    /// For a quote that does not end, and a program that fails.
    pub(super) fn all(mut self) -> Result<Vec<String>, String> {
        let mut words = Vec::new();
        while let Some(word) = self.take()? {
            words.push(word);
        }
        Ok(words)
    }

    /// The next one.
    fn take(&mut self) -> Result<Option<String>, String> {
        self.rest = self.rest.trim_start();
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut word = String::new();
        while let Some(first) = self.rest.chars().next().filter(|first| !first.is_whitespace()) {
            match first {
                '\'' => self.take_text(&mut word)?,
                '"' => {
                    let name = self.take_quoted('"')?;
                    word.push('"');
                    word.push_str(name);
                    word.push('"');
                }
                '`' => {
                    let program = self.take_quoted('`')?;
                    word.push_str(&printed(program)?);
                }
                other => match self.variables.referred(self.rest) {
                    Some((value, length)) => {
                        word.push_str(&value);
                        self.rest = &self.rest[length..];
                    }
                    None => {
                        word.push(other);
                        self.rest = &self.rest[other.len_utf8()..];
                    }
                },
            }
        }
        Ok(Some(word))
    }

    /// What stands up to the next quote, which is left behind.
    fn take_quoted(&mut self, quote: char) -> Result<&'a str, String> {
        let (inner, rest) =
            self.rest[1..].split_once(quote).ok_or_else(|| "unterminated quoted string".to_owned())?;
        self.rest = rest;
        Ok(inner)
    }

    /// Takes a text in single quotes.
    fn take_text(&mut self, word: &mut String) -> Result<(), String> {
        let mut characters = self.rest[1..].chars();
        loop {
            match characters.next() {
                None => return Err("unterminated quoted string".to_owned()),
                Some('\'') if characters.as_str().starts_with('\'') => {
                    characters.next();
                    word.push('\'');
                }
                Some('\'') => break,
                Some('\\') => {
                    let (escaped, length) = escaped(characters.as_str());
                    word.extend(escaped);
                    characters = characters.as_str()[length..].chars();
                }
                Some(other) => word.push(other),
            }
        }
        self.rest = characters.as_str();
        Ok(())
    }
}

/// What the text behind a backslash stands for, and how much of it belongs to that.
fn escaped(text: &str) -> (Option<char>, usize) {
    let Some(first) = text.chars().next() else { return (None, 0) };
    let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    let count =
        |text: &str, radix, most| text.chars().take(most).take_while(|next| next.is_digit(radix)).count();
    match first {
        'n' => (Some('\n'), 1),
        't' => (Some('\t'), 1),
        'b' => (Some('\u{8}'), 1),
        'r' => (Some('\r'), 1),
        'f' => (Some('\u{c}'), 1),
        '0'..='7' => {
            let digits = count(text, 8, 3);
            (number(&text[..digits], 8), digits)
        }
        'x' if count(&text[1..], 16, 2) > 0 => {
            let digits = count(&text[1..], 16, 2);
            (number(&text[1..=digits], 16), 1 + digits)
        }
        other => (Some(other), other.len_utf8()),
    }
}

/// What a program prints, without the end of its last line.
fn printed(program: &str) -> Result<String, String> {
    let ended =
        Command::new("sh").args(["-c", program]).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let ended = ended.map_err(|error| format!("{program}: {error}"))?;
    if !ended.status.success() {
        return Err(format!("{program}: {}", ended.status));
    }
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<String>, String> {
        let mut variables = Variables::new();
        variables.set("x", "a b").unwrap();
        Arguments::new(text, &variables).all()
    }

    #[test]
    fn arguments_are_read_as_psql_reads_them() {
        assert_eq!(words("  two  words ").unwrap(), ["two", "words"]);
        assert_eq!(words("'it''s\\t\\x41\\101\\q' 'c'd").unwrap(), ["it's\tAAq", "cd"]);
        assert_eq!(words("\"My Table\" s.\"a b\"").unwrap(), ["\"My Table\"", "s.\"a b\""]);
        assert_eq!(
            words(":x ':x' \":x\" y:x :'x'z :y").unwrap(),
            ["a b", ":x", "\":x\"", "ya b", "'a b'z", ":y"]
        );
        assert_eq!(words("`echo back; echo two`").unwrap(), ["back\ntwo"]);
        assert!(words("").unwrap().is_empty());
    }

    #[test]
    fn what_does_not_end_is_refused() {
        assert!(["'a", "\"a", "`a", "'a\\'"].iter().all(|text| words(text).is_err()));
        assert!(words("`exit 3`").is_err());
    }
}
