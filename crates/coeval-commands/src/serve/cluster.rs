// SPDX-License-Identifier: Apache-2.0
//! A server that is a node of a cluster, over whose nodes brick tables are spread.
//!
//! ```text
//!   DIR/cluster/settings      what is fixed: cluster, number, replicas
//!              tables         which tables were seen, and when
//!              epochs-*.log   the node's log; bricks-*.rows what it has flushed
//!              views.log      on the first node: who takes part, for all
//! ```
//! Two kinds of threads, besides those of queries: a few for the node, which send, answer and say that it lives, since one that says nothing
//! for three seconds is taken for gone; and as many as there are cores for what statements have it do: rows are packed, unpacked and
//! spelled there, which takes its time.
//!
//! Order of the end: sessions, then the node, then the database.

mod declarations;
mod errors;
mod own_node;
mod reading;
mod settings;
mod working;
mod writing;

use crate::arguments::{ListedNode, ServeArguments, ServedNodeArguments};
use crate::failure::Failure;
use coeval::Database;
use coeval_cluster::{
    Certificates, ClusterId, Durability, FormatVersion, Formats, Founding, LogError, Node, NodeAddress,
    NodeId, NodeOptions, Security, StartError, Tables, TransportOptions,
};
use declarations::{Declarations, Fate};
use own_node::{OwnNode, Stage};
use settings::{Foundation, NodeSettings, STRIDE, Settled};
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use writing::Place;

/// The node's folder in the database's directory.
const FOLDER: &str = "cluster";
/// Threads of a node: one may be held up for a moment while the other one sends and answers.
const NODE_THREADS: usize = 2;
/// How often the published world is looked at for tables that have come or gone.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// How long the node's tasks may take to end.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// A server that begins again at the same address may find the one before not quite gone.
const BIND_PATIENCE: Duration = Duration::from_secs(2);

/// A node that runs, or is about to. It ends when this is dropped, which is not within a runtime, and takes seconds at most.
pub(super) struct Clustering {
    node: Arc<OwnNode>,
    /// Those of the node, and those of statements' work. Ended last of all.
    threads: Option<(Runtime, Runtime)>,
}

/// All that it takes to start the node.
struct Start {
    options: NodeOptions,
    listener: TcpListener,
    directory: PathBuf,
    settings: NodeSettings,
    foundation: Foundation,
    /// The node's threads.
    threads: Handle,
}

/// Why the node has not started.
enum NotStarted {
    /// It has rows of a table that is about to come.
    Waits(u64),
    Failed(String),
}

/// Begins to be a node, if the command line says so.
///
/// # Errors
/// If the command line contradicts itself or what is fixed, or the node cannot be started. What the directory has is as it was.
pub(super) fn begin(arguments: &ServeArguments, database: &Database) -> Result<Option<Clustering>, Failure> {
    let (Some(listen), Some(dir)) = (&arguments.node.cluster, &arguments.dir) else { return Ok(None) };
    let nodes = nodes(&arguments.node)?;
    let own = own(&arguments.node, listen, &nodes)?;
    let directory = dir.join(FOLDER);
    let store = database.engine().store().clone();
    let asked = NodeSettings {
        cluster: store.terms().database_id(),
        node: own.number,
        stride: STRIDE,
        replicas: arguments.node.cluster_replicas,
    };
    let security = security(&arguments.node, listen, &nodes)?;
    let (settings, foundation) = settle(&directory, asked, arguments, &nodes)?;
    let failed = |error: &dyn std::fmt::Display| Failure::work("cannot be a node of a cluster", error);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let tables = Tables::start(cores).map_err(|error| failed(&error))?;
    let declarations = Arc::new(Declarations::open(store, tables.clone(), &directory)?);
    declarations.follow().map_err(|error| failed(&error))?;
    let options = options(&settings, &own, nodes, security, tables);
    let listener = listener(listen)?;
    let of_node = threads("coeval-cluster", NODE_THREADS)?;
    let of_work = threads("coeval-spread", cores.max(2))?;
    let node = Arc::new(own_node(&options, Arc::clone(&declarations), of_work.handle().clone()));
    database.engine().set_cluster(Arc::<OwnNode>::clone(&node));
    let node_threads = of_node.handle().clone();
    let start = Start { options, listener, directory, settings, foundation, threads: node_threads.clone() };
    eprintln!("Node {} of a cluster, at {}", own.number, own.address);
    let clustering = Clustering { node: Arc::clone(&node), threads: Some((of_node, of_work)) };
    match attempt(&start, &declarations) {
        Ok(started) => node_threads.spawn(run(start, started, node)),
        Err(NotStarted::Waits(table)) => {
            tracing::info!(table, "the node waits for the definition of a table that it has rows of");
            node_threads.spawn(start_later(start, node))
        }
        Err(NotStarted::Failed(why)) => return Err(failed(&why)),
    };
    node_threads.spawn(follow_tables(declarations));
    Ok(Some(clustering))
}

