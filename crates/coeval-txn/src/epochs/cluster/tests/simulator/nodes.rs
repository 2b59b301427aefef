// SPDX-License-Identifier: Apache-2.0
//! Nodes that come, are drained, and are removed for good.
//!
//! In some runs only, and chosen by random numbers of their own: the others go on as if there were nothing of this.

use std::num::NonZeroU64;
use std::sync::Arc;

use rand::Rng;

use super::machine::Machine;
use super::{Faults, Simulation};
use crate::epochs::cluster::{Incarnation, Member, NodeAsk, NodeId, StartId};

/// So many machines come at most.
pub(super) const COMING_MAX: u32 = 2;
/// One run of so many.
const RUNS: u64 = 4;

/// Whether nodes come and go in the run of a seed.
pub(super) fn changes_nodes(seed: u64, faults: Faults) -> bool {
    faults == Faults::Machines && seed % RUNS == RUNS - 1
}

/// A machine that has asked for a number and may not have heard the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    start: StartId,
    /// The number that the keeper has given.
    given: Option<NodeId>,
}

impl Simulation {
    /// Something happens to the list of nodes, or nothing.
    pub(super) fn step_nodes(&mut self) {
        if !self.changes_nodes {
            return;
        }
        match self.nodes_random.random_range(0..300) {
            0..6 => self.ask_for_number(),
            6..8 => self.drain_any(),
            8 => self.remove_any(),
            _ => {}
        }
    }

    /// A new machine asks the keeper for a number. The answer may be lost; then it asks again.
    fn ask_for_number(&mut self) {
        let machines = u32::try_from(self.machines.len()).expect("there are few machines");
        if machines == self.nodes_max {
            return;
        }
        let start = StartId::new(NonZeroU64::new(u64::from(machines)).expect("there is a machine"));
        let asking = self.asking.take().unwrap_or(Asking { start, given: None });
        let ask = NodeAsk { start: asking.start, node: None, address: Arc::from("there") };
        let (node, record) = match self.keeper.add(&ask, self.nodes_max) {
            Ok(given) => given,
            Err(why) => return self.violate(format!("a new machine gets no number: {why}")),
        };
        self.publish(record);
        if asking.given.is_some_and(|given| given != node) {
            self.violate(format!("{node} was {:?} when it asked before", asking.given));
        }
        if node.get() <= machines {
            return self.violate(format!("{node} is given to another machine"));
        }
        let is_lost = self.nodes_random.random_range(0..2) == 0;
        if is_lost {
            self.asking = Some(Asking { given: Some(node), ..asking });
        } else {
            self.come(node);
        }
    }

    fn come(&mut self, node: NodeId) {
        let member = Member { node, incarnation: Incarnation::new(1) };
        self.machines.push(Machine::new(member, self.nodes_max, self.ring, self.rules));
        self.counts.came += 1;
        self.expect_ages(self.machines.len() - 1);
        self.pump(self.machines.len() - 1);
    }

    fn any_node(&mut self) -> NodeId {
        let machine = self.nodes_random.random_range(0..self.machines.len());
        self.machines[machine].member.node
    }

    fn drain_any(&mut self) {
        let node = self.any_node();
        if let Ok(record) = self.keeper.drain(node) {
            self.counts.drained += usize::from(record.is_some());
            self.publish(record);
        }
    }

    /// Removes a node for good. Its machine may run, and not know yet.
    fn remove_any(&mut self) {
        let node = self.any_node();
        // Whoever removes a node knows which disks are lost.
        if self.unnoticed_losses() > 0 {
            return;
        }
        if let Ok(record) = self.keeper.remove_for_good(node) {
            self.counts.removed += usize::from(record.is_some());
            self.publish(record);
        }
    }

    /// Whether the machine's node is out for good.
    pub(super) fn is_removed(&self, machine: usize) -> bool {
        self.keeper.view().removed().contains(&self.machines[machine].member.node)
    }

    /// Nobody has more than is wanted: who is drained has no bricks, who was removed is in no view.
    pub(super) fn check_nodes_end(&mut self) {
        let view = self.keeper.view();
        let is_drained = |node: &NodeId| view.drained().contains(node);
        let all_are_drained = view.members().all(|member| is_drained(&member.node));
        let has_place = view.placed().keys().copied().find(|node| !all_are_drained && is_drained(node));
        let is_back = view.members().find(|member| view.removed().contains(&member.node));
        if let Some(node) = has_place {
            self.violate(format!("{node} is drained and has a place"));
        }
        if let Some(member) = is_back {
            self.violate(format!("{member} was removed and is back"));
        }
    }
}
