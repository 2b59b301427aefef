// SPDX-License-Identifier: Apache-2.0
//! `coeval promote`: a replica becomes a database of its own, by the server that has it open if there is one. So does a former primary,
//! if what the one after it has is given up.

use crate::arguments::PromoteArguments;
use crate::directory::{self, Contents, look, no_database};
use crate::failure::Failure;
use crate::holding_server::Order;
use crate::machines::Machines;
use crate::remote::{Server, reason};
use crate::secret_file::secret_in;
use coeval::{Database, Error, Holder};
use coeval_replica::{Loss, promises_for};
use std::path::Path;

/// Promotes the replica in a directory, or the former primary.
///
/// # Errors
/// If there is no database, or none that is a replica; if a process has it open that does not promote it; if it may not have all that
/// was acknowledged, and that was not accepted.
pub(crate) fn run(arguments: &PromoteArguments) -> Result<(), Failure> {
    let dir = &arguments.dir;
    if matches!(look(dir)?, Contents::Nothing | Contents::Foreign) {
        return Err(no_database(dir));
    }
    let password = arguments.replica_password_file.as_deref().map(secret_in).transpose()?;
    let machines = Machines::of(&arguments.machines, None, password.as_deref())?;
    let loss = if arguments.accept_loss { Loss::Accepted } else { Loss::Refused };
    match promote(dir, &machines, loss) {
        Ok(()) => {
            println!("{0} is a database of its own now: coeval serve {0}", dir.display());
            if machines.peers.is_empty() {
                println!(
                    "No --peer was named: nobody else was asked. Serve it with --peer for each other machine: without that a former \
                     primary that runs on, or comes back, is not told of this one, and takes commits"
                );
            }
            Ok(())
        }
        Err(NotPromoted::InUse(holder)) => ask_server(arguments, loss, &holder),
        Err(NotPromoted::Failed(failure)) => Err(failure),
    }
}

/// Promotes the replica in a directory, whatever others have: for one whose others are about to be removed.
///
/// # Errors
/// If it is no replica, or is served.
pub(crate) fn promote_accepting_loss(dir: &Path) -> Result<(), Failure> {
    let promoted = promote(dir, &Machines { own: String::new(), peers: Vec::new() }, Loss::Accepted);
    promoted.map_err(|why| match why {
        NotPromoted::InUse(holder) => Failure::Work(format!("{} is in use by {holder}", dir.display())),
        NotPromoted::Failed(failure) => failure,
    })
}

/// Why the directory was not promoted here.
enum NotPromoted {
    /// This process has it open.
    InUse(Holder),
    Failed(Failure),
}

impl NotPromoted {
    fn because(dir: &Path, error: &Error) -> Self {
        match directory::holder(error) {
            Some(holder) => Self::InUse(holder.clone()),
            None => Self::Failed(Failure::work(cannot(dir), error)),
        }
    }
}

fn cannot(dir: &Path) -> String {
    format!("cannot promote {}", dir.display())
}

fn promote(dir: &Path, machines: &Machines, loss: Loss) -> Result<(), NotPromoted> {
    let failed = |error: Error| NotPromoted::because(dir, &error);
    take_back(dir, loss)?;
    let promise = {
        let (database, _follower) = directory::options().open_replica(dir).map_err(failed)?;
        let promise = promises_for(database.engine().store(), &machines.own, &machines.peers, loss);
        promise.map_err(|error| {
            NotPromoted::Failed(Failure::Work(format!(
                "{}: {error}\n--accept-loss gives up what this machine may not have",
                cannot(dir)
            )))
        })?
    };
    Database::promote(dir, promise).map_err(failed)
}

/// Makes a former primary, whose successor's log is given up, a replica: as such it is promoted.
fn take_back(dir: &Path, loss: Loss) -> Result<(), NotPromoted> {
    let failed = |error: Error| NotPromoted::because(dir, &error);
    let Some(timeline) = Database::superseded(dir).map_err(failed)? else { return Ok(()) };
    match loss {
        Loss::Refused => Err(NotPromoted::Failed(Failure::Work(format!(
            "{}: it was a primary, and timeline {timeline} was promised to another machine. coeval serve --replica-of has it \
             follow that one; if that one is lost for good, --accept-loss gives up what only it had, and makes this one the primary again",
            cannot(dir)
        )))),
        Loss::Accepted => Database::demote(dir).map_err(failed),
    }
}

/// Has the server promote the replica that it has open. The others are those that it knows itself.
fn ask_server(arguments: &PromoteArguments, loss: Loss, holder: &Holder) -> Result<(), Failure> {
    let sql = match loss {
        Loss::Refused => "SELECT pg_promote()",
        Loss::Accepted => "SELECT coeval_promote_accepting_loss()",
    };
    let order = Order { command: "coeval promote", dir: &arguments.dir, by_hand: sql };
    let password = arguments.asked.password_file.as_deref().map(secret_in).transpose()?;
    let address = order.address(&arguments.asked, password, holder)?;
    let named = format!("the server of {} at {address}", arguments.dir.display());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::work("cannot start a runtime", error))?;
    let peers = runtime.block_on(async {
        let server = match Server::connect(&address).await {
            Ok(server) => server,
            Err(Failure::Work(message)) => return Err(order.with_advice(&message, &named, &address.user)),
            Err(other) => return Err(other),
        };
        // A server of an older program does not say. Before it is promoted: then it ends this session.
        let peers = server.value("SHOW coeval.peers").await.ok();
        let answered = server.ask(sql).await;
        answered.map(|_| peers).map_err(|error| {
            let hint = error.as_db_error().and_then(|said| said.hint());
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            Failure::Work(format!("{named} does not promote it: {}{hint}", reason(&error)))
        })
    })?;
    println!("{named} promotes it: it ends its sessions, and serves it at the same address");
    match peers.as_deref() {
        Some("") => println!(
            "It was started without --peer: no other machine was asked, and none is told of it but the one that it followed. Start it again \
             with --peer for each other machine"
        ),
        Some(names) => println!("It tells the others: {names}"),
        None => {}
    }
    Ok(())
}
