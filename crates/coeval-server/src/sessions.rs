// SPDX-License-Identifier: Apache-2.0
//! A connection's entry among the sessions: what it does, and what its client has been told.

use coeval_sql::{RegistryGuard, Session};
use std::collections::HashMap;

/// One session's entry. Dropping it takes the session out of the registry.
#[derive(Debug)]
pub(crate) struct Entry {
    guard: RegistryGuard,
    /// The settings that the client has been told, by name.
    told: HashMap<&'static str, Box<str>>,
}

impl Entry {
    pub(crate) fn new(guard: RegistryGuard) -> Self {
        Self { guard, told: HashMap::new() }
    }

    /// The session's number.
    pub(crate) fn pid(&self) -> i32 {
        self.guard.pid()
    }

    /// What it is, to whoever asks.
    pub(crate) fn shown(&self) -> &RegistryGuard {
        &self.guard
    }

    /// A statement begins.
    pub(crate) fn begin_statement(&self, sql: Option<&str>) {
        self.guard.begin_statement(sql.unwrap_or_default());
    }

    /// It waits for its client.
    pub(crate) fn await_client(&self, session: &Session) {
        self.guard.end_statement(session.transaction_status(), session.open_transaction());
    }

    /// Notes that the client is told of a setting; whether that is news to it.
    pub(crate) fn tell(&mut self, name: &'static str, value: &str) -> bool {
        if name == "application_name" {
            self.guard.set_application(value);
        }
        match self.told.get(name) {
            Some(told) if **told == *value => false,
            _ => {
                self.told.insert(name, value.into());
                true
            }
        }
    }
}
