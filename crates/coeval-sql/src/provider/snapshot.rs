// SPDX-License-Identifier: Apache-2.0
//! The tables of one statement: what its scans read, found when the physical plan is made.

use coeval_store::{SpaceId, TableView};
use std::collections::HashMap;

/// The views of all tables that a statement names. Travels as an extension of DataFusion's session
/// configuration, so that a logical plan is free of any snapshot and can be used again.
#[derive(Debug, Default)]
pub(crate) struct StatementSnapshot {
    views: HashMap<SpaceId, TableView>,
}

impl StatementSnapshot {
    /// The snapshot with these views.
    pub(crate) fn new(views: impl IntoIterator<Item = TableView>) -> Self {
        Self { views: views.into_iter().map(|view| (view.def().id, view)).collect() }
    }

    /// The view of a table, if the statement named it.
    pub(crate) fn view(&self, table: SpaceId) -> Option<&TableView> {
        self.views.get(&table)
    }
}
