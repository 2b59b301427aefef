// SPDX-License-Identifier: Apache-2.0
//! What a command line makes of a node.

use super::*;
use crate::arguments::{Arguments, Command, ServeArguments};
use clap::Parser;
use coeval_cluster::NodeId;
use tokio::runtime::{Builder, Runtime};

/// The arguments of a server that is started so.
fn served(line: &str) -> ServeArguments {
    let words = ["coeval", "serve", "d"].into_iter().chain(line.split_whitespace());
    match Arguments::try_parse_from(words).unwrap().command {
        Command::Serve(arguments) => *arguments,
        other => panic!("{other:?}"),
    }
}

fn said(failure: Failure) -> String {
    match failure {
        Failure::Usage(message) | Failure::Work(message) => message,
        other => panic!("{other:?}"),
    }
}

/// Threads for whoever asks.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// What becomes of a server that is started so, whose database has this id.
fn begun(
    directory: &Path,
    line: &str,
    (database, role): (u64, Role),
) -> Result<(Membership, Founding), String> {
    let arguments = served(line).node;
    let ask = ask_options(&arguments, arguments.cluster.as_ref().unwrap(), database).map_err(said)?;
    let runtime = runtime();
    belong(directory, &arguments, (&ask, role), runtime.handle()).map_err(said)
}

const HERE: &str = "--cluster 127.0.0.1:7001";

/// To break it: take hosts for this machine's that are none of its. Whoever reaches the port reads all then.
#[test]
fn without_certificates_nobody_comes_from_elsewhere() {
    let secured = |line: &str| {
        let arguments = served(line).node;
        security(&arguments, arguments.cluster.as_ref().unwrap()).map_err(said)
    };
    assert!(matches!(secured(&format!("{HERE} --join localhost:7002")), Ok(Security::LoopbackOnly)));
    for line in [
        "--cluster db2:7001",
        "--cluster 127.0.0.1:1 --join 127.0.0.1:2,10.0.0.2:1",
        "--cluster 127.0.0.1:1 --cluster-address db2:1",
        "--cluster 0.0.0.0:1 --cluster-address 127.0.0.1:1",
    ] {
        let refused = secured(line).unwrap_err();
        assert!(refused.contains("--cluster-certificates"), "{line}: {refused}");
        let secured = secured(&format!("{line} --cluster-certificates certificates"));
        let Ok(Security::Certificates(files)) = &secured else { panic!("{secured:?}") };
        assert_eq!(files.key, Path::new("certificates/node.key"));
    }
}

/// To break it: let a replica make a cluster, or a primary join one. There are two clusters of one database then, or one of two.
#[test]
fn a_primary_makes_a_cluster_and_replicas_join_it() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("cluster");
    for (line, database, what) in [
        (HERE.to_owned(), (9, Role::Replica), "--join"),
        (format!("{HERE} --join 127.0.0.1:7002"), (9, Role::Primary), "--replica-of"),
        (HERE.to_owned(), (0, Role::Primary), "no id yet"),
    ] {
        let refused = begun(&directory, &line, database).unwrap_err();
        assert!(refused.contains(what), "{line}: {refused}");
        assert!(!directory.exists(), "nothing is begun");
    }
    let (membership, founding) = begun(&directory, HERE, (9, Role::Primary)).unwrap();
    assert_eq!((membership.node, membership.cluster), (NodeId::new(1), ClusterId::new(9)));
    assert_eq!((membership.replicas, founding), (2, Founding::Found));
}

/// To break it: look at the command line at each start, or found again where there were records of views.
#[test]
fn a_node_goes_on_as_its_directory_says() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("cluster");
    let line = format!("{HERE} --cluster-replicas 3 --cluster-address localhost:7001");
    let (first, _) = begun(&directory, &line, (9, Role::Primary)).unwrap();
    assert_eq!((first.replicas, first.address().unwrap().to_string()), (3, "localhost:7001".to_owned()));
    // There was a crash before there were records: it founds again.
    let (_, founding) = begun(&directory, HERE, (9, Role::Primary)).unwrap();
    assert_eq!(founding, Founding::Found);
    folder::end_founding(&directory).unwrap();
    // Later another one may be the primary of row tables, and an address to ask is of no use, and does no harm.
    for line in [HERE.to_owned(), format!("{HERE} --join 127.0.0.1:7009")] {
        let (again, founding) = begun(&directory, &line, (9, Role::Replica)).unwrap();
        assert_eq!((again.node, again.replicas, founding), (NodeId::new(1), 3, Founding::GoOn));
    }
    let refused = begun(&directory, &format!("{HERE} --cluster-replicas 2"), (9, Role::Primary)).unwrap_err();
    assert!(refused.contains("--cluster-replicas says 2"), "{refused}");
    let refused = begun(&directory, HERE, (8, Role::Primary)).unwrap_err();
    assert!(refused.contains("cluster 9") && refused.contains("database 8"), "{refused}");
}

#[test]
fn the_options_of_a_node_belong_together() {
    let refused = |line: &str| {
        let words = ["coeval", "serve"].into_iter().chain(line.split_whitespace());
        Arguments::try_parse_from(words).is_err()
    };
    assert!(refused("d --join 127.0.0.1:7001"), "it has to listen");
    assert!(refused(&format!("--in-memory {HERE}")), "nodes have directories");
    assert!(refused(&format!("d {HERE} --cluster-replicas 0")));
    assert!(
        refused(&format!("d {HERE} --cluster-replicas 2 --join 127.0.0.1:7002")),
        "that is fixed by then"
    );
    let arguments = served(&format!("{HERE} --join 127.0.0.1:7002,db3:7003"));
    assert_eq!((arguments.node.join.len(), arguments.node.cluster_replicas), (2, None));
}
