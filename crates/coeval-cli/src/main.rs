// SPDX-License-Identifier: Apache-2.0
//! The binary `coeval`.
//!
//! # Owns
//! Nothing but the process: what it does is in `coeval-commands`, which other programs carry, too.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(coeval_commands::run(std::env::args_os(), std::env::current_exe()))
}
