// SPDX-License-Identifier: Apache-2.0
//! What a frame between two nodes has in it.

use super::writer::put_list;
use super::{Malformed, Reader, Wire};
use crate::brick_change::BrickChange;
use coeval_txn::cluster::{
    Body, DictionaryMessage, HolderSays, KeeperSays, KeeperTerm, Member, Message, NodeId, ToKeeper,
    ViewNumber, ViewRecord,
};

/// What a frame between two nodes has in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A message of the protocol.
    Protocol(Message<BrickChange>),
    /// Messages of the protocol that were sent together: as if each had come by itself, one behind the other. [`MessageFrame`] makes it.
    ///
    /// [`MessageFrame`]: super::MessageFrame
    Several(Vec<FramedMessage>),
    /// What the keeper of the views is told.
    ToKeeper(ToKeeper),
    /// The sender lives. Whoever has followed more of the keeper's records answers with them.
    Alive(Alive),
    /// Records of the keeper, each the one after the one before.
    Records(Vec<ViewRecord>),
    /// A message about a dictionary.
    Dictionary(DictionaryMessage),
    /// A keeper asks what the receiver holds of records of views, or has it hold some.
    Keeper(KeeperSays),
    /// What a keeper is answered to that.
    Holder(HolderSays),
    /// The sender goes by another list of views than the receiver: the keeper of this term has begun without nodes that were said to be
    /// lost, and the receiver is one of them or has come in a view that was given up.
    OtherViews(KeeperTerm),
}

/// One of several messages in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FramedMessage {
    /// The message.
    pub(crate) message: Message<BrickChange>,
    /// How many bytes of the frame it takes.
    pub(crate) bytes: usize,
}

/// The kind of a frame with one message, and of one with several.
pub(super) const ONE: u8 = 0;
pub(super) const SEVERAL: u8 = 8;
/// What stands in front of each of several messages, and behind the last one.
pub(super) const ANOTHER: u8 = 1;
pub(super) const NO_MORE: u8 = 0;

/// What a node says now and then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alive {
    /// Who says so.
    pub(crate) member: Member,
    /// The view that it is at.
    pub(crate) followed: ViewNumber,
    /// The term of the last keeper up to there that has begun without lost nodes: whoever has the same there has all records the same.
    pub(crate) recovered: KeeperTerm,
    /// The members of that view that it has heard nothing from for too long.
    pub(crate) unheard: Vec<NodeId>,
}

impl Wire for Frame {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Protocol(message) => {
                out.push(ONE);
                message.put(out);
            }
            Self::Several(messages) => {
                out.push(SEVERAL);
                for FramedMessage { message, .. } in messages {
                    out.push(ANOTHER);
                    message.put(out);
                }
                out.push(NO_MORE);
            }
            Self::ToKeeper(told) => {
                out.push(1);
                told.put(out);
            }
            Self::Alive(alive) => {
                out.push(2);
                alive.member.put(out);
                alive.followed.put(out);
                alive.recovered.put(out);
                put_list(out, &alive.unheard);
            }
            Self::Records(records) => {
                out.push(3);
                put_list(out, records);
            }
            Self::Dictionary(message) => {
                out.push(4);
                message.put(out);
            }
            Self::Keeper(said) => {
                out.push(5);
                said.put(out);
            }
            Self::Holder(said) => {
                out.push(6);
                said.put(out);
            }
            Self::OtherViews(recovered) => {
                out.push(7);
                recovered.put(out);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(match from.byte()? {
            ONE => Self::Protocol(Message::take(from)?),
            SEVERAL => Self::Several(several(from)?),
            1 => Self::ToKeeper(ToKeeper::take(from)?),
            2 => Self::Alive(Alive {
                member: Member::take(from)?,
                followed: ViewNumber::take(from)?,
                recovered: KeeperTerm::take(from)?,
                unheard: from.list()?,
            }),
            3 => Self::Records(from.list()?),
            4 => Self::Dictionary(DictionaryMessage::take(from)?),
            5 => Self::Keeper(KeeperSays::take(from)?),
            6 => Self::Holder(HolderSays::take(from)?),
            7 => Self::OtherViews(KeeperTerm::take(from)?),
            kind => return Err(Malformed::Kind { what: "frame", kind }),
        })
    }
}

/// Messages up to what stands behind the last one.
fn several(from: &mut Reader) -> Result<Vec<FramedMessage>, Malformed> {
    let mut messages = Vec::new();
    loop {
        match from.byte()? {
            NO_MORE => return Ok(messages),
            ANOTHER => {
                let before = from.left();
                let message = Message::take(from)?;
                messages.push(FramedMessage { message, bytes: before - from.left() });
            }
            kind => return Err(Malformed::Kind { what: "part of a frame", kind }),
        }
    }
}

impl Frame {
    /// What is counted of a frame of so many bytes: its messages, each with its bytes, or the frame.
    pub(crate) fn counted(&self, bytes: usize) -> Vec<(FrameKind, usize)> {
        let kind = match self {
            Self::Protocol(message) => FrameKind::of_message(message),
            Self::Several(messages) => {
                let kind = |framed: &FramedMessage| FrameKind::of_message(&framed.message);
                return messages.iter().map(|framed| (kind(framed), framed.bytes)).collect();
            }
            Self::ToKeeper(_) => FrameKind::ToKeeper,
            Self::Alive(_) => FrameKind::Alive,
            Self::Records(_) => FrameKind::Records,
            Self::Dictionary(_) => FrameKind::Dictionary,
            Self::Keeper(_) => FrameKind::Keeper,
            Self::Holder(_) => FrameKind::Holder,
            Self::OtherViews(_) => FrameKind::OtherViews,
        };
        vec![(kind, bytes)]
    }
}

macro_rules! kinds {
    ($($name:ident => $text:literal,)*) => {
        /// What is counted apart: the messages of the protocol, and the other frames.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum FrameKind { $($name,)* }

        impl FrameKind {
            /// Each of them, in the order of their numbers.
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in metrics.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

kinds! {
    Begin => "begin",
    Append => "append",
    Commit => "commit",
    Cut => "cut",
    Decided => "decided",
    Ended => "ended",
    Meet => "meet",
    Begun => "begun",
    Appended => "appended",
    CommitLogged => "commit_logged",
    RowsMissing => "rows_missing",
    CutLogged => "cut_logged",
    Heard => "heard",
    Met => "met",
    Floor => "floor",
    Newer => "newer",
    ToKeeper => "to_keeper",
    Alive => "alive",
    Records => "records",
    Dictionary => "dictionary",
    Keeper => "keeper",
    Holder => "holder",
    OtherViews => "other_views",
}

impl FrameKind {
    /// The kind of a message of the protocol.
    pub(super) fn of_message(message: &Message<BrickChange>) -> Self {
        match &message.body {
            Body::Begin(..) => Self::Begin,
            Body::Append { .. } => Self::Append,
            Body::Commit(..) => Self::Commit,
            Body::Cut(_) => Self::Cut,
            Body::Decided(_) => Self::Decided,
            Body::Ended(_) => Self::Ended,
            Body::Meet => Self::Meet,
            Body::Begun(..) => Self::Begun,
            Body::Appended(..) => Self::Appended,
            Body::CommitLogged(_) => Self::CommitLogged,
            Body::RowsMissing(_) => Self::RowsMissing,
            Body::CutLogged(_) => Self::CutLogged,
            Body::Heard(_) => Self::Heard,
            Body::Met(..) => Self::Met,
            Body::Floor(_) => Self::Floor,
            Body::Newer => Self::Newer,
        }
    }
}
