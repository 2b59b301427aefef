// SPDX-License-Identifier: Apache-2.0
//! Requests for bricks, or for what is made of their rows, and the answers in parts.

use super::share::BrickShare;
use super::writer::{put_bytes, put_len, put_list, put_u64};
use super::{Malformed, Reader, Wire};
use crate::brick_change::LabelledChanges;
use crate::texts::RowTexts;
use bytes::Bytes;
use coeval_txn::EpochSet;
use coeval_txn::cluster::{BrickAddress, DictionaryId, Member, ViewNumber};

/// Rows of a part, in bytes. A batch of rows that is larger is a part of its own.
pub(crate) const PART_BYTES: usize = 1 << 20;

/// What a node asks another one for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BrickRequest {
    /// All bricks that the asked one gives to the one that asks.
    Copy {
        /// Who asks.
        to: Member,
        /// Who is asked.
        from: Member,
        /// At which view.
        view: ViewNumber,
        /// The bricks of which the one that asks has something: it wants them also if there is nothing of them.
        has: Vec<BrickAddress>,
    },
    /// The rows of a brick that a snapshot sees.
    Read {
        /// The view of the one that asks.
        view: ViewNumber,
        /// The brick.
        brick: BrickAddress,
        /// The snapshot.
        snapshot: EpochSet,
    },
    /// The bricks of a table of which the asked one has something.
    List {
        /// The view of the one that asks.
        view: ViewNumber,
        /// The table.
        table: u64,
        /// The snapshot that is to be read: what it sees has to be there still.
        snapshot: EpochSet,
    },
    /// What the asked one has of the bricks, in numbers.
    Share,
    /// What a piece of a query makes of the rows that a snapshot sees in bricks of the asked one.
    Run {
        /// The view of the one that asks.
        view: ViewNumber,
        /// The table.
        table: u64,
        /// Its bricks.
        bricks: Vec<u64>,
        /// The snapshot.
        snapshot: EpochSet,
        /// What is to be done, in the words of those who run queries.
        order: Bytes,
    },
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrickPart {
    /// The brick.
    pub(crate) brick: BrickAddress,
    /// What is in it, by label: for a copy all changes, for a reader rows.
    pub(crate) rows: LabelledChanges,
    /// Whether these are the last of the brick.
    pub(crate) is_last: bool,
}

impl Wire for BrickRequest {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Copy { to, from, view, has } => {
                out.push(0);
                to.put(out);
                from.put(out);
                view.put(out);
                put_list(out, has);
            }
            Self::Read { view, brick, snapshot } => {
                out.push(1);
                view.put(out);
                brick.put(out);
                snapshot.put(out);
            }
            Self::List { view, table, snapshot } => {
                out.push(2);
                view.put(out);
                put_u64(out, *table);
                snapshot.put(out);
            }
            Self::Share => out.push(3),
            Self::Run { view, table, bricks, snapshot, order } => {
                out.push(4);
                view.put(out);
                put_u64(out, *table);
                put_len(out, bricks.len());
                bricks.iter().for_each(|brick| put_u64(out, *brick));
                snapshot.put(out);
                put_bytes(out, order);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(Self::Copy {
                to: Member::take(from)?,
                from: Member::take(from)?,
                view: ViewNumber::take(from)?,
                has: from.list()?,
            }),
            1 => Ok(Self::Read {
                view: ViewNumber::take(from)?,
                brick: BrickAddress::take(from)?,
                snapshot: EpochSet::take(from)?,
            }),
            2 => Ok(Self::List {
                view: ViewNumber::take(from)?,
                table: from.u64()?,
                snapshot: EpochSet::take(from)?,
            }),
            3 => Ok(Self::Share),
            4 => {
                let (view, table) = (ViewNumber::take(from)?, from.u64()?);
                let mut bricks = Vec::new();
                for _ in 0..from.len()? {
                    bricks.push(from.u64()?);
                }
                Ok(Self::Run { view, table, bricks, snapshot: EpochSet::take(from)?, order: from.bytes()? })
            }
            kind => Err(Malformed::Kind { what: "request", kind }),
        }
    }
}

impl Wire for BrickPart {
    fn put(&self, out: &mut Vec<u8>) {
        self.brick.put(out);
        out.push(u8::from(self.is_last));
        put_list(out, &self.rows);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let brick = BrickAddress::take(from)?;
        let is_last = match from.byte()? {
            0 => false,
            1 => true,
            kind => return Err(Malformed::Kind { what: "part of a brick", kind }),
        };
        Ok(Self { brick, rows: from.list()?, is_last })
    }
}

