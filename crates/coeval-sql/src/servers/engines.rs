// SPDX-License-Identifier: Apache-2.0
//! What a server's options say: which engine it is, and how TiQuE works on it.

use crate::error::{SqlError, SqlState};
use coeval_tique::{
    AdbcEngine, Certification, DataFusionEngine, Durability, EngineErrorKind, MonetDbEngine, Options, Writes,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names of engines, for messages.
const ENGINES: &str = "datafusion, duckdb, monetdb, postgresql, sqlite";
/// The options of every server.
const OF_TIQUE: [&str; 3] = ["certification", "checkpoint_at", "writes"];

/// Opens an engine.
///
/// # Errors
/// `22023` for an engine or option that does not exist; what the engine says.
pub(crate) fn driver(
    kind: &str,
    options: &BTreeMap<String, String>,
) -> Result<Arc<dyn coeval_tique::Engine>, SqlError> {
    check(kind, options)?;
    let path = options.get("path").map(PathBuf::from);
    let refused = |error: coeval_tique::EngineError| {
        let state = match error.kind {
            EngineErrorKind::Lost | EngineErrorKind::Gone => SqlState::ConnectionFailure,
            EngineErrorKind::Refused | EngineErrorKind::Full | EngineErrorKind::Busy => SqlState::FdwError,
        };
        SqlError::new(state, format!("engine {kind} cannot be opened: {error}"))
    };
    Ok(match (kind, path) {
        ("datafusion", Some(path)) => {
            Arc::new(DataFusionEngine::open(&path, Durability::Machine).map_err(refused)?)
        }
        ("datafusion", None) => Arc::new(DataFusionEngine::in_memory().map_err(refused)?),
        ("postgresql", _) => {
            let library = options.get("library").map_or("libadbc_driver_postgresql.so", String::as_str);
            let address = options.get("address").map_or("postgresql://", String::as_str);
            Arc::new(AdbcEngine::postgresql(Path::new(library), address).map_err(refused)?)
        }
        ("sqlite", path) => {
            let library = options.get("library").map_or("libadbc_driver_sqlite.so", String::as_str);
            Arc::new(AdbcEngine::sqlite(Path::new(library), path.as_deref()).map_err(refused)?)
        }
        ("monetdb", path) => {
            let library = options.get("library").map_or("libmonetdbe.so", String::as_str);
            Arc::new(MonetDbEngine::open(Path::new(library), path.as_deref()).map_err(refused)?)
        }
        (_, path) => {
            let library = options.get("library").map_or("libduckdb.so", String::as_str);
            Arc::new(AdbcEngine::duckdb(Path::new(library), path.as_deref()).map_err(refused)?)
        }
    })
}

/// How TiQuE works on a server.
///
/// # Errors
/// `22023` for a value that an option does not take.
pub(crate) fn settings(options: &BTreeMap<String, String>) -> Result<Options, SqlError> {
    let mut settings = Options::default();
    let refused = |option: &str, value: &str, values: &str| {
        let message = format!("option \"{option}\" is not \"{value}\"");
        SqlError::new(SqlState::InvalidParameterValue, message).with_hint(format!("It is {values}."))
    };
    for (option, value) in options {
        match (option.as_str(), value.as_str()) {
            ("certification", "engine") => settings.certification = Certification::InEngine,
            ("certification", "process") => settings.certification = Certification::InProcess,
            ("certification", other) => return Err(refused(option, other, "engine or process")),
            ("writes", "buffered") => settings.writes = Writes::Buffered,
            ("writes", "at_once") => settings.writes = Writes::AtOnce,
            ("writes", other) => return Err(refused(option, other, "buffered or at_once")),
            ("checkpoint_at", versions) => {
                let refused =
                    |_| refused(option, versions, "a number of versions; 0: there are no checkpoints");
                settings.checkpoint_at = versions.parse().map_err(refused)?;
            }
            _ => {}
        }
    }
    Ok(settings)
}

/// Refuses engines and options that do not exist, and values that they do not take.
///
/// # Errors
/// `22023`, with those that do.
pub(crate) fn check(kind: &str, options: &BTreeMap<String, String>) -> Result<(), SqlError> {
    let known: &[&str] = match kind {
        "datafusion" => &["path"],
        "duckdb" | "monetdb" | "sqlite" => &["library", "path"],
        "postgresql" => &["address", "library"],
        other => {
            let message = format!("there is no engine \"{other}\"");
            let hint = format!("There are {ENGINES}.");
            return Err(SqlError::new(SqlState::InvalidParameterValue, message).with_hint(hint));
        }
    };
    let mut known = known.to_vec();
    known.extend(OF_TIQUE);
    match options.keys().find(|key| !known.contains(&key.as_str())) {
        None => settings(options).map(drop),
        Some(option) => {
            let message = format!("engine {kind} has no option \"{option}\"");
            let hint = format!("Its options are: {}.", known.join(", "));
            Err(SqlError::new(SqlState::InvalidParameterValue, message).with_hint(hint))
        }
    }
}
