// SPDX-License-Identifier: Apache-2.0
//! What is seen while the demo runs: bars and figures that change in place at a terminal, plain lines elsewhere.

use super::state::note_version;
use crate::interrupt::Interrupt;
use crate::readable::{grouped, latency};
use coeval::Database;
use coeval_bench::{Progress, Sample};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a line is printed where lines stay.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// Tells whoever watches.
///
/// # Locking
/// One lock around everything that changes; each call holds it to its end and calls nobody who takes it.
pub(crate) struct Live<'a> {
    db: &'a Database,
    interrupt: Option<&'a Interrupt>,
    /// Where acknowledged versions are noted.
    acknowledged: Option<PathBuf>,
    place: Place,
    state: Mutex<State>,
}

/// Where it is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Terminal,
    Lines,
}

#[derive(Default)]
struct State {
    bar: Option<ProgressBar>,
    /// What is being done, how much of it has been done, and since when.
    phase: String,
    done: u64,
    begun: Option<Instant>,
    /// When the last line was printed, or could have been first.
    printed: Option<Instant>,
    /// The largest age of a snapshot that was seen, in versions.
    versions_behind_max: u64,
}

impl State {
    /// Whether it is time for a line; the next one waits from now on.
    fn is_line_due(&mut self) -> bool {
        let is_due = self.printed.is_none_or(|printed| printed.elapsed() >= LINE_INTERVAL);
        if is_due {
            self.printed = Some(Instant::now());
        }
        is_due
    }
}

/// What the database looks like at the moment.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    delta_rows: usize,
    /// How many versions the oldest snapshot in use lies behind the newest world.
    versions_behind: u64,
}

impl<'a> Live<'a> {
    /// Watches this database; asks the interrupt whether to stop.
    pub(crate) fn new(
        db: &'a Database,
        interrupt: Option<&'a Interrupt>,
        acknowledged: Option<PathBuf>,
    ) -> Self {
        let place = if stdout().is_terminal() { Place::Terminal } else { Place::Lines };
        Self { db, interrupt, acknowledged, place, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing here is left half done by a panic that would matter.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the version that is published now: everything up to it has been acknowledged or may be.
    pub(crate) fn note_acknowledged(&self) {
        if let Some(file) = &self.acknowledged {
            // A note that cannot be written only makes the comparison at the next open weaker.
            let _ = note_version(file, self.db.world().version());
        }
    }

    /// The largest age of a snapshot that was seen, in versions.
    pub(crate) fn versions_behind_max(&self) -> u64 {
        self.state().versions_behind_max
    }

    fn moment(&self) -> Moment {
        let oldest = self.db.store().oldest_active();
        let world = self.db.world();
        let delta_rows = world.tables().map(|table| table.delta_rows()).sum();
        Moment { delta_rows, versions_behind: world.version().get().saturating_sub(oldest.get()) }
    }
}

impl Progress for Live<'_> {
    fn begin(&self, phase: &str, total: Option<u64>) {
        let mut state = self.state();
        state.phase = phase.to_owned();
        state.done = 0;
        state.begun = Some(Instant::now());
        state.printed = state.begun;
        if self.place == Place::Terminal {
            state.bar = Some(loading_bar(phase, total));
        }
    }

    fn advance(&self, count: u64) {
        let mut state = self.state();
        state.done += count;
        if let Some(bar) = &state.bar {
            bar.inc(count);
        } else if state.is_line_due() {
            print_line(&format!("  {}: {} rows", state.phase, grouped(state.done)));
        }
    }

    fn end(&self) {
        let mut state = self.state();
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
        if state.done > 0 {
            let seconds = state.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
            print_line(&format!("  {}: {} rows in {seconds:.1} s", state.phase, grouped(state.done)));
        }
    }

    fn sample(&self, sample: &Sample) {
        self.note_acknowledged();
        let moment = self.moment();
        let mut state = self.state();
        state.versions_behind_max = state.versions_behind_max.max(moment.versions_behind);
        match self.place {
            Place::Terminal => {
                let bar = state.bar.get_or_insert_with(|| loading_bar("", None));
                show_running(bar, sample, moment);
            }
            Place::Lines if state.is_line_due() => print_line(&line(sample, moment)),
            Place::Lines => {}
        }
    }

    fn is_cancelled(&self) -> bool {
        self.interrupt.is_some_and(Interrupt::was_asked)
    }
}

/// Prints a line. Somebody who does not read it does not stop the demo.
fn print_line(line: &str) {
    let _ = writeln!(stdout(), "{line}");
}

fn loading_bar(phase: &str, total: Option<u64>) -> ProgressBar {
    let template = match total {
        Some(_) => "  {prefix} [{bar:32}] {human_pos} of {human_len} rows, {per_sec}",
        None => "  {spinner} {prefix}",
    };
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stdout());
    bar.set_style(style(template));
    bar.set_prefix(phase.to_owned());
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is sound").progress_chars("=> ")
}

