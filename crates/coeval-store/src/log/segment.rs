// SPDX-License-Identifier: Apache-2.0
//! Going from one segment to the next.

use std::path::Path;
use std::sync::Arc;

use crate::files::{File, FileError, FileSystem, OpenMode};
use crate::log::format::{UNFINISHED_SUFFIX, encode_segment_header, segment_path, unfinished_path};
use crate::log::handle::{Shared, Written};
use crate::log::walk::offset_in_segment;
use crate::log::{LogError, Lsn};

/// The task of making the next segment behind the last one. Its holder makes it without a lock that others wait for, as it takes
/// three syncs. If it is dropped, the next appender that needs room in the log gets the task.
#[must_use = "nothing can be appended until it is made"]
pub(crate) struct NextSegment {
    shared: Arc<Shared>,
}

impl NextSegment {
    pub(crate) fn new(shared: Arc<Shared>) -> NextSegment {
        NextSegment { shared }
    }

    /// Completes the last segment durably, and makes the next one; nothing if somebody else has done so.
    ///
    /// The last segment is durable, to its end, before the name of the next one may be. That order is the proof that damage
    /// in a segment with a successor is no torn tail.
    ///
    /// # Errors
    /// [`LogError::NoRoom`], with the log as it was; a failure that stops the log; [`LogError::Stopped`].
    pub(crate) fn make(self) -> Result<(), LogError> {
        let shared = &*self.shared;
        let _turn = shared.turn.lock();
        let (first, end) = {
            let written = shared.written.lock();
            if !written.is_ending {
                return Ok(());
            }
            (written.first, written.end)
        };
        // A sync that failed while this one waited for its turn would make the next one's success worthless.
        let (_, last) = shared.wait_until_whole(end)?;
        if let Err(error) = begin_segment(&*shared.files, &shared.dir, end) {
            // Where it cannot be removed, it is emptied when it is begun again.
            let is_gone = remove_unfinished(&*shared.files, &shared.dir).is_ok();
            shared.written.lock().is_ending = false;
            return Err(if is_gone { shared.no_room_or_stop(error) } else { shared.stop(error) });
        }
        let stop = |error: FileError| shared.stop(error);
        last.set_len(offset_in_segment(first, end)).map_err(stop)?;
        last.sync_all().map_err(stop)?;
        shared.set_durable(end);
        let file = name_segment(&*shared.files, &shared.dir, end).map_err(stop)?;
        shared.segments.lock().push(end);
        *shared.written.lock() = Written::new(end, end, file);
        Ok(())
    }
}

/// Makes the segment that starts at `first`: when its name is there, its header is.
pub(crate) fn create_segment(
    files: &dyn FileSystem,
    dir: &Path,
    first: Lsn,
) -> Result<Arc<dyn File>, FileError> {
    begin_segment(files, dir, first)?;
    name_segment(files, dir, first)
}

/// Makes the segment that starts at `first`, durable but for its name.
fn begin_segment(files: &dyn FileSystem, dir: &Path, first: Lsn) -> Result<(), FileError> {
    let file = files.open(&unfinished_path(dir, first), OpenMode::Create)?;
    file.write_all_at(0, &encode_segment_header(first))?;
    file.sync_all()
}

/// Gives the segment its name, durably.
fn name_segment(files: &dyn FileSystem, dir: &Path, first: Lsn) -> Result<Arc<dyn File>, FileError> {
    let path = segment_path(dir, first);
    files.rename(&unfinished_path(dir, first), &path)?;
    files.sync_dir(dir)?;
    // Opened again so that errors name the file as it is called now.
    files.open(&path, OpenMode::Existing)
}

/// Removes what was left of a segment that never got its name.
pub(crate) fn remove_unfinished(files: &dyn FileSystem, dir: &Path) -> Result<(), FileError> {
    for name in files.list(dir)? {
        if name.ends_with(UNFINISHED_SUFFIX) {
            files.remove(&dir.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
