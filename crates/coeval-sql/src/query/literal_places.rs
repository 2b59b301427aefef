// SPDX-License-Identifier: Apache-2.0
//! Where the literal stands that a query is refused for: `'a'` in `SELECT 'a'::int`.
//!
//! DataFusion's literals know no place. But while a query is planned no rows are read, so that a value which an error names is one of
//! its literals; if one alone has this text, that is where it stands.

use crate::error::{SqlError, SqlState};
use crate::walk::Walk;
use datafusion::sql::sqlparser::ast::{Query, Value, ValueWithSpan, Visitor};
use datafusion::sql::sqlparser::tokenizer::Location;
use std::ops::ControlFlow;

/// Longer messages, which name long values, are looked for nowhere: each literal is compared with all of the message.
const MESSAGE_BYTES_MAX: usize = 1024;

/// An error of planning a query with the place of the literal that it is about, if it has none yet and there is one alone.
pub(super) fn placed(error: SqlError, query: &Query) -> SqlError {
    let is_about_text = matches!(
        error.state,
        SqlState::InvalidTextRepresentation
            | SqlState::InvalidDatetimeFormat
            | SqlState::DatetimeFieldOverflow
            | SqlState::NumericValueOutOfRange
    );
    if error.position.is_some() || !is_about_text || error.message.len() > MESSAGE_BYTES_MAX {
        return error;
    }
    match places_of_named(&error.message, query).as_slice() {
        [place] => error.at(place.line, place.column),
        _ => error,
    }
}

/// Where the literals stand whose texts a message names.
fn places_of_named(message: &str, query: &Query) -> Vec<Location> {
    let mut named = Named { message, places: Vec::new() };
    // It goes on to the end.
    let _ = query.walk(&mut named);
    named.places
}

/// The texts that a message names in quotes.
struct Named<'m> {
    message: &'m str,
    places: Vec<Location>,
}

impl Visitor for Named<'_> {
    type Break = ();

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        if let Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) = &value.value
            && text.len() < self.message.len()
            && self.message.contains(&format!("\"{text}\""))
        {
            self.places.push(value.span.start);
        }
        ControlFlow::Continue(())
    }
}
