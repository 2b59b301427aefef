// SPDX-License-Identifier: Apache-2.0
//! Documents, as `json` and `jsonb` keep them: their parts, and the one text that a `jsonb` has.
//!
//! What is in a document is found by walking over its text ([`document`]), without building anything. Functions and
//! operators stand above, in a room of their own.

mod canonical;
mod document;
mod escapes;
mod order;

pub(crate) use canonical::{canonical, push_long_string, push_string};
pub(crate) use document::{Kind, Part};
pub(crate) use escapes::check_escapes;
pub(crate) use order::order_key;
