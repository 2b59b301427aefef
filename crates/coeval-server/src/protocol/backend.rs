// SPDX-License-Identifier: Apache-2.0
//! What we send, written straight into the bytes that are on their way out.

use crate::protocol::frontend::Formats;
use crate::stream::Stream;
use coeval::{CommandTag, SqlError, SqlState, TransactionStatus};
use coeval_sql::CopyEncoding;
use std::io::{self, Write};

/// How grave a message to the user is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The statement failed.
    Error,
    /// The connection ends.
    Fatal,
    /// Something that the user may not expect.
    Warning,
    /// Something that the user may want to know.
    Notice,
}

impl Severity {
    /// That of what a statement has to say without failing.
    pub(crate) fn of_notice(notice: &SqlError) -> Self {
        match notice.state {
            SqlState::ActiveSqlTransaction | SqlState::NoActiveSqlTransaction => Self::Warning,
            _ => Self::Notice,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
        }
    }
}

/// What is asked of or answered to a client that says who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authentication<'a> {
    /// It is who it says.
    Ok,
    /// It shall prove that by one of these mechanisms.
    Sasl(&'a [&'a str]),
    /// The next step of the mechanism.
    SaslContinue(&'a str),
    /// Its last step.
    SaslFinal(&'a str),
}

/// What becomes of a message of a row that has no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmptyRow {
    /// It is sent.
    Sent,
    /// It is left out.
    LeftOut,
}

/// A column of rows that are to come, as a client is told of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescribedColumn<'a> {
    pub(crate) name: &'a str,
    /// The column of a table that it is: the table's id and the column's number; zeros if it is none.
    pub(crate) origin: (i32, i16),
    /// Its type's number, size and modifier.
    pub(crate) oid: u32,
    pub(crate) size: i16,
    pub(crate) modifier: i32,
}

/// Longest row that is sent: as in PostgreSQL, whose clients take no longer message.
const ROW_BYTES_MAX: usize = 1 << 30;

/// Bytes of a message's length, which counts itself.
const LENGTH_BYTES: usize = 4;

/// Bytes on their way to a client.
#[derive(Debug, Default)]
pub(crate) struct Output {
    buffer: Vec<u8>,
    /// How many of the bytes have been sent.
    sent: usize,
}

/// The place of a message's length, until its end is known.
#[derive(Debug)]
#[must_use]
pub(crate) struct Open(usize);

