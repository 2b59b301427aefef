// SPDX-License-Identifier: Apache-2.0
//! What the protocol wants done, in its order.

use super::engine::{EndReason, Engine, Waiting};
use crate::brick_change::BrickChange;
use crate::log::Durability;
use crate::node::NodeId;
use crate::store::LogPosition;
use crate::wire::{Frame, FrameKind, MessageFrame, encode};
use bytes::Bytes;
use coeval_txn::cluster::{DictionaryEffect, DictionaryMessage, Effect, LoadOutcome, Message, ToKeeper};
use std::time::Instant;

impl Engine {
    /// Does all that the protocol and dictionaries want done, and what that brings about at once; sends what was said in this step, but
    /// for what [may wait](MessageFrame::is_awaited), and sees whether the life goes on.
    pub(super) fn pump(&mut self) {
        self.carry_out_all();
        self.store.end_step();
        let sends_all = std::mem::take(&mut self.sends_all);
        for (to, frame) in std::mem::take(&mut self.outgoing) {
            if sends_all || frame.is_awaited() {
                self.send_messages(to, frame);
            } else {
                self.outgoing.insert(to, frame);
            }
        }
        if !self.waiting.is_empty() {
            self.store.sync();
        }
        if let Some(failure) = self.store.failure() {
            self.end.get_or_insert(EndReason::Failed(failure.to_string()));
        }
        if self.protocol.view().removed().contains(&self.own()) {
            self.end.get_or_insert(EndReason::Removed(self.own()));
        }
        if self.protocol.has_left() {
            self.end.get_or_insert(EndReason::Left);
        }
    }

    /// Does all that the protocol and dictionaries want done, but that messages to other nodes are sent at the end of the step. Of the
    /// two, what dictionaries log comes first: rows come after their texts.
    pub(super) fn carry_out_all(&mut self) {
        loop {
            for effect in self.dictionaries.take_effects() {
                self.carry_out_for_codes(effect);
            }
            for effect in self.protocol.take_effects() {
                self.carry_out(effect);
            }
            if let Some(message) = self.codes_to_itself.pop_front() {
                self.counts.to_itself += 1;
                self.dictionaries.receive(message);
                continue;
            }
            let Some(message) = self.to_itself.pop_front() else { break };
            self.counts.to_itself += 1;
            self.protocol.receive(message);
        }
    }

    fn carry_out(&mut self, effect: Effect<BrickChange>) {
        match effect {
            Effect::Log(record) => self.store.log(record),
            Effect::Send(message) => self.send(message),
            Effect::SendOnceLogged(message) => self.once_logged(Waiting::Message(message)),
            Effect::TellKeeperOnceLogged(told) => self.once_logged(Waiting::ToKeeper(told)),
            Effect::Copy { from, view } => {
                if self.copying.insert((from, view)) {
                    self.to_copy.push((from, view));
                }
            }
            Effect::Tell(outcome) => self.tell(outcome),
            // Whoever is at a later view was asked for records when its message came: it has them for certain.
            Effect::Fetch(_) => {}
        }
    }

    fn carry_out_for_codes(&mut self, effect: DictionaryEffect) {
        match effect {
            DictionaryEffect::Log(record) => self.store.log_dictionary(record),
            DictionaryEffect::Send(message) => self.send_for_codes(message),
            DictionaryEffect::SendOnceLogged(message) => self.once_logged(Waiting::Dictionary(message)),
            DictionaryEffect::Tell(ask, outcome) => {
                if let Some(waits) = self.askers.remove(&ask) {
                    // Whoever has given up waiting need not know.
                    let _ = waits.send(outcome);
                }
            }
        }
    }

    /// Lets something wait until all that was logged so far is on disk.
    fn once_logged(&mut self, what: Waiting) {
        let logged = self.store.logged();
        if self.store.durability() == Durability::Off || logged <= self.synced {
            self.release(what);
        } else {
            self.waiting.push_back((logged, Instant::now(), what));
        }
    }

    /// The log is on disk up to here.
    pub(super) fn note_synced(&mut self, synced: LogPosition) {
        self.synced = self.synced.max(synced);
        self.syncs += 1;
        while self.waiting.front().is_some_and(|(position, ..)| *position <= self.synced) {
            if let Some((_, _, what)) = self.waiting.pop_front() {
                self.release(what);
            }
        }
        // What is decided is on disk here, since it was logged before this node answered for it.
        self.protocol.flushed(self.protocol.latest_committed());
    }

    fn release(&mut self, what: Waiting) {
        match what {
            Waiting::Message(message) => self.send(message),
            Waiting::Dictionary(message) => self.send_for_codes(message),
            Waiting::ToKeeper(told) => self.tell_keeper(told),
        }
    }

    fn send(&mut self, message: Message<BrickChange>) {
        if message.to.node == self.own() {
            self.to_itself.push_back(message);
        } else {
            let bytes_max = self.options.transport.bounds.frame_bytes;
            let full = self.outgoing.entry(message.to.node).or_default().push(&message, bytes_max);
            if let Some(full) = full {
                self.send_messages(message.to.node, full);
            }
        }
    }

    fn send_for_codes(&mut self, message: DictionaryMessage) {
        if message.to.node == self.own() {
            self.codes_to_itself.push_back(message);
        } else {
            self.send_frame(message.to.node, &Frame::Dictionary(message));
        }
    }

    /// Puts a frame into the queue of a node, behind the messages that were said to it before.
    pub(super) fn send_frame(&mut self, to: NodeId, frame: &Frame) {
        if let Some(messages) = self.outgoing.remove(&to) {
            self.send_messages(to, messages);
        }
        let bytes = encode(frame);
        let counted = frame.counted(bytes.len());
        self.put(to, bytes.into(), &counted);
    }

    fn send_messages(&mut self, to: NodeId, frame: MessageFrame) {
        let (bytes, counted) = frame.finish();
        self.put(to, bytes, &counted);
    }

    /// Puts a frame into the queue of a node. If that is full, the frame is lost as it may be on any network.
    fn put(&mut self, to: NodeId, frame: Bytes, counted: &[(FrameKind, usize)]) {
        match self.peers.send(to, frame) {
            Ok(()) => counted.iter().for_each(|(kind, bytes)| self.counts.note_sent(*kind, *bytes)),
            Err(_) => self.counts.not_taken += counted.len() as u64,
        }
    }

    fn tell_keeper(&mut self, told: ToKeeper) {
        let keeper = self.keeper_node();
        if keeper == self.own() {
            self.keeper.tell(told);
        } else {
            self.send_frame(keeper, &Frame::ToKeeper(told));
        }
    }

    /// A load has ended: its caller is told, or will ask.
    fn tell(&mut self, outcome: LoadOutcome) {
        let LoadOutcome { epoch, fate } = outcome;
        let Some(caller) = self.callers.get_mut(&epoch) else { return };
        caller.fate = Some(fate);
        if let Some(waits) = caller.waits.take() {
            // Whoever has given up waiting need not know.
            let _ = waits.send(fate);
        }
        if caller.has_gone {
            self.callers.remove(&epoch);
        }
    }
}
