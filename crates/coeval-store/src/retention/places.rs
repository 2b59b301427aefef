// SPDX-License-Identifier: Apache-2.0
//! Places of past checkpoints: the log is kept from the oldest of them on, whether replicas are connected or not.
//!
//! # Why
//! After a failover another replica may lack some log that the promoted machine no longer needs since its last checkpoint. So at
//! least a given number of bytes of log stay behind each checkpoint, on replicas as well as on primaries.
//!
//! # Terms
//! *Behind* a place lie the log from there to its end, and the files of bulk loads of later versions: those are read with the
//! log, so their bytes count with it. (Otherwise the files of a table that is loaded anew each night, which makes little log, would
//! stay for months.) A replica that is at a place lacks what lies behind it.
//!
//! # Steps
//! ```text
//! places    p1 < p2 < ... < pn, the newest checkpoint; kept is what lies behind p1
//! note      pn+1 comes; while as much as is asked for lies behind p2 as well, p1 goes; then
//!           loads go that are more, with all later ones, than is asked for
//! ```
//! So a replica that lacks no more than the number of bytes that is asked for finds all of it. No more log is kept than up to the
//! next place beyond that, and no loads beyond it. When a load goes, only its file is removed: the log from there to the next place may
//! still be asked for by itself.
//!
//! # Edges
//! If there are more than [`PLACES_MAX`] places, the one whose neighbours are closest together is forgotten: then the log is kept
//! from further back, never from less far. If nothing is asked for, only the newest checkpoint's place stays, which keeps nothing.

use crate::log::Lsn;
use coeval_txn::Version;
use std::collections::VecDeque;

/// Enough that no more than about a seventh is kept beyond what is asked for, and few in a file.
const PLACES_MAX: usize = 16;

/// Where a checkpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The end of the log with its world in it.
    pub(crate) log: Lsn,
    /// The version of that; of an earlier checkpoint, a later one if loads up to there have gone.
    pub(crate) version: Version,
}

/// What there is of a log, and of files that belong to it.
#[derive(Clone, Debug)]
pub(crate) struct LogExtent {
    /// Where it ends.
    pub(crate) end: Lsn,
    /// The bytes of files of bulk loads, each with the version of the load.
    pub(crate) loads: Vec<(Version, u64)>,
}

impl LogExtent {
    /// The bytes that lie behind a place.
    fn behind(&self, place: Place) -> u64 {
        let later = self.loads.iter().filter(|(version, _)| *version > place.version);
        let log = self.end.get().saturating_sub(place.log.get());
        later.fold(log, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// The newest version of a load that has, with all later ones, more than so many bytes.
    fn loads_beyond(&self, bytes_max: u64) -> Version {
        let mut newest_first = self.loads.clone();
        newest_first.sort_unstable_by(|a, b| b.cmp(a));
        let mut sum = 0_u64;
        let beyond = newest_first.into_iter().find(|(_, bytes)| {
            sum = sum.saturating_add(*bytes);
            sum > bytes_max
        });
        beyond.map_or(Version::ZERO, |(version, _)| version)
    }
}

/// See the module; the oldest place first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(VecDeque<Place>);

impl Places {
    /// Those of a directory with this checkpoint, in which these of earlier ones were noted.
    pub(crate) fn with_left(left: impl IntoIterator<Item = Place>, checkpoint: Place) -> Self {
        // What was noted for a checkpoint that did not come about may lie beyond the one that is there, behind which the log
        // itself names the loads.
        let before = left.into_iter().filter(|place| place.log < checkpoint.log);
        let before =
            before.map(|Place { log, version }| Place { log, version: version.min(checkpoint.version) });
        let mut places: VecDeque<Place> = before.collect();
        places.push_back(checkpoint);
        Self(places)
    }

    /// Adds a checkpoint that comes behind all others, and forgets what is more than these bytes ask for.
    pub(crate) fn note(&mut self, checkpoint: Place, keep_bytes: u64, extent: &LogExtent) {
        // One that failed may have been at the same place.
        while self.0.back().is_some_and(|newest| newest.log >= checkpoint.log) {
            self.0.pop_back();
        }
        self.0.push_back(checkpoint);
        while self.0.get(1).is_some_and(|second| extent.behind(*second) >= keep_bytes) {
            self.0.pop_front();
        }
        while self.0.len() > PLACES_MAX {
            let between = |index: &usize| {
                extent.behind(self.0[*index - 1]).saturating_sub(extent.behind(self.0[*index + 1]))
            };
            let closest = (1..self.0.len() - 1).min_by_key(between);
            self.0.remove(closest.expect("there are more than two"));
        }
        // What came while the checkpoint was made is its own to keep.
        let gone = extent.loads_beyond(keep_bytes).min(checkpoint.version);
        self.0.iter_mut().for_each(|place| place.version = place.version.max(gone));
    }

    /// From here on everything is kept.
    pub(crate) fn oldest(&self) -> Option<Place> {
        self.0.front().copied()
    }

    /// All but the newest, which is the manifest's.
    pub(crate) fn earlier(&self) -> impl Iterator<Item = Place> {
        self.0.iter().take(self.0.len().saturating_sub(1)).copied()
    }
}

#[cfg(test)]
mod tests;
