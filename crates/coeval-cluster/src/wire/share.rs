// SPDX-License-Identifier: Apache-2.0
//! What a node says of its part of the bricks.

use super::writer::{put_list, put_u64};
use super::{Malformed, Reader, Wire};
use coeval_txn::cluster::{NodeId, ViewNumber};

/// What a node has of the bricks, and what it gives, as of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BrickShare {
    /// The view since which bricks go where they go: what is said of moves is of that.
    pub(crate) layout: ViewNumber,
    /// Bricks with rows of which it has all that is decided.
    pub(crate) bricks: u64,
    /// Their rows.
    pub(crate) rows: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// How many of these bricks have come to it for good in this layout.
    pub(crate) arrived: u64,
    /// How many bricks it gives to whom, whether they have come there or not.
    pub(crate) gives: Vec<Gift>,
}

/// Bricks that a node gives to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gift {
    /// Who gets them.
    pub(crate) to: NodeId,
    /// How many there are.
    pub(crate) bricks: u64,
}

impl Wire for BrickShare {
    fn put(&self, out: &mut Vec<u8>) {
        self.layout.put(out);
        put_u64(out, self.bricks);
        put_u64(out, self.rows);
        put_u64(out, self.bytes);
        put_u64(out, self.arrived);
        put_list(out, &self.gives);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self {
            layout: ViewNumber::take(from)?,
            bricks: from.u64()?,
            rows: from.u64()?,
            bytes: from.u64()?,
            arrived: from.u64()?,
            gives: from.list()?,
        })
    }
}

impl Wire for Gift {
    fn put(&self, out: &mut Vec<u8>) {
        self.to.put(out);
        put_u64(out, self.bricks);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { to: NodeId::take(from)?, bricks: from.u64()? })
    }
}
