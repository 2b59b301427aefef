// SPDX-License-Identifier: Apache-2.0
//! Values of Python as values of SQL, by the type that the statement wants.

mod lists;

use crate::errors::refused;
use chrono_tz::Tz;
use coeval::{ColumnType, Error, Value, parse_value};
use pyo3::prelude::*;
use pyo3::types::{
    PyAny, PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyString,
    PyTime,
};

/// What makes Python's values those that a statement wants.
pub(crate) struct Parameters<'py> {
    pub(crate) py: Python<'py>,
    pub(crate) zone: Tz,
}

impl Parameters<'_> {
    /// The value as one of this type. `number` is the parameter's, from 1.
    ///
    /// # Errors
    /// `ProgrammingError` for a value of a Python type that the type of SQL is not given by; `DataError` for one that it cannot
    /// hold.
    pub(crate) fn value(&self, given: &Bound<'_, PyAny>, ty: ColumnType, number: usize) -> PyResult<Value> {
        if given.is_none() {
            return Ok(Value::Null);
        }
        if let Some(value) = direct(given, ty)? {
            return Ok(value);
        }
        let Some(text) = self.text(given, ty)? else {
            return Err(self.misfit(given, ty, number));
        };
        parse_value(&text, ty, self.zone).map_err(|error| self.flawed(error.into(), number))
    }

    fn misfit(&self, given: &Bound<'_, PyAny>, ty: ColumnType, number: usize) -> PyErr {
        let kind = given.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
        let message =
            format!("parameter ${number} is of type {ty}, for which Python's {kind} does not stand");
        refused(
            self.py,
            "42804",
            &message,
            Some("Give another type, or cast the parameter in the statement."),
        )
    }

    fn flawed(&self, error: Error, number: usize) -> PyErr {
        let message = format!("{error} (parameter ${number})");
        refused(self.py, error.state().code(), &message, None)
    }

    /// The value's text as SQL reads it; `None` if a value of its Python type is none of this type.
    fn text(&self, given: &Bound<'_, PyAny>, ty: ColumnType) -> PyResult<Option<String>> {
        if let Ok(text) = given.cast::<PyString>() {
            return Ok(Some(text.to_str()?.to_owned()));
        }
        if let ColumnType::Array(element) = ty {
            return self.array_text(given, element.column_type());
        }
        if matches!(ty, ColumnType::Json | ColumnType::Jsonb) {
            let dumps = self.py.import("json")?.getattr("dumps")?;
            return Ok(Some(dumps.call1((given,))?.extract()?));
        }
        let text = |given: &Bound<'_, PyAny>| Ok(Some(given.str()?.to_str()?.to_owned()));
        let is_bool = given.is_instance_of::<PyBool>();
        match ty {
            ColumnType::Boolean if is_bool => text(given),
            _ if is_bool => Ok(None),
            ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt
                if given.is_instance_of::<PyInt>() =>
            {
                text(given)
            }
            ColumnType::Real | ColumnType::Double | ColumnType::Numeric { .. } | ColumnType::AnyNumeric
                if is_number(given)? =>
            {
                text(given)
            }
            ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz
                if given.is_instance_of::<PyDate>() || given.is_instance_of::<PyDateTime>() =>
            {
                Ok(Some(given.call_method0("isoformat")?.extract()?))
            }
            ColumnType::Time if given.is_instance_of::<PyTime>() => {
                Ok(Some(given.call_method0("isoformat")?.extract()?))
            }
            ColumnType::Interval if given.is_instance_of::<PyDelta>() => interval_text(given).map(Some),
            ColumnType::Bytea
                if given.is_instance_of::<PyBytes>() || given.is_instance_of::<PyByteArray>() =>
            {
                Ok(Some(format!("\\x{}", given.call_method0("hex")?.extract::<String>()?)))
            }
            ColumnType::Uuid if is_of(given, "uuid", "UUID")? => text(given),
            ColumnType::Enum(_) if given.hasattr("value")? => text(&given.getattr("value")?),
            // What numpy makes of numbers has its Python's number within.
            _ if given.hasattr("item")? && given.hasattr("dtype")? => {
                self.text(&given.call_method0("item")?, ty)
            }
            _ => Ok(None),
        }
    }

    /// The text of an array: `{1,NULL,"a\"b"}`.
    fn array_text(&self, given: &Bound<'_, PyAny>, element: ColumnType) -> PyResult<Option<String>> {
        let Some(given) = lists::items(given)? else { return Ok(None) };
        let mut text = String::from("{");
        for (index, item) in given.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            if item.is_none() {
                text.push_str("NULL");
                continue;
            }
            let Some(item) = self.text(item, element)? else { return Ok(None) };
            text.push('"');
            for char in item.chars() {
                if matches!(char, '"' | '\\') {
                    text.push('\\');
                }
                text.push(char);
            }
            text.push('"');
        }
        text.push('}');
        Ok(Some(text))
    }
}

