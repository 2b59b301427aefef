// SPDX-License-Identifier: Apache-2.0
//! The library in a program: what only the facade has, and its examples.
#![allow(clippy::unwrap_used)]
// The examples' `main` is public for their test.
#![allow(unreachable_pub)]

mod copying;
mod enums;
mod examples;
mod files;
mod front_page;
mod kept_settings;
mod lending;
mod many_columns;
mod progress;
mod reading;
mod sharing;
mod table_changes;
mod temporary_tables;
