// SPDX-License-Identifier: Apache-2.0
//! The threads of a server.

use crate::options::ServerOptions;
use std::io;
use tokio::runtime::{Builder, Runtime};

/// Threads beside those of sessions that may wait at the same time.
const SPARE: usize = 16;

/// A runtime for a server with these options: so many threads that the others are served when all sessions but one
/// wait for a lock, the disk or a query.
///
/// Threads are made when they are needed. Each has room for the deepest statement, of which only what is used is ever
/// taken from the system.
///
/// # Errors
/// What the system answers.
pub fn runtime(options: &ServerOptions) -> io::Result<Runtime> {
    let workers = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    Builder::new_multi_thread()
        .worker_threads(workers)
        .max_blocking_threads(options.connections_max.saturating_add(SPARE))
        .thread_name("coeval-serve")
        .thread_stack_size(coeval::STATEMENT_STACK_BYTES)
        .enable_all()
        .build()
}
