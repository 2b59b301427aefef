// SPDX-License-Identifier: Apache-2.0
//! How an engine is made: with all functions and rules of SQL, and with sessions for statements of its own.

pub(crate) mod template;

use crate::engine::{Engine, Parts};
use crate::error::SqlError;
use crate::memory::{QueryEnvironment, QueryMemory};
use crate::pieces::PushPieces;
use crate::query::{tasks_work_for_their_queries, with_postgres_types};
use crate::session::run_own;
use coeval_store::Store;
use std::sync::Arc;

impl Engine {
    /// The engine over this store, with default options for memory.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn new(store: Store) -> Result<Arc<Self>, SqlError> {
        Self::with_memory(store, &QueryMemory::default())
    }

    /// As [`new`](Self::new), with this memory for queries.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_memory(store: Store, memory: &QueryMemory) -> Result<Arc<Self>, SqlError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        tasks_work_for_their_queries();
        let queries = QueryEnvironment::new(memory)?;
        let pieces = Arc::new(PushPieces::default());
        let template = with_postgres_types(template::session_state(threads, queries.query_max(), &pieces)?)?;
        pieces.know(&template);
        let planning = template::planning_state(&template);
        Self::made_of(store, threads, Parts { template, planning, queries, run_own })
    }
}
