// SPDX-License-Identifier: Apache-2.0
//! How an engine is made: with all functions and rules of SQL, and with sessions for statements of its own.

pub(crate) mod template;

use crate::engine::{Engine, Parts};
use crate::error::SqlError;
use crate::memory::{QueryEnvironment, QueryMemory};
use crate::pieces::PushPieces;
use crate::query::{tasks_work_for_their_queries, with_postgres_types};
use crate::session::run_own;
use crate::thread_priority::{QueryPriority, TransactionsShare};
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
        Self::with_share(store, memory, TransactionsShare::default())
    }

    /// As [`with_memory`](Self::with_memory), with this share of processors for transactions beside queries.
    ///
    /// # Errors
    /// As [`new`](Self::new); if the system gives threads no such priority.
    pub fn with_share(
        store: Store,
        memory: &QueryMemory,
        share: TransactionsShare,
    ) -> Result<Arc<Self>, SqlError> {
        let priority = QueryPriority::beside(share)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        tasks_work_for_their_queries();
        let queries = QueryEnvironment::new(memory)?;
        let pieces = Arc::new(PushPieces::default());
        let template = with_postgres_types(template::session_state(threads, queries.query_max(), &pieces)?)?;
        pieces.know(&template);
        let planning = template::planning_state(&template);
        Self::made_of(store, threads, Parts { template, planning, queries, run_own, priority })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn threads_for_queries_have_the_priority_that_was_asked_for_and_others_keep_theirs() {
        use super::{Engine, QueryMemory, Store, TransactionsShare};
        use crate::thread_priority::nice_of_this_thread;
        use coeval_store::StoreOptions;
        use datafusion::common::DataFusionError;

        let before = nice_of_this_thread().unwrap();
        let (store, share) = (Store::in_memory(StoreOptions::default()), TransactionsShare::of_percent(90));
        let engine = Engine::with_share(store, &QueryMemory::default(), share).unwrap();
        let working = engine.runtime().spawn(async { nice_of_this_thread().unwrap() });
        let found = engine
            .runtime()
            .block_on(async { working.await.map_err(|error| DataFusionError::External(Box::new(error))) });
        assert_eq!(found.unwrap(), (before + 10).min(19));
        assert_eq!(nice_of_this_thread().unwrap(), before);
    }
}
