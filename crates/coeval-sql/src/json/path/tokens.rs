// SPDX-License-Identifier: Apache-2.0
//! The words and marks that a path consists of.

use crate::error::{SqlError, SqlState};
use crate::types::json::canonical;
use std::iter::Peekable;
use std::str::Chars;

/// How long a path may be. The one that was followed last is kept on each thread, and is in nobody's account.
const BYTES_MAX: usize = 1 << 20;

/// How many words and marks it may have: what is made of each takes some two hundred bytes.
const TOKENS_MAX: usize = 16 << 10;

/// A word or mark of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// `$`
    Root,
    /// `@`
    Current,
    /// `$name`
    Variable(String),
    /// In quotes.
    Text(String),
    /// As JSON writes it.
    Number(String),
    Word(String),
    Mark(&'static str),
}

/// Marks, the longer ones first.
const MARKS: [&str; 26] = [
    "**", "&&", "||", "==", "!=", "<>", "<=", ">=", "<", ">", "!", "?", "%", "*", "+", "-", "/", ".", ",",
    "(", ")", "[", "]", "{", "}", ":",
];

/// The words and marks of a path, in their order.
///
/// # Errors
/// `42601` for what is none, `22003` for a number that is too long, `54001` for too many of them.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, SqlError> {
    if text.len() > BYTES_MAX {
        return Err(too_long());
    }
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").ok_or_else(|| at_end("unexpected end of comment"))?.1;
            continue;
        }
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let behind = &rest[first.len_utf8()..];
        let begins_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let (token, behind) = match first {
            '"' => {
                let (text, behind) = quoted(behind)?;
                (Token::Text(text), behind)
            }
            '$' if behind.starts_with('"') => {
                let (name, behind) = quoted(&behind[1..])?;
                (Token::Variable(name), behind)
            }
            '$' if behind.starts_with(is_of_word) => {
                let (name, behind) = word(behind)?;
                (Token::Variable(name), behind)
            }
            '$' => (Token::Root, behind),
            '@' => (Token::Current, behind),
            '0'..='9' => number(rest)?,
            '.' if begins_number(behind) && !ends_value(tokens.last()) => number(rest)?,
            _ => match MARKS.iter().find(|mark| rest.starts_with(**mark)) {
                Some(mark) => (Token::Mark(mark), &rest[mark.len()..]),
                None if is_of_word(first) => {
                    let (word, behind) = word(rest)?;
                    (Token::Word(word), behind)
                }
                None => return Err(near(&first.to_string())),
            },
        };
        if tokens.len() == TOKENS_MAX {
            return Err(too_long());
        }
        tokens.push(token);
        rest = behind;
    }
}

/// Whether a point behind a token begins a step.
fn ends_value(token: Option<&Token>) -> bool {
    !matches!(
        token,
        None | Some(Token::Mark(
            "**" | "&&"
                | "||"
                | "=="
                | "!="
                | "<>"
                | "<="
                | ">="
                | "<"
                | ">"
                | "!"
                | "%"
                | "+"
                | "-"
                | "/"
                | ","
                | "("
                | "["
                | "{"
        ))
    )
}

fn is_of_word(c: char) -> bool {
    !c.is_whitespace() && !"?%$.[]{}()|&!=<>@#,*:-+/\"".contains(c)
}

/// A word, and what is behind it.
fn word(text: &str) -> Result<(String, &str), SqlError> {
    let mut word = String::new();
    let mut chars = text.chars();
    let mut rest = text;
    while let Some(c) = chars.next() {
        if !is_of_word(c) {
            break;
        }
        if c == '\\' {
            word.push(escaped(&mut chars)?);
        } else {
            word.push(c);
        }
        rest = chars.as_str();
    }
    Ok((word, rest))
}

/// A text behind its first quote, and what is behind its last one.
fn quoted(text: &str) -> Result<(String, &str), SqlError> {
    let mut inner = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next().ok_or_else(|| at_end("unterminated quoted string"))? {
            '"' => return Ok((inner, chars.as_str())),
            '\\' => inner.push(escaped(&mut chars)?),
            c => inner.push(c),
        }
    }
}

