// SPDX-License-Identifier: Apache-2.0
//! Saying what a backup under way relies on, so that nobody removes it.
//!
//! Who sends says what it is going to name, and only then looks at what is there; who removes says so, and only then looks at
//! what was announced. So one of the two sees the other: the remover spares what was announced, or the sender waits until the
//! removal is over. (This needs listings that show what was put before, which all supported storages have.) Marks of who has
//! died count for a day; that of a collection of an archiver goes when its database is archived again (`collect.rs`).

use crate::archive::Archive;
use crate::error::ArchiveError;
use crate::names::{BackupName, COLLECTING, UNFINISHED, mark, time_of_mark};
use crate::pieces::Piece;
use crate::sealed::seal;
use coeval_store::LogTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// A mark that is older counts as left behind.
pub(crate) const MARKS_LAST: Duration = Duration::from_secs(24 * 60 * 60);
/// What was announced is relied on for so long: less, so that clocks may differ and a last request may take its time.
const RELIED_ON: Duration = Duration::from_secs(20 * 60 * 60);

/// What an unfinished backup is going to name.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Announced {
    pub(crate) pieces: BTreeSet<Piece>,
    /// The place and the term of the backup: it needs the log from there on.
    pub(crate) backup: Option<(u64, u64)>,
}

/// A mark of an unfinished backup, or of its log.
#[derive(Debug)]
pub(crate) struct Announcement {
    name: String,
    made: Instant,
}

impl Announcement {
    /// Announces pieces, and waits for whoever removes objects.
    ///
    /// # Errors
    /// [`ArchiveError::Collecting`] if that takes longer than patience lasts; those of the storage.
    pub(crate) fn make<'p>(
        archive: &Archive,
        pieces: impl Iterator<Item = &'p Piece>,
        backup: Option<BackupName>,
    ) -> Result<Self, ArchiveError> {
        let backup = backup.map(|backup| (backup.position.get(), backup.term));
        let announced = Announced { pieces: pieces.cloned().collect(), backup };
        let name = new_mark(UNFINISHED);
        let made = Instant::now();
        archive.put_new(&name, seal(&announced, &[]))?;
        let mut attempt = 1;
        while let Some((object, since)) = live_marks(archive, COLLECTING)?.into_iter().next() {
            if attempt >= archive.patience().attempts {
                return Err(ArchiveError::Collecting { place: archive.place().to_owned(), since, object });
            }
            archive.pause(attempt)?;
            attempt += 1;
        }
        Ok(Self { name, made })
    }

    /// Whether what was announced is still there, for what names it to be written.
    ///
    /// # Errors
    /// [`ArchiveError::TookTooLong`].
    pub(crate) fn check(&self) -> Result<(), ArchiveError> {
        if self.made.elapsed() > RELIED_ON {
            return Err(ArchiveError::TookTooLong { hours: RELIED_ON.as_secs() / 3_600 });
        }
        Ok(())
    }

    /// What was announced is named by now.
    pub(crate) fn withdraw(self, archive: &Archive) -> Result<(), ArchiveError> {
        archive.remove(&self.name)
    }
}

/// A name for a mark that nobody has.
pub(crate) fn new_mark(folder: &str) -> String {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    mark(folder, LogTime::now(), hasher.finish())
}

/// The marks of a folder that count, each with its time.
pub(crate) fn live_marks(archive: &Archive, folder: &str) -> Result<Vec<(String, LogTime)>, ArchiveError> {
    let now = LogTime::now().micros();
    let marks = archive.list(folder)?.into_iter();
    let marks = marks.filter_map(|(name, _)| time_of_mark(&name).map(|time| (name, time)));
    Ok(marks
        .filter(|(_, time)| u128::from(now.saturating_sub(time.micros())) < MARKS_LAST.as_micros())
        .collect())
}
