// SPDX-License-Identifier: Apache-2.0
//! What a node writes into its own log, and what it asks of its caller.

use super::keeper::ToKeeper;
use super::message::{CommitTerms, Message};
use super::view::{BrickAddress, Incarnation, Member, ViewNumber};
use crate::epochs::{Epoch, EpochSet};

/// A record of a node's own log. Its bricks are what a replay of `Append` and `Cut` makes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRecord<R> {
    /// The first record of each incarnation.
    Started(Incarnation),
    /// The first that is logged of a transaction: which incarnation of its node coordinates it.
    Began(Epoch, Incarnation),
    /// Rows of a transaction: they go to the end of the brick, labelled with the epoch.
    Append {
        /// The transaction.
        epoch: Epoch,
        /// The place of this append in it.
        number: u32,
        /// The brick.
        brick: BrickAddress,
        /// The rows.
        rows: R,
    },
    /// All rows of the transaction are here, and it commits if its coordinator lives or the keeper's record says so.
    Commit(Epoch, CommitTerms),
    /// The rows of the transaction are removed from all bricks.
    Cut(Epoch),
    /// The brick as another node has it: what is here of the epochs in `ended` makes room for it. Rows of other epochs
    /// have come here by themselves, and stay.
    Copied {
        /// The brick.
        brick: BrickAddress,
        /// What had ended when the copy was asked for.
        ended: EpochSet,
        /// The rows of these epochs, by label.
        rows: Vec<(Epoch, R)>,
    },
    /// The node comes back to a view that went on without it: what is logged above of transactions that have not ended
    /// counts no more. Their numbers may come again.
    Forgotten,
    /// LSE: nobody reads below it, and everything up to it is in files, everywhere.
    Safe(Epoch),
    /// LCE: what is not above it has ended. A restart that lost the last of these learns it again. Those from before the
    /// node said that its bricks are there are on disk, and have to be: README, "Moves".
    Latest(Epoch),
}

/// What the caller has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<R> {
    /// Append to the node's log, and apply to its bricks at once.
    Log(LogRecord<R>),
    /// Send. It may be lost, come late or twice: what matters is sent again by [`resend`](super::ClusterNode::resend).
    Send(Message<R>),
    /// Send, but not before all records given so far are on disk. It promises something that a crash must not undo.
    SendOnceLogged(Message<R>),
    /// The same, to the keeper of the views.
    TellKeeperOnceLogged(ToKeeper),
    /// Ask this node, at this view, for each brick that it [gives](super::ClusterNode::gives) to this one, hand it over
    /// with [`copied`](super::ClusterNode::copied), and when all are there call
    /// [`copied_all`](super::ClusterNode::copied_all). Asked again with each resend.
    ///
    /// A brick of which the giver has nothing is handed over too, without rows, if anything is here of it: that may be
    /// left of a transaction that was rolled back while this node was away. And labels of what is handed over may be
    /// below what this node has said to be [flushed](super::ClusterNode::flushed): the log is kept until it is in files.
    Copy {
        /// Who gives.
        from: Member,
        /// At which view.
        view: ViewNumber,
    },
    /// Tell the user how a transaction has ended.
    Tell(LoadOutcome),
    /// Somebody is at this view: fetch the keeper's records up to it.
    Fetch(ViewNumber),
}

/// How a transaction has ended, as its user is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOutcome {
    /// The transaction.
    pub epoch: Epoch,
    /// How it ended.
    pub fate: LoadFate,
}

/// How a transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadFate {
    /// Decided: it is in the logs of all live replicas of its bricks, and survives what fewer nodes than `replicas` do.
    Committed,
    /// Nothing of it is left or will ever be seen. It may be run again.
    RolledBack,
    /// The coordinator is out of the view; the keeper's record will tell.
    Unknown,
}
