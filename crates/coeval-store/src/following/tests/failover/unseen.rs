// SPDX-License-Identifier: Apache-2.0
//! Rules of which nobody has seen yet what becomes of them if they are not kept: each has a switch, and a schedule in which a loss is
//! likely. A test that finds one belongs beside the others (`inserts.rs`, `chains_changes_slots.rs`), with the seed. How to run
//! these: `docs/trust.md`, Switches that nobody has seen yet.
//!
//! | switch | what is lost | with |
//! |---|---|---|
//! | `NewestListAlone` | a commit that waited by a list of replicas that was to be replaced: the successor has enough promises by the newer list, of which those that have the commit are no part | five machines, lists that change |
//!
//! It was seen as long as machines here closed their files before they crashed, so that everything was synced. Of machines that crash as
//! they should, 400 of five were tried. How it happens is shown step by step in `following/tests/changed_list.rs`: two lists of three that
//! have one machine in common, and a change that one machine alone has. Dice seldom give that.

use super::cluster::{Broken, Cluster, Extra};
use super::inserts::Inserts;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// So many seeds are tried, from `COEVAL_FAILOVERS_FROM` on; `COEVAL_FAILOVERS` says how many others.
const TRIES: u64 = 400;

/// Every third seed is of five machines, as [`Cluster::with`] takes them.
const FIVE_MACHINES: u64 = 3;

fn asked_for(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn see(broken: Broken, extra: Extra) {
    let from = asked_for("COEVAL_FAILOVERS_FROM").unwrap_or(0);
    let tries = asked_for("COEVAL_FAILOVERS").unwrap_or(TRIES);
    let found = (from..from + tries).find_map(|number| {
        let mut cluster = Cluster::with(number * FIVE_MACHINES, broken, Inserts::default(), extra);
        // The product may find out by itself, and stops: another seed shows what it would have come to.
        let _ = catch_unwind(AssertUnwindSafe(|| cluster.run()));
        Some((number, cluster.lost.clone().or_else(|| cluster.two_terms.clone())?))
    });
    println!("{broken:?}, {extra:?}, {tries} seeds from {from} on: {found:?}");
    assert!(found.is_some(), "nothing was seen");
}

#[test]
#[ignore = "nobody has seen it yet: docs/trust.md says how to run it"]
fn promises_by_the_newest_list_alone_are_seen() {
    see(Broken::NewestListAlone, Extra::Changes);
}
