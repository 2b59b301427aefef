// SPDX-License-Identifier: Apache-2.0
//! Details that not everybody may see: keys of rows that others hold, and what others ran.
//!
//! The store says in an error's detail which key was taken and who was first. That is told to who may read the table, and
//! what another session ran to who has the rights of that session's role; superusers see all of it. PostgreSQL has the same
//! rule for keys. The session that gives an error out sees to that.

use super::SqlError;
use coeval_store::{QualifiedName, SpaceId};

/// How a table is named whose keys a detail shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableName {
    /// By its number.
    Space(SpaceId),
    /// By its name.
    Name(QualifiedName),
}

/// What a detail shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Secrets {
    /// The tables whose keys it shows.
    pub(crate) tables: Vec<TableName>,
    /// The session whose last statement it shows.
    pub(crate) session: Option<i32>,
    /// What is said where the keys may not be seen.
    pub(crate) instead: Option<String>,
}

impl Secrets {
    /// Keys of one table.
    pub(crate) fn key_of(table: QualifiedName) -> Self {
        Self { tables: vec![TableName::Name(table)], session: None, instead: None }
    }
}

impl SqlError {
    /// The same error, whose detail shows this.
    pub(crate) fn with_secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = Some(Box::new(secrets));
        self
    }
}
