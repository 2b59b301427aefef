// SPDX-License-Identifier: Apache-2.0
//! Reading encoded columns front to back, never beyond their end.

/// What is left of an encoded column.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Everything that has not been taken.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// If there are not so many.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let split = self.rest.split_at_checked(count);
        let (taken, rest) = split.ok_or_else(|| "a column ends before its values".to_owned())?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, String> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A length, as [`put_length`] writes it.
    pub(super) fn length(&mut self) -> Result<usize, String> {
        let bytes = self.take(size_of::<u64>())?.try_into().expect("eight bytes were taken");
        usize::try_from(u64::from_le_bytes(bytes)).map_err(|_| "a length beyond all memory".to_owned())
    }
}

/// Appends a length: eight bytes.
pub(super) fn put_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u64).to_le_bytes());
}
