// SPDX-License-Identifier: Apache-2.0
//! What users do on the machines.

use std::collections::BTreeMap;

use rand::Rng;

use super::{BRICKS, BrickAddress, Held, Simulation, Truth, bricks};
use crate::epochs::cluster::{Member, ViewNumber};
use crate::epochs::{Epoch, EpochSet};

impl Simulation {
    pub(super) fn begin(&mut self, machine: usize) {
        let Some(node) = &mut self.machines[machine].process else { return };
        let is_primary = node.view().members().next() == Some(node.member());
        let deletes = is_primary && self.random.random_range(0..3) == 0;
        let begun = if deletes { node.begin_delete() } else { node.begin() };
        let Ok(epoch) = begun else { return };
        let owner = node.member();
        let is_seen = |held: &Held| held.set.contains(epoch) && self.is_live(held.owner);
        // Who is out of the view and does not know has begun nothing that others will ever know of.
        if self.is_live(owner) && self.held.iter().any(is_seen) {
            self.violate(format!("{epoch} begins and is in a snapshot"));
        }
        let truth = Truth {
            owner,
            rows: BTreeMap::new(),
            told: None,
            told_in: ViewNumber::default(),
            is_visible: None,
            seen_in: ViewNumber::default(),
            delete: deletes.then_some(None),
        };
        self.forget_rows(epoch);
        let before = self.truth.insert(epoch, truth);
        if before.is_some_and(|before| before.owner == owner || self.has_trace(epoch, owner)) {
            self.violate(format!("{epoch} was handed out twice"));
        }
        self.pump(machine);
    }

    /// Whether anything that counts is left of an earlier transaction of this number. What those have who are out of the
    /// view does not: they forget it when they come back.
    fn has_trace(&self, epoch: Epoch, owner: Member) -> bool {
        let view = self.keeper.view();
        let knows = |member: Member| {
            let machine = &self.machines[member.node.get() as usize - 1];
            let process =
                machine.process.as_ref().filter(|node| node.view().has(node.member()) && member != owner);
            process.is_some_and(|node| node.pending().any(|pending| pending == epoch))
                || (view.is_placed(member.node) && machine.has_logged(epoch))
        };
        view.members().any(knows)
    }

    /// Whether this incarnation belongs to the present view.
    pub(super) fn is_live(&self, member: Member) -> bool {
        self.keeper.view().has(member)
    }

    /// An open transaction goes on: one of those whose user has not been told of an end.
    pub(super) fn act(&mut self) {
        let open: Vec<Epoch> =
            self.truth.iter().filter(|(_, truth)| truth.told.is_none()).map(|(epoch, _)| *epoch).collect();
        if open.is_empty() {
            return;
        }
        let epoch = open[self.random.random_range(0..open.len())];
        if self.is_with_rows(epoch) {
            return; // Its rows say how it goes on.
        }
        let owner = self.truth[&epoch].owner;
        let machine = owner.node.get() as usize - 1;
        let choice = self.random.random_range(0..10);
        let brick = BrickAddress { table: 1, brick: self.random.random_range(0..BRICKS) };
        let row = self.next_row;
        let rows = self.rows_with_codes(machine, row);
        let Some(node) = self.machines[machine].process.as_mut().filter(|node| node.member() == owner) else {
            return;
        };
        if self.truth[&epoch].delete == Some(None) {
            return; // It does not know yet what it sees.
        }
        match choice {
            0..6 => {
                if node.append(epoch, brick, rows).is_ok() {
                    self.next_row += 2;
                    let truth = self.truth.get_mut(&epoch).expect("it has begun");
                    truth.rows.entry(brick).or_default().extend([row, row + 1]);
                }
            }
            6 => {
                let _ = node.roll_back(epoch);
            }
            _ => self.commit(machine, epoch),
        }
        self.pump(machine);
    }

    /// All users of a machine come to an end.
    pub(super) fn end_loads(&mut self, machine: usize) {
        let Some(node) = &mut self.machines[machine].process else { return };
        let member = node.member();
        let own = self.truth.iter().filter(|(_, truth)| truth.told.is_none() && truth.owner == member);
        for (epoch, _) in own {
            let _ = node.commit(*epoch);
        }
        self.pump(machine);
    }

