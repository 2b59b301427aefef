// SPDX-License-Identifier: Apache-2.0
//! The command line of a node of a cluster, and of who asks one.

use super::asked::AskedArguments;
use super::{OF_ITS_PROGRAM, directory_alone};
use clap::{Args, Subcommand};
use coeval_cluster::NodeAddress;
use std::path::PathBuf;

/// More would only slow loads.
const REPLICAS_MAX: i64 = 16;

/// See the help of each.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServedNodeArguments {
    /// Be a node of a cluster, over whose nodes brick tables are spread, and listen there for the others. The first time, a primary makes
    /// the cluster, and a replica of it (--replica-of) joins with --join; later the directory says all that. Without
    /// --cluster-certificates that is an address of the loopback
    #[arg(long, value_name = "HOST:PORT", requires = "dir", conflicts_with_all = ["in_memory", "salvage"])]
    pub(crate) cluster: Option<NodeAddress>,
    /// Join the cluster of the node there, or of whichever of several answers; each of them will do. Later these are asked as well
    /// where the others are, which is needed only if all of them have moved
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', requires = "cluster")]
    pub(crate) join: Vec<NodeAddress>,
    /// Where the others reach this node, if it listens at another address: behind a forwarded port, or on all addresses
    #[arg(long, value_name = "HOST:PORT", requires = "cluster")]
    pub(crate) cluster_address: Option<NodeAddress>,
    /// On how many nodes each brick is, so that one fewer may be lost at once: 2 if not given. Said when the cluster is made, and fixed
    /// from then on
    #[arg(
        long,
        value_name = "N",
        requires = "cluster",
        conflicts_with = "join",
        value_parser = clap::value_parser!(u32).range(1..=REPLICAS_MAX)
    )]
    pub(crate) cluster_replicas: Option<u32>,
    /// The directory with what nodes prove to each other who they are by: ca.crt, the authority that vouches for all of them, node.crt
    /// for the host of this one, and node.key, which nobody else may read (PEM)
    #[arg(long, value_name = "DIR", requires = "cluster")]
    pub(crate) cluster_certificates: Option<PathBuf>,
    /// Acknowledge loads that are on no disk: for `coeval bench cluster`, which measures what is left of their time then
    #[arg(long, hide = true, requires = "cluster")]
    pub(crate) without_cluster_sync: bool,
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
    Check(ClusterCheckArguments),
    Drain(ClusterDrainArguments),
    Remove(ClusterRemoveArguments),
    Recover(ClusterRecoverArguments),
}

/// Which node's server is asked.
#[derive(Debug, Args)]
pub(crate) struct AskedNodeArguments {
    /// The database directory of a node that is served on this machine
    #[arg(value_name = "DIR", required_unless_present = "server", value_parser = directory_alone(OF_ITS_PROGRAM))]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) asked: AskedArguments,
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
    #[command(flatten)]
    pub(crate) at: AskedNodeArguments,
}

/// Look whether all replicas of each brick have the same rows, in one snapshot
///
/// All nodes that serve a brick are asked for its rows, and these compared on the node that is asked, while loads and queries go on. It
/// takes its time: all rows of spread tables come there, once for each replica. Where replicas differ, the brick and the nodes are
/// named. Row tables are compared by `coeval check --replica`.
#[derive(Debug, Args)]
#[command(after_help = "\
The exit code is 0 if all replicas agree, and 1 if some differ or cannot be read.

Examples:
  coeval cluster check my-data
  coeval cluster check --server host=db1,user=app --password-file secret")]
pub(crate) struct ClusterCheckArguments {
    #[command(flatten)]
    pub(crate) at: AskedNodeArguments,
}

/// Have a node give its bricks to the others, and get no more of them, so that it can be stopped or removed
///
/// Loads and queries go on. The node with the keeper of views is asked; another one says which that is. This ends as soon as it is
/// written down; `coeval cluster status` shows the node as drained once its bricks are elsewhere.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval cluster drain n2 my-data
  coeval cluster drain n2 --server host=db1,user=app --password-file secret")]
pub(crate) struct ClusterDrainArguments {
    /// The node, by its number
    #[arg(value_name = "NODE", value_parser = node_number)]
    pub(crate) node: u32,
    #[command(flatten)]
    pub(crate) at: AskedNodeArguments,
}

/// Have a node be out of the cluster for good, whether it runs or not: nobody waits for it, and its number is not used again
///
/// It is refused as long as some bricks might be on that node alone: drain it first, or wait until the others have copied what it
/// had. The node with the keeper of views is asked, and cannot be removed itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval cluster remove n3 my-data
  coeval cluster remove n3 --server host=db1,user=app --password-file secret")]
pub(crate) struct ClusterRemoveArguments {
    /// The node, by its number
    #[arg(value_name = "NODE", value_parser = node_number)]
    pub(crate) node: u32,
    #[command(flatten)]
    pub(crate) at: AskedNodeArguments,
}

/// Go on without nodes whose machines are lost for good, when too few others are left for the keeper of views to begin
///
/// Asked at the new primary, once it is promoted. The keeper goes on from the newest list of who takes part that the other nodes have,
/// all of which have to answer; the lost nodes are out for good. Loads that were acknowledged after that, when only lost nodes took
/// part, are given up. It is refused if as many nodes are lost as each brick has replicas. Never start a lost node again with its
/// directory: while it reaches no other node, it could go on by itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval cluster recover n1 my-data --accept-loss
  coeval cluster recover n1,n3 my-data --accept-loss
  coeval cluster recover n1 --accept-loss --server host=db2,user=app --password-file secret")]
pub(crate) struct ClusterRecoverArguments {
    /// The lost nodes, by their numbers
    #[arg(value_name = "NODE,...", value_parser = node_numbers)]
    pub(crate) nodes: NodeNumbers,
    #[command(flatten)]
    pub(crate) at: AskedNodeArguments,
    /// What only the lost nodes have seen may be given up; nothing is done without this option
    #[arg(long)]
    pub(crate) accept_loss: bool,
}

/// Numbers of nodes, one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeNumbers(pub(crate) Vec<u32>);

/// Numbers of nodes, as 1 or n1,n3.
fn node_numbers(text: &str) -> Result<NodeNumbers, String> {
    text.split(',').map(node_number).collect::<Result<Vec<u32>, String>>().map(NodeNumbers)
}

/// A node's number, as 2 or n2.
fn node_number(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix('n').unwrap_or(text).parse::<u32>().ok();
    let number = number.filter(|number| *number > 0);
    number.ok_or_else(|| "nodes have numbers from 1 on, as in n2".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_by_its_number() {
        assert_eq!((node_number("2"), node_number("n1024")), (Ok(2), Ok(1_024)));
        for text in ["", "n", "0", "n0", "-1", "nn2", "two"] {
            assert!(node_number(text).is_err(), "{text:?}");
        }
        assert_eq!(node_numbers("n1,3"), Ok(NodeNumbers(vec![1, 3])));
        assert!(node_numbers("n1,").is_err());
    }
}
