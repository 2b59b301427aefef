// SPDX-License-Identifier: Apache-2.0
//! [`Silence`]: who has said nothing for too long, or is not heard by others.

use crate::node::NodeId;
use crate::wire::Alive;
use coeval_txn::cluster::{Member, View};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What is known of who speaks.
#[derive(Debug)]
pub(super) struct Silence {
    limit: Duration,
    /// Of each member of the view, when it last spoke, and whom it does not hear.
    members: BTreeMap<Member, Voice>,
}

#[derive(Debug)]
struct Voice {
    heard: Instant,
    unheard: Vec<NodeId>,
}

impl Silence {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, members: BTreeMap::new() }
    }

    /// The view is this one. Who is new in it has as long as the others; what was said of each other in an earlier view does
    /// not count.
    pub(super) fn enter(&mut self, view: &View, now: Instant) {
        self.members.retain(|member, _| view.has(*member));
        for member in view.members() {
            let voice =
                self.members.entry(member).or_insert_with(|| Voice { heard: now, unheard: Vec::new() });
            voice.unheard.clear();
        }
    }

    /// The keeper itself was away for a while, so it has heard nobody: all have as long as if they were new.
    pub(super) fn forgive(&mut self, now: Instant) {
        self.members.values_mut().for_each(|voice| {
            voice.heard = now;
            voice.unheard.clear();
        });
    }

    /// A node has spoken.
    pub(super) fn hear(&mut self, alive: &Alive, view: &View, now: Instant) {
        if let Some(voice) = self.members.get_mut(&alive.member) {
            voice.heard = now;
            if alive.followed == view.number() {
                voice.unheard.clone_from(&alive.unheard);
            }
        }
    }

    /// The nodes that have said nothing for too long.
    pub(super) fn silent(&self, now: Instant) -> Vec<NodeId> {
        let is_silent = |voice: &Voice| now.duration_since(voice.heard) > self.limit;
        self.members.iter().filter(|(_, voice)| is_silent(voice)).map(|(member, _)| member.node).collect()
    }

    /// Of the nodes that do not hear each other, the one with the most of them: without it the others can go on. Among equals
    /// that with the greatest number, but for `spared`, where the keeper is.
    pub(super) fn cut_off(&self, spared: NodeId) -> Option<NodeId> {
        let is_member = |node: NodeId| self.members.keys().any(|member| member.node == node);
        let mut links: Vec<(NodeId, NodeId)> = Vec::new();
        for (member, voice) in &self.members {
            let others = voice.unheard.iter().filter(|node| **node != member.node && is_member(**node));
            links.extend(others.map(|node| (member.node.min(*node), member.node.max(*node))));
        }
        links.sort_unstable();
        links.dedup();
        let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
        for node in links.iter().flat_map(|(one, other)| [one, other]) {
            *counts.entry(*node).or_default() += 1;
        }
        let most = counts.iter().max_by_key(|(node, count)| (**count, **node != spared, **node));
        most.map(|(node, _)| *node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_txn::cluster::{Incarnation, KeeperTerm, ViewKeeper, ViewNumber};

    fn member(node: u32) -> Member {
        Member { node: NodeId::new(node), incarnation: Incarnation::new(1) }
    }

    fn view(nodes: u32) -> View {
        let members: Vec<Member> = (1..=nodes).map(member).collect();
        ViewKeeper::found(&members, 1).0.view().clone()
    }

    fn silence(nodes: u32) -> (Silence, View, Instant) {
        let (mut silence, view, now) = (Silence::new(Duration::from_secs(3)), view(nodes), Instant::now());
        silence.enter(&view, now);
        (silence, view, now)
    }

    fn says(node: u32, unheard: &[u32]) -> Alive {
        let unheard = unheard.iter().copied().map(NodeId::new).collect();
        let (followed, recovered) = (ViewNumber::new(1), KeeperTerm::default());
        Alive { member: member(node), followed, recovered, unheard }
    }

    #[test]
    fn who_says_nothing_is_silent_after_a_while() {
        let (mut silence, view, now) = silence(3);
        let later = now + Duration::from_secs(2);
        silence.hear(&says(1, &[]), &view, later);
        silence.hear(&says(3, &[]), &view, later);
        assert_eq!(silence.silent(later), []);
        assert_eq!(silence.silent(now + Duration::from_secs(4)), [NodeId::new(2)]);
        silence.forgive(now + Duration::from_secs(4));
        assert_eq!(silence.silent(now + Duration::from_secs(6)), []);
        assert_eq!(silence.silent(now + Duration::from_secs(8)).len(), 3);
        silence.hear(&says(1, &[]), &view, now + Duration::from_secs(7));
        silence.hear(&says(3, &[]), &view, now + Duration::from_secs(7));
        let mut earlier_life = says(2, &[]);
        earlier_life.member.incarnation = Incarnation::new(0);
        silence.hear(&earlier_life, &view, now + Duration::from_secs(8));
        assert_eq!(silence.silent(now + Duration::from_secs(8)), [NodeId::new(2)], "another life spoke");
    }

    #[test]
    fn the_one_that_most_do_not_hear_is_cut_off_whoever_says_so() {
        let (mut silence, view, now) = silence(4);
        assert_eq!(silence.cut_off(NodeId::new(1)), None);
        // Nothing reaches node 3, and it reaches all.
        silence.hear(&says(3, &[1, 2, 4]), &view, now);
        assert_eq!(silence.cut_off(NodeId::new(1)), Some(NodeId::new(3)));
        // Of two that only do not hear each other, it is not the keeper's own.
        silence.hear(&says(3, &[4]), &view, now);
        silence.hear(&says(4, &[3]), &view, now);
        assert_eq!(silence.cut_off(NodeId::new(4)), Some(NodeId::new(3)));
        assert_eq!(silence.cut_off(NodeId::new(1)), Some(NodeId::new(4)));
        // In another view it has to be said again.
        silence.enter(&view, now);
        assert_eq!(silence.cut_off(NodeId::new(1)), None);
        let old = Alive { followed: ViewNumber::new(0), ..says(3, &[4]) };
        silence.hear(&old, &view, now);
        assert_eq!(silence.cut_off(NodeId::new(1)), None);
    }
}
