// SPDX-License-Identifier: Apache-2.0
//! Keepers that begin on any machine at any moment, while those before them go on.
//!
//! In some runs only, and chosen by random numbers of their own. In the others there is one keeper, whose records are never lost.

use rand::Rng;

use super::{Faults, Losses, Simulation};
use crate::epochs::cluster::{
    BeginError, HolderSays, KeeperPlace, KeeperSays, KeeperTerm, NextKeeper, NodeId, TermKeeper, ViewChange,
    ViewKeeper, ViewNumber, ViewRecord, WholeView, count_through,
};

/// One run of so many.
const RUNS: u64 = 4;
/// So many keepers are there at a time, one of which is the newest.
const KEEPERS_MAX: usize = 3;
/// More messages than this, for each machine, are not kept under way.
const MESSAGES: usize = 20;
/// So often a message goes there and back, when nothing breaks, until all that is recorded is settled and known.
const EXCHANGES: usize = 6;

/// Whether keepers come one after the other in the run of a seed.
pub(super) fn moves_keeper(seed: u64, faults: Faults) -> bool {
    faults == Faults::Machines && seed % RUNS == 1
}

/// A keeper on a machine.
pub(super) struct Keeping {
    machine: usize,
    step: Step,
    /// Its settled records up to here have been looked at.
    noted: ViewNumber,
}

/// How far it is.
enum Step {
    Asks(NextKeeper),
    Keeps(Box<TermKeeper>),
}

impl Keeping {
    fn term(&self) -> KeeperTerm {
        match &self.step {
            Step::Asks(next) => next.ask().keeper().term,
            Step::Keeps(keeper) => keeper.place().term,
        }
    }
}

impl Simulation {
    /// Something happens between keepers and machines, or nothing.
    pub(super) fn step_keepers(&mut self) {
        if !self.moves_keeper {
            return;
        }
        match self.keepers_random.random_range(0..200) {
            0..80 => self.deliver_any_to_holder(),
            80..160 => self.deliver_any_to_keeper(),
            160..195 if !self.keepers.is_empty() => {
                let index = self.keepers_random.random_range(0..self.keepers.len());
                self.say(index);
            }
            195 => self.promote_any(),
            196..200 => self.lose_for_good(),
            _ => {}
        }
        let most = MESSAGES * self.machines.len();
        while self.to_holders.len() > most {
            let index = self.keepers_random.random_range(0..self.to_holders.len());
            self.to_holders.swap_remove(index);
        }
        while self.to_keepers.len() > most {
            let index = self.keepers_random.random_range(0..self.to_keepers.len());
            self.to_keepers.swap_remove(index);
        }
    }

    /// All machines have the first record, as those have that found a cluster.
    pub(super) fn found_keepers(&mut self) {
        let first = self.records[0].clone();
        for machine in &mut self.machines {
            machine.holder.learn(&first);
            machine.write_held();
        }
    }

    /// A machine becomes the primary, and begins to be the keeper. Nobody tells those before it.
    pub(super) fn promote_any(&mut self) {
        let running: Vec<usize> =
            (0..self.machines.len()).filter(|machine| self.machines[*machine].process.is_some()).collect();
        if running.is_empty() {
            return;
        }
        let machine = running[self.keepers_random.random_range(0..running.len())];
        self.stop_keeper(machine);
        while self.keepers.len() >= KEEPERS_MAX {
            self.keepers.remove(0);
        }
        self.terms += 1;
        let place =
            KeeperPlace { term: KeeperTerm::new(self.terms, 0), node: self.machines[machine].member.node };
        let mut next = NextKeeper::new(place, self.ring.replicas);
        next.keep_rules(self.rules);
        self.keepers.push(Keeping { machine, step: Step::Asks(next), noted: ViewNumber::default() });
    }

    /// A machine has started. Now and then it gets one record for many, from whoever has no others.
    pub(super) fn follow_whole(&mut self, machine: usize) {
        if !self.moves_keeper || self.isolated == Some(machine) || self.keepers_random.random_range(0..2) == 0
        {
            return;
        }
        let most = self.reachable(machine);
        let count = self.keepers_random.random_range(0..=most);
        self.machines[machine].follow_whole(&self.records[..count]);
        self.write_followed(machine);
        self.pump(machine);
    }

