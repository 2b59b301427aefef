// SPDX-License-Identifier: Apache-2.0
//! Memory for the syntax and the plan of a long text.
//!
//! Neither the parser nor DataFusion counts what it makes of a text, and it is some hundred times as long: a number of a
//! list is seven bytes, two tokens, an expression of syntax, and half a dozen copies of a logical expression while rules
//! make one plan of another. So it is estimated from the marks between values and words, of which a list has one for each
//! value, and kept before it is made. Measured with a million numbers in `IN`, `ARRAY` and `VALUES`: 900 to 1,050 bytes for each
//! mark when they were parsed, 1,150 to 2,700 in all when they were planned.

use super::{Kept, QueryEnvironment};
use crate::error::{SqlError, out_of_memory};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shorter texts are not counted: a connection has one of them at a time.
const SHORT_TEXT_BYTES: usize = 32 << 10;

/// What tokens and syntax take for each mark.
const PARSED_MARK_BYTES: usize = 900;

/// What a plan takes beside them, where one is made: `INSERT` of constants needs none.
const PLANNED_MARK_BYTES: usize = 1500;

/// The token of a blank.
const BLANK_BYTES: usize = 150;

/// What they take for each byte of a text beside that: copies of long literals.
const COPIES: usize = 4;

/// What is kept for a text, until nobody has anything that was made of it.
#[derive(Debug)]
pub(crate) struct SyntaxMemory {
    kept: Kept,
    /// What is kept for plans, too, once one is made: zero then.
    for_plans: AtomicUsize,
}

impl QueryEnvironment {
    /// Memory for the syntax of a text; none for a short one.
    ///
    /// # Errors
    /// `53200`.
    pub(crate) fn keep_syntax(&self, sql: &str) -> Result<Option<Arc<SyntaxMemory>>, SqlError> {
        if sql.len() < SHORT_TEXT_BYTES {
            return Ok(None);
        }
        let Parts { marks, blanks } = Parts::of(sql);
        let of_parts = (marks * PARSED_MARK_BYTES).saturating_add(blanks * BLANK_BYTES);
        let kept = self.keep(of_parts.saturating_add(sql.len() * COPIES), "the syntax of a statement")?;
        let for_plans = AtomicUsize::new(marks * PLANNED_MARK_BYTES);
        Ok(Some(Arc::new(SyntaxMemory { kept, for_plans })))
    }
}

impl SyntaxMemory {
    /// Keeps what plans take, too.
    ///
    /// # Errors
    /// `53200`.
    pub(crate) fn keep_plan(&self) -> Result<(), SqlError> {
        let bytes = self.for_plans.swap(0, Ordering::Relaxed);
        self.kept.grow(bytes, "the plan of a statement").map_err(|text| {
            self.for_plans.store(bytes, Ordering::Relaxed);
            out_of_memory(&text)
        })
    }
}

thread_local! {
    /// That of the statement that runs on this thread, if its text is long.
    static SYNTAX: RefCell<Option<Arc<SyntaxMemory>>> = const { RefCell::new(None) };
}

/// What this thread ran with before.
pub(crate) struct SyntaxBefore(Option<Arc<SyntaxMemory>>);

impl Drop for SyntaxBefore {
    fn drop(&mut self) {
        SYNTAX.set(self.0.take());
    }
}

/// A statement runs on this thread whose syntax has this memory, as long as what this gives lives.
#[must_use]
pub(crate) fn run_with(syntax: Option<&Arc<SyntaxMemory>>) -> SyntaxBefore {
    SyntaxBefore(SYNTAX.replace(syntax.cloned()))
}

/// The memory of the syntax of the statement that runs on this thread: to be held as long as something is made of it,
/// also when its session has gone on.
pub(crate) fn syntax_memory() -> Option<Arc<SyntaxMemory>> {
    SYNTAX.with_borrow(Clone::clone)
}

