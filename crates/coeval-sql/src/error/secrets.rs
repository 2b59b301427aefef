// SPDX-License-Identifier: Apache-2.0
//! Details that not everybody may see: keys of rows that others hold, and what others ran.
//!
//! In an error's detail the store names the key that was taken and the transaction that was first. A role sees the key if it may
//! read the table, and the other session's statement if it has the rights of that session's role; superusers see all. PostgreSQL
//! has the same rule for keys. The session removes what its role may not see before it gives an error out.

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
