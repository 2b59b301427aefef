// SPDX-License-Identifier: Apache-2.0
//! Nodes in one process, on addresses of the loopback, with real sockets between them.

use super::loopback_table::loopback_tables;
use super::node::Node;
use super::options::NodeOptions;
use super::status::NodeStatus;
use crate::keeper::Founding;
use crate::log::{Durability, LogError};
use crate::node::{ClusterId, FormatVersion, NodeId};
use crate::node_address::NodeAddress;
use crate::start_error::StartError;
use crate::transport::{ConfigurationError, Formats, TransportOptions};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// So many nodes that all serve, with the keeper on the first one and their logs under `directory`. Durability is off.
pub(crate) async fn start_on_loopback(
    nodes: u32,
    replicas: usize,
    directory: &Path,
    runtime: &Handle,
) -> Result<Vec<Node>, StartError> {
    start_on_loopback_with(nodes, replicas, directory, runtime, |_| {}).await
}

/// As [`start_on_loopback`], each node with options that were changed.
pub(super) async fn start_on_loopback_with(
    nodes: u32,
    replicas: usize,
    directory: &Path,
    runtime: &Handle,
    change: impl Fn(&mut NodeOptions),
) -> Result<Vec<Node>, StartError> {
    let mut places = Vec::new();
    for number in 1..=nodes {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(ConfigurationError::Listener)?;
        let address = listener.local_addr().map_err(ConfigurationError::Listener)?;
        let address: NodeAddress = address.to_string().parse().expect("the system gives addresses");
        places.push((NodeId::new(number), address, listener));
    }
    let known: Vec<_> = places.iter().map(|(node, address, _)| (*node, address.clone())).collect();
    let mut nodes = Vec::new();
    for (number, address, listener) in places {
        let formats = Formats::up_to(FormatVersion::new(1));
        let transport = TransportOptions::new(number, address, ClusterId::new(1), formats);
        let tables = loopback_tables().map_err(StartError::Threads)?;
        let mut told = NodeOptions::new(transport, known.clone(), tables);
        told.replicas = replicas;
        change(&mut told);
        let own = directory.join(format!("n{}", number.get()));
        std::fs::create_dir_all(&own).map_err(|error| LogError::File { path: own.clone(), error })?;
        let node = Node::start(told, listener, runtime, &own, Durability::Off)?;
        if nodes.is_empty() {
            node.start_keeper(Founding::Found, 1).await?;
        }
        nodes.push(node);
    }
    for node in &nodes {
        settled(node, &nodes).await?;
    }
    Ok(nodes)
}

/// Waits until a node has all others in its view, and their bricks are where they belong.
async fn settled(node: &Node, nodes: &[Node]) -> Result<(), StartError> {
    let (begun, after) = (Instant::now(), Duration::from_secs(30));
    while begun.elapsed() < after {
        let is_settled = |status: NodeStatus| status.members.len() == nodes.len() && !status.is_moving;
        if node.status().is_some_and(is_settled) {
            return node.serves().await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(StartError::TimedOut { after })
}
