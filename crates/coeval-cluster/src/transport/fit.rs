// SPDX-License-Identifier: Apache-2.0
//! Who fits whom: what two greetings must have in common.
//!
//! | what | fits if |
//! |---|---|
//! | protocol | the ranges of versions meet; the newest common one is spoken |
//! | cluster | it is the same |
//! | who was meant | a connection is for the node that it reaches |
//! | formats | each reads what the other writes, since bricks go both ways |
//! | who | a node that is known here, another than this one |
//! | where | at the address that it says, which its certificate has to name (`tls.rs`) |
//! | incarnation | none before the newest that was met: an old process of a node that has started anew is out |
//!
//! The first four depend on the two greetings alone, so that both sides come to the same; texts name both sides and suit both.

use super::greeting::Greeting;
use super::options::ProtocolVersions;
use crate::node::{ClusterId, FormatVersion, Incarnation, NodeId};
use crate::node_address::NodeAddress;

/// In what two nodes do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misfit {
    /// They have no version of the protocol in common.
    #[error(
        "{one} speaks {one_versions} of the protocol between nodes, and {other} speaks {other_versions}: bring the older \
         program up to date"
    )]
    Versions {
        /// A node.
        one: NodeId,
        /// What it speaks.
        one_versions: ProtocolVersions,
        /// The other node.
        other: NodeId,
        /// What that one speaks.
        other_versions: ProtocolVersions,
    },
    /// They are of two clusters.
    #[error("{one} is of {one_cluster}, and {other} is of {other_cluster}")]
    Cluster {
        /// A node.
        one: NodeId,
        /// Its cluster.
        one_cluster: ClusterId,
        /// The other node.
        other: NodeId,
        /// The cluster of that one.
        other_cluster: ClusterId,
    },
    /// The connection has reached another node than it was meant for.
    #[error("{from} wanted {wanted} and has reached {reached}: which node is at that address?")]
    WrongNode {
        /// Who has opened the connection.
        from: NodeId,
        /// For whom.
        wanted: NodeId,
        /// Who is there.
        reached: NodeId,
    },
    /// One writes what the other does not read.
    #[error(
        "{writer} writes {writes}, and {reader} reads up to {reads}: bring the program of {reader} up to date first"
    )]
    Format {
        /// The node of the newer program.
        writer: NodeId,
        /// What it writes.
        writes: FormatVersion,
        /// The node of the older program.
        reader: NodeId,
        /// The newest that it reads.
        reads: FormatVersion,
    },
    /// It is no node of this cluster that is known here.
    #[error("{other} is not among the nodes that {own} knows")]
    UnknownNode {
        /// Who it says to be.
        other: NodeId,
        /// Who does not know it.
        own: NodeId,
    },
    /// It says to be elsewhere than it is known to be.
    #[error("{other} says to be at {said}, and {own} knows it at {known}")]
    Address {
        /// Who it says to be.
        other: NodeId,
        /// Where it says to be.
        said: NodeAddress,
        /// Who knows it elsewhere.
        own: NodeId,
        /// Where.
        known: NodeAddress,
    },
    /// Its certificate is that of another host.
    #[error("the certificate of who says to be {other} is not for {host}, where {own} knows that node")]
    Certificate {
        /// Who it says to be.
        other: NodeId,
        /// Where that node is.
        host: String,
        /// Who knows that.
        own: NodeId,
    },
    /// A newer process of that node has been met.
    #[error("{other} was met in {newest}, and this is {found}: an older process of it is still there")]
    OldIncarnation {
        /// The node.
        other: NodeId,
        /// The newest that was met.
        newest: Incarnation,
        /// The one that is there now.
        found: Incarnation,
    },
}

/// In what the node that has opened a connection and the one that it has reached do not fit by their greetings alone.
pub(super) fn misfit_of_greetings(opener: &Greeting, reached: &Greeting) -> Option<Misfit> {
    let (one, other) = (opener.node, reached.node);
    let (one_versions, other_versions) = (opener.versions, reached.versions);
    if one_versions.oldest > other_versions.newest || other_versions.oldest > one_versions.newest {
        return Some(Misfit::Versions { one, one_versions, other, other_versions });
    }
    if opener.cluster != reached.cluster {
        let (one_cluster, other_cluster) = (opener.cluster, reached.cluster);
        return Some(Misfit::Cluster { one, one_cluster, other, other_cluster });
    }
    if opener.meant_for != reached.node {
        return Some(Misfit::WrongNode { from: one, wanted: opener.meant_for, reached: other });
    }
    misfit_of_formats(opener, reached).or_else(|| misfit_of_formats(reached, opener))
}

fn misfit_of_formats(writer: &Greeting, reader: &Greeting) -> Option<Misfit> {
    let (writes, reads) = (writer.formats.writes, reader.formats.reads);
    (writes > reads).then_some(Misfit::Format { writer: writer.node, writes, reader: reader.node, reads })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::options::Formats;

    fn greeting(node: u32) -> Greeting {
        Greeting {
            versions: ProtocolVersions { oldest: 2, newest: 4 },
            cluster: ClusterId::new(7),
            node: NodeId::new(node),
            meant_for: NodeId::new(3 - node),
            incarnation: Incarnation::new(1),
            address: format!("127.0.0.{node}:7001").parse().unwrap(),
            formats: Formats::up_to(FormatVersion::new(9)),
        }
    }

    #[test]
    fn those_that_have_all_in_common_fit() {
        assert_eq!(misfit_of_greetings(&greeting(1), &greeting(2)), None);
        for (oldest, newest) in [(1, 2), (4, 4), (4, 9), (1, 9)] {
            let other = Greeting { versions: ProtocolVersions { oldest, newest }, ..greeting(2) };
            assert_eq!(misfit_of_greetings(&greeting(1), &other), None);
        }
        // A newer program that still writes what the older one reads.
        let formats = Formats { writes: FormatVersion::new(9), reads: FormatVersion::new(10) };
        assert_eq!(misfit_of_greetings(&greeting(1), &Greeting { formats, ..greeting(2) }), None);
    }

    #[test]
    fn what_does_not_fit_is_named_with_both_sides() {
        let versions =
            |oldest, newest| Greeting { versions: ProtocolVersions { oldest, newest }, ..greeting(2) };
        let formats =
            |newest| Greeting { formats: Formats::up_to(FormatVersion::new(newest)), ..greeting(2) };
        let cases = [
            (versions(5, 6), "n1 speaks versions 2 to 4", "n2 speaks versions 5 to 6"),
            (versions(1, 1), "n1 speaks versions 2 to 4", "n2 speaks version 1:"),
            (Greeting { cluster: ClusterId::new(8), ..greeting(2) }, "of cluster 7", "of cluster 8"),
            (Greeting { node: NodeId::new(5), ..greeting(2) }, "wanted n2", "reached n5"),
            (formats(10), "n2 writes format 10", "n1 reads up to format 9"),
            (formats(8), "n1 writes format 9", "n2 reads up to format 8"),
        ];
        for (reached, one, other) in cases {
            let text = misfit_of_greetings(&greeting(1), &reached).unwrap().to_string();
            assert!(text.contains(one) && text.contains(other), "{text}");
        }
    }
}
