// SPDX-License-Identifier: Apache-2.0
//! The primary that a replica follows, as `pg_stat_wal_receiver` and the figures show it. Who follows is above this crate, and
//! tells it here.

use coeval_store::log::Lsn;

/// What a replica is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamState {
    /// It takes the log as it comes.
    Streaming,
    /// It takes the log from an archive.
    Archive,
    /// It is not connected, and tries to be.
    Waiting,
    /// It does not follow any more.
    Stopped,
}

impl UpstreamState {
    /// As `pg_stat_wal_receiver` names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::Archive => "archive",
            Self::Waiting => "waiting",
            Self::Stopped => "stopped",
        }
    }
}

/// Where a replica stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamStatus {
    /// What it is about.
    pub state: UpstreamState,
    /// Why it is not connected, or does not follow any more.
    pub reason: Option<String>,
    /// Where the primary is.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// In its log.
    pub written: Lsn,
    /// Durable there.
    pub flushed: Lsn,
}

/// Who knows where a replica stands.
pub trait Upstream: Send + Sync {
    /// Where it stands now. Costs a lock that is held for moments.
    fn status(&self) -> UpstreamStatus;
}
