// SPDX-License-Identifier: Apache-2.0
//! The events: messages, disks, records, and what goes wrong with machines.

use rand::Rng;

use super::machine::{Bricks, Waiting};
use super::{Copying, Gift, Rows, Simulation, bricks};
use crate::epochs::cluster::{Body, Effect, LogRecord, Member, Message, NodeId, ViewKeeper, ViewRecord};

/// For each machine, so many steps in which things break, and so many in which they do not.
const SPELL: usize = 120;
/// How many spells there are before faults end.
const SPELLS: usize = 4;
/// Within how many rounds without faults everything has to end.
const ROUNDS: usize = 30;
/// Within how many rounds without faults an ask is answered: fewer than it is patient for.
const ROUNDS_TO_ANSWER: usize = 6;
/// More messages than this, for each machine, are not kept under way.
const MESSAGES: usize = 40;

impl Simulation {
    pub(super) fn run(&mut self) -> Result<(), String> {
        let (storm, spell) = (self.storm, SPELL * self.machines.len());
        for step in 0..SPELLS * spell {
            // What breaks in one spell may be mended in the next.
            if step % spell == 0 {
                self.storm = if (step / spell).is_multiple_of(2) { storm } else { 0 };
                self.mend();
            }
            self.step();
            if self.losses.is_none() {
                self.step_texts();
            }
            self.step_nodes();
            self.step_ages();
            self.step_rows();
            self.step_keepers();
            self.lose_messages();
            self.check_step();
            self.fail()?;
        }
        self.note_moves();
        self.mend();
        for round in 0..ROUNDS + ROUNDS_TO_ANSWER {
            if round == ROUNDS {
                self.ask_everywhere();
            }
            self.round();
            self.check_step();
            self.fail()?;
        }
        self.check_end();
        self.counts.views = self.records.len();
        self.fail()
    }

    fn fail(&mut self) -> Result<(), String> {
        self.violation.take().map_or(Ok(()), Err)
    }

    fn step(&mut self) {
        let machine = self.any_machine();
        match self.random.random_range(0..100 + self.storm) {
            0..45 => self.deliver_any(),
            45..51 => self.tell_keeper_any(),
            51..61 => self.sync_some(machine),
            61..72 => self.follow(machine),
            72..76 => self.resend(machine),
            76..79 => self.begin(machine),
            79..89 => self.act(),
            89..92 => self.hold(machine),
            92..96 => self.read_any(),
            96..100 => self.copy_any(),
            _ => self.break_machine(machine),
        }
    }

    /// A network carries so much.
    fn lose_messages(&mut self) {
        while self.network.len() > MESSAGES * self.machines.len() {
            let index = self.random.random_range(0..self.network.len());
            self.network.swap_remove(index);
        }
        self.lose_texts(MESSAGES * self.machines.len());
    }

