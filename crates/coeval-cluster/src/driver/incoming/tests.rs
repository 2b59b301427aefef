// SPDX-License-Identifier: Apache-2.0
//! Tests of the module above.

use super::is_of;
use crate::brick_change::BrickChange;
use crate::driver::{CommitWait, TABLE, loopback_tables, row_of, start_on_loopback};
use crate::node::{Incarnation, NodeId};
use crate::transport::Sender;
use crate::wire::{Alive, BrickAnswer, BrickRequest, Frame};
use coeval_txn::cluster::{
    Body, BrickAddress, HolderBody, HolderSays, KeeperPlace, KeeperSays, KeeperTerm, Member, Message,
    ToKeeper, ViewNumber,
};
use coeval_txn::{Epoch, EpochSet};
use std::time::Duration;

#[test]
fn a_frame_is_taken_only_from_whose_name_it_is_in() {
    let member = |node| Member { node: NodeId::new(node), incarnation: Incarnation::new(5) };
    let said_by = |node| {
        let (from, view) = (member(node), ViewNumber::new(1));
        let message = Message { from, to: member(1), view, clock: Epoch::new(1), body: Body::Meet };
        [
            Frame::Protocol(message),
            Frame::ToKeeper(ToKeeper::Join { member: from, log_since: from.incarnation }),
            Frame::ToKeeper(ToKeeper::Complete { from, layout: view }),
            Frame::Alive(Alive {
                member: from,
                followed: view,
                recovered: KeeperTerm::default(),
                unheard: Vec::new(),
            }),
            Frame::Keeper(KeeperSays::Ask(KeeperPlace { term: KeeperTerm::new(1, 0), node: from.node })),
            Frame::Holder(HolderSays {
                from: from.node,
                log_since: from.incarnation,
                to: KeeperTerm::new(1, 0),
                body: HolderBody::Newer(KeeperTerm::new(2, 0)),
            }),
        ]
    };
    let sender = Sender { node: NodeId::new(2), incarnation: Incarnation::new(5) };
    assert!(said_by(2).iter().all(|frame| is_of(frame, sender)));
    assert!(!said_by(3).iter().any(|frame| is_of(frame, sender)));
}

/// The protocol would log rows, and answer for them, that are no rows of the brick.
#[test]
fn rows_from_another_node_are_checked_before_they_are_taken() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (brick, rows) = row_of(&loopback_tables().unwrap(), 3, 7).unwrap();
    runtime.block_on(async {
        let nodes = start_on_loopback(2, 2, directory.path(), runtime.handle()).await.unwrap();
        let (from, to) = (nodes[1].life().member, nodes[0].life().member);
        let other = BrickAddress { brick: 4, ..brick };
        let unknown = BrickAddress { table: 9, ..brick };
        let appends = [
            (brick, rows.clone(), 0),
            (other, rows.clone(), 1),
            (brick, rows.slice(..rows.len() - 1), 2),
            (unknown, rows, 3),
        ];
        for (brick, rows, refused) in appends {
            let life = nodes[0].life();
            let said = life.step(|engine| {
                let epoch = Epoch::new(engine.protocol.latest_committed().get() + 1_026);
                let body = Body::Append { epoch, number: refused, brick, rows: BrickChange::Rows(rows) };
                let (view, clock) = (engine.view(), epoch);
                let message = Message { from, to, view, clock, body };
                engine.receive(from.node, Frame::Protocol(message));
                engine.counts.refused
            });
            assert_eq!(said, Some(u64::from(refused)));
            assert_eq!(life.look(|engine| engine.store.failure()), Some(None));
        }
        for node in nodes {
            node.stop().await;
        }
    });
}

/// Who is at another view may know outcomes that this node does not, or the other way round; what is not here is not empty;
/// and what purge has taken is no answer.
#[test]
fn a_reader_gets_what_is_here_at_the_same_view() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let tables = loopback_tables().unwrap();
    let bricks: Vec<_> = (0..16).map(|brick| BrickAddress { table: TABLE, brick }).collect();
    runtime.block_on(async {
        let nodes = start_on_loopback(2, 1, directory.path(), runtime.handle()).await.unwrap();
        let mut load = nodes[1].begin().await.unwrap();
        for brick in &bricks {
            let (brick, row) = row_of(&tables, brick.brick, 7).unwrap();
            load.append(brick, row).await.unwrap();
        }
        load.commit(CommitWait::Decided).await.unwrap();
        while nodes[0].status().unwrap().latest_safe == Epoch::ZERO {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let life = nodes[0].life();
        let given = life.look_into(|engine| {
            let (view, newest) = (engine.view(), engine.protocol.latest_committed());
            let here = |brick: &&BrickAddress| engine.holders(**brick).contains(&NodeId::new(1));
            let here: Vec<BrickAddress> = bricks.iter().filter(here).copied().collect();
            let mut ask = |view, brick, newest| {
                let snapshot = EpochSet::through(newest);
                let given = engine.give(NodeId::new(2), &BrickRequest::Read { view, brick, snapshot });
                given.map(|given| given[0].1.changes().len())
            };
            for brick in &bricks {
                let expected = if here.contains(brick) { Ok(1) } else { Err(BrickAnswer::NotNow) };
                assert_eq!(ask(view, *brick, newest), expected, "{brick:?}");
            }
            let brick = here[0];
            assert_eq!(ask(view.next(), brick, newest), Err(BrickAnswer::NotNow));
            assert_eq!(ask(view, brick, Epoch::ZERO), Err(BrickAnswer::BelowSafe));
        });
        assert!(given.is_some() && bricks.len() == 16);
        for node in nodes {
            node.stop().await;
        }
    });
}
