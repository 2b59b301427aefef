// SPDX-License-Identifier: Apache-2.0
//! A server that is a node of a cluster, over whose nodes brick tables are spread.
//!
//! ```text
//!   DIR/cluster/membership.log  which node this is, of which cluster, and where the others are
//!              founding         while the cluster is being made
//!              tables           which tables were seen, and when
//!              epochs-*.log     the node's log; bricks-*.rows what it has flushed
//!              held.log         who takes part: what keepers of views have recorded, as this node holds it for them
//!              restored/        rows of spread tables that a restore has brought, until they are loaded
//! ```
//! Two kinds of threads, besides those of queries: a few for the node, which send, answer and say that it lives, since one that says nothing
//! for three seconds is taken for gone; and as many as there are cores for what statements have it do: rows are packed, unpacked and
//! spelled there, which takes its time.
//!
//! A node that is removed from its cluster ends, and says so; its server goes on with row tables, and statements on spread
//! tables are told to go elsewhere.
//!
//! The keeper of views is beside the primary: whichever server opens its database as one starts it, in the term that this opening
//! has begun, also when it was promoted just now. One that runs on elsewhere learns from the nodes that it is over.
//!
//! Order of the end: sessions, then the node, then the database.

mod ages;
mod belonging;
mod comparing;
mod declarations;
mod errors;
mod folder;
mod own_node;
mod part_writer;
mod pieces;
mod reading;
mod restored;
mod spread_source;
#[cfg(test)]
mod trial_node;
mod working;
mod writing;

use crate::arguments::ServeArguments;
use crate::failure::Failure;
use belonging::Role;
use coeval::{Database, Store};
use coeval_archive::SpreadSource;
use coeval_cluster::{
    Durability, Epoch, Founding, LogError, Node, NodeAddress, NodeOptions, RowTransactions, StartError,
    Tables,
};
use declarations::{Declarations, Fate};
use own_node::{OwnNode, Stage};
use pieces::EngineRunner;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use writing::Place;

/// How many nodes epochs are handed out for, in clusters that are made now.
const STRIDE: u32 = 1_024;
/// The node's folder in the database's directory.
const FOLDER: &str = "cluster";
/// Threads of a node: one may be held up for a moment while the other one sends and answers.
const NODE_THREADS: usize = 2;
/// How often the published world is looked at for tables that have come or gone.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// A node that has waited for so long for the definition of a table says what may be behind it.
const WAIT_SAID: Duration = Duration::from_secs(30);
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

impl Clustering {
    /// The node, for backups.
    pub(super) fn source(&self) -> Arc<dyn SpreadSource> {
        Arc::<OwnNode>::clone(&self.node)
    }
}

/// All that it takes to start the node.
struct Start {
    options: NodeOptions,
    listener: TcpListener,
    directory: PathBuf,
    /// Of the keeper, if it is here.
    founding: Founding,
    /// Whether loads wait for the disk.
    durability: Durability,
    /// The database.
    store: Store,
    /// The number of the primary's term, if this is it: the keeper is here then.
    term: Option<u64>,
    /// The node's threads.
    threads: Handle,
}

/// Why the node has not started.
enum NotStarted {
    /// It has rows of a table that is about to come.
    Waits(u64),
    Failed(String),
}

/// For so long a replica waits for the first record of its primary's log.
const ID_PATIENCE: Duration = Duration::from_secs(10);

