// SPDX-License-Identifier: Apache-2.0
//! `coeval completions` and `coeval manual`: what shells and `man` want to know of the command line.

use crate::arguments::{Arguments, CompletionsArguments, ManualArguments};
use crate::failure::Failure;
use clap::CommandFactory;
use std::io::{Write, stdout};

/// Prints the completions of a shell.
///
/// # Errors
/// If the output cannot be written.
pub(crate) fn run(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "coeval", &mut script);
    Ok(stdout().lock().write_all(&script)?)
}

/// Writes the manual: a page for the program, and one for each of its commands.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write_manual(arguments: &ManualArguments) -> Result<(), Failure> {
    let dir = &arguments.dir;
    let failed = |error| Failure::work(format_args!("cannot write the manual to {}", dir.display()), error);
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), dir).map_err(failed)?;
    Ok(())
}