/// The value without a text in between, where that is short.
fn direct(given: &Bound<'_, PyAny>, ty: ColumnType) -> PyResult<Option<Value>> {
    Ok(match ty {
        ColumnType::BigInt if given.is_exact_instance_of::<PyInt>() => given.extract().ok().map(Value::Int64),
        ColumnType::Int if given.is_exact_instance_of::<PyInt>() => given.extract().ok().map(Value::Int32),
        ColumnType::SmallInt if given.is_exact_instance_of::<PyInt>() => {
            given.extract().ok().map(Value::Int16)
        }
        ColumnType::Double if given.is_instance_of::<PyFloat>() => Some(Value::Float64(given.extract()?)),
        ColumnType::Boolean if given.is_instance_of::<PyBool>() => Some(Value::Boolean(given.extract()?)),
        ColumnType::Text => match given.cast::<PyString>() {
            Ok(text) => Some(Value::Text(text.to_str()?.into())),
            Err(_) => None,
        },
        ColumnType::Bytea => {
            if given.is_instance_of::<PyBytes>() || given.is_instance_of::<PyByteArray>() {
                Some(Value::Bytes(given.extract::<Vec<u8>>()?.into()))
            } else if given.get_type().name()?.to_str()? == "memoryview" {
                Some(Value::Bytes(given.call_method0("tobytes")?.extract::<Vec<u8>>()?.into()))
            } else {
                None
            }
        }
        _ => None,
    })
}

/// The type of SQL that a value of Python is of by itself, for parameters about which the statement says nothing; `texts` for
/// texts, which are of any type, and `None` for what has none.
pub(crate) fn own_type(given: &Bound<'_, PyAny>, texts: Option<ColumnType>) -> PyResult<Option<ColumnType>> {
    if let Some(items) = lists::items(given)? {
        return lists::own_type(given.py(), &items).map(Some);
    }
    Ok(if given.is_instance_of::<PyString>() {
        texts
    } else if given.is_instance_of::<PyBool>() {
        Some(ColumnType::Boolean)
    } else if given.is_instance_of::<PyInt>() {
        Some(ColumnType::BigInt)
    } else if given.is_instance_of::<PyFloat>() {
        Some(ColumnType::Double)
    } else if given.is_instance_of::<PyBytes>() || given.is_instance_of::<PyByteArray>() {
        Some(ColumnType::Bytea)
    } else if given.is_instance_of::<PyDateTime>() {
        let is_local = given.getattr("tzinfo")?.is_none();
        Some(if is_local { ColumnType::Timestamp } else { ColumnType::TimestampTz })
    } else if given.is_instance_of::<PyDate>() {
        Some(ColumnType::Date)
    } else if given.is_instance_of::<PyTime>() {
        Some(ColumnType::Time)
    } else if given.is_instance_of::<PyDelta>() {
        Some(ColumnType::Interval)
    } else if given.is_instance_of::<PyDict>() {
        Some(ColumnType::Jsonb)
    } else if is_of(given, "uuid", "UUID")? {
        Some(ColumnType::Uuid)
    } else if is_of(given, "decimal", "Decimal")? {
        Some(decimal_type(given)?)
    } else if given.hasattr("item")? && given.hasattr("dtype")? {
        own_type(&given.call_method0("item")?, texts)?
    } else {
        None
    })
}

/// Exactly as many digits behind the point as it has; what has more digits than fit, or none, is a `numeric` without digits.
fn decimal_type(given: &Bound<'_, PyAny>) -> PyResult<ColumnType> {
    const DIGITS_MAX: i64 = coeval::NUMERIC_PRECISION_MAX as i64;
    let parts = given.call_method0("as_tuple")?;
    // It is a letter of NaN and of infinities.
    let Ok(exponent) = parts.getattr("exponent")?.extract::<i64>() else { return Ok(ColumnType::AnyNumeric) };
    let digits = i64::try_from(parts.getattr("digits")?.len()?).unwrap_or(i64::MAX);
    let behind = exponent.saturating_neg().max(0);
    let whole = digits.saturating_add(exponent).max(0);
    if behind.saturating_add(whole) > DIGITS_MAX {
        return Ok(ColumnType::AnyNumeric);
    }
    let scale = i8::try_from(behind).unwrap_or(0);
    Ok(ColumnType::Numeric { precision: coeval::NUMERIC_PRECISION_MAX, scale })
}

fn is_number(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_plain = given.is_instance_of::<PyInt>() || given.is_instance_of::<PyFloat>();
    Ok(is_plain || is_of(given, "decimal", "Decimal")?)
}

fn is_of(given: &Bound<'_, PyAny>, module: &str, class: &str) -> PyResult<bool> {
    let ty = given.get_type();
    // Asked by name first: most values are of another, and modules need not be looked for.
    Ok(ty.name()?.to_str()? == class && ty.module()?.to_str()? == module)
}

/// Days, seconds and microseconds, each with its sign.
fn interval_text(given: &Bound<'_, PyAny>) -> PyResult<String> {
    let part = |name: &str| given.getattr(name)?.extract::<i64>();
    let (days, seconds, micros) = (part("days")?, part("seconds")?, part("microseconds")?);
    Ok(format!("{days} days {seconds} seconds {micros} microseconds"))
}
