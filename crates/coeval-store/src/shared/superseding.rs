// SPDX-License-Identifier: Apache-2.0
//! What a store does about a timeline that was promised: it says how long its log is, and stops commits of a lower one.

use super::Shared;
use crate::error::StoreError;
use crate::log::{LogError, Lsn};
use crate::promises::{LogStanding, Promise};
use crate::publishing::stop;
use crate::terms::Timeline;

impl Shared {
    /// Promises a timeline, durably, and says how long the log is behind that. Of one who writes the log, commits stop.
    pub(crate) fn promise(&self, promise: Promise) -> Result<LogStanding, StoreError> {
        let disk = self.disk.as_ref().ok_or(StoreError::NoDirectory)?;
        self.check_files_writable("a promotion")?;
        let place = (&**disk.files(), disk.dir());
        self.promises.keep(place, self.terms().timeline(), promise)?;
        self.stop_if_superseded();
        if self.is_following() {
            let log = self.pipeline.log().ok_or(StoreError::NoDirectory)?;
            log.sync(log.end_lsn())?;
        }
        Ok(self.log_standing())
    }

    /// Notes, durably, that a log of this timeline is followed: none of a lower one is from here on. Also if the own log is in that
    /// timeline already: a replica's directory is known by it that has lost the file which says so.
    pub(crate) fn note_followed(&self, timeline: Timeline) -> Result<(), StoreError> {
        let own = self.terms().timeline();
        if timeline < own.max(self.promises.timeline()) {
            return Ok(());
        }
        let disk = self.disk.as_ref().ok_or(StoreError::NoDirectory)?;
        self.promises.note_begun((&**disk.files(), disk.dir()), own, timeline)
    }

    /// How long the log is.
    pub(crate) fn log_standing(&self) -> LogStanding {
        let durable = self.pipeline.log().map_or(Lsn::START, |log| log.durable_lsn());
        let terms = self.terms();
        LogStanding::new(terms.last().map_or(0, |term| term.number), terms.timeline().candidate(), durable)
    }

    /// The timeline that was promised to another one, if this store writes the log of a lower one.
    pub(crate) fn superseded_by(&self) -> Option<Timeline> {
        let promised = self.promises.timeline();
        (!self.is_following() && promised > self.terms().timeline()).then_some(promised)
    }

    /// Ends commits, if another machine has been promised a timeline beyond that of this log.
    pub(crate) fn stop_if_superseded(&self) {
        if let Some(timeline) = self.superseded_by() {
            stop(&self.pipeline.publishing, LogError::Superseded { timeline: timeline.get() });
        }
    }
}
