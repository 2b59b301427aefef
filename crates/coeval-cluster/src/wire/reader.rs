// SPDX-License-Identifier: Apache-2.0
//! [`Reader`]: bytes as they are read, none twice and none that are not there.

use super::{Malformed, Wire};
use bytes::{Buf, Bytes};

/// Elements for which room is made before the first is read. More come as they are read.
const ROOM_MAX: usize = 1_024;

/// What is left of some bytes.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    bytes: Bytes,
}

impl Reader {
    /// All of `bytes`.
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self { bytes }
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        if self.bytes.is_empty() { Err(Malformed::Cut) } else { Ok(self.bytes.get_u8()) }
    }

    /// A number, in whose form nothing is superfluous: so a value has one form.
    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits || (byte == 0 && shift > 0) {
                return Err(Malformed::Range);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Range)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.u64()?.try_into().map_err(|_| Malformed::Range)
    }

    /// A length or count of things that take a byte each at least.
    pub(super) fn len(&mut self) -> Result<usize, Malformed> {
        let length = usize::try_from(self.u64()?).map_err(|_| Malformed::Cut)?;
        if length > self.left() { Err(Malformed::Cut) } else { Ok(length) }
    }

    /// Bytes with their length. They are not copied.
    pub(super) fn bytes(&mut self) -> Result<Bytes, Malformed> {
        let length = self.len()?;
        Ok(self.bytes.split_to(length))
    }

    pub(super) fn list<T: Wire>(&mut self) -> Result<Vec<T>, Malformed> {
        let count = self.len()?;
        let mut list = Vec::with_capacity(count.min(ROOM_MAX));
        for _ in 0..count {
            list.push(T::take(self)?);
        }
        Ok(list)
    }
}
