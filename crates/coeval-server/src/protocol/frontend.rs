// SPDX-License-Identifier: Apache-2.0
//! What clients send, read in place: a message borrows from the bytes it came in.
//!
//! A frame's length has been checked before; here every count and length inside it is.

use coeval::{SqlError, SqlState};
use coeval_sql::utf8;

/// What a Describe or Close is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A prepared statement.
    Statement,
    /// A portal.
    Portal,
}

/// A message of a client whose session is open.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frontend<'a> {
    /// Statements to be run at once.
    Query(&'a str),
    /// A statement to be prepared under a name.
    Parse {
        /// The name; empty: the unnamed statement.
        name: &'a str,
        /// Its text.
        sql: &'a str,
        /// The types that the client knows; 0: it leaves that to us.
        types: Types<'a>,
    },
    /// Values for a prepared statement's parameters.
    Bind(Bind<'a>),
    /// What are parameters and columns of this?
    Describe(Target, &'a str),
    /// Run a portal and give at most this many rows; 0: all.
    Execute {
        /// The portal.
        portal: &'a str,
        /// How many rows at most; 0: all.
        rows_max: u32,
    },
    /// Forget this.
    Close(Target, &'a str),
    /// Send what there is.
    Flush,
    /// The end of a group of messages.
    Sync,
    /// The client goes.
    Terminate,
    /// Bytes of a COPY.
    CopyData(&'a [u8]),
    /// The end of a COPY's bytes.
    CopyDone,
    /// The client gives up a COPY, for this reason.
    CopyFail(&'a str),
    /// A function call, which is no part of the protocol any more that anybody uses.
    FunctionCall,
    /// A password, or a step of SASL.
    Password(&'a [u8]),
}

/// A Bind message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bind<'a> {
    /// The portal it makes; empty: the unnamed one.
    pub(crate) portal: &'a str,
    /// The statement.
    pub(crate) statement: &'a str,
    /// In what form the values are.
    pub(crate) formats: Formats<'a>,
    /// The values.
    pub(crate) values: Values<'a>,
    /// In what form the result's columns shall be.
    pub(crate) result_formats: Formats<'a>,
}

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// As text.
    Text,
    /// As the type's binary form.
    Binary,
}

/// Forms of several values: none says all are text, one is for all, else there is one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Formats<'a>(&'a [u8]);

impl<'a> Formats<'a> {
    /// Everything as text.
    pub(crate) const TEXT: Formats<'static> = Formats(&[]);

    /// Forms that were kept by [`codes`](Self::codes).
    pub(crate) fn of_codes(codes: &'a [u8]) -> Self {
        debug_assert!(codes.len().is_multiple_of(2), "a code has two bytes");
        Self(codes)
    }

    /// To be kept beyond the message.
    pub(crate) fn codes(&self) -> Box<[u8]> {
        self.0.into()
    }

    /// How many are given.
    pub(crate) fn len(&self) -> usize {
        self.0.len() / 2
    }

    /// The form of the value with this number.
    pub(crate) fn of(&self, index: usize) -> Format {
        let index = if self.len() == 1 { 0 } else { index };
        match self.0.get(index * 2 + 1) {
            Some(1) => Format::Binary,
            _ => Format::Text,
        }
    }

    /// Refuses codes that are neither, and a number of them that fits nothing.
    ///
    /// # Errors
    /// `08P01`, `22023`.
    pub(crate) fn check(&self, values: usize, what: &str) -> Result<(), SqlError> {
        if self.len() > 1 && self.len() != values {
            let message =
                format!("bind message has {} {what} formats but there are {values} {what}s", self.len());
            return Err(violation(message));
        }
        match self.0.chunks_exact(2).find(|code| code[0] != 0 || code[1] > 1) {
            None => Ok(()),
            Some(code) => {
                let message = format!("unsupported format code: {}", i16::from_be_bytes([code[0], code[1]]));
                Err(SqlError::new(SqlState::InvalidParameterValue, message))
            }
        }
    }
}

/// The types of a Parse message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types<'a>(&'a [u8]);

impl Types<'_> {
    /// All of them.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = u32> {
        self.0.chunks_exact(4).map(|oid| u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]))
    }
}

