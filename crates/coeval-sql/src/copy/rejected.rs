// SPDX-License-Identifier: Apache-2.0
//! Rows that a COPY into a brick table leaves out, up to `MAX_REJECTED` of them.

use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};

/// So many rejected rows are reported one by one; the others are counted.
const REPORTED_MAX: usize = 1_000;

/// Of what is wrong with a row so many characters are kept: a value may be in it, of millions.
const SHOWN_MAX: usize = 300;

/// A row that is left out.
#[derive(Clone, Debug)]
pub(crate) struct RejectedRow {
    /// The line that it starts in, from 1; of a format without lines, the row.
    line: u64,
    /// Why.
    error: SqlError,
}

impl RejectedRow {
    /// The row of this line, with the beginning of what is wrong with it.
    pub(super) fn new(line: u64, mut error: SqlError) -> Self {
        if let Some((end, _)) = error.message.char_indices().nth(SHOWN_MAX) {
            error.message = format!("{}...", &error.message[..end]);
        }
        // Nobody is told it.
        error.detail = None;
        Self { line, error }
    }
}

/// Rows that are left out, on their way to who counts them: how many, and as many of the first as are reported.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    first: Vec<RejectedRow>,
    count: usize,
}

impl Rejections {
    /// So many, of which these are the first.
    pub(super) fn of(first: impl Iterator<Item = RejectedRow>, count: usize) -> Self {
        Self { first: first.take(REPORTED_MAX).collect(), count }
    }

    /// Takes one that is behind the others.
    pub(super) fn push(&mut self, row: RejectedRow) {
        if self.first.len() < REPORTED_MAX {
            self.first.push(row);
        }
        self.count += 1;
    }

    /// Takes others that are behind these.
    pub(super) fn append(&mut self, others: Self) {
        let room = REPORTED_MAX - self.first.len();
        self.first.extend(others.first.into_iter().take(room));
        self.count += others.count;
    }
}

/// The rejected rows of one COPY.
#[derive(Clone, Debug)]
pub(super) struct RejectedRows {
    relation: String,
    rejected_max: usize,
    count: usize,
    /// The first ones.
    reported: Vec<RejectedRow>,
}

impl RejectedRows {
    /// None yet, and no more than so many may come.
    pub(super) fn new(relation: &str, rejected_max: usize) -> Self {
        Self { relation: relation.to_owned(), rejected_max, count: 0, reported: Vec::new() }
    }

    /// How many more may come.
    pub(super) fn left(&self) -> usize {
        self.rejected_max - self.count
    }

    /// Takes further ones.
    ///
    /// # Errors
    /// As [`too_many`](Self::too_many) if they are.
    pub(super) fn take(&mut self, rows: Rejections) -> Result<(), SqlError> {
        if rows.count > self.left() {
            return Err(self.too_many(&rows));
        }
        self.count += rows.count;
        self.reported.extend(rows.first);
        self.reported.sort_by_key(|row| row.line);
        self.reported.truncate(REPORTED_MAX);
        Ok(())
    }

    /// Why a COPY with these further ones is refused: the first bad row's reason.
    pub(super) fn too_many(&self, rows: &Rejections) -> SqlError {
        let first = self.reported.iter().chain(&rows.first).min_by_key(|row| row.line);
        let Some(RejectedRow { line, error }) = first.cloned() else {
            return SqlError::internal("no row was rejected");
        };
        let context = format!("COPY {}, line {line}", self.relation);
        let mut refused = if self.rejected_max == 0 {
            error
        } else {
            let message = format!("more than {} rows were rejected", self.rejected_max);
            let detail = format!("The first is line {line}: {}", error.message);
            SqlError::new(error.state, message)
                .with_detail(detail)
                .with_hint("Nothing was loaded. Mend the rows, or raise MAX_REJECTED.")
        };
        refused.context.get_or_insert_with(|| context.into());
        refused
    }

    /// Says which rows were rejected and how many in all, of `loaded` others.
    pub(super) fn report(&self, context: &mut StatementContext<'_>, loaded: u64) {
        if self.count == 0 {
            return;
        }
        for RejectedRow { line, error } in &self.reported {
            let message = format!("COPY {}, line {line} was rejected: {}", self.relation, error.message);
            context.notice(error.state, message);
        }
        let count = self.count;
        let message = format!("COPY {}: {count} rows were rejected, {loaded} were loaded", self.relation);
        context.notice_in_the_end(SqlState::SuccessfulCompletion, message);
    }
}
