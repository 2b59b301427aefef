// SPDX-License-Identifier: Apache-2.0
//! What a directory holds before it is opened, and what that means: the cases of `docs/durability.md` as data.
//!
//! A new database is made in this order, each step durable before the next: the directory, the log with a segment without
//! records, the manifest. So a first open that ended anywhere leaves no manifest, and nothing that holds anything, nor what
//! only an open database writes down: of whom it follows, what it has promised, what it keeps, what was cut off its log, rows that a
//! cluster or an engine has there. Whatever else is without a manifest, or has one without a log, was a database: it is never written over.

use crate::disk::{FOLLOWER_FILE, LOG_DIR, REWOUND_DIR, SERVER_DIRS};
use crate::error::StoreError;
use crate::files::{FileSystem, LOCK_FILE_NAME};
use crate::kept_log::FILE_NAME as KEPT_LOG_FILE;
use crate::log::{LogFiles, LookAt, find_segments};
use crate::manifest::FILE_NAME as MANIFEST_FILE;
use crate::promises::FILE_NAME as PROMISE_FILE;
use crate::segment::SEGMENT_DIR;
use std::path::Path;

/// Whether there is a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ManifestFile {
    There,
    /// Only one that was written aside and did not get its name.
    Unfinished,
    None,
}

/// Whether there are files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    None,
    Some,
}

/// What a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holdings {
    manifest: ManifestFile,
    log: LogFiles,
    /// Of chunks and flush rounds, finished or not.
    segments: Files,
    /// Of a database, beside its rows: [`is_mark`], and [`marking_directory`].
    marks: Files,
    /// None of ours, in the directory itself.
    foreign: Files,
}

/// What to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Read the manifest and the log.
    Open,
    /// Make a database, or go on making it.
    Create,
    /// Refuse: the log is missing.
    LogMissing,
    /// Refuse: the manifest is missing.
    ManifestMissing,
    /// Refuse: somebody else's directory.
    Foreign,
}

/// A row of the table: the conditions (empty: any) and the decision.
struct DirectoryCase {
    manifest: &'static [ManifestFile],
    log: &'static [LogFiles],
    segments: &'static [Files],
    marks: &'static [Files],
    foreign: &'static [Files],
    decision: Decision,
}

impl DirectoryCase {
    fn matches(&self, found: Holdings) -> bool {
        fn allows<T: PartialEq>(allowed: &[T], found: &T) -> bool {
            allowed.is_empty() || allowed.contains(found)
        }
        allows(self.manifest, &found.manifest)
            && allows(self.log, &found.log)
            && allows(self.segments, &found.segments)
            && allows(self.marks, &found.marks)
            && allows(self.foreign, &found.foreign)
    }
}

/// The table of `docs/durability.md`, row by row. Whatever is found matches exactly one row.
const DIRECTORY_CASES: [DirectoryCase; 10] = [
    DirectoryCase {
        manifest: &[ManifestFile::There],
        log: &[LogFiles::Blank, LogFiles::Some],
        segments: &[],
        marks: &[],
        foreign: &[],
        decision: Decision::Open,
    },
    DirectoryCase {
        manifest: &[ManifestFile::There],
        log: &[LogFiles::None],
        segments: &[],
        marks: &[],
        foreign: &[],
        decision: Decision::LogMissing,
    },
    DirectoryCase {
        manifest: &[ManifestFile::Unfinished, ManifestFile::None],
        log: &[LogFiles::Some],
        segments: &[],
        marks: &[],
        foreign: &[],
        decision: Decision::ManifestMissing,
    },
    DirectoryCase {
        manifest: &[ManifestFile::Unfinished, ManifestFile::None],
        log: &[LogFiles::None, LogFiles::Blank],
        segments: &[Files::Some],
        marks: &[],
        foreign: &[],
        decision: Decision::ManifestMissing,
    },
    DirectoryCase {
        manifest: &[ManifestFile::Unfinished],
        log: &[LogFiles::None],
        segments: &[Files::None],
        marks: &[],
        foreign: &[],
        decision: Decision::ManifestMissing,
    },
    DirectoryCase {
        manifest: &[ManifestFile::Unfinished, ManifestFile::None],
        log: &[LogFiles::Blank],
        segments: &[Files::None],
        marks: &[Files::None],
        foreign: &[],
        decision: Decision::Create,
    },
    DirectoryCase {
        manifest: &[ManifestFile::None],
        log: &[LogFiles::None],
        segments: &[Files::None],
        marks: &[Files::None],
        foreign: &[Files::None],
        decision: Decision::Create,
    },
    DirectoryCase {
        manifest: &[ManifestFile::None],
        log: &[LogFiles::None],
        segments: &[Files::None],
        marks: &[],
        foreign: &[Files::Some],
        decision: Decision::Foreign,
    },
    DirectoryCase {
        manifest: &[ManifestFile::Unfinished, ManifestFile::None],
        log: &[LogFiles::Blank],
        segments: &[Files::None],
        marks: &[Files::Some],
        foreign: &[],
        decision: Decision::ManifestMissing,
    },
    DirectoryCase {
        manifest: &[ManifestFile::None],
        log: &[LogFiles::None],
        segments: &[Files::None],
        marks: &[Files::Some],
        foreign: &[Files::None],
        decision: Decision::ManifestMissing,
    },
];

/// What a server keeps beside a database: the rules of who may come, perhaps written before its first start, a secret, and where
/// it listens.
const OF_THE_SERVER: [&str; 3] = ["pg_hba.conf", "mock-secret", "served"];

/// Whether a file of this name says nothing of whose directory it is.
pub(crate) fn may_lie_in_new_directory(name: &str) -> bool {
    name == LOCK_FILE_NAME || OF_THE_SERVER.contains(&name)
}

