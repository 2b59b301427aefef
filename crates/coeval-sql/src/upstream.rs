// SPDX-License-Identifier: Apache-2.0
//! The primary that a replica follows, as `pg_stat_wal_receiver` and the metrics show it. The code that follows is above this
//! crate, and reports here.

use crate::error::SqlError;
use coeval_store::LastWord;
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
    /// The slot that it follows by.
    pub slot: Option<String>,
    /// What the primary has said last, since this server runs.
    pub last_word: Option<LastWord>,
}

/// What is to become of commits that a promotion cannot vouch for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromotionLoss {
    /// The replica is not promoted then.
    Refused,
    /// They are given up.
    Accepted,
}

/// Tells how far a replica is.
pub trait Upstream: Send + Sync {
    /// Where it stands now. Costs a lock that is held for moments.
    fn status(&self) -> UpstreamStatus;

    /// Asks the other machines for what a promotion of the replica needs, for some seconds at most. Once that is there, the server
    /// can be asked to promote it.
    ///
    /// # Errors
    /// `55000`, saying why not: it is a replica as before.
    fn stand_for_promotion(&self, loss: PromotionLoss) -> Result<(), SqlError>;
}
