// SPDX-License-Identifier: Apache-2.0
//! Machines that are gone for good, and keepers that begin without them, since somebody says that they are lost.
//!
//! In runs of their own. In each of these some machines are gone once, at a moment at which the others can go on: fewer with bricks than a
//! brick has replicas; in every other run, at a moment at which only they have some settled views. What is true then:
//!
//! - views are one sequence, but that such a keeper may begin in the place of views that only those have followed who are lost, or whom it
//!   did not have to hear;
//! - what was acknowledged, and what a reader has found, in views that stay, stays so. Of the rest readers find all or nothing from then on,
//!   everywhere the same;
//! - nobody waits for those that are gone: all the others come to the end that they come to in other runs.
//!
//! Nodes write what they follow to their disks, as their callers do. Texts and ages are left to other runs.

use std::collections::BTreeSet;

use rand::Rng;

use super::machine::Machine;
use super::{Faults, Simulation};
use crate::epochs::cluster::{
    KeeperPlace, KeeperTerm, LoadFate, NextKeeper, NodeId, View, ViewKeeper, ViewNumber, ViewRecord,
    count_through,
};

/// The runs of seeds from here on lose machines; so those of other seeds are what they were.
pub(in crate::epochs::cluster::tests) const LOSSES_FROM: u64 = 1 << 41;

/// Machines that are gone for good, in runs in which some are.
#[derive(Debug)]
pub(super) struct Losses {
    /// They are gone when nobody else has some views.
    with_views: bool,
    /// Who is gone; nobody yet, if it is empty.
    nodes: BTreeSet<NodeId>,
    /// How many records each machine knew when that happened.
    known: Vec<usize>,
    /// So many all that are left can get.
    reachable: usize,
    /// Views were given up. That is done once.
    has_given_up: bool,
}

impl Losses {
    /// What the run of a seed loses, if it does.
    pub(super) fn of_run(seed: u64, faults: Faults) -> Option<Self> {
        let loses = faults == Faults::Machines && seed >= LOSSES_FROM;
        let with_views = seed.is_multiple_of(2);
        let (nodes, known) = (BTreeSet::new(), Vec::new());
        loses.then_some(Self { with_views, nodes, known, reachable: usize::MAX, has_given_up: false })
    }

    /// Who is gone, if somebody is.
    pub(super) fn nodes(&self) -> Option<&BTreeSet<NodeId>> {
        Some(&self.nodes).filter(|nodes| !nodes.is_empty())
    }
}

impl Simulation {
    /// Whether the machine is gone for good.
    pub(super) fn is_lost(&self, machine: usize) -> bool {
        let node = self.machines[machine].member.node;
        self.losses.as_ref().is_some_and(|losses| losses.nodes.contains(&node))
    }

    /// Whether it is gone, or its node was removed.
    pub(super) fn is_gone(&self, machine: usize) -> bool {
        self.is_lost(machine) || self.is_removed(machine)
    }

    /// Whether somebody is gone.
    pub(super) fn has_lost_machines(&self) -> bool {
        self.losses.as_ref().is_some_and(|losses| losses.nodes().is_some())
    }

    /// So many records a machine can get: all, unless some are gone with those who had them. Until a keeper has begun, the others tell each
    /// other nothing.
    pub(super) fn reachable(&self, machine: usize) -> usize {
        let all = self.records.len();
        let Some(losses) = &self.losses else { return all };
        let known = losses.known.get(machine).copied().unwrap_or_default();
        known.max(losses.reachable).min(all)
    }

    /// A keeper has settled what leads to this view, so whoever is left can get that.
    pub(super) fn note_reachable(&mut self, view: ViewNumber) {
        let through = count_through(&self.records, view);
        if let Some(losses) = &mut self.losses {
            losses.reachable = losses.reachable.max(through);
        }
    }

    /// Whether a keeper may remove this node: as long as one that is gone is in the view, no other. Else some brick might be nowhere, and all
    /// would wait for that.
    pub(super) fn may_be_removed(&self, node: NodeId) -> bool {
        let Some(lost) = self.losses.as_ref().and_then(Losses::nodes) else { return true };
        lost.contains(&node) || !lost.iter().any(|lost| self.keeper.view().member(*lost).is_some())
    }

    /// Some machines are gone for good, if the others can go on without them.
    pub(super) fn lose_for_good(&mut self) {
        let Some(losses) = self.losses.as_ref().filter(|losses| losses.nodes.is_empty()) else { return };
        let with_views = losses.with_views;
        let most = self.ring.replicas.min(self.machines.len()) - 1;
        if most == 0 {
            return;
        }
        let count = self.keepers_random.random_range(1..=most);
        let mut lost = BTreeSet::new();
        while lost.len() < count {
            let machine = self.keepers_random.random_range(0..self.machines.len());
            lost.insert(self.machines[machine].member.node);
        }
        let known: Vec<usize> = self.machines.iter().map(|machine| self.known_by(machine)).collect();
        let is_left = |machine: &usize| !lost.contains(&self.machines[*machine].member.node);
        let others_know = (0..known.len()).filter(is_left).map(|machine| known[machine]).max();
        let have_all = others_know == Some(self.records.len());
        if (with_views && have_all) || !self.may_go_on_without(&lost) {
            return;
        }
        for machine in 0..self.machines.len() {
            let Machine { member, process, .. } = &self.machines[machine];
            if lost.contains(&member.node) && process.is_some() {
                self.stop(machine);
            }
        }
        // Nothing that they have said about views is under way any more, and somebody is about to be promoted.
        self.keepers.clear();
        self.to_holders.clear();
        self.to_keepers.clear();
        self.counts.gone += lost.len();
        self.losses = Some(Losses { with_views, nodes: lost, known, reachable: 0, has_given_up: false });
    }

