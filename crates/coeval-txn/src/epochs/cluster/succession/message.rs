// SPDX-License-Identifier: Apache-2.0
//! What keepers and nodes say to each other about records, and what nodes have on disk of that.

use std::collections::BTreeMap;

use crate::epochs::cluster::view::{Incarnation, KeeperPlace, KeeperTerm, NodeId, ViewNumber, ViewRecord};

/// What a keeper says to a node, that beside it among them. Said again until it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeeperSays {
    /// This keeper wants to begin. Answer: [`HolderBody::Has`].
    Ask(KeeperPlace),
    /// The records of this keeper, those that it has gone on after among them. Answer: [`HolderBody::Holds`].
    Hold {
        /// The keeper.
        keeper: KeeperPlace,
        /// Behind which view the records are: one that is settled for the receiver.
        after: ViewNumber,
        /// The terms of the keepers in its list that have begun without lost nodes, each with the number of its first record.
        recoveries: BTreeMap<ViewNumber, KeeperTerm>,
        /// All that the keeper has behind it.
        records: Vec<ViewRecord>,
        /// Up to here they are settled.
        settled: ViewNumber,
    },
}

impl KeeperSays {
    /// Who says it.
    #[must_use]
    pub fn keeper(&self) -> KeeperPlace {
        match self {
            Self::Ask(keeper) | Self::Hold { keeper, .. } => *keeper,
        }
    }
}

/// What a node says to a keeper that has said something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderSays {
    /// The node.
    pub from: NodeId,
    /// The first life since which its disk has what it holds.
    pub log_since: Incarnation,
    /// The keeper to whom it says so.
    pub to: KeeperTerm,
    /// What it says.
    pub body: HolderBody,
}

/// What a node says to a keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderBody {
    /// What it holds. It takes nothing more of keepers before the one that has asked.
    Has {
        /// The newest keeper on another node that it has promised that before, this one left aside.
        elsewhere: KeeperTerm,
        /// Up to here the records are settled for all that it knows.
        settled: ViewNumber,
        /// The records, from the first on.
        records: Vec<ViewRecord>,
    },
    /// It holds the records of this keeper up to here, and has them on disk.
    Holds {
        /// The last one; 0 if it holds none of this keeper's, or does not know what they come behind.
        through: ViewNumber,
        /// Up to here they are settled for all that it knows.
        settled: ViewNumber,
    },
    /// There is a newer keeper.
    Newer(KeeperTerm),
}

/// What a node has on disk of records, in the order in which it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderRecord {
    /// It takes nothing of earlier keepers.
    Promised(KeeperPlace),
    /// It holds these, which follow each other, and no others from the number of the first on. There is one.
    Held(Vec<ViewRecord>),
    /// The records up to here are settled. May be lost: it is learned again.
    Settled(ViewNumber),
}
