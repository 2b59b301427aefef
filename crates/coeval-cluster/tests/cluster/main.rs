// SPDX-License-Identifier: Apache-2.0
//! Nodes that run the protocol of epochs over real sockets and real logs, in one process.
//!
//! Each stands at 127.0.0.N behind a proxy that stalls and cuts. Every load is a batch of known sum over several bricks; a
//! reader finds all of it or nothing.
#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod ages;
mod codes;
mod coming;
mod cuts;
mod deletes;
mod figures;
mod going;
mod keepers;
mod lag;
mod listing;
mod loading;
mod loads;
mod nodes;
#[path = "../transport/proxy.rs"]
#[allow(dead_code, reason = "each of the two test programs uses a part of it")]
mod proxy;
mod replicas;
mod restarts;
mod rows;
mod shares;
mod sums;
mod texts;
