// SPDX-License-Identifier: Apache-2.0
//! Files in an archive: pieces that are named by what they contain.
//!
//! So equal contents are sent once, whatever file of whatever history they belong to, and a backup that failed goes on where it
//! was. Pieces are small enough to be held in memory, and to be put in one request that overwrites nothing.

use crate::archive::Archive;
use crate::error::ArchiveError;
use crate::names;
use bytes::Bytes;
use coeval_store::FileWriter;
use ring::digest::{Digest, SHA256, digest};
use serde::{Deserialize, Serialize};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::Builder;

/// The longest piece.
pub(crate) const PIECE_BYTES: usize = 16 << 20;

/// Pieces that are worked on at once, each by a thread: one is checked while another is put or synced, and a storage that is far away
/// is asked for several. As many are in memory.
pub(crate) const PIECES_AT_ONCE: usize = 4;

/// Does the work for each of these, at the same time. The results are in their order.
pub(crate) fn at_once<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let Some((first, others)) = items.split_first() else { return Vec::new() };
    std::thread::scope(|scope| {
        let work = &work;
        let begin = |item| Builder::new().spawn_scoped(scope, move || work(item)).map_err(|_| item);
        let others: Vec<_> = others.iter().map(begin).collect();
        // The caller has a thread, too, and does what no other is to be had for.
        let first = work(first);
        let others = others.into_iter().map(|begun| match begun {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(item) => work(item),
        });
        std::iter::once(first).chain(others).collect()
    })
}

/// Does the work for each of these, several at the same time, and has the caller's thread note what comes of each as soon as that is
/// ready, in any order. Nothing new is begun once some work has failed, or whoever notes does not go on; what is under way is brought
/// to its end.
///
/// # Errors
/// The first one.
pub(crate) fn each_at_once<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, ArchiveError> + Sync,
    note: &mut dyn FnMut(&T, R) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (next, work) = (&next, &work);
        let (done, results) = mpsc::channel();
        let begin = |_: &usize| {
            let done = done.clone();
            Builder::new().spawn_scoped(scope, move || work_on(items, next, work, &done)).is_ok()
        };
        let begun = (0..PIECES_AT_ONCE.min(items.len())).filter(begin).count();
        if begun == 0 {
            // The caller has a thread, too.
            return items.iter().try_for_each(|item| note(item, work(item)?));
        }
        // Only those at work keep the channel open.
        drop(done);
        results.iter().try_for_each(|(item, outcome)| note(item, outcome?))
    })
}

/// Works until nothing is left, or nobody hears of it any more.
fn work_on<'t, T, R>(
    items: &'t [T],
    next: &AtomicUsize,
    work: &impl Fn(&T) -> Result<R, ArchiveError>,
    done: &Sender<(&'t T, Result<R, ArchiveError>)>,
) {
    while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
        if done.send((item, work(item))).is_err() {
            return;
        }
    }
}

/// A piece: its SHA-256 in hexadecimal digits, and its length.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(String, u64)", into = "(String, u64)")]
pub(crate) struct Piece {
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
}

impl From<(String, u64)> for Piece {
    fn from((sha256, bytes): (String, u64)) -> Self {
        Self { sha256, bytes }
    }
}

impl From<Piece> for (String, u64) {
    fn from(piece: Piece) -> Self {
        (piece.sha256, piece.bytes)
    }
}

impl Piece {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::of_digest(&digest(&SHA256, bytes), bytes.len() as u64)
    }

    /// The piece of so many bytes with this SHA-256.
    pub(crate) fn of_digest(digest: &Digest, bytes: u64) -> Self {
        use std::fmt::Write;
        let mut sha256 = String::with_capacity(64);
        for byte in digest.as_ref() {
            write!(sha256, "{byte:02x}").expect("a text takes what it is given");
        }
        Self { sha256, bytes }
    }

    pub(crate) fn name(&self) -> String {
        names::piece(&self.sha256)
    }

    /// What an object with this name and length is called in a listing.
    pub(crate) fn listed(&self) -> (String, u64) {
        (self.name(), self.bytes)
    }

    /// Whether these are its contents.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`].
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<(), ArchiveError> {
        if Self::of(bytes) == *self {
            return Ok(());
        }
        let what = format!("{} bytes that do not fit the checksum", bytes.len());
        Err(ArchiveError::Damaged { object: self.name(), what })
    }

    /// Its contents.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`], [`ArchiveError::Missing`], those of the storage.
    pub(crate) fn fetch(&self, archive: &Archive) -> Result<Bytes, ArchiveError> {
        let bytes = archive.fetch(&self.name())?;
        self.check(&bytes)?;
        Ok(bytes)
    }
}

/// A file of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchivedFile {
    pub(crate) name: String,
    pub(crate) pieces: Vec<Piece>,
}

impl ArchivedFile {
    /// Writes it where it is wanted, and completes it there. Returns its bytes.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`], [`ArchiveError::Missing`], those of the storage and of who writes.
    pub(crate) fn write_to(&self, archive: &Archive, mut to: FileWriter) -> Result<u64, ArchiveError> {
        for pieces in self.pieces.chunks(PIECES_AT_ONCE) {
            for bytes in at_once(pieces, |piece| piece.fetch(archive)) {
                to.write(&bytes?)?;
            }
        }
        to.finish()?;
        Ok(self.bytes())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_done_at_once_is_noted_once_each() {
        for count in [0, 1, PIECES_AT_ONCE, 50] {
            let (items, mut noted) = ((0..count).collect::<Vec<_>>(), BTreeSet::new());
            each_at_once(&items, |item| Ok(item * 2), &mut |item, double: usize| {
                assert!(double == item * 2 && noted.insert(*item));
                Ok(())
            })
            .unwrap();
            assert_eq!(noted.len(), count);
        }
    }

    /// Fails if the threads go on behind an error: whoever stops a backup would wait for all of it.
    #[test]
    fn what_fails_ends_what_is_done_at_once() {
        let items: Vec<usize> = (0..10_000).collect();
        let begun = AtomicUsize::new(0);
        let pause = || std::thread::sleep(std::time::Duration::from_micros(100));
        let work = |item: &usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            pause();
            if *item == 20 { Err(ArchiveError::Stopping) } else { Ok(()) }
        };
        let failed = each_at_once(&items, work, &mut |_, ()| Ok(()));
        assert!(matches!(failed, Err(ArchiveError::Stopping)), "{failed:?}");
        assert!(begun.load(Ordering::Relaxed) < items.len());

        begun.store(0, Ordering::Relaxed);
        let mut looks = 0;
        let work = |_: &usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            pause();
            Ok(())
        };
        let stopped = each_at_once(&items, work, &mut |_, ()| {
            looks += 1;
            if looks == 3 { Err(ArchiveError::Stopping) } else { Ok(()) }
        });
        assert!(matches!(stopped, Err(ArchiveError::Stopping)), "{stopped:?}");
        assert!(looks == 3 && begun.load(Ordering::Relaxed) < items.len());
    }
}
