// SPDX-License-Identifier: Apache-2.0
//! Text and CSV, read on several threads.
//!
//! What comes is cut behind a record into portions, each of which one [`Decoder`] reads; what they give is passed on in
//! the order of the portions, so it is what a single one would have given. Where a record ends is seen without reading
//! what is before it: in text at a line end that no backslash escapes, in CSV at one before which there is an even
//! number of quotes.

use super::decode::{Decoder, RECORD_BYTES_MAX};
use super::options::{CopyFormat, CopyOptions};
use super::rejected::RejectedRow;
use crate::error::SqlError;
use arrow::array::RecordBatch;
use memchr::{memchr, memchr_iter, memrchr};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};

/// Bytes that are worth being read by another thread.
pub(super) const PORTION_BYTES: usize = 1 << 20;

/// Whether so much has come that it is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// It has.
    Enough,
    /// It has not.
    Little,
}

impl Gathered {
    /// Whether these bytes are as many as are read together.
    pub(super) fn of(bytes: usize, enough: usize) -> Self {
        if bytes >= enough { Self::Enough } else { Self::Little }
    }
}

/// Where records end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// At a line end behind an even number of backslashes.
    Text,
    /// At a line end behind an even number of these.
    Csv { quote: u8 },
    /// Only who reads from the start knows: an escape that is not the quote can stand before a quote.
    Unknown,
}

impl Cut {
    fn new(options: &CopyOptions) -> Self {
        match options.format {
            CopyFormat::Csv if options.escape != options.quote => Self::Unknown,
            CopyFormat::Csv => Self::Csv { quote: options.quote },
            CopyFormat::Text | CopyFormat::Binary | CopyFormat::Parquet | CopyFormat::Arrow => Self::Text,
        }
    }

    /// Where the last record ends that is complete, if there is one; the bytes start with a record.
    fn last_end(self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Text => {
                let mut end = bytes.len();
                while let Some(at) = memrchr(b'\n', &bytes[..end]) {
                    let escapes = bytes[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
                    if escapes.is_multiple_of(2) {
                        return Some(at + 1);
                    }
                    end = at;
                }
                None
            }
            Self::Csv { quote } => {
                if memchr(quote, bytes).is_none() {
                    return memrchr(b'\n', bytes).map(|at| at + 1);
                }
                let mut quotes = count(bytes, quote);
                for (at, &byte) in bytes.iter().enumerate().rev() {
                    if byte == quote {
                        quotes -= 1;
                    } else if byte == b'\n' && quotes.is_multiple_of(2) {
                        return Some(at + 1);
                    }
                }
                None
            }
            Self::Unknown => None,
        }
    }
}

fn count(bytes: &[u8], wanted: u8) -> usize {
    memchr_iter(wanted, bytes).count()
}

/// What came of one portion.
struct Read {
    decoder: Decoder,
    bytes: Vec<u8>,
    batches: Vec<RecordBatch>,
    outcome: Result<(), SqlError>,
}

/// Reads one portion, which starts at this line.
fn read(mut decoder: Decoder, bytes: Vec<u8>, line: u64) -> Read {
    let mut batches = Vec::new();
    let outcome = decoder.read_portion(&bytes, line, &mut batches);
    Read { decoder, bytes, batches, outcome }
}

/// Reads text or CSV that comes in pieces.
pub(super) struct PortionReader {
    cut: Cut,
    /// What others are made of.
    template: Decoder,
    /// Those that read no portion now. The first one knows of a header.
    idle: Vec<Decoder>,
    /// What has come and is in no portion yet.
    gathered: Vec<u8>,
    /// Fewer bytes than these are not looked at.
    enough: usize,
    portion_bytes: usize,
    /// The line that they start in, from 1.
    line: u64,
    underway: VecDeque<Receiver<Read>>,
    /// Memory of portions that have been read.
    spare: Vec<Vec<u8>>,
    rejected: Vec<RejectedRow>,
    /// The line that ends the rows has come.
    has_ended: bool,
}

impl PortionReader {
    /// A reader of what this decoder would read, in portions of about so many bytes.
    pub(super) fn new(decoder: Decoder, options: &CopyOptions, portion_bytes: usize) -> Self {
        Self {
            cut: Cut::new(options),
            template: decoder.another(),
            idle: vec![decoder],
            gathered: Vec::new(),
            enough: portion_bytes,
            portion_bytes,
            line: 1,
            underway: VecDeque::new(),
            spare: Vec::new(),
            rejected: Vec::new(),
            has_ended: false,
        }
    }

