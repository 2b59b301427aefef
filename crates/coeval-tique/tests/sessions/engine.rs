// SPDX-License-Identifier: Apache-2.0
//! The engine that a test runs on: DataFusion, or the one whose driver a variable of the environment names.

use coeval_tique::{AdbcEngine, DataFusionEngine, Engine, MonetDbEngine};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The engine with a database of the test's own.
pub(crate) fn in_memory() -> Arc<dyn Engine> {
    let named = |engine: &str| std::env::var(format!("COEVAL_TIQUE_{engine}")).ok();
    if let Some(library) = named("DUCKDB") {
        Arc::new(AdbcEngine::duckdb(Path::new(&library), None).unwrap())
    } else if let Some(library) = named("MONETDB") {
        Arc::new(MonetDbEngine::open(Path::new(&library), None).unwrap())
    } else if let Some(library) = named("SQLITE") {
        Arc::new(AdbcEngine::sqlite(Path::new(&library), None).unwrap())
    } else if let Some(library) = named("POSTGRESQL") {
        Arc::new(postgresql(Path::new(&library)))
    } else {
        Arc::new(DataFusionEngine::in_memory().unwrap())
    }
}

/// PostgreSQL, in a database of this test's own.
fn postgresql(library: &Path) -> AdbcEngine {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("tique_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    postgresql_in(library, &name)
}

/// PostgreSQL, in the database of this name, made if it is not there. `COEVAL_TIQUE_POSTGRESQL_ADDRESS` is the server's address
/// without a database.
pub(crate) fn postgresql_in(library: &Path, name: &str) -> AdbcEngine {
    let address = std::env::var("COEVAL_TIQUE_POSTGRESQL_ADDRESS").unwrap();
    let maker = AdbcEngine::postgresql(library, &format!("{address}/postgres")).unwrap();
    // One that is there already is refused.
    drop(maker.connect().unwrap().execute(&format!("CREATE DATABASE {name}")));
    drop(maker);
    AdbcEngine::postgresql(library, &format!("{address}/{name}")).unwrap()
}
