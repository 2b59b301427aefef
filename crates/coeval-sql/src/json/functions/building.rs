// SPDX-License-Identifier: Apache-2.0
//! Documents that are made of arguments: of values of SQL, of names with values, and of what aggregates have collected.

use super::arguments::{Answer, Arguments};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::json::written::push_value;
use crate::types::json::push_string;
use crate::types::{column_type_of_field, format_value, marked_field};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::{ColumnType, ValueRef};
use std::sync::Arc;

impl Arguments<'_> {
    pub(super) fn unless_null(
        &self,
        row: usize,
        answer: impl FnOnce(&Self) -> SqlResult<String>,
    ) -> SqlResult<Option<Answer>> {
        if self.arrays[0].is_null(row) {
            return Ok(None);
        }
        answer(self).map(|text| Some(Answer::Text(text)))
    }

    /// An argument as JSON.
    pub(super) fn value(&self, index: usize, row: usize) -> SqlResult<String> {
        let mut out = String::new();
        push_value(&self.arrays[index], row, &self.fields[index], self.zone, &mut out)?;
        Ok(out)
    }

    /// `{"a" : 1, "b" : null}`, spaced as PostgreSQL spaces it.
    pub(super) fn object(&self, row: usize) -> SqlResult<String> {
        let wrong = |message: String| SqlError::new(SqlState::InvalidParameterValue, message);
        if !self.arrays.len().is_multiple_of(2) {
            return Err(wrong("argument list must have even number of elements".to_owned()));
        }
        let mut out = String::from("{");
        for index in (0..self.arrays.len()).step_by(2) {
            if self.arrays[index].is_null(row) {
                return Err(wrong(format!("argument {}: key must not be null", index + 1)));
            }
            if !self.is_scalar(index) {
                return Err(wrong("key value must be scalar, not array, composite, or json".to_owned()));
            }
            out.push_str(if index == 0 { "" } else { ", " });
            self.push_key(index, row, &mut out)?;
            out.push_str(" : ");
            push_value(&self.arrays[index + 1], row, &self.fields[index + 1], self.zone, &mut out)?;
        }
        out.push('}');
        Ok(out)
    }

    /// `{"a":1,"b":null}`, as a row is written; NULL if the argument in front of the columns is NULL, where there is one.
    pub(super) fn columns(&self, row: usize) -> SqlResult<Option<Answer>> {
        let first = self.arrays.len() % 2;
        if first == 1 && self.arrays[0].is_null(row) {
            return Ok(None);
        }
        let mut out = String::from("{");
        for name in (first..self.arrays.len()).step_by(2) {
            out.push_str(if name == first { "" } else { "," });
            push_string(self.text(name, row).unwrap_or_default(), &mut out);
            out.push(':');
            push_value(&self.arrays[name + 1], row, &self.fields[name + 1], self.zone, &mut out)?;
        }
        out.push('}');
        Ok(Some(Answer::Text(out)))
    }

    pub(super) fn array(&self, row: usize) -> SqlResult<String> {
        let values = (0..self.arrays.len()).map(|index| self.value(index, row));
        Ok(format!("[{}]", values.collect::<SqlResult<Vec<_>>>()?.join(", ")))
    }

    /// What is made of the elements of the only argument, an array, as if they were arguments; NULL of NULL.
    pub(super) fn of_elements(
        &self,
        row: usize,
        made: fn(&Arguments<'_>) -> SqlResult<String>,
    ) -> SqlResult<Option<Answer>> {
        if self.arrays[0].is_null(row) {
            return Ok(None);
        }
        let Some(lists) = self.arrays[0].as_list_opt::<i32>() else {
            let message = "VARIADIC argument must be an array";
            return Err(SqlError::new(SqlState::DatatypeMismatch, message));
        };
        let mut list = lists.value(row);
        if list.data_type().is_string() {
            list = arrow::compute::cast(&list, &DataType::Utf8View)?;
        }
        let field = Field::new_list_field(list.data_type().clone(), true);
        let field = match column_type_of_field(&self.fields[0]) {
            Some(ColumnType::Array(element)) => marked_field(field, element.column_type()),
            _ => field,
        };
        let arrays: Vec<ArrayRef> = (0..list.len()).map(|place| list.slice(place, 1)).collect();
        let field: FieldRef = Arc::new(field);
        let fields: Vec<FieldRef> = arrays.iter().map(|_| Arc::clone(&field)).collect();
        let elements = Arguments { arrays: &arrays, fields: &fields, zone: self.zone, meter: self.meter };
        made(&elements).map(|text| Some(Answer::Text(text)))
    }

    /// The name of a member: whatever the argument is, as a string.
    fn push_key(&self, index: usize, row: usize, out: &mut String) -> SqlResult<()> {
        let Some(text) = self.text(index, row) else {
            push_string(self.value(index, row)?.trim_matches('"'), out);
            return Ok(());
        };
        match column_type_of_field(&self.fields[index]) {
            Some(ty @ ColumnType::Char(_)) => {
                let mut filled_up = String::new();
                format_value(ValueRef::Text(text), ty, self.zone, &mut filled_up);
                push_string(&filled_up, out);
            }
            _ => push_string(text, out),
        }
        Ok(())
    }

    /// `"a" : 1`.
    pub(super) fn member(&self, row: usize) -> SqlResult<String> {
        if self.arrays[0].is_null(row) {
            return Err(SqlError::new(SqlState::InvalidParameterValue, "field name must not be null"));
        }
        let mut out = String::new();
        self.push_key(0, row, &mut out)?;
        out.push_str(" : ");
        push_value(&self.arrays[1], row, &self.fields[1], self.zone, &mut out)?;
        Ok(out)
    }

    /// The members that an aggregate has collected, as one object.
    pub(super) fn members(&self, row: usize) -> SqlResult<String> {
        let members = self.aggregated(row)?;
        let members: Vec<_> = members.as_string_view().iter().flatten().collect();
        Ok(format!("{{ {} }}", members.join(", ")))
    }

    /// What an aggregate has collected, as texts.
    ///
    /// # Errors
    /// `42883` for what no aggregate has collected: a user knows the function's name.
    fn aggregated(&self, row: usize) -> SqlResult<ArrayRef> {
        let Some(lists) = self.arrays[0].as_list_opt::<i32>() else {
            let message = "no function of this name takes an argument that is no array";
            return Err(SqlError::new(SqlState::UndefinedFunction, message));
        };
        Ok(arrow::compute::cast(&lists.value(row), &DataType::Utf8View)?)
    }

    /// The array of what an aggregate has collected, with this between its elements.
    pub(super) fn collected(&self, row: usize, between: &str) -> SqlResult<String> {
        let values = self.aggregated(row)?;
        let values: Vec<_> = values.as_string_view().iter().map(|value| value.unwrap_or("null")).collect();
        Ok(format!("[{}]", values.join(between)))
    }
}