    /// A keeper ends with its machine's process.
    pub(super) fn stop_keeper(&mut self, machine: usize) {
        self.keepers.retain(|keeping| keeping.machine != machine);
    }

    /// Has the keeper decide something; one of them, if there are several.
    pub(super) fn decide(&mut self, act: impl FnOnce(&mut ViewKeeper) -> Option<ViewRecord>) {
        if !self.moves_keeper {
            let record = act(&mut self.keeper);
            return self.publish(record);
        }
        let keep = |index: &usize| matches!(self.keepers[*index].step, Step::Keeps(_));
        let keeping: Vec<usize> = (0..self.keepers.len()).filter(keep).collect();
        if keeping.is_empty() {
            return;
        }
        let index = keeping[self.keepers_random.random_range(0..keeping.len())];
        if let Step::Keeps(keeper) = &mut self.keepers[index].step {
            let _ = keeper.decide(|keeper| ((), act(keeper)));
        }
    }

    fn is_cut(&self, one: usize, other: usize) -> bool {
        one != other && self.isolated.is_some_and(|isolated| isolated == one || isolated == other)
    }

    /// A keeper says what it has to say, again.
    fn say(&mut self, index: usize) {
        for to in 0..self.machines.len() {
            let (node, keeping) = (self.machines[to].member.node, &self.keepers[index]);
            let said = match &keeping.step {
                Step::Asks(next) => Some(next.ask()),
                Step::Keeps(keeper) if keeper.knows_all(node) => None,
                Step::Keeps(keeper) => keeper.hold(node),
            };
            if !self.is_cut(keeping.machine, to) {
                self.to_holders.extend(said.map(|said| (to, said)));
            }
        }
    }

    fn deliver_any_to_holder(&mut self) {
        if self.to_holders.is_empty() {
            return;
        }
        let index = self.keepers_random.random_range(0..self.to_holders.len());
        let (to, said) = match self.keepers_random.random_range(0..12) {
            0 => return drop(self.to_holders.swap_remove(index)),
            1 => self.to_holders[index].clone(),
            _ => self.to_holders.swap_remove(index),
        };
        self.hand_to_holder(to, &said);
    }

    fn hand_to_holder(&mut self, to: usize, said: &KeeperSays) {
        let from = machine_of(said.keeper().node);
        if self.is_cut(from, to) || self.machines[to].process.is_none() {
            return;
        }
        // Without the rule it is on disk some time after the answer.
        let writes = self.keepers_random.random_range(0..8) == 0;
        let folds = self.keepers_random.random_range(0..32) == 0;
        let machine = &mut self.machines[to];
        let answer = machine.holder.receive(said);
        if writes || machine.holder.has_to_write() {
            machine.write_held();
        }
        if folds {
            machine.fold_held();
        }
        self.to_keepers.push(answer);
    }

    fn deliver_any_to_keeper(&mut self) {
        if self.to_keepers.is_empty() {
            return;
        }
        let index = self.keepers_random.random_range(0..self.to_keepers.len());
        let said = match self.keepers_random.random_range(0..12) {
            0 => return drop(self.to_keepers.swap_remove(index)),
            1 => self.to_keepers[index].clone(),
            _ => self.to_keepers.swap_remove(index),
        };
        self.hand_to_keeper(&said);
    }

