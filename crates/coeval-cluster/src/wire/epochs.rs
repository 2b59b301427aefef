// SPDX-License-Identifier: Apache-2.0
//! Epochs, sets of them, and what is known of transactions.

use super::writer::{put_len, put_list, put_u64};
use super::{Malformed, Reader, Wire};
use coeval_txn::cluster::{BrickAddress, CommittedEpoch, EpochKind};
use coeval_txn::{Epoch, EpochSet};

/// The largest epoch that anybody is believed. No cluster comes so far; and a clock that follows one stays far from its end.
const EPOCH_MAX: u64 = 1 << 62;

impl Wire for Epoch {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.get());
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.u64()? {
            number if number <= EPOCH_MAX => Ok(Self::new(number)),
            _ => Err(Malformed::Range),
        }
    }
}

/// Each exception as its distance to the one before, and the first to zero: mostly a byte or two, where sets are large.
impl Wire for EpochSet {
    fn put(&self, out: &mut Vec<u8>) {
        self.newest().put(out);
        put_len(out, self.except().len());
        let mut before = 0;
        for epoch in self.except() {
            put_u64(out, epoch.get() - before);
            before = epoch.get();
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let newest = Epoch::take(from)?;
        let count = from.len()?;
        let (mut except, mut before) = (Vec::new(), 0_u64);
        for _ in 0..count {
            let distance = from.u64()?;
            let number = before.checked_add(distance).filter(|number| *number < newest.get());
            let number =
                number.ok_or(Malformed::Contradiction("an exception is not below its set's newest"))?;
            if distance == 0 {
                return Err(Malformed::Contradiction("exceptions of a set ascend"));
            }
            except.push(Epoch::new(number));
            before = number;
        }
        Ok(Self::through(newest).without(except))
    }
}

impl Wire for EpochKind {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Load => 0,
            Self::Delete => 1,
            Self::LoadWithRows => 2,
        });
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(Self::Load),
            1 => Ok(Self::Delete),
            2 => Ok(Self::LoadWithRows),
            kind => Err(Malformed::Kind { what: "transaction", kind }),
        }
    }
}

impl Wire for CommittedEpoch {
    fn put(&self, out: &mut Vec<u8>) {
        self.epoch.put(out);
        self.kind.put(out);
        put_list(out, &self.dependencies);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let (epoch, kind) = (Epoch::take(from)?, EpochKind::take(from)?);
        Ok(Self { epoch, kind, dependencies: dependencies_of(epoch, from)? })
    }
}

/// What a transaction depends on, which is older.
pub(super) fn dependencies_of(epoch: Epoch, from: &mut Reader) -> Result<Vec<Epoch>, Malformed> {
    let dependencies: Vec<Epoch> = from.list()?;
    if dependencies.iter().any(|dependency| *dependency >= epoch || *dependency == Epoch::ZERO) {
        return Err(Malformed::Contradiction("a transaction depends on older ones"));
    }
    Ok(dependencies)
}

impl Wire for BrickAddress {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.table);
        put_u64(out, self.brick);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { table: from.u64()?, brick: from.u64()? })
    }
}
