// SPDX-License-Identifier: Apache-2.0
//! A run: what a tab's session is told to do, and what the page hears of it meanwhile, as JSON lines.
//!
//! ```text
//! columns --progress...--> result    for each statement with rows
//! result                             for each other one
//! notice                             whenever the server gives one
//! error                              at most one, behind which nothing else runs
//! done                               last
//! ```

use crate::logins::Login;
use crate::report::Report;
use crate::results::{ResultSet, ShownColumn};
use crate::tabs::{Slot, TAB_SETTINGS, Tab};
use crate::wire::{Column, Connection, Heard, Lost, ROW_BYTES_MAX, TransactionState, columns_of, unsendable};
use bytes::Bytes;
use postgres_protocol::message::backend::Message;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OwnedMutexGuard;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_util::sync::CancellationToken;

/// How often the page hears of rows that came.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);

/// How often the statement of a page that has gone is cancelled, until it has ended.
const CANCEL_PAUSE: Duration = Duration::from_millis(500);

/// Events that wait for the page to read them; then the run waits.
const EVENTS_WAITING: usize = 64;

/// What the page asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    sql: String,
    /// Values of `$1` and so on; without them the text may be several statements.
    #[serde(default)]
    parameters: Vec<Option<String>>,
}

impl Request {
    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }

    pub(crate) fn parameters(&self) -> &[Option<String>] {
        &self.parameters
    }
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event<'a> {
    Columns { result: u64, columns: &'a [ShownColumn] },
    Progress { result: u64, rows: u64, kept: u64 },
    Notice(Report),
    Result { result: Option<u64>, tag: &'a str, rows: u64, kept: u64, truncated: bool },
    Error(Report),
    Done { milliseconds: f64, transaction: TransactionState },
}

/// Begins a run in a tab; nothing if one is there already. Whoever drops what it gives back ends the statement.
pub(crate) fn begin(login: Arc<Login>, tab: Arc<Tab>, request: Request) -> Option<Receiver<Bytes>> {
    let session = tab.begin_run()?;
    let (events, received) = mpsc::channel(EVENTS_WAITING);
    let run = Run { login, page: Page { events, ended: tab.ended.clone() }, tab, current: None };
    tokio::spawn(run.all(session, request));
    Some(received)
}

/// Who hears of the run.
struct Page {
    events: Sender<Bytes>,
    ended: CancellationToken,
}

impl Page {
    /// Whether nobody hears of it any more: the browser or the tab has gone.
    fn has_gone(&self) -> bool {
        self.events.is_closed() || self.ended.is_cancelled()
    }

    async fn gone(&self) {
        tokio::select! {
            () = self.events.closed() => {}
            () = self.ended.cancelled() => {}
        }
    }

    /// Waits while the page does not read, unless it has gone.
    async fn hear(&self, event: &Event<'_>) {
        let mut line = serde_json::to_vec(event).expect("an event is JSON");
        line.push(b'\n');
        tokio::select! {
            biased;
            () = self.gone() => {}
            _ = self.events.send(line.into()) => {}
        }
    }
}

/// A result whose rows are coming.
struct Current {
    /// Its number; nothing if it is not kept, as there are too many.
    number: Option<u64>,
    set: Arc<ResultSet>,
    told: Instant,
}

struct Run {
    login: Arc<Login>,
    tab: Arc<Tab>,
    page: Page,
    current: Option<Current>,
}

impl Run {
    async fn all(mut self, mut session: OwnedMutexGuard<Slot>, request: Request) {
        let began = Instant::now();
        if let Err(lost) = self.execute(&mut session, &request).await {
            *session = None;
            self.page.hear(&Event::Error(lost.into())).await;
        }
        if self.tab.ended.is_cancelled() {
            // It rolls back.
            *session = None;
        }
        let transaction = self.tab.end_run(session);
        let milliseconds = began.elapsed().as_secs_f64() * 1e3;
        self.page.hear(&Event::Done { milliseconds, transaction }).await;
    }

    async fn execute(&mut self, slot: &mut Slot, request: &Request) -> Result<(), Lost> {
        if let Some(report) = unsendable(&request.sql, &request.parameters) {
            self.page.hear(&Event::Error(report)).await;
            return Ok(());
        }
        let session = match slot {
            Some(session) => session,
            None => {
                slot.insert(Connection::open(&self.tab.entrance, &self.tab.identity, &TAB_SETTINGS).await?)
            }
        };
        if self.page.has_gone() {
            return Ok(());
        }
        self.tab.note_cancel_key(Some(session.cancel_key()));
        if request.parameters.is_empty() {
            session.begin_script(&request.sql).await?;
        } else {
            session.begin_statement(&request.sql, &request.parameters).await?;
        }
        let (mut is_there, mut cancelling) = (true, tokio::time::interval(CANCEL_PAUSE));
        loop {
            let heard = tokio::select! {
                biased;
                () = self.page.gone(), if is_there => {
                    is_there = false;
                    continue;
                }
                // Again and again: a request that comes before its statement has no effect.
                _ = cancelling.tick(), if !is_there => {
                    self.tab.cancel().await?;
                    continue;
                }
                heard = session.hear() => heard?,
            };
            let message = match heard {
                Heard::Message(message) => message,
                Heard::LongRow(bytes) => {
                    self.pass_over(bytes).await;
                    continue;
                }
            };
            match message {
                Message::RowDescription(described) => self.begin_result(columns_of(&described)?).await,
                Message::DataRow(row) => self.take(row.buffer()).await?,
                Message::CopyOutResponse(_) => {
                    let name = "copy".to_owned();
                    self.begin_result(vec![Column { name, type_oid: postgres_types::Type::TEXT.oid() }])
                        .await;
                }
                Message::CopyData(line) => self.take(&as_row(line.data())?).await?,
                Message::CopyInResponse(_) => session.refuse_copy().await?,
                Message::CommandComplete(complete) => self.end_result(complete.tag()?).await,
                Message::EmptyQueryResponse => self.end_result("").await,
                Message::NoticeResponse(notice) => {
                    self.page.hear(&Event::Notice(Report::of(notice.fields())?)).await;
                }
                Message::ErrorResponse(error) => {
                    let report = Report::of(error.fields())?;
                    self.current = None;
                    if report.is_last() {
                        return Err(Lost::Ended(report));
                    }
                    self.page.hear(&Event::Error(report)).await;
                }
                Message::ReadyForQuery(_) => return Ok(()),
                _ => {}
            }
        }
    }

    async fn begin_result(&mut self, columns: Vec<Column>) {
        let columns = self.login.shown(columns).await;
        let set = Arc::new(ResultSet::new(columns, &self.tab.room, self.tab.result_count()));
        let number = self.tab.add_result(Arc::clone(&set));
        if let Some(result) = number {
            self.page.hear(&Event::Columns { result, columns: &set.columns }).await;
        }
        self.current = Some(Current { number, set, told: Instant::now() });
    }

    async fn take(&mut self, row: &[u8]) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let Some(result) = current.number else { return Ok(()) };
        if current.set.push(row)?
            && let Err(error) = tokio::task::block_in_place(|| current.set.flush())
        {
            let message = format!("the rows from here on are not kept: {error}");
            let notice = Report { severity: "WARNING".to_owned(), ..Report::own("53100", message) };
            self.page.hear(&Event::Notice(notice)).await;
        }
        if current.told.elapsed() >= PROGRESS_PAUSE {
            current.told = Instant::now();
            let (rows, kept) = (current.set.rows_seen(), current.set.rows_kept());
            self.page.hear(&Event::Progress { result, rows, kept }).await;
        }
        Ok(())
    }

    /// Notes a row that is longer than any that is kept.
    async fn pass_over(&mut self, bytes: usize) {
        let Some(current) = &self.current else { return };
        if current.set.pass_over() && current.number.is_some() {
            let mib = |bytes: usize| bytes.div_ceil(1 << 20);
            let message = format!(
                "row {} has {} MiB, and the console keeps rows of up to {} MiB: the rows from there on are not kept",
                current.set.rows_seen(),
                mib(bytes),
                mib(ROW_BYTES_MAX)
            );
            let notice = Report { severity: "WARNING".to_owned(), ..Report::own("54000", message) };
            let hint = "Ask for a part of the value, such as left(value, 1000), or take the row with psql or a driver.";
            self.page.hear(&Event::Notice(notice.hinted(hint))).await;
        }
    }

    async fn end_result(&mut self, tag: &str) {
        let event = match self.current.take() {
            Some(Current { number: Some(number), set, .. }) => Event::Result {
                result: Some(number),
                tag,
                rows: set.rows_seen(),
                kept: set.rows_kept(),
                truncated: set.is_truncated(),
            },
            Some(Current { number: None, .. }) => {
                Event::Result { result: None, tag, rows: rows_of(tag), kept: 0, truncated: true }
            }
            None => Event::Result { result: None, tag, rows: rows_of(tag), kept: 0, truncated: false },
        };
        self.page.hear(&event).await;
    }
}

