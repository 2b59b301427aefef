// SPDX-License-Identifier: Apache-2.0
//! What transactions do to bricks.

use super::writer::put_bytes;
use super::{Malformed, Reader, Wire};
use crate::brick_change::BrickChange;
use coeval_txn::{Epoch, EpochSet};

/// What a transaction does, with its label.
impl Wire for (Epoch, BrickChange) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        put_change(out, &self.1);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let epoch = Epoch::take(from)?;
        Ok((epoch, get_change(epoch, from)?))
    }
}

pub(super) fn put_change(out: &mut Vec<u8>, change: &BrickChange) {
    match change {
        BrickChange::Rows(rows) => {
            out.push(0);
            put_bytes(out, rows);
        }
        BrickChange::Delete(seen) => {
            out.push(1);
            seen.put(out);
        }
    }
}

/// What the transaction `epoch` does.
pub(super) fn get_change(epoch: Epoch, from: &mut Reader) -> Result<BrickChange, Malformed> {
    match from.byte()? {
        0 => Ok(BrickChange::Rows(from.bytes()?)),
        1 => match EpochSet::take(from)? {
            seen if seen.newest() < epoch => Ok(BrickChange::Delete(seen)),
            _ => Err(Malformed::Contradiction("a delete is of what is older")),
        },
        kind => Err(Malformed::Kind { what: "change of a brick", kind }),
    }
}
