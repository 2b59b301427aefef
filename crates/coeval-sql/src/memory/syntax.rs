// SPDX-License-Identifier: Apache-2.0
//! Memory for the syntax and the plan of a long text.
//!
//! Neither the parser nor DataFusion counts what it makes of a text, and it is some hundred times as long: a number of a
//! list is seven bytes, two tokens, an expression of syntax, and half a dozen copies of a logical expression while rules
//! make one plan of another. So it is estimated from the marks between values and words, of which a list has one for each
//! value, and kept before it is made. Measured with a million numbers in `IN`, `ARRAY` and `VALUES`: 900 to 1,050 bytes for each
//! mark when they were parsed, 1,150 to 2,700 in all when they were planned.

use super::{Kept, QueryEnvironment, out_of_memory};
use crate::error::SqlError;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shorter texts are not counted: a connection has one of them at a time.
const SHORT_TEXT_BYTES: usize = 256 << 10;

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

/// What a text has outside of literals and quoted names.
#[derive(Debug, Default)]
struct Parts {
    /// Marks between values and words.
    marks: usize,
    blanks: usize,
}

impl Parts {
    fn of(sql: &str) -> Self {
        let (mut parts, mut quote) = (Self::default(), None);
        for &byte in sql.as_bytes() {
            match quote {
                Some(end) => quote = Some(end).filter(|&end| end != byte),
                None if matches!(byte, b'\'' | b'"') => quote = Some(byte),
                None => {
                    parts.marks += usize::from(byte.is_ascii_punctuation());
                    parts.blanks += usize::from(byte.is_ascii_whitespace());
                }
            }
        }
        parts
    }
}
