// SPDX-License-Identifier: Apache-2.0
//! Clients that insert rows, and readers of all machines: nothing that was acknowledged with replicas' say, and nothing that
//! anybody was shown, is lost in a failover. Each rule is also switched off, and the loss is seen.

use super::Store;
use super::cluster::{Broken, Clients, Cluster, Counts, is_acknowledged};
use crate::catalog::CatalogChange;
use crate::id_value::{key, row, table};
use crate::replicas::SynchronousCommit;
use crate::transaction::AccessMode;
use coeval_txn::{Isolation, Version};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// See the module.
#[derive(Default)]
pub(super) struct Inserts {
    next: i32,
    acknowledged: BTreeSet<i32>,
    /// What readers of any machine have seen.
    shown: BTreeSet<i32>,
    /// What asks for less than that replicas have it durably: it may be lost, whoever has seen it.
    waived: BTreeSet<i32>,
}

impl Inserts {
    /// How many rows were acknowledged.
    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }
}

/// A commit that nobody has been told of yet.
pub(super) struct Waiting {
    id: i32,
    version: Version,
}

impl Clients for Inserts {
    const CALM: u32 = 0;
    const STEPS: usize = 2_000;

    type Open = Vec<Waiting>;

    fn prepare(store: &Store) {
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.change_catalog(CatalogChange::PutTable(Box::new(table(store, "t")))).unwrap();
        tx.commit().unwrap();
    }

    fn act(cluster: &mut Cluster<Self>) {
        let Some(node) = cluster.any_writable() else { return };
        let (id, level) = (cluster.clients.next, cluster.level_of_commit());
        if level < SynchronousCommit::On {
            cluster.clients.waived.insert(id);
        }
        let node = cluster.node_mut(node);
        let Some(def) = node.store.world().tables().next().map(|table| table.def().clone()) else { return };
        let mut tx = node.store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.insert(def.id, row(&def, id, 0)).unwrap();
        // Without a thread that syncs.
        tx.set_synchronous_commit(level);
        let version = tx.commit_applied().unwrap().version;
        node.open.push(Waiting { id, version });
        cluster.clients.next += 1;
    }

    fn acknowledge(cluster: &mut Cluster<Self>) {
        let Some(node) = cluster.any_writable() else { return };
        let at = cluster.node_mut(node);
        let (told, waiting): (Vec<_>, _) = std::mem::take(&mut at.open)
            .into_iter()
            .partition(|waiting| is_acknowledged(&at.store, waiting.version));
        at.open = waiting;
        for Waiting { id, .. } in told {
            if cluster.clients.waived.contains(&id) {
                continue;
            }
            cluster.clients.acknowledged.insert(id);
            if !cluster.has(cluster.current, id) {
                cluster.lost =
                    Some(format!("{id}, acknowledged by node {node} though there is another primary"));
            }
        }
    }

    /// What readers see everywhere.
    fn look(cluster: &mut Cluster<Self>) {
        for node in 0..cluster.node_count() {
            if cluster.node(node).store.has_confirmed() || cluster.broken == Broken::Unconfirmed {
                let is_seen = |id: &i32| !cluster.clients.waived.contains(id) && cluster.has(node, *id);
                let seen: Vec<_> = (0..cluster.clients.next).filter(is_seen).collect();
                cluster.clients.shown.extend(seen);
            }
        }
    }

    fn look_for_losses(cluster: &mut Cluster<Self>, behind: &str) {
        let is_lost = |id: &&i32| !cluster.has(cluster.current, **id);
        let kinds = [(&cluster.clients.acknowledged, "acknowledged"), (&cluster.clients.shown, "shown")];
        let lost = kinds.into_iter().find_map(|(ids, what)| {
            let lost: Vec<_> = ids.iter().filter(is_lost).collect();
            (!lost.is_empty()).then(|| format!("{lost:?}, {what} before {behind}"))
        });
        cluster.lost = lost.or(cluster.lost.take());
    }
}

impl Cluster<Inserts> {
    fn has(&self, node: usize, id: i32) -> bool {
        let world = self.node(node).store.world();
        world.tables().next().is_some_and(|table| table.get(&key(id)).unwrap().is_some())
    }
}

/// So many seeds; `COEVAL_FAILOVERS` asks for more.
const SEEDS: u64 = 40;

#[test]
fn nothing_acknowledged_or_shown_is_lost_in_a_failover() {
    let seeds = std::env::var("COEVAL_FAILOVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let (mut counts, mut acknowledged) = (Counts::default(), 0);
    for seed in 0..seeds {
        let mut cluster = Cluster::new(seed, Broken::Nothing, Inserts::default());
        let outcome = catch_unwind(AssertUnwindSafe(|| cluster.run()));
        assert!(outcome.is_ok(), "seed {seed}");
        assert_eq!(cluster.lost, None, "seed {seed}");
        assert_eq!(cluster.two_terms, None, "seed {seed}");
        counts += cluster.counts;
        acknowledged += cluster.clients.acknowledged.len();
    }
    println!("{seeds} seeds: {acknowledged} acknowledged, {counts:?}");
    let seeds = seeds as usize;
    let (failovers, refused) = (counts.failovers, counts.refused);
    assert!(failovers > seeds && refused > seeds && acknowledged > 10 * seeds, "too little has happened");
    assert!(counts.again > seeds, "records came again");
    assert!(counts.rewound > seeds / 8, "former primaries were cut back");
    assert!(counts.replicas_rewound > 0, "replicas were cut back");
}

/// The first of many seeds that shows what is looked for, from the one on that has shown it last: a change of what a store does moves
/// that.
fn first_seed(broken: Broken, from: u64, is_seen: impl Fn(&Cluster<Inserts>) -> bool) -> Option<u64> {
    (from..from + 200).find(|seed| {
        let mut cluster = Cluster::new(*seed, broken, Inserts::default());
        cluster.run();
        is_seen(&cluster)
    })
}

#[test]
fn each_rule_that_is_not_kept_loses_something() {
    let rules = [
        (Broken::NoPromises, 10),
        (Broken::FewPromises, 8),
        (Broken::ShorterLog, 7),
        (Broken::Unconfirmed, 0),
        (Broken::AnySuccessor, 74),
        (Broken::AnyUpstream, 82),
        (Broken::AcknowledgedUnsynced, 0),
    ];
    for (broken, from) in rules {
        let found = first_seed(broken, from, |cluster| cluster.lost.is_some());
        println!("{broken:?}: lost with seed {found:?}");
        assert!(found.is_some(), "{broken:?}: nothing was lost");
    }
}

#[test]
fn without_promises_a_term_has_two_primaries() {
    let found = first_seed(Broken::NoPromises, 15, |cluster| cluster.two_terms.is_some());
    println!("two of a term with seed {found:?}");
    assert!(found.is_some(), "no term had two primaries");
}
