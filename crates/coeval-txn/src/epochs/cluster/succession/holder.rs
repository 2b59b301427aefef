// SPDX-License-Identifier: Apache-2.0
//! [`ViewHolder`]: the records that a node holds for keepers.

use std::collections::BTreeMap;

use super::message::{HolderBody, HolderRecord, HolderSays, KeeperSays};
use super::term_of;
use crate::epochs::cluster::rules::{Rule, Rules};
use crate::epochs::cluster::view::{
    Incarnation, KeeperPlace, KeeperTerm, NodeId, ViewChange, ViewNumber, ViewRecord, WholeView,
    count_through, fold_first, recovered_through,
};

/// The records that a node holds for keepers, whether it has followed them or not.
///
/// Pure state: what it is told leaves behind what has to be on disk before the answer leaves
/// ([`take_records`](Self::take_records)).
#[derive(Clone, Debug)]
pub struct ViewHolder {
    node: NodeId,
    log_since: Incarnation,
    /// The newest keeper that was answered, and the two newest of these that are on other nodes; ascending.
    promises: Vec<KeeperPlace>,
    /// The first one may stand for many.
    records: Vec<ViewRecord>,
    settled: ViewNumber,
    to_log: Vec<HolderRecord>,
    rules: Rules,
}

impl ViewHolder {
    /// A node that holds nothing yet. `log_since` is the first life since which its disk has its records: the present one.
    #[must_use]
    pub fn new(node: NodeId, log_since: Incarnation) -> Self {
        Self::recover(node, log_since, [])
    }

