// SPDX-License-Identifier: Apache-2.0
//! Settings that PostgreSQL's clients set or ask for and that change nothing here: what they would change does
//! not exist, or always is as they say.

use super::known::{Domain, Known, known};
use super::reals::Real;

const TUNING: &str = "Accepted; the planner has no such choice.";
const LIMIT: &str = "Accepted; memory is bounded for the whole server.";
const LOCALE: &str = "Text compares by bytes.";
const SERVER: &str = "As the server is.";
const STARTED: &str = "As the server was started.";
const CLIENT: &str = "Accepted; changes nothing.";

const COST: Domain = Domain::Real(Real::between(0.0, f64::MAX));
/// A cost of which -1 is none.
const LIMIT_OF_COST: Domain = Domain::Real(Real::between(-1.0, f64::MAX));
const INTEGER: Domain = Domain::Integer { min: -1, max: i32::MAX as i64 };

/// By name.
pub(super) const COMPATIBLE: &[Known] = &[
    known("backslash_quote", "safe_encoding", Domain::Text, CLIENT),
    known("block_size", "8192", Domain::Fixed, "Bytes that clients count pages in."),
    known("check_function_bodies", "on", Domain::Boolean, CLIENT),
    known("constraint_exclusion", "partition", Domain::OneOf(&["partition", "on", "off"]), TUNING),
    known("cpu_index_tuple_cost", "0.005", COST, TUNING),
    known("cpu_operator_cost", "0.0025", COST, TUNING),
    known("cpu_tuple_cost", "0.01", COST, TUNING),
    known("cursor_tuple_fraction", "0.1", Domain::Real(Real::between(0.0, 1.0)), TUNING),
    known("default_statistics_target", "100", INTEGER, TUNING),
    known("default_table_access_method", "heap", Domain::Text, CLIENT),
    known("default_tablespace", "", Domain::Text, CLIENT),
    known("default_text_search_config", "pg_catalog.simple", Domain::Text, CLIENT),
    known("default_toast_compression", "pglz", Domain::Text, CLIENT),
    known("default_with_oids", "off", Domain::OneOf(&["off"]), CLIENT),
    known("effective_cache_size", "524288", Domain::Text, TUNING),
    known("effective_io_concurrency", "1", INTEGER, TUNING),
    known("enable_async_append", "on", Domain::Boolean, TUNING),
    known("enable_bitmapscan", "on", Domain::Boolean, TUNING),
    known("enable_gathermerge", "on", Domain::Boolean, TUNING),
    known("enable_hashagg", "on", Domain::Boolean, TUNING),
    known("enable_hashjoin", "on", Domain::Boolean, TUNING),
    known("enable_incremental_sort", "on", Domain::Boolean, TUNING),
    known("enable_indexonlyscan", "on", Domain::Boolean, TUNING),
    known("enable_indexscan", "on", Domain::Boolean, TUNING),
    known("enable_material", "on", Domain::Boolean, TUNING),
    known("enable_memoize", "on", Domain::Boolean, TUNING),
    known("enable_mergejoin", "on", Domain::Boolean, TUNING),
    known("enable_nestloop", "on", Domain::Boolean, TUNING),
    known("enable_parallel_append", "on", Domain::Boolean, TUNING),
    known("enable_parallel_hash", "on", Domain::Boolean, TUNING),
    known("enable_partition_pruning", "on", Domain::Boolean, TUNING),
    known("enable_partitionwise_aggregate", "off", Domain::Boolean, TUNING),
    known("enable_partitionwise_join", "off", Domain::Boolean, TUNING),
    known("enable_seqscan", "on", Domain::Boolean, TUNING),
    known("enable_sort", "on", Domain::Boolean, TUNING),
    known("enable_tidscan", "on", Domain::Boolean, TUNING),
    known("escape_string_warning", "on", Domain::Boolean, CLIENT),
    known("force_parallel_mode", "off", Domain::OneOf(&["off", "on", "regress"]), TUNING),
    known("from_collapse_limit", "8", INTEGER, TUNING),
    known("geqo", "on", Domain::Boolean, TUNING),
    known("geqo_threshold", "12", INTEGER, TUNING),
    known("hash_mem_multiplier", "2", Domain::Real(Real::between(1.0, 1_000.0)), LIMIT),
    known("jit", "off", Domain::Boolean, TUNING),
    known("jit_above_cost", "100000", LIMIT_OF_COST, TUNING),
    known("jit_inline_above_cost", "500000", LIMIT_OF_COST, TUNING),
    known("jit_optimize_above_cost", "500000", LIMIT_OF_COST, TUNING),
    known("join_collapse_limit", "8", INTEGER, TUNING),
    known("lc_collate", "C", Domain::Fixed, LOCALE),
    known("lc_ctype", "C", Domain::Fixed, LOCALE),
    known("lc_messages", "C", Domain::Text, LOCALE),
    known("lc_monetary", "C", Domain::Text, LOCALE),
    known("lc_numeric", "C", Domain::Text, LOCALE),
    known("lc_time", "C", Domain::Text, LOCALE),
    known("lo_compat_privileges", "off", Domain::Boolean, CLIENT),
    known("maintenance_work_mem", "65536", Domain::Text, LIMIT),
    known("max_connections", "100", Domain::Text, STARTED),
    known("max_index_keys", "32", Domain::Fixed, "Columns of an index that clients ask for."),
    known("max_parallel_maintenance_workers", "2", INTEGER, TUNING),
    known("max_parallel_workers", "8", INTEGER, TUNING),
    known("max_parallel_workers_per_gather", "2", INTEGER, TUNING),
    known("max_stack_depth", "2048", Domain::Text, LIMIT),
    known("min_parallel_index_scan_size", "64", Domain::Text, TUNING),
    known("min_parallel_table_scan_size", "1024", Domain::Text, TUNING),
    known("parallel_leader_participation", "on", Domain::Boolean, TUNING),
    known("parallel_setup_cost", "1000", COST, TUNING),
    known("parallel_tuple_cost", "0.1", COST, TUNING),
    known("password_encryption", "scram-sha-256", Domain::OneOf(&["scram-sha-256"]), SERVER),
    known("quote_all_identifiers", "off", Domain::Boolean, CLIENT),
    known("random_page_cost", "4", COST, TUNING),
    known("role", "none", Domain::Fixed, "The role that the session has taken on."),
    known("row_security", "on", Domain::Boolean, CLIENT),
    known("seq_page_cost", "1", COST, TUNING),
    known("session_authorization", "coeval", Domain::Fixed, "The user of the session."),
    known("session_replication_role", "origin", Domain::OneOf(&["origin", "local"]), CLIENT),
    known("ssl", "off", Domain::Text, STARTED),
    known("stats_fetch_consistency", "cache", Domain::OneOf(&["none", "cache", "snapshot"]), CLIENT),
    known("synchronize_seqscans", "on", Domain::Boolean, TUNING),
    known("tcp_keepalives_count", "0", Domain::Text, CLIENT),
    known("tcp_keepalives_idle", "0", Domain::Text, CLIENT),
    known("tcp_keepalives_interval", "0", Domain::Text, CLIENT),
    known("temp_buffers", "1024", Domain::Text, LIMIT),
    known("timezone_abbreviations", "Default", Domain::Text, CLIENT),
    known("track_counts", "on", Domain::Boolean, CLIENT),
    known("track_functions", "none", Domain::OneOf(&["none", "pl", "all"]), CLIENT),
    known("vacuum_cost_delay", "0", Domain::Real(Real::milliseconds(0.0, 100.0)), CLIENT),
    known("vacuum_cost_limit", "200", INTEGER, CLIENT),
    known("wal_level", "replica", Domain::Fixed, SERVER),
    known("work_mem", "4096", Domain::Text, LIMIT),
    known("xmloption", "content", Domain::Text, CLIENT),
];