/// The block of lines that changes in place.
fn show_running(bar: &ProgressBar, sample: &Sample, moment: Moment) {
    if bar.length() != Some(sample.total.as_millis() as u64) {
        bar.set_length(sample.total.as_millis() as u64);
        bar.set_style(style("  [{bar:40}] {prefix}\n{msg}"));
    }
    bar.set_position(sample.elapsed.as_millis() as u64);
    bar.set_prefix(format!("{:.0} of {:.0} s", sample.elapsed.as_secs_f64(), sample.total.as_secs_f64()));
    bar.set_message(format!(
        "  transactions  {}/s, {} committed, latency p50 {}, p99 {}\n  \
           queries       {}{}\n  \
           snapshot      {} old, {} versions behind\n  \
           delta         {} rows\n  \
           checks        {}",
        grouped(sample.transactions_per_s.round() as u64),
        grouped(sample.committed),
        latency(sample.latency_p50),
        latency(sample.latency_p99),
        grouped(sample.queries),
        last_query(sample),
        latency(sample.snapshot_age),
        grouped(moment.versions_behind),
        grouped(moment.delta_rows as u64),
        checks(sample),
    ));
}

/// The same in one line.
fn line(sample: &Sample, moment: Moment) -> String {
    format!(
        "  {:>3.0} s  {} transactions/s, p50 {}, p99 {}; {} queries{}; snapshot {} old, {} versions behind; \
         delta {} rows; checks {}",
        sample.elapsed.as_secs_f64(),
        grouped(sample.transactions_per_s.round() as u64),
        latency(sample.latency_p50),
        latency(sample.latency_p99),
        grouped(sample.queries),
        last_query(sample),
        latency(sample.snapshot_age),
        grouped(moment.versions_behind),
        grouped(moment.delta_rows as u64),
        checks(sample),
    )
}

fn last_query(sample: &Sample) -> String {
    match sample.last_query {
        Some((number, took)) => format!(", last Q{number} in {}", latency(took)),
        None => String::new(),
    }
}

fn checks(sample: &Sample) -> String {
    match sample.violations {
        0 => format!("{} passed", grouped(sample.checks)),
        violations => format!("{}, {} VIOLATIONS", grouped(sample.checks), grouped(violations)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_everything_that_the_block_does() {
        let sample = Sample {
            elapsed: Duration::from_secs(12),
            transactions_per_s: 4_812.4,
            latency_p50: Duration::from_micros(410),
            latency_p99: Duration::from_micros(3_200),
            queries: 61,
            last_query: Some((9, Duration::from_millis(142))),
            snapshot_age: Duration::from_millis(31),
            checks: 244,
            ..Sample::default()
        };
        let moment = Moment { delta_rows: 81_022, versions_behind: 118 };
        assert_eq!(
            line(&sample, moment),
            "   12 s  4,812 transactions/s, p50 0.410 ms, p99 3.20 ms; 61 queries, last Q9 in 142 ms; snapshot 31.0 ms \
             old, 118 versions behind; delta 81,022 rows; checks 244 passed"
        );
        let bad = Sample { violations: 2, ..sample };
        assert!(line(&bad, moment).ends_with("checks 244, 2 VIOLATIONS"));
    }
}
