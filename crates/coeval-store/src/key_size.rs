// SPDX-License-Identifier: Apache-2.0
//! The greatest length of a key, and the check for it, which everything that makes keys calls.

use crate::error::StoreError;
use crate::key::KEY_BYTES_MAX;

/// Fails if a key of this index, or this primary key, is too long.
pub(crate) fn check_key_size(index: &str, key: &[u8]) -> Result<(), StoreError> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(StoreError::KeySize { index: index.to_owned(), bytes: key.len(), max: KEY_BYTES_MAX })
}

#[cfg(test)]
mod tests;
