// SPDX-License-Identifier: Apache-2.0
//! What can go wrong, by who is told: [`LoadError`], [`CodesError`], [`ReadError`], [`ChangeNodesError`].

use crate::node::NodeId;
use crate::node_address::NodeAddress;
use crate::tables::RowsRefused;
use crate::texts::NoText;
use coeval_txn::Epoch;
use coeval_txn::cluster::{ChangeError, DictionaryError, DictionaryId, RecoverError};
use std::sync::Arc;
use std::time::Duration;

/// Why a load does not go on. Each says what became of its rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The node is not in the view, or is just coming back. No load has begun. Another node may take it, or this one later.
    #[error("the node does not serve yet, after {} ms", after.as_millis())]
    NotServing {
        /// How long was waited.
        after: Duration,
    },
    /// Deletes are for another node. None has begun.
    #[error("deletes run on {keeper} alone, where the keeper of the views is")]
    NotPrimary {
        /// That node.
        keeper: NodeId,
        /// Where it is, if that is known.
        address: Option<NodeAddress>,
    },
    /// Rows of one append are more than a message may have. They were not taken; the load goes on without them.
    #[error("{bytes} bytes of rows are more than the {limit} that one append may have")]
    TooLong {
        /// How many there are.
        bytes: usize,
        /// How many may be.
        limit: usize,
    },
    /// They are no rows of that brick. They were not taken; the load goes on without them.
    #[error(transparent)]
    Refused(RowsRefused),
    /// There are no codes for their texts. The rows were not taken; the load goes on without them. Codes that were given stay.
    #[error(transparent)]
    Codes(#[from] CodesError),
    /// Loads are one transaction with rows of the primary alone, and that is elsewhere by now. Nothing of the load is left or will be seen.
    #[error(
        "load {epoch} is rolled back: the primary, with whose rows it was to be one transaction, is {keeper} by now"
    )]
    OtherPrimary {
        /// The load.
        epoch: Epoch,
        /// The node of the keeper of the views, which is beside the primary.
        keeper: NodeId,
    },
    /// A load that was to be one transaction with rows waited for too long for older ones to end. Nothing of it is left or will be seen; it
    /// may be run again.
    #[error("load {epoch} is rolled back: loads and deletes that began before it have not ended for {} ms", after.as_millis())]
    NotNamed {
        /// The load.
        epoch: Epoch,
        /// How long was waited.
        after: Duration,
    },
    /// The load is rolled back, since the last holder of one of its bricks is gone or has lost rows. Nothing of it is left or
    /// will be seen; it may be run again.
    #[error("load {0} is rolled back: a holder of its bricks is gone or has lost rows")]
    RolledBack(Epoch),
    /// The node has left the view, or has ended, before the load was decided. It commits as a whole or not at all, as the keeper
    /// records: its rows tell.
    #[error("nobody here knows how load {0} ends: {1}")]
    Unknown(Epoch, String),
    /// The node has ended. No load has begun.
    #[error("the node has ended: {0}")]
    Ended(String),
}

/// Why there are no codes for texts. Those that were given stay, so whoever asks again gets the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodesError {
    /// They are not given, or not in time.
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
    /// The dictionary has given all its codes. Those of other texts stay, and rows that have these alone are taken.
    #[error("{dictionary} is full, so \"{text}\" gets no code")]
    Full {
        /// The dictionary.
        dictionary: DictionaryId,
        /// The text, or the first of several.
        text: Arc<str>,
    },
    /// The life of the node is over. Another node may be asked, or this one later.
    #[error("the node has ended: {0}")]
    Ended(String),
}

/// Why a reader gets no rows. Reading changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The node is not in the view, or is just coming back. Another node may give a snapshot, or this one later.
    #[error("the node does not serve yet, after {} ms", after.as_millis())]
    NotServing {
        /// How long was waited.
        after: Duration,
    },
    /// There is no such table here.
    #[error("table {0} is not declared here")]
    NoTable(u64),
    /// Nobody who has the brick could be asked. The snapshot stays; it may be tried again.
    #[error("brick {brick} of table {table} was not to be had for {} ms: {last}", after.as_millis())]
    NotToBeHad {
        /// The table.
        table: u64,
        /// The brick.
        brick: u64,
        /// How long was tried.
        after: Duration,
        /// What the last one who was asked has answered.
        last: String,
    },
    /// Too few of those who have bricks could be asked which of a table there are. The snapshot stays; it may be tried again.
    #[error("the bricks of table {table} were not to be had for {} ms: {last}", after.as_millis())]
    NotListed {
        /// The table.
        table: u64,
        /// How long was tried.
        after: Duration,
        /// What the last one who was asked has answered.
        last: String,
    },
    /// A row has a code of which this node does not know the text. This comes of no failure that the protocol is for.
    #[error(transparent)]
    NoText(#[from] NoText),
    /// Another node has not run a piece of a query to its end. The snapshot stays; the bricks may be read in another way.
    #[error("{node} has not done its piece: {why}")]
    NotRun {
        /// The node.
        node: NodeId,
        /// What it has answered, or what has become of the answer.
        why: String,
    },
    /// A piece of another node's query reads a brick that others serve by now.
    #[error("brick {brick} of table {table} is not served here at that view")]
    NotHere {
        /// The table.
        table: u64,
        /// The brick.
        brick: u64,
    },
    /// What tells the snapshot from later ones is gone: its node was out of the view.
    #[error("the snapshot is older than what is kept")]
    BelowSafe,
    /// The life of the node that gave the snapshot is over.
    #[error("the node that gave the snapshot is not there any more: {0}")]
    Ended(String),
}

/// Why a node is not drained, or not removed, or no keeper begins without lost ones. Nothing has changed, unless it is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeNodesError {
    /// The keeper of the views is on another node: ask there.
    #[error("the keeper of the views is on {keeper}{}: ask there", at(address.as_ref()))]
    Elsewhere {
        /// That node.
        keeper: NodeId,
        /// Where it is, if that is known.
        address: Option<NodeAddress>,
    },
    /// The keeper does not run, or has too much to do to answer. It may be asked again.
    #[error("the keeper of the views does not run here, or has too much to do: ask again")]
    NoKeeper,
    /// Too few nodes answer the keeper for it to begin, or to record anything. It may be done yet: asking again does no harm.
    #[error("too few nodes have answered the keeper of the views for {} ms: what was asked for may be done later", after.as_millis())]
    NotSettled {
        /// How long was waited.
        after: Duration,
    },
    /// Without that node there would be no keeper.
    #[error("{0} has the keeper of the views, and cannot be removed")]
    HasKeeper(NodeId),
    /// The keeper refuses.
    #[error(transparent)]
    Refused(#[from] ChangeError),
    /// The keeper does not begin without nodes that are said to be lost.
    #[error(transparent)]
    NotRecovered(#[from] RecoverError),
}

fn at(address: Option<&NodeAddress>) -> String {
    address.map_or_else(String::new, |address| format!(" at {address}"))
}
