// SPDX-License-Identifier: Apache-2.0
//! What of a load goes in which frames; loads that are one transaction with rows.

use super::CommitWait;
use crate::driver::{LoadError, Node, loopback_tables, row_of, start_on_loopback};
use crate::node::NodeId;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Whether something that the first node has said to the second one waits for what it says next.
fn something_waits(from: &Node, to: u32) -> bool {
    from.life().look(|engine| engine.outgoing.contains_key(&NodeId::new(to))).unwrap()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// To break it: have `MessageFrame::is_awaited` always say so; or leave out `sends_all` where rows are appended, or where time goes by.
#[test]
fn a_begin_goes_with_the_first_rows_or_after_a_moment() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (brick, row) = row_of(&loopback_tables().unwrap(), 3, 7).unwrap();
    runtime.block_on(async {
        let nodes = start_on_loopback(3, 1, directory.path(), runtime.handle()).await.unwrap();
        // Time may go by in between, now and then.
        let mut waited = false;
        for _ in 0..100 {
            let mut load = nodes[0].begin().await.unwrap();
            waited = [2, 3].iter().all(|node| something_waits(&nodes[0], *node));
            load.append(brick, row.clone()).await.unwrap();
            assert!(![2, 3].iter().any(|node| something_waits(&nodes[0], *node)), "whoever has the brick");
            load.commit(CommitWait::Decided).await.unwrap();
            if waited {
                break;
            }
        }
        assert!(waited, "a begin has a frame of its own");
        let load = nodes[0].begin().await.unwrap();
        let epoch = load.epoch();
        for node in &nodes[1..] {
            let has_heard = || {
                let life = node.life();
                life.look(|engine| engine.protocol.pending().any(|pending| pending == epoch)) == Some(true)
            };
            until("a begin is not told", has_heard).await;
        }
        drop(load);
        for node in nodes {
            node.stop().await;
        }
    });
}

/// To break it: leave out `sends_all` where time goes by. The first node would remember the load, and tell of its decision again.
#[test]
fn that_a_decision_was_heard_is_said_after_a_moment() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (brick, row) = row_of(&loopback_tables().unwrap(), 3, 7).unwrap();
    runtime.block_on(async {
        let nodes = start_on_loopback(2, 2, directory.path(), runtime.handle()).await.unwrap();
        let heard = || {
            let messages = nodes[0].status().unwrap().messages;
            messages.named().find(|(kind, _)| *kind == "heard").unwrap().1.received
        };
        let before = heard();
        let mut load = nodes[0].begin().await.unwrap();
        load.append(brick, row).await.unwrap();
        load.commit(CommitWait::Decided).await.unwrap();
        until("nobody says to have heard", || heard() > before).await;
        for node in nodes {
            node.stop().await;
        }
    });
}

/// To break it: have `Load::prepare` commit; or have it not look at what `name` says.
#[test]
fn a_load_is_decided_when_the_rows_are_there_that_it_is_one_transaction_with() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (brick, row) = row_of(&loopback_tables().unwrap(), 3, 7).unwrap();
    let patience = Duration::from_secs(30);
    runtime.block_on(async {
        let nodes = start_on_loopback(2, 2, directory.path(), runtime.handle()).await.unwrap();
        let mut load = nodes[0].begin().await.unwrap();
        load.append(brick, row.clone()).await.unwrap();
        let mut named = load.prepare(patience).await.unwrap().unwrap();
        named.expect_rows(Arc::new(AtomicBool::new(true)));
        let (epoch, age) = (named.epoch(), named.age());
        assert!(age >= epoch && nodes.iter().all(|node| node.newest_shown() < Some(epoch)));
        named.decide();
        assert!(nodes[0].newest_shown() >= Some(age));
        drop(nodes[1].snapshot_at(age).await.unwrap());

        // Without rows of its own it is nothing.
        let empty = nodes[0].begin().await.unwrap();
        assert!(empty.prepare(patience).await.unwrap().is_none());

        let mut older = nodes[1].begin().await.unwrap();
        older.append(brick, row.clone()).await.unwrap();
        let oldest = older.epoch();
        let is_known = || {
            let pending =
                nodes[0].life().look(|engine| engine.protocol.pending().any(|pending| pending == oldest));
            pending == Some(true)
        };
        until("an older load is not told", is_known).await;
        let mut load = nodes[0].begin().await.unwrap();
        load.append(brick, row.clone()).await.unwrap();
        let refused = load.prepare(Duration::from_millis(100)).await;
        assert!(matches!(refused, Err(LoadError::NotNamed { .. })), "{refused:?}");

        drop(older);
        let mut load = nodes[0].begin().await.unwrap();
        load.append(brick, row.clone()).await.unwrap();
        load.prepare(patience).await.unwrap().unwrap().roll_back();
        let mut load = nodes[0].begin().await.unwrap();
        load.append(brick, row.clone()).await.unwrap();
        // Nobody expects its rows.
        drop(load.prepare(patience).await.unwrap().unwrap());
        let mut load = nodes[0].begin().await.unwrap();
        load.append(brick, row.clone()).await.unwrap();
        let mut named = load.prepare(patience).await.unwrap().unwrap();
        // They are expected, and something panics before they are handed in.
        named.expect_rows(Arc::default());
        drop(named);
        let mut last = nodes[0].begin().await.unwrap();
        last.append(brick, row).await.unwrap();
        let epoch = last.epoch();
        last.commit(CommitWait::Decided).await.unwrap();
        until("what was rolled back holds up others", || nodes[0].newest_shown() >= Some(epoch)).await;
        for node in nodes {
            node.stop().await;
        }
    });
}
