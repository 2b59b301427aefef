// SPDX-License-Identifier: Apache-2.0
//! What a node does by the clock: asks again, says that it lives, purges.

use super::engine::Engine;
use super::life::Life;
use crate::log::Durability;
use crate::node::NodeId;
use crate::wire::{Alive, Frame};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval};

/// Between two questions for records of the keeper.
const ASKING_PAUSE: Duration = Duration::from_millis(5);

/// Looks at the clock until the life ends.
pub(super) async fn tick_until_end(life: Arc<Life>) {
    let timeouts = &life.options.timeouts;
    let period = (timeouts.resend.min(timeouts.alive) / 4).max(Duration::from_millis(2));
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = life.end.clone();
    while end.run_until_cancelled(ticks.tick()).await.is_some() {
        life.step(|engine| engine.tick(Instant::now()));
    }
}

impl Engine {
    /// Has what the start has logged brought to disk, and says that the node is there.
    pub(super) fn begin_life(&mut self) {
        self.pump();
        self.store.sync();
        self.say_alive(Instant::now());
    }

    fn tick(&mut self, now: Instant) {
        // A process that stood still has heard nobody, and that says nothing about the others.
        if now.duration_since(self.ticked) > self.options.timeouts.silence / 2 {
            self.heard.values_mut().for_each(|heard| *heard = now);
        }
        self.ticked = now;
        self.sends_all = true;
        self.declare_dictionaries();
        if now.duration_since(self.resent) >= self.options.timeouts.resend {
            self.resent = now;
            self.protocol.resend_old();
            self.dictionaries.resend();
            self.purge();
        }
        if now.duration_since(self.said_alive) >= self.options.timeouts.alive && !self.hangs(now) {
            self.say_alive(now);
        }
        if self.store.durability() == Durability::Off {
            self.protocol.flushed(self.protocol.latest_committed());
        }
        if self.store.has_unsynced() {
            self.store.sync();
        }
    }

    /// Has the store flush what is up to LSE, and forget what tells these epochs apart, when it is time for that.
    ///
    /// A copy goes by labels, and takes those for older that had ended when it was asked for. What was purged before the view
    /// in which bricks move is among these; LSE may be further by now.
    fn purge(&mut self) {
        let safe = self.protocol.latest_safe();
        if safe > self.purged && !self.protocol.view().is_moving() {
            self.purged = self.store.purge(safe);
        }
    }

    /// Whether the disk has taken nothing for too long. Then the node is as good as gone, and says no more that it lives.
    fn hangs(&self, now: Instant) -> bool {
        let oldest = self.waiting.front().map(|(_, since, _)| now.duration_since(*since));
        oldest.is_some_and(|waited| waited > self.options.timeouts.silence)
    }

    /// Says that the node lives: to the members of its view, and to the keeper. Out of the view, to all whom it knows, since
    /// they may have records that it lacks.
    fn say_alive(&mut self, now: Instant) {
        self.said_alive = now;
        let (view, own) = (self.protocol.view(), self.own());
        let members: BTreeSet<NodeId> = view.members().map(|member| member.node).collect();
        let silence = self.options.timeouts.silence;
        let is_unheard =
            |node: &&NodeId| self.heard.get(node).is_some_and(|heard| now.duration_since(*heard) > silence);
        let unheard = members.iter().filter(|node| **node != own).filter(is_unheard).copied().collect();
        let alive = self.alive(unheard);
        let mut told: BTreeSet<NodeId> = if view.has(self.protocol.member()) {
            members
        } else {
            let nodes = self.known.list().into_iter().map(|(node, _)| node);
            nodes.filter(|node| !view.removed().contains(node)).collect()
        };
        told.insert(self.keeper_node());
        told.remove(&own);
        // The next keeper may be here before any record says so.
        self.keeper.hear(alive.clone());
        self.holding.at(alive.followed);
        let frame = Frame::Alive(alive);
        told.into_iter().for_each(|node| self.send_frame(node, &frame));
    }

    /// Asks a node for the keeper's records that it has and this one lacks; not for each message that comes meanwhile.
    pub(super) fn ask_for_records(&mut self, node: NodeId) {
        let now = Instant::now();
        if self.asked.is_some_and(|asked| now.duration_since(asked) < ASKING_PAUSE) {
            return;
        }
        self.asked = Some(now);
        self.send_frame(node, &Frame::Alive(self.alive(Vec::new())));
    }

    /// That this node lives, and what it has followed.
    fn alive(&self, unheard: Vec<NodeId>) -> Alive {
        let view = self.protocol.view();
        let (followed, recovered) = (view.number(), view.recovered());
        Alive { member: self.protocol.member(), followed, recovered, unheard }
    }
}
