// SPDX-License-Identifier: Apache-2.0
//! What a store writes to files of its own: rows that were flushed, and the head of a log.

use super::writer::{put_list, put_u64};
use super::{Malformed, Reader, Wire};
use crate::brick_change::LabelledChanges;
use coeval_txn::Epoch;
use coeval_txn::cluster::BrickAddress;

/// Rows of a brick that a round has flushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlushedBrick {
    /// The brick.
    pub(crate) brick: BrickAddress,
    /// Whether what earlier rounds have of the brick is void.
    pub(crate) voids_earlier: bool,
    /// The rows, by label.
    pub(crate) rows: LabelledChanges,
}

/// What a log begins with: the rounds whose rows it goes on from, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogHead {
    /// Their numbers.
    pub(crate) rounds: Vec<u64>,
    /// Up to where they have flushed.
    pub(crate) through: Epoch,
    /// How many records follow that were written with the head: all of these are there.
    pub(crate) records: u64,
}

impl Wire for FlushedBrick {
    fn put(&self, out: &mut Vec<u8>) {
        self.brick.put(out);
        out.push(u8::from(self.voids_earlier));
        put_list(out, &self.rows);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let brick = BrickAddress::take(from)?;
        let voids_earlier = match from.byte()? {
            0 => false,
            1 => true,
            kind => return Err(Malformed::Kind { what: "flushed brick", kind }),
        };
        Ok(Self { brick, voids_earlier, rows: from.list()? })
    }
}

impl Wire for LogHead {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.rounds.len() as u64);
        self.rounds.iter().for_each(|round| put_u64(out, *round));
        self.through.put(out);
        put_u64(out, self.records);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let count = from.len()?;
        let rounds = (0..count).map(|_| from.u64()).collect::<Result<_, _>>()?;
        Ok(Self { rounds, through: Epoch::take(from)?, records: from.u64()? })
    }
}
