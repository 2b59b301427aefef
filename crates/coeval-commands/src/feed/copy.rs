// SPDX-License-Identifier: Apache-2.0
//! The copy of the database that a feed works with: where it lies, and of what it is made.
//!
//! | begins | a copy is there | none is there, or one that begins behind the token |
//! |---|---|---|
//! | behind a token | it is opened there | of the archive's newest backup before the token; without an archive, of the server, if the token is not older than that |
//! | with the oldest | it is opened where it begins | of the archive's oldest backup; without an archive, of the server |
//! | now | it follows in silence until it has what the source has | of the server; without one, of the archive's newest backup |

use crate::failure::Failure;
use coeval::{ChangeFeed, ChangeFeedError, ChangeFeedOptions, ChangeStart, ChangeToken, Database, DiskFiles};
use coeval_archive::{BackupChoice, copy_backup};
use coeval_replica::{Link, Sources, copy_database};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Where a feed begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    Now,
    Oldest,
    Behind(ChangeToken),
}

impl Begin {
    pub(super) fn token(self) -> Option<ChangeToken> {
        if let Self::Behind(token) = self { Some(token) } else { None }
    }
}

/// Says that a directory is the state of a feed, which may be removed and made anew.
const MARKER: &str = "coeval-feed";
/// The copy in it.
const COPY: &str = "copy";
/// One that is going to take its place.
const NEXT_COPY: &str = "next-copy";

/// Bytes of columns that were read and stay in memory.
const DATA_MEMORY: u64 = 256 << 20;

/// Where copies lie.
#[derive(Debug)]
pub(super) struct Copies {
    dir: PathBuf,
    options: ChangeFeedOptions,
    /// Removes the directory in the end.
    _temporary: Option<tempfile::TempDir>,
}

impl Copies {
    /// In the state's directory, or in one that goes in the end.
    ///
    /// # Errors
    /// If that is something else, or cannot be made.
    pub(super) fn new(state: Option<&Path>, kept_bytes: u64) -> Result<Self, Failure> {
        let options = |kept_bytes| ChangeFeedOptions { kept_bytes, data_memory: Some(DATA_MEMORY) };
        let Some(dir) = state else {
            let temporary = tempfile::Builder::new().prefix("coeval-feed-").tempdir();
            let temporary = temporary.map_err(|error| Failure::work("cannot make a directory", error))?;
            let dir = temporary.path().to_path_buf();
            return Ok(Self { dir, options: options(0), _temporary: Some(temporary) });
        };
        let failed = |error| Failure::work(format_args!("cannot use {}", dir.display()), error);
        fs::create_dir_all(dir).map_err(failed)?;
        if !dir.join(MARKER).exists() {
            if fs::read_dir(dir).map_err(failed)?.next().is_some() {
                let message =
                    "is not the state of a feed and not empty; name that, or a new or empty directory";
                return Err(Failure::Work(format!("{} {message}", dir.display())));
            }
            fs::write(dir.join(MARKER), "The state of `coeval feed`. It can be removed, and is made anew.\n")
                .map_err(failed)?;
        }
        remove(&dir.join(NEXT_COPY))?;
        Ok(Self { dir: dir.to_path_buf(), options: options(kept_bytes), _temporary: None })
    }

    /// Opens the feed, with a new copy if need be. With the connection over which that came, which has the log behind it.
    ///
    /// # Errors
    /// If nobody gives a copy with which the feed can begin there, or `stop` was set before it was there.
    pub(super) fn open(
        &self,
        sources: &Sources,
        begin: Begin,
        stop: &Arc<AtomicBool>,
    ) -> Result<(ChangeFeed, Option<Link>), Failure> {
        let copy = self.dir.join(COPY);
        let is_there = Database::is_replica(&copy).is_ok_and(|is_there| is_there);
        if is_there {
            let start = match begin {
                Begin::Now => ChangeStart::Later,
                Begin::Oldest => ChangeStart::Oldest,
                Begin::Behind(token) => ChangeStart::Behind(token),
            };
            match self.open_copy(start) {
                Ok(feed) => return Ok((feed, None)),
                // The state is kept until there is another one.
                Err(ChangeFeedError::TooOld { .. }) if sources.archive.is_some() => {}
                Err(error) => return Err(self.failed(&error, sources)),
            }
        }
        let next = self.dir.join(NEXT_COPY);
        let (link, start) = made(sources, &next, begin, stop)?;
        remove(&copy)?;
        fs::rename(&next, &copy)
            .map_err(|error| Failure::work(format_args!("cannot use {}", copy.display()), error))?;
        let feed = self.open_copy(start).map_err(|error| self.failed(&error, sources))?;
        Ok((feed, link))
    }

    fn open_copy(&self, start: ChangeStart) -> Result<ChangeFeed, ChangeFeedError> {
        ChangeFeed::open(Arc::new(DiskFiles), &self.dir.join(COPY), start, self.options)
    }

    fn failed(&self, error: &ChangeFeedError, sources: &Sources) -> Failure {
        let advice = match error {
            ChangeFeedError::TooOld { .. } if sources.archive.is_none() => {
                ": name the server's archive too (archive=PLACE), or keep a state (--state DIR)"
            }
            ChangeFeedError::Foreign { .. } => {
                ": a failover or a restore has left what it stands for; compare, and begin anew"
            }
            _ => "",
        };
        Failure::Work(format!("{error}{advice}"))
    }
}

fn remove(dir: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::work(format_args!("cannot remove {}", dir.display()), error))
        }
        _ => Ok(()),
    }
}

/// Makes a copy; see the module's table. What lies behind its beginning is given, or behind the token, or nothing yet.
fn made(
    sources: &Sources,
    dir: &Path,
    begin: Begin,
    stop: &Arc<AtomicBool>,
) -> Result<(Option<Link>, ChangeStart), Failure> {
    let failed = |from: &dyn fmt::Display, error: &dyn fmt::Display| {
        Failure::work(format_args!("cannot copy the database of {from}"), error)
    };
    let start = match begin {
        Begin::Behind(token) => ChangeStart::Behind(token),
        Begin::Oldest | Begin::Now => ChangeStart::Oldest,
    };
    match (&sources.primary, &sources.archive) {
        (Some(primary), archive) if archive.is_none() || begin == Begin::Now => {
            let copied = copy_database(primary, dir, stop, &mut |_| {});
            Ok((Some(copied.map_err(|error| failed(primary, &error))?), start))
        }
        (_, Some(source)) => {
            let choice = match begin {
                Begin::Now => BackupChoice::Newest,
                Begin::Oldest => BackupChoice::Oldest,
                Begin::Behind(token) => BackupChoice::UpTo(token.world_before()),
            };
            let place = format!("the archive {}", source.archive.place());
            let archive = source.archive.until(Arc::clone(stop));
            copy_backup(&archive, dir, choice, &mut |_| {}).map_err(|error| failed(&place, &error))?;
            Ok((None, if begin == Begin::Now { ChangeStart::Later } else { start }))
        }
        (_, None) => Err(Failure::Usage("SOURCE names neither a server nor an archive".to_owned())),
    }
}
