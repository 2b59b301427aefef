// SPDX-License-Identifier: Apache-2.0
//! What a path leads to as rows: the array that `jsonb_path_query` unnests.

use super::{Errors, Search};
use crate::allowance::Meter;
use crate::constants::made_of;
use crate::error::{SqlError, SqlState};
use crate::types::json::canonical;
use crate::types::{column_type_of_field, parse_value, session_zone};
use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use chrono_tz::Tz;
use coeval_store::ColumnType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::borrow::Cow;
use std::sync::Arc;

/// The function of a document, a path, the values of its variables, and whether errors are left unsaid.
const NAME: &str = "coeval_jsonb_path_rows";

/// The same, for which dates and times without a zone are of the session's.
const ZONED_NAME: &str = "coeval_jsonb_path_rows_tz";

/// What an element takes beside its text.
const VIEW_BYTES: usize = size_of::<u128>();

/// The functions, for the engine's registry.
pub(in crate::json) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [(NAME, Volatility::Immutable), (ZONED_NAME, Volatility::Stable)].into_iter().map(|(name, volatility)| {
        ScalarUDF::from(PathRows { name, signature: Signature::variadic_any(volatility) })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PathRows {
    name: &'static str,
    signature: Signature,
}

/// The arguments, as texts and truth values.
struct Given {
    document: ArrayRef,
    /// What is of another type than `jsonb` is looked at here.
    is_jsonb: bool,
    path: ArrayRef,
    variables: Option<ArrayRef>,
    silent: Option<ArrayRef>,
}

impl Given {
    fn of(arguments: &[ArrayRef], fields: &[FieldRef]) -> Result<Self> {
        let text = |array: &ArrayRef| cast(array, &DataType::Utf8View);
        let [document, path, rest @ ..] = arguments else { return Err(undefined().into()) };
        if rest.len() > 2 {
            return Err(undefined().into());
        }
        let is_jsonb = |field: &FieldRef| column_type_of_field(field) == Some(ColumnType::Jsonb);
        Ok(Self {
            document: text(document)?,
            is_jsonb: fields.first().is_some_and(is_jsonb),
            path: text(path)?,
            variables: rest.first().map(text).transpose()?,
            silent: rest.get(1).map(|silent| cast(silent, &DataType::Boolean)).transpose()?,
        })
    }

    /// The document of a row, as a `jsonb` is written.
    fn document(&self, row: usize) -> std::result::Result<Cow<'_, str>, SqlError> {
        let text = self.document.as_string_view().value(row);
        if self.is_jsonb { Ok(Cow::Borrowed(text)) } else { document_of(text).map(Cow::Owned) }
    }

    /// The values of variables for a row.
    fn variables(&self, row: usize) -> std::result::Result<Cow<'_, str>, SqlError> {
        match &self.variables {
            None => Ok(Cow::Borrowed("{}")),
            Some(variables) => document_of(variables.as_string_view().value(row)).map(Cow::Owned),
        }
    }

    /// Whether an argument is NULL.
    fn has_null(&self, row: usize) -> bool {
        let optional = self.variables.iter().chain(&self.silent);
        [&self.document, &self.path].into_iter().chain(optional).any(|array| array.is_null(row))
    }
}

/// A text as a `jsonb` is written.
fn document_of(text: &str) -> std::result::Result<String, SqlError> {
    parse_value(text, ColumnType::Json, Tz::UTC)?;
    canonical(text)
}

fn undefined() -> SqlError {
    SqlError::new(SqlState::UndefinedFunction, "function jsonb_path_query does not exist")
        .with_hint("No function matches the given name and argument types.")
}

impl ScalarUDFImpl for PathRows {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true))))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        made_of(&arguments.args, arguments.number_rows, |rows| {
            let meter = Meter::begin(&arguments.config_options, self.name);
            let zone = (self.name == ZONED_NAME).then(|| session_zone(&arguments.config_options));
            let arrays: Vec<ArrayRef> =
                arguments.args.iter().map(|argument| meter.column(argument, rows)).collect::<Result<_>>()?;
            let given = Given::of(&arrays, &arguments.arg_fields)?;
            let mut found = ListBuilder::new(StringViewBuilder::new());
            for row in 0..rows {
                if given.has_null(row) {
                    found.append_null();
                    continue;
                }
                let is_silent = given.silent.as_ref().is_some_and(|silent| silent.as_boolean().value(row));
                let (document, variables) = (given.document(row)?, given.variables(row)?);
                let search = Search {
                    path: given.path.as_string_view().value(row),
                    variables: Some(&*variables),
                    errors: if is_silent { Errors::Silent } else { Errors::Told },
                    zone,
                    meter: &meter,
                };
                for value in search.found(&document)? {
                    meter.take(value.len() + VIEW_BYTES)?;
                    found.values().append_value(&*value);
                }
                found.append(true);
            }
            Ok(Arc::new(found.finish()))
        })
    }
}
