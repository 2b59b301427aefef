// SPDX-License-Identifier: Apache-2.0
//! [`HeldLog`]: what stays of the log before the archiver sends any of it.

use coeval_store::log::Lsn;
use coeval_store::{LogFeed, Store, StoreError};

/// Log that stays in the database, also over a close, because it is not known that the archive has it: until the archiver knows
/// where to go on, and on a replica until it is seen there.
pub(super) struct HeldLog {
    feed: LogFeed,
    from: Lsn,
}

impl HeldLog {
    /// Holds all that is there, and at most `bytes_max` bytes of it once this is dropped.
    ///
    /// # Errors
    /// Those of [`Store::whole_log_feed`].
    pub(super) fn begin(store: &Store, bytes_max: u64) -> Result<Self, StoreError> {
        let mut feed = store.whole_log_feed()?;
        feed.keep_over_closes(bytes_max);
        let from = feed.position();
        Ok(Self { feed, from })
    }

    /// The log stays from here on.
    pub(super) fn from(&self) -> Lsn {
        self.from
    }

    /// The archive has the log up to `end`, or more than there is of it here. Costs reading it: of which versions its bulk
    /// loads are stands in it.
    ///
    /// # Errors
    /// Those of reading: it stays from where it did.
    pub(super) fn advance(&mut self, end: Lsn) -> Result<(), StoreError> {
        while self.feed.position() < end && self.feed.next_piece()?.is_some() {}
        self.from = self.from.max(end.min(self.feed.position()));
        self.feed.confirm(self.from);
        Ok(())
    }

    /// It may go with the next checkpoint.
    pub(super) fn let_go(self) {
        self.feed.let_go();
    }
}
