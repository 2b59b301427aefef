// SPDX-License-Identifier: Apache-2.0
//! A query as a file of Arrow or Parquet: asked once more, in the tab's session, by COPY.
//!
//! Rows of results are kept as texts; these formats have types, which the server knows. So the query runs again, in a transaction
//! that only reads and is rolled back, and only while no other is open there: an error would end that one.

use crate::columnar::{Copy, CopyFormat};
use crate::report::Report;
use crate::tabs::{Slot, TAB_SETTINGS, Tab};
use crate::wire::{Connection, Lost, QUESTION_PARTS, TransactionState, unsendable};
use bytes::Bytes;
use postgres_protocol::message::backend::Message;
use serde::Deserialize;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::oneshot;

/// Pieces that wait for the browser to read them; then the query waits.
const PIECES_WAITING: usize = 8;

/// How often the query of a browser that has gone is cancelled, until it has ended.
const CANCEL_PAUSE: Duration = Duration::from_millis(500);

/// What the page asks for: the text of one query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    sql: String,
    format: CopyFormat,
}

/// The query in a COPY. What ends a statement is not part of it.
fn copy_of(sql: &str, format: CopyFormat) -> String {
    let query = sql.trim_end_matches(|c: char| c.is_whitespace() || c == ';');
    // A comment at its end goes as far as its line.
    format!("COPY ({query}\n) TO STDOUT (FORMAT {})", format.name())
}

/// Begins to make a file; it is there to be taken from the tab when the query has begun.
///
/// # Errors
/// If something else runs in the tab, or a transaction is open there; what the server says of the query.
pub(crate) async fn begin(tab: Arc<Tab>, request: Request) -> Result<(), Report> {
    let sql = copy_of(&request.sql, request.format);
    if let Some(report) = unsendable(&sql, &[]) {
        return Err(report);
    }
    let Some(session) = tab.begin_copy() else {
        return Err(Report::own("55006", "something runs in this tab: wait, or cancel it"));
    };
    if session.as_ref().is_some_and(|session| session.state() != TransactionState::Idle) {
        tab.end_run(session);
        let message =
            "Arrow and Parquet ask the query again, and an error would end the transaction that is open here";
        return Err(Report::own("25001", message).hinted("Commit or roll back first, or save it as CSV."));
    }
    let (pieces, received) = mpsc::channel(PIECES_WAITING);
    let (begun, has_begun) = oneshot::channel();
    let copying = Copying { tab: Arc::clone(&tab), pieces, begun: Some(begun) };
    tokio::spawn(copying.all(session, sql));
    match has_begun.await {
        Ok(None) => {}
        Ok(Some(report)) => return Err(report),
        Err(_) => return Err(Report::own("08006", "the session has ended")),
    }
    tab.prepare(Copy { format: request.format, pieces: received });
    Ok(())
}

struct Copying {
    tab: Arc<Tab>,
    pieces: Sender<io::Result<Bytes>>,
    /// Whoever waits to hear that the query has begun, or why it has not.
    begun: Option<oneshot::Sender<Option<Report>>>,
}

impl Copying {
    async fn all(mut self, mut session: OwnedMutexGuard<Slot>, sql: String) {
        let ended = self.execute(&mut session, &sql).await;
        if let Err(lost) = ended {
            *session = None;
            self.fail(lost.into()).await;
        }
        if self.tab.ended.is_cancelled() {
            *session = None;
        }
        // The page may run something as soon as the file has ended.
        self.tab.end_run(session);
    }

    /// Tells whoever waits, or ends the file in the middle: a browser says then that it is not whole.
    async fn fail(&mut self, report: Report) {
        match self.begun.take() {
            Some(begun) => drop(begun.send(Some(report))),
            None => drop(self.pieces.send(Err(io::Error::other(report.message))).await),
        }
    }

    async fn gone(&self) {
        tokio::select! {
            () = self.pieces.closed() => {}
            () = self.tab.ended.cancelled() => {}
        }
    }

    async fn execute(&mut self, slot: &mut Slot, sql: &str) -> Result<(), Lost> {
        let session = match slot {
            Some(session) => session,
            None => {
                slot.insert(Connection::open(&self.tab.entrance, &self.tab.identity, &TAB_SETTINGS).await?)
            }
        };
        self.tab.note_cancel_key(Some(session.cancel_key()));
        session.begin_question(sql, &[], 0).await?;
        let (mut is_there, mut cancelling) = (true, tokio::time::interval(CANCEL_PAUSE));
        let mut parts = 0;
        while parts < QUESTION_PARTS {
            let message = tokio::select! {
                biased;
                () = self.gone(), if is_there => {
                    is_there = false;
                    continue;
                }
                _ = cancelling.tick(), if !is_there => {
                    self.tab.cancel().await?;
                    continue;
                }
                message = session.next() => message?,
            };
            match message {
                Message::CopyOutResponse(_) => {
                    if let Some(begun) = self.begun.take() {
                        // Who does not wait any more drops the file, too.
                        let _ = begun.send(None);
                    }
                }
                Message::CopyData(piece) if is_there => self.give(piece.into_bytes()).await,
                Message::ErrorResponse(error) => match Report::of(error.fields())? {
                    last if last.is_last() => return Err(Lost::Ended(last)),
                    report => self.fail(report).await,
                },
                Message::ReadyForQuery(_) => parts += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits while the browser does not read, unless it has gone.
    async fn give(&self, piece: Bytes) {
        tokio::select! {
            biased;
            () = self.gone() => {}
            _ = self.pieces.send(Ok(piece)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_copied_without_what_ends_it() {
        let copied = |sql| copy_of(sql, CopyFormat::Parquet);
        let expected = "COPY (SELECT 1\n) TO STDOUT (FORMAT parquet)";
        assert_eq!(copied("SELECT 1"), expected);
        assert_eq!(copied("SELECT 1 ;\n ; "), expected);
        assert_eq!(copied("SELECT 1 -- one"), "COPY (SELECT 1 -- one\n) TO STDOUT (FORMAT parquet)");
    }
}
