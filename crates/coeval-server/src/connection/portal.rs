// SPDX-License-Identifier: Apache-2.0
//! Portals: statements with values, and how far their rows have been given.

use super::extended::Statement;
use crate::types::RowEncoder;
use arrow::array::ArrayRef;
use coeval::{CommandTag, Rows, SqlError, SqlState, Value};
use coeval_sql::{Quota, QuotaShare, RowStream};
use std::collections::HashMap;
use std::sync::Arc;

/// A statement with values for its parameters.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) statement: Arc<Statement>,
    pub(super) values: Vec<Value>,
    /// In what form the client wants the columns; the codes of the Bind message.
    pub(super) formats: Box<[u8]>,
    pub(super) progress: Progress,
    /// What its values take, beyond what each may.
    pub(super) _kept: QuotaShare,
}

/// How far a portal is.
#[derive(Debug)]
pub(super) enum Progress {
    /// It has not run.
    Bound,
    /// It has run, and there may be rows left.
    Open(Box<OpenRows>),
    /// It has run, and its rows have been given.
    Exhausted,
    /// It has run, and has no rows.
    Done,
}

/// Rows that are being given.
#[derive(Debug)]
pub(super) struct OpenRows {
    pub(super) source: RowSource,
    pub(super) encoder: RowEncoder,
    /// What the client is told in the end; `None`: how many rows it got.
    pub(super) tag: Option<CommandTag>,
}

/// Where rows come from.
#[derive(Debug)]
pub(super) enum RowSource {
    /// They are there as values; the number of the next one.
    Values(Rows, usize),
    /// They come in batches.
    Stream {
        rows: RowStream,
        /// The batch that is being given.
        arrays: Vec<ArrayRef>,
        count: usize,
        next: usize,
    },
}

impl RowSource {
    /// All of a stream.
    pub(super) fn stream(rows: RowStream) -> Self {
        Self::Stream { rows, arrays: Vec::new(), count: 0, next: 0 }
    }
}

/// A session's portals. The one without a name is replaced without being asked.
#[derive(Debug)]
pub(super) struct Portals {
    unnamed: Option<Portal>,
    named: HashMap<Box<str>, Portal>,
    /// How many have a name. What was closed since is given back when another one is added.
    share: QuotaShare,
}

impl Portals {
    /// None, in this bound.
    pub(super) fn new(quota: &Arc<Quota>) -> Self {
        Self { unnamed: None, named: HashMap::new(), share: QuotaShare::of(quota) }
    }

    /// Adds a portal.
    ///
    /// # Errors
    /// `42P03` if there is one of this name, `54000` or `53200` if there are too many.
    pub(super) fn add(&mut self, name: &str, portal: Portal) -> Result<(), SqlError> {
        if name.is_empty() {
            self.unnamed = Some(portal);
            return Ok(());
        }
        if self.named.contains_key(name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DuplicateCursor, message));
        }
        self.share.give_back(self.share.amount().saturating_sub(self.named.len()));
        self.share.take(1)?;
        self.named.insert(name.into(), portal);
        Ok(())
    }

    /// The portal of this name.
    ///
    /// # Errors
    /// `34000`.
    pub(super) fn get(&self, name: &str) -> Result<&Portal, SqlError> {
        let found = if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) };
        found.ok_or_else(|| unknown(name))
    }

    /// Whether there is a portal of this name.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.get(name).is_ok()
    }

    /// Takes the portal of this name out, to be put back.
    ///
    /// # Errors
    /// `34000`.
    pub(super) fn take(&mut self, name: &str) -> Result<Portal, SqlError> {
        let found = if name.is_empty() { self.unnamed.take() } else { self.named.remove(name) };
        found.ok_or_else(|| unknown(name))
    }

    /// Puts a portal back that was taken out.
    pub(super) fn put_back(&mut self, name: &str, portal: Portal) {
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.named.insert(name.into(), portal);
        }
    }

    /// Forgets the portal of this name, if there is one.
    pub(super) fn close(&mut self, name: &str) {
        if name.is_empty() {
            self.unnamed = None;
        } else {
            self.named.remove(name);
        }
    }

    /// Forgets all: their transaction has ended.
    pub(super) fn clear(&mut self) {
        self.unnamed = None;
        if !self.named.is_empty() {
            self.named = HashMap::new();
        }
        self.share.give_back(self.share.amount());
    }
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlState::InvalidCursorName, format!("portal \"{name}\" does not exist"))
}
