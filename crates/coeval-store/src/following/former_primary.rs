// SPDX-License-Identifier: Apache-2.0
//! What a directory has of the log of a former primary, and how it can go on with the log of another one: the directory of that
//! primary, or of a replica that followed it. Nothing is opened and nothing is changed: the manifest is read, and of the log behind it
//! the terms.

use super::is_replica;
use crate::disk::{LOG_DIR, UNFINISHED_COPY_FILE};
use crate::error::StoreError;
use crate::files::FileSystem;
use crate::log::{ChecksumPolicy, Lsn, read};
use crate::manifest::{Manifest, manifest_path};
use crate::promises::{KeptPromise, PromisedTo};
use crate::record::{LogMark, decode_mark};
use crate::recovery::{ReplayError, open_error, refuse_incomplete};
use crate::rewinding_mark::refuse_unfinished_rewinding;
use crate::terms::{Parting, TermHistory, TermNumber, Timeline};
use std::path::Path;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerPrimary {
    /// The terms of its log.
    pub terms: TermHistory,
    /// The end of its log.
    pub end: Lsn,
    /// Up to here its checkpoint contains the log.
    pub checkpoint: Lsn,
    /// The highest timeline that it has promised; 0 if it has promised none.
    pub promised: Timeline,
}

/// How a former primary, or a replica of it, can go on with the log of a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayBack {
    /// Its log is the beginning of the new one's.
    AsItIs,
    /// Once it is [cut back](super::rewind) to where the two part. No checkpoint of it has passed that.
    CutBack(Parting),
    /// As a new copy: its checkpoint contains log that the new one never had.
    CheckpointBeyond(Parting),
    /// As a new copy: the two have no term in common.
    Unrelated,
}

impl FormerPrimary {
    /// Looks at a directory that nobody has open.
    ///
    /// # Errors
    /// [`StoreError::UnfinishedCopy`], [`StoreError::UnfinishedRewinding`], [`StoreError::IncompleteDatabase`]; damage of the manifest
    /// or of the log; [`StoreError::File`], above all if a process has it open.
    ///
    /// Cost: reads the log behind the checkpoint once.
    pub fn look(files: &dyn FileSystem, dir: &Path) -> Result<Self, StoreError> {
        if files.exists(&dir.join(UNFINISHED_COPY_FILE))? {
            return Err(StoreError::UnfinishedCopy { directory: dir.display().to_string() });
        }
        refuse_unfinished_rewinding(files, dir)?;
        refuse_incomplete(files, dir)?;
        let _lock = files.lock(dir)?;
        let manifest = manifest_of(files, dir)?;
        let mut terms = TermHistory::new(manifest.terms);
        let mut note = |_: Lsn, payload: &[u8]| {
            if let LogMark::Term(term) = decode_mark(payload)? {
                terms.begin(term).map_err(ReplayError::Malformed)?;
            }
            Ok::<_, ReplayError>(())
        };
        let checkpoint = Lsn::new(manifest.log);
        let found = read(files, &dir.join(LOG_DIR), checkpoint, &mut note).map_err(open_error)?;
        let kept = KeptPromise::read(files, dir)?.map(|kept| kept.beside(terms.timeline()));
        let promised = kept.map_or(Timeline::new(0), |kept| kept.promise.timeline);
        Ok(Self { terms, end: found.end, checkpoint, promised })
    }

    /// Whether a machine whose log is in this timeline, and whose last term has this number, has come after it. Nobody else's log is a
    /// reason to give up one's own.
    #[must_use]
    pub fn comes_before(&self, timeline: Timeline, term: TermNumber) -> bool {
        let own = self.terms.timeline();
        self.terms.last().is_none_or(|last| (own, last.number) < (timeline, term.0))
    }

    /// How it can go on with the log of a machine that has these terms and [has come after it](Self::comes_before).
    ///
    /// # Panics
    /// If its checkpoint contains more log than there is.
    #[must_use]
    pub fn way_back(&self, new: &TermHistory) -> WayBack {
        assert!(self.checkpoint <= self.end, "the log reaches to the checkpoint");
        match self.terms.parting(self.end, new) {
            None => WayBack::Unrelated,
            Some(parting) if parting.at == self.end => WayBack::AsItIs,
            Some(parting) if parting.at < self.checkpoint => WayBack::CheckpointBeyond(parting),
            Some(parting) => WayBack::CutBack(parting),
        }
    }
}

/// The timeline that the primary in a directory, which nobody has open, has promised to another machine, if that is beyond the one of
/// its log: it takes no commits. `None` of any other primary, and of a replica.
///
/// # Errors
/// As [`FormerPrimary::look`] has them.
///
/// Cost: reads the log behind the checkpoint once, if something was promised.
pub fn superseded(files: &dyn FileSystem, dir: &Path) -> Result<Option<Timeline>, StoreError> {
    let kept = KeptPromise::read(files, dir)?.filter(|kept| kept.to == PromisedTo::Another);
    let Some(KeptPromise { promise, .. }) = kept else { return Ok(None) };
    if is_replica(files, dir)? {
        return Ok(None);
    }
    let own = FormerPrimary::look(files, dir)?.terms.timeline();
    Ok(Some(promise.timeline).filter(|promised| *promised > own))
}

/// The manifest of a directory that has one.
pub(super) fn manifest_of(files: &dyn FileSystem, dir: &Path) -> Result<Manifest, StoreError> {
    let manifest = Manifest::read(files, dir, ChecksumPolicy::Verified)?;
    manifest.ok_or_else(|| StoreError::corrupt(&manifest_path(dir), 0, "it is gone"))
}
