// SPDX-License-Identifier: Apache-2.0
//! Documents as sets of rows: `json_array_elements`, `json_each`, `json_object_keys`. Each is made of functions that
//! give arrays, which are unnested.

use crate::allowance::Meter;
use crate::constants::made_of;
use crate::error::{SqlError, SqlState};
use crate::types::json::{Kind, Part, check_escapes};
use arrow::array::{Array, AsArray, ListBuilder, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// What an array is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Taken {
    Elements,
    Keys,
    Values,
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Written {
    /// As JSON.
    Whole,
    /// Strings without quotes, null as NULL.
    Plain,
}

/// The two types of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// `json`.
    Json,
    /// `jsonb`.
    Jsonb,
}

/// A column of a set: its name, the function whose array it is, and the type that its elements are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetColumn {
    /// The name that PostgreSQL gives it.
    pub(crate) name: &'static str,
    /// The function that makes the array.
    pub(crate) function: &'static str,
    /// The type, if it is another than text.
    pub(crate) document: Option<Document>,
}

const fn column(name: &'static str, function: &'static str, document: Option<Document>) -> SetColumn {
    SetColumn { name, function, document }
}

const KEYS: SetColumn = column("key", "coeval_json_keys", None);
const ELEMENTS: &[SetColumn] = &[column("value", "coeval_json_elements", Some(Document::Json))];
const ELEMENTS_B: &[SetColumn] = &[column("value", "coeval_json_elements", Some(Document::Jsonb))];
const ELEMENT_TEXTS: &[SetColumn] = &[column("value", "coeval_json_element_texts", None)];
const OBJECT_KEYS: &[SetColumn] = &[column("json_object_keys", "coeval_json_keys", None)];
const OBJECT_KEYS_B: &[SetColumn] = &[column("jsonb_object_keys", "coeval_json_keys", None)];
const PATH: &[SetColumn] = &[column("jsonb_path_query", "coeval_jsonb_path_rows", Some(Document::Jsonb))];
const PATH_TZ: &[SetColumn] =
    &[column("jsonb_path_query_tz", "coeval_jsonb_path_rows_tz", Some(Document::Jsonb))];
const EACH: &[SetColumn] = &[KEYS, column("value", "coeval_json_values", Some(Document::Json))];
const EACH_B: &[SetColumn] = &[KEYS, column("value", "coeval_json_values", Some(Document::Jsonb))];
const EACH_TEXT: &[SetColumn] = &[KEYS, column("value", "coeval_json_value_texts", None)];

/// The columns of the set that a function of documents returns; none if it is none.
pub(crate) fn set_columns(function: &str) -> &'static [SetColumn] {
    match function {
        "json_array_elements" => ELEMENTS,
        "jsonb_array_elements" => ELEMENTS_B,
        "json_array_elements_text" | "jsonb_array_elements_text" => ELEMENT_TEXTS,
        "json_object_keys" => OBJECT_KEYS,
        "jsonb_object_keys" => OBJECT_KEYS_B,
        "jsonb_path_query" => PATH,
        "jsonb_path_query_tz" => PATH_TZ,
        "json_each" => EACH,
        "jsonb_each" => EACH_B,
        "json_each_text" | "jsonb_each_text" => EACH_TEXT,
        _ => &[],
    }
}

/// The functions that make the arrays, for the engine's registry.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let all = [
        ("coeval_json_elements", Taken::Elements, Written::Whole),
        ("coeval_json_element_texts", Taken::Elements, Written::Plain),
        ("coeval_json_keys", Taken::Keys, Written::Plain),
        ("coeval_json_values", Taken::Values, Written::Whole),
        ("coeval_json_value_texts", Taken::Values, Written::Plain),
    ];
    all.into_iter().map(|(name, taken, written)| {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::from(JsonArray { name, taken, written, signature })
    })
}

/// What an element takes beside its text.
const VIEW_BYTES: usize = size_of::<u128>();

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonArray {
    name: &'static str,
    taken: Taken,
    written: Written,
    signature: Signature,
}

impl JsonArray {
    /// The parts of a document that go into its array.
    ///
    /// # Errors
    /// `22023` for a document of another kind, `22P02` and `22P05` for escapes that write no characters.
    fn parts<'d>(&self, document: Part<'d>) -> std::result::Result<Vec<Part<'d>>, SqlError> {
        let refused = |message: &str| Err(SqlError::new(SqlState::InvalidParameterValue, message));
        if (self.taken, self.written) != (Taken::Elements, Written::Whole) {
            check_escapes(document.text())?;
        }
        match (self.taken, document.kind()) {
            (Taken::Elements, Kind::Array) => Ok(document.elements().collect()),
            (Taken::Elements, Kind::Object) => refused("cannot extract elements from an object"),
            (Taken::Elements, _) => refused("cannot extract elements from a scalar"),
            (Taken::Keys, Kind::Object) => Ok(document.members().map(|(key, _)| key).collect()),
            (Taken::Values, Kind::Object) => Ok(document.members().map(|(_, value)| value).collect()),
            (_, Kind::Array) => refused("cannot deconstruct an array as an object"),
            (Taken::Keys | Taken::Values, _) => refused("cannot deconstruct a scalar"),
        }
    }
}

impl ScalarUDFImpl for JsonArray {
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
        made_of(&arguments.args[..1], arguments.number_rows, |rows| {
            let meter = Meter::begin(&arguments.config_options, self.name);
            let documents = cast(&arguments.args[0].to_array(rows)?, &DataType::Utf8View)?;
            let documents = documents.as_string_view();
            let mut arrays = ListBuilder::new(StringViewBuilder::new());
            for row in 0..rows {
                if documents.is_null(row) {
                    arrays.append_null();
                    continue;
                }
                for part in self.parts(Part::of(documents.value(row)))? {
                    meter.step()?;
                    meter.take(part.text().len() + VIEW_BYTES)?;
                    match self.written {
                        Written::Whole => arrays.values().append_value(part.text()),
                        Written::Plain => arrays.values().append_option(part.plain()),
                    }
                }
                arrays.append(true);
            }
            Ok(Arc::new(arrays.finish()))
        })
    }
}