/// What a part of an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BrickAnswer {
    /// Rows.
    Part(BrickPart),
    /// The asked node is at another view, or does not have the brick: ask again, or another one.
    NotNow,
    /// LSE has passed the snapshot: nobody has it any more.
    BelowSafe,
    /// Dictionaries that come to who asks for a copy, by messages of their own. It says that it has its bricks when it has
    /// these too.
    Dictionaries(Vec<DictionaryId>),
    /// Texts of codes that the brick which follows has.
    Texts(RowTexts),
    /// Bricks of the table that was asked for.
    Bricks(Vec<BrickAddress>),
    /// What the asked node has of the bricks, in numbers.
    Share(BrickShare),
    /// A part of what a piece of a query has made. The whole is there when the answer ends.
    Made(Bytes),
    /// The piece runs, and has made nothing more yet.
    Running,
}

impl Wire for BrickAnswer {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Part(part) => {
                out.push(0);
                part.put(out);
            }
            Self::NotNow => out.push(1),
            Self::BelowSafe => out.push(2),
            Self::Dictionaries(given) => {
                out.push(3);
                put_list(out, given);
            }
            Self::Texts(texts) => {
                out.push(4);
                texts.put(out);
            }
            Self::Bricks(bricks) => {
                out.push(5);
                put_list(out, bricks);
            }
            Self::Share(share) => {
                out.push(6);
                share.put(out);
            }
            Self::Made(bytes) => {
                out.push(7);
                put_bytes(out, bytes);
            }
            Self::Running => out.push(8),
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(Self::Part(BrickPart::take(from)?)),
            1 => Ok(Self::NotNow),
            2 => Ok(Self::BelowSafe),
            3 => Ok(Self::Dictionaries(from.list()?)),
            4 => Ok(Self::Texts(RowTexts::take(from)?)),
            5 => Ok(Self::Bricks(from.list()?)),
            6 => Ok(Self::Share(BrickShare::take(from)?)),
            7 => Ok(Self::Made(from.bytes()?)),
            8 => Ok(Self::Running),
            kind => Err(Malformed::Kind { what: "answer", kind }),
        }
    }
}

/// The rows of a brick in parts; one at least.
pub(crate) fn parts_of(brick: BrickAddress, rows: LabelledChanges) -> Vec<BrickPart> {
    let mut parts = Vec::new();
    let (mut part, mut bytes) = (Vec::new(), 0);
    for (label, change) in rows {
        if bytes > 0 && bytes + change.size() > PART_BYTES {
            parts.push(BrickPart { brick, rows: std::mem::take(&mut part), is_last: false });
            bytes = 0;
        }
        bytes += change.size();
        part.push((label, change));
    }
    parts.push(BrickPart { brick, rows: part, is_last: true });
    parts
}

/// Bricks in parts; one at least.
pub(crate) fn parts_of_bricks(bricks: &[BrickAddress]) -> Vec<BrickAnswer> {
    /// Of twenty bytes each at most.
    const BRICKS_MAX: usize = 50_000;
    if bricks.is_empty() {
        return vec![BrickAnswer::Bricks(Vec::new())];
    }
    bricks.chunks(BRICKS_MAX).map(|part| BrickAnswer::Bricks(part.to_vec())).collect()
}

/// Texts in parts; none, of none.
pub(crate) fn parts_of_texts(texts: RowTexts) -> Vec<RowTexts> {
    let RowTexts { dictionary, spellings } = texts;
    let mut parts = Vec::new();
    let (mut part, mut bytes) = (Vec::new(), 0);
    for spelling in spellings {
        let more = spelling.text.len() + RowTexts::SPELLING_BYTES;
        if bytes > 0 && bytes + more > PART_BYTES {
            parts.push(RowTexts { dictionary, spellings: std::mem::take(&mut part) });
            bytes = 0;
        }
        bytes += more;
        part.push(spelling);
    }
    if !part.is_empty() {
        parts.push(RowTexts { dictionary, spellings: part });
    }
    parts
}

/// Parts that are put together again.
#[derive(Debug, Default)]
pub(crate) struct PartAssembly {
    begun: Option<(BrickAddress, LabelledChanges)>,
}

impl PartAssembly {
    /// Adds the next part; gives the brick that it completes.
    ///
    /// # Errors
    /// If it is of another brick than the one that is not complete.
    pub(crate) fn add(
        &mut self,
        part: BrickPart,
    ) -> Result<Option<(BrickAddress, LabelledChanges)>, Malformed> {
        let (brick, mut rows) = self.begun.take().unwrap_or_else(|| (part.brick, Vec::new()));
        if brick != part.brick {
            return Err(Malformed::Contradiction("a brick's parts follow each other"));
        }
        rows.extend(part.rows);
        if part.is_last {
            return Ok(Some((brick, rows)));
        }
        self.begun = Some((brick, rows));
        Ok(None)
    }

    /// Whether nothing is incomplete.
    pub(crate) fn is_complete(&self) -> bool {
        self.begun.is_none()
    }
}
