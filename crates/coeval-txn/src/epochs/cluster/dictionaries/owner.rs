// SPDX-License-Identifier: Apache-2.0
//! What the owner of a dictionary knows of the holders and the askers, in one layout.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names::Code;
use crate::epochs::cluster::rules::{Rule, Rules};
use crate::epochs::cluster::view::{Member, NodeId};

/// A holder, as far as the owner knows in this layout.
#[derive(Clone, Copy, Debug)]
struct Follower {
    /// So much of the owner's list it has on disk; `None` before it has said so.
    has: Option<u32>,
    /// What it is told next is what comes after so many.
    next: u32,
    /// It was told something and has not answered: more waits until then, so that what is asked meanwhile goes at once.
    is_asked: bool,
}

/// Somebody who waits for codes.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub(super) from: Member,
    pub(super) number: u64,
    pub(super) texts: Arc<[Arc<str>]>,
    /// How often it could have asked again since it last did.
    pub(super) silent: u32,
}

/// What the owner keeps of a dictionary, besides its list, in one layout. The owner is one of the holders.
#[derive(Clone, Debug)]
pub(super) struct Owning {
    followers: BTreeMap<NodeId, Follower>,
    askers: Vec<Asker>,
}

impl Owning {
    /// At the begin of a layout: the owner's list has this length, and nothing is known of any holder.
    pub(super) fn new(holders: impl IntoIterator<Item = NodeId>, length: u32) -> Self {
        let follower = Follower { has: None, next: length, is_asked: false };
        let followers: BTreeMap<_, _> = holders.into_iter().map(|node| (node, follower)).collect();
        assert!(!followers.is_empty(), "the owner is a holder");
        Self { followers, askers: Vec::new() }
    }

    /// So many of the list are on the disks of all holders: these codes may be told to anybody.
    pub(super) fn settled(&self, rules: Rules) -> u32 {
        let has = self.followers.values().map(|follower| follower.has.unwrap_or(0));
        let settled = if rules.keep(Rule::CodesOnAllHolders) { has.min() } else { has.max() };
        settled.unwrap_or(0)
    }

    /// The holders that are to be told something now, each with how many texts come before that; they count as asked.
    pub(super) fn take_due(&mut self, length: u32) -> Vec<(NodeId, u32)> {
        let is_due = |follower: &Follower| !follower.is_asked && follower.has != Some(length);
        let due = self.followers.iter_mut().filter(|(_, follower)| is_due(follower));
        due.map(|(node, follower)| {
            assert!(follower.next <= length, "no holder has more of the list than its owner");
            follower.is_asked = true;
            (*node, follower.next)
        })
        .collect()
    }

    /// What was told and not answered may be lost; and whoever has not asked again the last `patience` times has given up, so that
    /// those who ask while a holder is down for long do not pile up.
    pub(super) fn doubt(&mut self, patience: u32) {
        self.followers.values_mut().for_each(|follower| follower.is_asked = false);
        self.askers.iter_mut().for_each(|asker| asker.silent += 1);
        self.askers.retain(|asker| asker.silent <= patience);
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.askers.len()
    }

    /// Notes that a holder has so much of the list.
    pub(super) fn note_logged(&mut self, node: NodeId, through: u32) {
        let Some(follower) = self.followers.get_mut(&node) else { return };
        let has = follower.has.map_or(through, |has| has.max(through));
        *follower = Follower { has: Some(has), next: has, is_asked: false };
    }

    /// Notes that a holder has something else before what it was told last, or not so much: `have`. Then it is told what
    /// it lacks, or, in steps of `step`, what is before.
    pub(super) fn note_differs(&mut self, node: NodeId, (after, have): (u32, u32), step: u32) {
        let Some(follower) = self.followers.get_mut(&node) else { return };
        if follower.has.is_none() && follower.next == after {
            let next = if have < after { have } else { after.saturating_sub(step) };
            assert!(next <= after, "what differs is looked for further back");
            *follower = Follower { has: None, next, is_asked: false };
        }
    }

    /// Notes who waits; an ask that comes again waits once.
    pub(super) fn wait(&mut self, asker: Asker) {
        let is_same = |other: &Asker| other.from == asker.from && other.number == asker.number;
        match self.askers.iter().position(is_same) {
            Some(known) => self.askers[known] = asker,
            None => self.askers.push(asker),
        }
    }

    /// Those whose texts all have settled codes, or none.
    pub(super) fn take_ready(&mut self, code_of: impl Fn(&str) -> Option<Code>, rules: Rules) -> Vec<Asker> {
        let settled = self.settled(rules);
        let is_settled = |text: &Arc<str>| code_of(text).is_none_or(|code| code.get() < settled);
        let askers = std::mem::take(&mut self.askers);
        let (ready, waiting) = askers.into_iter().partition(|asker| asker.texts.iter().all(is_settled));
        self.askers = waiting;
        ready
    }
}
