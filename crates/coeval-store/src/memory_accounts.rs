// SPDX-License-Identifier: Apache-2.0
//! Where transactions get memory for what they write, as whoever set up the store says it.

use std::fmt;

/// Gives each transaction that needs it an account of its own.
pub trait MemoryAccounts: fmt::Debug + Send + Sync {
    /// A new account, with nothing on it.
    fn open(&self) -> Box<dyn MemoryAccount>;
}

/// What one transaction has of the memory. Dropping it gives everything back.
pub trait MemoryAccount: fmt::Debug + Send + Sync {
    /// Takes so many bytes more.
    ///
    /// # Errors
    /// Why it may not have them, for the user. The account is as before.
    fn grow(&mut self, bytes: usize) -> Result<(), String>;

    /// Gives so many bytes back, of those that it has.
    fn shrink(&mut self, bytes: usize);
}
