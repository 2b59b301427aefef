// SPDX-License-Identifier: Apache-2.0
//! What the primary was told of this replica, and when readers here last saw all that the primary had.

use coeval_store::log::Lsn;
use coeval_store::{Follower, LastWord, LogTime};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// As many ends of the log are kept; of more, the ones in between are forgotten.
const ENDS_MAX: usize = 256;

/// From 1970 to 2000, where PostgreSQL's times begin.
const EPOCH_MICROS: u64 = 946_684_800_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Up to where the primary knows that readers see the log here.
    pub(super) told: Lsn,
    /// Where the log ended on the primary, and when, of what readers do not see yet.
    ends: Ends,
    /// The same of whoever gives it, and when that was heard.
    heard: Ends,
    /// Where the log of whoever gives it ended, as was heard last.
    end: Lsn,
    /// What the primary has said last.
    pub(super) last_word: Option<LastWord>,
}

/// Places in the log, each with a moment.
#[derive(Debug, Default)]
struct Ends(VecDeque<(Lsn, Instant)>);

impl Ends {
    fn push(&mut self, end: Lsn, at: Instant) {
        if self.0.back().is_some_and(|(last, _)| *last >= end) || self.0.len() >= ENDS_MAX {
            self.0.pop_back();
        }
        self.0.push_back((end, at));
    }

    /// Takes out what is not behind this place; the last moment of that.
    fn take_shown(&mut self, shown: Lsn) -> Option<Instant> {
        let mut last = None;
        while let Some((_, at)) = self.0.pop_front_if(|(end, _)| *end <= shown) {
            last = last.max(Some(at));
        }
        last
    }
}

impl Progress {
    /// Notes what a message says: where the log of whoever gives it ends, and behind that when it was sent. `age`: how old that may be as
    /// a word of the primary; a replica that gives its log does not always say so.
    pub(super) fn note_word(&mut self, bytes: Option<&[u8]>, age: Option<Duration>) {
        let Some((end, sent)) = bytes.and_then(|bytes| bytes.split_first_chunk::<8>()) else { return };
        let end = Lsn::new(u64::from_be_bytes(*end));
        if let Some(sent) = sent.first_chunk::<8>() {
            let sent = LogTime::from_micros(u64::from_be_bytes(*sent).saturating_add(EPOCH_MICROS));
            let known = self.last_word.filter(|word| word.end == end);
            let end_sent = known.map_or(sent, |word| word.end_sent);
            self.last_word = Some(LastWord { sent, received: LogTime::now(), end, end_sent });
        }
        self.end = end;
        let now = Instant::now();
        self.heard.push(end, now);
        if let Some(at) = age.and_then(|age| now.checked_sub(age)) {
            self.ends.push(end, at);
        }
    }

    /// Bytes of log that whoever gives it had, when he was last heard of, behind this place.
    pub(super) fn lacks(&self, position: Lsn) -> u64 {
        self.end.get().saturating_sub(position.get())
    }

    /// Notes how far readers see the log.
    pub(super) fn note_shown(&mut self, follower: &Follower) {
        let shown = follower.shown_position();
        if let Some(at) = self.ends.take_shown(shown) {
            follower.note_current(at);
        }
        if let Some(at) = self.heard.take_shown(shown) {
            follower.note_level(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_primary_said_last_is_known_with_its_times() {
        let word = |end: u64, sent: u64| [end.to_be_bytes(), sent.to_be_bytes()].concat();
        let mut progress = Progress::default();
        progress.note_word(Some(&[1, 2, 3]), Some(Duration::ZERO));
        assert_eq!(progress.last_word, None, "it is cut off");
        let before = LogTime::now();
        for (end, sent, end_sent) in [(100, 5, 5), (100, 6, 5), (200, 7, 7)] {
            progress.note_word(Some(&word(end, sent)), Some(Duration::ZERO));
            let found = progress.last_word.unwrap();
            let at = |micros| LogTime::from_micros(EPOCH_MICROS + micros);
            assert_eq!((found.end, found.sent, found.end_sent), (Lsn::new(end), at(sent), at(end_sent)));
            assert!(found.received >= before);
        }
        assert_eq!(progress.lacks(Lsn::new(150)), 50);
    }

    /// A replica's log may end where the primary's did long ago.
    #[test]
    fn what_a_replica_says_counts_from_when_the_primary_said_it() {
        let word = [100u64.to_be_bytes(), 5u64.to_be_bytes()].concat();
        let mut progress = Progress::default();
        progress.note_word(Some(&word), None);
        assert!(progress.ends.0.is_empty(), "it is not known when that was");
        assert_eq!(progress.heard.0.len(), 1, "but it was said");
        assert_eq!(progress.lacks(Lsn::START), 100);
        let age = Duration::from_millis(300);
        progress.note_word(Some(&word), Some(age));
        assert!(progress.ends.0.back().unwrap().1.elapsed() >= age);
        assert!(progress.heard.0.back().unwrap().1 > progress.ends.0.back().unwrap().1);
    }

    #[test]
    fn what_was_said_of_a_place_counts_once_readers_are_there() {
        let mut ends = Ends::default();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        for (end, millis) in [(100, 1), (100, 2), (200, 3), (300, 4)] {
            ends.push(Lsn::new(end), at(millis));
        }
        assert_eq!(ends.take_shown(Lsn::new(99)), None);
        assert_eq!(ends.take_shown(Lsn::new(250)), Some(at(3)));
        assert_eq!(ends.take_shown(Lsn::new(250)), None);
        assert_eq!(ends.take_shown(Lsn::new(300)), Some(at(4)));
    }
}
