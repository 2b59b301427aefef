// SPDX-License-Identifier: Apache-2.0
//! The engine that a test runs on: DataFusion, or the one whose driver a variable of the environment names.

use coeval_tique::sqlparser::ast::DataType as SqlType;
use coeval_tique::{AdbcEngine, DataFusionEngine, Dialect, Engine, MonetDbEngine, Nulls};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The engine with a database of the test's own.
pub(crate) fn in_memory() -> Arc<dyn Engine> {
    let named = |engine: &str| std::env::var(format!("COEVAL_TIQUE_{engine}")).ok();
    if let Some(library) = named("DUCKDB") {
        Arc::new(duckdb(Path::new(&library), None))
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

/// DuckDB. With `COEVAL_TIQUE_BY_DRIVER` as an engine that the crate does not know.
pub(crate) fn duckdb(library: &Path, file: Option<&Path>) -> AdbcEngine {
    match std::env::var_os("COEVAL_TIQUE_BY_DRIVER") {
        Some(_) => by_driver(library, file),
        None => AdbcEngine::duckdb(library, file).unwrap(),
    }
}

/// DuckDB, by its driver and what is said of it here.
pub(crate) fn by_driver(library: &Path, file: Option<&Path>) -> AdbcEngine {
    let dialect = Dialect {
        name: "another engine",
        text: "VARCHAR",
        nulls: Nulls::Above,
        spelled: |kind| {
            let has_none = matches!(kind, SqlType::Bytea | SqlType::Interval { .. } | SqlType::JSONB);
            (!has_none).then(|| kind.clone())
        },
        ..Dialect::STANDARD
    };
    let path = file.map(|file| file.to_string_lossy().into_owned());
    let options: Vec<_> = path.iter().map(|path| ("path", path.as_str())).collect();
    AdbcEngine::open(library, c"duckdb_adbc_init", &options, dialect).unwrap()
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
