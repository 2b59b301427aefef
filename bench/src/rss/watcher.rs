// SPDX-License-Identifier: Apache-2.0
//! Takes a safe snapshot a thousand times a second, and looks how old it is.

use crate::board::Board;
use crate::histogram::Histogram;
use crate::machine::thread_switches;
use crate::report::Report;
use coeval::Database;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long it waits between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// Readings of the clock that take about as long as taking a snapshot.
const FLOOR_READINGS: usize = 32;

/// Values of an age over time in a report.
const POINTS: usize = 40;

/// What it saw.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// How long it took to take a snapshot.
    taking: Histogram,
    /// The same where the system did not give the processor to another thread meanwhile.
    taking_unpreempted: Histogram,
    /// How long [`FLOOR_READINGS`] took right behind: what the machine itself adds to anything of that length, by
    /// interrupts and whoever else has its processors.
    floor: Histogram,
    /// How often taking it waited for something.
    waits: u64,
    /// For how long there had been something that the snapshot lacked.
    ages: Histogram,
    /// For how long the oldest read-write transaction had been open at the same moments.
    oldest: Histogram,
    /// How many commits the snapshot lacked.
    commits: Histogram,
    /// When, and how old in milliseconds.
    over_time: Vec<(Duration, f64)>,
}

impl Seen {
    /// Watches until the board says stop; what is seen while it measures counts.
    pub(super) fn watch(db: &Database, board: &Board) -> Self {
        let (mut seen, mut started) = (Self::default(), None);
        while !board.is_stopped() {
            std::thread::sleep(LOOK);
            let before = thread_switches();
            let asked = Instant::now();
            let safe = db.store().begin_safe(&Default::default());
            let took = asked.elapsed();
            let after = thread_switches();
            let floor = Instant::now();
            let floor = (0..FLOOR_READINGS).map(|_| floor.elapsed()).max().unwrap_or_default();
            drop(safe);
            if !board.is_measuring() {
                continue;
            }
            let (lag, active) = (db.store().snapshot_lag(), db.store().active_serializable());
            let oldest = active.iter().map(|holder| holder.since.elapsed()).max().unwrap_or_default();
            seen.taking.record_duration(took);
            seen.floor.record_duration(floor);
            seen.waits += after.waits - before.waits;
            if after.preemptions == before.preemptions {
                seen.taking_unpreempted.record_duration(took);
            }
            seen.ages.record_duration(lag.age);
            seen.oldest.record_duration(oldest);
            seen.commits.record(lag.commits);
            let at = started.get_or_insert(asked).elapsed();
            seen.over_time.push((at, lag.age.as_secs_f64() * 1e3));
        }
        seen
    }

    /// Takes in what another one saw, but for its order in time.
    pub(super) fn merge(&mut self, other: &Self) {
        self.taking.merge(&other.taking);
        self.floor.merge(&other.floor);
        self.taking_unpreempted.merge(&other.taking_unpreempted);
        self.waits += other.waits;
        self.ages.merge(&other.ages);
        self.oldest.merge(&other.oldest);
        self.commits.merge(&other.commits);
    }

    /// Adds its figures to a report.
    pub(super) fn tell(&self, name: &str, report: &mut Report) {
        let mut figure = |figure: &str, value: f64| report.figure(format!("{name}_{figure}"), value);
        figure("taking_p50_us", self.taking.percentile(50.0) as f64 / 1e3);
        figure("taking_p999_us", self.taking.percentile(99.9) as f64 / 1e3);
        figure("taking_floor_p50_us", self.floor.percentile(50.0) as f64 / 1e3);
        figure("taking_floor_p999_us", self.floor.percentile(99.9) as f64 / 1e3);
        figure("taking_unpreempted_p999_us", self.taking_unpreempted.percentile(99.9) as f64 / 1e3);
        figure("age_p50_ms", self.ages.percentile_ms(50.0));
        figure("age_p99_ms", self.ages.percentile_ms(99.0));
        figure("age_max_ms", self.ages.max() as f64 / 1e6);
        figure("oldest_writer_p99_ms", self.oldest.percentile_ms(99.0));
        figure("commits_behind_p99", self.commits.percentile(99.0) as f64);
        report.count(format!("{name}_looks"), self.taking.count());
        report.count(format!("{name}_taking_waits"), self.waits);
    }

    /// The greatest age in each of forty equal parts of the time.
    pub(super) fn ages_over_time_ms(&self) -> Value {
        let end = self.over_time.last().map_or(Duration::ZERO, |(at, _)| *at);
        let mut points = vec![0.0_f64; POINTS];
        for (at, age) in &self.over_time {
            let share = at.as_secs_f64() / end.as_secs_f64().max(f64::MIN_POSITIVE);
            let place = ((share * POINTS as f64) as usize).min(POINTS - 1);
            points[place] = points[place].max(*age);
        }
        json!(points.iter().map(|age| (age * 100.0).round() / 100.0).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_age_of_each_part_is_kept() {
        let at = |millis| Duration::from_millis(millis);
        let seen = Seen {
            over_time: vec![(at(0), 1.0), (at(1), 3.0), (at(500), 2.0), (at(1_000), 5.0)],
            ..Seen::default()
        };
        let points = seen.ages_over_time_ms();
        assert_eq!(
            (&points[0], &points[1], &points[20], &points[39]),
            (&json!(3.0), &json!(0.0), &json!(2.0), &json!(5.0))
        );
    }
}