    /// A node that starts again, with all that is on its disk, which has it since that life.
    #[must_use]
    pub fn recover<'a>(
        node: NodeId,
        log_since: Incarnation,
        records: impl IntoIterator<Item = &'a HolderRecord>,
    ) -> Self {
        let mut holder = Self {
            node,
            log_since,
            promises: Vec::new(),
            records: Vec::new(),
            settled: ViewNumber::default(),
            to_log: Vec::new(),
            rules: Rules::ALL,
        };
        for record in records {
            match record {
                HolderRecord::Promised(keeper) => holder.promise(*keeper),
                HolderRecord::Held(records) => holder.replace(records),
                HolderRecord::Settled(view) => holder.settle(*view),
            }
        }
        holder.to_log.clear();
        holder
    }

    #[cfg(test)]
    pub(in super::super) fn keep_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Takes in what a keeper says, and gives the answer: to be sent when [`take_records`](Self::take_records) is on disk.
    #[must_use]
    pub fn receive(&mut self, said: &KeeperSays) -> HolderSays {
        let keeper = said.keeper();
        if keeper.term < self.promised() && self.rules.keep(Rule::TermsKept) {
            return self.answer(keeper, HolderBody::Newer(self.promised()));
        }
        if keeper.term > self.promised() {
            self.promise(keeper);
        }
        let body = match said {
            KeeperSays::Ask(_) => HolderBody::Has {
                elsewhere: self.elsewhere_but(keeper.term),
                settled: self.settled,
                records: self.records.clone(),
            },
            KeeperSays::Hold { after, recoveries, records, settled, .. } => {
                if self.goes_by(recoveries) {
                    self.hold(keeper.term, *after, records, *settled);
                }
                let is_its = term_of(&self.records) == keeper.term;
                let through = if is_its { self.last() } else { ViewNumber::default() };
                HolderBody::Holds { through, settled: self.settled }
            }
        };
        self.answer(keeper, body)
    }

    /// Learns from others that a record is settled. It is the next one, or stands for that and more, or has no effect.
    pub fn learn(&mut self, record: &ViewRecord) {
        let is_whole = matches!(record.change, ViewChange::Whole(_));
        if record.number != self.settled.next() && !(is_whole && record.number > self.settled) {
            return;
        }
        if let Some(keeper) = record.change.keeper()
            && keeper.term > self.promised()
        {
            // It has begun, so nobody before it may have anything held any more.
            self.promise(keeper);
        }
        if !self.has(record) {
            self.replace(std::slice::from_ref(record));
        }
        self.settle(record.number);
    }

    /// Whether something has to be on disk before the answers given so far leave.
    #[must_use]
    pub fn has_to_write(&self) -> bool {
        !self.to_log.is_empty() && self.rules.keep(Rule::HeldOnDisk)
    }

    /// What has to be on disk before the answers given so far leave, in this order; each only once. It may be nothing.
    #[must_use]
    pub fn take_records(&mut self) -> Vec<HolderRecord> {
        std::mem::take(&mut self.to_log)
    }

    /// The records that are settled for all that is known here: what the node may follow.
    #[must_use]
    pub fn settled(&self) -> &[ViewRecord] {
        &self.records[..count_through(&self.records, self.settled)]
    }

    /// Has one record stand for all settled ones but the last `kept`, which say nothing more to who begins: whoever has to know of views before
    /// that knows that they are settled. Cost: a look at each.
    ///
    /// # Panics
    /// Never: what is folded ends where it ended.
    pub fn fold(&mut self, kept: usize) {
        let settled = if self.rules.keep(Rule::OnlySettledIsFolded) {
            self.settled().len()
        } else {
            self.records.len()
        };
        let last = self.last();
        fold_first(&mut self.records, settled.saturating_sub(kept));
        assert_eq!(self.last(), last, "what is folded ends where it ended");
    }

    /// How many records are held, where one may stand for many.
    #[must_use]
    pub fn held(&self) -> usize {
        self.records.len()
    }

    /// All that has to be on disk by now: it may be in the place of all that was taken before.
    #[must_use]
    pub fn take_all_records(&mut self) -> Vec<HolderRecord> {
        self.to_log.clear();
        let mut log: Vec<_> = self.promises.iter().copied().map(HolderRecord::Promised).collect();
        if !self.records.is_empty() {
            log.push(HolderRecord::Held(self.records.clone()));
        }
        if self.settled > ViewNumber::default() {
            log.push(HolderRecord::Settled(self.settled));
        }
        log
    }

    /// The last record that is held, settled or not.
    #[must_use]
    pub fn last(&self) -> ViewNumber {
        self.records.last().map(|record| record.number).unwrap_or_default()
    }

    /// Whether all that is settled here is so in a keeper's list too, which has these recoveries. It is not if the keeper, or one before
    /// it, has begun without this node, or this node has followed one that has.
    fn goes_by(&self, recoveries: &BTreeMap<ViewNumber, KeeperTerm>) -> bool {
        let recovered = self.settled().iter().rev().find_map(|record| match &record.change {
            ViewChange::Recovered { keeper, .. } => Some(keeper.term),
            ViewChange::Whole(whole) => Some(whole.recovered_through(record.number)),
            _ => None,
        });
        let is_same = recovered.unwrap_or_default() == recovered_through(recoveries, self.settled);
        is_same || !self.rules.keep(Rule::OneListOfViews)
    }

    /// Whoever it holds records for has no beginning of its list that is settled here and another one there.
    fn hold(&mut self, term: KeeperTerm, after: ViewNumber, records: &[ViewRecord], settled: ViewNumber) {
        if after > self.settled {
            return; // It takes this node to know more than it does. The answer tells.
        }
        let new = records.get(count_through(records, self.settled)..).unwrap_or_default();
        let is_longer = new.last().is_some_and(|last| last.number > self.last());
        if !new.is_empty() && (is_longer || term_of(&self.records) < term) {
            self.replace(new);
        }
        self.settle(settled.min(self.last()));
    }

    fn promised(&self) -> KeeperTerm {
        self.promises.last().map(|keeper| keeper.term).unwrap_or_default()
    }

    fn promise(&mut self, keeper: KeeperPlace) {
        assert!(keeper.term > self.promised(), "promises are of later and later keepers");
        assert!(keeper.term > self.promised(), "a promise is not taken back");
        self.promises.push(keeper);
        let elsewhere: Vec<KeeperTerm> = self.elsewhere().take(2).collect();
        self.promises.retain(|kept| *kept == keeper || elsewhere.contains(&kept.term));
        self.to_log.push(HolderRecord::Promised(keeper));
    }

    /// The keepers elsewhere that were answered, the newest first.
    fn elsewhere(&self) -> impl Iterator<Item = KeeperTerm> + '_ {
        let elsewhere = self.promises.iter().rev().filter(|keeper| keeper.node != self.node);
        elsewhere.map(|keeper| keeper.term)
    }

    /// The newest of these, besides one.
    fn elsewhere_but(&self, term: KeeperTerm) -> KeeperTerm {
        self.elsewhere().find(|other| *other != term).unwrap_or_default()
    }

    /// Whether this record is held, or all that it stands for.
    fn has(&self, record: &ViewRecord) -> bool {
        let Some(held) = self.records.get(..count_through(&self.records, record.number)) else {
            return false;
        };
        match record.change {
            ViewChange::Whole(_) => WholeView::of(held).as_ref() == Some(record),
            _ => held.last() == Some(record),
        }
    }

    /// Holds these from the number of the first one on, or from the first record on if that stands for all before it.
    fn replace(&mut self, records: &[ViewRecord]) {
        let Some(first) = records.first() else { return };
        assert!(first.number > self.settled, "what is settled stays");
        if matches!(first.change, ViewChange::Whole(_)) {
            self.records.clear();
        } else {
            let place = count_through(&self.records, first.number);
            assert!((1..=self.records.len() + 1).contains(&place), "records follow each other");
            self.records.truncate(place - 1);
        }
        self.records.extend_from_slice(records);
        self.to_log.push(HolderRecord::Held(records.to_vec()));
    }

    fn settle(&mut self, view: ViewNumber) {
        if view > self.settled {
            assert!(view <= self.last(), "what is settled here is here");
            self.settled = view;
            self.to_log.push(HolderRecord::Settled(view));
        }
    }

    fn answer(&self, keeper: KeeperPlace, body: HolderBody) -> HolderSays {
        HolderSays { from: self.node, log_since: self.log_since, to: keeper.term, body }
    }
}
