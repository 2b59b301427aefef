// SPDX-License-Identifier: Apache-2.0
//! Readers that come with the age of their rows. Rows are elsewhere: here are the ages that their versions name, and how far each machine
//! has come with them.

use rand::Rng;

use super::{Held, Simulation};
use crate::epochs::Epoch;

/// The runs of seeds from here on have such readers; so those of other seeds are what they were.
pub(in crate::epochs::cluster::tests) const AGES_FROM: u64 = 1 << 40;

/// What rows name.
#[derive(Debug, Default)]
pub(super) struct RowAges {
    /// The ages, in the order of the versions that name them.
    named: Vec<Epoch>,
    /// By machine, the place among them of the oldest that somebody may come with there. Rows survive what happens to the machine's epochs.
    oldest: Vec<usize>,
}

impl RowAges {
    fn oldest(&mut self, machine: usize) -> &mut usize {
        if self.oldest.len() <= machine {
            self.oldest.resize(machine + 1, 0);
        }
        &mut self.oldest[machine]
    }

    /// What the newest version names.
    pub(super) fn newest(&self) -> Option<Epoch> {
        self.named.last().copied()
    }

    /// Another version names this.
    pub(super) fn name(&mut self, age: Epoch) {
        self.named.push(age);
    }
}

impl Simulation {
    /// Has a new machine expect readers with ages, if there are any.
    pub(super) fn expect_ages(&mut self, machine: usize) {
        if self.row_ages.is_some() {
            self.machines[machine].expect_ages();
        }
    }

    /// Something happens to rows, or nothing.
    pub(super) fn step_ages(&mut self) {
        if self.row_ages.is_none() || !self.one_in(4) {
            return;
        }
        let machine = self.any_machine();
        match self.random.random_range(0..4) {
            0 => self.name_age(machine),
            1 => self.come_further(machine),
            _ => self.hold_by_age(machine),
        }
    }

    /// A version names what this machine shows, whose user writes rows by now.
    fn name_age(&mut self, machine: usize) {
        let Some(node) = &mut self.machines[machine].process else { return };
        let Ok((reader, shown)) = node.declared_read_only() else { return };
        node.release(reader);
        let Some(ages) = &mut self.row_ages else { return };
        if ages.newest().is_none_or(|last| last < shown.newest()) {
            ages.name(shown.newest());
        }
    }

    /// Nobody comes to this machine any more with the oldest rows.
    fn come_further(&mut self, machine: usize) {
        let Some(ages) = &mut self.row_ages else { return };
        let Some(newest) = ages.named.len().checked_sub(1) else { return };
        let place = self.random.random_range(*ages.oldest(machine)..=newest);
        *ages.oldest(machine) = place;
        let age = ages.named[place];
        if let Some(node) = &mut self.machines[machine].process {
            node.note_oldest_age(age);
        }
    }

    /// A reader comes with rows.
    fn hold_by_age(&mut self, machine: usize) {
        let Some(ages) = &mut self.row_ages else { return };
        let Some(newest) = ages.named.len().checked_sub(1) else { return };
        let place = self.random.random_range(*ages.oldest(machine)..=newest);
        let age = ages.named[place];
        let Some(node) = &mut self.machines[machine].process else { return };
        let Ok((reader, set)) = node.read_only_at(age) else { return };
        assert_eq!(set.newest(), age, "it sees what its rows name, and nothing later");
        self.declared.push((age, node.view().number()));
        self.counts.by_age += 1;
        self.held.push(Held { owner: node.member(), own: None, reader: Some(reader), set });
        if self.held.len() > 6 {
            let index = self.random.random_range(0..self.held.len());
            self.let_go(index);
        }
    }
}
