// SPDX-License-Identifier: Apache-2.0
//! `synchronous_standby_names`: which replicas commits wait for, in PostgreSQL's words.
//!
//! ```text
//! a, b            the first one of the list that is connected
//! 2 (a, b, c)     the first two of them; also FIRST 2 (a, b, c)
//! ANY 2 (a, b, c) any two of them
//! *               any name
//!                 nothing: nobody is waited for
//! ```

use crate::error::{SqlError, SqlState};
use coeval_store::{ReplicaChoice, SynchronousReplicas};

/// The name of the setting.
pub(crate) const SYNCHRONOUS_STANDBY_NAMES: &str = "synchronous_standby_names";

/// Reads the setting; `None`: nobody.
///
/// # Errors
/// `22023`.
pub(crate) fn parse(text: &str) -> Result<Option<SynchronousReplicas>, SqlError> {
    let wrong = || {
        let message = format!("invalid value for parameter \"{SYNCHRONOUS_STANDBY_NAMES}\": \"{text}\"");
        SqlError::new(SqlState::InvalidParameterValue, message)
            .with_hint("It is a list of names, or FIRST n (names), or ANY n (names).")
    };
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Ok(None);
    }
    let Some((head, list)) = trimmed.strip_suffix(')').and_then(|text| text.split_once('(')) else {
        let names = names(trimmed).ok_or_else(wrong)?;
        return Ok(Some(required(1, ReplicaChoice::First, names)));
    };
    let words: Vec<&str> = head.split_whitespace().collect();
    let (choice, count) = match words[..] {
        [count] => (ReplicaChoice::First, count),
        [word, count] if word.eq_ignore_ascii_case("first") => (ReplicaChoice::First, count),
        [word, count] if word.eq_ignore_ascii_case("any") => (ReplicaChoice::Any, count),
        _ => return Err(wrong()),
    };
    let count = count.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
    Ok(Some(required(count, choice, names(list).ok_or_else(wrong)?)))
}

/// The store knows what the primary itself is called.
fn required(count: usize, choice: ReplicaChoice, names: Vec<String>) -> SynchronousReplicas {
    SynchronousReplicas { count, choice, names, primary: String::new(), before: Vec::new() }
}

/// The names of a list: words of letters, digits, `_`, `-`, `.` and `$`, or anything in double quotes.
fn names(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = list.trim_start();
    loop {
        let name;
        (name, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_at(rest.find([',', ' ', '\t', '\n', '"']).unwrap_or(rest.len())),
        };
        let is_word = |name: &str| name.chars().all(|c| c.is_alphanumeric() || "_-.$".contains(c));
        if name.is_empty() || (!list.contains('"') && name != "*" && !is_word(name)) {
            return None;
        }
        names.push(name.to_owned());
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None => return rest.is_empty().then_some(names),
        }
    }
}

/// The setting's text.
pub(crate) fn shown(required: Option<&SynchronousReplicas>) -> String {
    let Some(SynchronousReplicas { count, choice, names, .. }) = required else { return String::new() };
    let quoted: Vec<String> = names
        .iter()
        .map(|name| {
            let is_plain = name == "*" || name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if is_plain { name.clone() } else { format!("\"{name}\"") }
        })
        .collect();
    let choice = match choice {
        ReplicaChoice::First => "FIRST",
        ReplicaChoice::Any => "ANY",
    };
    format!("{choice} {count} ({})", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(usize, ReplicaChoice, Vec<String>)> {
        let SynchronousReplicas { count, choice, names, .. } = parse(text).unwrap()?;
        Some((count, choice, names))
    }

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn lists_are_read_as_postgresql_reads_them() {
        let (first, any) = (ReplicaChoice::First, ReplicaChoice::Any);
        assert_eq!(read(" "), None);
        assert_eq!(read("a"), Some((1, first, list(&["a"]))));
        assert_eq!(read("a , b"), Some((1, first, list(&["a", "b"]))));
        assert_eq!(read("*"), Some((1, first, list(&["*"]))));
        assert_eq!(read("2 (a, b,c)"), Some((2, first, list(&["a", "b", "c"]))));
        assert_eq!(read("first 1(a)"), Some((1, first, list(&["a"]))));
        assert_eq!(read("ANY 2 (a, \"b, (c)\", *)"), Some((2, any, list(&["a", "b, (c)", "*"]))));
        for text in
            ["a b", "a,", "ANY (a)", "ANY 0 (a)", "2 a, b", "MOST 2 (a)", "ANY 2 ()", "\"a", "(a)", "a;b"]
        {
            assert_eq!(parse(text).unwrap_err().state, SqlState::InvalidParameterValue, "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_read_as_the_same() {
        for text in ["", "a, b", "ANY 2 (a, \"b c\", *)"] {
            let required = parse(text).unwrap();
            assert_eq!(parse(&shown(required.as_ref())).unwrap(), required, "{text}");
        }
    }
}
