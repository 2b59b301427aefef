// SPDX-License-Identifier: Apache-2.0
//! Texts and bytes of different lengths: one behind the other, compressed if that saves a quarter, with their lengths as
//! packed integers; or, where few of them differ, each different one once (a *dictionary*), and for each row which it is.
//!
//! # Bytes
//! Texts: their lengths, packed; whether they are compressed (1 byte: 0 or 1); their bytes together (8 bytes); how many those
//! take compressed (8 bytes, only if they are); they themselves, or an LZ4 block of them.
//! A dictionary: how many entries (8 bytes); the entries, as texts; the numbers of the rows' entries, packed.

use super::cursor::{Cursor, put_length};
use super::packed::{pack, unpack};
use arrow::array::make_view;
use arrow::buffer::Buffer;
use hashbrown::HashMap;

/// Fewer bytes than this are not worth a call of a decompressor.
const COMPRESSED_MIN: usize = 1_024;

/// The most that an LZ4 block has, whoever reads it.
const COMPRESSED_MAX: usize = 0x7E00_0000;

/// LZ4 makes at most 255 bytes of one.
const EXPANSION_MAX: usize = 256;

/// Views have texts up to this length in themselves.
const IN_VIEW_MAX: usize = 12;

/// The most that a buffer has beside views: these have 31 bits for a place in it.
const BUFFER_BYTES_MAX: usize = i32::MAX as usize;

/// Dictionaries of at most so many entries are read as codes of 16 bits, of which the last is no entry's.
const CODED_ENTRIES_MAX: usize = u16::MAX as usize;

/// After so many rows it is decided whether a dictionary is worth building on.
const SAMPLE: usize = 8_192;

/// Appends texts.
pub(super) fn put_texts(texts: &[&[u8]], out: &mut Vec<u8>) {
    let lengths: Vec<i64> = texts.iter().map(|text| text.len() as i64).collect();
    pack(&lengths, out);
    let bytes = texts.concat();
    let is_worth_it = (COMPRESSED_MIN..=COMPRESSED_MAX).contains(&bytes.len());
    let compressed = is_worth_it.then(|| lz4_flex::block::compress(&bytes));
    let compressed = compressed.filter(|compressed| compressed.len() <= bytes.len() / 4 * 3);
    out.push(u8::from(compressed.is_some()));
    put_length(bytes.len(), out);
    match compressed {
        Some(compressed) => {
            put_length(compressed.len(), out);
            out.extend_from_slice(&compressed);
        }
        None => out.extend_from_slice(&bytes),
    }
}

/// Bytes that these texts take beside their views.
pub(super) fn bytes_beside_views(texts: &[&[u8]]) -> usize {
    if texts.iter().all(|text| text.len() <= IN_VIEW_MAX) { 0 } else { bytes_of(texts) }
}

fn bytes_of(texts: &[&[u8]]) -> usize {
    texts.iter().map(|text| text.len()).sum()
}

/// Texts that were read: their bytes, one behind the other.
pub(super) struct Texts {
    pub(super) bytes: Vec<u8>,
    pub(super) lengths: Vec<usize>,
}

/// What an array of views is made of.
pub(super) struct Views {
    pub(super) views: Vec<u128>,
    /// What they need beside themselves.
    pub(super) buffers: Vec<Buffer>,
}

impl Texts {
    /// Takes so many texts.
    ///
    /// # Errors
    /// If there are not so many, or their bytes are not as many as their lengths say.
    pub(super) fn take(cursor: &mut Cursor<'_>, count: usize) -> Result<Self, String> {
        let lengths = unpack(cursor, count, |length| length as usize)?;
        let bytes = take_bytes(cursor)?;
        let sum = lengths.iter().try_fold(0usize, |sum, length| sum.checked_add(*length));
        let fits_a_buffer = |length: &usize| *length <= BUFFER_BYTES_MAX;
        match sum == Some(bytes.len()) && lengths.iter().all(fits_a_buffer) {
            true => Ok(Self { bytes, lengths }),
            false => Err("texts of other lengths than stated".to_owned()),
        }
    }

    /// A view of each, and what these need.
    pub(super) fn into_views(self) -> Views {
        self.into_views_of(BUFFER_BYTES_MAX)
    }

