// SPDX-License-Identifier: Apache-2.0
//! Members, views, and what the keeper is told and writes.

use super::joining::{get_start, put_start};
use super::message::{get_terms, put_terms};
use super::writer::{put_len, put_list, put_u64};
use super::{Malformed, Reader, Wire};
use coeval_txn::Epoch;
use coeval_txn::cluster::{
    ClosedReport, CommitTerms, CommittedEpoch, Incarnation, KeeperPlace, KeeperTerm, Member, NodeId,
    ToKeeper, ViewChange, ViewNumber, ViewRecord, WholeView,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Wire for NodeId {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, u64::from(self.get()));
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.u32()? {
            0 => Err(Malformed::Range),
            number => Ok(Self::new(number)),
        }
    }
}

impl Wire for Incarnation {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.get());
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        from.u64().map(Self::new)
    }
}

impl Wire for Member {
    fn put(&self, out: &mut Vec<u8>) {
        self.node.put(out);
        self.incarnation.put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { node: NodeId::take(from)?, incarnation: Incarnation::take(from)? })
    }
}

/// A view is the number of records before it, so one below the largest number can be gone on from.
impl Wire for ViewNumber {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.get());
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.u64()? {
            u64::MAX => Err(Malformed::Range),
            number => Ok(Self::new(number)),
        }
    }
}

impl Wire for KeeperTerm {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.number());
        put_u64(out, self.start());
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self::new(from.u64()?, from.u64()?))
    }
}

impl Wire for KeeperPlace {
    fn put(&self, out: &mut Vec<u8>) {
        self.term.put(out);
        self.node.put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { term: KeeperTerm::take(from)?, node: NodeId::take(from)? })
    }
}

type Lives = BTreeMap<NodeId, Incarnation>;

pub(super) fn put_lives(out: &mut Vec<u8>, lives: &Lives) {
    put_len(out, lives.len());
    for (node, incarnation) in lives {
        Member { node: *node, incarnation: *incarnation }.put(out);
    }
}

pub(super) fn get_lives(from: &mut Reader) -> Result<Lives, Malformed> {
    let members: Vec<Member> = from.list()?;
    let ascend = members.windows(2).all(|pair| pair[0].node < pair[1].node);
    if !ascend {
        return Err(Malformed::Contradiction("nodes of a view ascend"));
    }
    Ok(members.into_iter().map(|member| (member.node, member.incarnation)).collect())
}

pub(super) fn put_nodes(out: &mut Vec<u8>, nodes: &BTreeSet<NodeId>) {
    put_len(out, nodes.len());
    nodes.iter().for_each(|node| node.put(out));
}

pub(super) fn get_nodes(from: &mut Reader) -> Result<BTreeSet<NodeId>, Malformed> {
    let nodes: Vec<NodeId> = from.list()?;
    if nodes.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(Malformed::Contradiction("nodes ascend"));
    }
    Ok(nodes.into_iter().collect())
}

impl Wire for ViewChange {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Members { members, placed } => {
                out.push(0);
                put_lives(out, members);
                put_lives(out, placed);
            }
            Self::Outcomes { nodes, latest, through, committed } => {
                out.push(1);
                put_lives(out, nodes);
                latest.put(out);
                through.put(out);
                put_list(out, committed);
            }
            Self::Known { node, address, start } => {
                out.push(2);
                node.put(out);
                address.put(out);
                put_start(out, *start);
            }
            Self::Drained { node } => {
                out.push(3);
                node.put(out);
            }
            Self::Removed { node } => {
                out.push(4);
                node.put(out);
            }
            Self::Keeper(keeper) => {
                out.push(5);
                keeper.put(out);
            }
            Self::Recovered { keeper, lost } => {
                out.push(6);
                keeper.put(out);
                put_nodes(out, lost);
            }
            Self::Whole(whole) => {
                out.push(7);
                whole.put(out);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => {
                let (members, placed) = (get_lives(from)?, get_lives(from)?);
                if placed.is_empty() {
                    return Err(Malformed::Contradiction("bricks are placed somewhere"));
                }
                Ok(Self::Members { members, placed })
            }
            1 => {
                let nodes = get_lives(from)?;
                let (latest, through) = (Epoch::take(from)?, Epoch::take(from)?);
                if latest >= through {
                    return Err(Malformed::Contradiction("LCE is below EC"));
                }
                Ok(Self::Outcomes { nodes, latest, through, committed: from.list()? })
            }
            2 => {
                let (node, address) = (NodeId::take(from)?, <Arc<str>>::take(from)?);
                Ok(Self::Known { node, address, start: get_start(from)? })
            }
            3 => Ok(Self::Drained { node: NodeId::take(from)? }),
            4 => Ok(Self::Removed { node: NodeId::take(from)? }),
            5 => Ok(Self::Keeper(KeeperPlace::take(from)?)),
            6 => Ok(Self::Recovered { keeper: KeeperPlace::take(from)?, lost: get_nodes(from)? }),
            7 => Ok(Self::Whole(Box::new(WholeView::take(from)?))),
            kind => Err(Malformed::Kind { what: "change of the view", kind }),
        }
    }
}

impl Wire for ViewRecord {
    fn put(&self, out: &mut Vec<u8>) {
        self.number.put(out);
        self.change.put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { number: ViewNumber::take(from)?, change: ViewChange::take(from)? })
    }
}

impl Wire for ToKeeper {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Join { member, log_since } => {
                out.push(0);
                member.put(out);
                log_since.put(out);
            }
            Self::Closed(report) => {
                out.push(1);
                report.put(out);
            }
            Self::Complete { from, layout } => {
                out.push(2);
                from.put(out);
                layout.put(out);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(Self::Join { member: Member::take(from)?, log_since: Incarnation::take(from)? }),
            1 => Ok(Self::Closed(ClosedReport::take(from)?)),
            2 => Ok(Self::Complete { from: Member::take(from)?, layout: ViewNumber::take(from)? }),
            kind => Err(Malformed::Kind { what: "message to the keeper", kind }),
        }
    }
}

impl Wire for ClosedReport {
    fn put(&self, out: &mut Vec<u8>) {
        self.from.put(out);
        self.view.put(out);
        self.clock.put(out);
        self.latest_committed.put(out);
        put_list(out, &self.decided);
        put_len(out, self.commits.len());
        for (epoch, terms) in &self.commits {
            epoch.put(out);
            put_terms(out, terms);
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let (sender, view) = (Member::take(from)?, ViewNumber::take(from)?);
        let (clock, latest_committed) = (Epoch::take(from)?, Epoch::take(from)?);
        let decided: Vec<CommittedEpoch> = from.list()?;
        let mut commits: Vec<(Epoch, CommitTerms)> = Vec::new();
        for _ in 0..from.len()? {
            let epoch = Epoch::take(from)?;
            commits.push((epoch, get_terms(epoch, from)?));
        }
        if latest_committed >= clock {
            return Err(Malformed::Contradiction("LCE is below EC"));
        }
        Ok(Self { from: sender, view, clock, latest_committed, decided, commits })
    }
}
