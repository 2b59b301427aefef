// SPDX-License-Identifier: Apache-2.0
//! The command line of a node of a cluster, and of who asks one.

use super::asked::AskedArguments;
use clap::{Args, Subcommand};
use coeval_cluster::NodeAddress;
use std::path::PathBuf;

/// How many replicas each brick has if nothing is said.
const REPLICAS: u32 = 2;
/// More would only slow loads.
const REPLICAS_MAX: i64 = 16;

/// See the help of each.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServedNodeArguments {
    /// Be a node of a cluster, over whose nodes brick tables are spread, and listen there for the others. The first of --cluster-nodes
    /// is the primary; each other one follows it as well (--replica-of). Without --cluster-certificates that is an address of the
    /// loopback
    #[arg(
        long,
        value_name = "HOST:PORT",
        requires = "cluster_nodes",
        requires = "dir",
        conflicts_with_all = ["in_memory", "salvage"]
    )]
    pub(crate) cluster: Option<NodeAddress>,
    /// All nodes, as in 1@db1:7001,2@db2:7001: the number of each, which it keeps for ever, and where the others reach it. The same on
    /// all of them
    #[arg(long, value_name = "N@HOST:PORT,...", value_delimiter = ',', value_parser = listed_node, requires = "cluster")]
    pub(crate) cluster_nodes: Vec<ListedNode>,
    /// Which of them this one is, if it listens at another address than the one that the others reach it by
    #[arg(long, value_name = "N", requires = "cluster", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cluster_node: Option<u32>,
    /// On how many nodes each brick is, so that one fewer may be lost at once. Fixed when the cluster is made, and the same on all nodes
    #[arg(long, value_name = "N", requires = "cluster", default_value_t = REPLICAS, value_parser = clap::value_parser!(u32).range(1..=REPLICAS_MAX))]
    pub(crate) cluster_replicas: u32,
    /// The directory with what nodes prove to each other who they are by: ca.crt, the authority that vouches for all of them, node.crt
    /// for the host of this one, and node.key, which nobody else may read (PEM)
    #[arg(long, value_name = "DIR", requires = "cluster")]
    pub(crate) cluster_certificates: Option<PathBuf>,
}

/// A node of a cluster as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedNode {
    /// Its number.
    pub(crate) number: u32,
    /// Where the others reach it.
    pub(crate) address: NodeAddress,
}

fn listed_node(text: &str) -> Result<ListedNode, String> {
    let (number, address) = text
        .split_once('@')
        .ok_or("a number and an address with @ between them are wanted, as in 1@db1:7001")?;
    let number = number.parse::<u32>().ok().filter(|number| *number > 0);
    let number = number.ok_or("nodes have numbers from 1 on")?;
    let address = address.parse::<NodeAddress>().map_err(|error| error.to_string())?;
    Ok(ListedNode { number, address })
}

/// Look after a cluster, over whose nodes brick tables are spread
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
}

/// What to do about a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    Status(ClusterStatusArguments),
}

/// List the nodes, as one of them knows them: who takes part, whose bricks are on their way, and why one cannot be reached
///
/// The server of a node is asked: the one that has the directory open, found by what it has written there, or the one that --server
/// names.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval cluster status my-data
  coeval cluster status --server host=db1,user=app --password-file secret")]
pub(crate) struct ClusterStatusArguments {
    /// The database directory of a node that is served on this machine
    #[arg(value_name = "DIR", required_unless_present = "server")]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) asked: AskedArguments,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_number_and_an_address() {
        let node = listed_node("3@db3.example:7001").unwrap();
        assert_eq!((node.number, node.address.to_string()), (3, "db3.example:7001".to_owned()));
        for (text, what) in [
            ("db3:7001", "@"),
            ("0@db3:7001", "from 1 on"),
            ("-1@db3:7001", "from 1 on"),
            ("n3@db3:7001", "from 1 on"),
            ("3@db3", "no port"),
        ] {
            let refused = listed_node(text).unwrap_err();
            assert!(refused.contains(what), "{text}: {refused}");
        }
    }
}
