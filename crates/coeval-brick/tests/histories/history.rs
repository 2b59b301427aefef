// SPDX-License-Identifier: Apache-2.0
use std::collections::BTreeMap;

use coeval_brick::BrickId;
use coeval_txn::{Epoch, EpochSet};
use std::sync::{Arc, Mutex};

/// The values that a reader finds, by brick, sorted.
pub(crate) type Contents = BTreeMap<BrickId, Vec<i64>>;

/// What a transaction has done, in order.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Load { epoch: Epoch, brick: BrickId, values: Vec<i64> },
    Delete { epoch: Epoch, brick: BrickId, covered: EpochSet },
}

impl Event {
    pub(crate) fn epoch(&self) -> Epoch {
        match self {
            Self::Load { epoch, .. } | Self::Delete { epoch, .. } => *epoch,
        }
    }
}

/// What all committed transactions have done. A transaction is recorded before its epochs are committed.
#[derive(Default)]
pub(crate) struct History {
    transactions: Mutex<Vec<Arc<[Event]>>>,
}

impl History {
    pub(crate) fn record(&self, events: Vec<Event>) {
        self.transactions.lock().unwrap().push(events.into());
    }

    /// What somebody who sees `set`, and the events of `own`, must find.
    pub(crate) fn contents(&self, set: &EpochSet, own: Option<&[Event]>) -> Contents {
        let committed = self.transactions.lock().unwrap().clone();
        // All epochs of a transaction are committed at once, so one of them tells.
        let seen =
            committed.iter().filter(|events| events.first().is_some_and(|event| set.contains(event.epoch())));
        let transactions: Vec<&[Event]> = seen.map(AsRef::as_ref).chain(own).collect();
        let deletes: Vec<(usize, usize, BrickId, &EpochSet)> = each(&transactions)
            .filter_map(|(transaction, place, event)| match event {
                Event::Delete { brick, covered, .. } => Some((transaction, place, *brick, covered)),
                Event::Load { .. } => None,
            })
            .collect();
        let mut contents = Contents::new();
        for (transaction, place, event) in each(&transactions) {
            let Event::Load { epoch, brick, values } = event else { continue };
            let is_deleted = deletes.iter().any(|(deleter, deleted_at, deleted, covered)| {
                let is_own = *deleter == transaction && place < *deleted_at;
                deleted == brick && (covered.contains(*epoch) || is_own)
            });
            if !is_deleted {
                contents.entry(*brick).or_default().extend(values);
            }
        }
        contents.values_mut().for_each(|values| values.sort_unstable());
        contents
    }
}

fn each<'a>(transactions: &'a [&'a [Event]]) -> impl Iterator<Item = (usize, usize, &'a Event)> {
    let numbered = transactions.iter().enumerate();
    numbered.flat_map(|(number, events)| {
        events.iter().enumerate().map(move |(place, event)| (number, place, event))
    })
}
