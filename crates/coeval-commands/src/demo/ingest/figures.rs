// SPDX-License-Identifier: Apache-2.0
//! What has happened so far: counted by the threads of the demo, shown while it runs and at its end.

use super::dashboard::{Epochs, QUERIES};
use crate::cells::{Alignment, Listing};
use crate::grid::{Colours, print_aligned};
use crate::readable::{grouped, latency, milliseconds};
use coeval_bench::Histogram;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write, stdout};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often a line is printed where lines stay.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// What has happened so far.
///
/// # Locking
/// One lock around everything that changes; each call holds it to its end and calls nobody who takes it.
pub(super) struct Figures {
    begun: Instant,
    duration: Duration,
    /// Rows that were there before.
    rows_before: u64,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    is_stopped: bool,
    /// When the last thread heard that it is over.
    ended: Option<Instant>,
    rows: u64,
    loads: Histogram,
    dashboards: Histogram,
    queries: [Histogram; QUERIES.len()],
    /// How old the newest event was when a dashboard had been shown.
    age_micros_last: u64,
    age_micros_max: u64,
    checks: u64,
    violations: Vec<&'static str>,
}

impl Figures {
    /// Of a run that begins now, with so many rows in the table.
    pub(super) fn new(rows_before: u64, duration: Duration) -> Self {
        Self { begun: Instant::now(), duration, rows_before, counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Nothing here is left half done by a panic that would matter.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether to go on.
    pub(super) fn is_running(&self) -> bool {
        self.begun.elapsed() < self.duration && !self.counts().is_stopped
    }

    /// Ends the run.
    pub(super) fn stop(&self) {
        let mut counts = self.counts();
        counts.is_stopped = true;
        counts.ended.get_or_insert_with(Instant::now);
    }

    /// A load was acknowledged after so long.
    pub(super) fn note_load(&self, rows: u64, took: Duration) {
        let mut counts = self.counts();
        counts.rows += rows;
        counts.loads.record(nanoseconds(took));
    }

    /// A query of a dashboard was answered after so long.
    pub(super) fn note_query(&self, number: usize, took: Duration) {
        self.counts().queries[number].record(nanoseconds(took));
    }

    /// A dashboard was shown after so long; the newest event that it saw is of this moment.
    pub(super) fn note_dashboard(&self, took: Duration, newest_micros: Option<i64>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let mut counts = self.counts();
        counts.dashboards.record(nanoseconds(took));
        if let Some(newest) = newest_micros.and_then(|newest| u128::try_from(newest).ok()) {
            counts.age_micros_last = u64::try_from(now.saturating_sub(newest)).unwrap_or(u64::MAX);
            counts.age_micros_max = counts.age_micros_max.max(counts.age_micros_last);
        }
    }

    /// A check was made: what it found to be wrong.
    pub(super) fn check(&self, violation: Option<&'static str>) {
        self.counts().checks += 1;
        if let Some(violation) = violation {
            self.note_violation(violation);
        }
    }

    /// Something is wrong.
    pub(super) fn note_violation(&self, what: &'static str) {
        self.counts().violations.push(what);
    }

    /// Checks how many rows there are when all is over.
    pub(super) fn check_end(&self, rows: u64) {
        let expected = self.rows_before + self.counts().rows;
        self.check((rows != expected).then_some("the table does not have the rows that were acknowledged"));
    }

    /// Whether no check has found a violation.
    pub(super) fn is_clean(&self) -> bool {
        self.counts().violations.is_empty()
    }

    /// What the checks found, in one line.
    pub(super) fn verdict(&self) -> String {
        let counts = self.counts();
        match counts.violations.first() {
            None => format!("{} checks inside snapshots and at the end: all passed", grouped(counts.checks)),
            Some(first) => {
                format!("CHECKS FAILED: {} of {}; {first}", counts.violations.len(), grouped(counts.checks))
            }
        }
    }

    /// One line of what is going on.
    fn line(&self) -> String {
        let counts = self.counts();
        let seconds = self.begun.elapsed().as_secs_f64();
        let checks = match counts.violations.len() {
            0 => format!("{} passed", grouped(counts.checks)),
            violations => {
                let first = counts.violations.first().map_or("", |first| first);
                format!("{}, {violations} VIOLATIONS: {first}", grouped(counts.checks))
            }
        };
        format!(
            "{seconds:5.0} s  {} rows, {} rows/s, load p50 {} ms, p99 {} ms; {} dashboards, p50 {} ms, newest event {} old; \
             checks {checks}",
            grouped(self.rows_before + counts.rows),
            grouped((counts.rows as f64 / seconds).round() as u64),
            milliseconds(counts.loads.percentile_ms(50.0)),
            milliseconds(counts.loads.percentile_ms(99.0)),
            grouped(counts.dashboards.count()),
            milliseconds(counts.dashboards.percentile_ms(50.0)),
            latency(Duration::from_micros(counts.age_micros_last)),
        )
    }

    /// Prints what was done and found.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(super) fn print_summary(&self, out: &mut dyn Write, epochs: Epochs) -> io::Result<()> {
        let listing = self.listing();
        writeln!(out)?;
        print_aligned(out, &listing, Colours::Off)?;
        let verdict = self.verdict();
        let counts = self.counts();
        let seconds = (counts.ended.unwrap_or_else(Instant::now) - self.begun).as_secs_f64();
        writeln!(
            out,
            "{} rows in {seconds:.1} s, {} rows/s; dashboards saw events that were up to {} old when they were shown",
            grouped(counts.rows),
            grouped((counts.rows as f64 / seconds).round() as u64),
            latency(Duration::from_micros(counts.age_micros_max)),
        )?;
        writeln!(
            out,
            "{} bricks with {} MB of values; telling transactions apart takes {} KB, timestamps for each row would take {} MB\n",
            grouped(epochs.bricks),
            grouped(epochs.value_bytes / 1_000_000),
            grouped(epochs.epochs_bytes / 1_000),
            grouped((self.rows_before + counts.rows) * 16 / 1_000_000),
        )?;
        writeln!(out, "Checks: {verdict}.")
    }

    fn listing(&self) -> Listing {
        let right = Alignment::Right;
        let mut listing = Listing::new(&[
            ("What", Alignment::Left),
            ("Times", right),
            ("p50 ms", right),
            ("p99 ms", right),
        ]);
        let counts = self.counts();
        let mut push = |what: &str, times: &Histogram| {
            listing.push([
                what.to_owned(),
                grouped(times.count()),
                milliseconds(times.percentile_ms(50.0)),
                milliseconds(times.percentile_ms(99.0)),
            ]);
        };
        push("Load", &counts.loads);
        push("Dashboard", &counts.dashboards);
        for (name, times) in QUERIES.iter().zip(&counts.queries) {
            push(&format!("  {name}"), times);
        }
        listing
    }
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

/// Where figures are seen while they change: in place at a terminal, as lines elsewhere.
pub(super) struct Screen {
    bar: Option<ProgressBar>,
    printed: std::cell::Cell<Instant>,
}

impl Screen {
    /// The standard output.
    pub(super) fn new() -> Self {
        let bar = stdout().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            bar.set_style(ProgressStyle::with_template("{wide_msg}").expect("the template is sound"));
            bar
        });
        Self { bar, printed: std::cell::Cell::new(Instant::now()) }
    }

