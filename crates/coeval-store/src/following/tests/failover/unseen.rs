// SPDX-License-Identifier: Apache-2.0
//! Rules of which nobody has seen yet what becomes of them if they are not kept: each has a switch, and a schedule in which a loss is
//! likely. A test that finds one belongs beside the others (`inserts.rs`, `chains_changes_slots.rs`), with the seed. How to run
//! these: `docs/trust.md`, Switches that nobody has seen yet.
//!
//! | switch | what is lost | with |
//! |---|---|---|
//! | `AcknowledgedUnsynced` | a commit that one replica has acknowledged and not synced, which dies behind that; another one is promoted that had not got it yet | three machines, of which two have it |

use super::cluster::{Broken, Cluster, Extra};
use super::inserts::Inserts;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// So many seeds are tried, from `COEVAL_FAILOVERS_FROM` on; `COEVAL_FAILOVERS` says how many others.
const TRIES: u64 = 400;

/// Of three machines, or of five.
#[derive(Clone, Copy)]
enum Machines {
    Three,
    Five,
}

impl Machines {
    /// As [`Cluster::with`] takes seeds: every third one is of five.
    fn seed(self, number: u64) -> u64 {
        match self {
            Self::Three => number + number / 2 + 1,
            Self::Five => number * 3,
        }
    }
}

fn asked_for(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn see(broken: Broken, extra: Extra, machines: Machines) {
    let from = asked_for("COEVAL_FAILOVERS_FROM").unwrap_or(0);
    let tries = asked_for("COEVAL_FAILOVERS").unwrap_or(TRIES);
    let found = (from..from + tries).find_map(|number| {
        let seed = machines.seed(number);
        let mut cluster = Cluster::with(seed, broken, Inserts::default(), extra);
        // The product may find out by itself, and stops: another seed shows what it would have come to.
        let _ = catch_unwind(AssertUnwindSafe(|| cluster.run()));
        Some((number, cluster.lost.clone().or_else(|| cluster.two_terms.clone())?))
    });
    println!("{broken:?}, {extra:?}, {tries} seeds from {from} on: {found:?}");
    assert!(found.is_some(), "nothing was seen");
}

#[test]
#[ignore = "nobody has seen it yet: docs/trust.md says how to run it"]
fn what_is_acknowledged_before_it_is_durable_is_seen() {
    see(Broken::AcknowledgedUnsynced, Extra::Nothing, Machines::Three);
}

#[test]
fn every_seed_is_of_as_many_machines_as_are_asked_for() {
    for number in 0..10 {
        assert!(
            !Machines::Three.seed(number).is_multiple_of(3) && Machines::Five.seed(number).is_multiple_of(3)
        );
    }
    assert_eq!([0, 1, 2, 3].map(|number| Machines::Three.seed(number)), [1, 2, 4, 5], "each once");
}
