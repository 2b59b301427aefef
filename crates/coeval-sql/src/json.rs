// SPDX-License-Identifier: Apache-2.0
//! `json` and `jsonb`: their operators and functions.
//!
//! Values of both types are text. A `json` is the text as it was written; a `jsonb` is written in one way only
//! ([`canonical`](crate::types::json::canonical())), so that equal documents are equal texts.

mod changed_rows;
mod changes;
mod containment;
mod functions;
mod kept_lists;
mod operators;
mod pairs;
mod path;
mod records;
mod sets;
mod written;

pub use changed_rows::ChangeAsJson;
pub(crate) use functions::{
    ARRAY_MEMBER, ARRAY_MEMBER_OF_DOCUMENTS, LINES, ORDER, PATH, ROW, function, functions, is_of_settings,
    keeper, writes_values,
};
pub(crate) use operators::{MEMBER, ROWS, aggregated, operator};
pub(crate) use sets::{Document, SetColumn, set_columns};
