// SPDX-License-Identifier: Apache-2.0
//! What nodes say about dictionaries. Requests are sent again until they are answered; each may come twice.

use std::sync::Arc;

use super::names::{Code, DictionaryId, GivenText};
use crate::epochs::cluster::view::{Member, ViewNumber};

/// A message about one dictionary, in its envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryMessage {
    /// Who sent it, in which life.
    pub from: Member,
    /// Whom it is for, in which life.
    pub to: Member,
    /// The layout of the sender's view: that tells who the owner is. Only who is in the same one takes the message.
    pub layout: ViewNumber,
    /// Which dictionary.
    pub dictionary: DictionaryId,
    /// What it says.
    pub body: DictionaryBody,
}

/// Why somebody asks for codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A load has these texts: those without a code get one.
    Give,
    /// A reader looks for these texts: those without a code are in no row that the reader may see.
    Find,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DictionaryBody {
    /// Somebody asks the owner for the codes of texts. Answer: [`DictionaryBody::Codes`].
    Ask {
        /// The number of the ask in the asker's life.
        number: u64,
        /// Why.
        purpose: Purpose,
        /// The texts.
        texts: Arc<[Arc<str>]>,
    },
    /// The codes of the texts of an ask, in their order, on the disks of all holders. `None`: the text has none, and if it
    /// should have got one, the dictionary is full.
    Codes {
        /// The ask.
        number: u64,
        /// One for each text.
        codes: Vec<Option<Code>>,
    },
    /// The owner tells a holder a part of its list. Answer: [`DictionaryBody::Logged`], or [`DictionaryBody::Differs`].
    Give {
        /// How many texts are before this part.
        after: u32,
        /// The layout of the last one of these.
        previous: Option<ViewNumber>,
        /// The part; it may be empty.
        texts: Vec<GivenText>,
        /// The length of the whole list.
        length: u32,
    },
    /// The sender has the owner's list up to here, on disk.
    Logged {
        /// So many texts.
        through: u32,
    },
    /// The sender has not what comes before the part, or something else.
    Differs {
        /// Before which part.
        after: u32,
        /// So many texts it has, at most `after`.
        have: u32,
    },
}
