// SPDX-License-Identifier: Apache-2.0
//! Clusters for tests: short times, a proxy in front of each node, directories that outlive a node.

use crate::codes::CITY;
use crate::proxy::{Control, lead};
use crate::rows::tables;
use crate::texts;
use coeval_cluster::{
    AskOptions, ClusterId, ClusterTimeouts, Durability, FormatVersion, Formats, Founding, JoinError,
    Membership, Node, NodeAddress, NodeId, NodeOptions, NodeStatus, RoundOptions, Timeouts, TransportOptions,
};
use std::net::TcpListener;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// After which a node counts as gone.
pub(crate) const SILENCE: Duration = Duration::from_millis(700);

/// After which something is asked again.
const RESEND: Duration = Duration::from_millis(60);

/// How long nodes wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// Until a node serves, and until an owner of a dictionary answers.
    serve: Duration,
    /// Until something is asked again.
    resend: Duration,
    /// Until a node counts as gone.
    silence: Duration,
    transport: Timeouts,
}

impl Waits {
    /// Those of most tests: who is gone is soon missed.
    const fn short(serve: Duration) -> Self {
        Self { serve, resend: RESEND, silence: SILENCE, transport: transport_timeouts() }
    }

    /// Nobody is taken for gone, and hardly anything is asked again, though a thread gets no core for seconds.
    pub(crate) const fn long() -> Self {
        let transport = Timeouts {
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(20),
            call: Duration::from_secs(20),
            ..transport_timeouts()
        };
        let (resend, silence) = (Duration::from_secs(1), Duration::from_secs(6));
        Self { serve: Duration::from_secs(20), resend, silence, transport }
    }

    /// What is lost is asked again soon.
    pub(crate) const fn asking_again_soon(self) -> Self {
        Self { resend: RESEND, ..self }
    }
}

/// Of a load's rows, about; but 64 appends may be unanswered however large.
const APPEND_WINDOW_BYTES: usize = 64 << 10;

/// A place for a node, whether it runs or not.
struct Place {
    address: NodeAddress,
    listener: TcpListener,
    control: Arc<Control>,
    node: Option<Node>,
    directory: PathBuf,
    /// It was not told of the others: it asks whoever it knows, whenever it starts.
    asks: bool,
}

/// Nodes with one runtime, counted from 1. The first one has the keeper.
pub(crate) struct Cluster {
    places: Vec<Place>,
    /// So many of them are told of each other when they start.
    told: usize,
    /// How many that were to join have a place.
    joiners: u32,
    replicas: usize,
    waits: Waits,
    /// How fast bricks come to nodes that start from now on.
    pub(crate) copied_bytes_a_second: Option<NonZeroU64>,
    /// Whether readers come with ages of rows to nodes that start from now on.
    pub(crate) expects_ages: bool,
    directory: TempDir,
    pub(crate) runtime: Runtime,
}

/// The cluster that all nodes are of.
const CLUSTER: ClusterId = ClusterId::new(7);
/// How long a node asks that is to join.
const PATIENCE: Duration = Duration::from_secs(10);

fn place(number: u32, directory: PathBuf) -> Place {
    let ip = format!("127.0.0.{number}");
    let listener = TcpListener::bind((ip.as_str(), 0)).unwrap();
    let front = TcpListener::bind((ip.as_str(), 0)).unwrap();
    let address = front.local_addr().unwrap().to_string().parse().unwrap();
    let control = lead(front, listener.local_addr().unwrap());
    Place { address, listener, control, node: None, directory, asks: false }
}

/// What a node at this place asks with.
fn ask_options(place: &Place) -> AskOptions {
    let mut options = AskOptions::new(place.address.clone(), Formats::up_to(FormatVersion::new(1)));
    // Where nobody runs, a listener waits all the same.
    options.timeouts = Timeouts { call: Duration::from_millis(500), ..transport_timeouts() };
    options
}

const fn transport_timeouts() -> Timeouts {
    Timeouts {
        connect: Duration::from_millis(300),
        silence: Duration::from_millis(600),
        call: Duration::from_millis(1_500),
        pause_min: Duration::from_millis(10),
        pause_max: Duration::from_millis(100),
    }
}

