// SPDX-License-Identifier: Apache-2.0
//! The functions of `pg_catalog` that clients call.
//!
//! Each is an entry in a list: its name, how many arguments it takes, what it gives, and a function of one row's
//! arguments. Their results depend on the statement's snapshot, session and user, so none is folded into a
//! kept plan.

mod advisory;
mod arrays;
mod backups;
mod changes;
mod cluster;
mod definitions;
mod names;
mod numbers;
mod privileges;
mod replication;
mod session;
mod sizes;
mod strings;
mod type_names;

pub(crate) use arrays::{array_of_text, set_returning};

use super::access::{CatalogAccess, access};
use super::rows::Cell;
use crate::allowance::Meter;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::lock_graph::WaitGraph;
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::ColumnType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use std::cell::OnceCell;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

/// What a function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gives {
    Bool,
    Int,
    BigInt,
    Ints,
    Text,
    Texts,
    Time,
    Place,
}

impl Gives {
    fn arrow(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int32,
            Self::BigInt => DataType::Int64,
            Self::Ints => DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))),
            Self::Text => DataType::Utf8View,
            Self::Texts => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true))),
            Self::Time => ColumnType::TimestampTz.arrow(),
            Self::Place => ColumnType::PgLsn.arrow(),
        }
    }
}

/// Whether NULL among the arguments makes the result NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nulls {
    Strict,
    Called,
}

/// One row's call of a function.
struct Call<'a> {
    options: &'a ConfigOptions,
    arguments: &'a [ScalarValue],
    /// Their types: from the values alone, JSON documents and texts with a length cannot be told from other texts.
    fields: &'a [FieldRef],
    /// Counts what it makes.
    meter: &'a Meter,
    /// Which sessions wait for which. It is listed when the first row asks for it, and used for all rows that are evaluated together.
    waits: &'a OnceCell<WaitGraph>,
}

impl Call<'_> {
    fn access(&self) -> SqlResult<&CatalogAccess> {
        access(self.options)
    }

    /// Which session waits for which.
    fn waits(&self) -> SqlResult<&WaitGraph> {
        if let Some(waits) = self.waits.get() {
            return Ok(waits);
        }
        let access = self.access()?;
        Ok(self.waits.get_or_init(|| access.waits()))
    }

    fn text(&self, index: usize) -> Option<&str> {
        self.arguments.get(index)?.try_as_str().flatten()
    }

    fn int(&self, index: usize) -> Option<i64> {
        let argument = self.arguments.get(index)?;
        if let Some(text) = argument.try_as_str().flatten() {
            return text.trim().parse().ok();
        }
        match argument.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(value)) => value,
            _ => None,
        }
    }

    /// A whole number of any size.
    fn whole(&self, index: usize) -> Option<i128> {
        let decimal = || match self.arguments.get(index)?.cast_to(&DataType::Decimal128(38, 0)) {
            Ok(ScalarValue::Decimal128(value, ..)) => value,
            _ => None,
        };
        self.int(index).map(i128::from).or_else(decimal)
    }

    fn oid(&self, index: usize) -> Option<i32> {
        self.int(index).and_then(|oid| i32::try_from(oid).ok())
    }

    fn truth(&self, index: usize) -> Option<bool> {
        match self.arguments.get(index)? {
            ScalarValue::Boolean(value) => *value,
            other => match other.try_as_str().flatten()? {
                "t" | "true" | "on" | "yes" | "1" => Some(true),
                _ => Some(false),
            },
        }
    }

    /// The class that an argument of type `regclass` names or numbers.
    fn class(&self, index: usize) -> SqlResult<Option<i32>> {
        match (self.oid(index), self.text(index)) {
            (Some(oid), _) => Ok(Some(oid)),
            (None, Some(name)) => names::class_of(self.access()?.objects(), name).map(Some),
            (None, None) => Ok(None),
        }
    }
}

