// SPDX-License-Identifier: Apache-2.0
//! Records of a node's log.

use super::change::{get_change, put_change};
use super::message::{get_terms, put_epoch, put_terms};
use super::writer::{put_list, put_u64};
use super::{Malformed, Reader, Wire};
use crate::brick_change::BrickChange;
use coeval_txn::cluster::{BrickAddress, DictionaryRecord, Incarnation, LogRecord};
use coeval_txn::{Epoch, EpochSet};

/// A record of a node's log, of epochs or of dictionaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeRecord {
    /// Of epochs: it has the form of such a record.
    Epochs(LogRecord<BrickChange>),
    /// Of dictionaries.
    Dictionaries(DictionaryRecord),
}

/// A kind that no record of epochs has.
const OF_DICTIONARIES: u8 = 9;

impl Wire for NodeRecord {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Epochs(record) => record.put(out),
            Self::Dictionaries(record) => {
                out.push(OF_DICTIONARIES);
                record.put(out);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let mut ahead = from.clone();
        if ahead.byte()? != OF_DICTIONARIES {
            return Ok(Self::Epochs(LogRecord::take(from)?));
        }
        *from = ahead;
        Ok(Self::Dictionaries(DictionaryRecord::take(from)?))
    }
}

impl Wire for LogRecord<BrickChange> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Started(incarnation) => {
                out.push(0);
                incarnation.put(out);
            }
            Self::Began(epoch, incarnation) => put_epoch(out, 1, *epoch, |out| incarnation.put(out)),
            Self::Append { epoch, number, brick, rows } => put_epoch(out, 2, *epoch, |out| {
                put_u64(out, u64::from(*number));
                brick.put(out);
                put_change(out, rows);
            }),
            Self::Commit(epoch, terms) => put_epoch(out, 3, *epoch, |out| put_terms(out, terms)),
            Self::Cut(epoch) => put_epoch(out, 4, *epoch, |_| {}),
            Self::Copied { brick, ended, rows } => {
                out.push(5);
                brick.put(out);
                ended.put(out);
                put_list(out, rows);
            }
            Self::Forgotten => out.push(6),
            Self::Safe(epoch) => put_epoch(out, 7, *epoch, |_| {}),
            Self::Latest(epoch) => put_epoch(out, 8, *epoch, |_| {}),
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(match from.byte()? {
            0 => Self::Started(Incarnation::take(from)?),
            1 => Self::Began(Epoch::take(from)?, Incarnation::take(from)?),
            2 => {
                let (epoch, number) = (Epoch::take(from)?, from.u32()?);
                let brick = BrickAddress::take(from)?;
                Self::Append { epoch, number, brick, rows: get_change(epoch, from)? }
            }
            3 => {
                let epoch = Epoch::take(from)?;
                Self::Commit(epoch, get_terms(epoch, from)?)
            }
            4 => Self::Cut(Epoch::take(from)?),
            5 => Self::Copied {
                brick: BrickAddress::take(from)?,
                ended: EpochSet::take(from)?,
                rows: from.list()?,
            },
            6 => Self::Forgotten,
            7 => Self::Safe(Epoch::take(from)?),
            8 => Self::Latest(Epoch::take(from)?),
            kind => return Err(Malformed::Kind { what: "record", kind }),
        })
    }
}
