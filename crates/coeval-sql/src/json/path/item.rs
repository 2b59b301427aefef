// SPDX-License-Identifier: Apache-2.0
//! A value that a path leads to.

use super::moments::Moment;
use crate::types::json::Part;
use std::borrow::Cow;
use std::ops::Deref;

/// A part of the document, or a text of JSON that was made; and what it means if it was read as a date or time.
#[derive(Clone, Debug)]
pub(super) struct Item<'d> {
    json: Cow<'d, str>,
    moment: Option<Moment>,
}

impl<'d> Item<'d> {
    /// A part of the document, or a constant.
    pub(super) fn part(json: &'d str) -> Self {
        Self { json: Cow::Borrowed(json), moment: None }
    }

    pub(super) fn made(json: String) -> Self {
        Self { json: Cow::Owned(json), moment: None }
    }

    /// A date or time, which is a string in JSON.
    pub(super) fn of_moment(moment: Moment) -> Self {
        Self { json: Cow::Owned(format!("\"{moment}\"")), moment: Some(moment) }
    }

    pub(super) fn json(&self) -> &Cow<'d, str> {
        &self.json
    }

    pub(super) fn into_json(self) -> Cow<'d, str> {
        self.json
    }

    /// The date or time that it was read as.
    pub(super) fn moment(&self) -> Option<Moment> {
        self.moment
    }

    /// The text that it is; `None` if it is something else, or was read as a date or time.
    pub(super) fn string(&self) -> Option<Cow<'_, str>> {
        if self.moment.is_some() { None } else { Part::of(&self.json).string() }
    }
}

impl Deref for Item<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.json
    }
}
