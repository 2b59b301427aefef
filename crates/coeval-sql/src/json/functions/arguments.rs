// SPDX-License-Identifier: Apache-2.0
//! [`Arguments`]: what a function is called with, what it reads of them, and what it finds in documents.

use crate::allowance::Meter;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::json::changes::{self, Change};
use crate::json::containment::{contains, exists};
use crate::json::pairs::Texts;
use crate::json::path::{Errors, Search};
use crate::json::records::{Elements, array_text};
use crate::types::column_type_of_field;
use crate::types::json::{Kind, Part, canonical, check_escapes};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use chrono_tz::Tz;
use coeval_store::ColumnType;
use std::borrow::Cow;

/// The arguments of a function, as arrays of the same length.
pub(super) struct Arguments<'a> {
    pub(super) arrays: &'a [ArrayRef],
    pub(super) fields: &'a [FieldRef],
    /// The session's time zone.
    pub(super) zone: Tz,
    /// Counts what is made.
    pub(super) meter: &'a Meter,
}

/// What a function gives for a row.
pub(super) enum Answer {
    Text(String),
    Truth(bool),
    Number(i32),
}

impl<'a> Arguments<'a> {
    pub(super) fn text(&self, index: usize, row: usize) -> Option<&'a str> {
        let array = self.arrays.get(index)?;
        match array.data_type() {
            DataType::Utf8View if !array.is_null(row) => Some(array.as_string_view().value(row)),
            _ => None,
        }
    }

    pub(super) fn document(&self, index: usize, row: usize) -> Option<Part<'a>> {
        self.text(index, row).map(Part::of)
    }

    /// A document that may be a literal: then it is looked at here.
    pub(super) fn given(&self, index: usize, row: usize) -> SqlResult<Option<String>> {
        let Some(text) = self.text(index, row) else { return Ok(None) };
        crate::types::parse_value(text, ColumnType::Json, Tz::UTC)?;
        canonical(text).map(Some)
    }

    /// The document that something is looked for in. What it writes by escapes has to be characters.
    pub(super) fn opened(&self, row: usize) -> SqlResult<Option<Part<'a>>> {
        let document = self.document(0, row);
        document.map_or(Ok(()), |document| check_escapes(document.text()))?;
        Ok(document)
    }

    /// The member that the second argument names, as the text of an array.
    pub(super) fn array_member(&self, row: usize, elements: Elements) -> SqlResult<Option<Answer>> {
        let (Some(document), Some(key)) = (self.opened(row)?, self.text(1, row)) else { return Ok(None) };
        Ok(array_text(document, key, elements)?.map(Answer::Text))
    }

    /// The object of one array of texts, or of two.
    pub(super) fn of_texts(&self, row: usize) -> SqlResult<Option<String>> {
        let array = |index: usize| -> SqlResult<Option<Texts>> {
            let array = &self.arrays[index];
            match array.as_list_opt::<i32>() {
                _ if array.is_null(row) => Ok(None),
                Some(lists) => Texts::of_list(&lists.value(row)).map(Some),
                None => self.text(index, row).map(Texts::read).transpose(),
            }
        };
        let Some(first) = array(0)? else { return Ok(None) };
        if self.arrays.len() == 1 {
            return first.object().map(Some);
        }
        array(1)?.map(|values| first.object_with(&values)).transpose()
    }

    /// Whether one argument contains the other.
    pub(super) fn contains(&self, whole: usize, part: usize, row: usize) -> SqlResult<Option<Answer>> {
        let (Some(whole), Some(part)) = (self.jsonb(whole, row)?, self.jsonb(part, row)?) else {
            return Ok(None);
        };
        let is_there = contains(Part::of(&whole), Part::of(&part), self.meter)?;
        Ok(Some(Answer::Truth(is_there)))
    }

    /// Whether the document has a key or a text of the second argument.
    pub(super) fn has_key(&self, row: usize) -> Option<Answer> {
        let (document, key) = (self.document(0, row)?, self.text(1, row)?);
        Some(Answer::Truth(exists(document, key)))
    }

    /// Whether it has any of the keys.
    pub(super) fn has_any(&self, row: usize) -> SqlResult<Option<Answer>> {
        let (Some(document), Some(keys)) = (self.document(0, row), self.texts(1, row)?) else {
            return Ok(None);
        };
        Ok(Some(Answer::Truth(self.is_any(&keys, |key| exists(document, key))?)))
    }

    /// Whether it has all of the keys.
    pub(super) fn has_all(&self, row: usize) -> SqlResult<Option<Answer>> {
        let (Some(document), Some(keys)) = (self.document(0, row), self.texts(1, row)?) else {
            return Ok(None);
        };
        Ok(Some(Answer::Truth(!self.is_any(&keys, |key| !exists(document, key))?)))
    }

    /// What a search gives by the path of the second argument in the document of the first one, with the values of its variables
    /// and whether errors are left unsaid as the third and the fourth. NULL if one of them is. Dates and times without a zone are of
    /// this one.
    pub(super) fn searched(
        &self,
        row: usize,
        errors: Option<Errors>,
        zone: Option<Tz>,
        answer: fn(&Search<'_>, &str) -> SqlResult<Option<Answer>>,
    ) -> SqlResult<Option<Answer>> {
        let (Some(document), Some(path)) = (self.jsonb(0, row)?, self.text(1, row)) else { return Ok(None) };
        let variables = match self.arrays.get(2) {
            // The operators have none.
            None if errors.is_some() => None,
            None => Some(Cow::Borrowed("{}")),
            Some(_) => match self.jsonb(2, row)? {
                None => return Ok(None),
                variables => variables,
            },
        };
        let errors = match (errors, self.truth(3, row)) {
            (Some(errors), _) => errors,
            (None, None | Some(Some(false))) => Errors::Told,
            (None, Some(Some(true))) => Errors::Silent,
            (None, Some(None)) => return Ok(None),
        };
        answer(&Search { path, variables: variables.as_deref(), errors, zone, meter: self.meter }, &document)
    }

    /// A document as `jsonb` is written: one that is a `jsonb` is so already.
    fn jsonb(&self, index: usize, row: usize) -> SqlResult<Option<Cow<'a, str>>> {
        if self.is_jsonb(index) {
            return Ok(self.text(index, row).map(Cow::Borrowed));
        }
        Ok(self.given(index, row)?.map(Cow::Owned))
    }

    /// What one step of the second argument leads to.
    pub(super) fn step(&self, row: usize) -> SqlResult<Option<Part<'a>>> {
        let (Some(document), Some(key)) = (self.opened(row)?, self.arrays.get(1)) else { return Ok(None) };
        Ok(match key.data_type() {
            DataType::Int64 if !key.is_null(row) => {
                let place = key.as_primitive::<Int64Type>().value(row);
                match document.kind() {
                    Kind::Array => document.element(place),
                    Kind::Object => None,
                    // PostgreSQL keeps such a document as an array of one element.
                    _ => (matches!(place, 0 | -1) && self.is_jsonb(0)).then_some(document),
                }
            }
            _ if document.kind() == Kind::Object => self.text(1, row).and_then(|name| document.member(name)),
            _ => None,
        })
    }

    /// Whether an argument is neither an array nor a row nor a document.
    pub(super) fn is_scalar(&self, index: usize) -> bool {
        let ty = self.fields.get(index).and_then(|field| column_type_of_field(field));
        let is_document = matches!(ty, Some(ColumnType::Json | ColumnType::Jsonb));
        let is_enum = matches!(ty, Some(ColumnType::Enum(_)));
        let is_made_of_others =
            matches!(self.arrays[index].data_type(), DataType::List(_) | DataType::Struct(_));
        !is_document && (is_enum || !is_made_of_others)
    }

    fn is_jsonb(&self, index: usize) -> bool {
        let ty = self.fields.get(index).and_then(|field| column_type_of_field(field));
        ty == Some(ColumnType::Jsonb)
    }

    /// An array of texts, or the text of one.
    pub(super) fn texts(&self, index: usize, row: usize) -> SqlResult<Option<Vec<Option<String>>>> {
        Ok(Some(match self.arrays[index].data_type() {
            DataType::List(_) if !self.arrays[index].is_null(row) => {
                let list = self.arrays[index].as_list::<i32>().value(row);
                let texts = arrow::compute::cast(&list, &DataType::Utf8View)?;
                texts.as_string_view().iter().map(|text| text.map(str::to_owned)).collect()
            }
            _ => match self.text(index, row) {
                Some(text) => crate::types::array_elements(text)?,
                None => return Ok(None),
            },
        }))
    }

    /// Whether the condition holds for any of the keys.
    fn is_any(&self, keys: &[Option<String>], is_so: impl Fn(&str) -> bool) -> SqlResult<bool> {
        for key in keys.iter().flatten() {
            self.meter.look()?;
            if is_so(key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A truth value, which may be NULL; `None` if it is left out.
    pub(super) fn truth(&self, index: usize, row: usize) -> Option<Option<bool>> {
        let array = self.arrays.get(index)?;
        Some(match array.data_type() {
            DataType::Boolean if !array.is_null(row) => Some(array.as_boolean().value(row)),
            _ => None,
        })
    }

    /// The document with a change at the end of the second argument's path.
    pub(super) fn changed(&self, row: usize, change: Change<'_>) -> SqlResult<Option<Answer>> {
        let (Some(document), Some(path)) = (self.given(0, row)?, self.texts(1, row)?) else {
            return Ok(None);
        };
        let steps = path.into_iter().enumerate().map(|(place, step)| {
            step.ok_or_else(|| {
                let message = format!("path element at position {} is null", place + 1);
                SqlError::new(SqlState::NullValueNotAllowed, message)
            })
        });
        let steps: Vec<String> = steps.collect::<SqlResult<_>>()?;
        changes::changed(Part::of(&document), &steps, change).map(|text| Some(Answer::Text(text)))
    }

    /// What the path of the second argument leads to: an array of texts, or its text.
    pub(super) fn path(&self, row: usize) -> SqlResult<Option<Part<'a>>> {
        let Some(mut at) = self.opened(row)? else { return Ok(None) };
        let Some(steps) = self.texts(1, row)? else { return Ok(None) };
        for step in steps {
            match step.and_then(|step| at.step(&step)) {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// What the arguments behind the first one lead to, one after another.
    pub(super) fn steps(&self, row: usize) -> SqlResult<Option<Part<'a>>> {
        let Some(document) = self.opened(row)? else { return Ok(None) };
        Ok((1..self.arrays.len()).try_fold(document, |at, index| at.step(self.text(index, row)?)))
    }

    /// The same in a document as `jsonb` is written.
    pub(super) fn jsonb_steps(
        &self,
        row: usize,
        answer: fn(Part<'_>) -> Option<Answer>,
    ) -> SqlResult<Option<Answer>> {
        let Some(document) = self.jsonb(0, row)? else { return Ok(None) };
        let mut keys = 1..self.arrays.len();
        let found = keys.try_fold(Part::of(&document), |at, index| at.step(self.text(index, row)?));
        Ok(found.and_then(answer))
    }
}
