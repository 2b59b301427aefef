// SPDX-License-Identifier: Apache-2.0
//! What keepers and nodes say to each other about records, and what nodes have on disk of that.

use super::writer::{put_len, put_list};
use super::{Malformed, Reader, Wire};
use coeval_txn::cluster::{
    HolderBody, HolderRecord, HolderSays, Incarnation, KeeperPlace, KeeperSays, KeeperTerm, NodeId,
    ViewChange, ViewNumber, ViewRecord,
};
use std::collections::BTreeMap;

type Recoveries = BTreeMap<ViewNumber, KeeperTerm>;

pub(super) fn put_recoveries(out: &mut Vec<u8>, recoveries: &Recoveries) {
    put_len(out, recoveries.len());
    for (view, term) in recoveries {
        view.put(out);
        term.put(out);
    }
}

pub(super) fn get_recoveries(from: &mut Reader) -> Result<Recoveries, Malformed> {
    let mut recoveries = Recoveries::new();
    for _ in 0..from.len()? {
        let (view, term) = (ViewNumber::take(from)?, KeeperTerm::take(from)?);
        if recoveries.last_key_value().is_some_and(|(last, _)| *last >= view) {
            return Err(Malformed::Contradiction("views ascend"));
        }
        recoveries.insert(view, term);
    }
    Ok(recoveries)
}

/// Records that follow each other, the first of them behind `after`, or in the place of all before it and behind it.
fn take_records(from: &mut Reader, after: ViewNumber) -> Result<Vec<ViewRecord>, Malformed> {
    let records: Vec<ViewRecord> = from.list()?;
    let mut last = after;
    for (place, record) in records.iter().enumerate() {
        let follows = match record.change {
            ViewChange::Whole(_) => place == 0 && record.number > last,
            _ => record.number == last.next(),
        };
        if !follows {
            return Err(Malformed::Contradiction("records follow each other"));
        }
        last = record.number;
    }
    Ok(records)
}

impl Wire for KeeperSays {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ask(keeper) => {
                out.push(0);
                keeper.put(out);
            }
            Self::Hold { keeper, after, recoveries, records, settled } => {
                out.push(1);
                keeper.put(out);
                after.put(out);
                put_recoveries(out, recoveries);
                put_list(out, records);
                settled.put(out);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(Self::Ask(KeeperPlace::take(from)?)),
            1 => {
                let (keeper, after) = (KeeperPlace::take(from)?, ViewNumber::take(from)?);
                let recoveries = get_recoveries(from)?;
                let records = take_records(from, after)?;
                Ok(Self::Hold { keeper, after, recoveries, records, settled: ViewNumber::take(from)? })
            }
            kind => Err(Malformed::Kind { what: "word of a keeper", kind }),
        }
    }
}

impl Wire for HolderSays {
    fn put(&self, out: &mut Vec<u8>) {
        self.from.put(out);
        self.log_since.put(out);
        self.to.put(out);
        match &self.body {
            HolderBody::Has { elsewhere, settled, records } => {
                out.push(0);
                elsewhere.put(out);
                settled.put(out);
                put_list(out, records);
            }
            HolderBody::Holds { through, settled } => {
                out.push(1);
                through.put(out);
                settled.put(out);
            }
            HolderBody::Newer(term) => {
                out.push(2);
                term.put(out);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let (sender, log_since) = (NodeId::take(from)?, Incarnation::take(from)?);
        let to = KeeperTerm::take(from)?;
        let body = match from.byte()? {
            0 => {
                let (elsewhere, settled) = (KeeperTerm::take(from)?, ViewNumber::take(from)?);
                let records = take_records(from, ViewNumber::default())?;
                let stands = |first: &&ViewRecord| matches!(first.change, ViewChange::Whole(_));
                let least = records.first().filter(stands).map(|first| first.number);
                let last = records.last().map(|last| last.number);
                if settled > last.unwrap_or_default() || settled < least.unwrap_or_default() {
                    return Err(Malformed::Contradiction("what is settled is held"));
                }
                HolderBody::Has { elsewhere, settled, records }
            }
            1 => HolderBody::Holds { through: ViewNumber::take(from)?, settled: ViewNumber::take(from)? },
            2 => HolderBody::Newer(KeeperTerm::take(from)?),
            kind => return Err(Malformed::Kind { what: "word to a keeper", kind }),
        };
        Ok(Self { from: sender, log_since, to, body })
    }
}

/// A record of the log of views that a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeldRecord {
    /// The first one: since which life of the node this log is there.
    Since(Incarnation),
    /// What the node has promised, or holds.
    Holder(HolderRecord),
}

impl Wire for HeldRecord {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Since(life) => {
                out.push(0);
                life.put(out);
            }
            Self::Holder(HolderRecord::Promised(keeper)) => {
                out.push(1);
                keeper.put(out);
            }
            Self::Holder(HolderRecord::Held(records)) => {
                out.push(2);
                put_list(out, records);
            }
            Self::Holder(HolderRecord::Settled(view)) => {
                out.push(3);
                view.put(out);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(match from.byte()? {
            0 => Self::Since(Incarnation::take(from)?),
            1 => Self::Holder(HolderRecord::Promised(KeeperPlace::take(from)?)),
            2 => Self::Holder(HolderRecord::Held(from.list()?)),
            3 => Self::Holder(HolderRecord::Settled(ViewNumber::take(from)?)),
            kind => return Err(Malformed::Kind { what: "record of held views", kind }),
        })
    }
}
