// SPDX-License-Identifier: Apache-2.0
//! Cuts text and CSV into records and records into fields.
//!
//! A reader is given all bytes it has so far and where the next record starts; it either fills [`Fields`] and
//! says where the record after it starts, or says that the record is not complete yet. So the same code
//! serves a file, which knows its end, and a client that sends pieces.

use super::options::{CopyFormat, CopyOptions};

/// The line that ends the rows: clients send it behind them, some in CSV too.
const END_OF_DATA: &[u8] = b"\\.";

/// One field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    start: usize,
    end: usize,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Stands for NULL.
    Null,
    /// As it is in the input.
    Input,
    /// Unescaped, in the scratch text.
    Scratch,
}

/// The fields of one record; reused from record to record.
#[derive(Debug, Default)]
pub(super) struct Fields {
    fields: Vec<Field>,
    scratch: Vec<u8>,
    /// Which fields were quoted, for `FORCE_NULL` and `FORCE_NOT_NULL`.
    quoted: Vec<Quoted>,
}

/// Whether a CSV field was in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoted {
    /// It was.
    Yes,
    /// It was not.
    No,
}

impl Fields {
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The bytes of a field; `None`: NULL.
    #[inline]
    pub(super) fn get<'a>(&'a self, input: &'a [u8], index: usize) -> Option<&'a [u8]> {
        let field = self.fields[index];
        match field.place {
            Place::Null => None,
            Place::Input => Some(&input[field.start..field.end]),
            Place::Scratch => Some(&self.scratch[field.start..field.end]),
        }
    }

    /// Whether a field was quoted.
    #[inline]
    pub(super) fn quoted(&self, index: usize) -> Quoted {
        self.quoted[index]
    }

    /// Whether a field's bytes were put together from escapes, so that they may not be UTF-8 though the
    /// input was.
    #[inline]
    pub(super) fn is_unescaped(&self, index: usize) -> bool {
        self.fields[index].place == Place::Scratch
    }

    fn clear(&mut self) {
        self.fields.clear();
        self.quoted.clear();
        self.scratch.clear();
    }

    #[inline]
    fn push_input(&mut self, start: usize, end: usize, quoted: Quoted) {
        self.fields.push(Field { start, end, place: Place::Input });
        self.quoted.push(quoted);
    }

    fn push_null(&mut self) {
        self.fields.push(Field { start: 0, end: 0, place: Place::Null });
        self.quoted.push(Quoted::No);
    }

    fn push_scratch(&mut self, start: usize, quoted: Quoted) {
        self.fields.push(Field { start, end: self.scratch.len(), place: Place::Scratch });
        self.quoted.push(quoted);
    }
}

/// Whether more input can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// It can.
    Partial,
    /// This is all.
    Complete,
}

/// What reading one record came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The fields are filled; the next record starts here.
    Record(usize),
    /// The record ends behind the input so far.
    Incomplete,
    /// The line `\.`: nothing after it counts.
    EndOfData,
}

/// Why a record cannot be read (22P04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordFault {
    /// A quote was opened and the input ended.
    UnterminatedQuote,
    /// A carriage return that does not end a line.
    BareCarriageReturn,
}

impl RecordFault {
    /// The message of PostgreSQL.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::UnterminatedQuote => "unterminated CSV quoted field",
            Self::BareCarriageReturn => "literal carriage return found in data",
        }
    }
}

/// Whether a field of the text format holds backslashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escapes {
    Absent,
    Present,
}

/// Reads records of one format.
#[derive(Debug)]
pub(super) struct RecordReader {
    format: CopyFormat,
    delimiter: u8,
    quote: u8,
    escape: u8,
    null: Vec<u8>,
}

impl RecordReader {
    pub(super) fn new(options: &CopyOptions) -> Self {
        assert!(matches!(options.format, CopyFormat::Text | CopyFormat::Csv), "only these have text records");
        Self {
            format: options.format,
            delimiter: options.delimiter,
            quote: options.quote,
            escape: options.escape,
            null: options.null.clone().into_bytes(),
        }
    }

