// SPDX-License-Identifier: Apache-2.0
//! Loads that are one transaction with rows. Rows are elsewhere: here is what became of them, on which all agree, as on the log of a
//! primary that nobody loses.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;

use super::Simulation;
use crate::epochs::Epoch;
use crate::epochs::cluster::{LoadFate, RowsFate, ToKeeper};

/// The runs of seeds from here on have such transactions, and readers with ages; so those of other seeds are what they were.
pub(in crate::epochs::cluster::tests) const ROWS_FROM: u64 = (1 << 40) + (1 << 39);
/// So many rounds without faults a user waits until rows may be committed.
const PATIENCE: u32 = 6;

/// What became of rows.
#[derive(Debug, Default)]
pub(super) struct RowTransactions {
    /// The loads that are one transaction with rows.
    loads: BTreeSet<Epoch>,
    /// Those whose rows may be committed by now, with what these have to name.
    named: BTreeMap<Epoch, Epoch>,
    /// What became of the rows, once it is so for good.
    fates: BTreeMap<Epoch, RowsFate>,
    /// How many rounds without faults each has waited.
    waited: BTreeMap<Epoch, u32>,
}

impl RowTransactions {
    /// What became of rows, for a keeper: they do not come any more after that.
    fn close(&mut self, epoch: Epoch) -> RowsFate {
        *self.fates.entry(epoch).or_insert(RowsFate::RolledBack)
    }
}

impl Simulation {
    /// A number is given out, of which nothing that counts is left.
    pub(super) fn forget_rows(&mut self, epoch: Epoch) {
        let Some(rows) = &mut self.row_transactions else { return };
        rows.loads.remove(&epoch);
        rows.named.remove(&epoch);
        rows.waited.remove(&epoch);
        if rows.fates.remove(&epoch) == Some(RowsFate::Committed) {
            self.violate(format!("{epoch} begins, whose rows are there"));
        }
    }

    /// Whether a load is one transaction with rows.
    pub(super) fn is_with_rows(&self, epoch: Epoch) -> bool {
        self.row_transactions.as_ref().is_some_and(|rows| rows.loads.contains(&epoch))
    }

    /// A user wants a transaction committed; some of them are with rows.
    pub(super) fn commit(&mut self, machine: usize, epoch: Epoch) {
        let is_load = self.truth[&epoch].delete.is_none();
        let with_rows = is_load && self.row_transactions.is_some() && self.one_in(2);
        let Some(node) = &mut self.machines[machine].process else { return };
        if !with_rows {
            let _ = node.commit(epoch);
        } else if node.prepare(epoch).is_ok()
            && let Some(rows) = &mut self.row_transactions
        {
            rows.loads.insert(epoch);
        }
    }

    /// Something happens to rows, or nothing.
    pub(super) fn step_rows(&mut self) {
        if self.row_transactions.is_none() || !self.one_in(3) {
            return;
        }
        let open = self.open_with_rows();
        if open.is_empty() {
            return;
        }
        let epoch = open[self.random.random_range(0..open.len())];
        let fails = self.one_in(12).then_some(RowsFate::RolledBack);
        self.go_on_with_rows(epoch, fails);
    }

    /// All users of a machine come to an end.
    pub(super) fn end_rows(&mut self, machine: usize) {
        let member = self.machines[machine].member;
        for epoch in self.open_with_rows() {
            if self.truth[&epoch].owner != member {
                continue;
            }
            let Some(rows) = &mut self.row_transactions else { return };
            let waited = rows.waited.entry(epoch).or_default();
            *waited += 1;
            let fails = (*waited > PATIENCE).then_some(RowsFate::RolledBack);
            for _ in 0..3 {
                self.go_on_with_rows(epoch, fails);
            }
        }
    }

    /// Those whose users have not been told how they ended.
    fn open_with_rows(&self) -> Vec<Epoch> {
        let is_open = |epoch: &Epoch| self.truth[epoch].told.is_none();
        let loads = self.row_transactions.iter().flat_map(|rows| &rows.loads).copied();
        loads.filter(is_open).collect()
    }

    /// A transaction with rows comes a step further: its load may be named, its rows are committed, its load is decided. Or its rows fail
    /// now, as long as they are not there.
    fn go_on_with_rows(&mut self, epoch: Epoch, fails: Option<RowsFate>) {
        let owner = self.truth[&epoch].owner;
        let machine = owner.node.get() as usize - 1;
        let Some(node) = self.machines[machine].process.as_mut().filter(|node| node.member() == owner) else {
            return;
        };
        let Some(rows) = &mut self.row_transactions else { return };
        let (fate, named) = (rows.fates.get(&epoch).copied(), rows.named.get(&epoch).copied());
        match (fate.or(fails), named) {
            (Some(RowsFate::Committed), _) => {
                // Else this life takes part no more.
                let _ = node.decide(epoch);
            }
            (Some(RowsFate::RolledBack), _) => {
                rows.fates.insert(epoch, RowsFate::RolledBack);
                let _ = node.roll_back(epoch);
            }
            (None, None) => {
                if let Ok(Some(age)) = node.name(epoch) {
                    rows.named.insert(epoch, age);
                }
            }
            (None, Some(age)) => {
                rows.fates.insert(epoch, RowsFate::Committed);
                self.declared.push((age, node.view().number()));
                self.counts.with_rows += 1;
                self.note_named(epoch, age);
            }
        }
        self.pump(machine);
    }

    /// The version of rows names an age, by which readers see the load.
    fn note_named(&mut self, epoch: Epoch, age: Epoch) {
        let Some(ages) = &mut self.row_ages else { return };
        let before = ages.newest();
        ages.name(age);
        if age < epoch || before.is_some_and(|before| before >= epoch) {
            self.violate(format!("rows with {epoch} name {age}, and those before them {before:?}"));
        }
    }

    /// The keeper is told something, and asks what became of rows.
    pub(super) fn tell_keeper(&mut self, message: &ToKeeper) {
        let mut rows = self.row_transactions.take();
        let mut asked = 0;
        self.decide(|keeper| {
            let mut record = keeper.receive(message);
            for epoch in keeper.asks_rows() {
                asked += 1;
                let fate = rows.as_mut().map_or(RowsFate::RolledBack, |rows| rows.close(epoch));
                record = keeper.note_rows(epoch, fate);
            }
            record
        });
        self.counts.rows_asked += asked;
        self.row_transactions = rows;
    }

    /// A load is seen, and its user is told, as its rows are.
    pub(super) fn check_rows(&mut self, epoch: Epoch) {
        let Some(rows) = self.row_transactions.as_ref().filter(|rows| rows.loads.contains(&epoch)) else {
            return;
        };
        let truth = &self.truth[&epoch];
        let are_there = rows.fates.get(&epoch) == Some(&RowsFate::Committed);
        let is_told_otherwise = match truth.told {
            Some(LoadFate::Committed) => !are_there && !truth.rows.is_empty(),
            Some(LoadFate::RolledBack) => are_there,
            Some(LoadFate::Unknown) | None => false,
        };
        let is_seen_otherwise = truth.is_visible.is_some_and(|is_visible| is_visible != are_there);
        if is_told_otherwise || is_seen_otherwise {
            let (told, seen) = (truth.told, truth.is_visible);
            self.violate(format!(
                "rows of {epoch} are there: {are_there}; it is {told:?}, and seen: {seen:?}"
            ));
        }
    }
}