impl Output {
    /// What has gathered.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// What of it has not been sent.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.buffer[self.sent..]
    }

    /// Sends all that has not been sent; waits while the client does not read. Dropped on the way, it has
    /// noted what went out, so that whoever sends next goes on there.
    ///
    /// # Errors
    /// What the connection answers.
    pub(crate) async fn send_to(&mut self, stream: &mut Stream) -> io::Result<()> {
        while !self.unsent().is_empty() {
            let sent = stream.write(self.unsent()).await?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.note_sent(sent);
        }
        stream.flush().await
    }

    /// So many bytes more have been sent.
    fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        debug_assert!(self.sent <= self.buffer.len(), "only what has gathered is sent");
    }

    /// Where values go between [`begin`](Self::begin) and [`end`](Self::end).
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Forgets what has gathered, and gives back room beyond this.
    pub(crate) fn clear(&mut self, room_max: usize) {
        self.buffer.clear();
        self.sent = 0;
        if self.buffer.capacity() > room_max {
            self.buffer = Vec::new();
        }
    }

    /// Forgets what has gathered after so many bytes, of which none has been sent.
    pub(crate) fn truncate(&mut self, length: usize) {
        debug_assert!(self.sent <= length, "what was sent is not taken back");
        self.buffer.truncate(length);
    }

    /// Forgets a message that has begun.
    pub(crate) fn drop_message(&mut self, open: Open) {
        self.buffer.truncate(open.0 - 1);
    }

    /// Begins a message.
    pub(crate) fn begin(&mut self, kind: u8) -> Open {
        self.buffer.push(kind);
        let open = Open(self.buffer.len());
        self.buffer.extend_from_slice(&[0; LENGTH_BYTES]);
        open
    }

    /// Ends a message that holds a row.
    ///
    /// # Errors
    /// `54000` if it is longer than clients take; there is no such message then.
    pub(crate) fn end_row(&mut self, open: Open, empty: EmptyRow) -> Result<(), SqlError> {
        self.end_bounded(open, empty, ROW_BYTES_MAX)
    }

    fn end_bounded(&mut self, open: Open, empty: EmptyRow, bytes_max: usize) -> Result<(), SqlError> {
        let length = self.buffer.len() - open.0 - LENGTH_BYTES;
        if length > bytes_max {
            self.drop_message(open);
            let message =
                format!("a row of {length} bytes is longer than the {bytes_max} that a message may have");
            return Err(SqlError::new(SqlState::ProgramLimitExceeded, message));
        }
        if length == 0 && empty == EmptyRow::LeftOut {
            self.drop_message(open);
        } else {
            self.end(open);
        }
        Ok(())
    }

    /// Ends it.
    ///
    /// # Panics
    /// If it is longer than a message can be; [rows](Self::end_row) are bounded.
    pub(crate) fn end(&mut self, open: Open) {
        let length = i32::try_from(self.buffer.len() - open.0).expect("a message has less than 2 GiB");
        self.buffer[open.0..open.0 + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    }

    fn string(&mut self, text: &str) {
        // A zero byte would end it early.
        let text = text.split('\0').next().unwrap_or_default();
        self.buffer.extend_from_slice(text.as_bytes());
        self.buffer.push(0);
    }

    fn short(&mut self, value: usize) {
        self.buffer.extend_from_slice(&(value as u16).to_be_bytes());
    }

    fn int(&mut self, value: i32) {
        self.buffer.extend_from_slice(&value.to_be_bytes());
    }

    fn empty(&mut self, kind: u8) {
        self.buffer.extend_from_slice(&[kind, 0, 0, 0, 4]);
    }

    /// Whether the client asks for TLS in vain.
    pub(crate) fn tls_answer(&mut self, answer: u8) {
        self.buffer.push(answer);
    }

    /// A step of saying who one is.
    pub(crate) fn authentication(&mut self, step: Authentication<'_>) {
        let open = self.begin(b'R');
        match step {
            Authentication::Ok => self.int(0),
            Authentication::Sasl(mechanisms) => {
                self.int(10);
                mechanisms.iter().for_each(|mechanism| self.string(mechanism));
                self.buffer.push(0);
            }
            Authentication::SaslContinue(data) => {
                self.int(11);
                self.buffer.extend_from_slice(data.as_bytes());
            }
            Authentication::SaslFinal(data) => {
                self.int(12);
                self.buffer.extend_from_slice(data.as_bytes());
            }
        }
        self.end(open);
    }

    /// We speak 3.0 and know none of these options.
    pub(crate) fn negotiate_version(&mut self, unknown: &[&str]) {
        let open = self.begin(b'v');
        self.int(0);
        self.int(unknown.len() as i32);
        unknown.iter().for_each(|name| self.string(name));
        self.end(open);
    }

    /// A setting that clients are told of, and its value.
    pub(crate) fn parameter_status(&mut self, name: &str, value: &str) {
        let open = self.begin(b'S');
        self.string(name);
        self.string(value);
        self.end(open);
    }

    /// What a cancel request for this connection needs.
    pub(crate) fn backend_key(&mut self, pid: i32, secret: i32) {
        let open = self.begin(b'K');
        self.int(pid);
        self.int(secret);
        self.end(open);
    }

    /// The client's turn.
    pub(crate) fn ready(&mut self, status: TransactionStatus) {
        let status = match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::Active => b'T',
            TransactionStatus::Failed => b'E',
        };
        self.buffer.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
    }

    /// A statement is done.
    pub(crate) fn command_complete(&mut self, tag: CommandTag) {
        let open = self.begin(b'C');
        // Writing to a vector cannot fail.
        let _ = write!(self.buffer, "{tag}\0");
        self.end(open);
    }

    /// The statement was empty.
    pub(crate) fn empty_query(&mut self) {
        self.empty(b'I');
    }

    /// A statement is prepared.
    pub(crate) fn parse_complete(&mut self) {
        self.empty(b'1');
    }

    /// A portal is made.
    pub(crate) fn bind_complete(&mut self) {
        self.empty(b'2');
    }

    /// A statement or portal is forgotten.
    pub(crate) fn close_complete(&mut self) {
        self.empty(b'3');
    }

    /// There are no rows.
    pub(crate) fn no_data(&mut self) {
        self.empty(b'n');
    }

    /// There are more rows than were asked for.
    pub(crate) fn portal_suspended(&mut self) {
        self.empty(b's');
    }

    /// The types of a statement's parameters.
    pub(crate) fn parameter_description(&mut self, types: &[u32]) {
        let open = self.begin(b't');
        self.short(types.len());
        types.iter().for_each(|oid| self.buffer.extend_from_slice(&oid.to_be_bytes()));
        self.end(open);
    }

    /// The columns of rows that are to come.
    pub(crate) fn row_description<'a>(
        &mut self,
        columns: impl ExactSizeIterator<Item = DescribedColumn<'a>>,
        formats: Formats<'_>,
    ) {
        let open = self.begin(b'T');
        self.short(columns.len());
        for (index, column) in columns.enumerate() {
            self.string(column.name);
            let (table, number) = column.origin;
            self.int(table);
            self.buffer.extend_from_slice(&number.to_be_bytes());
            self.buffer.extend_from_slice(&column.oid.to_be_bytes());
            self.buffer.extend_from_slice(&column.size.to_be_bytes());
            self.int(column.modifier);
            self.short(formats.of(index) as usize);
        }
        self.end(open);
    }

    /// A COPY begins: the client is to send (`G`) or gets (`H`) this many columns.
    pub(crate) fn copy_response(&mut self, kind: u8, encoding: CopyEncoding, columns: usize) {
        let open = self.begin(kind);
        let format = match encoding {
            CopyEncoding::Text => 0,
            CopyEncoding::Binary => 1,
        };
        self.buffer.push(format);
        self.short(columns);
        (0..columns).for_each(|_| self.short(usize::from(format)));
        self.end(open);
    }

    /// From here on both sides send bytes.
    pub(crate) fn copy_both_response(&mut self) {
        self.copy_response(b'W', CopyEncoding::Text, 0);
    }

    /// Bytes of a COPY.
    pub(crate) fn copy_data(&mut self, bytes: &[u8]) {
        let open = self.begin(b'd');
        self.buffer.extend_from_slice(bytes);
        self.end(open);
    }

    /// A row of texts.
    pub(crate) fn text_row(&mut self, values: &[Option<String>]) {
        let open = self.begin(b'D');
        self.short(values.len());
        for value in values {
            match value {
                None => self.int(-1),
                Some(text) => {
                    self.int(text.len() as i32);
                    self.buffer.extend_from_slice(text.as_bytes());
                }
            }
        }
        self.end(open);
    }

    /// A COPY's bytes have been sent.
    pub(crate) fn copy_done(&mut self) {
        self.empty(b'c');
    }

    /// An error or a notice.
    pub(crate) fn report(&mut self, severity: Severity, error: &SqlError) {
        let kind = match severity {
            Severity::Error | Severity::Fatal => b'E',
            Severity::Warning | Severity::Notice => b'N',
        };
        let open = self.begin(kind);
        let position = error.position.map(|position| position.to_string());
        let object = error.object.as_deref();
        let fields = [
            (b'S', Some(severity.name())),
            (b'V', Some(severity.name())),
            (b'C', Some(error.state.code())),
            (b'M', Some(error.message.as_str())),
            (b'D', error.detail.as_deref()),
            (b'H', error.hint.as_deref()),
            (b'P', position.as_deref()),
            (b'W', error.context.as_deref()),
            (b's', object.and_then(|object| object.schema.as_deref())),
            (b't', object.and_then(|object| object.table.as_deref())),
            (b'c', object.and_then(|object| object.column.as_deref())),
            (b'n', object.and_then(|object| object.constraint.as_deref())),
        ];
        for (field, text) in fields {
            if let Some(text) = text {
                self.buffer.push(field);
                self.string(text);
            }
        }
        self.buffer.push(0);
        self.end(open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_too_long_is_refused_and_what_came_before_stays() {
        let mut output = Output::default();
        output.parse_complete();
        let before = output.bytes().to_vec();
        let open = output.begin(b'D');
        output.buffer().extend_from_slice(&[0; 11]);
        let refused = output.end_bounded(open, EmptyRow::Sent, 10).unwrap_err();
        assert_eq!(refused.state, SqlState::ProgramLimitExceeded);
        assert_eq!(output.bytes(), before);
        let open = output.begin(b'D');
        output.buffer().extend_from_slice(&[0; 10]);
        output.end_bounded(open, EmptyRow::Sent, 10).unwrap();
        assert_eq!(output.bytes()[before.len()..], [b'D', 0, 0, 0, 14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
