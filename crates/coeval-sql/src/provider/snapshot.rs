// SPDX-License-Identifier: Apache-2.0
//! The tables of one statement: what its scans read, found when the physical plan is made.

use crate::query::Carry;
use coeval_store::{SpaceId, TableView};
use std::collections::HashMap;
use std::sync::Arc;

/// The views of all tables that a statement names. Carried by the statement's options, where
/// optimizer rules find it too, so that a logical plan is free of any snapshot and can be used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatementSnapshot {
    views: Arc<HashMap<SpaceId, TableView>>,
}

impl StatementSnapshot {
    /// The snapshot with these views.
    pub(crate) fn new(views: impl IntoIterator<Item = TableView>) -> Self {
        Self { views: Arc::new(views.into_iter().map(|view| (view.def().id, view)).collect()) }
    }

    /// The view of a table, if the statement named it.
    pub(crate) fn view(&self, table: SpaceId) -> Option<&TableView> {
        self.views.get(&table)
    }
}

impl Carry for StatementSnapshot {
    const NAME: &'static str = "coeval_snapshot";
}
