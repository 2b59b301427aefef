// SPDX-License-Identifier: Apache-2.0
//! Variables of the shell: `\set` gives them values, `:name` stands for one in statements and arguments of commands.

use crate::place::Place;
use std::collections::BTreeMap;

/// Whether a script ends with the first statement that fails.
pub(super) const ON_ERROR_STOP: &str = "ON_ERROR_STOP";

/// Names and values.
#[derive(Clone, Debug)]
pub(crate) struct Variables {
    values: BTreeMap<String, String>,
}

impl Variables {
    /// Those that a shell begins with.
    pub(super) fn new() -> Self {
        Self { values: BTreeMap::from([(ON_ERROR_STOP.to_owned(), "on".to_owned())]) }
    }

    /// The value of a variable; `None` if it has none.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Gives a variable a value.
    ///
    /// # Errors
    /// If a variable cannot be called so.
    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) -> Result<(), String> {
        if name.is_empty() || name_length(name) < name.len() {
            return Err(format!("invalid variable name: \"{name}\""));
        }
        self.values.insert(name.to_owned(), value.into());
        Ok(())
    }

    /// Notes something in a variable of the shell's own.
    pub(super) fn note(&mut self, name: &'static str, value: &str) {
        self.values.insert(name.to_owned(), value.to_owned());
    }

    /// Takes a variable its value.
    pub(super) fn unset(&mut self, name: &str) {
        self.values.remove(name);
    }

    /// Names and values, in the order of the names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether a variable is on. One that has no value, or another one than a switch has, is not.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name).and_then(truth).unwrap_or(false)
    }

    /// What the reference to a variable that a text begins with stands for, and how long it is: `:name`, `:'name'` as a string of
    /// SQL, `:"name"` as a name of SQL, `:{?name}` whether it has a value. `None` if the text begins otherwise, or the variable
    /// has no value.
    pub(super) fn referred(&self, text: &str) -> Option<(String, usize)> {
        let behind = text.strip_prefix(':')?;
        let opening = behind.chars().next()?;
        let (inner, closing) = match opening {
            '\'' => (&behind[1..], "'"),
            '"' => (&behind[1..], "\""),
            '{' => (behind.strip_prefix("{?")?, "}"),
            _ => (behind, ""),
        };
        let (name, rest) = inner.split_at(name_length(inner));
        let rest = rest.strip_prefix(closing).filter(|_| !name.is_empty())?;
        let length = text.len() - rest.len();
        if opening == '{' {
            let answer = if self.get(name).is_some() { "TRUE" } else { "FALSE" };
            return Some((answer.to_owned(), length));
        }
        let value = self.get(name)?;
        let shown = match opening {
            '\'' => quoted(value, '\''),
            '"' => quoted(value, '"'),
            _ => value.to_owned(),
        };
        Some((shown, length))
    }

    /// A text of SQL with values in the place of variables that have one. Strings, quoted names, dollar quotes and comments stay
    /// as they are, and so do casts (`::`).
    pub(super) fn interpolated(&self, sql: &str) -> String {
        let mut interpolated = String::with_capacity(sql.len());
        let (mut place, mut at) = (Place::Plain, 0);
        while at < sql.len() {
            let rest = &sql[at..];
            if place == Place::Plain
                && let Some((value, length)) = self.referred(rest)
            {
                interpolated.push_str(&value);
                at += length;
                continue;
            }
            let (mut length, next) = place.next(rest, sql[..at].chars().next_back());
            if place == Place::Plain && rest.starts_with("::") {
                length = 2;
            }
            interpolated.push_str(&rest[..length]);
            at += length;
            place = next;
        }
        interpolated
    }
}

/// How much of a text may be the name of a variable.
fn name_length(text: &str) -> usize {
    let in_name = |next: char| next.is_ascii_alphanumeric() || next == '_' || !next.is_ascii();
    text.find(|next: char| !in_name(next)).unwrap_or(text.len())
}

fn quoted(text: &str, quote: char) -> String {
    format!("{quote}{}{quote}", text.replace(quote, &format!("{quote}{quote}")))
}

/// Whether a text says yes or no, as psql reads it: `true`, `false`, `yes`, `no`, or what they begin with, `on`, `off`, `1`, `0`.
pub(super) fn truth(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    match text.as_str() {
        "1" => Some(true),
        "0" => Some(false),
        _ if begins("true", 1) || begins("yes", 1) || begins("on", 2) => Some(true),
        _ if begins("false", 1) || begins("no", 1) || begins("off", 2) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let mut variables = Variables::new();
        variables.set("x", "a'b\"c").unwrap();
        variables.set("n", "5").unwrap();
        variables
    }

    #[test]
    fn variables_stand_in_plain_text_only() {
        let interpolated = |sql: &str| variables().interpolated(sql);
        assert_eq!(interpolated("SELECT :n, :'x', :\"x\""), "SELECT 5, 'a''b\"c', \"a'b\"\"c\"");
        assert_eq!(interpolated("':n' \":n\" $$:n$$ E'\\':n' -- :n"), "':n' \":n\" $$:n$$ E'\\':n' -- :n");
        assert_eq!(interpolated("1::n, a[1:n], :n::text"), "1::n, a[15], 5::text");
        assert_eq!(interpolated(":none :'none' :{?n} :{?none} : n"), ":none :'none' TRUE FALSE : n");
    }

    #[test]
    fn a_variable_has_a_name() {
        let mut variables = variables();
        assert_eq!(variables.set("1-a", "").unwrap_err(), "invalid variable name: \"1-a\"");
        assert!(variables.set("", "").is_err() && variables.set("größe_1", "").is_ok());
        variables.unset("n");
        assert_eq!((variables.get("n"), variables.get("größe_1")), (None, Some("")));
        assert!(variables.is_on(ON_ERROR_STOP) && !variables.is_on("x"));
    }

    #[test]
    fn yes_and_no_may_be_begun() {
        assert!(["1", "on", "t", "TRUE", " yes "].iter().all(|text| truth(text) == Some(true)));
        assert!(["0", "off", "of", "f", "n"].iter().all(|text| truth(text) == Some(false)));
        assert!(["", "o", "2", "maybe", "truely"].iter().all(|text| truth(text).is_none()));
    }
}
