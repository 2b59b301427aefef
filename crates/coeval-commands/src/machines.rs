// SPDX-License-Identifier: Apache-2.0
//! The machines with one database: what this one is called, and who the others are.

use crate::arguments::MachinesArguments;
use crate::failure::Failure;
use coeval_replica::{Peer, PrimaryAddress};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Machines {
    /// What this one is called; empty if it has no name.
    pub(crate) own: String,
    pub(crate) peers: Vec<Peer>,
}

/// The names of peers, in their order.
pub(crate) fn names_of(peers: &[Peer]) -> Vec<String> {
    peers.iter().map(|peer| peer.name.clone()).collect()
}

impl Machines {
    /// Those of the command line. A replica that is not named is called what it tells its primary.
    ///
    /// # Errors
    /// If a peer's address is malformed.
    pub(crate) fn of(
        arguments: &MachinesArguments,
        primary: Option<&PrimaryAddress>,
        password: Option<&str>,
    ) -> Result<Self, Failure> {
        let own = arguments.name.clone().or_else(|| primary.map(|primary| primary.application_name.clone()));
        let own = own.unwrap_or_default();
        let peers = arguments.peers.iter().map(|text| {
            let mut peer =
                Peer::parse(text, &own).map_err(|error| Failure::Usage(format!("--peer: {error}")))?;
            if let Some(password) = password.filter(|_| peer.address.password.is_none()) {
                peer.address.password = Some(password.to_owned());
            }
            // Whoever is the primary keeps the log for this machine by a slot of one name.
            peer.address.slot =
                peer.address.slot.or_else(|| primary.and_then(|primary| primary.slot.clone()));
            Ok(peer)
        });
        let peers = peers.collect::<Result<_, Failure>>()?;
        Ok(Self { own, peers })
    }
}
