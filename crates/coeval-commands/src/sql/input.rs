// SPDX-License-Identifier: Apache-2.0
//! What a session is given to read: a file, a pipe, or what somebody types.

use super::branches::Branches;
use super::splitter::{Splitter, Waiting};

/// Text that comes in line by line, and what it is in the middle of.
pub(crate) struct Input {
    pub(super) splitter: Splitter,
    pub(super) branches: Branches,
}

impl Input {
    /// Nothing has come in yet.
    pub(super) fn new() -> Self {
        Self { splitter: Splitter::new(), branches: Branches::default() }
    }

    /// What the text so far waits for.
    pub(super) fn waiting(&self) -> Waiting {
        if self.branches.is_run() { self.splitter.waiting() } else { Waiting::Branch }
    }

    /// The next line is the first one again.
    pub(super) fn count_anew(&mut self) {
        self.splitter = Splitter::new();
    }

    /// Drops what has not been run, and leaves the branch that is not run, if there is one.
    pub(super) fn interrupt(&mut self) {
        if !self.branches.is_run() {
            eprintln!("\\if: escaped");
            self.branches.leave();
        }
        if self.branches.is_run() {
            self.splitter = Splitter::new();
        } else {
            self.splitter.clear();
        }
    }
}
