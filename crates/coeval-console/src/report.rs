// SPDX-License-Identifier: Apache-2.0
//! [`Report`]: an error or a notice of the server, as the page gets it.

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorFields;
use serde::Serialize;
use std::io;

/// An error or a notice, with the fields that PostgreSQL's protocol gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) severity: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) sqlstate: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// The character of the statement that it is about, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<u32>,
}

impl Report {
    /// One that the console itself makes.
    pub(crate) fn own(sqlstate: &str, message: impl Into<String>) -> Self {
        Self {
            severity: "ERROR".to_owned(),
            message: message.into(),
            sqlstate: sqlstate.to_owned(),
            ..Self::default()
        }
    }

    /// The same, with what to do.
    pub(crate) fn hinted(mut self, hint: &str) -> Self {
        self.hint = Some(hint.to_owned());
        self
    }

    /// Whether the session ends with it.
    pub(crate) fn is_last(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }

    /// # Errors
    /// If the fields are none of the protocol.
    pub(crate) fn of(mut fields: ErrorFields<'_>) -> io::Result<Self> {
        let mut report = Self::default();
        while let Some(field) = fields.next()? {
            let text = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'V' => report.severity = text,
                b'C' => report.sqlstate = text,
                b'M' => report.message = text,
                b'D' => report.detail = Some(text),
                b'H' => report.hint = Some(text),
                b'P' => report.position = text.parse().ok(),
                _ => {}
            }
        }
        Ok(report)
    }
}