    fn hand_to_keeper(&mut self, said: &HolderSays) {
        let Some(index) = self.keepers.iter().position(|keeping| keeping.term() == said.to) else { return };
        if self.is_cut(machine_of(said.from), self.keepers[index].machine) {
            return;
        }
        let lost = self.losses.as_ref().and_then(Losses::nodes);
        let has_ended = match &mut self.keepers[index].step {
            Step::Asks(next) => {
                next.receive(said);
                let (begun, has_ended) = match (next.begin(), lost) {
                    (Ok(keeper), _) => (Some(keeper), false),
                    (Err(BeginError::Superseded(_)), _) => (None, true),
                    (Err(BeginError::TooFew { .. }), None) => (None, false),
                    (Err(BeginError::TooFew { .. }), Some(lost)) => (next.begin_without(lost).ok(), false),
                };
                if let Some(keeper) = begun {
                    self.counts.keepers += 1;
                    self.keepers[index].step = Step::Keeps(Box::new(keeper));
                }
                has_ended
            }
            Step::Keeps(keeper) => {
                keeper.receive(said);
                keeper.superseded_by().is_some()
            }
        };
        self.note_settled(index);
        if has_ended {
            // Other keepers may have ended, too.
            self.keepers.retain(|keeping| keeping.term() != said.to);
        }
    }

    /// What keepers have settled is one history. Machines may follow it, wherever they hear of it.
    fn note_settled(&mut self, index: usize) {
        let Keeping { step: Step::Keeps(keeper), noted, .. } = &mut self.keepers[index] else { return };
        let settled = keeper.settled();
        let new: Vec<ViewRecord> = settled.iter().skip(count_through(settled, *noted)).cloned().collect();
        *noted = keeper.view().number();
        let (through, before) = (*noted, self.records.len());
        for record in new {
            let known = self.records.get(..count_through(&self.records, record.number));
            let known = known.and_then(|known| match record.change {
                ViewChange::Whole(_) => WholeView::of(known),
                _ => known.last().cloned(),
            });
            let gives_up =
                matches!(&record.change, ViewChange::Recovered { lost, .. } if self.may_give_up(lost));
            match known {
                Some(known) if known != record && gives_up => self.give_up(record),
                Some(known) if known != record => {
                    self.violate(format!("two keepers have settled {known:?} and {record:?}"));
                }
                Some(_) => {}
                None => self.publish(Some(record)),
            }
        }
        if self.records.len() > before {
            self.keeper = ViewKeeper::recover(&self.records, self.ring.replicas);
            self.keeper.keep_rules(self.rules);
        }
        self.note_reachable(through);
    }

    /// Whether the disk of a machine may be lost for all that keepers need: nothing is under way, and of the members enough are left
    /// that have not lost theirs, to hold and to answer.
    pub(super) fn keepers_spare(&self, machine: usize) -> bool {
        if !self.moves_keeper {
            return true;
        }
        let view = self.keeper.view();
        let is_member = view.member(self.machines[machine].member.node).is_some();
        let (members, replicas) = (view.members().count(), self.ring.replicas);
        let hold = replicas.min((members + 1).saturating_sub(replicas));
        let lost = self.unnoticed_losses() + usize::from(is_member);
        !self.is_under_way() && (!is_member || (lost < hold && hold + lost <= members))
    }

    /// Whether a record may come to be settled that is not.
    fn is_under_way(&self) -> bool {
        let settled = ViewNumber::new(self.records.len() as u64);
        let is_new = |said: &KeeperSays| match said {
            KeeperSays::Ask(_) => false,
            KeeperSays::Hold { records, .. } => records.last().is_some_and(|last| last.number > settled),
        };
        self.machines.iter().any(|machine| machine.holder.last() > settled)
            || self.to_holders.iter().any(|(_, said)| is_new(said))
            || self
                .keepers
                .iter()
                .any(|keeping| matches!(&keeping.step, Step::Keeps(keeper) if !keeper.is_settled()))
    }

    /// Nothing breaks: the newest keeper settles what it has recorded, and all know.
    pub(super) fn round_keepers(&mut self) {
        if !self.moves_keeper {
            return;
        }
        for _ in 0..EXCHANGES {
            if self.keepers.is_empty() {
                self.promote_any();
            }
            (0..self.keepers.len()).for_each(|index| self.say(index));
            for (to, said) in std::mem::take(&mut self.to_holders) {
                self.hand_to_holder(to, &said);
            }
            for said in std::mem::take(&mut self.to_keepers) {
                self.hand_to_keeper(&said);
            }
        }
    }
}

fn machine_of(node: NodeId) -> usize {
    node.get() as usize - 1
}
