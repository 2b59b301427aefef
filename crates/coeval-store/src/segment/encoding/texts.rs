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
use arrow::array::{StringArray, StringViewArray, StringViewBuilder, make_view};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
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

    /// The array of them, all together compared with UTF-8: one by one that takes several times as long as all else that is done here.
    ///
    /// # Errors
    /// If they are no UTF-8.
    pub(super) fn into_strings(self, nulls: Option<NullBuffer>) -> Result<StringViewArray, String> {
        if self.are_all_in_views() {
            return self.into_short_strings(nulls.as_ref());
        }
        if self.bytes.len() > BUFFER_BYTES_MAX {
            let Views { views, buffers } = self.into_views();
            let strings = StringViewArray::try_new(ScalarBuffer::from(views), buffers, nulls);
            return strings.map_err(|error| error.to_string());
        }
        let ends = self.lengths.iter().scan(0, |end, &length| {
            *end += length as i32;
            Some(*end)
        });
        let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let strings = StringArray::try_new(offsets, Buffer::from_vec(self.bytes), nulls);
        strings.map(|strings| StringViewArray::from(&strings)).map_err(|error| error.to_string())
    }

    /// The array of texts that views have in themselves.
    fn into_short_strings(self, nulls: Option<&NullBuffer>) -> Result<StringViewArray, String> {
        let mut rest = std::str::from_utf8(&self.bytes).map_err(|error| error.to_string())?;
        let mut strings = StringViewBuilder::with_capacity(self.lengths.len());
        for (row, &length) in self.lengths.iter().enumerate() {
            let (text, behind) =
                rest.split_at_checked(length).ok_or("a text that ends within a character")?;
            match nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                true => strings.append_value(text),
                false => strings.append_null(),
            }
            rest = behind;
        }
        Ok(strings.finish())
    }

    fn are_all_in_views(&self) -> bool {
        self.lengths.iter().all(|&length| length <= IN_VIEW_MAX)
    }

    /// A view of each, and what these need.
    pub(super) fn into_views(self) -> Views {
        self.into_views_of(BUFFER_BYTES_MAX)
    }

    /// As [`into_views`](Self::into_views), with buffers of at most so many bytes, which each text fits into. All of them share
    /// the memory of the texts.
    pub(super) fn into_views_of(self, buffer_bytes_max: usize) -> Views {
        let are_all_in_views = self.are_all_in_views();
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
        if are_all_in_views {
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

/// Takes a dictionary, and for each of so many rows which of the entries it has.
///
/// # Errors
/// If there are not so many, or a row has none of the entries.
pub(super) fn take_dictionary(cursor: &mut Cursor<'_>, count: usize) -> Result<(Texts, Vec<u32>), String> {
    let entries = cursor.length()?;
    let entries = Texts::take(cursor, entries)?;
    let codes = unpack(cursor, count, |code| u32::try_from(code).unwrap_or(u32::MAX))?;
    all_are_entries(&codes, &entries)?;
    Ok((entries, codes))
}

/// As [`take_dictionary`]. `None` if there are more entries than codes; then only their number was taken.
///
/// # Errors
/// As [`take_dictionary`].
pub(super) fn take_codes(cursor: &mut Cursor<'_>, count: usize) -> Result<Option<(Texts, Vec<u16>)>, String> {
    let entries = cursor.length()?;
    if entries > CODED_ENTRIES_MAX {
        return Ok(None);
    }
    let entries = Texts::take(cursor, entries)?;
    let codes = unpack(cursor, count, |code| u16::try_from(code).unwrap_or(u16::MAX))?;
    all_are_entries(&codes, &entries)?;
    Ok(Some((entries, codes)))
}

fn all_are_entries<C: Copy + Into<u32>>(codes: &[C], entries: &Texts) -> Result<(), String> {
    match codes.iter().all(|&code| (code.into() as usize) < entries.lengths.len()) {
        true => Ok(()),
        false => Err("a row has a text that is not in the dictionary".to_owned()),
    }
}
