// SPDX-License-Identifier: Apache-2.0
//! What a feed writes: which changes, and when a token stands alone.
//!
//! The last line of a transaction has its token. A token alone is written where there is no such line: at the beginning, if the
//! feed did not begin with one; now and then while nothing comes that is wanted; and in the end.

use coeval::{ChangeAsJson, ChangeSink, ChangeToken, FedChange, FedTransaction, TableDef};
use std::io;
use std::time::{Duration, Instant};

/// A token alone is written at most so often.
const TOKEN_INTERVAL: Duration = Duration::from_secs(10);

/// Writes lines in some format. The last one is held back until it is known whether it gets a token.
pub(super) trait Writer {
    /// The next line.
    fn change(&mut self, transaction: &FedTransaction, change: &FedChange<'_>) -> io::Result<()>;

    /// The token of the last line.
    fn token(&mut self, token: &ChangeToken) -> io::Result<()>;

    /// A token alone.
    fn token_alone(&mut self, token: &ChangeToken) -> io::Result<()>;

    /// Nothing comes for the moment: everything is to be read by now.
    fn flush(&mut self) -> io::Result<()>;

    /// That was all.
    fn finish(&mut self) -> io::Result<()>;
}

/// See the module.
pub(super) struct Output<'a> {
    writer: Box<dyn Writer + 'a>,
    /// `schema.table`; all if none is named.
    tables: Vec<String>,
    /// The last token that was written, or that the feed began with.
    told: Option<ChangeToken>,
    told_at: Instant,
    /// Behind everything that was given.
    reached: Option<ChangeToken>,
    /// Whether the transaction has a line.
    has_line: bool,
}

impl<'a> Output<'a> {
    pub(super) fn new(
        writer: Box<dyn Writer + 'a>,
        tables: &[String],
        begun_with: Option<ChangeToken>,
    ) -> Self {
        let qualified = |name: &String| match name.contains('.') {
            true => name.clone(),
            false => format!("public.{name}"),
        };
        let tables = tables.iter().map(qualified).collect();
        Self { writer, tables, told: begun_with, told_at: Instant::now(), reached: None, has_line: false }
    }

    /// Ends it with the token of the end, if that was not told. Behind a transaction that was given in part there is none: what
    /// has come behind the last token counts for nothing.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Some(reached) = self.reached.filter(|reached| !self.has_line && !self.is_told(reached)) {
            self.writer.token_alone(&reached)?;
        }
        self.writer.finish()
    }

    fn is_told(&self, token: &ChangeToken) -> bool {
        // Places that differ in nothing but the end of the log have the same transactions before them.
        self.told.is_some_and(|told| (told.version, told.transactions) == (token.version, token.transactions))
    }

    fn tell(&mut self, token: &ChangeToken) {
        (self.told, self.told_at) = (Some(*token), Instant::now());
    }
}

impl ChangeSink for Output<'_> {
    fn wants(&self, table: &TableDef) -> bool {
        if !ChangeAsJson::is_fed(table) {
            return false;
        }
        let name = &table.name;
        let is_named = |wanted: &String| {
            wanted.strip_prefix(name.schema.as_str()).and_then(|rest| rest.strip_prefix('.'))
                == Some(&name.name)
        };
        self.tables.is_empty() || self.tables.iter().any(is_named)
    }

    fn change(&mut self, transaction: &FedTransaction, change: &FedChange<'_>) -> io::Result<()> {
        self.has_line = true;
        self.writer.change(transaction, change)
    }

    fn end(&mut self, transaction: &FedTransaction) -> io::Result<()> {
        self.reached = Some(transaction.token);
        if std::mem::take(&mut self.has_line) {
            self.writer.token(&transaction.token)?;
            self.tell(&transaction.token);
        }
        Ok(())
    }

    fn idle(&mut self, reached: &ChangeToken) -> io::Result<()> {
        self.reached = Some(*reached);
        let is_due = self.told.is_none() || self.told_at.elapsed() >= TOKEN_INTERVAL;
        if is_due && !self.is_told(reached) {
            self.writer.token_alone(reached)?;
            self.tell(reached);
        }
        self.writer.flush()
    }
}
