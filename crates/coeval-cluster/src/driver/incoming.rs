// SPDX-License-Identifier: Apache-2.0
//! Frames and requests that come from other nodes.

use super::engine::{EndReason, Engine};
use super::life::Life;
use super::pieces::{AskedPiece, PieceOrder};
use crate::brick_change::{BrickChange, LabelledChanges};
use crate::brick_rows::{BrickRows, StoredBrick};
use crate::keeper::Outgoing;
use crate::node::NodeId;
use crate::node_address::NodeAddress;
use crate::store::StoreFailed;
use crate::tables::RowsOf;
use crate::texts::{RowCodes, RowTexts};
use crate::transport::{AnswerParts, CallRefusal, Handler, Sender};
use crate::wire::{
    Alive, BrickAnswer, BrickRequest, Frame, FramedMessage, JoinRequest, Malformed, decode, encode, parts_of,
    parts_of_bricks, parts_of_texts,
};
use bytes::Bytes;
use coeval_txn::EpochSet;
use coeval_txn::cluster::{
    Body, BrickAddress, DictionaryId, Message, NodeError, ToKeeper, ViewChange, ViewNumber, ViewRecord,
};
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Instant;

/// What a life does with what comes in.
pub(super) struct Incoming(pub(super) Arc<Life>);

/// Bricks that another node is given.
type GivenBricks = Vec<(BrickAddress, Given)>;

/// What another node is given of a brick. It is made bytes when it is its turn, with nothing locked.
enum Given {
    /// All of it.
    Whole(StoredBrick),
    /// What a snapshot sees.
    Rows(BrickRows),
}

impl Given {
    fn changes(&self) -> LabelledChanges {
        match self {
            Self::Whole(brick) => brick.changes(),
            Self::Rows(rows) => rows.labelled(),
        }
    }

    fn codes(&self) -> Vec<RowCodes> {
        match self {
            Self::Whole(brick) => brick.codes(),
            Self::Rows(rows) => rows.codes(),
        }
    }
}

#[async_trait::async_trait]
impl Handler for Incoming {
    async fn frame(&self, from: Sender, frame: Bytes) {
        let length = frame.len();
        let decoded: Result<Frame, Malformed> = decode(frame);
        self.0.step(|engine| match decoded {
            Ok(frame) if is_of(&frame, from) => {
                for (kind, bytes) in frame.counted(length) {
                    engine.counts.note_received(kind, bytes);
                }
                engine.receive(from.node, frame);
            }
            Ok(_) => engine.refuse(from.node, "it is in another node's name"),
            Err(error) => engine.refuse(from.node, &error.to_string()),
        });
    }

    /// Another node was asked by somebody who wants to belong, and passes it on to the keeper here.
    async fn call(&self, from: Sender, request: Bytes) -> Result<Bytes, CallRefusal> {
        let request: JoinRequest = decode(request).map_err(|error| {
            self.0.step(|engine| engine.refuse(from.node, &error.to_string()));
            CallRefusal(error.to_string())
        })?;
        let answer = self.0.ask_own_keeper(request).await?;
        Ok(encode(&answer).into())
    }

    async fn asked(&self, from: NodeAddress, request: Bytes) -> Result<Bytes, CallRefusal> {
        let request: JoinRequest = decode(request).map_err(|error| CallRefusal(error.to_string()))?;
        if request.address != from {
            return Err(CallRefusal("it says to be at two addresses".to_owned()));
        }
        let answer = self.0.answer_join(request).await?;
        Ok(encode(&answer).into())
    }

    async fn fetch(&self, from: Sender, request: Bytes, answer: AnswerParts) -> Result<(), CallRefusal> {
        let is_out = self.0.look(|engine| engine.protocol.view().given_up().contains(&from.node));
        if is_out == Some(true) {
            return Err(CallRefusal(format!("{} was removed from the cluster", from.node)));
        }
        let request: BrickRequest = decode(request).map_err(|error| {
            self.0.step(|engine| engine.refuse(from.node, &error.to_string()));
            CallRefusal(error.to_string())
        })?;
        let request = match request {
            BrickRequest::List { view, table, snapshot } => {
                return self.list(view, table, &snapshot, &answer).await;
            }
            BrickRequest::Share => return self.share(&answer).await,
            BrickRequest::Run { view, table, bricks, snapshot, order } => {
                let order = PieceOrder { table, bricks, order };
                return self.run(AskedPiece { view, snapshot, order }, &answer).await;
            }
            bricks @ (BrickRequest::Copy { .. } | BrickRequest::Read { .. }) => bricks,
        };
        let given = self.0.look_into(|engine| {
            let bricks = engine.give(from.node, &request)?;
            Ok::<_, BrickAnswer>((bricks, engine.dictionaries_for(&request)))
        });
        let (bricks, dictionaries) =
            match given.ok_or_else(|| CallRefusal("the node has ended".to_owned()))? {
                Ok(given) => given,
                Err(refusal) => {
                    answer.give(encode(&refusal).into()).await?;
                    return Ok(());
                }
            };
        if !dictionaries.is_empty() {
            answer.give(encode(&BrickAnswer::Dictionaries(dictionaries)).into()).await?;
        }
        for (brick, given) in bricks {
            for texts in self.texts_of(&given)? {
                answer.give(encode(&BrickAnswer::Texts(texts)).into()).await?;
            }
            for part in parts_of(brick, given.changes()) {
                answer.give(encode(&BrickAnswer::Part(part)).into()).await?;
            }
        }
        Ok(())
    }
}