    /// Delivers a message under way, drops it, or delivers it and leaves it under way.
    fn deliver_any(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.network.len());
        let Message { from, to, .. } = &self.network[index];
        let ends = [from.node, to.node].map(|node| node.get() as usize - 1);
        if from.node != to.node && self.isolated.is_some_and(|isolated| ends.contains(&isolated)) {
            return;
        }
        let message = match self.random.random_range(0..12) {
            0 => return drop(self.network.swap_remove(index)),
            1 => self.network[index].clone(),
            _ => self.network.swap_remove(index),
        };
        self.hand_over(message);
    }

    /// A machine takes in a message: first the texts that come with rows, then the rows.
    fn hand_over(&mut self, message: Message<Rows>) {
        let machine = message.to.node.get() as usize - 1;
        if self.machines[machine].process.is_none() {
            return;
        }
        if let Body::Append { rows, .. } = &message.body {
            self.learn(machine, &rows.texts);
        }
        if let Some(node) = &mut self.machines[machine].process {
            // Callers take nothing of those without whom a keeper has begun.
            if !node.view().given_up().contains(&message.from.node) {
                node.receive(message);
            }
        }
        self.pump(machine);
    }

    fn tell_keeper_any(&mut self) {
        if self.to_keeper.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.to_keeper.len());
        let message = match self.random.random_range(0..8) {
            0 => return drop(self.to_keeper.swap_remove(index)),
            1 => self.to_keeper[index].clone(),
            _ => self.to_keeper.swap_remove(index),
        };
        self.tell_keeper(&message);
    }

    pub(super) fn publish(&mut self, record: Option<ViewRecord>) {
        if let Some(record) = record {
            self.note_outcomes(&record);
            self.records.push(record);
        }
    }

    fn sync_some(&mut self, machine: usize) {
        let count = self.random.random_range(0..=self.machines[machine].not_on_disk());
        self.sync(machine, count);
    }

    pub(super) fn sync(&mut self, machine: usize, count: usize) {
        for what in self.machines[machine].sync(count) {
            match what {
                Waiting::Message(message) => self.network.push(message),
                Waiting::Text(message) => self.text_network.push(message),
                Waiting::ToKeeper(_) if self.isolated == Some(machine) => {}
                Waiting::ToKeeper(message) => self.to_keeper.push(message),
            }
        }
        if let Some(node) = &mut self.machines[machine].process {
            // What is decided is on disk.
            node.flushed(node.latest_committed());
        }
    }

    fn follow(&mut self, machine: usize) {
        if self.isolated == Some(machine) {
            return;
        }
        let reachable = self.reachable(machine);
        if self.machines[machine].follow(&self.records[..reachable]) {
            self.write_followed(machine);
            self.pump(machine);
        }
    }

    /// What a machine follows is written, in runs that lose machines: else it may be lost with these.
    pub(super) fn write_followed(&mut self, machine: usize) {
        if self.losses.is_some() {
            self.machines[machine].write_held();
        }
    }

    fn resend(&mut self, machine: usize) {
        if let Some(node) = &mut self.machines[machine].process {
            node.resend();
            self.pump(machine);
        }
    }

    /// One node gives all bricks that another one is to get, or what was given arrives; now and then not for the last
    /// time.
    fn copy_any(&mut self) {
        let view = |machine: usize| self.machines[machine].process.as_ref().map(|node| node.view().number());
        self.copies.retain(|copying| view(copying.to) == Some(copying.view));
        if self.copies.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.copies.len());
        let copying = self.copies.swap_remove(index);
        if self.one_in(8) {
            self.copies.push(copying.clone());
        }
        self.copy(copying);
    }

    fn copy(&mut self, copying: Copying) {
        if copying.given.is_some() {
            self.copied(copying);
        } else {
            self.give(copying);
        }
    }

    fn give(&mut self, mut copying: Copying) {
        let Copying { to, from, view, .. } = copying;
        let giver = &self.machines[from.node.get() as usize - 1];
        let Some(node) = &giver.process else { return };
        let receiver = self.machines[to].member;
        if self.isolated.is_some() || node.member() != from || node.view().number() != view {
            return;
        }
        let bricks = bricks()
            .filter(|brick| node.gives(*brick, receiver))
            .map(|brick| (brick, giver.bricks.get(&brick).cloned().unwrap_or_default()))
            .collect();
        let texts = self.spell(&giver.texts, &bricks);
        let dictionaries = giver.texts.gives(receiver);
        copying.given = Some(Gift { bricks, texts, dictionaries });
        self.copies.push(copying);
    }

    fn copied(&mut self, copying: Copying) {
        let Copying { to, from, view, given } = copying;
        let is_here = self.machines[to].process.as_ref().is_some_and(|node| node.view().number() == view);
        let Some(Gift { bricks, texts, dictionaries }) = given.filter(|_| is_here) else { return };
        self.learn(to, &texts);
        let has_all = self.machines[to].texts.has_all(&dictionaries);
        let Some(node) = &mut self.machines[to].process else { return };
        for (brick, rows) in bricks {
            let rows = rows.into_iter().map(|(label, row)| (label, Rows::of(row))).collect();
            if node.copied(view, brick, rows).is_err() {
                return;
            }
        }
        if has_all {
            node.copied_all(view, from);
        } else {
            // The bricks are there. It waits for the dictionaries.
            let given = Some(Gift { bricks: Bricks::new(), texts: Vec::new(), dictionaries });
            self.copies.push(Copying { to, from, view, given });
        }
        self.pump(to);
    }

    /// Does what the process of a machine wants done.
    pub(super) fn pump(&mut self, machine: usize) {
        self.pump_texts(machine);
        let Some(node) = &mut self.machines[machine].process else { return };
        for effect in node.take_effects() {
            match effect {
                Effect::Log(record) => {
                    self.counts.safe += usize::from(matches!(record, LogRecord::Safe(_)));
                    self.check_spelled(machine, &record);
                    self.machines[machine].log(record);
                }
                Effect::Send(message) => self.network.push(message),
                Effect::SendOnceLogged(message) => self.machines[machine].wait(Waiting::Message(message)),
                Effect::TellKeeperOnceLogged(message) => {
                    self.machines[machine].wait(Waiting::ToKeeper(message))
                }
                Effect::Copy { from, view } => {
                    self.copies.push(Copying { to: machine, from, view, given: None });
                }
                Effect::Tell(outcome) => self.note_outcome(machine, outcome),
                Effect::Fetch(_) => {}
            }
        }
        self.sync(machine, 0);
        self.note_snapshots(machine);
    }

    fn break_machine(&mut self, index: usize) {
        let node = self.machines[index].member.node;
        let is_running = self.machines[index].process.is_some();
        match self.random.random_range(0..12) {
            10 if self.one_in(4) => self.replace_keeper(),
            10 => self.isolated = Some(index),
            11 => self.isolated = None,
            0..3 if is_running => self.stop(index),
            0..4 if !is_running && !self.is_lost(index) => self.start(index),
            4..7 if !is_running && self.may_lose_disk(index) => {
                self.machines[index].lose_disk();
                self.counts.losses += 1;
                self.start(index);
            }
            7..10
                if self.unnoticed_losses() == 0
                    && (!is_running || self.isolated.is_some() || self.one_in(3)) =>
            {
                let isolated = self.isolated.map(|isolated| self.machines[isolated].member.node);
                let gone = isolated.unwrap_or(node);
                if self.may_be_removed(gone) {
                    self.decide(|keeper| keeper.remove(gone).ok());
                }
            }
            _ if self.machines[index].process.as_ref().is_some_and(|node| node.has_left()) => {
                self.stop(index);
                self.start(index);
            }
            _ => {}
        }
    }

    /// The keeper dies; another one goes on after its records.
    fn replace_keeper(&mut self) {
        if self.moves_keeper {
            return self.promote_any();
        }
        self.keeper = ViewKeeper::recover(&self.records, self.ring.replicas);
        self.keeper.keep_rules(self.rules);
    }

    pub(super) fn stop(&mut self, index: usize) {
        let kept = self.random.random_range(0..=self.machines[index].not_on_disk());
        self.machines[index].stop(kept);
        self.forget_held(index);
        self.forget_finds(index);
        self.stop_keeper(index);
        self.counts.crashes += 1;
    }

    pub(super) fn start(&mut self, index: usize) {
        self.machines[index].start();
        self.check_all_spelled(index);
        self.pump(index);
        self.follow_whole(index);
    }

    /// Whether a disk may be lost: fewer nodes than `replicas` have lost theirs, or are out of the view.
    fn may_lose_disk(&self, index: usize) -> bool {
        let view = self.keeper.view();
        let copies = self.ring.replicas.min(view.placed().len());
        let lost = view.lost() + self.unnoticed_losses();
        let leaves_replicas = !view.is_placed(self.machines[index].member.node) || lost + 1 < copies;
        leaves_replicas && !self.has_lost_machines() && self.keepers_spare(index)
    }

    /// How many nodes have lost their disks while the view still counts on them.
    pub(super) fn unnoticed_losses(&self) -> usize {
        // One without a place has nothing that counts but for keepers.
        let has_lost = |member: &Member| {
            let log_since = self.machines[member.node.get() as usize - 1].log_since;
            self.has_lost_disk(member.node) || (self.moves_keeper && member.incarnation < log_since)
        };
        self.keeper.view().members().filter(has_lost).count()
    }

    /// Whether a node has lost its disk while the view still counts on it.
    pub(super) fn has_lost_disk(&self, node: NodeId) -> bool {
        let log_since = self.machines[node.get() as usize - 1].log_since;
        let view = self.keeper.view();
        view.is_placed(node) && view.member(node).is_some_and(|member| member.incarnation < log_since)
    }

    /// Everything that stands still may go on.
    fn mend(&mut self) {
        self.isolated = None;
        for index in 0..self.machines.len() {
            if self.machines[index].process.is_none() && !self.is_gone(index) {
                self.start(index);
            }
        }
    }

    /// Everything that is under way arrives, every disk writes, every user comes to an end.
    fn round(&mut self) {
        self.round_keepers();
        self.remove_lost();
        for index in 0..self.machines.len() {
            // Whose node was removed may stand still for good.
            if self.machines[index].process.is_none() {
                continue;
            }
            while self.machines[index].followed < self.reachable(index) {
                self.follow(index);
            }
            if self.machines[index].process.as_ref().is_some_and(|node| node.has_left()) {
                self.stop(index);
                if !self.is_removed(index) {
                    self.start(index);
                }
                continue;
            }
            self.end_loads(index);
            self.end_rows(index);
            self.resend(index);
            self.sync(index, self.machines[index].not_on_disk());
        }
        self.round_texts();
        for copying in std::mem::take(&mut self.copies) {
            self.copy(copying);
        }
        for copying in std::mem::take(&mut self.copies) {
            self.copy(copying);
        }
        for message in std::mem::take(&mut self.to_keeper) {
            self.tell_keeper(&message);
            self.round_keepers();
        }
        for message in std::mem::take(&mut self.network) {
            self.hand_over(message);
        }
    }
}
