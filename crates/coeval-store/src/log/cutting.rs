// SPDX-License-Identifier: Apache-2.0
//! Cutting a log off at a place that is before its end, and copying what lies behind it. Nobody has the log open.
//!
//! Everything that a cut log has is as it was: a header attests no place beyond its own record, so none that is left attests what
//! was cut off. The note of the end alone would, and goes first.

use std::path::Path;

use crate::files::{FileSystem, OpenMode, replace_file};
use crate::log::end_note::end_note_path;
use crate::log::format::{encode_segment_header, segment_path};
use crate::log::segment::remove_unfinished;
use crate::log::walk::{list_segments, offset_in_segment};
use crate::log::{Damage, LogError, Lsn};

/// Copies the records between two places into a directory, as a log that begins at the first of them. Both are borders of records.
/// Files of these names are replaced, so it may be done again. Durable on return.
///
/// # Errors
/// [`LogError::MissingSegment`], [`LogError::Damaged`] if the log does not have them; [`LogError::File`].
///
/// # Panics
/// When the second place is before the first.
///
/// Cost: reads and writes these records once; memory for one segment.
pub(crate) fn copy_between(
    files: &dyn FileSystem,
    dir: &Path,
    (from, end): (Lsn, Lsn),
    to: &Path,
) -> Result<(), LogError> {
    assert!(from <= end, "what is copied lies between two places");
    let segments = list_segments(files, dir)?;
    let start = last_not_behind(dir, &segments, from)?;
    for (index, first) in segments.iter().copied().enumerate().skip(start) {
        let behind = segments.get(index + 1).map_or(end, |next| end.min(*next));
        let begin = first.max(from);
        if begin >= behind {
            continue;
        }
        let path = segment_path(dir, first);
        let file = files.read(&path)?;
        let place = |position| usize::try_from(offset_in_segment(first, position)).unwrap_or(usize::MAX);
        let records = file.get(place(begin)..place(behind)).ok_or(LogError::Damaged {
            path,
            offset: file.len() as u64,
            damage: Damage::Record,
        })?;
        let mut bytes = encode_segment_header(begin).to_vec();
        bytes.extend_from_slice(records);
        replace_file(files, &segment_path(to, begin), &bytes)?;
    }
    Ok(())
}

/// Cuts the log off at a border of records. Durable on return. If it fails, or the machine ends meanwhile, the log may be cut off
/// anywhere behind the place: it is done again then.
///
/// # Errors
/// [`LogError::MissingSegment`], [`LogError::Damaged`] if the log does not have the place; [`LogError::File`].
pub(crate) fn cut(files: &dyn FileSystem, dir: &Path, at: Lsn) -> Result<(), LogError> {
    remove_unfinished(files, dir)?;
    let segments = list_segments(files, dir)?;
    let last = last_not_behind(dir, &segments, at)?;
    let (path, length) = (segment_path(dir, segments[last]), offset_in_segment(segments[last], at));
    let file = files.open(&path, OpenMode::Existing)?;
    let found = file.len()?;
    if found < length {
        return Err(LogError::Damaged { path, offset: found, damage: Damage::Record });
    }
    let note = end_note_path(dir);
    if files.exists(&note)? {
        files.remove(&note)?;
        files.sync_dir(dir)?;
    }
    // From the end on: what is left has no gap at any moment.
    for first in segments[last + 1..].iter().rev() {
        files.remove(&segment_path(dir, *first))?;
        files.sync_dir(dir)?;
    }
    file.set_len(length)?;
    Ok(file.sync_all()?)
}

/// Which of the segments is the last that does not begin behind a place.
fn last_not_behind(dir: &Path, segments: &[Lsn], place: Lsn) -> Result<usize, LogError> {
    let count = segments.partition_point(|first| *first <= place);
    count.checked_sub(1).ok_or_else(|| LogError::MissingSegment { path: segment_path(dir, place) })
}

#[cfg(test)]
mod tests;
