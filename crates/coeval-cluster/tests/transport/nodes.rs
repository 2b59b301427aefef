// SPDX-License-Identifier: Apache-2.0
//! Nodes for tests, and how to wait for what they do.

use crate::recorder::Recorder;
use coeval_cluster::{
    ClusterId, FormatVersion, Formats, LinkError, NodeAddress, NodeId, PeerStatus, Peers, Timeouts,
    Transport, TransportOptions,
};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

pub(crate) const ONE: NodeId = NodeId::new(1);
pub(crate) const TWO: NodeId = NodeId::new(2);
pub(crate) const THREE: NodeId = NodeId::new(3);

/// A place where a node listens.
pub(crate) struct Place {
    pub(crate) node: NodeId,
    pub(crate) address: NodeAddress,
    pub(crate) listener: TcpListener,
}

/// The place of a node: 127.0.0.N with a free port.
pub(crate) fn place(node: NodeId) -> Place {
    let listener = TcpListener::bind((format!("127.0.0.{}", node.get()), 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    Place { node, address, listener }
}

/// What a node at this place is told. Nothing takes too long because a thread gets no core for seconds; tests of what does take shorter
/// times.
pub(crate) fn options(place: &Place) -> TransportOptions {
    let formats = Formats::up_to(FormatVersion::new(9));
    let mut options = TransportOptions::new(place.node, place.address.clone(), ClusterId::new(77), formats);
    options.timeouts = Timeouts {
        connect: Duration::from_secs(2),
        silence: Duration::from_secs(20),
        call: Duration::from_secs(20),
        pause_min: Duration::from_millis(10),
        pause_max: Duration::from_millis(200),
    };
    options
}

/// A node with its runtime, which is dropped behind it.
pub(crate) struct Node {
    pub(crate) transport: Transport,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) runtime: Runtime,
}

impl Node {
    /// Starts one that knows these others.
    pub(crate) fn start(
        options: TransportOptions,
        listener: TcpListener,
        others: impl IntoIterator<Item = (NodeId, NodeAddress)>,
    ) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let recorder = Arc::new(Recorder::default());
        let handler = Arc::clone(&recorder);
        let transport =
            Transport::start(options, listener, tonic::service::Routes::default(), runtime.handle(), |_| {
                handler
            })
            .unwrap();
        transport.peers().set_nodes(others).unwrap();
        Self { transport, recorder, runtime }
    }

    pub(crate) fn peers(&self) -> &Peers {
        self.transport.peers()
    }

    /// What it shows of another node.
    pub(crate) fn shown(&self, node: NodeId) -> PeerStatus {
        self.peers().status().peers.into_iter().find(|peer| peer.node == node).unwrap()
    }

    /// Why it is not connected to another node, once it is not.
    pub(crate) fn reason(&self, node: NodeId) -> LinkError {
        wait_for("an error is shown", || self.shown(node).last_error.map(|(_, error)| error))
    }

    /// Why it refused a connection, once it did.
    pub(crate) fn refusal(&self) -> String {
        wait_for("a refusal is shown", || {
            self.peers().status().last_refused.first().map(|refused| refused.error.to_string())
        })
    }

    pub(crate) fn call(
        &self,
        node: NodeId,
        request: &'static [u8],
    ) -> Result<bytes::Bytes, coeval_cluster::CallError> {
        self.runtime.block_on(self.peers().call(node, request))
    }
}

/// Two nodes that know each other.
pub(crate) fn pair() -> (Node, Node) {
    pair_with(|_| {})
}

/// Two nodes that know each other, with options that differ.
pub(crate) fn pair_with(change: impl Fn(&mut TransportOptions)) -> (Node, Node) {
    let (one, two) = (place(ONE), place(TWO));
    let known = [(ONE, one.address.clone()), (TWO, two.address.clone())];
    let start = |place: Place| {
        let mut options = options(&place);
        change(&mut options);
        Node::start(options, place.listener, known.clone())
    };
    (start(one), start(two))
}

/// Waits for something that comes soon.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}