type Body = fn(&Call<'_>) -> SqlResult<Cell>;

/// An entry in the list of functions.
struct Entry {
    name: &'static str,
    arguments: RangeInclusive<usize>,
    gives: Gives,
    nulls: Nulls,
    /// Stable, unless it does something by itself.
    volatility: Volatility,
    body: Body,
}

impl Entry {
    /// The same as a function that takes long, or does what is not to be done twice: it is called when the statement runs, and not
    /// while a plan is made, where EXPLAIN would call it, and from where a call that fails is made again.
    const fn acting(self) -> Self {
        Self { volatility: Volatility::Volatile, ..self }
    }
}

const fn strict(name: &'static str, arguments: RangeInclusive<usize>, gives: Gives, body: Body) -> Entry {
    Entry { name, arguments, gives, nulls: Nulls::Strict, volatility: Volatility::Stable, body }
}

const fn called(name: &'static str, arguments: RangeInclusive<usize>, gives: Gives, body: Body) -> Entry {
    Entry { name, arguments, gives, nulls: Nulls::Called, volatility: Volatility::Stable, body }
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    let lists: [&[Entry]; 13] = [
        advisory::ENTRIES,
        arrays::ENTRIES,
        backups::ENTRIES,
        changes::ENTRIES,
        cluster::ENTRIES,
        definitions::ENTRIES,
        names::ENTRIES,
        numbers::ENTRIES,
        privileges::ENTRIES,
        replication::ENTRIES,
        session::ENTRIES,
        sizes::ENTRIES,
        strings::ENTRIES,
    ];
    lists.into_iter().flatten()
}

/// All of them, for the engine's registry.
pub(crate) fn functions() -> Vec<ScalarUDF> {
    let listed = entries().map(|entry| {
        let signatures = entry.arguments.clone().map(|count| match count {
            0 => TypeSignature::Nullary,
            count => TypeSignature::Any(count),
        });
        // Stable ones would be called while a plan is made that is kept beyond the statement.
        let signature = Signature::one_of(signatures.collect(), entry.volatility);
        ScalarUDF::from(CatalogFunction { entry, signature })
    });
    listed.chain(arrays::functions()).collect()
}

/// Whether a function of this name gives an array of texts.
pub(crate) fn gives_texts(name: &str) -> bool {
    entries().any(|entry| entry.name == name && entry.gives == Gives::Texts)
}

/// Whether a function of this name asks for the statement's catalog.
pub(crate) fn is_catalog_function(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| entries().map(|entry| entry.name).collect());
    NAMES.contains(name)
}

struct CatalogFunction {
    entry: &'static Entry,
    signature: Signature,
}

impl std::fmt::Debug for CatalogFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.entry.name)
    }
}

impl PartialEq for CatalogFunction {
    fn eq(&self, other: &Self) -> bool {
        self.entry.name == other.entry.name
    }
}

impl Eq for CatalogFunction {}

impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entry.name.hash(state);
    }
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.entry.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.entry.gives.arrow())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.entry.name, self.entry.gives.arrow(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.evaluate(&args, &OnceCell::new())
    }
}

impl CatalogFunction {
    /// Calls it for each row. `waits` is what they share.
    fn evaluate(&self, args: &ScalarFunctionArgs, waits: &OnceCell<WaitGraph>) -> Result<ColumnarValue> {
        let ty = self.entry.gives.arrow();
        let meter = Meter::begin(&args.config_options, self.entry.name);
        let call = |arguments: &[ScalarValue]| -> Result<ScalarValue> {
            meter.step()?;
            if self.entry.nulls == Nulls::Strict && arguments.iter().any(ScalarValue::is_null) {
                return ScalarValue::try_new_null(&ty);
            }
            let (options, fields) = (&args.config_options, &args.arg_fields);
            let cell = (self.entry.body)(&Call { options, arguments, fields, meter: &meter, waits })?;
            let value = cell.scalar(&ty)?;
            meter.value(value.size())?;
            Ok(value)
        };
        let scalars: Option<Vec<ScalarValue>> = args
            .args
            .iter()
            .map(|argument| match argument {
                ColumnarValue::Scalar(scalar) => Some(scalar.clone()),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        if let Some(arguments) = scalars {
            return call(&arguments).map(ColumnarValue::Scalar);
        }
        let mut results = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let arguments = args.args.iter().map(|argument| match argument {
                ColumnarValue::Scalar(scalar) => Ok(scalar.clone()),
                ColumnarValue::Array(array) => ScalarValue::try_from_array(array, row),
            });
            results.push(call(&arguments.collect::<Result<Vec<_>>>()?)?);
        }
        if results.is_empty() {
            return Ok(ColumnarValue::Array(arrow::array::new_empty_array(&ty)));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(results)?))
    }
}

/// `42704` for an object that is not there.
fn undefined(message: String) -> SqlError {
    SqlError::new(SqlState::UndefinedObject, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::Int32Type;

    /// Each row had all locks of the system listed anew. Here nobody can list them: rows that do fail.
    #[test]
    fn rows_that_are_evaluated_together_share_one_list_of_waits() {
        let entry = entries().find(|entry| entry.name == "pg_blocking_pids").unwrap();
        let function = CatalogFunction { entry, signature: Signature::any(1, entry.volatility) };
        let args = ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(Arc::new(Int32Array::from(vec![1, 2, 3, 2])))],
            arg_fields: vec![Arc::new(Field::new("pid", DataType::Int32, true))],
            number_rows: 4,
            return_field: Arc::new(Field::new("blockers", Gives::Ints.arrow(), true)),
            config_options: Arc::default(),
        };
        assert!(function.evaluate(&args, &OnceCell::new()).is_err());
        let waits =
            [[Some(2), Some(1)], [Some(3), None], [None, Some(1)], [Some(3), Some(2)], [Some(3), None]];
        let found = function.evaluate(&args, &OnceCell::from(WaitGraph::of(waits))).unwrap();
        let found = found.into_array(4).unwrap();
        let of_row = |row| found.as_list::<i32>().value(row).as_primitive::<Int32Type>().values().to_vec();
        let found: Vec<Vec<i32>> = (0..4).map(of_row).collect();
        assert_eq!(found, [vec![], vec![1], vec![0, 2], vec![1]]);
    }
}
