// SPDX-License-Identifier: Apache-2.0
//! Lists of Python as arrays of SQL.

use crate::errors::refused;
use coeval::{ColumnType, ElementType};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyList, PyTuple};

const HINT: &str =
    "Give a list of values of one type, or cast the parameter in the statement, as in $1::text[].";

/// The items of a list, a tuple, or an array of numpy; `None` of what is none of these.
///
/// # Errors
/// `NotSupportedError` for a list of lists: arrays have one dimension.
pub(super) fn items<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    let given = if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        given.clone()
    } else if given.hasattr("tolist")? && given.getattr("ndim").is_ok_and(|ndim| !ndim.eq(0).unwrap_or(false))
    {
        given.call_method0("tolist")?
    } else {
        return Ok(None);
    };
    let items = given.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    if items.iter().any(|item| item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>()) {
        let message = "an array of several dimensions is not supported";
        return Err(refused(
            given.py(),
            "0A000",
            message,
            Some("Arrays have one dimension: give a flat list."),
        ));
    }
    Ok(Some(items))
}

/// The type of SQL that the items make by themselves: an array of what each of them is, and of texts if there is none.
///
/// # Errors
/// `ProgrammingError` for items of several types, but for numbers, and for items that are of no type of SQL.
pub(super) fn own_type(py: Python<'_>, items: &[Bound<'_, PyAny>]) -> PyResult<ColumnType> {
    let mut common: Option<ColumnType> = None;
    for item in items.iter().filter(|item| !item.is_none()) {
        let kind = || item.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
        let Some(own) = super::own_type(item, Some(ColumnType::Text))? else {
            let message = format!("Python's {} in a list stands for no type", kind());
            return Err(refused(py, "42804", &message, Some(HINT)));
        };
        common = match common.map(|earlier| (earlier, wider(earlier, own))) {
            None => Some(own),
            Some((_, Some(wider))) => Some(wider),
            Some((earlier, None)) => {
                let message = format!("a list has values of several types, {earlier} and {own}");
                return Err(refused(py, "42804", &message, Some(HINT)));
            }
        };
    }
    let element = common.and_then(ElementType::of).unwrap_or(ElementType::Text);
    Ok(ColumnType::Array(element))
}

/// The type of the two that holds the values of both.
fn wider(one: ColumnType, other: ColumnType) -> Option<ColumnType> {
    use ColumnType::{BigInt, Double, Numeric};
    match (one, other) {
        (Numeric { precision, scale: one }, Numeric { scale: other, .. }) => {
            Some(Numeric { precision, scale: one.max(other) })
        }
        (one, other) if one == other => Some(one),
        (Double, BigInt | Numeric { .. }) | (BigInt | Numeric { .. }, Double) => Some(Double),
        (BigInt, numeric @ Numeric { .. }) | (numeric @ Numeric { .. }, BigInt) => Some(numeric),
        _ => None,
    }
}
