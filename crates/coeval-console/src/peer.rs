// SPDX-License-Identifier: Apache-2.0
//! [`Peer`]: the browser at the other end of a connection.

use coeval_server::Encryption;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::Notify;

/// Who a request comes from.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) encryption: Encryption,
    /// Told when somebody who is logged in asks on this connection.
    pub(crate) is_known: Arc<Notify>,
}
