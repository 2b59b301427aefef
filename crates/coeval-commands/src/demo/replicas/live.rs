// SPDX-License-Identifier: Apache-2.0
//! What is seen while the demo runs: events as lines, and figures that change in place at a terminal, or lines of them elsewhere.

use super::chart::letter;
use super::note;
use crate::interrupt::Interrupt;
use crate::readable::{grouped, latency};
use coeval_bench::failover::{Moment, ReplicaMoment, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a line is printed where lines stay.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// So many of the last ages are seen at a terminal.
const LAST_AGES: usize = 48;

/// Tells whoever watches.
///
/// # Locking
/// One lock around everything that changes; each call holds it to its end and calls nobody who takes it.
pub(super) struct Live<'a> {
    interrupt: &'a Interrupt,
    dir: &'a Path,
    /// Of the nodes, by their numbers.
    directories: &'a [PathBuf],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// At a terminal, once there are figures.
    bar: Option<ProgressBar>,
    printed: Option<Instant>,
    ages: VecDeque<Option<Duration>>,
}

impl<'a> Live<'a> {
    pub(super) fn new(interrupt: &'a Interrupt, dir: &'a Path, directories: &'a [PathBuf]) -> Self {
        Self { interrupt, dir, directories, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing here is left half done by a panic that would matter.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes away what changes in place.
    pub(super) fn end(&self) {
        if let Some(bar) = self.state().bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Watch for Live<'_> {
    fn tell(&self, event: &str) {
        let state = self.state();
        let print = || {
            // Somebody who does not read it does not stop the demo.
            let _ = writeln!(stdout(), "  {event}");
        };
        match &state.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn promotes(&self, node: usize) {
        let name = self.directories[node].file_name().unwrap_or_default().to_string_lossy();
        if let Err(error) = note(self.dir, &name) {
            self.tell(&format!("it cannot be noted that {name} is the primary from now on: {error}"));
        }
    }

    fn show(&self, moment: &Moment) {
        let mut state = self.state();
        state.ages.push_back(moment.replicas.iter().filter_map(|replica| replica.age).max());
        if state.ages.len() > LAST_AGES {
            state.ages.pop_front();
        }
        if stdout().is_terminal() {
            let ages: String = state.ages.iter().map(|age| letter(*age)).collect();
            show_running(state.bar.get_or_insert_with(new_bar), moment, &ages);
        } else if state.printed.is_none_or(|printed| printed.elapsed() >= LINE_INTERVAL) {
            state.printed = Some(Instant::now());
            let _ = writeln!(stdout(), "{}", line(moment));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.interrupt.was_asked()
    }
}

fn new_bar() -> ProgressBar {
    let template = "  [{bar:40}] {prefix}\n{msg}";
    let style = ProgressStyle::with_template(template).expect("the template is sound").progress_chars("=> ");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout()).with_style(style)
}

/// The block of lines that changes in place.
fn show_running(bar: &ProgressBar, moment: &Moment, ages: &str) {
    bar.set_length(moment.total.as_millis() as u64);
    bar.set_position(moment.elapsed.as_millis() as u64);
    bar.set_prefix(format!("{:.0} of {:.0} s", moment.elapsed.as_secs_f64(), moment.total.as_secs_f64()));
    let mut lines = vec![format!(
        "  transactions  {}/s, {} committed, latency p50 {}, p99 {}",
        grouped(moment.transactions_per_s.round() as u64),
        grouped(moment.committed),
        latency(moment.latency_p50),
        latency(moment.latency_p99),
    )];
    let replicas = moment.replicas.iter();
    lines.extend(replicas.map(|replica| format!("  {:<12}  {}", replica.name, of_replica(replica))));
    lines.push(format!("  ages          [{ages:<LAST_AGES$}]"));
    lines.push(format!("  checks        {}", checks(moment)));
    bar.set_message(lines.join("\n"));
}

/// The same in one line.
fn line(moment: &Moment) -> String {
    let replicas: Vec<String> =
        moment.replicas.iter().map(|replica| format!("{}: {}", replica.name, of_replica(replica))).collect();
    format!(
        "  {:>3.0} s  {} transactions/s, p50 {}, p99 {}; {}; checks {}",
        moment.elapsed.as_secs_f64(),
        grouped(moment.transactions_per_s.round() as u64),
        latency(moment.latency_p50),
        latency(moment.latency_p99),
        replicas.join("; "),
        checks(moment),
    )
}

fn of_replica(replica: &ReplicaMoment) -> String {
    let age = match replica.age {
        Some(age) => format!("safe snapshot {} ms old", grouped(age.as_millis() as u64)),
        None => "does not answer".to_owned(),
    };
    format!("{} queries, {age}", grouped(replica.queries))
}

fn checks(moment: &Moment) -> String {
    match moment.violations {
        0 => format!("{} passed", grouped(moment.checks)),
        violations => format!("{}, {} VIOLATIONS", grouped(moment.checks), grouped(violations)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_the_primary_and_all_replicas_are() {
        let replica = |name: &str, age: Option<u64>| ReplicaMoment {
            name: name.to_owned(),
            queries: 31,
            age: age.map(Duration::from_millis),
        };
        let moment = Moment {
            elapsed: Duration::from_secs(12),
            transactions_per_s: 1_812.4,
            latency_p50: Duration::from_micros(410),
            latency_p99: Duration::from_micros(3_200),
            replicas: vec![replica("node-2", Some(4)), replica("node-3", None)],
            checks: 248,
            ..Moment::default()
        };
        assert_eq!(
            line(&moment),
            "   12 s  1,812 transactions/s, p50 0.410 ms, p99 3.20 ms; node-2: 31 queries, safe snapshot 4 ms old; \
             node-3: 31 queries, does not answer; checks 248 passed"
        );
    }
}
