//! Worlds, row tables, catalog, commit pipeline, log, checkpoint and recovery.

pub mod files;
pub mod log;
