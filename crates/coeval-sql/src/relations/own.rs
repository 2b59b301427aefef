// SPDX-License-Identifier: Apache-2.0
//! The relations that are found without a schema.

/// Our own relations, which are in no schema.
const OWN: [&str; 13] = [
    "coeval_bricks",
    "coeval_cluster_nodes",
    "coeval_conflicts",
    "coeval_dimensions",
    "coeval_epochs",
    "coeval_ingest_offsets",
    "coeval_lock_waits",
    "coeval_memory",
    "coeval_safe_snapshots",
    "coeval_snapshots",
    "coeval_store",
    "coeval_tables",
    "coeval_transactions",
];

/// Whether this is the name of a relation of ours.
pub(crate) fn is_own(name: &str) -> bool {
    OWN.contains(&name)
}

/// Whether a name without a schema means a relation of the system.
pub(crate) fn is_unqualified(name: &str) -> bool {
    is_own(name) || name.starts_with("pg_") && super::is_known(name)
}