impl Incoming {
    /// Gives the bricks of a table.
    async fn list(
        &self,
        view: ViewNumber,
        table: u64,
        snapshot: &EpochSet,
        answer: &AnswerParts,
    ) -> Result<(), CallRefusal> {
        let listed = self.0.look_into(|engine| engine.list(view, table, snapshot));
        let parts = match listed.ok_or_else(|| CallRefusal("the node has ended".to_owned()))? {
            Ok(bricks) => parts_of_bricks(&bricks),
            Err(refusal) => vec![refusal],
        };
        for part in parts {
            answer.give(encode(&part).into()).await?;
        }
        Ok(())
    }

    /// Says what of the bricks is here, in numbers.
    async fn share(&self, answer: &AnswerParts) -> Result<(), CallRefusal> {
        let part = self.0.own_share().await.map_or(BrickAnswer::NotNow, BrickAnswer::Share);
        answer.give(encode(&part).into()).await?;
        Ok(())
    }

    /// The texts of the codes in a brick that is given: this node has them, since it has the rows.
    fn texts_of(&self, given: &Given) -> Result<Vec<RowTexts>, CallRefusal> {
        let texts = self.0.spell(&given.codes());
        let texts = texts.ok_or_else(|| CallRefusal("the node has ended".to_owned()))?;
        let texts = texts.map_err(|why| CallRefusal(why.to_string()))?;
        Ok(texts.into_iter().flat_map(parts_of_texts).collect())
    }
}

/// Whether what a frame says is said by the node that it came from.
fn is_of(frame: &Frame, from: Sender) -> bool {
    match frame {
        Frame::Protocol(message) => message.from.node == from.node,
        Frame::Several(messages) => messages.iter().all(|framed| framed.message.from.node == from.node),
        Frame::Dictionary(message) => message.from.node == from.node,
        Frame::ToKeeper(ToKeeper::Join { member, .. }) => member.node == from.node,
        Frame::ToKeeper(ToKeeper::Closed(report)) => report.from.node == from.node,
        Frame::ToKeeper(ToKeeper::Complete { from: node, .. }) => node.node == from.node,
        Frame::Alive(alive) => alive.member.node == from.node,
        Frame::Records(_) | Frame::OtherViews(_) => true,
        Frame::Keeper(said) => said.keeper().node == from.node,
        Frame::Holder(said) => said.from == from.node,
    }
}

impl Engine {
    fn refuse(&mut self, from: NodeId, why: &str) {
        self.counts.refused += 1;
        tracing::warn!("a message from {from} is not taken: {why}");
    }

    pub(super) fn receive(&mut self, from: NodeId, frame: Frame) {
        let recovered = self.protocol.view().recovered();
        if let Frame::OtherViews(theirs) = frame {
            if theirs > recovered {
                self.end_of_views(from);
            }
            return;
        }
        if self.protocol.view().given_up().contains(&from) {
            // Whatever it says is of other views, or it does not know yet that it is out.
            return self.send_frame(from, &Frame::OtherViews(recovered));
        }
        self.heard.insert(from, Instant::now());
        match frame {
            Frame::Protocol(message) => self.receive_message(from, message),
            Frame::Several(messages) => {
                for FramedMessage { message, .. } in messages {
                    self.receive_message(from, message);
                    // What was checked of its rows is used before the next ones are checked.
                    self.carry_out_all();
                }
            }
            Frame::Dictionary(message) => {
                if message.layout > self.protocol.view().layout() {
                    self.ask_for_records(from);
                }
                self.declare_dictionaries();
                self.dictionaries.receive(message);
            }
            Frame::ToKeeper(told) => self.keeper.tell(told),
            Frame::Alive(alive) => self.hear_alive(from, alive),
            // Before that it might be told of views that it does not go by.
            Frame::Records(_) if !self.follows_others => {}
            Frame::Records(records) => self.follow(records),
            Frame::Keeper(said) => self.holding.said(said),
            Frame::Holder(said) => self.keeper.answer(said),
            // Heard before all others.
            Frame::OtherViews(_) => {}
        }
    }

