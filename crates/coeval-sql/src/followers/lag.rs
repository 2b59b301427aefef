// SPDX-License-Identifier: Apache-2.0
//! How long ago the log was durable here that one who follows now has: the lags of `pg_stat_replication`.
//!
//! Whenever log is sent, the end of the durable log is noted with the time. Once the other side says that it has come to that end, the
//! time since is its lag. An end that is the same as the one before says nothing new, so an idle database has the lag of its last
//! commit for a while, and then none, as in PostgreSQL. Beyond PostgreSQL, one who stays behind is as late as the oldest end is that he
//! has not come to: what was measured last would say of a replica that is stuck, or gone without a word, that all is well.

use coeval_store::log::Lsn;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So many ends are waited for at most. Of more, every second one is forgotten, and from then on so many fewer are noted, until the
/// other side has come to all of them: they stay evenly apart, and a lag is measured a little more seldom.
const ENDS_MAX: usize = 1_024;

/// One who has had everything for so long has no lag any more: the time between two words of an idle standby of PostgreSQL.
const IDLE_AFTER: Duration = Duration::from_secs(10);

/// How far one who follows says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// In its log.
    pub written: Lsn,
    /// Durable there.
    pub flushed: Lsn,
    /// Seen by its readers.
    pub applied: Lsn,
}

impl Reply {
    /// What of it lies before this place or at it.
    pub(super) fn up_to(self, place: Lsn) -> Self {
        let [written, flushed, applied] =
            [self.written, self.flushed, self.applied].map(|said| said.min(place));
        Self { written, flushed, applied }
    }
}

/// The time from when log was durable here until it was heard that the other side has it, or until now if that is longer and it was
/// not heard; nothing if nothing was sent, or it has had everything for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lags {
    /// In its log.
    pub write: Option<Duration>,
    /// Durable there.
    pub flush: Option<Duration>,
    /// Seen by its readers.
    pub replay: Option<Duration>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LagTracker {
    stages: [Stage; 3],
    sent: Lsn,
    /// When something was last measured.
    measured: Option<Instant>,
}

/// One of written, flushed, applied.
#[derive(Debug, Default)]
struct Stage {
    /// Ends of the durable log that the other side has not come to, the oldest first, and when they were noted.
    ends: VecDeque<(Lsn, Instant)>,
    /// One of so many ends is noted.
    stride: u64,
    /// Those since the last one that was.
    passed: u64,
    lag: Option<Duration>,
}

impl Stage {
    fn note_end(&mut self, end: Lsn, now: Instant) {
        if self.ends.is_empty() {
            (self.stride, self.passed) = (1, 0);
        }
        self.passed += 1;
        if self.passed < self.stride {
            return;
        }
        self.passed = 0;
        if self.ends.len() >= ENDS_MAX {
            let mut place = 0;
            self.ends.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.stride *= 2;
        }
        self.ends.push_back((end, now));
    }

    /// How late the other side is: as it was when it said so last, or as it has become since.
    fn lag_at(&self, now: Instant) -> Option<Duration> {
        let lacking = self.ends.front().map(|(_, since)| now.saturating_duration_since(*since));
        self.lag.max(lacking)
    }

    /// Whether this measures anything.
    fn note_place(&mut self, place: Lsn, now: Instant) -> bool {
        let mut reached = None;
        while let Some((_, since)) = self.ends.pop_front_if(|(end, _)| *end <= place) {
            reached = Some(since);
        }
        self.lag = reached.map(|since| now.saturating_duration_since(since)).or(self.lag);
        reached.is_some()
    }
}

impl LagTracker {
    /// Log is sent, of a log that is durable up to `durable`.
    pub(super) fn note_sent(&mut self, durable: Lsn, now: Instant) {
        if durable > self.sent {
            self.sent = durable;
            self.stages.iter_mut().for_each(|stage| stage.note_end(durable, now));
        }
    }

    /// The other side says how far it is.
    pub(super) fn note_reply(&mut self, reply: Reply, now: Instant) {
        let places = [reply.written, reply.flushed, reply.applied];
        let stages = self.stages.iter_mut().zip(places);
        // All of them: each takes off what it has come to.
        let measured = stages.fold(false, |any, (stage, place)| stage.note_place(place, now) || any);
        if measured {
            self.measured = Some(now);
        }
        let is_idle = || self.measured.is_some_and(|at| now.saturating_duration_since(at) >= IDLE_AFTER);
        if reply.applied >= self.sent && is_idle() {
            self.stages.iter_mut().for_each(|stage| stage.lag = None);
        }
    }

