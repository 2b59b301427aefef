// SPDX-License-Identifier: Apache-2.0
//! Clusters for tests: short times, a proxy in front of each node, directories that outlive a node.

use crate::codes::CITY;
use crate::proxy::{Control, lead};
use crate::rows::tables;
use crate::texts;
use coeval_cluster::{
    ClusterId, ClusterTimeouts, Durability, FormatVersion, Formats, Founding, Node, NodeAddress, NodeId,
    NodeOptions, NodeStatus, RoundOptions, Timeouts, TransportOptions,
};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// After which a node counts as gone.
pub(crate) const SILENCE: Duration = Duration::from_millis(700);

/// A place for a node, whether it runs or not.
struct Place {
    address: NodeAddress,
    listener: TcpListener,
    control: Arc<Control>,
    node: Option<Node>,
}

/// Nodes with one runtime, counted from 1. The first one has the keeper.
pub(crate) struct Cluster {
    places: Vec<Place>,
    replicas: usize,
    /// How long a node waits until it serves, and until an owner of a dictionary answers.
    serve: Duration,
    directory: TempDir,
    pub(crate) runtime: Runtime,
}

fn place(number: u32) -> Place {
    let ip = format!("127.0.0.{number}");
    let listener = TcpListener::bind((ip.as_str(), 0)).unwrap();
    let front = TcpListener::bind((ip.as_str(), 0)).unwrap();
    let address = front.local_addr().unwrap().to_string().parse().unwrap();
    let control = lead(front, listener.local_addr().unwrap());
    Place { address, listener, control, node: None }
}

impl Cluster {
    /// So many nodes, which all serve.
    pub(crate) fn start(nodes: u32, replicas: usize) -> Self {
        Self::start_with(nodes, replicas, Duration::from_secs(20))
    }

    /// As [`start`](Self::start), of nodes that wait so long for others.
    pub(crate) fn start_with(nodes: u32, replicas: usize, serve: Duration) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        tables().declare(texts::TABLE, texts::schema()).unwrap();
        let places = (1..=nodes).map(place).collect();
        let mut cluster = Self { places, replicas, serve, directory, runtime };
        for number in 1..=nodes {
            cluster.begin(number);
        }
        cluster.start_keeper(Founding::Found);
        cluster.settle();
        cluster
    }

    fn at(&mut self, number: u32) -> &mut Place {
        &mut self.places[number as usize - 1]
    }

    pub(crate) fn node(&self, number: u32) -> &Node {
        self.places[number as usize - 1].node.as_ref().unwrap()
    }

    /// The nodes that run.
    pub(crate) fn running(&self) -> Vec<Node> {
        self.places.iter().filter_map(|place| place.node.clone()).collect()
    }

    pub(crate) fn proxy(&self, number: u32) -> &Control {
        &self.places[number as usize - 1].control
    }

    pub(crate) fn directory(&self, number: u32) -> PathBuf {
        self.directory.path().join(format!("n{number}"))
    }

    fn options(&self, number: u32) -> NodeOptions {
        let known: Vec<(NodeId, NodeAddress)> =
            (1..).map(NodeId::new).zip(self.places.iter().map(|place| place.address.clone())).collect();
        let (node, address) = known[number as usize - 1].clone();
        let formats = Formats::up_to(FormatVersion::new(1));
        let mut transport = TransportOptions::new(node, address, ClusterId::new(7), formats);
        transport.timeouts = Timeouts {
            connect: Duration::from_millis(300),
            silence: Duration::from_millis(600),
            call: Duration::from_millis(1_500),
            pause_min: Duration::from_millis(10),
            pause_max: Duration::from_millis(100),
        };
        let mut options = NodeOptions::new(transport, known, tables());
        options.replicas = self.replicas;
        options.dictionaries = vec![CITY];
        options.rounds = RoundOptions { log_bytes: 0, pause: Duration::ZERO };
        options.timeouts = ClusterTimeouts {
            resend: Duration::from_millis(60),
            alive: Duration::from_millis(60),
            silence: SILENCE,
            serve: self.serve,
            read: Duration::from_secs(20),
        };
        options
    }

    /// Starts a node on what its directory has.
    pub(crate) fn begin(&mut self, number: u32) {
        let directory = self.directory(number);
        std::fs::create_dir_all(&directory).unwrap();
        let (options, handle) = (self.options(number), self.runtime.handle().clone());
        let listener = self.at(number).listener.try_clone().unwrap();
        let node = Node::start(options, listener, &handle, &directory, Durability::Synced).unwrap();
        self.at(number).node = Some(node);
    }

    /// Ends a node as a crash does.
    pub(crate) fn crash(&mut self, number: u32) {
        let node = self.at(number).node.take().unwrap();
        self.runtime.block_on(node.stop());
    }

    /// Takes away all that a node has on disk.
    pub(crate) fn lose_disk(&mut self, number: u32) {
        assert!(self.at(number).node.is_none());
        std::fs::remove_dir_all(self.directory(number)).unwrap();
    }

    pub(crate) fn start_keeper(&self, founding: Founding) {
        self.runtime.block_on(self.node(1).start_keeper(founding, &self.directory(1))).unwrap();
    }

    pub(crate) fn status(&self, number: u32) -> Option<NodeStatus> {
        self.node(number).status()
    }

    /// Waits until the view is without those who are gone: it has so many members.
    pub(crate) fn goes_on_with(&self, members: usize) {
        wait_until("the view goes on without who is gone", || {
            self.status(1).is_some_and(|status| status.members.len() == members)
        });
    }

    /// Waits until all nodes that run have each other in the view, with all bricks in their places.
    pub(crate) fn settle(&self) {
        let nodes = self.running();
        for node in &nodes {
            wait_until("the view has who runs", || {
                let Some(status) = node.status() else { return false };
                status.members.len() == nodes.len() && !status.is_moving && status.placed.len() == nodes.len()
            });
            self.runtime.block_on(node.serves()).unwrap();
        }
    }

    /// Waits until nothing is under way.
    pub(crate) fn quiet(&self) {
        self.settle();
        let nodes = self.running();
        wait_until("all have ended", || {
            let statuses: Vec<NodeStatus> = nodes.iter().filter_map(Node::status).collect();
            statuses.len() == nodes.len()
                && statuses.iter().all(|status| status.pending.is_empty() && status.open_loads == 0)
                && statuses.windows(2).all(|pair| pair[0].latest_committed == pair[1].latest_committed)
        });
    }
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}
