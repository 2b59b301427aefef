// SPDX-License-Identifier: Apache-2.0
//! Flush rounds: what a checkpoint keeps of a brick table, in files (AOSI III-D).
//!
//! A round holds the rows that the checkpoint's world has and the last checkpoint's had not, each run with its epoch,
//! and the strings that are new, whether or not there are rows with them. The manifest lists the rounds of a table; one that it does not list was torn, and is
//! ignored. Opening reads the rounds in their order, then the log. A brick that was deleted since the last round is
//! kept whole, and what earlier rounds have of it is void: the manifest lists the brick with the first round that
//! counts. With as many rounds as [`Sizes`](crate::options::Sizes) says the next one keeps everything and the others go; and so it is
//! when the rounds have more than twice the rows that there are: what was deleted, or has expired, is not to keep its disk.
//!
//! | bytes | field | value |
//! |---|---|---|
//! | 0..8 | magic | `COEVALBR` |
//! | 8..12 | version | 1 |
//! | 12..16 | table | its number |
//! | 16..24 | length | of the strings |
//! | | strings | see `stored.rs` of coeval-brick |
//! | | bricks | each: runs u32, each: epoch u64, rows u32; length u64; load |
//! | | end | 0 as u32 |
//! | last 4 | checksum | CRC32C of all before |
//!
//! Numbers are little-endian. The manifest keeps the checksum too.
//!
//! Epochs stay in the files until purge has merged them in memory: a delete that is still in the log may cover some
//! of them and not others.

use super::BrickRows;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::files::FileWriter;
use crate::ids::SpaceId;
use crate::log::ChecksumPolicy;
use crate::manifest::{BrickRounds, SegmentEntry};
use crate::segment::{round_path, unfinished_round_path};
use coeval_brick::{BrickFlush, Reader, TableView, Ticket};
use coeval_txn::{Epoch, EpochSet};
use crc32c::{crc32c, crc32c_append};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"COEVALBR";
const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 4;

/// Fewer void rows than these make no checkpoint due.
const VOID_ROWS_MIN: u64 = 8_192;

/// The rounds of a table that the durable manifest lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds {
    list: Vec<SegmentEntry>,
    /// For bricks that were deleted, the segment number of the first round that counts.
    voids: BTreeMap<u64, u64>,
    /// How many strings of each string column the rounds have.
    strings: Vec<u32>,
    /// How many rows the rounds have, void ones included.
    rows: u64,
}

impl Rounds {
    fn entry(&self) -> BrickRounds {
        let voids = self.voids.iter().map(|(brick, round)| (*brick, *round)).collect();
        BrickRounds { rounds: self.list.clone(), voids }
    }
}

/// A brick table as a checkpoint has flushed it; not its present rounds before the manifest is durable.
#[derive(Debug)]
pub(crate) struct FlushedTable {
    table: SpaceId,
    rows: Arc<BrickRows>,
    rounds: Rounds,
    written: Option<u64>,
}

impl FlushedTable {
    pub(crate) fn table(&self) -> SpaceId {
        self.table
    }

    /// What the manifest says of the table.
    pub(crate) fn entry(&self) -> BrickRounds {
        self.rounds.entry()
    }

    /// The segment numbers of all its rounds.
    pub(crate) fn segments(&self) -> impl Iterator<Item = u64> {
        self.rounds.list.iter().map(|round| round.number)
    }

    /// The manifest that lists the rounds is durable.
    pub(crate) fn settle(&self) {
        *self.rows.rounds.lock() = self.rounds.clone();
    }

    /// No manifest lists the new round.
    pub(crate) fn discard(&self, disk: &Disk) {
        if let Some(number) = self.written {
            disk.remove_segment(number);
        }
    }
}

