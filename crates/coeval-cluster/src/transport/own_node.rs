// SPDX-License-Identifier: Apache-2.0
//! [`OwnNode`]: what all parts of a transport share: who this node is, and whom it knows.

use super::error::{ConfigurationError, LinkError};
use super::fit::Misfit;
use super::greeting::Greeting;
use super::options::{Security, TransportOptions};
use super::peer::Peer;
use super::sending::keep_sending;
use super::status::{RefusedConnection, TransportStatus};
use super::tls::{Tls, names_host};
use crate::node::NodeId;
use crate::node_address::NodeAddress;
use parking_lot::{Mutex, RwLock};
use rustls_pki_types::CertificateDer;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// Refused connections that are remembered, for whoever looks for the reason.
const REFUSED_MAX: usize = 16;

/// What all parts of a transport share.
///
/// # Locking
/// `peers` is held for look-ups, and for the exchange of the list of nodes; `refused` for an entry. Neither is held while
/// another lock is taken, but for the one of a peer's state, or across anything that waits.
pub(super) struct OwnNode {
    pub(super) options: TransportOptions,
    pub(super) tls: Option<Tls>,
    /// Cancelled when the transport ends.
    pub(super) end: CancellationToken,
    runtime: Handle,
    peers: RwLock<BTreeMap<NodeId, Arc<Peer>>>,
    refused: Mutex<Refused>,
}

#[derive(Default)]
struct Refused {
    count: u64,
    last: VecDeque<RefusedConnection>,
}

impl OwnNode {
    /// A node that knows no other.
    ///
    /// # Errors
    /// If its certificates cannot be used.
    pub(super) fn new(options: TransportOptions, runtime: Handle) -> Result<Self, ConfigurationError> {
        let tls = match &options.security {
            Security::Certificates(files) => Some(Tls::of(files, &options.address)?),
            Security::LoopbackOnly | Security::Insecure => None,
        };
        Ok(Self {
            options,
            tls,
            end: CancellationToken::new(),
            runtime,
            peers: RwLock::default(),
            refused: Mutex::default(),
        })
    }

    /// Whether connections with this address are allowed.
    pub(super) fn allows(&self, address: IpAddr) -> bool {
        self.options.security.allows(address)
    }

    /// What it says of itself to this node.
    pub(super) fn greeting(&self, meant_for: NodeId) -> Greeting {
        Greeting {
            versions: self.options.versions,
            cluster: self.options.cluster,
            node: self.options.node,
            meant_for,
            incarnation: self.options.incarnation,
            address: self.options.address.clone(),
            formats: self.options.formats,
        }
    }

    /// The node that greets so, if it is one that may: known here, at the address that it says, with a certificate for it if
    /// certificates are asked for, and not older than known. With it, what ends connections with this process of it.
    pub(super) fn admit(
        &self,
        greeting: &Greeting,
        certificate: Option<&CertificateDer<'_>>,
    ) -> Result<(Arc<Peer>, CancellationToken), Misfit> {
        let (own, other) = (self.options.node, greeting.node);
        let Some(peer) = self.peer(other) else { return Err(Misfit::UnknownNode { other, own }) };
        if self.tls.is_some() {
            let host = peer.address.host();
            if !certificate.is_some_and(|certificate| names_host(certificate, host)) {
                return Err(Misfit::Certificate { other, host: host.to_owned(), own });
            }
        }
        if greeting.address != peer.address {
            let (said, known) = (greeting.address.clone(), peer.address.clone());
            return Err(Misfit::Address { other, said, own, known });
        }
        let end = peer.meet(greeting.incarnation)?;
        Ok((peer, end))
    }

    /// The other node of this number.
    pub(super) fn peer(&self, node: NodeId) -> Option<Arc<Peer>> {
        self.peers.read().get(&node).cloned()
    }

    /// Changes the list of nodes; see [`super::Peers::set_nodes`].
    pub(super) fn set_nodes(
        self: &Arc<Self>,
        nodes: impl IntoIterator<Item = (NodeId, NodeAddress)>,
    ) -> Result<(), ConfigurationError> {
        let mut wanted = BTreeMap::new();
        for (node, address) in nodes {
            if wanted.insert(node, address).is_some() {
                return Err(ConfigurationError::Twice(node));
            }
        }
        wanted.remove(&self.options.node);
        let mut peers = self.peers.write();
        peers.retain(|node, peer| {
            let stays = wanted.contains_key(node);
            if !stays {
                peer.end.cancel();
            }
            stays
        });
        for (node, address) in wanted {
            let known = peers.get(&node);
            if known.is_some_and(|peer| peer.address == address) {
                continue;
            }
            if let Some(peer) = known {
                peer.end.cancel();
            }
            let incarnation = known.and_then(|peer| peer.incarnation());
            let end = self.end.child_token();
            let peer = Arc::new(Peer::new((node, address), incarnation, &self.options.bounds, end));
            self.runtime.spawn(keep_sending(Arc::clone(self), Arc::clone(&peer)));
            peers.insert(node, peer);
        }
        Ok(())
    }

    /// A connection that came in is not taken. What is the same as the last one is not logged again.
    pub(super) fn has_refused(&self, refused: RefusedConnection) {
        let mut list = self.refused.lock();
        let is_same = |last: &RefusedConnection| {
            last.from.ip() == refused.from.ip() && last.node == refused.node
                // Ports differ from connection to connection.
                && std::mem::discriminant(&last.error) == std::mem::discriminant(&refused.error)
        };
        if !list.last.back().is_some_and(is_same) {
            tracing::warn!("a connection from {} is not taken: {}", refused.from, refused.error);
        }
        list.count += 1;
        if list.last.len() == REFUSED_MAX {
            list.last.pop_front();
        }
        list.last.push_back(refused);
    }

    /// What can be seen.
    pub(super) fn status(&self) -> TransportStatus {
        let peers = self.peers.read().values().map(|peer| peer.status()).collect();
        let refused = self.refused.lock();
        TransportStatus {
            peers,
            refused_connections: refused.count,
            last_refused: refused.last.iter().cloned().collect(),
        }
    }

    /// Tells a connection's error which has no name of its own from one where the time was up.
    pub(super) fn timed_out(&self, address: &str, what: &'static str) -> LinkError {
        LinkError::TimedOut { address: address.to_owned(), what, after: self.options.timeouts.connect }
    }
}
