// SPDX-License-Identifier: Apache-2.0
//! `coeval bench`: runs a workload; progress and figures for people on stderr, one JSON line on stdout.

use crate::arguments::BenchArguments;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, STOPPING};
use crate::readable::{grouped, latency};
use coeval_bench::{BenchError, Options, Progress, Report, Sample};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Runs the workload.
///
/// # Errors
/// If it cannot run, or one of its checks finds a violation; the JSON line is printed in that case too.
pub(crate) fn run(arguments: &BenchArguments, program: Option<PathBuf>) -> Result<(), Failure> {
    let watch = Watch::new(Interrupt::watch(STOPPING));
    // A client needs one for each connection. If there are too few, the workload says how many it needs.
    let _ = coeval_server::raise_open_files_limit();
    // A server is this program, too. Where that cannot be found out, a workload that starts one says that it has none.
    let options = Options { server_program: program, ..arguments.options() };
    let report = coeval_bench::run(arguments.workload, &options, &watch).map_err(|error| match error {
        BenchError::Options(message) => Failure::Usage(message),
        other => Failure::work(arguments.workload.name(), other),
    })?;
    print_figures(&report);
    let mut out = stdout().lock();
    writeln!(out, "{}", report.to_json())?;
    out.flush()?;
    match report.violations() {
        0 => Ok(()),
        violations => Err(Failure::Work(format!("checks failed: {} violations", grouped(violations)))),
    }
}

/// What ran, and its figures below each other, for people.
fn print_figures(report: &Report) {
    let width = report.figures().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in report.about() {
        eprintln!("  {name:width$}  {value}");
    }
    for (name, value) in report.figures() {
        eprintln!("  {name:width$}  {value}");
    }
    for (name, violations) in report.checks() {
        let verdict = if violations == 0 { "passed".to_owned() } else { format!("{violations} VIOLATIONS") };
        eprintln!("  {name:width$}  {verdict}");
    }
}

/// Shows progress on stderr.
///
/// # Locking
/// The bar has a lock of its own, held for one call.
struct Watch {
    interrupt: Interrupt,
    bar: Mutex<Option<ProgressBar>>,
}

impl Watch {
    fn new(interrupt: Interrupt) -> Self {
        Self { interrupt, bar: Mutex::new(None) }
    }

    fn bar(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Watch {
    fn begin(&self, phase: &str, total: Option<u64>) {
        if !stderr().is_terminal() {
            eprintln!("{phase}");
            return;
        }
        let template = match total {
            Some(_) => "{prefix} [{bar:32}] {human_pos} of {human_len}, {per_sec} {msg}",
            None => "{spinner} {prefix} {msg}",
        };
        let style =
            ProgressStyle::with_template(template).expect("the template is sound").progress_chars("=> ");
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr()).with_style(style);
        bar.set_prefix(phase.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        *self.bar() = Some(bar);
    }

    fn advance(&self, count: u64) {
        if let Some(bar) = &*self.bar() {
            bar.inc(count);
        }
    }

    fn end(&self) {
        if let Some(bar) = self.bar().take() {
            bar.finish_and_clear();
        }
    }

    fn sample(&self, sample: &Sample) {
        if let Some(bar) = &*self.bar() {
            let mut message = format!(
                "{:.0} of {:.0} s: {}/s, p50 {}, p99 {}",
                sample.elapsed.as_secs_f64(),
                sample.total.as_secs_f64(),
                grouped(sample.transactions_per_s.round() as u64),
                latency(sample.latency_p50),
                latency(sample.latency_p99)
            );
            if sample.queries > 0 {
                message.push_str(&format!(", {} queries", grouped(sample.queries)));
            }
            bar.set_message(message);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.interrupt.was_asked()
    }
}