fn threads(name: &str, count: usize) -> Result<Runtime, Failure> {
    let built = Builder::new_multi_thread().worker_threads(count).thread_name(name).enable_all().build();
    built.map_err(|error| Failure::work("cannot start threads for a node of a cluster", error))
}

/// A server that does not come to listen ends its node too.
impl Drop for Clustering {
    fn drop(&mut self) {
        let Some((of_node, of_work)) = self.threads.take() else { return };
        let before = self.node.stage.send_replace(Stage::Ended("the server ends".to_owned()));
        if let Stage::Runs(node) = before {
            of_node.block_on(node.stop());
        }
        of_work.shutdown_timeout(END_PATIENCE);
        of_node.shutdown_timeout(END_PATIENCE);
    }
}

/// Where the nodes of the cluster are, this one among them. The first one has the keeper of views.
///
/// # Errors
/// If two have one number or one address, or one of them has a number that there is none of.
fn nodes(arguments: &ServedNodeArguments) -> Result<Vec<ListedNode>, Failure> {
    let nodes = &arguments.cluster_nodes;
    for (place, node) in nodes.iter().enumerate() {
        let ListedNode { number, address } = node;
        if *number > STRIDE {
            return Err(Failure::Usage(format!("--cluster-nodes: nodes have numbers up to {STRIDE}")));
        }
        if let Some(other) = nodes[..place].iter().find(|other| other.number == *number) {
            let message = format!("--cluster-nodes: {} and {address} are both node {number}", other.address);
            return Err(Failure::Usage(message));
        }
        if let Some(other) = nodes[..place].iter().find(|other| other.address == *address) {
            let message =
                format!("--cluster-nodes: nodes {} and {number} are both at {address}", other.number);
            return Err(Failure::Usage(message));
        }
    }
    Ok(nodes.clone())
}

/// Which of the nodes this one is.
fn own(
    arguments: &ServedNodeArguments,
    listen: &NodeAddress,
    nodes: &[ListedNode],
) -> Result<ListedNode, Failure> {
    let (own, why) = match arguments.cluster_node {
        Some(number) => (
            nodes.iter().find(|node| node.number == number),
            format!("--cluster-nodes has no node {number}, which --cluster-node says"),
        ),
        None => (
            nodes.iter().find(|node| node.address == *listen),
            format!("--cluster-nodes has no node at {listen}: --cluster-node says which one this is"),
        ),
    };
    own.cloned().ok_or(Failure::Usage(why))
}

/// How connections are protected: by certificates, or by nobody else being able to come.
fn security(
    arguments: &ServedNodeArguments,
    listen: &NodeAddress,
    nodes: &[ListedNode],
) -> Result<Security, Failure> {
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
    let addresses = nodes.iter().map(|node| &node.address);
    match addresses.chain([listen]).find(|address| !is_here(address)) {
        None => Ok(Security::LoopbackOnly),
        Some(address) => Err(Failure::Usage(format!(
            "{address} is not on this machine: --cluster-certificates names a directory with ca.crt, node.crt and node.key, by which \
             nodes prove to each other who they are"
        ))),
    }
}

/// What is fixed of this node: as it was, or from here on.
fn settle(
    directory: &Path,
    asked: NodeSettings,
    arguments: &ServeArguments,
    nodes: &[ListedNode],
) -> Result<(NodeSettings, Foundation), Failure> {
    if let Settled::Node(settings, foundation) = settings::read(directory)? {
        settings.check(&asked)?;
        return Ok((settings, foundation));
    }
    let is_first = nodes.first().is_some_and(|first| first.number == asked.node);
    match (is_first, arguments.replica_of.is_some()) {
        (true, true) => Err(Failure::Usage(
            "the first of --cluster-nodes is the primary when the cluster is made: it follows nobody (--replica-of)".to_owned(),
        )),
        // Another database is not this one's copy, whatever is in it.
        (false, false) => Err(Failure::Usage(
            "all but the first of --cluster-nodes begin as replicas of the primary: --replica-of says where that is".to_owned(),
        )),
        _ if asked.cluster == 0 => {
            let message = "the database has no id yet, from which nodes know each other: start its server once without --cluster";
            Err(Failure::Work(message.to_owned()))
        }
        _ => {
            let written = settings::make_directory(directory)
                .and_then(|()| asked.write(directory, Foundation::Pending));
            written.map_err(|error| Failure::work(format_args!("cannot write {}", directory.display()), error))?;
            Ok((asked, Foundation::Pending))
        }
    }
}

fn options(
    settings: &NodeSettings,
    own: &ListedNode,
    nodes: Vec<ListedNode>,
    security: Security,
    tables: Tables,
) -> NodeOptions {
    let formats = Formats::up_to(FormatVersion::new(coeval::FORMAT_VERSION));
    let (number, cluster) = (NodeId::new(own.number), ClusterId::new(settings.cluster));
    let mut transport = TransportOptions::new(number, own.address.clone(), cluster, formats);
    transport.security = security;
    let nodes = nodes.into_iter().map(|node| (NodeId::new(node.number), node.address)).collect();
    let mut options = NodeOptions::new(transport, nodes, tables);
    options.replicas = settings.replicas as usize;
    options.stride = settings.stride;
    options
}

