// SPDX-License-Identifier: Apache-2.0
//! How this server comes to be a node: it makes a cluster, joins one, or goes on in the one that its folder says.
//!
//! | the folder | `--join` | follows a primary | |
//! |---|---|---|---|
//! | is new | no | no | makes a cluster, of which it has the keeper |
//! | is new | no | yes | refused: a copy would be a second cluster of the same database |
//! | is new | yes | yes | joins, and is given a number |
//! | is new | yes | no | refused: its database is another one |
//! | is a node's | may be | may be | goes on; whom to ask is in the folder, and `--join` says more of them |

use super::{STRIDE, folder};
use crate::arguments::ServedNodeArguments;
use crate::failure::Failure;
use coeval_cluster::{
    AskOptions, Certificates, ClusterId, FormatVersion, Formats, Founding, JoinError, Membership,
    NodeAddress, Security,
};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Handle;

/// How many replicas each brick has if nothing is said.
const REPLICAS: u32 = 2;
/// How long a new node asks for a number. The server of the one that it asks may be about to start.
const JOIN_PATIENCE: Duration = Duration::from_secs(30);

/// Whether the database of a server is a copy that follows another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Its database is its own.
    Primary,
    /// It is a replica.
    Replica,
}

/// How this node makes itself known, and whom it lets in: by certificates, or by nobody else being able to come.
///
/// # Errors
/// If an address is beyond this machine, and there are no certificates.
pub(super) fn ask_options(
    arguments: &ServedNodeArguments,
    listen: &NodeAddress,
    database: u64,
) -> Result<AskOptions, Failure> {
    let address = arguments.cluster_address.as_ref().unwrap_or(listen);
    let formats = Formats::up_to(FormatVersion::new(coeval::FORMAT_VERSION));
    let mut ask = AskOptions::new(address.clone(), formats);
    ask.cluster = Some(ClusterId::new(database));
    ask.security = security(arguments, listen)?;
    Ok(ask)
}

fn security(arguments: &ServedNodeArguments, listen: &NodeAddress) -> Result<Security, Failure> {
    if let Some(dir) = &arguments.cluster_certificates {
        return Ok(Security::Certificates(Certificates {
            authorities: dir.join("ca.crt"),
            chain: dir.join("node.crt"),
            key: dir.join("node.key"),
        }));
    }
    let is_here = |address: &NodeAddress| {
        let host = address.host();
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    };
    let addresses = arguments.cluster_address.iter().chain(&arguments.join);
    match addresses.chain([listen]).find(|address| !is_here(address)) {
        None => Ok(Security::LoopbackOnly),
        Some(address) => Err(Failure::Usage(format!(
            "{address} is not on this machine: --cluster-certificates names a directory with ca.crt, node.crt and node.key, by which \
             nodes prove to each other who they are"
        ))),
    }
}

/// What this node is told of its cluster, durably in its folder; and whether the cluster is still to be founded by its keeper, if that
/// is here. Asks other nodes, which takes seconds if they do not answer; a new node asks for half a minute.
///
/// # Errors
/// If the command line contradicts the folder, or the cluster does not take the node. What the folder had is as it was.
pub(super) fn belong(
    directory: &Path,
    arguments: &ServedNodeArguments,
    (ask, role): (&AskOptions, Role),
    threads: &Handle,
) -> Result<(Membership, Founding), Failure> {
    let kept = Membership::read(directory).map_err(|error| refused(directory, &error))?;
    match &kept {
        Some(kept) => check(kept, ask, arguments)?,
        None => check_new(ask, role, arguments)?,
    }
    let written =
        |error: std::io::Error| Failure::work(format_args!("cannot write {}", directory.display()), error);
    folder::make(directory).map_err(written)?;
    let membership = if kept.is_none() && arguments.join.is_empty() {
        folder::begin_founding(directory).map_err(written)?;
        let cluster = ask.cluster.expect("the cluster has the number of the database");
        let replicas = arguments.cluster_replicas.unwrap_or(REPLICAS) as usize;
        Membership::found(directory, cluster, ask.address.clone(), replicas, STRIDE)
    } else {
        if kept.is_none() {
            // A crash may have come before a cluster was made here; now this is to be a node of another one.
            folder::end_founding(directory).map_err(written)?;
        }
        threads.block_on(Membership::join(directory, ask, &arguments.join, JOIN_PATIENCE))
    };
    let membership = membership.map_err(|error| refused(directory, &error))?;
    let is_founding = folder::is_founding(directory).map_err(written)?;
    Ok((membership, if is_founding { Founding::Found } else { Founding::GoOn }))
}

/// Of a folder that is no node's yet.
fn check_new(ask: &AskOptions, role: Role, arguments: &ServedNodeArguments) -> Result<(), Failure> {
    match (arguments.join.is_empty(), role) {
        _ if ask.cluster == Some(ClusterId::new(0)) => {
            let message = "the database has no id yet, from which nodes know each other: start its server once without --cluster";
            Err(Failure::Work(message.to_owned()))
        }
        (true, Role::Replica) => Err(Failure::Usage(
            "a replica joins the cluster of its primary: --join says where one of the nodes is".to_owned(),
        )),
        // Another database is not the cluster's, whatever is in it.
        (false, Role::Primary) => Err(Failure::Usage(
            "who joins a cluster is a replica of its database: --replica-of says where the primary is"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Of a node that starts again.
fn check(kept: &Membership, ask: &AskOptions, arguments: &ServedNodeArguments) -> Result<(), Failure> {
    if let Some(asked) = ask.cluster.filter(|asked| *asked != kept.cluster) {
        return Err(Failure::Work(format!(
            "this directory was a node's of {}, which is the id of its database, and has database {} now: put its folder `cluster` \
             aside to begin anew, and other nodes give it its bricks",
            kept.cluster,
            asked.get()
        )));
    }
    let asked = arguments.cluster_replicas.map_or(kept.replicas, |asked| asked as usize);
    if asked != kept.replicas {
        return Err(Failure::Usage(format!(
            "this cluster was made with {} replicas, which is fixed, and --cluster-replicas says {asked}",
            kept.replicas
        )));
    }
    Ok(())
}

fn refused(directory: &Path, error: &JoinError) -> Failure {
    match error {
        JoinError::Removed(node) => Failure::Work(format!(
            "{node} was removed from the cluster for good: put {} aside to join it as a new node, or start without --cluster",
            directory.display()
        )),
        error => Failure::work("cannot be a node of a cluster", error),
    }
}

#[cfg(test)]
mod tests;
