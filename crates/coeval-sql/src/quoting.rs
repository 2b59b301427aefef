// SPDX-License-Identifier: Apache-2.0
//! Names as SQL writes them: quoted where they need it.

use crate::relations::special_keywords;
use std::collections::HashSet;
use std::sync::LazyLock;

/// The identifier, quoted if it would be read otherwise.
pub(crate) fn quoted(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The text as a literal.
pub(crate) fn literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", doubled.replace('\\', "\\\\")) } else { format!("'{doubled}'") }
}

fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    let starts = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let goes_on = bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    starts && goes_on && !is_keyword(name)
}

/// Whether PostgreSQL quotes the word when it is a name: all keywords but those that are never special.
fn is_keyword(name: &str) -> bool {
    static KEYWORDS: LazyLock<HashSet<String>> = LazyLock::new(special_keywords);
    KEYWORDS.contains(name)
}

/// The parts of a name as SQL writes it, folded; `None` if it is no name.
pub(crate) fn parts(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, behind) = first_part(rest)?;
        parts.push(part);
        rest = match behind.strip_prefix('.') {
            Some(next) => next,
            None if behind.is_empty() => return Some(parts),
            None => return None,
        };
    }
}

fn first_part(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(['.', '"']).unwrap_or(text.len());
        let word = text[..end].trim_end();
        return (!word.is_empty() && !word.contains(' ')).then(|| (word.to_lowercase(), &text[end..]));
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let end = rest.find('"')?;
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                name.push('"');
                rest = next;
            }
            None => return Some((name, rest)),
        }
    }
}
