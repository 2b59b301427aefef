// SPDX-License-Identifier: Apache-2.0
//! FETCH and MOVE on portals that were bound in the extended protocol: portals and cursors have one space of names.

use super::portal::{Portal, Progress};
use super::{Connection, Failure};
use crate::protocol::frontend::Formats;
use crate::types::{Column, RowEncoder};
use coeval::{CommandTag, SqlError, SqlState, TransactionStatus};
use coeval_sql::ForwardFetch;
use std::sync::Arc;

impl Connection {
    /// Gives what FETCH or MOVE wants of a portal; whether there is a portal of that name.
    pub(super) async fn fetched(&mut self, fetch: ForwardFetch<'_>) -> Result<bool, Failure> {
        let (ForwardFetch::Rows(name, _) | ForwardFetch::Over(name, _) | ForwardFetch::Back(name)) = fetch;
        if !self.portals.holds(name) {
            return Ok(false);
        }
        if self.session.transaction_status() == TransactionStatus::Failed {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(SqlError::new(SqlState::InFailedSqlTransaction, message).into());
        }
        let mut portal = self.portals.take(name).map_err(|error| self.session.abort(error))?;
        let _limited = self.limited();
        let tag = self.fetched_from(&mut portal, fetch).await?;
        self.output.command_complete(tag);
        self.portals.put_back(name, portal);
        Ok(true)
    }

    async fn fetched_from(
        &mut self,
        portal: &mut Portal,
        fetch: ForwardFetch<'_>,
    ) -> Result<CommandTag, Failure> {
        let Some(columns) = portal.statement.columns.clone() else {
            let message = "a portal without rows cannot be fetched from";
            return Err(self.session.abort(SqlError::new(SqlState::InvalidCursorName, message)).into());
        };
        if let ForwardFetch::Back(_) = fetch {
            let error = SqlError::new(SqlState::ObjectNotInPrerequisiteState, "cursor can only scan forward");
            let error = error.with_hint("Declare it with SCROLL option to enable backward scan.");
            return Err(self.session.abort(error).into());
        }
        if let (Progress::Bound, Some(prepared)) = (&portal.progress, portal.statement.prepared.clone()) {
            let execution = self.run(|session| session.start_prepared(&prepared, &portal.values)).await?;
            portal.progress = self.begun(portal, execution).await?;
        }
        // What is left of its rows.
        let rows = match &mut portal.progress {
            Progress::Open(rows) => Some(rows),
            Progress::Bound | Progress::Exhausted | Progress::Done => None,
        };
        match (fetch, rows) {
            (ForwardFetch::Rows(_, count), rows) => {
                self.output.row_description(columns.iter().map(Column::described), Formats::TEXT);
                let Some(rows) = rows else { return Ok(CommandTag::Fetch(0)) };
                // Whatever the portal was bound for: this is the simple protocol.
                let zone = self.session.settings().zone();
                let mut encoder = RowEncoder::new(Arc::clone(&columns), Formats::TEXT, zone);
                self.send_rows(&mut rows.source, &mut encoder, count).await.map(CommandTag::Fetch)
            }
            (ForwardFetch::Over(_, count), Some(rows)) => {
                self.skip_rows(&mut rows.source, &mut rows.encoder, count).await.map(CommandTag::Move)
            }
            (ForwardFetch::Over(..) | ForwardFetch::Back(_), _) => Ok(CommandTag::Move(0)),
        }
    }
}
