// SPDX-License-Identifier: Apache-2.0
//! The node of a server: the keeper of views beside that of a primary, and what its readers go by.

use super::own_node::Stage;
use super::trial_node::{self, TABLES, Trial, number_of, rows};
use super::{Founding, Node, attempt, newest_named, rows_of, run};
use arrow::array::RecordBatch;
use coeval::{Cluster, ClusterSnapshot, Database};
use coeval_cluster::{ChangeNodesError, CommitWait, Epoch, NodeId};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// A failover may lose rows that are not confirmed. Their load would be there without them.
///
/// To break it: have `newest_named` not ask whether they are.
#[test]
fn what_has_become_of_rows_is_not_said_before_they_are_confirmed() {
    let dir = tempfile::tempdir().unwrap();
    {
        let database = Database::open(dir.path()).unwrap();
        database.engine().store().note_brick_age(Epoch::new(7)).unwrap();
        database.session().run("SET synchronous_standby_names = 'nobody'").unwrap();
    }
    let database = Database::open(dir.path()).unwrap();
    let store = database.engine().store();
    assert_eq!((store.has_confirmed(), newest_named(store)), (false, None));
    assert_eq!(rows_of(store, Founding::GoOn).newest(), Epoch::new(7), "readers may see them");
    assert_eq!(rows_of(store, Founding::Found).newest(), Epoch::ZERO, "another cluster's");
    database.session().run("SET synchronous_standby_names = ''").unwrap();
    let begun = Instant::now();
    while newest_named(store) != Some(Epoch::new(7)) {
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody is waited for any more");
        std::thread::sleep(Duration::from_millis(1));
    }
}

async fn load(node: &Node, table: u64, numbers: Range<i64>) -> Epoch {
    let mut load = node.begin().await.unwrap();
    load.append_rows(table, &rows(numbers)).await.unwrap();
    let epoch = load.epoch();
    load.commit(CommitWait::Decided).await.unwrap();
    epoch
}

/// How many rows of a table a snapshot sees.
async fn count(snapshot: &dyn ClusterSnapshot, table: u64) -> usize {
    let mut count = 0;
    for brick in snapshot.bricks(table).await.unwrap() {
        let rows = snapshot.rows(table, brick, vec![0]).await.unwrap();
        count += rows.iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    count
}

/// To break it: have `OwnNode` say that it has no ages, or give its newest snapshot at any age.
#[test]
fn readers_go_by_ages_and_see_nothing_later() {
    let dir = tempfile::tempdir().unwrap();
    let mut trial = Trial::begin(dir.path());
    trial_node::run(&trial.database, TABLES[0]);
    trial.declarations.follow().unwrap();
    trial.start.options.expects_ages = true;
    let (node, hits) = (trial.node(), number_of(&trial.database, "hits"));
    let own = trial.own_node(Stage::Runs(node.clone()));
    let ages = own.ages().expect("readers of rows go by them");
    trial.runtime.block_on(async {
        let (first, second) = (load(&node, hits, 0..10).await, load(&node, hits, 10..30).await);
        for (age, expected) in [(first, 10), (second, 30), (first, 10)] {
            let snapshot = ages.snapshot_at(age).await.unwrap();
            assert_eq!(count(&*snapshot, hits).await, expected, "at {age}");
        }
        node.stop().await;
    });
}
