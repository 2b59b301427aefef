// SPDX-License-Identifier: Apache-2.0
//! A server that writes the log of a database which other machines have as well.

use super::Promoted;
use crate::arguments::ServeArguments;
use crate::failure::Failure;
use crate::machines::{Machines, names_of};
use crate::secret_file::secret_in;
use coeval::Database;
use coeval_replica::{Peer, PrimaryWatch};

/// Says what this machine is called, and watches the others: `promoted` is what it was before.
///
/// # Errors
/// If a peer's address is malformed, or the name cannot be written down.
pub(super) fn begin(
    database: &Database,
    arguments: &ServeArguments,
    promoted: Option<Promoted>,
) -> Result<Option<PrimaryWatch>, Failure> {
    let password = arguments.replica_password_file.as_deref().map(secret_in).transpose()?;
    let former = promoted.and_then(|promoted| promoted.former).map(|mut former| {
        former.password = former.password.take().or_else(|| password.clone());
        former
    });
    let Machines { own, mut peers } =
        Machines::of(&arguments.machines, former.as_ref(), password.as_deref())?;
    let store = database.engine().store();
    if let Some(former) = former
        && peers.iter().all(|peer| (&peer.address.host, peer.address.port) != (&former.host, former.port))
    {
        peers.push(Peer { name: former.to_string(), address: former });
    }
    store.set_peer_names(names_of(&peers));
    if peers.is_empty() && store.own_promise().is_some() {
        eprintln!(
            "This database was promoted, or restored, and no other machine is named by --peer: a former primary that runs on, or comes back, \
             is not told of it, and takes commits."
        );
    }
    let watch = (!peers.is_empty()).then(|| PrimaryWatch::start(store, peers)).transpose();
    let watch = watch.map_err(|error| Failure::work("cannot start a thread", error))?;
    if let Some(timeline) = store.superseded_by() {
        eprintln!(
            "Timeline {timeline} was promised to another machine: this one takes no commits any more. Start it with --replica-of \
             the machine that was promoted."
        );
    } else {
        store
            .set_own_name(&own)
            .map_err(|error| Failure::work("cannot write down the name of the machine", error))?;
    }
    Ok(watch)
}
