// SPDX-License-Identifier: Apache-2.0
//! What a statement runs in: its transaction, its session's settings, its parameters, its time.

mod parts;

pub(crate) use parts::{Parts, has_written};

use crate::advisory::SessionLocks;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{SqlError, SqlState};
use crate::open_objects::OpenObjects;
use crate::result::{RowSet, StatementResult};
use crate::rights::{Authority, Checks, Rights};
use crate::server_part::ServerPart;
use crate::settings::Settings;
use crate::spread_part::SpreadPart;
use coeval_store::{ColumnType, SequenceDef, SequenceId, TableDef, Transaction, Value};
use datafusion::sql::sqlparser::ast::Statement;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// What `currval` and `lastval` of a session answer.
#[derive(Clone, Debug, Default)]
pub struct SequenceValues {
    /// For each sequence the value that this session last took from it.
    pub current: HashMap<SequenceId, i64>,
    /// The sequence from which `nextval` last took one.
    pub last: Option<SequenceId>,
}

impl SequenceValues {
    /// Remembers a value that `nextval` gave; the numbers of hidden row ids are nobody's.
    pub fn note(&mut self, sequence: &SequenceDef, value: i64) {
        if crate::stored::counts_rows(sequence) {
            return;
        }
        self.current.insert(sequence.id, value);
        self.last = Some(sequence.id);
    }
}

/// What one statement runs in.
///
/// # Locking
/// `tique` is held for one call of a server, and nothing else is taken meanwhile but what the server takes. `spread` is held for
/// moments, with `tique` within: what waits for the cluster has taken out what it needs.
pub(crate) struct StatementContext<'a> {
    /// The database.
    pub(crate) engine: &'a Arc<Engine>,
    /// The session's settings.
    pub(crate) settings: &'a mut Settings,
    /// The session's sequence values.
    pub(crate) sequences: &'a mut SequenceValues,
    /// The transaction, whose snapshot and own writes the statement reads.
    pub(crate) transaction: &'a mut Transaction,
    /// The values of `$1`, `$2`, ...; each of the type in `parameter_types`.
    pub(crate) parameters: &'a [Value],
    /// Their types.
    pub(crate) parameter_types: &'a [ColumnType],
    /// What `now()` says.
    pub(crate) clock: Clock,
    /// The session's advisory locks.
    pub(crate) advisory_locks: &'a Arc<SessionLocks>,
    /// The statement's text, for positions in errors; empty if it has none of its own.
    pub(crate) sql: &'a str,
    /// Which of its reads are checked.
    pub(crate) checks: Checks,
    /// What its session has open.
    pub(crate) open: OpenObjects<'a>,
    /// What the transaction does on servers.
    pub(crate) tique: &'a Mutex<ServerPart>,
    /// What the transaction does on the cluster over which tables are spread.
    pub(crate) spread: &'a Mutex<SpreadPart>,
    /// What reads tables of servers.
    pub(crate) scan_foreign: ScanForeign,
    /// What its parts share, if it has several.
    pub(crate) parts: Option<Arc<Parts>>,
    /// What it has to say without failing.
    pub(crate) notices: &'a mut Vec<SqlError>,
}

/// Gives all rows of a server's table, as the transaction sees them. Handed to queries by the code that knows servers.
pub(crate) type ScanForeign = fn(&StatementContext<'_>, &TableDef) -> Result<RowSet, SqlError>;

/// Runs any statement. Handed to statements that contain another one to run, such as EXPLAIN.
pub(crate) type Execute = fn(&mut StatementContext<'_>, &Statement) -> Result<StatementResult, SqlError>;

/// How much a statement has to say without failing; the rest is left out.
const NOTICES_MAX: usize = 1_000;

impl StatementContext<'_> {
    /// Says something without failing.
    pub(crate) fn notice(&mut self, state: SqlState, message: String) {
        match self.notices.len() {
            0..NOTICES_MAX => self.notices.push(SqlError::new(state, message)),
            NOTICES_MAX => {
                let message = format!("there is more to notice than these {NOTICES_MAX}, which is left out");
                self.notices.push(SqlError::new(state, message));
            }
            _ => {}
        }
    }

    /// Says something in the end that stands for all that was said before: it is never left out. A statement has one at most.
    pub(crate) fn notice_in_the_end(&mut self, state: SqlState, message: String) {
        self.notices.push(SqlError::new(state, message));
    }

    /// What its session may do.
    pub(crate) fn rights(&self) -> Rights {
        Rights::of(self.settings.principal(), self.authority())
    }

    /// The definitions that rights are read from.
    pub(crate) fn authority(&self) -> Authority {
        Authority::of(self.transaction, self.engine.store())
    }
}
