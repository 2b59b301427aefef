// SPDX-License-Identifier: Apache-2.0
//! `coeval promote`: a replica becomes a database of its own.

use crate::arguments::PromoteArguments;
use crate::failure::Failure;
use coeval::Database;

/// Promotes the replica in a directory.
///
/// # Errors
/// If it is no replica, or is served.
pub(crate) fn run(arguments: &PromoteArguments) -> Result<(), Failure> {
    let dir = arguments.dir.display();
    Database::promote(&arguments.dir)
        .map_err(|error| Failure::work(format_args!("cannot promote {dir}"), error))?;
    println!("{dir} is a database of its own now: coeval serve {dir}");
    Ok(())
}
