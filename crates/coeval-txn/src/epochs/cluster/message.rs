// SPDX-License-Identifier: Apache-2.0
//! What nodes say to each other. Each request is answered, and sent again until it is.
//!
//! A request is known by its kind, its transaction and (for an append) its number; answers repeat these. Nothing else
//! has to be remembered about messages: whoever receives one twice does the work once and answers twice.

use std::sync::Arc;

use super::view::{BrickAddress, CommittedEpoch, EpochKind, Member, ViewNumber};
use crate::epochs::Epoch;

/// A message between nodes, in its envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<R> {
    /// Who sent it, in which life.
    pub from: Member,
    /// Whom it is for, in which life.
    pub to: Member,
    /// The sender's view. Only who is at the same view takes the message.
    pub view: ViewNumber,
    /// The sender's EC (Lamport's clock, AOSI IV-A).
    pub clock: Epoch,
    /// What it says.
    pub body: Body<R>,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<R> {
    /// A transaction has begun. Answer: [`Body::Begun`].
    Begin(Epoch, EpochKind),
    /// Rows for a brick of the receiver's; also says that the transaction has begun. Answer: [`Body::Appended`].
    Append {
        /// The transaction.
        epoch: Epoch,
        /// The place of this append in the transaction.
        number: u32,
        /// Where the rows belong.
        brick: BrickAddress,
        /// The rows, as the caller has them.
        rows: R,
    },
    /// The transaction is complete. Answer: [`Body::CommitLogged`], or [`Body::RowsMissing`].
    Commit(Epoch, CommitTerms),
    /// The transaction will not commit: remove its rows and take no more. Answer: [`Body::CutLogged`].
    Cut(Epoch),
    /// All holders have logged the commit. Answer: [`Body::Heard`].
    Decided(CommittedEpoch),
    /// The rows of a transaction that did not commit are gone everywhere. Answer: [`Body::Heard`].
    Ended(Epoch),
    /// A new incarnation, or one that bricks come to, asks what it has missed. Answer: [`Body::Met`].
    Meet,

    /// What is known where a transaction's begin was heard of.
    Begun(Epoch, Pending),
    /// The append of this number has arrived.
    Appended(Epoch, u32),
    /// Rows and commit are in the log, on disk.
    CommitLogged(Epoch),
    /// The sender does not have all rows: it lost some in a crash. The transaction cannot commit.
    RowsMissing(Epoch),
    /// The rows are gone from the log's replay too, on disk.
    CutLogged(Epoch),
    /// The end of the transaction is known.
    Heard(Epoch),
    /// What the answering node knows to have ended; and which loads it coordinates that began before members and places
    /// of bricks were these.
    Met(Standing, Vec<Epoch>),
    /// The sender promises: no reader of its will see less than everything up to this epoch, and everything up to it is
    /// in files. Said now and then, and not answered.
    Floor(Epoch),
    /// The sender is at a later view than the message that this answers.
    Newer,
}

/// What a holder writes into its log when it answers a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitTerms {
    /// What the transaction does.
    pub kind: EpochKind,
    /// How many appends the receiver has, if it has all.
    pub appends: u32,
    /// What was pending when the transaction began.
    pub dependencies: Arc<[Epoch]>,
    /// All that are asked: the live replicas of the transaction's bricks.
    pub holders: Arc<[Member]>,
}

/// What is pending and what is not any more, for who begins (AOSI IV-C).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The epochs pending at the answering node.
    pub pending: Vec<Epoch>,
    /// Its LCE: whatever is not above it has ended.
    pub latest_committed: Epoch,
    /// Those above LCE that it knows to be decided.
    pub committed: Vec<Epoch>,
}

/// What a node knows to have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Its LCE.
    pub latest_committed: Epoch,
    /// What is decided above LCE.
    pub committed: Vec<CommittedEpoch>,
    /// What was rolled back above LCE.
    pub rolled_back: Vec<Epoch>,
    /// The deletes that its declared readers may have to stay below, each with an epoch up to which it sees everything.
    pub deletes: Vec<(Epoch, Epoch)>,
    /// Its LSE.
    pub latest_safe: Epoch,
}
