// SPDX-License-Identifier: Apache-2.0
//! What a command line makes of a node.

use super::*;
use crate::arguments::{Arguments, Command};
use clap::Parser;

/// The arguments of a server that is started so.
fn served(line: &str) -> ServeArguments {
    let words = ["coeval", "serve"].into_iter().chain(line.split_whitespace());
    match Arguments::try_parse_from(words).unwrap().command {
        Command::Serve(arguments) => *arguments,
        other => panic!("{other:?}"),
    }
}

const NODES: &str = "--cluster-nodes 1@127.0.0.1:7001,2@127.0.0.1:7002,3@localhost:7003";

/// Which node a command line means.
fn found(line: &str) -> Result<ListedNode, String> {
    let arguments = served(&format!("d {line}")).node;
    let found =
        nodes(&arguments).and_then(|nodes| own(&arguments, arguments.cluster.as_ref().unwrap(), &nodes));
    found.map_err(said)
}

fn said(failure: Failure) -> String {
    match failure {
        Failure::Usage(message) | Failure::Work(message) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_is_told_by_its_address_or_its_number() {
    assert_eq!(found(&format!("--cluster 127.0.0.1:7002 {NODES}")).unwrap().number, 2);
    let behind_a_port = found(&format!("--cluster 127.0.0.1:9000 {NODES} --cluster-node 3")).unwrap();
    assert_eq!((behind_a_port.number, behind_a_port.address.to_string()), (3, "localhost:7003".to_owned()));
    for (line, what) in [
        (format!("--cluster 127.0.0.1:9000 {NODES}"), "no node at 127.0.0.1:9000"),
        (format!("--cluster 127.0.0.1:7001 {NODES} --cluster-node 4"), "no node 4"),
        ("--cluster a:1 --cluster-nodes 1@a:1,1@b:1".to_owned(), "both node 1"),
        ("--cluster a:1 --cluster-nodes 1@a:1,2@a:1".to_owned(), "both at a:1"),
        ("--cluster a:1 --cluster-nodes 1025@a:1".to_owned(), "up to 1024"),
    ] {
        let refused = found(&line).unwrap_err();
        assert!(refused.contains(what), "{line}: {refused}");
    }
}

/// To break it: take hosts for this machine's that are none of its. Whoever reaches the port reads all then.
#[test]
fn without_certificates_nobody_comes_from_elsewhere() {
    let secured = |line: &str| {
        let arguments = served(&format!("d {line}")).node;
        let nodes = nodes(&arguments).unwrap();
        security(&arguments, arguments.cluster.as_ref().unwrap(), &nodes).map_err(said)
    };
    assert!(matches!(secured(&format!("--cluster 127.0.0.1:7001 {NODES}")), Ok(Security::LoopbackOnly)));
    for line in [
        "--cluster 127.0.0.1:1 --cluster-nodes 1@127.0.0.1:1,2@10.0.0.2:1",
        "--cluster 127.0.0.1:1 --cluster-nodes 1@127.0.0.1:1,2@db2:1",
        "--cluster 0.0.0.0:1 --cluster-nodes 1@127.0.0.1:1 --cluster-node 1",
    ] {
        let refused = secured(line).unwrap_err();
        assert!(refused.contains("--cluster-certificates"), "{line}: {refused}");
        let secured = secured(&format!("{line} --cluster-certificates certificates"));
        let Ok(Security::Certificates(files)) = &secured else { panic!("{secured:?}") };
        assert_eq!(files.key, Path::new("certificates/node.key"));
    }
}

/// To break it: let a node that is no copy of the primary's database begin; it has another id, and nobody talks to it.
#[test]
fn the_first_node_is_the_primary_and_others_follow() {
    let directory = tempfile::tempdir().unwrap();
    let settled = |folder: &str, line: &str, number: u32| {
        let arguments = served(&format!("d --cluster 127.0.0.1:700{number} {NODES} {line}"));
        let nodes = nodes(&arguments.node).unwrap();
        let asked = NodeSettings { cluster: 9, node: number, stride: STRIDE, replicas: 2 };
        settle(&directory.path().join(folder), asked, &arguments, &nodes).map_err(said)
    };
    let refused = settled("first", "--replica-of host=db1,user=copy", 1).unwrap_err();
    assert!(refused.contains("is the primary"), "{refused}");
    let refused = settled("second", "", 2).unwrap_err();
    assert!(refused.contains("--replica-of"), "{refused}");
    let (settings, foundation) = settled("first", "", 1).unwrap();
    assert_eq!((settings.node, foundation), (1, Foundation::Pending));
    settled("second", "--replica-of host=db1,user=copy", 2).unwrap();
    // Later, another one may be the primary of row tables.
    settled("first", "--replica-of host=db2,user=copy", 1).unwrap();
    settled("second", "", 2).unwrap();
    let refused = settled("second", "--replica-of host=db1,user=copy", 3).unwrap_err();
    assert!(refused.contains("--cluster-node"), "{refused}");
}

#[test]
fn the_options_of_a_node_belong_together() {
    let refused = |line: &str| {
        let words = ["coeval", "serve"].into_iter().chain(line.split_whitespace());
        Arguments::try_parse_from(words).is_err()
    };
    assert!(refused("d --cluster 127.0.0.1:7001"), "it has to know the others");
    assert!(refused(&format!("d {NODES}")), "it has to listen");
    assert!(refused(&format!("--in-memory --cluster 127.0.0.1:7001 {NODES}")), "nodes have directories");
    assert!(refused(&format!("d --cluster 127.0.0.1:7001 {NODES} --cluster-replicas 0")));
    let arguments = served(&format!("d --cluster 127.0.0.1:7001 {NODES}"));
    assert_eq!((arguments.node.cluster_nodes.len(), arguments.node.cluster_replicas), (3, 2));
}
