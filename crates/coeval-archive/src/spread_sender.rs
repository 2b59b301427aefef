// SPDX-License-Identifier: Apache-2.0
//! [`send`]: the rows of spread tables, before the checkpoint of a backup.
//!
//! # Order
//! The snapshot of the cluster is taken first, the checkpoint later. So a backup has the definitions of all tables that it has rows of, and
//! whoever restores a moment from the backup on gets rows of before that moment.
//!
//! # What is relied on
//! Parts are known as they come, so each group of them is announced before it is looked for, and no group is put twice. A group is
//! what is in memory here.

use crate::announcement::Announcement;
use crate::archive::{Archive, Put};
use crate::error::ArchiveError;
use crate::pieces::{PIECES_AT_ONCE, Piece, at_once};
use crate::spread_rows::{ArchivedSpread, ArchivedTable, SpreadNext, SpreadPart, SpreadRows, spread_tables};
use bytes::Bytes;
use coeval_store::{LogTime, Store};

/// Parts of so many bytes, or so many of them, are a group: each costs an announcement. As much is in memory.
const GROUP_BYTES: usize = 32 << 20;

/// See [`GROUP_BYTES`].
const GROUP_PARTS: usize = 64;

/// What was sent of spread tables, for the backup that names it.
#[derive(Debug, Default)]
pub(crate) struct SentSpread {
    pub(crate) spread: Option<ArchivedSpread>,
    /// The tables whose rows were left out.
    pub(crate) left_out: Vec<String>,
    pub(crate) announced: Vec<Announcement>,
    pub(crate) bytes_sent: u64,
}

/// Sends the rows of all spread tables of a database, if it has any. `look` is called between groups.
///
/// # Errors
/// [`ArchiveError::SpreadElsewhere`], [`ArchiveError::Spread`]; those of the storage, and of `look`. What was sent stays.
pub(crate) fn send(
    store: &Store,
    archive: &Archive,
    rows: SpreadRows<'_>,
    look: &mut dyn FnMut() -> Result<(), ArchiveError>,
) -> Result<SentSpread, ArchiveError> {
    let names = spread_tables(store);
    let source = match rows {
        _ if names.is_empty() => return Ok(SentSpread::default()),
        SpreadRows::Elsewhere => return Err(ArchiveError::SpreadElsewhere { tables: names.join(", ") }),
        SpreadRows::LeftOut => return Ok(SentSpread { left_out: names, ..SentSpread::default() }),
        SpreadRows::Of(source) => source,
    };
    archive.claim(store.terms().database_id())?;
    let mut snapshot = source.snapshot()?;
    // Behind the snapshot: so neither is older than what it has.
    let (taken, version) = (LogTime::now(), store.world().version());
    let tables = snapshot.tables().into_iter();
    let tables = tables.map(|(table, name)| ArchivedTable { table, name, parts: Vec::new() }).collect();
    let mut sending = Sending { archive, sent: SentSpread::default(), tables, group: Vec::new() };
    loop {
        look()?;
        match snapshot.next()? {
            SpreadNext::Part(part) => sending.add(part)?,
            SpreadNext::Dropped(gone) => {
                sending.group.retain(|part| part.table != gone);
                sending.tables.retain(|table| table.table != gone);
            }
            SpreadNext::End => break,
        }
    }
    sending.send_group()?;
    let epoch = snapshot.epoch().get();
    let Sending { mut sent, tables, .. } = sending;
    sent.spread = Some(ArchivedSpread { epoch, taken: taken.micros(), version: version.get(), tables });
    Ok(sent)
}

/// See [`send`].
struct Sending<'a> {
    archive: &'a Archive,
    sent: SentSpread,
    tables: Vec<ArchivedTable>,
    group: Vec<SpreadPart>,
}

/// A part that is being put.
struct Outgoing {
    table: u64,
    rows: u64,
    bytes: Bytes,
    piece: Piece,
}

impl Sending<'_> {
    fn add(&mut self, part: SpreadPart) -> Result<(), ArchiveError> {
        self.group.push(part);
        let bytes: usize = self.group.iter().map(|part| part.bytes.len()).sum();
        if bytes >= GROUP_BYTES || self.group.len() >= GROUP_PARTS { self.send_group() } else { Ok(()) }
    }

    /// Announces the parts that wait, puts those that are not there, and notes them for the backup.
    fn send_group(&mut self) -> Result<(), ArchiveError> {
        let group: Vec<Outgoing> = std::mem::take(&mut self.group).into_iter().map(Outgoing::of).collect();
        if group.is_empty() {
            return Ok(());
        }
        let pieces = group.iter().map(|part| &part.piece);
        self.sent.announced.push(Announcement::make(self.archive, pieces, None)?);
        for parts in group.chunks(PIECES_AT_ONCE) {
            for put in at_once(parts, |part| part.put(self.archive)) {
                self.sent.bytes_sent += put?;
            }
        }
        for Outgoing { table, rows, piece, .. } in group {
            let known = self.tables.iter_mut().find(|known| known.table == table);
            let known = known.ok_or_else(|| {
                ArchiveError::Spread(format!("rows came of table {table}, which the snapshot does not have"))
            })?;
            known.parts.push((rows, piece));
        }
        Ok(())
    }
}

impl Outgoing {
    fn of(part: SpreadPart) -> Self {
        let SpreadPart { table, rows, bytes } = part;
        let piece = Piece::of(&bytes);
        Self { table, rows, bytes: bytes.into(), piece }
    }

    /// How many bytes of it were not there.
    fn put(&self, archive: &Archive) -> Result<u64, ArchiveError> {
        if archive.has(&self.piece.name(), self.piece.bytes)? {
            return Ok(0);
        }
        let put = archive.put_new(&self.piece.name(), self.bytes.clone())?;
        Ok(if put == Put::New { self.piece.bytes } else { 0 })
    }
}
