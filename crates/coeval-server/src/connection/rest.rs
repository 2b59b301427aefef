// SPDX-License-Identifier: Apache-2.0
//! What is left of a text of the simple protocol while one of its statements runs.

use coeval_sql::ParsedStatement;
use std::collections::VecDeque;

/// Statements of one text that are still to be run.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) statements: VecDeque<ParsedStatement>,
    pub(super) together: Together,
}

/// Whether the statements of a text are one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Together {
    /// There are several: they are.
    Yes,
    /// There is one: it is one by itself.
    No,
}
