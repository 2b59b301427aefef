// SPDX-License-Identifier: Apache-2.0
//! [`ResultSet`]: the rows of a statement, in a file without a name, read in windows.
//!
//! A row is kept as the server sent it: its length, then of each value the length, or -1 for NULL, and the text. Where every
//! 64th row begins is kept in memory, an eighth of a byte for each row.

use parking_lot::Mutex;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows between two whose places are kept.
const MARKED_ROWS: u64 = 64;

/// Bytes that gather in memory before they go to the file.
const TAIL_BYTES: usize = 1 << 20;

/// Bytes of each of the first results of a run that are kept whatever others have.
const FREE_BYTES: u64 = 256 << 10;

/// So many results have those.
const FREE_RESULTS: usize = 16;

/// Bytes of values that a window has at most, unless its first row alone has more.
const WINDOW_BYTES_MAX: usize = 4 << 20;

/// Values of a row, as texts.
pub(crate) type Row = Vec<Option<String>>;

/// A column, as the page gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ShownColumn {
    pub(crate) name: String,
    /// PostgreSQL's name of its type.
    #[serde(rename = "type")]
    pub(crate) type_name: String,
}

/// Bytes that results may have together: those of a login, and among these those of a console.
#[derive(Debug)]
pub(crate) struct Room {
    /// Where their files are; the system's directory for such if none is named.
    directory: Option<PathBuf>,
    each_max: u64,
    all_max: u64,
    left: AtomicU64,
    of: Option<Arc<Self>>,
}

impl Room {
    pub(crate) fn new(directory: Option<PathBuf>, each_max: u64, all_max: u64) -> Arc<Self> {
        Arc::new(Self { directory, each_max, all_max, left: AtomicU64::new(all_max), of: None })
    }

    /// A half of it, for one of several: nobody takes all by themselves.
    pub(crate) fn half(self: &Arc<Self>) -> Arc<Self> {
        let all_max = self.all_max / 2;
        Arc::new(Self {
            directory: self.directory.clone(),
            each_max: self.each_max,
            all_max,
            left: AtomicU64::new(all_max),
            of: Some(Arc::clone(self)),
        })
    }

    fn take(&self, bytes: u64) -> bool {
        let taken = |left: u64| left.checked_sub(bytes);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_err() {
            return false;
        }
        let has_room = self.of.as_ref().is_none_or(|of| of.take(bytes));
        if !has_room {
            self.left.fetch_add(bytes, Ordering::Relaxed);
        }
        has_room
    }

    fn give_back(&self, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
        if let Some(of) = &self.of {
            of.give_back(bytes);
        }
    }

    fn file(&self) -> io::Result<File> {
        match &self.directory {
            Some(directory) => tempfile::tempfile_in(directory),
            None => tempfile::tempfile(),
        }
    }
}

/// See the module.
///
/// # Locking
/// `kept` is a leaf, held while a window is read or the tail is written: whoever takes it may wait for the disk.
pub(crate) struct ResultSet {
    pub(crate) columns: Vec<ShownColumn>,
    room: Arc<Room>,
    /// Bytes that it may have whatever others have.
    free: u64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    file: Option<File>,
    file_bytes: u64,
    tail: Vec<u8>,
    marks: Vec<u64>,
    rows: u64,
    /// Rows that came, kept or not.
    rows_seen: u64,
    /// Whether the file could not be written.
    has_failed: bool,
}

impl Kept {
    fn bytes(&self) -> u64 {
        self.file_bytes + self.tail.len() as u64
    }

    fn push(&mut self, row: &[u8]) -> io::Result<()> {
        let length = u32::try_from(row.len()).map_err(io::Error::other)?;
        if self.rows.is_multiple_of(MARKED_ROWS) {
            self.marks.push(self.bytes());
        }
        self.tail.extend_from_slice(&length.to_be_bytes());
        self.tail.extend_from_slice(row);
        self.rows += 1;
        Ok(())
    }

    fn flush(&mut self, room: &Room) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(room.file()?),
        };
        file.write_all_at(&self.tail, self.file_bytes)?;
        self.file_bytes += self.tail.len() as u64;
        self.tail.clear();
        Ok(())
    }

    /// Fills `buffer` with what is kept at `place`; a row lies in the file or in the tail as a whole.
    fn read(&self, place: u64, buffer: &mut [u8]) -> io::Result<()> {
        match &self.file {
            Some(file) if place < self.file_bytes => file.read_exact_at(buffer, place),
            _ => {
                let begin = usize::try_from(place - self.file_bytes).map_err(io::Error::other)?;
                buffer.copy_from_slice(&self.tail[begin..begin + buffer.len()]);
                Ok(())
            }
        }
    }

    /// The length of the row at `place`.
    fn length(&self, place: u64) -> io::Result<u32> {
        let mut length = [0; 4];
        self.read(place, &mut length)?;
        Ok(u32::from_be_bytes(length))
    }
}

