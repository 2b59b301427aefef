// SPDX-License-Identifier: Apache-2.0
//! What can be seen of a cluster from one of its nodes, for who asks the database.

/// A node of the cluster, as the asked one knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNodeStatus {
    /// Its number.
    pub node: u32,
    /// Where the others reach it; nothing of one that was removed.
    pub address: Option<String>,
    /// Whether it is the asked one, that with the keeper of views, or another one.
    pub roles: ClusterNodeRoles,
    /// How it stands with it.
    pub state: ClusterNodeState,
    /// How it stands with the connection by which messages go to it, in a word; `None` of the asked one.
    pub connection: Option<String>,
    /// Bytes of messages that wait for it.
    pub queued_bytes: u64,
    /// Why there was no connection the last time that there was none.
    pub last_error: Option<String>,
    /// Bytes of bricks that have come to the asked one since it has started, or come back; `None` of others.
    pub copied_bytes: Option<u64>,
}

/// What of the bricks a node has, as it says itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterNodeShare {
    /// Bricks with rows of which it has all that is decided.
    pub bricks: u64,
    /// Their rows, whoever sees them.
    pub rows: u64,
    /// The bytes of memory that they take.
    pub bytes: u64,
    /// Bricks that are on their way to it; nothing if not all nodes have been heard that give some.
    pub to_come: Option<u64>,
}

/// Which node it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterNodeRoles {
    /// It is the one that was asked.
    pub is_own: bool,
    /// The keeper of views is there: deletes run there.
    pub has_keeper: bool,
}

/// How it stands with a node, by the view that the asked one is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterNodeState {
    /// It takes part, and has all its bricks.
    Live,
    /// It takes part, and its bricks are on their way to it.
    Joining,
    /// The cluster goes on without it.
    Away,
    /// It takes part, and its bricks are on their way to others.
    Draining,
    /// It has no bricks, and gets none: it may be stopped, or removed.
    Drained,
    /// It is out for good.
    Removed,
    /// The asked node does not know: it is starting, or has ended.
    Unknown,
}

impl ClusterNodeState {
    /// Its name, in a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Joining => "joining",
            Self::Away => "away",
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Removed => "removed",
            Self::Unknown => "unknown",
        }
    }
}

/// What a node counts and measures of itself, as of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFigures {
    /// The number of the view that it is at.
    pub view: u64,
    /// How many nodes are in it.
    pub members: u64,
    /// The clock: the next epoch.
    pub clock: u64,
    /// The latest committed epoch (LCE), up to which everything is seen.
    pub latest_committed: u64,
    /// The latest safe epoch (LSE), behind which nobody reads and everything is flushed.
    pub latest_safe: u64,
    /// How many epochs of the cluster LCE is behind the clock.
    pub latest_committed_lag: u64,
    /// Transactions that are under way anywhere, as far as it knows.
    pub pending: u64,
    /// Loads of its own clients that are under way.
    pub open_loads: u64,
    /// Bytes of bricks that have come to it, since it has started or come back.
    pub copied_bytes: u64,
    /// Messages that wait for its disk.
    pub waiting_for_disk: u64,
    /// Messages that were not sent since too much waited for that node, and those that came and made no sense.
    pub lost: ClusterLostMessages,
    /// Messages by their kind, since the node has started, or come back.
    pub messages: Vec<ClusterMessageFigures>,
}

/// Messages that came to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterLostMessages {
    /// Too much waited for the node that they were for. They are sent again.
    pub not_taken: u64,
    /// They came, and were refused.
    pub refused: u64,
}

/// Messages of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterMessageFigures {
    /// The name of the kind.
    pub kind: &'static str,
    /// How many were sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// How many came.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
}
