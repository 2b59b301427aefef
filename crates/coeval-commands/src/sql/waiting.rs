// SPDX-License-Identifier: Apache-2.0
//! What somebody at a terminal sees while a statement takes long.

use indicatif::{ProgressBar, ProgressStyle};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A statement that has taken so long says that it goes on.
const QUIET: Duration = Duration::from_secs(1);

/// How often it does.
const TICK: Duration = Duration::from_millis(100);

/// Says on the standard error for how long a statement has been running, from when that is a second until this is dropped.
pub(super) struct Patience {
    over: Option<Sender<()>>,
    shown: Option<JoinHandle<()>>,
}

impl Patience {
    pub(super) fn begin() -> Self {
        let (over, until) = channel::<()>();
        let begun = Instant::now();
        let shown = std::thread::spawn(move || {
            if until.recv_timeout(QUIET) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            // Nothing is shown where the standard error is no terminal.
            let bar = ProgressBar::new_spinner().with_style(style());
            while until.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                bar.set_message(format!("{:.0} s, Ctrl-C ends it", begun.elapsed().as_secs_f64()));
                bar.tick();
            }
            bar.finish_and_clear();
        });
        Self { over: Some(over), shown: Some(shown) }
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} running for {msg}").expect("the template is one")
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
