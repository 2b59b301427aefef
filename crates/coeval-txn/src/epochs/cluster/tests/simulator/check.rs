// SPDX-License-Identifier: Apache-2.0
//! The invariants.

use super::machine::Bricks;
use super::{BrickAddress, Held, Simulation, Truth, bricks};
use crate::epochs::cluster::{LoadFate, LoadOutcome, NodeId, View, ViewChange, ViewNumber, ViewRecord};
use crate::epochs::{Epoch, EpochSet};

impl Simulation {
    /// Notes what a user is told.
    pub(super) fn note_outcome(&mut self, machine: usize, outcome: LoadOutcome) {
        let LoadOutcome { epoch, fate } = outcome;
        let view = self.view_of(machine);
        let truth = self.truth.get_mut(&epoch).expect("it has begun");
        let before = truth.told.replace(fate);
        truth.told_in = view;
        let is_delete = truth.delete.is_some() && !truth.rows.is_empty();
        match fate {
            LoadFate::Committed => {
                self.counts.committed += 1;
                self.counts.deletes += usize::from(is_delete);
            }
            LoadFate::RolledBack => self.counts.rolled_back += 1,
            LoadFate::Unknown => self.counts.unknown += 1,
        }
        if before.is_some() {
            self.violate(format!("the user of {epoch} is told {before:?}, then {fate:?}"));
        }
        self.check_visible(epoch);
    }

    /// The view that a machine is at.
    pub(super) fn view_of(&self, machine: usize) -> ViewNumber {
        self.machines[machine].process.as_ref().map(|node| node.view().number()).unwrap_or_default()
    }

    /// Notes what the keeper records of transactions of dead coordinators, and that one begins without lost nodes.
    pub(super) fn note_outcomes(&mut self, record: &ViewRecord) {
        match &record.change {
            ViewChange::Outcomes { committed, .. } => self.counts.closed_committed += committed.len(),
            ViewChange::Recovered { .. } => self.counts.recovered += 1,
            _ => {}
        }
    }

    /// Notes how often bricks have moved.
    pub(super) fn note_moves(&mut self) {
        let mut view = View::default();
        for record in &self.records {
            let was_moving = view.is_moving();
            view.follow(record);
            let is_change = matches!(record.change, ViewChange::Members { .. });
            self.counts.moves += usize::from(was_moving && is_change && !view.is_moving());
        }
    }

    /// What a transaction's user was told agrees with what readers find.
    fn check_visible(&mut self, epoch: Epoch) {
        let truth = &self.truth[&epoch];
        let has_rows = !truth.rows.is_empty();
        let is_wrong = match (truth.told, truth.is_visible) {
            (Some(LoadFate::Committed), Some(is_visible)) => has_rows && !is_visible,
            (Some(LoadFate::RolledBack), Some(is_visible)) => is_visible,
            _ => false,
        };
        if is_wrong {
            let told = truth.told;
            self.violate(format!("{epoch} is {told:?}, and readers found the opposite"));
        }
        self.check_rows(epoch);
    }

    /// A reader looks at a brick of one machine.
    pub(super) fn check_read(
        &mut self,
        machine: usize,
        brick: BrickAddress,
        own: Option<Epoch>,
        set: &EpochSet,
    ) {
        self.counts.reads += 1;
        let rows = self.machines[machine].bricks.get(&brick).cloned().unwrap_or_default();
        let visible: Vec<(Epoch, u64)> = rows.into_iter().filter(|(epoch, _)| set.contains(*epoch)).collect();
        if let Some((epoch, _)) = visible.iter().find(|(epoch, _)| !self.truth.contains_key(epoch)) {
            self.violate(format!("rows of {epoch}, which never began"));
        }
        let others: Vec<Epoch> =
            self.truth.keys().copied().filter(|epoch| Some(*epoch) != own && set.contains(*epoch)).collect();
        for epoch in others {
            let mut found: Vec<u64> =
                visible.iter().filter(|(label, _)| *label == epoch).map(|(_, row)| *row).collect();
            found.sort_unstable();
            self.check_found(machine, brick, epoch, &found);
        }
    }

    fn check_found(&mut self, machine: usize, brick: BrickAddress, epoch: Epoch, found: &[u64]) {
        let view = self.view_of(machine);
        let truth = self.truth.get_mut(&epoch).expect("it has begun");
        let all: &[u64] = truth.rows.get(&brick).map_or(&[], |rows| rows);
        if all.is_empty() && found.is_empty() {
            return;
        }
        let is_found = !found.is_empty();
        if truth.is_visible.is_none() {
            truth.seen_in = view;
        }
        let is_seen = *truth.is_visible.get_or_insert(is_found);
        if (is_found && found != all) || is_seen != is_found {
            let (told, node) = (truth.told, self.machines[machine].member.node);
            let what =
                format!("{node} has {found:?} of {all:?} of {epoch}, {told:?}; seen before: {is_seen}");
            self.violate(what);
        }
        self.check_visible(epoch);
    }

    pub(super) fn check_step(&mut self) {
        let latest = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        let latest = latest.map(|node| node.latest_committed()).max().unwrap_or_default();
        let open =
            self.truth.range(..=latest).find(|(_, truth)| truth.told.is_none() && self.is_live(truth.owner));
        if let Some((epoch, truth)) = open {
            let machine = &self.machines[truth.owner.node.get() as usize - 1];
            if machine.process.as_ref().is_some_and(|node| node.member() == truth.owner) {
                self.violate(format!("somebody's LCE {latest} has passed {epoch}, which has not ended"));
            }
        }
        self.check_safe();
        if self.one_in(20) {
            self.check_durable();
            self.check_texts_durable();
        }
    }

