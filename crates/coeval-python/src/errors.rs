// SPDX-License-Identifier: Apache-2.0
//! Errors as exceptions of the package: `coeval._errors` has a class for each kind.

use coeval::{Error, SqlError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyDict};

/// `coeval._errors.of_state`, which makes an exception of a SQLSTATE and what else is known.
static OF_STATE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The exception for an error. If a signal has come whose handler raises, as Ctrl-C, it is that instead: a statement that was
/// cancelled for the signal's sake has its own error.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    if let Err(raised) = py.check_signals() {
        return raised;
    }
    let made = match error {
        Error::Sql(error) => of_sql(py, error),
        other => of_state(py, other.state().code(), &other.to_string(), None),
    };
    made.unwrap_or_else(|failed| failed)
}

/// The exception for something that the caller has got wrong, with its SQLSTATE.
pub(crate) fn refused(py: Python<'_>, code: &str, message: &str, hint: Option<&str>) -> PyErr {
    let hint = hint.map(|hint| {
        let more = PyDict::new(py);
        more.set_item("hint", hint)?;
        Ok::<_, PyErr>(more)
    });
    let made = hint.transpose().and_then(|more| of_state(py, code, message, more));
    made.unwrap_or_else(|failed| failed)
}

fn of_sql(py: Python<'_>, error: &SqlError) -> PyResult<PyErr> {
    let more = PyDict::new(py);
    more.set_item("detail", error.detail.as_deref())?;
    more.set_item("hint", error.hint.as_deref())?;
    more.set_item("position", error.position)?;
    more.set_item("context", error.context.as_deref())?;
    if let Some(object) = &error.object {
        more.set_item("schema", object.schema.as_deref())?;
        more.set_item("table", object.table.as_deref())?;
        more.set_item("column", object.column.as_deref())?;
        more.set_item("constraint", object.constraint.as_deref())?;
    }
    of_state(py, error.state.code(), &error.message, Some(more))
}

fn of_state(py: Python<'_>, code: &str, message: &str, more: Option<Bound<'_, PyDict>>) -> PyResult<PyErr> {
    let of_state = OF_STATE
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("coeval._errors")?.getattr("of_state")?.unbind()))?;
    Ok(PyErr::from_value(of_state.bind(py).call((code, message), more.as_ref())?))
}
