// SPDX-License-Identifier: Apache-2.0
//! `coeval promote`: a replica that is not running becomes a database of its own. So does a former primary, if what the one after it
//! has is given up.

use crate::arguments::PromoteArguments;
use crate::directory::{self, Contents, look, no_database};
use crate::failure::Failure;
use crate::machines::Machines;
use crate::serve::secret_in;
use coeval::Database;
use coeval_replica::{Loss, promises_for};
use std::path::Path;

/// Promotes the replica in a directory, or the former primary.
///
/// # Errors
/// If there is no database, or none that is a replica; if it is served; if it may not have all that was acknowledged, and that was not accepted.
pub(crate) fn run(arguments: &PromoteArguments) -> Result<(), Failure> {
    let dir = &arguments.dir;
    if matches!(look(dir)?, Contents::Nothing | Contents::Foreign) {
        return Err(no_database(dir));
    }
    let password = arguments.replica_password_file.as_deref().map(secret_in).transpose()?;
    let machines = Machines::of(&arguments.machines, None, password.as_deref())?;
    promote(dir, &machines, if arguments.accept_loss { Loss::Accepted } else { Loss::Refused })?;
    println!("{0} is a database of its own now: coeval serve {0}", dir.display());
    Ok(())
}

/// Promotes the replica in a directory, whatever others have: for one whose others are about to be removed.
///
/// # Errors
/// If it is no replica, or is served.
pub(crate) fn promote_accepting_loss(dir: &Path) -> Result<(), Failure> {
    promote(dir, &Machines { own: String::new(), peers: Vec::new() }, Loss::Accepted)
}

fn promote(dir: &Path, machines: &Machines, loss: Loss) -> Result<(), Failure> {
    let cannot = format!("cannot promote {}", dir.display());
    take_back(dir, loss, &cannot)?;
    let promise = {
        let opened = directory::options().open_replica(dir);
        let (database, _follower) = opened.map_err(|error| Failure::work(&cannot, error))?;
        let promise = promises_for(database.engine().store(), &machines.own, &machines.peers, loss);
        promise.map_err(|error| {
            Failure::Work(format!("{cannot}: {error}\n--accept-loss gives up what this machine may not have"))
        })?
    };
    Database::promote(dir, promise).map_err(|error| Failure::work(&cannot, error))
}

/// Makes a former primary, whose successor's log is given up, a replica: as such it is promoted.
fn take_back(dir: &Path, loss: Loss, cannot: &str) -> Result<(), Failure> {
    let superseded = Database::superseded(dir).map_err(|error| Failure::work(cannot, error))?;
    let Some(timeline) = superseded else { return Ok(()) };
    match loss {
        Loss::Refused => Err(Failure::Work(format!(
            "{cannot}: it was a primary, and timeline {timeline} was promised to another machine. coeval serve --replica-of has it \
             follow that one; if that one is lost for good, --accept-loss gives up what only it had, and makes this one the primary again"
        ))),
        Loss::Accepted => Database::demote(dir).map_err(|error| Failure::work(cannot, error)),
    }
}
