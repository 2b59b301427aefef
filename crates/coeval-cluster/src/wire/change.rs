// SPDX-License-Identifier: Apache-2.0
//! What transactions do to bricks.

use super::writer::{put_bytes, put_list};
use super::{Malformed, Reader, Wire};
use crate::brick_change::BrickChange;
use crate::texts::RowTexts;
use coeval_txn::{Epoch, EpochSet};

/// A kind that only what is appended has.
const SPELLED_ROWS: u8 = 2;

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

/// A change as logs, files and copies have it: what is said of texts stands elsewhere.
pub(super) fn put_change(out: &mut Vec<u8>, change: &BrickChange) {
    match change {
        BrickChange::Rows(rows) | BrickChange::SpelledRows(rows, _) => {
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

/// A change as it is appended: rows may have texts with them.
pub(super) fn put_append(out: &mut Vec<u8>, change: &BrickChange) {
    match change {
        BrickChange::SpelledRows(rows, texts) => {
            out.push(SPELLED_ROWS);
            put_bytes(out, rows);
            put_list(out, texts);
        }
        BrickChange::Rows(_) | BrickChange::Delete(_) => put_change(out, change),
    }
}

/// What the transaction `epoch` appends.
pub(super) fn get_append(epoch: Epoch, from: &mut Reader) -> Result<BrickChange, Malformed> {
    let mut ahead = from.clone();
    if ahead.byte()? != SPELLED_ROWS {
        return get_change(epoch, from);
    }
    *from = ahead;
    let rows = from.bytes()?;
    Ok(BrickChange::SpelledRows(rows, from.list::<RowTexts>()?.into()))
}