    /// Keeps a piece. If it is enough, it is to be [read](Self::read).
    pub(super) fn gather(&mut self, piece: &[u8]) -> Gathered {
        if !self.has_ended {
            self.gathered.extend_from_slice(piece);
        }
        Gathered::of(self.gathered.len(), self.enough)
    }

    /// Has what was gathered read, and passes on what has been read, to `out`. Waits for other threads if they are
    /// behind.
    ///
    /// # Errors
    /// As [`Decoder::feed`], for the first record with which something is wrong.
    pub(super) fn read(&mut self, out: &mut Vec<RecordBatch>) -> Result<(), SqlError> {
        if self.cut == Cut::Unknown {
            let decoder = &mut self.idle[0];
            decoder.feed(&self.gathered, out)?;
            self.gathered.clear();
            self.rejected.append(&mut decoder.take_rejected());
            return Ok(());
        }
        match self.cut.last_end(&self.gathered) {
            Some(end) => {
                let mut rest = self.spare.pop().unwrap_or_default();
                rest.extend_from_slice(&self.gathered[end..]);
                self.gathered.truncate(end);
                let portion = std::mem::replace(&mut self.gathered, rest);
                self.enough = self.portion_bytes;
                self.begin(portion);
            }
            // So a long record that comes in small pieces is looked at a few times only.
            None if self.gathered.len() <= RECORD_BYTES_MAX => {
                self.enough = self.gathered.len() + self.gathered.len() / 4;
            }
            None => return Err(self.template.too_long(self.line)),
        }
        // Each thread has one, and one more is ready for the thread that finishes first.
        let most = rayon::current_num_threads() + 1;
        while self.underway.len() > most {
            self.pass_on(out)?;
        }
        Ok(())
    }

    /// There is no further piece: the rest goes to `out`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(super) fn finish(&mut self, out: &mut Vec<RecordBatch>) -> Result<(), SqlError> {
        if self.cut == Cut::Unknown {
            self.read(out)?;
            let decoder = &mut self.idle[0];
            decoder.finish(out)?;
            self.rejected.append(&mut decoder.take_rejected());
            return Ok(());
        }
        let rest = std::mem::take(&mut self.gathered);
        self.begin(rest);
        while !self.underway.is_empty() {
            self.pass_on(out)?;
        }
        Ok(())
    }

    /// How many bytes have come that are in no portion yet.
    pub(super) fn pending_bytes(&self) -> usize {
        let by_one = if self.cut == Cut::Unknown { self.idle[0].pending_bytes() } else { 0 };
        self.gathered.len() + by_one
    }

    /// The rows that were left out since the last call.
    pub(super) fn take_rejected(&mut self) -> Vec<RejectedRow> {
        std::mem::take(&mut self.rejected)
    }

    /// Has a portion read by another thread.
    fn begin(&mut self, portion: Vec<u8>) {
        let line = self.line;
        self.line += count(&portion, b'\n') as u64;
        let decoder = self.idle.pop().unwrap_or_else(|| self.template.another());
        let (sender, receiver) = channel();
        self.underway.push_back(receiver);
        rayon::spawn(move || {
            // A panic shows where the answer is waited for; who does not wait has given up.
            if let Ok(read) = catch_unwind(AssertUnwindSafe(|| read(decoder, portion, line))) {
                drop(sender.send(read));
            }
        });
    }

    /// Passes on what came of the oldest portion.
    fn pass_on(&mut self, out: &mut Vec<RecordBatch>) -> Result<(), SqlError> {
        let Some(oldest) = self.underway.pop_front() else { return Ok(()) };
        let Read { mut decoder, mut bytes, batches, outcome } =
            oldest.recv().map_err(|_| SqlError::internal("a thread that reads rows has failed"))?;
        if self.has_ended {
            return Ok(());
        }
        out.extend(batches);
        self.rejected.append(&mut decoder.take_rejected());
        outcome?;
        self.has_ended = decoder.has_ended();
        bytes.clear();
        self.spare.push(bytes);
        self.idle.push(decoder);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
