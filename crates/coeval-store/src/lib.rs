//! Worlds, row tables, catalog, commit pipeline, log, checkpoint and recovery.
