// SPDX-License-Identifier: Apache-2.0
//! A node that cannot go on.

use super::*;
use crate::driver::start_on_loopback;

/// Longest wait for something that has to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fails, after [`PATIENCE`], if it is said no more than that the cluster has gone on without the life before: whoever waited for the end of
/// the node, which is the server, waited for the next life for ever, and told those who asked for its rows to try again.
#[test]
fn a_node_that_does_not_come_back_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let nodes = runtime.block_on(start_on_loopback(1, 1, directory.path(), runtime.handle())).unwrap();
    // Nothing can be opened there any more.
    let own = directory.path().join("n1");
    std::fs::rename(&own, directory.path().join("aside")).unwrap();
    std::fs::write(&own, "").unwrap();
    nodes[0].life().end(EndReason::Left);
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, nodes[0].ended()).await });
    let why = ended.expect("it has ended");
    assert!(matches!(&why, StartError::Ended(why) if why.contains("it does not come back")), "{why}");
}
