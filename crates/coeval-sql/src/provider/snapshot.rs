// SPDX-License-Identifier: Apache-2.0
//! The tables of one statement: what its scans read, found when the physical plan is made.

use coeval_store::{SpaceId, TableView};
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{Result, internal_err};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// The views of all tables that a statement names. Travels as an extension of DataFusion's options, where
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

impl ConfigExtension for StatementSnapshot {
    const PREFIX: &'static str = "coeval_snapshot";
}

impl ExtensionOptions for StatementSnapshot {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        internal_err!("a snapshot has no option {key}")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}
