// SPDX-License-Identifier: Apache-2.0
//! Prepared statements with a name. Those of PREPARE and those of a client's protocol are the same ones: either side
//! runs and forgets what the other has prepared.

use super::{Prepared, Session};
use crate::error::{SqlError, SqlState};
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
#[derive(Debug, Default)]
pub(super) struct NamedStatements {
    by_name: HashMap<String, NamedStatement>,
}

impl NamedStatements {
    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.by_name.clear();
    }
}

impl Session {
    /// The prepared statement of this name.
    ///
    /// # Errors
    /// `26000` if there is none.
    pub fn named(&self, name: &str) -> Result<&NamedStatement, SqlError> {
        self.named.by_name.get(name).ok_or_else(|| {
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
    /// `42P05` if another one has it.
    pub fn name_statement(&mut self, name: &str, statement: NamedStatement) -> Result<(), SqlError> {
        self.refuse_known_name(name)?;
        self.named.by_name.insert(name.to_owned(), statement);
        Ok(())
    }

    /// Forgets the prepared statement of this name, if there is one.
    pub fn forget_statement(&mut self, name: &str) {
        self.named.by_name.remove(name);
    }

    /// How many prepared statements have a name.
    #[must_use]
    pub fn named_count(&self) -> usize {
        self.named.by_name.len()
    }
}
