// SPDX-License-Identifier: Apache-2.0
//! Nodes that talk over real sockets, and what may come between them.
//!
//! Nodes stand at 127.0.0.N in one process, each with a runtime of its own where that matters. A proxy in front of a node cuts,
//! stalls and delays.
#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod admission;
mod authority;
mod bounds;
mod calls;
mod certificates;
mod cuts;
mod ending;
mod figures;
mod frames;
mod joining;
mod membership;
mod nodes;
mod other_services;
mod proxy;
mod recorder;
mod strangers;
