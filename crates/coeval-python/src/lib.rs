// SPDX-License-Identifier: Apache-2.0
//! The native half of the Python package `coeval`: the module `coeval._native`.
//!
//! # Owns
//! Sessions, rows and parameters as Python has them, and Arrow streams both ways (PyCapsule interface, no copy).
//!
//! # Never does
//! Anything that Python can say as well: transactions, cursors, data frames and errors are classes in `python/coeval`. It uses
//! the facade `coeval` alone.
//!
//! # Invariants
//! - No statement runs while the interpreter is held.
//! - A value that its Python type cannot hold is an error, and never another value.
//!
//! # Start reading at
//! `python/coeval/__init__.py`, then `session.rs`.

mod database;
mod durations;
mod errors;
mod importing;
mod parameters;
mod placeholders;
mod rows;
mod session;
mod values;

use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs the program `coeval` with a command line, whose first word is its name; gives the code to end with. `file` is what to
/// run where it starts itself anew.
#[pyfunction]
fn program(py: Python<'_>, command_line: Vec<OsString>, file: PathBuf) -> u8 {
    py.detach(|| coeval_commands::run(command_line, Ok(file)))
}

/// The text of a statement with `$1`, `$2`, ... in place of `?` or `$name`, and the names in the order of their numbers.
#[pyfunction]
fn numbered(sql: &str, parameters: &Bound<'_, PyAny>) -> (String, Vec<String>) {
    let numbered = placeholders::numbered(sql, placeholders::Given::of(parameters));
    (numbered.sql, numbered.names)
}

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    #[pymodule_export]
    use crate::database::Database;
    #[pymodule_export]
    use crate::numbered;
    #[pymodule_export]
    use crate::program;
    #[pymodule_export]
    use crate::rows::Rows;
    #[pymodule_export]
    use crate::session::Session;
}