    /// Takes a message of the protocol in, unless it brings rows that are none.
    fn receive_message(&mut self, from: NodeId, message: Message<BrickChange>) {
        if message.view > self.view() {
            self.ask_for_records(from);
        }
        let checked = match &message.body {
            // The texts come first: into this node's dictionaries, and into its log.
            Body::Append { brick, rows, .. } => {
                let checked = self.check_rows(*brick, rows, RowsOf::SeveralBricks);
                checked.and_then(|()| self.learn(rows.texts()))
            }
            _ => Ok(()),
        };
        match checked {
            Ok(()) => self.protocol.receive(message),
            // It is sent again: the table may be declared by then.
            Err(refused) => self.refuse(from, &refused.to_string()),
        }
    }

    /// Gives a node that lives the records that it lacks, or asks it for those that are not here; unless the two go by different lists of
    /// views. Of two such lists the one counts whose keeper was the last to begin without lost nodes.
    fn hear_alive(&mut self, from: NodeId, alive: Alive) {
        let (own, recovered) = (self.view(), self.protocol.view().recovered());
        if alive.followed > own {
            // Whether it has all that was followed here, the other one sees.
            self.ask_for_records(from);
        } else if self.protocol.view().recovered_through(alive.followed) != alive.recovered {
            return match alive.recovered.cmp(&recovered) {
                Ordering::Less => self.send_frame(from, &Frame::OtherViews(recovered)),
                Ordering::Equal => self.refuse(from, "it goes by other views"),
                Ordering::Greater => self.end_of_views(from),
            };
        } else if alive.followed < own {
            let records = self.records_after(alive.followed);
            self.send_frame(from, &Frame::Records(records));
        }
        self.keeper.hear(alive);
    }

    /// The views that this node goes by were given up.
    fn end_of_views(&mut self, from: NodeId) {
        tracing::error!("{from} goes by views that have begun anew without this node, which ends");
        self.end.get_or_insert(EndReason::Removed(self.own()));
    }

    /// The dictionaries that come to another node with what it has asked for.
    fn dictionaries_for(&self, request: &BrickRequest) -> Vec<DictionaryId> {
        match request {
            BrickRequest::Copy { to, .. } => self.dictionaries.gives(*to),
            BrickRequest::Read { .. }
            | BrickRequest::List { .. }
            | BrickRequest::Share
            | BrickRequest::Run { .. } => Vec::new(),
        }
    }

    /// What another node is given, or why not.
    fn give(&mut self, asked_by: NodeId, request: &BrickRequest) -> Result<GivenBricks, BrickAnswer> {
        match request {
            BrickRequest::Copy { to, from, view, has } => {
                let is_meant = to.node == asked_by && *from == self.protocol.member();
                if !is_meant || *view != self.view() {
                    return Err(BrickAnswer::NotNow);
                }
                let mut bricks = self.store.bricks().map_err(|_| BrickAnswer::NotNow)?;
                bricks.extend(has);
                bricks.sort_unstable();
                bricks.dedup();
                bricks.retain(|brick| self.protocol.gives(*brick, *to));
                let whole = |brick| Ok((brick, Given::Whole(self.store.brick(brick)?)));
                let given: Result<_, StoreFailed> = bricks.into_iter().map(whole).collect();
                given.map_err(|_| BrickAnswer::NotNow)
            }
            // It is gone for good here; whoever reads may not know yet, and is not to take that for no rows.
            BrickRequest::Read { brick, .. } if !self.options.tables.has(brick.table) => {
                Err(BrickAnswer::NotNow)
            }
            BrickRequest::Read { view, brick, snapshot } => {
                match self.protocol.may_read(*view, *brick, snapshot) {
                    Ok(()) => {
                        let found = self.store.brick(*brick).map_err(|_| BrickAnswer::NotNow)?;
                        Ok(vec![(*brick, Given::Rows(found.rows(snapshot.clone())))])
                    }
                    Err(NodeError::BelowSafe) => Err(BrickAnswer::BelowSafe),
                    Err(_) => Err(BrickAnswer::NotNow),
                }
            }
            // They are answered before, without rows.
            BrickRequest::List { .. } | BrickRequest::Share | BrickRequest::Run { .. } => {
                Err(BrickAnswer::NotNow)
            }
        }
    }
}

impl Life {
    /// Does what the keeper beside this node wants done, or who holds its records.
    pub(super) fn carry(&self, outgoing: Outgoing) {
        self.step(|engine| match outgoing {
            Outgoing::Send(node, frame) => engine.send_frame(node, &frame),
            Outgoing::Follow(records) => {
                let is_first = |record: &ViewRecord| {
                    let stands = matches!(record.change, ViewChange::Whole(_));
                    stands || record.number == ViewNumber::default().next()
                };
                let is_all = records.first().is_none_or(is_first);
                engine.follow(records);
                engine.follows_others |= is_all;
            }
        });
    }
}

#[cfg(test)]
mod tests;