/// A place for a node that no node knows, and that knows none.
pub(crate) struct Joiner {
    place: Place,
    pub(crate) options: AskOptions,
}

impl Joiner {
    /// Asks these.
    pub(crate) async fn ask(
        &self,
        seeds: &[NodeAddress],
        patience: Duration,
    ) -> Result<Membership, JoinError> {
        Membership::join(&self.place.directory, &self.options, seeds, patience).await
    }
}

impl Cluster {
    /// So many nodes, which all serve.
    pub(crate) fn start(nodes: u32, replicas: usize) -> Self {
        Self::start_with(nodes, replicas, Duration::from_secs(20))
    }

    fn without_nodes(replicas: usize, waits: Waits) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        tables().declare(texts::TABLE, texts::schema()).unwrap();
        Self {
            places: Vec::new(),
            told: 0,
            joiners: 0,
            replicas,
            waits,
            copied_bytes_a_second: None,
            expects_ages: false,
            directory: tempfile::tempdir().unwrap(),
            runtime,
        }
    }

    /// One node that has founded a cluster, and was told of no other.
    pub(crate) fn found(replicas: usize) -> Self {
        let mut cluster = Self::without_nodes(replicas, Waits::short(Duration::from_secs(20)));
        let directory = cluster.directory.path().join("n1");
        std::fs::create_dir_all(&directory).unwrap();
        let mut first = place(1, directory.clone());
        first.asks = true;
        let founded = Membership::found(&directory, CLUSTER, first.address.clone(), replicas, 1_024);
        cluster.places.push(first);
        cluster.begin_member(1, &founded.unwrap());
        cluster.start_keeper(Founding::Found);
        cluster.settle();
        cluster
    }

    /// As [`start`](Self::start), of nodes that wait so long for others.
    pub(crate) fn start_with(nodes: u32, replicas: usize, serve: Duration) -> Self {
        Self::start_waiting(nodes, replicas, Waits::short(serve))
    }

    /// As [`start`](Self::start), where nobody is to be taken for gone.
    pub(crate) fn start_patient(nodes: u32, replicas: usize) -> Self {
        Self::start_waiting(nodes, replicas, Waits::long())
    }

    /// As [`start`](Self::start), of nodes that wait so long for each other.
    pub(crate) fn start_waiting(nodes: u32, replicas: usize, waits: Waits) -> Self {
        let mut cluster = Self::without_nodes(replicas, waits);
        for number in 1..=nodes {
            let directory = cluster.directory.path().join(format!("n{number}"));
            cluster.places.push(place(number, directory));
        }
        cluster.told = cluster.places.len();
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
        self.places[number as usize - 1].directory.clone()
    }

    pub(crate) fn address(&self, number: u32) -> NodeAddress {
        self.places[number as usize - 1].address.clone()
    }

    fn options(&self, number: u32) -> NodeOptions {
        let places = self.places.iter().take(self.told).map(|place| place.address.clone());
        let known: Vec<(NodeId, NodeAddress)> = (1..).map(NodeId::new).zip(places).collect();
        let (node, address) = known[number as usize - 1].clone();
        let formats = Formats::up_to(FormatVersion::new(1));
        let mut transport = TransportOptions::new(node, address, CLUSTER, formats);
        transport.timeouts = self.waits.transport;
        let mut options = NodeOptions::new(transport, known, tables());
        options.replicas = self.replicas;
        self.with_own_times(options)
    }

    fn with_own_times(&self, mut options: NodeOptions) -> NodeOptions {
        options.dictionaries = vec![CITY];
        options.copied_bytes_a_second = self.copied_bytes_a_second;
        options.expects_ages = self.expects_ages;
        options.append_window_bytes = APPEND_WINDOW_BYTES;
        options.rounds = RoundOptions { log_bytes: 0, pause: Duration::ZERO };
        options.timeouts = ClusterTimeouts {
            resend: self.waits.resend,
            alive: Duration::from_millis(60),
            silence: self.waits.silence,
            serve: self.waits.serve,
            read: Duration::from_secs(20),
        };
        options
    }

    /// Starts a node on what its directory has.
    pub(crate) fn begin(&mut self, number: u32) {
        if self.at(number).asks {
            return self.begin_again(number).unwrap();
        }
        let directory = self.directory(number);
        std::fs::create_dir_all(&directory).unwrap();
        self.begin_with(number, self.options(number));
    }

    fn begin_with(&mut self, number: u32, options: NodeOptions) {
        let (directory, handle) = (self.directory(number), self.runtime.handle().clone());
        let listener = self.at(number).listener.try_clone().unwrap();
        let node = Node::start(options, listener, &handle, &directory, Durability::Synced).unwrap();
        self.at(number).node = Some(node);
    }

    /// Starts a node that has joined: it asks those that it knows where all are by now.
    pub(crate) fn begin_again(&mut self, number: u32) -> Result<(), JoinError> {
        let place = self.at(number);
        let (directory, asked_with) = (place.directory.clone(), ask_options(place));
        let joining = Membership::join(&directory, &asked_with, &[], PATIENCE);
        let membership = self.runtime.block_on(joining)?;
        assert_eq!(membership.node, NodeId::new(number));
        self.begin_member(number, &membership);
        Ok(())
    }

    fn begin_member(&mut self, number: u32, membership: &Membership) {
        let mut transport = membership.transport(&ask_options(self.at(number)));
        transport.timeouts = self.waits.transport;
        let options = NodeOptions::of_member(membership, transport, tables());
        assert_eq!(options.replicas, self.replicas, "it is told how many there are");
        self.begin_with(number, self.with_own_times(options));
    }

    /// A place for a node that is to join.
    pub(crate) fn joiner(&mut self) -> Joiner {
        self.joiners += 1;
        let directory = self.directory.path().join(format!("joiner {}", self.joiners));
        std::fs::create_dir_all(&directory).unwrap();
        // No other node is at its address.
        let mut place = place(100 + self.joiners, directory);
        place.asks = true;
        Joiner { options: ask_options(&place), place }
    }

    /// Nodes join, all at once, through these; gives their numbers.
    pub(crate) fn join(&mut self, joiners: Vec<Joiner>, through: &[u32]) -> Vec<u32> {
        let seeds: Vec<NodeAddress> = through.iter().map(|number| self.address(*number)).collect();
        let asking = joiners.iter().map(|joiner| joiner.ask(&seeds, PATIENCE));
        let memberships = self.runtime.block_on(futures::future::try_join_all(asking)).unwrap();
        let mut joined: Vec<(Membership, Joiner)> = memberships.into_iter().zip(joiners).collect();
        joined.sort_by_key(|(membership, _)| membership.node);
        let mut numbers = Vec::new();
        for (membership, joiner) in joined {
            let number = membership.node.get();
            assert_eq!(number as usize, self.places.len() + 1, "numbers are given in order");
            assert_eq!(membership.cluster, CLUSTER, "it is told which cluster it is");
            self.places.push(joiner.place);
            self.begin_member(number, &membership);
            numbers.push(number);
        }
        numbers
    }

    /// A node that has joined is at another address when it starts again.
    pub(crate) fn move_away(&mut self, number: u32) {
        let directory = self.directory(number);
        assert!(self.at(number).node.is_none() && self.at(number).asks);
        *self.at(number) = place(200 + number, directory);
        self.at(number).asks = true;
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
        self.runtime.block_on(self.node(1).start_keeper(founding, 1)).unwrap();
    }

    /// The server of another node is the primary by now, in a term of this number, and has the keeper.
    pub(crate) fn move_keeper(&self, number: u32, term: u64) {
        self.runtime.block_on(self.node(number).start_keeper(Founding::GoOn, term)).unwrap();
        let is_there = |node: &Node| node.status().is_some_and(|status| status.keeper == NodeId::new(number));
        wait_until("all know where the keeper is", || self.running().iter().all(is_there));
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