    /// Nobody's LSE has passed what somebody sees who is a member for it.
    fn check_safe(&mut self) {
        let passed = self.machines.iter().filter_map(|machine| machine.process.as_ref()).find_map(|node| {
            let is_passed =
                |held: &&Held| node.view().has(held.owner) && held.set.horizon() < node.latest_safe();
            let held = self.held.iter().filter(|held| self.is_live(held.owner)).find(is_passed)?;
            Some(format!("LSE {} of {} has passed {}", node.latest_safe(), node.member(), held.set))
        });
        if let Some(passed) = passed {
            self.violate(passed);
        }
    }

    /// What a declared reader sees is not after a load that a delete, which it lacks, does not see.
    fn check_declared(&mut self) {
        let is_there =
            |truth: &Truth| truth.told == Some(LoadFate::Committed) || truth.is_visible == Some(true);
        let mut circle = None;
        for (delete, truth) in
            self.truth.iter().filter(|(_, truth)| is_there(truth) && !truth.rows.is_empty())
        {
            let Some(Some(seen)) = &truth.delete else { continue };
            let is_unseen = |(epoch, truth): &(&Epoch, &Truth)| {
                truth.delete.is_none() && is_there(truth) && !truth.rows.is_empty() && !seen.contains(**epoch)
            };
            let Some((load, _)) = self.truth.iter().find(is_unseen) else { continue };
            let mut readers = self.declared.iter().map(|(reader, _)| *reader);
            if let Some(reader) = readers.find(|reader| *load <= *reader && *reader < *delete) {
                circle =
                    Some(format!("a reader up to {reader} sees {load}, which delete {delete} does not see"));
            }
        }
        if let Some(circle) = circle {
            self.violate(circle);
        }
    }

    /// What was acknowledged is on the disks of all nodes that serve its bricks, and there are some.
    fn check_durable(&mut self) {
        let disks: Vec<Bricks> = self.machines.iter().map(super::Machine::bricks_on_disk).collect();
        let mut lost = None;
        for (epoch, truth) in self.truth.iter().filter(|(_, truth)| truth.told == Some(LoadFate::Committed)) {
            for (brick, rows) in &truth.rows {
                let mut serving = self.keeper.view().serving(&self.ring, *brick);
                serving.retain(|node| !self.has_lost_disk(*node));
                let found = |disk: &Bricks| {
                    let found = disk.get(brick).into_iter().flatten().filter(|(label, _)| label == epoch);
                    let mut found: Vec<u64> = found.map(|(_, row)| *row).collect();
                    found.sort_unstable();
                    found
                };
                let is_lost = |node: &&NodeId| found(&disks[node.get() as usize - 1]) != *rows;
                if serving.is_empty() || serving.iter().any(|node| is_lost(&node)) {
                    lost = Some(format!("{epoch} was acknowledged and is not on all of {serving:?}"));
                }
            }
        }
        if let Some(lost) = lost {
            self.violate(lost);
        }
    }

    /// Everything has ended.
    pub(super) fn check_end(&mut self) {
        self.check_durable();
        self.check_texts_durable();
        self.check_texts_end();
        self.check_nodes_end();
        self.check_declared();
        if self.keeper.view().is_moving() {
            self.violate("bricks are still on their way".to_owned());
        }
        // Of one without rows nothing is left if its coordinator dies.
        let is_acknowledged =
            |truth: &Truth| truth.told == Some(LoadFate::Committed) && !truth.rows.is_empty();
        let newest =
            self.truth.iter().filter(|(_, truth)| is_acknowledged(truth)).map(|(epoch, _)| *epoch).max();
        let mut wrong = Vec::new();
        let gone: Vec<bool> = (0..self.machines.len()).map(|machine| self.is_gone(machine)).collect();
        let present = self.machines.iter_mut().zip(gone).filter(|(_, is_gone)| !is_gone);
        for (machine, _) in present {
            let node = machine.process.as_mut().expect("all run");
            let shown = node.declared_read_only().map(|(reader, set)| (node.release(reader), set.newest()).1);
            if shown != Ok(node.latest_committed()) {
                wrong.push(format!("{} shows declared readers {shown:?}", machine.member));
            }
            let (member, latest) = (machine.member, node.latest_committed());
            if !node.view().has(member) {
                wrong.push(format!("{member} is not in the view"));
            }
            let pending: Vec<Epoch> = node.pending().collect();
            if !pending.is_empty() {
                wrong.push(format!("{member} has {pending:?} pending"));
            }
            if newest.is_some_and(|newest| latest < newest) {
                wrong.push(format!("{member} has LCE {latest}, below {newest:?}"));
            }
        }
        let open = self.truth.iter().find(|(_, truth)| truth.told.is_none() && self.is_live(truth.owner));
        wrong.extend(open.map(|(epoch, _)| format!("{epoch} has not ended")));
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
        self.read_all();
    }

    /// A last reader finds all that was acknowledged, everywhere.
    fn read_all(&mut self) {
        let stays = (0..self.machines.len()).find(|machine| !self.is_gone(*machine));
        let stays = stays.expect("not all nodes are gone");
        let latest = self.machines[stays].process.as_ref().expect("all run").latest_committed();
        for brick in bricks() {
            for node in self.keeper.view().serving(&self.ring, brick) {
                self.check_read(node.get() as usize - 1, brick, None, &EpochSet::through(latest));
            }
        }
    }
}