/// How many marks between values and words a text has; of one that has words instead, a quarter of its blanks.
pub(crate) fn marks_of(sql: &str) -> usize {
    let Parts { marks, blanks } = Parts::of(sql);
    marks.max(blanks / 4)
}

/// What a text has outside of literals, quoted names and comments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    /// Marks between values and words.
    marks: usize,
    blanks: usize,
}

impl Parts {
    /// As the tokenizer cuts it. Where it has no end, it goes to the end of the text: that is an error of syntax.
    fn of(sql: &str) -> Self {
        let (text, mut parts, mut at) = (sql.as_bytes(), Self::default(), 0);
        while let Some(&byte) = text.get(at) {
            let rest = &text[at..];
            let is_after_word = at > 0 && is_of_word(text[at - 1]);
            let skipped = match byte {
                b'\'' if is_escaping(&text[..at]) => escaped(rest),
                b'\'' | b'"' => quoted(rest, byte),
                b'-' if rest.starts_with(b"--") => through(rest, b"\n"),
                b'/' if rest.starts_with(b"/*") => comment(rest),
                b'$' if !is_after_word => dollar_quoted(rest).unwrap_or(0),
                _ => 0,
            };
            if skipped == 0 {
                parts.marks += usize::from(byte.is_ascii_punctuation() && byte != b'_');
                parts.blanks += usize::from(byte.is_ascii_whitespace());
            }
            at += skipped.max(1);
        }
        parts
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

/// Whether the literal behind these bytes is one of `E'...'`.
fn is_escaping(before: &[u8]) -> bool {
    let (last, others) = before.split_last().unwrap_or((&0, &[]));
    last.eq_ignore_ascii_case(&b'e') && !others.last().is_some_and(|&byte| is_of_word(byte))
}

/// The length of a literal in which a backslash escapes.
fn escaped(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\'' if text.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// How far it is through the next of these quotes. Two of them are an end and a beginning here, which comes to the same.
fn quoted(text: &[u8], quote: u8) -> usize {
    text[1..].iter().position(|&byte| byte == quote).map_or(text.len(), |at| at + 2)
}

/// How far it is through these bytes.
fn through(text: &[u8], end: &[u8]) -> usize {
    memchr::memmem::find(text, end).map_or(text.len(), |at| at + end.len())
}

/// The length of a comment, with those in it.
fn comment(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    text.len()
}

/// The length of `$tag$...$tag$`; none if it does not begin as one, such as `$1`.
fn dollar_quoted(text: &[u8]) -> Option<usize> {
    let tag = text[1..].iter().position(|&byte| !is_of_word(byte) || byte == b'$')?;
    let first = text[1];
    if text[1 + tag] != b'$' || first.is_ascii_digit() {
        return None;
    }
    let mark = &text[..tag + 2];
    Some(mark.len() + through(&text[mark.len()..], mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_mark_between_values_is_not_taken_for_one() {
        let counted = [
            ("a, b", 1, 1),
            ("'a,b', \"c,d\"", 1, 1),
            ("'it''s, it', b", 1, 1),
            ("-- it's\n1, 2", 1, 1),
            ("/* it's /* a */ \" */1, 2", 1, 1),
            (r"E'\'', 2", 1, 1),
            (r"'\', 2", 1, 1),
            (r"e'a\'', type'\', 2", 2, 2),
            ("$$'$$, 2", 1, 1),
            ("$a$ $$ ' $a$, 2", 1, 1),
            ("$1, a$b$, 2", 5, 2),
            ("a - b / c", 2, 4),
            // Errors of syntax.
            ("'a, b", 0, 0),
            ("/* a, b", 0, 0),
            ("$a$ , b", 0, 0),
            (r"E'\", 0, 0),
            ("$", 1, 0),
            ("$a", 1, 0),
        ];
        for (sql, marks, blanks) in counted {
            assert_eq!(Parts::of(sql), Parts { marks, blanks }, "{sql}");
        }
    }
}