/// The values of a Bind message. Their lengths have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Values<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// What they take in the message.
    pub(crate) fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    /// All of them; `None`: NULL.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let mut reader = Reader { rest: self.bytes };
        (0..self.count).map(move |_| reader.value().expect("the lengths have been checked"))
    }
}

/// `08P01`: a message that is not as the protocol says.
pub(crate) fn violation(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::ProtocolViolation, message)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], SqlError> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(violation("insufficient data left in message")),
        }
    }

    fn byte(&mut self) -> Result<u8, SqlError> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn count(&mut self) -> Result<usize, SqlError> {
        self.take(2).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    fn int(&mut self) -> Result<i32, SqlError> {
        self.take(4).map(|bytes| i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn string(&mut self) -> Result<&'a str, SqlError> {
        let end = self.rest.iter().position(|&byte| byte == 0);
        let end = end.ok_or_else(|| violation("invalid string in message"))?;
        let bytes = self.take(end)?;
        self.rest = &self.rest[1..];
        utf8(bytes)
    }

    fn formats(&mut self) -> Result<Formats<'a>, SqlError> {
        let count = self.count()?;
        self.take(count * 2).map(Formats)
    }

    fn value(&mut self) -> Result<Option<&'a [u8]>, SqlError> {
        match self.int()? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => self.take(length).map(Some),
                Err(_) => Err(violation("invalid length of a value in message")),
            },
        }
    }

    fn values(&mut self) -> Result<Values<'a>, SqlError> {
        let count = self.count()?;
        let bytes = self.rest;
        for _ in 0..count {
            self.value()?;
        }
        Ok(Values { count, bytes: &bytes[..bytes.len() - self.rest.len()] })
    }

    fn target(&mut self) -> Result<Target, SqlError> {
        match self.byte()? {
            b'S' => Ok(Target::Statement),
            b'P' => Ok(Target::Portal),
            other => Err(violation(format!("invalid subtype {other} in message"))),
        }
    }
}

impl<'a> Frontend<'a> {
    /// Whether there is such a message at all. Others cannot be passed over: where one ends is unknown.
    pub(crate) fn is_known(kind: u8) -> bool {
        matches!(
            kind,
            b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'H' | b'S' | b'X' | b'd' | b'c' | b'f' | b'F' | b'p'
        )
    }

    /// Reads the body of a message of a known kind.
    ///
    /// # Errors
    /// `08P01` if it is not as the protocol says, `22021` for text that is not UTF-8.
    pub(crate) fn read(kind: u8, body: &'a [u8]) -> Result<Self, SqlError> {
        let mut reader = Reader { rest: body };
        let message = match kind {
            b'Q' => Self::Query(reader.string()?),
            b'P' => {
                let (name, sql) = (reader.string()?, reader.string()?);
                let count = reader.count()?;
                Self::Parse { name, sql, types: Types(reader.take(count * 4)?) }
            }
            b'B' => Self::Bind(Bind {
                portal: reader.string()?,
                statement: reader.string()?,
                formats: reader.formats()?,
                values: reader.values()?,
                result_formats: reader.formats()?,
            }),
            b'D' => Self::Describe(reader.target()?, reader.string()?),
            b'E' => {
                // A negative limit is none, as in PostgreSQL.
                let portal = reader.string()?;
                Self::Execute { portal, rows_max: u32::try_from(reader.int()?).unwrap_or(0) }
            }
            b'C' => Self::Close(reader.target()?, reader.string()?),
            b'H' => Self::Flush,
            b'S' => Self::Sync,
            b'X' => Self::Terminate,
            b'd' => Self::CopyData(reader.take(body.len())?),
            b'c' => Self::CopyDone,
            b'f' => Self::CopyFail(reader.string()?),
            b'F' => {
                reader.rest = &[];
                Self::FunctionCall
            }
            b'p' => Self::Password(reader.take(body.len())?),
            other => return Err(violation(format!("invalid frontend message type {other}"))),
        };
        if !reader.rest.is_empty() {
            return Err(violation("invalid message format"));
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests;