/// How many rows a statement has changed that gives none, by its tag: `INSERT 0 5`, `UPDATE 5`.
fn rows_of(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// A line of COPY as a row of one text.
fn as_row(line: &[u8]) -> io::Result<Vec<u8>> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let length = i32::try_from(line.len()).map_err(io::Error::other)?;
    Ok([&length.to_be_bytes()[..], line].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_say_how_many_rows() {
        for (tag, rows) in [("INSERT 0 5", 5), ("UPDATE 12", 12), ("CREATE TABLE", 0), ("", 0)] {
            assert_eq!(rows_of(tag), rows, "{tag}");
        }
    }

    #[test]
    fn events_have_the_form_that_the_page_reads() {
        let json = |event: &Event<'_>| serde_json::to_value(event).unwrap();
        let report = Report { position: Some(8), ..Report::own("42P01", "no such table") };
        assert_eq!(
            json(&Event::Error(report)),
            serde_json::json!({
                "event": "error", "severity": "ERROR", "message": "no such table", "sqlstate": "42P01", "position": 8
            })
        );
        assert_eq!(
            json(&Event::Done { milliseconds: 1.5, transaction: TransactionState::Block }),
            serde_json::json!({"event": "done", "milliseconds": 1.5, "transaction": "block"})
        );
    }
}
