// SPDX-License-Identifier: Apache-2.0
//! Ctrl-C, and being asked to end: noted once, obeyed at once the second time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a run that ends early says.
pub(crate) const STOPPING: &str = "Stopping; Ctrl-C once more stops at once.";

/// The code of a program that Ctrl-C ended, as shells know it.
pub(crate) const INTERRUPTED: i32 = 130;

/// Whether the program was asked to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// From now on the first Ctrl-C (or SIGTERM, or SIGHUP) is noted here and answered with this notice; the second
    /// ends the program. Where the system does not let us, the first one does.
    pub(crate) fn watch(notice: &'static str) -> Self {
        Self::watch_and(notice, || {})
    }

    /// The same, and the first one does this.
    pub(crate) fn watch_and(notice: &'static str, act: impl Fn() + Send + 'static) -> Self {
        let interrupt = Self::default();
        let asked = Arc::clone(&interrupt.asked);
        let _ = ctrlc::set_handler(move || {
            if asked.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED);
            }
            eprintln!("\n{notice}");
            act();
        });
        interrupt
    }

    /// Set when it was.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// The next Ctrl-C is a first one again.
    pub(crate) fn forget(&self) {
        self.asked.store(false, Ordering::Relaxed);
    }

    /// Whether it was.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