    /// Reads the record that starts at `at`, which is inside `bytes`.
    #[inline]
    pub(super) fn read(
        &self,
        bytes: &[u8],
        at: usize,
        input: Input,
        fields: &mut Fields,
    ) -> Result<Step, RecordFault> {
        debug_assert!(at < bytes.len(), "there is a byte to read");
        fields.clear();
        match self.format {
            CopyFormat::Csv => self.read_csv(bytes, at, input, fields),
            CopyFormat::Text | CopyFormat::Binary | CopyFormat::Parquet | CopyFormat::Arrow => {
                self.read_text(bytes, at, input, fields)
            }
        }
    }

    fn read_text(
        &self,
        bytes: &[u8],
        mut at: usize,
        input: Input,
        fields: &mut Fields,
    ) -> Result<Step, RecordFault> {
        loop {
            let start = at;
            let mut escapes = Escapes::Absent;
            // The field ends at a delimiter or a line end that no backslash precedes.
            let end = loop {
                match bytes.get(at) {
                    None if input == Input::Partial => return Ok(Step::Incomplete),
                    None => break at,
                    Some(b'\\') => {
                        escapes = Escapes::Present;
                        at += 2;
                        if at > bytes.len() {
                            if input == Input::Partial {
                                return Ok(Step::Incomplete);
                            }
                            at = bytes.len();
                        }
                    }
                    Some(&byte) if byte == self.delimiter || byte == b'\n' || byte == b'\r' => break at,
                    Some(_) => at += 1,
                }
            };
            if fields.len() == 0 && &bytes[start..end] == END_OF_DATA && !self.at_delimiter(bytes, end) {
                return Ok(Step::EndOfData);
            }
            self.finish_text_field(&bytes[start..end], start, escapes, fields);
            if self.at_delimiter(bytes, end) {
                at = end + 1;
                continue;
            }
            return line_end(bytes, end, input);
        }
    }

    #[inline]
    fn at_delimiter(&self, bytes: &[u8], at: usize) -> bool {
        bytes.get(at) == Some(&self.delimiter)
    }

    fn finish_text_field(&self, raw: &[u8], start: usize, escapes: Escapes, fields: &mut Fields) {
        if raw == self.null {
            fields.push_null();
        } else if escapes == Escapes::Present {
            let at = fields.scratch.len();
            unescape_text(raw, &mut fields.scratch);
            fields.push_scratch(at, Quoted::No);
        } else {
            fields.push_input(start, start + raw.len(), Quoted::No);
        }
    }

    fn read_csv(
        &self,
        bytes: &[u8],
        mut at: usize,
        input: Input,
        fields: &mut Fields,
    ) -> Result<Step, RecordFault> {
        loop {
            let start = at;
            while let Some(&byte) = bytes.get(at)
                && byte != self.delimiter
                && byte != self.quote
                && byte != b'\n'
                && byte != b'\r'
            {
                at += 1;
            }
            if bytes.get(at) == Some(&self.quote) {
                match self.read_quoted(bytes, start, at, input, fields)? {
                    Some(end) => at = end,
                    None => return Ok(Step::Incomplete),
                }
            } else if at == bytes.len() && input == Input::Partial {
                return Ok(Step::Incomplete);
            } else if fields.len() == 0 && &bytes[start..at] == END_OF_DATA && !self.at_delimiter(bytes, at) {
                return Ok(Step::EndOfData);
            } else if bytes[start..at] == self.null[..] {
                fields.push_null();
            } else {
                fields.push_input(start, at, Quoted::No);
            }
            if self.at_delimiter(bytes, at) {
                at += 1;
                continue;
            }
            return line_end(bytes, at, input);
        }
    }

