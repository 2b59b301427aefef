// SPDX-License-Identifier: Apache-2.0
//! What a crash, a damaged file or a full disk may do to a directory, and what it may not.

// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

mod contents;
mod damage;
mod kills;
mod limits;
mod model;
mod places;
