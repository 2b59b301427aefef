// SPDX-License-Identifier: Apache-2.0
//! What a session has open beside its transaction, as the catalog lists it: prepared statements and cursors.

use super::cursors::{Cursor, ListedCursor};
use super::named::{ListedStatement, NamedStatements};
use std::collections::HashMap;

/// What a session has open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenObjects<'s> {
    named: &'s NamedStatements,
    cursors: &'s HashMap<String, Cursor>,
}

impl<'s> OpenObjects<'s> {
    pub(super) fn new(named: &'s NamedStatements, cursors: &'s HashMap<String, Cursor>) -> Self {
        Self { named, cursors }
    }

    /// Its prepared statements, by name.
    pub(crate) fn prepared_statements(&self) -> Vec<ListedStatement> {
        self.named.listed()
    }

    /// Its cursors, by name.
    pub(crate) fn cursors(&self) -> Vec<ListedCursor> {
        let mut all: Vec<_> = self.cursors.iter().map(|(name, cursor)| cursor.listed(name)).collect();
        all.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        all
    }
}
