// SPDX-License-Identifier: Apache-2.0
//! How a database works: what whoever opens it chooses.

use crate::certifier::Certification;
use crate::snapshot::{Formulation, Layout};

/// When a transaction's versions are sent to the engine (3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// When a read needs them, and at commit.
    Buffered,
    /// At the end of each statement.
    AtOnce,
}

/// Which formulation reads are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The one that suits each statement.
    Chosen,
    /// Always this one.
    Always(Formulation),
}

/// Rules that can be switched off to see what they are good for. For tests: what results is no snapshot isolation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trials {
    /// Everybody commits.
    pub certification_is_off: bool,
    /// Each statement reads the newest state.
    pub snapshot_is_off: bool,
}

/// How a database works. The layout is the database's own and has to be the same each time.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where a version's commit timestamp is.
    pub layout: Layout,
    /// When versions are sent.
    pub writes: Writes,
    /// Where transactions are certified.
    pub certification: Certification,
    /// Which formulation reads are written in, unless a session says otherwise.
    pub reading: Reading,
    /// A checkpoint runs in the background when the caches hold so many versions; none if zero.
    pub checkpoint_at: usize,
    /// Nothing, but for tests.
    pub trials: Trials,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            layout: Layout::Stamped,
            writes: Writes::Buffered,
            certification: Certification::InEngine,
            reading: Reading::Chosen,
            checkpoint_at: 50_000,
            trials: Trials::default(),
        }
    }
}