fn listener(listen: &NodeAddress) -> Result<TcpListener, Failure> {
    let bound = super::within(BIND_PATIENCE, || TcpListener::bind((listen.host(), listen.port())));
    bound.map_err(|error| Failure::work(format_args!("cannot listen on {listen} for other nodes"), error))
}

/// `threads` are those of statements' work.
fn own_node(options: &NodeOptions, declarations: Arc<Declarations>, threads: Handle) -> OwnNode {
    let keeper = options.nodes.iter().find(|(node, _)| *node == options.keeper);
    let keeper = keeper.expect("the keeper is on one of the nodes").clone();
    OwnNode {
        number: options.transport.node,
        nodes: options.nodes.clone(),
        replicas: options.replicas,
        patience: options.timeouts.serve,
        stage: watch::Sender::new(Stage::Starting),
        declarations,
        place: Place { threads, keeper },
    }
}

/// Starts the node, if all tables are declared that it has rows of. Reads its log.
fn attempt(start: &Start, declarations: &Declarations) -> Result<Node, NotStarted> {
    let failed = |error: &dyn std::fmt::Display| NotStarted::Failed(error.to_string());
    loop {
        let listener = start.listener.try_clone().map_err(|error| failed(&error))?;
        let options = start.options.clone();
        match Node::start(options, listener, &start.threads, &start.directory, Durability::Synced) {
            Ok(node) => return Ok(node),
            Err(StartError::Log(LogError::NoTable { table, .. })) => {
                match declarations.fate(table).map_err(|error| failed(&error))? {
                    Fate::Declared | Fate::Gone => {}
                    Fate::NotYet => return Err(NotStarted::Waits(table)),
                }
            }
            Err(error) => return Err(failed(&error)),
        }
    }
}

/// Starts the node once definitions of tables have come.
async fn start_later(mut start: Start, node: Arc<OwnNode>) {
    loop {
        tokio::time::sleep(LOOK_PAUSE).await;
        let declarations = Arc::clone(&node.declarations);
        let attempted = tokio::task::spawn_blocking(move || {
            let attempted = attempt(&start, &declarations);
            (start, attempted)
        });
        // A task that has panicked has said so.
        let Ok((again, attempted)) = attempted.await else { return };
        start = again;
        match attempted {
            Ok(started) => return run(start, started, node).await,
            Err(NotStarted::Waits(_)) => {}
            Err(NotStarted::Failed(why)) => {
                tracing::error!(%why, "the node does not start");
                drop(node.stage.send_replace(Stage::Ended(why)));
                return;
            }
        }
    }
}

/// Runs the node that has started, with the keeper if it is here.
async fn run(start: Start, started: Node, node: Arc<OwnNode>) {
    let taken = node.stage.send_if_modified(|stage| {
        let is_starting = matches!(stage, Stage::Starting);
        if is_starting {
            *stage = Stage::Runs(started.clone());
        }
        is_starting
    });
    if !taken {
        // The server has ended meanwhile.
        started.stop().await;
        return;
    }
    if start.options.keeper == node.number
        && let Err(error) = start_keeper(&start, &started).await
    {
        tracing::error!(%error, "the keeper of views does not start: nobody joins, and nobody leaves");
    }
    match started.serves().await {
        Ok(()) => tracing::info!(node = node.number.get(), "the node takes part in the cluster"),
        Err(error) => tracing::warn!(%error, "the node does not take part in the cluster yet"),
    }
}

/// Starts the keeper of views: founds the cluster the first time. That it was founded is written down behind it, so a crash in between
/// finds records, and goes on with them; a log that is lost later is not taken for a new cluster.
async fn start_keeper(start: &Start, node: &Node) -> Result<(), StartError> {
    let founding = match start.foundation {
        Foundation::Pending => Founding::Found,
        Foundation::Laid => Founding::GoOn,
    };
    match node.start_keeper(founding, &start.directory).await {
        Err(StartError::Founded) if founding == Founding::Found => {
            node.start_keeper(Founding::GoOn, &start.directory).await?;
        }
        started => started?,
    }
    if start.foundation == Foundation::Pending
        && let Err(error) = start.settings.write(&start.directory, Foundation::Laid)
    {
        tracing::warn!(%error, "it is not written down that the cluster is founded: the next start looks again");
    }
    Ok(())
}

/// Tells the node of tables that come and go, until the runtime ends.
async fn follow_tables(declarations: Arc<Declarations>) {
    loop {
        tokio::time::sleep(LOOK_PAUSE).await;
        let looked = Arc::clone(&declarations);
        match tokio::task::spawn_blocking(move || looked.follow()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "a new table cannot be noted: no rows of it are taken here")
            }
            // It has panicked, which was said, or the server ends.
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests;