    fn left<'a>(&'a self, lost: &'a BTreeSet<NodeId>) -> impl Iterator<Item = &'a Machine> + 'a {
        self.machines.iter().filter(move |machine| !lost.contains(&machine.member.node))
    }

    /// How many records a machine knows to be settled.
    fn known_by(&self, machine: &Machine) -> usize {
        let settled = machine.holder_now().settled().last().map(|record| record.number);
        let followed = if machine.process.is_some() { machine.followed } else { 0 };
        followed.max(count_through(&self.records, settled.unwrap_or_default()))
    }

    /// Whether a keeper could begin that hears all the others.
    fn may_go_on_without(&self, lost: &BTreeSet<NodeId>) -> bool {
        let Some(first) = self.left(lost).next() else { return false };
        let place = KeeperPlace { term: KeeperTerm::new(self.terms + 1, 0), node: first.member.node };
        let mut next = NextKeeper::new(place, self.ring.replicas);
        for machine in self.left(lost) {
            let answer = machine.holder_now().receive(&next.ask());
            next.receive(&answer);
        }
        next.begin_without(lost).is_ok()
    }

    /// Whether a keeper that has begun without lost nodes may have others give up what these have settled.
    pub(super) fn may_give_up(&self, lost: &BTreeSet<NodeId>) -> bool {
        self.losses.as_ref().is_some_and(|losses| losses.nodes == *lost && !losses.has_given_up)
    }

    /// A keeper has settled its first record, which says that nodes are lost, in the place of one that they have settled.
    pub(super) fn give_up(&mut self, record: ViewRecord) {
        let last = ViewNumber::new(record.number.get() - 1);
        let kept = count_through(&self.records, last);
        let mut view = View::default();
        self.records[..kept].iter().for_each(|record| view.follow(record));
        let knows_others = |machine: &Machine| {
            let settled = machine.holder.settled().last().map(|record| record.number);
            machine.ever_followed > kept || settled.is_some_and(|settled| settled > last)
        };
        let left = (0..self.machines.len()).filter(|machine| !self.is_lost(*machine));
        let others: Vec<usize> = left.filter(|machine| knows_others(&self.machines[*machine])).collect();
        let members = others.iter().map(|machine| self.machines[*machine].member);
        let misled = members.filter(|member| view.member(member.node).is_some()).min();
        if let Some(member) = misled {
            self.violate(format!("{member} knows of views behind {}, which are given up", last.get()));
        }
        self.records.truncate(kept);
        self.publish(Some(record));
        self.keeper = ViewKeeper::recover(&self.records, self.ring.replicas);
        self.keeper.keep_rules(self.rules);
        self.counts.given_up += 1;
        if let Some(losses) = &mut self.losses {
            losses.has_given_up = true;
        }
        self.forget_behind(last);
        others.into_iter().for_each(|machine| self.begin_anew(machine));
    }

    /// What was true in views behind this one need not be so any more.
    fn forget_behind(&mut self, last: ViewNumber) {
        for truth in self.truth.values_mut() {
            if truth.told.is_some() && truth.told_in > last {
                truth.told = Some(LoadFate::Unknown);
            }
            if truth.seen_in > last {
                truth.is_visible = None;
            }
        }
        self.declared.retain(|(_, view)| *view <= last);
        // Who has said something there is gone, or ends now, and its connections with it.
        self.network.retain(|message| message.view <= last);
        self.copies.retain(|copying| copying.view <= last);
        self.text_network.clear();
    }

    /// A machine that has come in views that were given up begins with nothing on its disk.
    fn begin_anew(&mut self, machine: usize) {
        let runs = self.machines[machine].process.is_some();
        if runs {
            self.stop(machine);
        }
        self.machines[machine].lose_disk();
        if let Some(losses) = &mut self.losses {
            losses.known[machine] = 0;
        }
        if runs {
            self.start(machine);
        }
    }

    /// The keeper hears nothing of those that are gone.
    pub(super) fn remove_lost(&mut self) {
        let lost: Vec<NodeId> = self.losses.iter().flat_map(|losses| &losses.nodes).copied().collect();
        for node in lost {
            if self.keeper.view().member(node).is_some() {
                self.decide(|keeper| keeper.remove(node).ok());
                self.round_keepers();
            }
        }
    }
}