impl ResultSet {
    /// One that is the `index`th of its run.
    pub(crate) fn new(columns: Vec<ShownColumn>, room: &Arc<Room>, index: usize) -> Self {
        let free = if index < FREE_RESULTS { FREE_BYTES } else { 0 };
        Self { columns, room: Arc::clone(room), free, kept: Mutex::default() }
    }

    /// Appends a row as the server sent it, without the count of its values; what is past the room is counted only. Whether it
    /// is time to [flush](Self::flush).
    ///
    /// # Errors
    /// If the row is longer than any of the protocol.
    pub(crate) fn push(&self, row: &[u8]) -> io::Result<bool> {
        let mut kept = self.kept.lock();
        let bytes = row.len() as u64 + 4;
        let is_whole = kept.rows == kept.rows_seen && !kept.has_failed;
        kept.rows_seen += 1;
        let after = kept.bytes() + bytes;
        let counted = after.saturating_sub(self.free) - kept.bytes().saturating_sub(self.free);
        if is_whole && after <= self.room.each_max && self.room.take(counted) {
            kept.push(row)?;
        }
        Ok(kept.tail.len() >= TAIL_BYTES && !kept.has_failed)
    }

    /// Counts a row that is not kept, and neither are those behind it; whether it is the first one.
    pub(crate) fn pass_over(&self) -> bool {
        let mut kept = self.kept.lock();
        kept.rows_seen += 1;
        kept.rows + 1 == kept.rows_seen
    }

    /// Writes to the file what has gathered in memory.
    ///
    /// # Errors
    /// If the file cannot be written. What came can still be read, and no further row is kept.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut kept = self.kept.lock();
        let flushed = kept.flush(&self.room);
        kept.has_failed = flushed.is_err();
        flushed
    }

    /// Rows that are kept.
    pub(crate) fn rows_kept(&self) -> u64 {
        self.kept.lock().rows
    }

    /// Rows that came.
    pub(crate) fn rows_seen(&self) -> u64 {
        self.kept.lock().rows_seen
    }

    /// Whether rows came for which there was no room.
    pub(crate) fn is_truncated(&self) -> bool {
        let kept = self.kept.lock();
        kept.rows < kept.rows_seen
    }

    /// Rows from number `from` on, `count` of them unless they are long or there are fewer; at least one if there is one.
    /// Reads from the disk.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn window(&self, from: u64, count: usize) -> io::Result<Vec<Row>> {
        let kept = self.kept.lock();
        let mut rows = Vec::new();
        if from >= kept.rows {
            return Ok(rows);
        }
        let mark = usize::try_from(from / MARKED_ROWS).map_err(io::Error::other)?;
        let mut place = kept.marks[mark];
        for _ in 0..from % MARKED_ROWS {
            place += 4 + u64::from(kept.length(place)?);
        }
        let (mut buffer, mut bytes) = (Vec::new(), 0);
        for _ in from..kept.rows.min(from.saturating_add(count as u64)) {
            let length = kept.length(place)?;
            bytes += length as usize;
            if bytes > WINDOW_BYTES_MAX && !rows.is_empty() {
                break;
            }
            buffer.resize(length as usize, 0);
            kept.read(place + 4, &mut buffer)?;
            rows.push(values_of(&buffer)?);
            place += 4 + u64::from(length);
        }
        Ok(rows)
    }
}

impl Drop for ResultSet {
    fn drop(&mut self) {
        self.room.give_back(self.kept.get_mut().bytes().saturating_sub(self.free));
    }
}

