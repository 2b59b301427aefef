// SPDX-License-Identifier: Apache-2.0
//! What somebody at a terminal sees while a statement takes long: for how long it has been running, how many rows of its tables it
//! has come by, and for how long it will go on.

use crate::readable::grouped;
use coeval::{CancelHandle, QueryProgress, RowWork};
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A statement that has taken so long says that it goes on.
const QUIET: Duration = Duration::from_secs(1);

/// How often it does.
const TICK: Duration = Duration::from_millis(100);

/// How many characters the bar has.
const BAR_WIDTH: u64 = 20;

/// The rest is not guessed before one row of so many has passed.
const GUESSED_FROM: u64 = 50;

/// Says on the standard error for how long a statement has been running, from when that is a second until this is dropped.
pub(super) struct Patience {
    over: Option<Sender<()>>,
    shown: Option<JoinHandle<()>>,
}

impl Patience {
    /// Of the statement that this session is about to run.
    pub(super) fn begin(session: CancelHandle) -> Self {
        let (over, until) = channel::<()>();
        let begun = Instant::now();
        let shown = std::thread::spawn(move || {
            if until.recv_timeout(QUIET) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            // Nothing is shown where the standard error is no terminal.
            let bar = ProgressBar::new_spinner().with_style(style());
            let (mut counted, mut since) = (None, begun);
            while until.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let progress = session.progress();
                let counts = progress.map(|progress| (progress.work, progress.rows));
                // The pace of what was done before says nothing of what comes.
                if counted.is_some() && counted != counts {
                    since = Instant::now();
                }
                counted = counts.or(counted);
                bar.set_message(told(begun.elapsed(), since.elapsed(), progress));
                bar.tick();
            }
            bar.finish_and_clear();
        });
        Self { over: Some(over), shown: Some(shown) }
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {wide_msg}").expect("the template is one")
}

/// The line; rows have been counted for so long. What takes longer to be read stands further behind: a narrow terminal cuts it off.
fn told(running: Duration, counting: Duration, progress: Option<QueryProgress>) -> String {
    let running_for = format!("running for {} s", running.as_secs());
    let Some(QueryProgress { work, passed, rows }) = progress.filter(|progress| progress.rows > 0) else {
        return format!("{running_for}, Ctrl-C ends it");
    };
    let passed = passed.min(rows);
    let filled = usize::try_from(u128::from(passed) * u128::from(BAR_WIDTH) / u128::from(rows)).unwrap_or(0);
    let width = usize::try_from(BAR_WIDTH).unwrap_or(0);
    let bar = format!("{:<width$}", "=".repeat(filled));
    let left = seconds_left(counting, passed, rows);
    let left = left.map_or_else(String::new, |seconds| format!(", about {seconds} s left"));
    let (passed, rows) = (grouped(passed), grouped(rows));
    let done = match work {
        RowWork::Reading => "",
        RowWork::Writing => " written",
    };
    format!("[{bar}] {passed} of {rows} rows{done}{left}, {running_for}, Ctrl-C ends it")
}

/// For how long the rest of the rows will take at the pace that the others had; nothing at their beginning, and behind their end.
fn seconds_left(counting: Duration, passed: u64, rows: u64) -> Option<u64> {
    if passed < rows / GUESSED_FROM || passed == 0 || passed >= rows {
        return None;
    }
    let times = (rows - passed) as f64 / passed as f64;
    Some(counting.mul_f64(times).as_secs() + 1)
}

impl Drop for Patience {
    fn drop(&mut self) {
        // What is printed next begins on a line without it.
        drop(self.over.take());
        if let Some(shown) = self.shown.take() {
            let _ = shown.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_that_takes_long_says_how_far_it_is_and_what_is_left() {
        let after =
            |seconds, progress| told(Duration::from_secs(seconds), Duration::from_secs(seconds), progress);
        let of = |passed| Some(QueryProgress { work: RowWork::Reading, passed, rows: 4_000_000 });
        assert_eq!(after(3, None), "running for 3 s, Ctrl-C ends it");
        assert_eq!(after(3, Some(QueryProgress::default())), "running for 3 s, Ctrl-C ends it");
        assert_eq!(
            after(5, of(1_000_000)),
            "[=====               ] 1,000,000 of 4,000,000 rows, about 16 s left, running for 5 s, Ctrl-C ends it"
        );
        // Too early to guess, and too late.
        assert!(!after(2, of(1_000)).contains("left"));
        assert!(
            after(2, of(4_000_000))
                .starts_with("[====================] 4,000,000 of 4,000,000 rows, running")
        );
        // What is written has a pace of its own.
        let written = Some(QueryProgress { work: RowWork::Writing, passed: 500, rows: 1_000 });
        let told = told(Duration::from_secs(9), Duration::from_secs(2), written);
        assert!(
            told.ends_with("500 of 1,000 rows written, about 3 s left, running for 9 s, Ctrl-C ends it"),
            "{told}"
        );
    }
}