/// Whether a file of this name is one that a database writes once it is open, and that says something of it: of whom it follows, what
/// is kept of its log, what it has promised.
fn is_mark(name: &str) -> bool {
    [FOLLOWER_FILE, KEPT_LOG_FILE, PROMISE_FILE].iter().any(|mark| name.starts_with(mark))
}

/// A directory that is made in that of a database once that is open, if there is one.
fn marking_directory(files: &dyn FileSystem, dir: &Path) -> Result<Option<&'static str>, StoreError> {
    for name in [REWOUND_DIR].into_iter().chain(SERVER_DIRS) {
        if files.exists(&dir.join(name))? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// What a directory holds, with the files by which an error names that.
pub(super) struct Directory {
    holdings: Holdings,
    foreign: Option<String>,
    ours: Option<String>,
}

impl Directory {
    /// Looks at a directory that is there.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn look(files: &dyn FileSystem, dir: &Path) -> Result<Self, StoreError> {
        let names = files.list(dir)?;
        let manifest = if names.iter().any(|name| name == MANIFEST_FILE) {
            ManifestFile::There
        } else if names.iter().any(|name| name.starts_with(MANIFEST_FILE)) {
            ManifestFile::Unfinished
        } else {
            ManifestFile::None
        };
        // Beside a manifest it does not matter whether the log is blank, and it may be long.
        let look = if manifest == ManifestFile::There { LookAt::Names } else { LookAt::Contents };
        let (log, first_log) = find_segments(files, &dir.join(LOG_DIR), look)?;
        let segment_dir = dir.join(SEGMENT_DIR);
        let segments = if files.exists(&segment_dir)? { files.list(&segment_dir)? } else { Vec::new() };
        let first_segment = segments.into_iter().next().map(|name| format!("{SEGMENT_DIR}/{name}"));
        let is_foreign = |name: &String| {
            !may_lie_in_new_directory(name) && !name.starts_with(MANIFEST_FILE) && !is_mark(name)
        };
        let mark = match names.iter().find(|name| is_mark(name)) {
            None => marking_directory(files, dir)?.map(str::to_owned),
            mark => mark.cloned(),
        };
        let unfinished = names.iter().find(|name| name.starts_with(MANIFEST_FILE)).cloned();
        let foreign = names.into_iter().find(is_foreign);
        let some = |name: &Option<String>| if name.is_some() { Files::Some } else { Files::None };
        let (segments, marks) = (some(&first_segment), some(&mark));
        let holdings = Holdings { manifest, log, segments, marks, foreign: some(&foreign) };
        let first_log = first_log.map(|name| format!("{LOG_DIR}/{name}"));
        let ours = first_segment.or(first_log).or(unfinished).or(mark);
        Ok(Self { holdings, foreign, ours })
    }

    /// The decision of the one row that matches.
    ///
    /// # Panics
    /// Never: a test holds that whatever is found matches exactly one row.
    pub(super) fn decision(&self) -> Decision {
        DIRECTORY_CASES
            .iter()
            .find(|case| case.matches(self.holdings))
            .expect("the table covers everything, and a test holds that")
            .decision
    }

    /// Why the directory is refused, if it is.
    ///
    /// # Errors
    /// [`StoreError::ForeignDirectory`], [`StoreError::IncompleteDatabase`].
    pub(super) fn refuse(&self, dir: &Path) -> Result<(), StoreError> {
        let directory = dir.display().to_string();
        let incomplete = |found: &str, missing, advice| {
            let found = found.to_owned();
            Err(StoreError::IncompleteDatabase { directory: directory.clone(), found, missing, advice })
        };
        match self.decision() {
            Decision::Open | Decision::Create => Ok(()),
            Decision::LogMissing => {
                let advice = "put it back (commits since the last checkpoint are in it)";
                incomplete(MANIFEST_FILE, "log segment (log/*.log)", advice)
            }
            Decision::ManifestMissing => {
                let advice = "put it back from a copy of the directory (without it nothing says which files count), or \
                              move what is there elsewhere to make a new database";
                incomplete(self.ours.as_deref().unwrap_or(MANIFEST_FILE), MANIFEST_FILE, advice)
            }
            Decision::Foreign => {
                let file = self.foreign.clone().unwrap_or_default();
                Err(StoreError::ForeignDirectory { directory, file })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_directory_holds_meets_exactly_one_case() {
        let mut used = [0; DIRECTORY_CASES.len()];
        let both = [Files::None, Files::Some];
        for manifest in [ManifestFile::There, ManifestFile::Unfinished, ManifestFile::None] {
            for log in [LogFiles::None, LogFiles::Blank, LogFiles::Some] {
                let pairs = both.into_iter().flat_map(|a| both.map(|b| (a, b)));
                for (segments, marks, foreign) in pairs.flat_map(|(a, b)| both.map(|c| (a, b, c))) {
                    let found = Holdings { manifest, log, segments, marks, foreign };
                    let rows: Vec<usize> =
                        (0..used.len()).filter(|row| DIRECTORY_CASES[*row].matches(found)).collect();
                    assert_eq!(rows.len(), 1, "{found:?} meets rows {rows:?}");
                    used[rows[0]] += 1;
                    let is_made = DIRECTORY_CASES[rows[0]].decision == Decision::Create;
                    let holds_something = manifest == ManifestFile::There
                        || log == LogFiles::Some
                        || [segments, marks].contains(&Files::Some);
                    assert!(!(is_made && holds_something), "{found:?} would be written over");
                }
            }
        }
        assert!(used.iter().all(|count| *count > 0), "a row that nothing meets: {used:?}");
    }
}