/// The values of a row that the server sent.
///
/// # Errors
/// If it is not of the protocol.
pub(crate) fn values_of(mut row: &[u8]) -> io::Result<Row> {
    let malformed =
        || io::Error::new(io::ErrorKind::InvalidData, "a row has another form than the protocol's");
    let mut values = Vec::new();
    while let Some((length, rest)) = row.split_first_chunk::<4>() {
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            values.push(None);
            row = rest;
            continue;
        };
        let (text, rest) = rest.split_at_checked(length).ok_or_else(malformed)?;
        values.push(Some(String::from_utf8_lossy(text).into_owned()));
        row = rest;
    }
    if row.is_empty() { Ok(values) } else { Err(malformed()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(values: &[Option<&str>]) -> Vec<u8> {
        let mut row = Vec::new();
        for value in values {
            let length = value.map_or(-1, |text| i32::try_from(text.len()).unwrap());
            row.extend_from_slice(&length.to_be_bytes());
            row.extend_from_slice(value.unwrap_or_default().as_bytes());
        }
        row
    }

    fn numbers(rows: u64, room: &Arc<Room>) -> ResultSet {
        let result = ResultSet::new(Vec::new(), room, FREE_RESULTS);
        for number in 0..rows {
            if result.push(&encoded(&[Some(&number.to_string()), None, Some("")])).unwrap() {
                result.flush().unwrap();
            }
        }
        result
    }

    #[test]
    fn any_window_has_its_rows() {
        let room = Room::new(None, 1 << 30, 1 << 30);
        for rows in [0, 1, 63, 64, 65, 100_000] {
            let result = numbers(rows, &room);
            for from in [0, 1, 63, 64, rows / 2, rows.saturating_sub(1), rows, rows + 5, u64::MAX] {
                let window = result.window(from, 100).unwrap();
                let expected: Vec<Row> = (from..rows.min(from.saturating_add(100)))
                    .map(|number| vec![Some(number.to_string()), None, Some(String::new())])
                    .collect();
                assert_eq!(window, expected, "{from} of {rows}");
            }
            assert_eq!((result.rows_seen(), result.is_truncated()), (rows, false));
        }
        assert!(numbers(100_000, &room).kept.lock().file.is_some(), "some rows were in the file");
    }

    #[test]
    fn a_row_that_is_passed_over_is_the_end_of_what_is_kept() {
        let result = ResultSet::new(Vec::new(), &Room::new(None, 1 << 30, 1 << 30), 0);
        let row = encoded(&[Some("x")]);
        result.push(&row).unwrap();
        assert!(result.pass_over());
        result.push(&row).unwrap();
        assert!(!result.pass_over(), "it is told once");
        assert_eq!((result.rows_kept(), result.rows_seen(), result.is_truncated()), (1, 4, true));
    }

    #[test]
    fn a_window_of_long_rows_has_fewer() {
        let result = ResultSet::new(Vec::new(), &Room::new(None, 1 << 30, 1 << 30), 0);
        let long = "x".repeat(3 << 20);
        for _ in 0..3 {
            result.push(&encoded(&[Some(&long)])).unwrap();
        }
        assert_eq!(result.window(1, 100).unwrap(), [vec![Some(long)]]);
    }

    #[test]
    fn rows_past_the_room_are_counted_and_room_is_given_back() {
        let room = Room::new(None, 1 << 10, 1_500);
        let first = numbers(1_000, &room);
        assert!(first.is_truncated());
        assert_eq!(first.rows_seen(), 1_000);
        let kept = first.window(0, 1_000).unwrap().len();
        assert!(kept > 10, "{kept}");
        let second = numbers(1_000, &room);
        let fewer = second.window(0, 1_000).unwrap().len();
        assert!(fewer < kept, "{fewer} of {kept}: the room of all was used up");
        drop((first, second));
        assert_eq!(room.left.load(Ordering::Relaxed), 1_500);
    }

    #[test]
    fn the_first_results_of_a_run_have_room_whatever_others_have() {
        let all = Room::new(None, 1 << 30, 4_000);
        let (greedy, modest) = (all.half(), all.half());
        let rows = |room: &Arc<Room>, index: usize| {
            let result = ResultSet::new(Vec::new(), room, index);
            for number in 0..1_000 {
                result.push(&encoded(&[Some(&number.to_string())])).unwrap();
            }
            result
        };
        let taken = rows(&greedy, FREE_RESULTS);
        assert!(taken.is_truncated() && taken.rows_kept() > 100);
        assert!(greedy.left.load(Ordering::Relaxed) < 20, "it has no more than its share");
        assert!(rows(&modest, FREE_RESULTS).rows_kept() > 100, "others have theirs");
        assert!(!rows(&greedy, 0).is_truncated());
        drop(taken);
        assert_eq!(all.left.load(Ordering::Relaxed), 4_000);
    }

    #[test]
    fn a_row_of_another_form_is_an_error() {
        for row in [&[0, 0][..], &[0, 0, 0, 5, b'x']] {
            assert!(values_of(row).is_err(), "{row:?}");
        }
    }
}
