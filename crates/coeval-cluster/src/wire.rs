// SPDX-License-Identifier: Apache-2.0
//! The binary form of what nodes say to each other and write down.
//!
//! ```text
//!   a value:   version (1 byte) | the value
//!   u64, u32   LEB128: seven bits a byte, the lowest first, ten bytes at most
//!   epoch      u64, at most 2^62
//!   bytes      length | bytes
//!   list       count | elements
//!   one of     kind (1 byte) | its parts
//!   messages   in a frame with several: 1 | message, for each | 0
//!   epoch set  newest | count | distances between the exceptions, ascending
//! ```
//! Whatever bytes come: [`decode`] gives a value that the protocol may be handed, or says why not. So it checks also what the
//! protocol asserts of a message and who is to blame for would be the sender: that a commit asks whom it names, that what
//! something depends on is older. A value ends where its bytes end. No length is believed before that many bytes are there.
//!
//! | file | what it is |
//! |---|---|
//! | `writer.rs`, `reader.rs` | numbers and bytes |
//! | `epochs.rs` | epochs, sets of them, what is known of transactions |
//! | `change.rs` | what transactions do to bricks, and texts that go with it |
//! | `views.rs` | members, views, what the keeper is told and writes |
//! | `whole.rs` | a record of the keeper that stands for many |
//! | `succession.rs` | what keepers and nodes say of records, and what nodes have on disk of them |
//! | `message.rs` | messages of the protocol |
//! | `record.rs` | records of a node's log |
//! | `dictionaries.rs` | messages and records of dictionaries, texts of rows |
//! | `joining.rs` | what is asked and answered when a node wants to belong |
//! | `flushed.rs` | what a store writes to files of its own |
//! | `frame.rs` | what a frame between two nodes has in it |
//! | `message_frame.rs` | a frame with messages of the protocol, as it is filled |
//! | `request.rs` | requests for bricks, or for what is made of their rows, and their answers in parts |
//! | `share.rs` | what a node says of its part of the bricks |

mod change;
mod dictionaries;
mod epochs;
mod flushed;
mod frame;
mod joining;
mod message;
mod message_frame;
mod reader;
mod record;
mod request;
mod share;
mod succession;
mod views;
mod whole;
mod writer;

pub(crate) use flushed::{FlushedBrick, LogHead};
pub(crate) use frame::{Alive, Frame, FrameKind, FramedMessage};
pub(crate) use joining::{JoinAnswer, JoinRequest, MembershipRecord};
pub(crate) use message_frame::MessageFrame;
pub(crate) use reader::Reader;
pub(crate) use record::NodeRecord;
pub(crate) use request::{
    BrickAnswer, BrickRequest, PartAssembly, parts_of, parts_of_bricks, parts_of_texts,
};
pub(crate) use share::{BrickShare, Gift};
pub(crate) use succession::HeldRecord;

use bytes::Bytes;

/// The version of all that this program writes, and the only one that it reads.
const VERSION: u8 = 1;

/// Why bytes are no value of the kind that is expected. Nothing of them was taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// They end too soon.
    #[error("the bytes end within a value")]
    Cut,
    /// They do not end where the value ends.
    #[error("{0} bytes follow the value")]
    Surplus(usize),
    /// They are of another version.
    #[error("format {0} is not known here")]
    Version(u8),
    /// A choice is none of those that there are.
    #[error("there is no {what} of kind {kind}")]
    Kind {
        /// What is chosen.
        what: &'static str,
        /// The choice.
        kind: u8,
    },
    /// A number is larger than it can be.
    #[error("a number is out of range")]
    Range,
    /// The parts contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
}

/// A value with a binary form.
pub(crate) trait Wire: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);

    /// Takes a value.
    ///
    /// # Errors
    /// If there is none.
    fn take(from: &mut Reader) -> Result<Self, Malformed>;
}

/// The bytes of a value, with their version.
pub(crate) fn encode(value: &impl Wire) -> Vec<u8> {
    let mut out = Vec::new();
    encode_into(value, &mut out);
    out
}

/// Appends the bytes of a value, with their version.
pub(crate) fn encode_into(value: &impl Wire, out: &mut Vec<u8>) {
    out.push(VERSION);
    value.put(out);
}

/// The value that these bytes are.
///
/// # Errors
/// If they are none.
pub(crate) fn decode<T: Wire>(bytes: Bytes) -> Result<T, Malformed> {
    let mut from = Reader::new(bytes);
    match from.byte()? {
        VERSION => {}
        other => return Err(Malformed::Version(other)),
    }
    let value = T::take(&mut from)?;
    match from.left() {
        0 => Ok(value),
        surplus => Err(Malformed::Surplus(surplus)),
    }
}

#[cfg(test)]
mod tests;