    /// As [`into_views`](Self::into_views), with buffers of at most so many bytes, which each text fits into. All of them share
    /// the memory of the texts.
    pub(super) fn into_views_of(self, buffer_bytes_max: usize) -> Views {
        let Self { bytes, lengths } = self;
        let mut views = Vec::with_capacity(lengths.len());
        // Where each buffer begins, the present one, and the next text.
        let (mut cuts, mut begin, mut start) = (vec![0], 0, 0);
        for &length in &lengths {
            let end = start + length;
            if end - begin > buffer_bytes_max {
                begin = start;
                cuts.push(begin);
            }
            views.push(make_view(&bytes[start..end], (cuts.len() - 1) as u32, (start - begin) as u32));
            start = end;
        }
        if lengths.iter().all(|&length| length <= IN_VIEW_MAX) {
            return Views { views, buffers: Vec::new() };
        }
        let bytes = Buffer::from_vec(bytes);
        let ends = cuts.iter().skip(1).copied().chain([bytes.len()]);
        let buffer = |(&begin, end): (&usize, usize)| bytes.slice_with_length(begin, end - begin);
        let buffers = cuts.iter().zip(ends).map(buffer).collect();
        Views { views, buffers }
    }
}

fn take_bytes(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, String> {
    let form = cursor.byte()?;
    let count = cursor.length()?;
    match form {
        0 => cursor.take(count).map(<[u8]>::to_vec),
        1 => {
            let stored = cursor.length()?;
            let stored = cursor.take(stored)?;
            if count / EXPANSION_MAX > stored.len() {
                return Err("texts of which too much is compressed to so little".to_owned());
            }
            let mut bytes = vec![0; count];
            match lz4_flex::block::decompress_into(stored, &mut bytes) {
                Ok(written) if written == count => Ok(bytes),
                _ => Err("compressed texts that do not decompress".to_owned()),
            }
        }
        _ => Err("texts of an unknown form".to_owned()),
    }
}

/// The different ones of texts, in the order in which they come first, and which of them each row has.
pub(super) struct Dictionary<'a> {
    entries: Vec<&'a [u8]>,
    codes: Vec<i64>,
}

impl<'a> Dictionary<'a> {
    /// `None` if it would not be smaller.
    pub(super) fn of(texts: &[&'a [u8]]) -> Option<Self> {
        let mut places: HashMap<&'a [u8], i64> = HashMap::new();
        let mut entries: Vec<&'a [u8]> = Vec::new();
        let mut codes = Vec::with_capacity(texts.len());
        for &text in texts {
            let code = *places.entry(text).or_insert_with(|| {
                entries.push(text);
                entries.len() as i64 - 1
            });
            codes.push(code);
            let is_too_large =
                entries.len() * 2 > texts.len() || (codes.len() == SAMPLE && entries.len() > SAMPLE / 4 * 3);
            if is_too_large {
                return None;
            }
        }
        let code_bits = entries.len().checked_ilog2()? as usize + 1;
        let is_smaller = bytes_of(&entries) + texts.len() * code_bits / 8 < bytes_of(texts);
        is_smaller.then_some(Self { entries, codes })
    }

    pub(super) fn entries(&self) -> &[&'a [u8]] {
        &self.entries
    }

    /// Appends it.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_length(self.entries.len(), out);
        put_texts(&self.entries, out);
        pack(&self.codes, out);
    }
}

/// Takes a dictionary and the entries of so many rows: for each row a view of its entry, and what views of entries need.
///
/// # Errors
/// If there are not so many, or a row has none of the entries.
pub(super) fn take_dictionary(cursor: &mut Cursor<'_>, count: usize) -> Result<Views, String> {
    let entries = cursor.length()?;
    let entries = Texts::take(cursor, entries)?.into_views();
    let codes = unpack(cursor, count, |code| code as usize)?;
    // Not collected as they are found, which may be none: the memory would double until it is enough, and stay so.
    let mut views = Vec::with_capacity(count);
    for code in codes {
        let view = entries.views.get(code);
        views.push(*view.ok_or_else(not_in_the_dictionary)?);
    }
    Ok(Views { views, buffers: entries.buffers })
}

/// Takes a dictionary and the entries of so many rows: what views of entries need, and for each row which of them it has. `None` if
/// there are more entries than codes; then only their number was taken.
///
/// # Errors
/// As [`take_dictionary`].
pub(super) fn take_codes(cursor: &mut Cursor<'_>, count: usize) -> Result<Option<(Views, Vec<u16>)>, String> {
    let entries = cursor.length()?;
    if entries > CODED_ENTRIES_MAX {
        return Ok(None);
    }
    let entries = Texts::take(cursor, entries)?.into_views();
    let codes = unpack(cursor, count, |code| u16::try_from(code).unwrap_or(u16::MAX))?;
    match codes.iter().all(|code| usize::from(*code) < entries.views.len()) {
        true => Ok(Some((entries, codes))),
        false => Err(not_in_the_dictionary()),
    }
}

fn not_in_the_dictionary() -> String {
    "a row has a text that is not in the dictionary".to_owned()
}