/// Writes what `now` has of a table and `before`, the rows of its rounds so far, has not. Synced on return; the name
/// is durable once the directory is synced.
///
/// # Errors
/// When the file cannot be written; nothing of it is left then.
pub(crate) fn flush_round(
    disk: &Disk,
    table: SpaceId,
    rows: &Arc<BrickRows>,
    (before, now): (&EpochSet, &EpochSet),
    rounds_max: usize,
) -> Result<FlushedTable, StoreError> {
    let mut rounds = rows.rounds.lock().clone();
    let now = Reader::of(now.clone());
    let view = rows.table.view(&rows.table.selection());
    let is_mostly_void = rounds.rows / 2 > view.count(&now) as u64;
    let is_whole = rounds.list.is_empty() || rounds.list.len() >= rounds_max || is_mostly_void;
    if is_whole {
        rounds = Rounds::default();
    }
    // A column of strings may have come since the last round.
    rounds.strings.resize(rows.logged.len(), 0);
    let before = Reader::of(if is_whole { EpochSet::none() } else { before.clone() });
    let has_rows = view.bricks().iter().any(|brick| {
        let flush = view.unflushed(brick, &before, &now);
        flush.voids_earlier || !flush.epochs.is_empty()
    });
    // The log before this checkpoint goes, and codes go on behind all strings that there are, also where no row is left.
    let has_strings = rows.table.string_counts() > rounds.strings;
    if !has_rows && !has_strings {
        return Ok(FlushedTable { table, rows: Arc::clone(rows), rounds, written: None });
    }
    let number = disk.new_segment();
    let mut strings = Vec::new();
    rounds.strings = rows.table.encode_strings(&rounds.strings, &mut strings);
    let written = write(
        disk,
        number,
        table,
        &strings,
        &view,
        |flush| {
            rounds.rows += rows_of(flush);
            if flush.voids_earlier && !is_whole {
                rounds.voids.insert(flush.brick.get(), number);
            }
        },
        (&before, &now),
    );
    match written {
        Ok(checksum) => {
            rounds.list.push(SegmentEntry { number, footer_checksum: checksum });
            Ok(FlushedTable { table, rows: Arc::clone(rows), rounds, written: Some(number) })
        }
        Err(error) => {
            disk.remove_segment(number);
            Err(error)
        }
    }
}

/// How many rows a flush of a brick writes.
fn rows_of(flush: &BrickFlush) -> u64 {
    flush.epochs.iter().map(|(_, rows)| *rows as u64).sum()
}

fn write(
    disk: &Disk,
    number: u64,
    table: SpaceId,
    strings: &[u8],
    view: &TableView,
    mut each: impl FnMut(&BrickFlush),
    (before, now): (&Reader, &Reader),
) -> Result<u32, StoreError> {
    let unfinished = unfinished_round_path(disk.dir(), number);
    let mut file = FileWriter::create(&**disk.files(), &unfinished)?;
    let mut checksum = 0;
    let mut put = |file: &mut FileWriter, bytes: &[u8]| {
        checksum = crc32c_append(checksum, bytes);
        file.append(bytes)
    };
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    header.extend_from_slice(&table.get().to_le_bytes());
    header.extend_from_slice(&(strings.len() as u64).to_le_bytes());
    put(&mut file, &header)?;
    put(&mut file, strings)?;
    let (mut head, mut load) = (Vec::new(), Vec::new());
    for brick in view.bricks() {
        let flush = view.unflushed(brick, before, now);
        each(&flush);
        if flush.epochs.is_empty() {
            continue;
        }
        head.clear();
        load.clear();
        let count = u32::try_from(flush.epochs.len()).expect("a brick has fewer than 2^32 runs");
        head.extend_from_slice(&count.to_le_bytes());
        for (epoch, rows) in &flush.epochs {
            head.extend_from_slice(&epoch.get().to_le_bytes());
            let rows = u32::try_from(*rows).expect("a brick has fewer than 2^32 rows");
            head.extend_from_slice(&rows.to_le_bytes());
        }
        flush.encode(&mut load);
        head.extend_from_slice(&(load.len() as u64).to_le_bytes());
        put(&mut file, &head)?;
        put(&mut file, &load)?;
    }
    put(&mut file, &0_u32.to_le_bytes())?;
    file.append(&checksum.to_le_bytes())?;
    file.finish()?;
    disk.files().rename(&unfinished, &round_path(disk.dir(), number))?;
    Ok(checksum)
}

/// Why a round cannot be added to its table.
pub(crate) enum RoundError {
    /// It cannot be read, or is not what was written.
    Unreadable(StoreError),
    /// It is what was written, and does not go on where the table ends.
    Misfit,
}

/// Fills a table without rows from its rounds.
///
/// # Errors
/// [`StoreError::Corrupt`] if one is damaged or missing, [`StoreError::File`] if one cannot be read.
pub(crate) fn restore_rounds(disk: &Disk, rows: &BrickRows, entry: BrickRounds) -> Result<(), StoreError> {
    let mut count = 0;
    for round in &entry.rounds {
        count += add_round(disk, rows, &entry, *round).map_err(|error| match error {
            RoundError::Unreadable(error) => error,
            RoundError::Misfit => {
                StoreError::corrupt(&round_path(disk.dir(), round.number), 0, "the contents are malformed")
            }
        })?;
    }
    rows.settle_rounds(entry, count);
    Ok(())
}

impl BrickRows {
    /// Whether a checkpoint would free much of the disk: the rounds have more than twice the rows that `now` sees, and many.
    pub(crate) fn has_void_rounds(&self, now: &EpochSet) -> bool {
        let rounds = self.rounds.lock().rows;
        let seen = self.table.view(&self.table.selection()).count(&Reader::of(now.clone())) as u64;
        rounds / 2 > seen && rounds - seen >= VOID_ROWS_MIN
    }

