// SPDX-License-Identifier: Apache-2.0
//! What a transaction changes of one table, row by row: private until it commits, then applied to the table.

use crate::delta::Delta;
use crate::ids::SpaceId;

/// A transaction's changes of one table.
#[derive(Clone, Debug)]
pub(crate) struct TableWrites {
    pub(crate) table: SpaceId,
    /// Changes of rows, by primary key.
    pub(crate) rows: Delta,
    /// Changes of entries, for each index of the definition.
    pub(crate) indexes: Vec<Delta>,
}

impl TableWrites {
    /// Forgets where rows lie in a base that is not the table's any more.
    pub(crate) fn forget_positions(&mut self) {
        let entries = self.rows.iter().map(|(key, entry)| (key.clone(), entry.clone().without_position()));
        self.rows = Delta::from_sorted(entries.collect::<Vec<_>>());
    }
}