/// The character that is written behind a backslash.
fn escaped(chars: &mut Chars<'_>) -> Result<char, SqlError> {
    let c = chars.next().ok_or_else(|| at_end("unexpected end after backslash"))?;
    Ok(match c {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        'x' => character(&mut chars.by_ref().take(2).peekable(), 2)?,
        'u' if chars.as_str().starts_with('{') => {
            let (digits, _) = chars.as_str()[1..].split_once('}').ok_or_else(invalid_escape)?;
            let found = character(&mut digits.chars().take(6).peekable(), digits.len())?;
            let length = digits.len() + 2;
            chars.by_ref().take(length).for_each(drop);
            found
        }
        'u' => {
            let first = code(&mut chars.by_ref().take(4).peekable(), 4)?;
            match first {
                // A character beyond the first 65,536 is written as two halves.
                0xD800..=0xDBFF if chars.as_str().starts_with("\\u") => {
                    chars.by_ref().take(2).for_each(drop);
                    let second = code(&mut chars.by_ref().take(4).peekable(), 4)?;
                    if !(0xDC00..=0xDFFF).contains(&second) {
                        return Err(invalid_escape());
                    }
                    let joined = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                    char::from_u32(joined).ok_or_else(invalid_escape)?
                }
                code => char::from_u32(code).filter(|c| *c != '\0').ok_or_else(invalid_escape)?,
            }
        }
        other => other,
    })
}

/// The character of so many hexadecimal digits.
fn character<I: Iterator<Item = char>>(digits: &mut Peekable<I>, count: usize) -> Result<char, SqlError> {
    let code = code(digits, count)?;
    char::from_u32(code).filter(|c| *c != '\0').ok_or_else(invalid_escape)
}

fn code<I: Iterator<Item = char>>(digits: &mut Peekable<I>, count: usize) -> Result<u32, SqlError> {
    let mut code = 0_u32;
    let mut read = 0;
    while let Some(digit) = digits.next_if(char::is_ascii_hexdigit) {
        code = (code << 4) | digit.to_digit(16).unwrap_or(0);
        read += 1;
    }
    if read == count && (1..=6).contains(&count) { Ok(code) } else { Err(invalid_escape()) }
}

fn invalid_escape() -> SqlError {
    SqlError::syntax("invalid Unicode escape sequence of jsonpath input")
}

/// A number, and what is behind it.
fn number(text: &str) -> Result<(Token, &str), SqlError> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    // A zero stands alone in front of the point.
    let mut end = if text.starts_with('0') { 1 } else { digits(text) };
    if text[end..].starts_with('.') && (end > 0 || digits(&text[end + 1..]) > 0) {
        end += 1 + digits(&text[end + 1..]);
    }
    if let Some(exponent) = text[end..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        match digits(&exponent[sign..]) {
            0 if sign == 0 => return Err(junk(&text[..=end])),
            0 => {
                let number = &text[..=end + sign];
                let message = format!("invalid numeric literal at or near \"{number}\" of jsonpath input");
                return Err(SqlError::syntax(message));
            }
            count => end += 1 + sign + count,
        }
    }
    if let Some(next) = text[end..].chars().next().filter(|next| is_of_word(*next)) {
        return Err(junk(&text[..end + next.len_utf8()]));
    }
    let written = text[..end].trim_end_matches('.');
    let written = if written.starts_with('.') { format!("0{written}") } else { written.to_owned() };
    Ok((Token::Number(canonical(&written)?), &text[end..]))
}

fn too_long() -> SqlError {
    SqlError::new(SqlState::StatementTooComplex, "a jsonpath is too long")
}

fn junk(what: &str) -> SqlError {
    let message = format!("trailing junk after numeric literal at or near \"{what}\" of jsonpath input");
    SqlError::syntax(message)
}

/// The error of what stands where it may not.
pub(super) fn near(what: &str) -> SqlError {
    SqlError::syntax(format!("syntax error at or near \"{what}\" of jsonpath input"))
}

/// The error of a path that ends too early.
pub(super) fn at_end(what: &str) -> SqlError {
    SqlError::syntax(format!("{what} at end of jsonpath input"))
}
