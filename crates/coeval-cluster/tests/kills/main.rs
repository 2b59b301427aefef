// SPDX-License-Identifier: Apache-2.0
//! Real processes that are killed, stopped and started again under loads.
//!
//! This program starts itself as nodes. In each round some of them are killed with SIGKILL, or stopped for a while, and
//! started again; all the while each node loads and reads. Every load is a batch of known sum, and some rows with texts that
//! its number tells; each snapshot shows all of it or nothing; and now and then all that there is is deleted. At the end all nodes show the same, nothing that was
//! acknowledged is missing but what was deleted, all replicas of a brick agree, and all is there still when one node is gone.
//!
//! `COEVAL_CLUSTER_ROUNDS` asks for more rounds (a few by default), `COEVAL_CLUSTER_SEED` for others.
#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod child;
mod parent;
mod process;
#[path = "../cluster/rows.rs"]
#[allow(dead_code, reason = "each of the two test programs uses a part of it")]
mod rows;
mod words;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|first| first == child::MARK) {
        child::run(&arguments[2..]);
        return;
    }
    // What lists tests asks all programs for theirs.
    if arguments.iter().any(|argument| argument == "--list") {
        println!("kills: test");
        return;
    }
    parent::run();
}