    /// Shows the figures if it is time.
    pub(super) fn show(&self, figures: &Figures) {
        if let Some(bar) = &self.bar {
            bar.set_message(figures.line());
            bar.tick();
        } else if self.printed.get().elapsed() >= LINE_INTERVAL {
            self.printed.set(Instant::now());
            // Somebody who does not read it does not stop the demo.
            let _ = writeln!(stdout(), "{}", figures.line());
        }
    }

    /// Nothing changes any more.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(figures: &Figures) -> String {
        let mut out = Vec::new();
        let epochs = Epochs { bricks: 8, value_bytes: 3_000_000, epochs_bytes: 2_000 };
        figures.print_summary(&mut out, epochs).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_end_says_what_was_done_and_that_it_was_checked() {
        let figures = Figures::new(1_000, Duration::from_secs(10));
        figures.note_load(4_800, Duration::from_millis(2));
        figures.note_query(1, Duration::from_millis(40));
        figures.check(None);
        figures.check_end(5_800);
        figures.stop();
        assert!(figures.is_clean() && !figures.is_running());
        let text = summary(&figures);
        for part in
            ["By region", "4,800 rows in", "8 bricks", "2 checks inside snapshots and at the end: all passed"]
        {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
    }

    #[test]
    fn a_violation_is_named() {
        let figures = Figures::new(0, Duration::from_secs(10));
        figures.check(Some("a count went backwards"));
        figures.check_end(1);
        assert!(!figures.is_clean());
        assert!(summary(&figures).contains("CHECKS FAILED: 2 of 2; a count went backwards."));
        assert!(figures.line().ends_with("checks 2, 2 VIOLATIONS: a count went backwards"));
    }
}
