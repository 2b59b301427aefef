// SPDX-License-Identifier: Apache-2.0
//! [`WholeView`]: what records add up to, in their place.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    CommittedEpoch, Incarnation, KeeperPlace, KeeperTerm, KnownNode, NodeId, View, ViewChange, ViewNumber,
    ViewRecord, recovered_through,
};
use crate::epochs::Epoch;

/// What the records up to one add up to. It stands for them as the first one of a list, once they are settled.
///
/// A node that follows it comes to where it would be behind all of them, if it is at none of them yet. Of the outcomes in them it has what may
/// be news to such a node: `succession.rs`, "Records that say nothing more".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WholeView {
    /// Since which view members, places of bricks, and who is drained are these.
    pub layout: ViewNumber,
    /// Who is live, by node.
    pub members: BTreeMap<NodeId, Incarnation>,
    /// The nodes that bricks are placed on, each in the life in which it has had all that is decided.
    pub placed: BTreeMap<NodeId, Incarnation>,
    /// The nodes that may have left transactions whose outcome is not recorded.
    pub unclosed: BTreeMap<NodeId, Incarnation>,
    /// The newest life of each node that has ever been a member.
    pub newest: BTreeMap<NodeId, Incarnation>,
    /// What was recorded of nodes.
    pub known: BTreeMap<NodeId, KnownNode>,
    /// The nodes that are to have no bricks.
    pub drained: BTreeSet<NodeId>,
    /// The nodes that are out for good.
    pub removed: BTreeSet<NodeId>,
    /// Those without which a keeper has begun.
    pub given_up: BTreeSet<NodeId>,
    /// The keeper.
    pub keeper: Option<KeeperPlace>,
    /// The terms of the keepers that have begun without lost nodes, each with the number of its first record.
    pub recoveries: BTreeMap<ViewNumber, KeeperTerm>,
    /// By node, up to which life its transactions have ended, and an epoch above all of these.
    pub closed: BTreeMap<NodeId, (Incarnation, Epoch)>,
    /// The newest LCE of outcomes.
    pub latest: Epoch,
    /// What outcomes have to be committed above that.
    pub committed: BTreeMap<Epoch, CommittedEpoch>,
}

impl WholeView {
    /// The record that stands for these, which are all from the first on; nothing stands for none. Cost: a look at each.
    ///
    /// # Panics
    ///
    /// If a record is missing.
    #[must_use]
    pub fn of(records: &[ViewRecord]) -> Option<ViewRecord> {
        let number = records.last()?.number;
        let (mut view, mut whole) = (View::default(), Self::default());
        for record in records {
            view.follow(record);
            whole.note(record, &view);
        }
        let View { layout, members, placed, unclosed, known, drained, removed, given_up, keeper, .. } = view;
        let (newest, closed, latest, committed) = (whole.newest, whole.closed, whole.latest, whole.committed);
        let recoveries = view.recoveries;
        let whole = Self {
            layout,
            members,
            placed,
            unclosed,
            newest,
            known,
            drained,
            removed,
            given_up,
            keeper,
            recoveries,
            closed,
            latest,
            committed,
        };
        Some(ViewRecord { number, change: ViewChange::Whole(Box::new(whole)) })
    }

    /// The term of the last keeper up to a view that has begun without lost nodes.
    #[must_use]
    pub fn recovered_through(&self, view: ViewNumber) -> KeeperTerm {
        recovered_through(&self.recoveries, view)
    }

    /// Notes what a view does not tell of the record that has led to it.
    fn note(&mut self, record: &ViewRecord, view: &View) {
        match &record.change {
            ViewChange::Whole(before) => self.clone_from(before),
            ViewChange::Outcomes { nodes, latest, through, committed } => {
                for (node, life) in nodes {
                    let (last, below) = self.closed.entry(*node).or_default();
                    (*last, *below) = ((*last).max(*life), (*below).max(*through));
                }
                let latest = self.latest.max(*latest);
                self.latest = latest;
                self.committed.extend(committed.iter().map(|decided| (decided.epoch, decided.clone())));
                self.committed.retain(|epoch, _| *epoch > latest);
            }
            _ => {}
        }
        self.newest.extend(view.members().map(|member| (member.node, member.incarnation)));
    }

    /// The view of that number.
    pub(super) fn view(&self, number: ViewNumber) -> View {
        View {
            number,
            layout: self.layout,
            members: self.members.clone(),
            placed: self.placed.clone(),
            unclosed: self.unclosed.clone(),
            known: self.known.clone(),
            drained: self.drained.clone(),
            removed: self.removed.clone(),
            keeper: self.keeper,
            recoveries: self.recoveries.clone(),
            given_up: self.given_up.clone(),
        }
    }
}

/// How many of these records, which follow each other, lead no further than to a view. The first one may stand for those before it.
#[must_use]
pub fn count_through(records: &[ViewRecord], view: ViewNumber) -> usize {
    let first = records.first().map_or(1, |first| first.number.get());
    usize::try_from(view.get().saturating_add(1).saturating_sub(first)).unwrap_or(usize::MAX)
}

/// Has one record stand for all of these, which are settled, but for the last `kept`. Records from before the first keeper of a term
/// stay: who goes on after these looks at the first one. Cost: a look at each.
///
/// # Panics
///
/// If these are not all records from the first on.
pub fn fold_records(records: &mut Vec<ViewRecord>, kept: usize) {
    let count = records.len().saturating_sub(kept);
    fold_first(records, count);
}

/// Has one record stand for so many of the first ones.
pub(in super::super) fn fold_first(records: &mut Vec<ViewRecord>, count: usize) {
    let folded = &records[..count];
    if count < 2 || !folded.iter().any(|record| record.change.keeper().is_some()) {
        return;
    }
    if let Some(whole) = WholeView::of(folded) {
        drop(records.splice(..count, [whole]));
    }
}
