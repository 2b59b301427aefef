// SPDX-License-Identifier: Apache-2.0
//! What a session has beside its transaction: prepared statements and cursors, as the catalog lists them, and frames.

use super::cursors::{Cursor, ListedCursor};
use super::frames::Frames;
use super::named::{ListedStatement, NamedStatements};
use datafusion::catalog::TableProvider;
use std::collections::HashMap;
use std::sync::Arc;

/// What a session has open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenObjects<'s> {
    named: &'s NamedStatements,
    cursors: &'s HashMap<String, Cursor>,
    frames: Option<&'s Frames>,
}

impl<'s> OpenObjects<'s> {
    pub(super) fn new(
        named: &'s NamedStatements,
        cursors: &'s HashMap<String, Cursor>,
        frames: &'s Frames,
    ) -> Self {
        Self { named, cursors, frames: Some(frames) }
    }

    /// The frame of this name that a program has lent, as a table.
    pub(crate) fn frame(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.frames?.provider(name)
    }

    /// Whether a statement may read files by their names: what outlives the session may not.
    pub(crate) fn may_read_files(&self) -> bool {
        self.frames.is_some()
    }

    /// The same for a definition, which may outlive the session: neither frames nor files.
    pub(crate) fn for_a_definition(self) -> Self {
        Self { frames: None, ..self }
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
