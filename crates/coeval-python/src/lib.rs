// SPDX-License-Identifier: Apache-2.0
//! The Python package `coeval`.
use pyo3::prelude::*;
#[pymodule]
fn coeval_native(_m: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
