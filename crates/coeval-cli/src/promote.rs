// SPDX-License-Identifier: Apache-2.0
//! `coeval promote`: a replica that is not running becomes a database of its own.

use crate::arguments::PromoteArguments;
use crate::directory;
use crate::failure::Failure;
use crate::machines::Machines;
use crate::serve::secret_in;
use coeval::Database;
use coeval_replica::{Loss, promises_for};

/// Promotes the replica in a directory.
///
/// # Errors
/// If it is no replica, or is served; if it may not have all that was acknowledged, and that was not accepted.
pub(crate) fn run(arguments: &PromoteArguments) -> Result<(), Failure> {
    let dir = &arguments.dir;
    let failed =
        |error: &dyn std::fmt::Display| Failure::Work(format!("cannot promote {}: {error}", dir.display()));
    let password = arguments.replica_password_file.as_deref().map(secret_in).transpose()?;
    let machines = Machines::of(&arguments.machines, None, password.as_deref())?;
    let loss = if arguments.accept_loss { Loss::Accepted } else { Loss::Refused };
    let promise = {
        let (database, _follower) = directory::options().open_replica(dir).map_err(|error| failed(&error))?;
        let store = database.engine().store();
        promises_for(store, &machines.own, &machines.peers, loss).map_err(|error| {
            Failure::Work(format!(
                "cannot promote {}: {error}\n--accept-loss gives up what this machine may not have",
                dir.display()
            ))
        })?
    };
    Database::promote(dir, promise).map_err(|error| failed(&error))?;
    println!("{0} is a database of its own now: coeval serve {0}", dir.display());
    Ok(())
}