    /// Reads on from the first quote of a field that started at `start`; says where the field ends. Quotes
    /// may open and close several times in one field, as in PostgreSQL.
    fn read_quoted(
        &self,
        bytes: &[u8],
        start: usize,
        quote: usize,
        input: Input,
        fields: &mut Fields,
    ) -> Result<Option<usize>, RecordFault> {
        let scratch = fields.scratch.len();
        if quote == start
            && let Some(length) = self.plain_quoted(&bytes[quote + 1..])
        {
            let from = quote + 1;
            fields.push_input(from, from + length, Quoted::Yes);
            return Ok(Some(from + length + 1));
        }
        fields.scratch.extend_from_slice(&bytes[start..quote]);
        let mut at = quote;
        let mut inside = false;
        loop {
            let Some(&byte) = bytes.get(at) else {
                return match (input, inside) {
                    (Input::Partial, _) => Ok(None),
                    (Input::Complete, true) => Err(RecordFault::UnterminatedQuote),
                    (Input::Complete, false) => {
                        fields.push_scratch(scratch, Quoted::Yes);
                        Ok(Some(at))
                    }
                };
            };
            if inside && byte == self.escape {
                match bytes.get(at + 1) {
                    Some(&next) if next == self.quote || next == self.escape => {
                        fields.scratch.push(next);
                        at += 2;
                        continue;
                    }
                    None if input == Input::Partial => return Ok(None),
                    Some(_) | None => {}
                }
            }
            if byte == self.quote {
                inside = !inside;
            } else if !inside && (byte == self.delimiter || byte == b'\n' || byte == b'\r') {
                fields.push_scratch(scratch, Quoted::Yes);
                return Ok(Some(at));
            } else {
                fields.scratch.push(byte);
            }
            at += 1;
        }
    }

    /// The length of a quoted field whose closing quote is followed by a delimiter or line end and that
    /// holds no escape; `bytes` starts behind the opening quote.
    fn plain_quoted(&self, bytes: &[u8]) -> Option<usize> {
        let length = bytes.iter().position(|&byte| byte == self.quote || byte == self.escape)?;
        let next = *bytes.get(length + 1)?;
        let closes =
            bytes[length] == self.quote && (next == self.delimiter || next == b'\n' || next == b'\r');
        closes.then_some(length)
    }
}

/// Where the next line starts, `at` being at a line end or at the end of the input.
fn line_end(bytes: &[u8], at: usize, input: Input) -> Result<Step, RecordFault> {
    match (bytes.get(at), bytes.get(at + 1)) {
        (None, _) => Ok(Step::Record(at)),
        (Some(b'\n'), _) => Ok(Step::Record(at + 1)),
        (Some(_), Some(b'\n')) => Ok(Step::Record(at + 2)),
        (Some(_), None) if input == Input::Partial => Ok(Step::Incomplete),
        (Some(_), None) => Ok(Step::Record(at + 1)),
        (Some(_), Some(_)) => Err(RecordFault::BareCarriageReturn),
    }
}

/// Appends the text that `raw` with its backslash escapes stands for.
fn unescape_text(raw: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(&next) = raw.get(at) else {
            out.push(b'\\');
            return;
        };
        at += 1;
        match next {
            b'b' => out.push(0x08),
            b'f' => out.push(0x0C),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(0x0B),
            b'0'..=b'7' => {
                let (value, length) = digits(&raw[at - 1..], 8, 3);
                out.push(value);
                at += length - 1;
            }
            b'x' if raw.get(at).is_some_and(u8::is_ascii_hexdigit) => {
                let (value, length) = digits(&raw[at..], 16, 2);
                out.push(value);
                at += length;
            }
            other => out.push(other),
        }
    }
}

/// The number that up to `length_max` digits at the start are, modulo 256, and how many there are.
fn digits(raw: &[u8], radix: u32, length_max: usize) -> (u8, usize) {
    let values = raw.iter().take(length_max).map_while(|&byte| char::from(byte).to_digit(radix));
    let (value, length) = values.fold((0, 0), |(value, length), digit| (value * radix + digit, length + 1));
    ((value & 0xFF) as u8, length)
}

#[cfg(test)]
mod tests;
