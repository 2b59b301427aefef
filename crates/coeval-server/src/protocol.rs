// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's protocol 3.0 as bytes: nothing here knows of sessions or data.

pub(crate) mod backend;
pub(crate) mod frontend;
pub(crate) mod input;
pub(crate) mod startup;
