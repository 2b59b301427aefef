// SPDX-License-Identifier: Apache-2.0
//! Prepared statements with a name. Those of PREPARE and those of a client's protocol are the same ones: either side
//! runs and forgets what the other has prepared.

use super::{Prepared, Session};
use crate::error::{SqlError, SqlState};
use crate::open_objects::{ListObjects, ListedStatement};
use crate::quota::{QuotaShare, Quotas, prepared_bytes};
use chrono::Utc;
use std::collections::HashMap;
use std::sync::Arc;

/// A prepared statement that has a name.
#[derive(Clone, Debug)]
pub enum NamedStatement {
    /// Its text holds nothing but blanks and comments.
    Empty,
    /// There is something to run.
    Planned(Arc<Prepared>),
}

impl NamedStatement {
    /// What there is to run.
    #[must_use]
    pub fn prepared(&self) -> Option<&Arc<Prepared>> {
        match self {
            Self::Empty => None,
            Self::Planned(prepared) => Some(prepared),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct NamedStatements {
    by_name: HashMap<String, Named>,
    /// What they take.
    share: QuotaShare,
}

/// One of them.
#[derive(Debug)]
struct Named {
    statement: NamedStatement,
    /// The text of PREPARE; `None` if a client's protocol has prepared it.
    prepared_by: Option<Box<str>>,
    /// When, in microseconds since 1970-01-01 UTC.
    since_micros: i64,
    /// What it takes.
    bytes: usize,
}

impl NamedStatements {
    /// None, in these bounds.
    pub(super) fn new(quotas: &Quotas) -> Self {
        Self { by_name: HashMap::new(), share: QuotaShare::of(&quotas.prepared_statements) }
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.by_name.clear();
        self.share.give_back(self.share.amount());
    }
}

impl ListObjects<ListedStatement> for NamedStatements {
    fn listed(&self) -> Vec<ListedStatement> {
        let listed = |(name, named): (&String, &Named)| {
            let prepared = named.statement.prepared();
            let sql = named.prepared_by.as_deref().or(prepared.map(|prepared| prepared.sql()));
            ListedStatement {
                name: name.clone(),
                sql: sql.unwrap_or_default().to_owned(),
                since_micros: named.since_micros,
                parameters: prepared
                    .map(|prepared| prepared.described_parameters().collect())
                    .unwrap_or_default(),
                from_sql: named.prepared_by.is_some(),
            }
        };
        let mut all: Vec<_> = self.by_name.iter().map(listed).collect();
        all.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        all
    }
}

impl Session {
    /// The prepared statement of this name.
    ///
    /// # Errors
    /// `26000` if there is none.
    pub fn named(&self, name: &str) -> Result<&NamedStatement, SqlError> {
        self.named.by_name.get(name).map(|named| &named.statement).ok_or_else(|| {
            let message = format!("prepared statement \"{name}\" does not exist");
            SqlError::new(SqlState::InvalidSqlStatementName, message)
        })
    }

    /// Refuses a name that another prepared statement has.
    ///
    /// # Errors
    /// `42P05`.
    pub fn refuse_known_name(&self, name: &str) -> Result<(), SqlError> {
        if self.named.by_name.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DuplicatePreparedStatement, message));
        }
        Ok(())
    }

    /// Gives a prepared statement a name. It is there until somebody forgets it, whatever becomes of transactions.
    ///
    /// # Errors
    /// `42P05` if another one has it, `54000` or `53200` if there are too many.
    pub fn name_statement(&mut self, name: &str, statement: NamedStatement) -> Result<(), SqlError> {
        self.keep_named(name, statement, None)
    }

    /// As [`Self::name_statement`]; `prepared_by` is the text of PREPARE, if that is what prepares it.
    pub(super) fn keep_named(
        &mut self,
        name: &str,
        statement: NamedStatement,
        prepared_by: Option<String>,
    ) -> Result<(), SqlError> {
        self.refuse_known_name(name)?;
        let sql = statement.prepared().map_or("", |prepared| prepared.sql());
        let beside = name.len() + prepared_by.as_ref().map_or(0, String::len);
        let bytes = prepared_bytes(sql).saturating_add(beside);
        self.named.share.take(bytes)?;
        let prepared_by = prepared_by.map(String::into_boxed_str);
        let named = Named { statement, prepared_by, since_micros: Utc::now().timestamp_micros(), bytes };
        self.named.by_name.insert(name.to_owned(), named);
        Ok(())
    }

    /// Forgets the prepared statement of this name, if there is one.
    pub fn forget_statement(&mut self, name: &str) {
        if let Some(named) = self.named.by_name.remove(name) {
            self.named.share.give_back(named.bytes);
            if let Some(prepared) = named.statement.prepared() {
                self.replanned.remove(&prepared.number());
            }
        }
    }

    /// How many prepared statements have a name.
    #[must_use]
    pub fn named_count(&self) -> usize {
        self.named.by_name.len()
    }
}
