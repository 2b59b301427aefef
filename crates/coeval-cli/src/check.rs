// SPDX-License-Identifier: Apache-2.0
//! `coeval check`.
use crate::arguments::CheckArguments;
use crate::failure::Failure;
pub(crate) fn run(arguments: &CheckArguments) -> Result<(), Failure> {
    let _ = arguments;
    Ok(())
}