    /// The rows are those of all these rounds, which have so many with void ones.
    pub(crate) fn settle_rounds(&self, entry: BrickRounds, rows: u64) {
        let strings = self.table.string_counts();
        self.note_logged(&strings);
        let voids = entry.voids.into_iter().collect();
        *self.rounds.lock() = Rounds { list: entry.rounds, voids, strings, rows };
    }
}

/// Adds one of its rounds to a table, and gives how many rows the round has. Of one that does not fit some rows may be in the table
/// then.
pub(crate) fn add_round(
    disk: &Disk,
    rows: &BrickRows,
    entry: &BrickRounds,
    round: SegmentEntry,
) -> Result<u64, RoundError> {
    let path = round_path(disk.dir(), round.number);
    let bytes = disk.files().read(&path).map_err(|error| match error.is_not_found() {
        true => RoundError::Unreadable(StoreError::corrupt(&path, 0, "the file is missing")),
        false => RoundError::Unreadable(error.into()),
    })?;
    let voids: BTreeMap<u64, u64> = entry.voids.iter().copied().collect();
    let is_void = |brick: u64| voids.get(&brick).is_some_and(|first| *first > round.number);
    let body =
        checked(&path, &bytes, (round.footer_checksum, disk.checksums())).map_err(RoundError::Unreadable)?;
    restore_round(rows, body, is_void).ok_or(RoundError::Misfit)
}

/// What is between header and checksum, the length of the strings included.
fn checked<'a>(
    path: &Path,
    bytes: &'a [u8],
    (checksum, policy): (u32, ChecksumPolicy),
) -> Result<&'a [u8], StoreError> {
    let corrupt = |offset: u64, what: &str| StoreError::corrupt(path, offset, what);
    if bytes.len() < HEADER_BYTES + CHECKSUM_BYTES || bytes[..8] != MAGIC {
        return Err(corrupt(0, "this is no flush round of a brick table"));
    }
    let (contents, stored) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    let is_sound = crc32c(contents) == checksum && *stored == checksum.to_le_bytes();
    if policy == ChecksumPolicy::Verified && !is_sound {
        return Err(corrupt(0, "the contents do not fit the checksum"));
    }
    let version = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"));
    if version != FORMAT_VERSION {
        let file = path.display().to_string();
        return Err(StoreError::UnsupportedVersion { file, found: version, supported: FORMAT_VERSION });
    }
    Ok(&contents[16..])
}

/// Fills a table with one round, and gives how many rows that has, void ones included; `None` if the bytes are no round of it, of
/// which some rows may be in the table then.
pub(crate) fn restore_round(rows: &BrickRows, body: &[u8], is_void: impl Fn(u64) -> bool) -> Option<u64> {
    let mut tickets = Vec::new();
    let begun = begin_to_restore(rows, body, is_void, &mut tickets);
    // All of them, also if something is malformed: nothing goes on behind this.
    let done: Vec<_> = tickets.into_iter().map(Ticket::wait).collect();
    begun.filter(|_| done.iter().all(Result::is_ok))
}

fn begin_to_restore(
    rows: &BrickRows,
    body: &[u8],
    is_void: impl Fn(u64) -> bool,
    tickets: &mut Vec<Ticket>,
) -> Option<u64> {
    let mut all = 0;
    let (strings, mut body) = prefixed(body)?;
    if !rows.table.restore_strings(strings).ok()?.is_empty() {
        return None;
    }
    loop {
        let (count, mut rest) = body.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count);
        if count == 0 {
            return rest.is_empty().then_some(all);
        }
        let mut epochs = Vec::new();
        let mut total = 0_usize;
        for _ in 0..count {
            let (epoch, behind) = rest.split_first_chunk::<8>()?;
            let (run, behind) = behind.split_first_chunk::<4>()?;
            let (epoch, run) = (u64::from_le_bytes(*epoch), u32::from_le_bytes(*run) as usize);
            if epoch == 0 || epoch > Epoch::MAX.get() || run == 0 {
                return None;
            }
            total = total.checked_add(run)?;
            epochs.push((Epoch::new(epoch), run));
            rest = behind;
        }
        let (load, behind) = prefixed(rest)?;
        body = behind;
        let (load, behind) = rows.table.decode(load).ok()?;
        let mut bricks = load.bricks();
        let brick = bricks.next().filter(|_| bricks.next().is_none() && behind.is_empty())?;
        drop(bricks);
        if load.rows() != total {
            return None;
        }
        all += total as u64;
        if !is_void(brick.get()) {
            tickets.push(rows.table.restore(&epochs, load).ok()?);
        }
    }
}

fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}
