// SPDX-License-Identifier: Apache-2.0
//! Messages of the protocol.

use super::change::{get_append, put_append};
use super::epochs::dependencies_of;
use super::writer::{put_len, put_list, put_u64};
use super::{Malformed, Reader, Wire};
use crate::brick_change::BrickChange;
use coeval_txn::Epoch;
use coeval_txn::cluster::{
    Body, BrickAddress, CommitTerms, CommittedEpoch, EpochKind, Member, Message, Pending, Standing,
    ViewNumber,
};

impl Wire for Message<BrickChange> {
    fn put(&self, out: &mut Vec<u8>) {
        self.from.put(out);
        self.to.put(out);
        self.view.put(out);
        self.clock.put(out);
        self.body.put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let message = Self {
            from: Member::take(from)?,
            to: Member::take(from)?,
            view: ViewNumber::take(from)?,
            clock: Epoch::take(from)?,
            body: Body::take(from)?,
        };
        if let Body::Commit(_, terms) = &message.body
            && !terms.holders.contains(&message.to)
        {
            return Err(Malformed::Contradiction("a commit names whom it asks"));
        }
        Ok(message)
    }
}

impl Wire for Body<BrickChange> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begin(epoch, kind) => put_epoch(out, 0, *epoch, |out| kind.put(out)),
            Self::Append { epoch, number, brick, rows } => put_epoch(out, 1, *epoch, |out| {
                put_u64(out, u64::from(*number));
                brick.put(out);
                put_append(out, rows);
            }),
            Self::Commit(epoch, terms) => put_epoch(out, 2, *epoch, |out| put_terms(out, terms)),
            Self::Cut(epoch) => put_epoch(out, 3, *epoch, |_| {}),
            Self::Decided(decided) => {
                out.push(4);
                decided.put(out);
            }
            Self::Ended(epoch) => put_epoch(out, 5, *epoch, |_| {}),
            Self::Meet => out.push(6),
            Self::Begun(epoch, pending) => put_epoch(out, 7, *epoch, |out| pending.put(out)),
            Self::Appended(epoch, number) => {
                put_epoch(out, 8, *epoch, |out| put_u64(out, u64::from(*number)));
            }
            Self::CommitLogged(epoch) => put_epoch(out, 9, *epoch, |_| {}),
            Self::RowsMissing(epoch) => put_epoch(out, 10, *epoch, |_| {}),
            Self::CutLogged(epoch) => put_epoch(out, 11, *epoch, |_| {}),
            Self::Heard(epoch) => put_epoch(out, 12, *epoch, |_| {}),
            Self::Met(standing, older) => {
                out.push(13);
                standing.put(out);
                put_list(out, older);
            }
            Self::Floor(epoch) => put_epoch(out, 14, *epoch, |_| {}),
            Self::Newer => out.push(15),
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(match from.byte()? {
            0 => Self::Begin(Epoch::take(from)?, EpochKind::take(from)?),
            1 => {
                let (epoch, number) = (Epoch::take(from)?, from.u32()?);
                let brick = BrickAddress::take(from)?;
                Self::Append { epoch, number, brick, rows: get_append(epoch, from)? }
            }
            2 => {
                let epoch = Epoch::take(from)?;
                Self::Commit(epoch, get_terms(epoch, from)?)
            }
            3 => Self::Cut(Epoch::take(from)?),
            4 => Self::Decided(CommittedEpoch::take(from)?),
            5 => Self::Ended(Epoch::take(from)?),
            6 => Self::Meet,
            7 => Self::Begun(Epoch::take(from)?, Pending::take(from)?),
            8 => Self::Appended(Epoch::take(from)?, from.u32()?),
            9 => Self::CommitLogged(Epoch::take(from)?),
            10 => Self::RowsMissing(Epoch::take(from)?),
            11 => Self::CutLogged(Epoch::take(from)?),
            12 => Self::Heard(Epoch::take(from)?),
            13 => Self::Met(Standing::take(from)?, from.list()?),
            14 => Self::Floor(Epoch::take(from)?),
            15 => Self::Newer,
            kind => return Err(Malformed::Kind { what: "message", kind }),
        })
    }
}

/// A choice that is about a transaction.
pub(super) fn put_epoch(out: &mut Vec<u8>, kind: u8, epoch: Epoch, put_rest: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    epoch.put(out);
    put_rest(out);
}

pub(super) fn put_terms(out: &mut Vec<u8>, terms: &CommitTerms) {
    terms.kind.put(out);
    put_u64(out, u64::from(terms.appends));
    put_list(out, &terms.dependencies);
    put_list(out, &terms.holders);
}

/// The terms of the commit of `epoch`.
pub(super) fn get_terms(epoch: Epoch, from: &mut Reader) -> Result<CommitTerms, Malformed> {
    Ok(CommitTerms {
        kind: EpochKind::take(from)?,
        appends: from.u32()?,
        dependencies: dependencies_of(epoch, from)?.into(),
        holders: from.list::<Member>()?.into(),
    })
}

impl Wire for Pending {
    fn put(&self, out: &mut Vec<u8>) {
        put_list(out, &self.pending);
        self.latest_committed.put(out);
        put_list(out, &self.committed);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let pending: Vec<Epoch> = from.list()?;
        if pending.contains(&Epoch::ZERO) {
            return Err(Malformed::Contradiction("epoch 0 is no transaction's"));
        }
        Ok(Self { pending, latest_committed: Epoch::take(from)?, committed: from.list()? })
    }
}

impl Wire for Standing {
    fn put(&self, out: &mut Vec<u8>) {
        self.latest_committed.put(out);
        put_list(out, &self.committed);
        put_list(out, &self.rolled_back);
        put_len(out, self.deletes.len());
        for (delete, through) in &self.deletes {
            delete.put(out);
            through.put(out);
        }
        self.latest_safe.put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let latest_committed = Epoch::take(from)?;
        let (committed, rolled_back) = (from.list()?, from.list()?);
        let mut deletes = Vec::new();
        for _ in 0..from.len()? {
            let (delete, through) = (Epoch::take(from)?, Epoch::take(from)?);
            if through >= delete {
                return Err(Malformed::Contradiction("a delete sees what is older"));
            }
            deletes.push((delete, through));
        }
        let latest_safe = Epoch::take(from)?;
        if latest_safe > latest_committed {
            return Err(Malformed::Contradiction("LSE is not above LCE"));
        }
        Ok(Self { latest_committed, committed, rolled_back, deletes, latest_safe })
    }
}
