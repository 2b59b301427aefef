// SPDX-License-Identifier: Apache-2.0
//! The keeper of views beside the node of a primary.

use super::own_node::Stage;
use super::trial_node::Trial;
use super::{Founding, attempt, run};
use coeval_cluster::{ChangeNodesError, NodeId};
use std::sync::Arc;

/// To break it: have `run` start each keeper in term 1, or in any but that of the primary.
#[test]
fn the_keeper_is_of_the_term_of_its_primary() {
    const NOBODY: NodeId = NodeId::new(9);
    let dir = tempfile::tempdir().unwrap();
    let mut trial = Trial::begin(dir.path());
    trial.start.term = Some(7);
    let Ok(node) = attempt(&trial.start, &trial.declarations) else { panic!("it does not start") };
    let own = Arc::new(trial.own_node(Stage::Starting));
    let Trial { database: _database, start, declarations: _declarations, runtime } = trial;
    let running = runtime.spawn(run(start, node.clone(), own));
    runtime.block_on(async {
        node.serves().await.unwrap();
        while !matches!(node.drain(NOBODY).await, Err(ChangeNodesError::Refused(_))) {}
        for (term, is_refused) in [(6, true), (8, false)] {
            // As beside a primary before it, and one behind it. Who is refused ends, and nobody answers any more.
            node.start_keeper(Founding::GoOn, term).await.unwrap();
            let asked = node.drain(NOBODY).await;
            assert_eq!(asked == Err(ChangeNodesError::NoKeeper), is_refused, "term {term}: {asked:?}");
        }
        node.stop().await;
        running.await.unwrap();
    });
}
