// SPDX-License-Identifier: Apache-2.0
//! Why the program ends with another code than 0, and what it says then.

use std::fmt;
use std::io;

/// What went wrong. Said in one line on stderr: what, where, what to do.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line asks for something that cannot be: code 2.
    Usage(String),
    /// The work failed: code 1.
    Work(String),
    /// As `Work`, but everything has been said already.
    Said,
    /// The work is done, and data was lost for it, which has been said: code 3.
    Lost,
    /// Whoever read the output has gone, as `head` does: no failure of ours.
    NobodyReads,
}

impl Failure {
    /// The work failed while doing this.
    pub(crate) fn work(doing: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::Work(format!("{doing}: {error}"))
    }

    /// Says what there is to say; the code to end with.
    pub(crate) fn report(&self) -> u8 {
        match self {
            Self::Usage(message) => {
                eprintln!("coeval: {message}\nTry `coeval --help`.");
                2
            }
            Self::Work(message) => {
                eprintln!("coeval: {message}");
                1
            }
            Self::Said => 1,
            Self::Lost => 3,
            Self::NobodyReads => 0,
        }
    }
}

/// Errors of writing the program's own output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => Self::work("cannot write the output", error),
        }
    }
}
