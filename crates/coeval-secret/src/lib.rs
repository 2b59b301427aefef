// SPDX-License-Identifier: Apache-2.0
//! Files with passwords and private keys: one rule for whoever reads one, a server or a node of a cluster.
//!
//! # Owns
//! Who else may be able to read such a file ([`read_secret_file`]).
//!
//! # Never does
//! Anything with what is in it: what a key or a password is, its reader knows.
//!
//! # Invariants
//! - What others than the owner can read or change is not used.
//!
//! # Start reading at
//! [`read_secret_file`].

mod secret_file;

pub use secret_file::{SecretFileError, read_secret_file};
