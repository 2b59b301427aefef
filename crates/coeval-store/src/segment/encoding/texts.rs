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

/// LZ4 makes at most 255 bytes of one.
const EXPANSION_MAX: usize = 256;

/// Views have texts up to this length in themselves.
const IN_VIEW_MAX: usize = 12;

/// After so many rows it is decided whether a dictionary is worth building on.
const SAMPLE: usize = 8_192;

/// Appends texts.
pub(super) fn put_texts(texts: &[&[u8]], out: &mut Vec<u8>) {
    let lengths: Vec<i64> = texts.iter().map(|text| text.len() as i64).collect();
    pack(&lengths, out);
    let bytes = texts.concat();
    let compressed = (bytes.len() >= COMPRESSED_MIN).then(|| lz4_flex::block::compress(&bytes));
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

impl Texts {
    /// Takes so many texts.
    ///
    /// # Errors
    /// If there are not so many, or their bytes are not as many as their lengths say.
    pub(super) fn take(cursor: &mut Cursor<'_>, count: usize) -> Result<Self, String> {
        let lengths = unpack(cursor, count, |length| length as usize)?;
        let bytes = take_bytes(cursor)?;
        let sum = lengths.iter().try_fold(0usize, |sum, length| sum.checked_add(*length));
        // Views have 32 bits for a place.
        match sum == Some(bytes.len()) && u32::try_from(bytes.len()).is_ok() {
            true => Ok(Self { bytes, lengths }),
            false => Err("texts of other lengths than stated".to_owned()),
        }
    }

    /// A view of each.
    pub(super) fn views(&self) -> Vec<u128> {
        let mut start = 0;
        let view = |&length: &usize| {
            let view = make_view(&self.bytes[start..start + length], 0, start as u32);
            start += length;
            view
        };
        self.lengths.iter().map(view).collect()
    }

    /// What views need beside themselves.
    pub(super) fn into_buffers(self) -> Vec<Buffer> {
        match self.lengths.iter().all(|&length| length <= IN_VIEW_MAX) {
            true => Vec::new(),
            false => vec![Buffer::from_vec(self.bytes)],
        }
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

/// Takes a dictionary and the entries of so many rows: the entries, and a view of one of them for each row.
///
/// # Errors
/// If there are not so many, or a row has none of the entries.
pub(super) fn take_dictionary(cursor: &mut Cursor<'_>, count: usize) -> Result<(Texts, Vec<u128>), String> {
    let entries = cursor.length()?;
    let entries = Texts::take(cursor, entries)?;
    let views = entries.views();
    let codes = unpack(cursor, count, |code| code as usize)?;
    let views: Option<Vec<u128>> = codes.iter().map(|&code| views.get(code).copied()).collect();
    let views = views.ok_or_else(|| "a row has a text that is not in the dictionary".to_owned())?;
    Ok((entries, views))
}