    /// A reader takes a snapshot.
    pub(super) fn hold(&mut self, machine: usize) {
        if self.held.len() > 1 && self.one_in(2) {
            let index = self.random.random_range(0..self.held.len());
            return self.let_go(index);
        }
        let Some(node) = &mut self.machines[machine].process else { return };
        let is_declared = self.random.random_range(0..2) == 0;
        let held = if is_declared { node.declared_read_only() } else { node.read_only() };
        let Ok((reader, set)) = held else { return };
        if is_declared {
            self.declared.push((set.newest(), node.view().number()));
            self.counts.declared += 1;
        }
        self.held.push(Held { owner: node.member(), own: None, reader: Some(reader), set });
        if self.held.len() > 6 {
            let index = self.random.random_range(0..self.held.len());
            self.let_go(index);
        }
    }

    /// A reader ends.
    pub(super) fn let_go(&mut self, index: usize) {
        let Held { owner, reader, .. } = self.held.swap_remove(index);
        let process = self.machines[owner.node.get() as usize - 1].process.as_mut();
        if let (Some(reader), Some(node)) = (reader, process.filter(|node| node.member() == owner)) {
            node.release(reader);
        }
    }

    /// Transactions that have come to know what they see read by that.
    pub(super) fn note_snapshots(&mut self, machine: usize) {
        let Some(node) = &self.machines[machine].process else { return };
        let owner = node.member();
        let is_held =
            |epoch: &Epoch| self.held.iter().any(|held| held.own == Some(*epoch) && held.owner == owner);
        let own = self.truth.iter().filter(|(_, truth)| truth.owner == owner && truth.told.is_none());
        let snapshots = own.filter_map(|(epoch, _)| Some((*epoch, node.snapshot_of(*epoch)?)));
        let new: Vec<Held> = snapshots
            .filter(|(epoch, _)| !is_held(epoch))
            .map(|(epoch, set)| Held { owner, own: Some(epoch), reader: None, set })
            .collect();
        for held in new {
            let truth = held.own.and_then(|own| self.truth.get_mut(&own));
            if let Some(delete) = truth.and_then(|truth| truth.delete.as_mut()) {
                *delete = Some(held.set.clone());
            }
            self.held.push(held);
        }
        let is_over = |held: &Held| {
            held.own.is_some_and(|own| {
                let machine = &self.machines[held.owner.node.get() as usize - 1];
                let node = machine.process.as_ref().filter(|node| node.member() == held.owner);
                node.is_none_or(|node| node.snapshot_of(own).is_none())
            })
        };
        let over: Vec<bool> = self.held.iter().map(is_over).collect();
        let mut over = over.into_iter();
        self.held.retain(|_| !over.next().unwrap_or_default());
    }

    /// A machine's readers end with it.
    pub(super) fn forget_held(&mut self, machine: usize) {
        let node = self.machines[machine].member.node;
        self.held.retain(|held| held.owner.node != node);
    }

    /// A reader asks for all bricks, each one of the nodes that have it.
    pub(super) fn read_any(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.held.len());
        let Held { owner, own, set, .. } = &self.held[index];
        let (owner, own, set) = (*owner, *own, set.clone());
        bricks().for_each(|brick| self.read(owner, brick, own, &set));
    }

    fn read(&mut self, owner: Member, brick: BrickAddress, own: Option<Epoch>, set: &EpochSet) {
        let Some(node) = &self.machines[owner.node.get() as usize - 1].process else { return };
        if node.member() != owner || node.has_left() {
            return;
        }
        let view = node.view().number();
        let serving = node.view().serving(&self.ring, brick);
        if serving.is_empty() {
            return;
        }
        let asked = serving[self.random.random_range(0..serving.len())].get() as usize - 1;
        let may_read =
            self.machines[asked].process.as_ref().is_some_and(|node| node.may_read(view, brick, set).is_ok());
        if may_read {
            self.check_read(asked, brick, own, set);
        }
    }
}
