// SPDX-License-Identifier: Apache-2.0
//! Rows on their way to the client, as fast as it reads them.

use super::portal::RowSource;
use super::{Connection, Failure};
use crate::protocol::backend::EmptyRow;
use crate::types::RowEncoder;
use coeval::{CommandTag, SqlError};
use coeval_sql::{CopyEncoding, CopyOut};

/// What becomes of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    Sent,
    Skipped,
}

impl Connection {
    /// Gives up to `limit` rows; how many there were.
    pub(super) async fn send_rows(
        &mut self,
        source: &mut RowSource,
        encoder: &mut RowEncoder,
        limit: u64,
    ) -> Result<u64, Failure> {
        self.walk(source, encoder, limit, Delivery::Sent).await
    }

    /// Passes over up to `limit` rows; how many there were.
    pub(super) async fn skip_rows(
        &mut self,
        source: &mut RowSource,
        encoder: &mut RowEncoder,
        limit: u64,
    ) -> Result<u64, Failure> {
        self.walk(source, encoder, limit, Delivery::Skipped).await
    }

    async fn walk(
        &mut self,
        source: &mut RowSource,
        encoder: &mut RowEncoder,
        limit: u64,
        delivery: Delivery,
    ) -> Result<u64, Failure> {
        let mut given = 0;
        match source {
            RowSource::Values(rows, next) => {
                while given < limit && *next < rows.len() {
                    if delivery == Delivery::Sent {
                        let before = self.output.bytes().len();
                        let written = encoder.values(rows.row(*next), &mut self.output);
                        written
                            .and_then(|()| self.count_unsent(before))
                            .map_err(|error| self.session.abort(error))?;
                    }
                    *next += 1;
                    given += 1;
                    self.flush_if_much().await?;
                }
            }
            RowSource::Stream { rows, arrays, count, next } => {
                let cancel = self.session.cancel_handle();
                let _watched = self.watched();
                while given < limit {
                    if next == count {
                        let batch = tokio::select! {
                            biased;
                            reason = cancel.cancelled() => Some(Err(reason.error())),
                            batch = rows.next() => batch,
                        };
                        let Some(batch) = batch else { break };
                        let taken = batch.and_then(|batch| Ok((encoder.arrays(&batch)?, batch.num_rows())));
                        (*arrays, *count) = taken.map_err(|error| self.session.abort(error))?;
                        *next = 0;
                        continue;
                    }
                    if delivery == Delivery::Sent {
                        let before = self.output.bytes().len();
                        let written = encoder.row(arrays, *next, &mut self.output);
                        written
                            .and_then(|()| self.count_unsent(before))
                            .map_err(|error| self.session.abort(error))?;
                    }
                    *next += 1;
                    given += 1;
                    self.flush_if_much().await?;
                }
            }
        }
        Ok(given)
    }

    /// Gives all of a COPY TO STDOUT: a row in each message, or a piece of a format that has no rows.
    pub(super) async fn send_copy(&mut self, mut copy: CopyOut) -> Result<(), Failure> {
        self.output.copy_response(b'H', copy.encoding(), copy.column_count());
        let mut header = Vec::new();
        copy.header(&mut header);
        // A line of names is a message of its own; what opens the binary format comes with what follows it, which
        // clients that take a message for a row rely on.
        if copy.encoding() == CopyEncoding::Text {
            self.copy_data(|out| {
                out.append(&mut header);
                Ok(())
            })?;
        }
        let cancel = self.session.cancel_handle();
        let _watched = self.watched();
        let mut given = 0;
        loop {
            let rows = tokio::select! {
                biased;
                reason = cancel.cancelled() => Some(Err(reason.error())),
                rows = copy.next() => rows,
            };
            let Some(rows) = rows else { break };
            let rows = rows.map_err(|error| self.session.abort(error))?;
            for message in 0..rows.messages() {
                self.copy_data(|out| {
                    out.append(&mut header);
                    copy.encode(&rows, message, out)
                })?;
                self.flush_if_much().await?;
            }
            given += rows.count() as u64;
        }
        self.copy_data(|out| {
            out.append(&mut header);
            copy.trailer(out);
            Ok(())
        })?;
        self.output.copy_done();
        self.output.command_complete(CommandTag::Copy(given));
        Ok(())
    }

    /// A message with what `write` writes of a COPY; none if that is nothing.
    fn copy_data(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), SqlError>) -> Result<(), Failure> {
        let before = self.output.bytes().len();
        let open = self.output.begin(b'd');
        let outcome = match write(self.output.buffer()) {
            Ok(()) => self.output.end_row(open, EmptyRow::LeftOut),
            Err(error) => {
                self.output.drop_message(open);
                Err(error)
            }
        };
        let outcome = outcome.and_then(|()| self.count_unsent(before));
        outcome.map_err(|error| self.session.abort(error).into())
    }
}
