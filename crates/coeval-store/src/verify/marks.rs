// SPDX-License-Identifier: Apache-2.0
//! The small files of a directory that say what it is, what it has promised, and what it keeps.

use super::{Problem, VerifyReport};
use crate::disk::{Disk, UNFINISHED_COPY_FILE};
use crate::error::StoreError;
use crate::kept_log::{FILE_NAME as KEPT_LOG_FILE, KeptLog};
use crate::promises::KeptPromise;
use crate::recovery::refuse_former_replica;
use crate::terms::TermHistory;

/// Checks them against the terms of the log, if that was read.
///
/// # Errors
/// [`StoreError::File`].
pub(super) fn check_marks(
    disk: &Disk,
    terms: Option<&TermHistory>,
    report: &mut VerifyReport,
) -> Result<(), StoreError> {
    let (files, dir) = (&**disk.files(), disk.dir());
    if files.exists(&dir.join(UNFINISHED_COPY_FILE))? {
        report.add_error(&StoreError::UnfinishedCopy { directory: dir.display().to_string() });
    }
    if KeptLog::is_damaged(files, dir)? {
        report.add(Problem {
            file: Some(dir.join(KEPT_LOG_FILE).display().to_string()),
            offset: None,
            what: "what is kept of the log for slots and an archive cannot be read: nothing is kept"
                .to_owned(),
        });
    }
    let checked = KeptPromise::read(files, dir).and_then(|promise| match terms {
        Some(terms) if !crate::following::is_replica(files, dir)? => {
            refuse_former_replica(dir, promise, terms)
        }
        _ => Ok(()),
    });
    match checked {
        Err(StoreError::File(error)) => Err(error.into()),
        Err(error) => {
            report.add_error(&error);
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