/// The number of the database; 0 if it is not known. A replica whose copy was made before the database had any record learns it with the
/// first one.
fn database_id(store: &Store) -> u64 {
    let began = Instant::now();
    loop {
        let id = store.terms().database_id();
        if id != 0 || !store.is_following() || began.elapsed() >= ID_PATIENCE {
            return id;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Begins to be a node, if the command line says so. What a restore has brought of spread tables is loaded before: that takes its time.
///
/// # Errors
/// If the command line contradicts itself or what is fixed, or the node cannot be started. What the directory has is as it was.
pub(super) fn begin(arguments: &ServeArguments, database: &Database) -> Result<Option<Clustering>, Failure> {
    let Some(dir) = &arguments.dir else { return Ok(None) };
    let Some(listen) = &arguments.node.cluster else {
        restored::remind(dir);
        return Ok(None);
    };
    let directory = dir.join(FOLDER);
    let store = database.engine().store().clone();
    let ask = belonging::ask_options(&arguments.node, listen, database_id(&store))?;
    let is_replica = arguments.replica_of.is_some() || store.is_following();
    let role = if is_replica { Role::Replica } else { Role::Primary };
    // A replica that was promoted still has its command line. One that is salvaged writes nothing, and is no primary.
    let writes = !store.is_following() && !store.is_salvaged();
    let term = writes.then(|| store.terms().last().map_or(0, |term| term.number));
    let failed = |error: &dyn std::fmt::Display| Failure::work("cannot be a node of a cluster", error);
    let listener = listener(listen)?;
    let of_node = threads("coeval-cluster", NODE_THREADS)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let of_work = threads("coeval-spread", cores.max(2))?;
    let node_threads = of_node.handle().clone();
    let (membership, founding) = belonging::belong(&directory, &arguments.node, (&ask, role), &node_threads)?;
    let tables = Tables::start(cores).map_err(|error| failed(&error))?;
    let declarations = Arc::new(Declarations::open(store.clone(), tables.clone(), &directory)?);
    declarations.follow().map_err(|error| failed(&error))?;
    let mut options = NodeOptions::of_member(&membership, membership.transport(&ask), tables);
    options.expects_ages = true;
    let rows = rows_of(&store, founding);
    options.rows = rows.clone();
    let (engine, working) = (Arc::downgrade(database.engine()), of_work.handle().clone());
    options.runner = Some(Arc::new(EngineRunner { engine, threads: working.clone() }));
    let place = Place { threads: working };
    let node = Arc::new(OwnNode {
        number: membership.node,
        nodes: membership.nodes,
        keeper: membership.keeper,
        replicas: membership.replicas,
        patience: options.timeouts.serve,
        stage: watch::Sender::new(Stage::Starting),
        declarations: Arc::clone(&declarations),
        rows,
        place,
    });
    database.engine().set_cluster(Arc::<OwnNode>::clone(&node));
    eprintln!("Node {} of a cluster, at {}", node.number.get(), ask.address);
    node_threads.spawn(ages::keep(store.clone(), Arc::clone(&node)));
    let (durability, threads) = (durability(arguments), node_threads.clone());
    let mut start = Start { options, listener, directory, founding, durability, store, term, threads };
    let clustering = Clustering { node: Arc::clone(&node), threads: Some((of_node, of_work)) };
    // Before anybody can come.
    restored::bring_back(dir, &start, &declarations, &|_| Ok(()))?;
    if !folder::is_founding(&start.directory).map_err(|error| failed(&error))? {
        // That has founded the cluster: ages that rows name by now are its own.
        start.founding = Founding::GoOn;
    }
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

/// Rows say what becomes of loads that they are one transaction with.
fn rows_of(store: &Store, founding: Founding) -> RowTransactions {
    let asked = store.clone();
    let rows = RowTransactions::new(move || newest_named(&asked));
    // Where a cluster is founded, rows name loads of another one.
    if founding == Founding::GoOn
        && let Ok(Some(named)) = store.world().brick_age()
    {
        rows.note_named_before(named);
    }
    rows
}

/// What the newest rows name that stay; nothing if that is not known. Behind a crash there may be rows that too few replicas have, so a
/// failover may lose them: their load is not to be decided by them before they are confirmed. Damage is told by who reads the rows.
fn newest_named(store: &Store) -> Option<Epoch> {
    if store.has_confirmed() { store.world().brick_age().ok().map(Option::unwrap_or_default) } else { None }
}

fn durability(arguments: &ServeArguments) -> Durability {
    if arguments.node.without_cluster_sync {
        tracing::warn!(
            "--without-cluster-sync: what is loaded into spread tables is acknowledged on no disk, for measurements"
        );
        Durability::Off
    } else {
        Durability::Synced
    }
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

fn listener(listen: &NodeAddress) -> Result<TcpListener, Failure> {
    let bound = super::within(BIND_PATIENCE, || TcpListener::bind((listen.host(), listen.port())));
    bound.map_err(|error| Failure::work(format_args!("cannot listen on {listen} for other nodes"), error))
}

/// Starts the node, if all tables are declared that it has rows of. Reads its log.
fn attempt(start: &Start, declarations: &Declarations) -> Result<Node, NotStarted> {
    let failed = |error: &dyn std::fmt::Display| NotStarted::Failed(error.to_string());
    loop {
        let listener = start.listener.try_clone().map_err(|error| failed(&error))?;
        let options = start.options.clone();
        match Node::start(options, listener, &start.threads, &start.directory, start.durability) {
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
    let (begun, mut is_said) = (Instant::now(), false);
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
            Err(NotStarted::Waits(table)) if !is_said && begun.elapsed() >= WAIT_SAID => {
                is_said = true;
                tracing::warn!(
                    table,
                    "the node still waits for the definition of a table that it has rows of: its server has not followed the primary so \
                     far. If a promotion has given the definition up, the wait ends with the first commit of the new primary that comes here"
                );
            }
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
    if let Some(term) = start.term
        && let Err(error) = start_keeper(&start, term, &started).await
    {
        tracing::error!(%error, "the keeper of views does not start: nobody joins, and nobody leaves");
    }
    match started.serves().await {
        Ok(()) => tracing::info!(node = node.number.get(), "the node takes part in the cluster"),
        Err(error) => tracing::warn!(%error, "the node does not take part in the cluster yet"),
    }
    let why = started.ended().await;
    let has_run = node.stage.send_if_modified(|stage| {
        let runs = matches!(stage, Stage::Runs(_));
        if runs {
            *stage = Stage::Ended(why.to_string());
        }
        runs
    });
    if has_run {
        tracing::error!(%why, "the node has ended; the server goes on with what is not spread");
    }
}

/// Starts the keeper of views: founds the cluster the first time. That it was founded is written down behind it, so a crash in between
/// finds records, and goes on with them; a log that is lost later is not taken for a new cluster.
async fn start_keeper(start: &Start, term: u64, node: &Node) -> Result<(), StartError> {
    if start.founding == Founding::Found {
        ages::begin_anew(&start.store).await;
    }
    match node.start_keeper(start.founding, term).await {
        Err(StartError::Founded) if start.founding == Founding::Found => {
            node.start_keeper(Founding::GoOn, term).await?;
        }
        started => started?,
    }
    if start.founding == Founding::Found
        && let Err(error) = folder::end_founding(&start.directory)
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
