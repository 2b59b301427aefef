// SPDX-License-Identifier: Apache-2.0
//! What a node logs of dictionaries, what it asks of its caller, and what its users are told.

use std::sync::Arc;

use super::message::DictionaryMessage;
use super::names::{Code, DictionaryId, GivenText, Spelling};
use crate::epochs::cluster::view::NodeId;

/// A record of the node's own log, among those of the epochs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DictionaryRecord {
    /// A part of a holder's list. What the list had from here on makes room for it.
    Given {
        /// The dictionary.
        dictionary: DictionaryId,
        /// How many texts are before it.
        after: u32,
        /// The part.
        texts: Vec<GivenText>,
    },
    /// Codes that this node has been told, of whichever dictionary. They stay.
    Learned {
        /// The dictionary.
        dictionary: DictionaryId,
        /// The codes with their texts.
        spellings: Vec<Spelling>,
    },
}

/// What the caller has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DictionaryEffect {
    /// Append to the node's log: before all that is logged later, of dictionaries or of epochs.
    Log(DictionaryRecord),
    /// Send. It may be lost, come late or twice.
    Send(DictionaryMessage),
    /// Send, but not before all records given so far are on disk.
    SendOnceLogged(DictionaryMessage),
    /// Tell the user how an ask has ended.
    Tell(AskId, AskOutcome),
}

/// An ask of this life of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub(super) u64);

/// What became of an ask at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Asked {
    /// All texts are known here: nobody was asked.
    Nobody,
    /// The owner is asked; [`DictionaryEffect::Tell`] says how that ends.
    Owner(AskId),
}

/// How an ask has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskOutcome {
    /// What has a code is known here now.
    Answered {
        /// The texts that have none. If they should have got one, the dictionary is full.
        without: Vec<Arc<str>>,
    },
    /// No answer has come, or none that can be right. Nothing is wrong with asking again; a text may have got its code.
    Failed(DictionaryError),
}

/// Why codes are not given, found or taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DictionaryError {
    /// Nobody has declared the dictionary to this node. Nothing has happened.
    #[error("{0} is not declared on this node")]
    NotDeclared(DictionaryId),
    /// The view does not have this node, or not in this life. Nothing has happened; ask through another node.
    #[error("the node is not in the view")]
    OutOfView,
    /// More unknown texts than one message takes. Nothing has happened; ask for fewer at once.
    #[error("{count} new texts at once, at most {max}")]
    TooManyTexts {
        /// So many.
        count: usize,
        /// So many are taken.
        max: usize,
    },
    /// A text is too long. Nothing has happened.
    #[error("a text of {bytes} bytes, at most {max}")]
    TextTooLong {
        /// Its length.
        bytes: usize,
        /// The greatest length.
        max: usize,
    },
    /// No live node has all of the dictionary: that ends when one of its holders comes back.
    #[error("no live node gives codes of {0}")]
    NoOwner(DictionaryId),
    /// The owner does not answer: it is down or cut off, or waits for another holder that is.
    #[error("{owner}, which gives the codes of {dictionary}, does not answer")]
    Silent {
        /// The dictionary.
        dictionary: DictionaryId,
        /// Its owner.
        owner: NodeId,
    },
    /// A code would have two texts, or a text two codes. This comes of no failure that the protocol is for: what said so
    /// is damaged, and is not taken.
    #[error("code {} of {dictionary} has another meaning here", .code.get())]
    TwoMeanings {
        /// The dictionary.
        dictionary: DictionaryId,
        /// The code.
        code: Code,
    },
}
