// SPDX-License-Identifier: Apache-2.0
//! [`StartError`]: why a node, or the keeper on it, does not start.

use crate::log::LogError;
use crate::node::NodeId;
use crate::transport::ConfigurationError;
use std::time::Duration;

/// Why a node does not start. What it keeps has not changed, but for a torn end of its log that is cut off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Its log cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Its connections cannot be set up.
    #[error(transparent)]
    Transport(#[from] ConfigurationError),
    /// There are no threads to be had for bricks.
    #[error("no thread for bricks: {0}")]
    Threads(std::io::Error),
    /// Its number is not one of those that epochs are handed out for.
    #[error("n{number} is not one of the {stride} nodes that this cluster has epochs for")]
    Number {
        /// Its number.
        number: u32,
        /// How many there are.
        stride: u32,
    },
    /// The cluster is to be founded, and has been already.
    #[error("the node holds records of a keeper already: the cluster has been founded")]
    Founded,
    /// The records that the node holds for keepers cannot be read.
    #[error("the log of what the node holds for keepers of views has something else in it")]
    KeeperLog,
    /// The node was removed from its cluster for good. Nothing of what it keeps is needed any more.
    #[error("{0} was removed from the cluster; to belong to it again, it joins with an empty directory")]
    Removed(NodeId),
    /// The node did not come so far in time.
    #[error("the node is not ready after {} ms", after.as_millis())]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
    /// The node has ended.
    #[error("the node has ended: {0}")]
    Ended(String),
}
