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

    /// The archive has the log up to `end`, or more than there is of it here. What lies behind `here` stays, where the log ended before
    /// anybody looked what the archive has: what has come since may be of another history, of which the archive has nothing yet. Costs
    /// reading it: of which versions its bulk loads are stands in it.
    ///
    /// `here` is the end of the log, durable or not: reading has it made durable, where nobody else does.
    ///
    /// # Errors
    /// Those of reading: it stays from where it did.
    pub(super) fn advance(&mut self, end: Lsn, here: Lsn) -> Result<(), StoreError> {
        let end = end.min(here);
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

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_store::files::SimulatedFiles;
    use coeval_store::{AccessMode, CatalogChange, Durability, StoreOptions};
    use coeval_txn::Isolation;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    /// The end of the log behind it, which is durable or not.
    fn commit(store: &Store, schema: &str) -> Lsn {
        let mut transaction = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.change_catalog(CatalogChange::PutSchema(schema.to_owned())).unwrap();
        transaction.commit().unwrap();
        store.log_position().unwrap().0
    }

    fn until_held_from(held: &mut HeldLog, (end, here): (Lsn, Lsn), wanted: Lsn) {
        let begun = Instant::now();
        while held.from() != wanted {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} and not {wanted}", held.from());
            held.advance(end, here).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// A replica that was cut back has the end of one history, and the archive more of that one. While the archive is read, it gets the
    /// log of the next one. To break it: let go of all up to where the archive ends. Nobody but the feed makes the log durable here, as
    /// on a replica that takes its time: it does not end if `here` is only what is durable.
    #[test]
    fn what_has_come_since_somebody_looked_what_the_archive_has_stays() {
        let files = Arc::new(SimulatedFiles::new(1));
        let options = StoreOptions { durability: Durability::None, ..StoreOptions::default() };
        let store = Store::open_with(files, Path::new("/database"), options).unwrap();
        let here = commit(&store, "one");
        let mut held = HeldLog::begin(&store, 1 << 30).unwrap();
        until_held_from(&mut held, (here, here), here);
        let end = commit(&store, "two");
        assert!(end > here);
        for _ in 0..20 {
            held.advance(end, here).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(held.from(), here);
        until_held_from(&mut held, (end, end), end);
    }
}