    pub(super) fn lags(&self, now: Instant) -> Lags {
        let [write, flush, replay] = self.stages.each_ref().map(|stage| stage.lag_at(now));
        Lags { write, flush, replay }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: u64) -> Lsn {
        Lsn::new(place)
    }

    fn reply(written: u64, flushed: u64, applied: u64) -> Reply {
        Reply { written: at(written), flushed: at(flushed), applied: at(applied) }
    }

    fn millis(lags: Lags) -> [Option<u128>; 3] {
        [lags.write, lags.flush, lags.replay].map(|lag| lag.map(|lag| lag.as_millis()))
    }

    #[test]
    fn a_lag_is_the_time_until_the_other_side_has_said_that_it_is_there() {
        let begun = Instant::now();
        let after = |millis| begun + Duration::from_millis(millis);
        let mut tracker = LagTracker::default();
        tracker.note_reply(reply(0, 0, 0), begun);
        assert_eq!(tracker.lags(after(0)), Lags::default(), "nothing was sent");
        tracker.note_sent(at(100), after(0));
        tracker.note_sent(at(100), after(30));
        tracker.note_sent(at(200), after(50));
        tracker.note_reply(reply(100, 99, 0), after(60));
        assert_eq!(millis(tracker.lags(after(60))), [Some(60); 3], "of what it lacks, since it was sent");
        tracker.note_reply(reply(200, 200, 150), after(70));
        assert_eq!(millis(tracker.lags(after(70))), [Some(20), Some(20), Some(70)]);
        tracker.note_reply(reply(200, 200, 200), after(9_000));
        assert_eq!(millis(tracker.lags(after(9_500))), [Some(20), Some(20), Some(8_950)]);
        // One who says nothing new for a while, and has everything, is not late.
        tracker.note_reply(reply(200, 200, 200), after(18_999));
        assert_eq!(tracker.lags(after(18_999)).replay, Some(Duration::from_millis(8_950)));
        tracker.note_reply(reply(200, 200, 200), after(19_000));
        assert_eq!(tracker.lags(after(19_000)), Lags::default());
    }

    /// The last lag that was measured stayed: a replica that was stuck for hours was a few milliseconds late.
    #[test]
    fn one_who_stays_behind_is_later_and_later() {
        let begun = Instant::now();
        let after = |millis| begun + Duration::from_millis(millis);
        let mut tracker = LagTracker::default();
        tracker.note_sent(at(100), after(0));
        assert_eq!(millis(tracker.lags(after(40))), [Some(40); 3], "it has said nothing yet");
        tracker.note_reply(reply(100, 100, 100), after(50));
        tracker.note_sent(at(200), after(1_000));
        tracker.note_sent(at(300), after(2_000));
        // It takes the log, and shows nothing of it.
        tracker.note_reply(reply(300, 300, 100), after(2_010));
        assert_eq!(millis(tracker.lags(after(2_010))), [Some(10), Some(10), Some(1_010)]);
        tracker.note_reply(reply(300, 300, 100), after(90_000));
        assert_eq!(millis(tracker.lags(after(90_000))), [Some(10), Some(10), Some(89_000)]);
        // It has gone without a word.
        assert_eq!(millis(tracker.lags(after(200_000)))[2], Some(199_000));
        tracker.note_reply(reply(300, 300, 250), after(200_000));
        assert_eq!(millis(tracker.lags(after(200_000)))[2], Some(199_000), "so late was what it has come to");
        tracker.note_reply(reply(300, 300, 300), after(200_010));
        assert_eq!(millis(tracker.lags(after(200_010)))[2], Some(198_010));
    }

    #[test]
    fn one_who_is_far_behind_costs_no_more_than_so_much_memory() {
        let (begun, mut tracker) = (Instant::now(), LagTracker::default());
        for place in 1..100_000 {
            tracker.note_sent(at(place), begun + Duration::from_millis(place));
        }
        assert!(tracker.stages.iter().all(|stage| stage.ends.len() <= ENDS_MAX));
        let now = begun + Duration::from_millis(100_000);
        tracker.note_reply(reply(99_999, 50_000, 1), now);
        let lags = tracker.lags(now);
        let [write, flush, replay] = millis(lags).map(Option::unwrap);
        assert_eq!(replay, 99_999);
        assert!((1..300).contains(&write) && (50_000..50_300).contains(&flush), "{lags:?}");
        // It is exact again behind that.
        tracker.note_sent(at(100_000), now);
        let heard = now + Duration::from_millis(7);
        tracker.note_reply(reply(100_000, 100_000, 100_000), heard);
        assert_eq!(tracker.lags(heard).write, Some(Duration::from_millis(7)));
    }
}
