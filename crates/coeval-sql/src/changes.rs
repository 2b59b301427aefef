// SPDX-License-Identifier: Apache-2.0
//! Where `coeval_changes()` finds what the database's own files do not have any more: who has an archive is above this crate, and
//! says so here.

use coeval_store::{ChangeFeedError, ChangeSink, ChangeToken, Store};
use coeval_txn::Version;

/// How `coeval_table_changes_as_json` calls the column with this index of a table's definition: its name may have been another one
/// before.
pub(crate) fn member_of(index: usize) -> String {
    format!("c{index}")
}

/// Gives what transactions changed, from a place that reaches farther back than the database's own log.
pub trait ChangeSource: Send + Sync {
    /// Gives a sink what lies behind `from`, up to the batch of version `newest` of the store, which is published, and to `until` if
    /// that is given. May take as long as making a copy of the database does; while it waits it [asks the sink](ChangeSink::look) whether
    /// it is to go on.
    ///
    /// # Errors
    /// [`ChangeFeedError`]; [`ChangeFeedError::Output`] also if the place does not answer, unless the sink has failed.
    fn changes(
        &self,
        store: &Store,
        from: ChangeToken,
        until: Option<ChangeToken>,
        newest: Version,
        sink: &mut dyn ChangeSink,
    ) -> Result<(), ChangeFeedError>;
}
